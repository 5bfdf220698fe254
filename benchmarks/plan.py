"""python -m benchmarks.plan [--json FILE]: 8 and 64 GPUs, on paper.

Nothing is run. Memory and bytes are those of `minprm train --dry-run --processes N`, for models of
Qwen3's shapes (the config.json of Qwen/Qwen3-0.6B, -4B and -32B). Each GPU reads 16,384 tokens at
once, with checkpointing; vLLM writes, and sleeps while weights are trained. Adapters have rank 32.

    card        H100 SXM: 80 GB, 989 bf16 TFLOPS without sparsity, NVLink with 450 GB/s each way
                (NVIDIA's data sheet); torch reaches 40 % of the TFLOPS (an assumption)
    network     machines of 8 GPUs, 400 Gbit/s between two of them: 50 GB/s
    sending     bytes over the slowest link of the ring; whatever slows that down comes on top
    computing   8 operations a weight and token with checkpointing: 2 forward, twice, and 4 backward
    vLLM        of so many cards that its weights in bf16 take no more than half of what is left
    snapshot    bytes that pass through the first process: weights and two moments, in fp32
"""

from itertools import product

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from benchmarks.gpu import QWEN_4B, QWEN_600M
from evidence.results import save_run, take_json_flag
from minprm.commands.dry_run import CONTEXT
from minprm.commands.memory import count, memory, sent
from minprm.constants import Config, Engine

QWEN_32B = dict(
    hidden_size=5120, intermediate_size=25_600, num_hidden_layers=64, num_attention_heads=64,
    num_key_value_heads=8, head_dim=128, tie_word_embeddings=False,
)  # fmt: skip
MODELS = {"0.6B": QWEN_600M, "4B": QWEN_4B, "32B": QWEN_32B}
WEIGHTS = {"adapters": 32, "all": 0}  # what is trained, and the rank of adapters
PROCESSES = (8, 64)
MACHINE = 8  # GPUs of one
CARD = 80e9  # bytes
FLOPS = 0.4 * 989e12
NVLINK = 450e9  # bytes a second
NETWORK = 50e9
TOGETHER = (1, 2, 4, 8)  # cards of one vLLM engine, all in one machine


def plan(model: Qwen3ForCausalLM, lora: int, processes: int) -> dict[str, float]:
    """What each process holds and sends."""
    # as `auto` chooses: the name is that of no model here, so it is asked for no adapters
    shard = "never" if lora else "always"
    cfg = Config(
        model="tiny", lora=lora, processes=processes, shard=shard, checkpointing=True,
        sampler="vllm", engine=Engine(memory=0.01, sleep=True),
    )  # fmt: skip
    total, trained = count(model, lora)
    base = total - trained if lora else total  # weights that every token passes
    needed = memory(model, cfg, CARD)  # while it learns: vLLM is looked at below
    learning, *sync = sent(model, cfg).values()
    link = NVLINK if processes <= MACHINE else NETWORK
    # vLLM is awake while nothing is read with a gradient; what is trained stays where it is
    kept = needed["weights"] + needed["gradients and AdamW's two moments, fp32"]
    left = CARD - CONTEXT - kept
    fitting = [k for k in TOGETHER if 2 * base / k <= left / 2]
    return {
        "total": total,
        "trained": trained,
        "learning_gb": needed["sum"] / 1e9,
        "fits": needed["sum"] <= CARD - CONTEXT and bool(fitting),
        "left_for_vllm_gb": left / 1e9,
        "cards_of_an_engine": fitting[0] if fitting else 0,
        "sent_gb": learning / 1e9,
        "sending_s": learning / link,
        # of a micro-batch; where it has fewer tokens than that, sending takes longer
        "computing_s": 8 * base * cfg.micro_tokens / FLOPS,
        "hidden_tokens": 0 if lora else learning / link * FLOPS / (8 * base),
        "sync_gb": sum(sync) / 1e9,
        "sync_s": sum(sync) / link,
        "snapshot_gb": 12 * trained / 1e9,
    }


def main(path: str) -> None:
    rows = {}
    for (name, shape), (what, lora), n in product(MODELS.items(), WEIGHTS.items(), PROCESSES):
        with torch.device("meta"):
            model = Qwen3ForCausalLM(Qwen3Config(vocab_size=151_936, **shape))
        rows[f"{name}, {what}, {n}"] = row = plan(model, lora, n)
        print(f"{name}, {what}, {n} GPUs")
        for key, value in row.items():
            print(f"    {key:<22}{value:>16,.3f}")
    save_run(path, [0], "counted, not measured: no number depends on a seed", rows)


if __name__ == "__main__":
    main(take_json_flag())
