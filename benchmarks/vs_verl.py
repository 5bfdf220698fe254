"""OMP_NUM_THREADS=1 python -m benchmarks.vs_verl [--json FILE]: verl's update beside minprm's.

In one process, as a ratio. Six minutes.

verl is its own engine for transformers models (FSDPEngineWithLMHead) and its own PPO loss: forward
passes, loss, backward, clipping, AdamW. Left out is what one process on a CPU does not need: ray,
sharding, and its device, which has to be CUDA or an NPU and is told here to be a CPU. Both sides
get the same ids, in turns, and must find the same gradient norms before anything is timed.

verl runs with what was fastest here: padded rows in micro-batches of 2,048 tokens, sdpa, no
checkpointing, no entropy. All rows at once took 1.1 times as long, 4,096 tokens about as long, and
packed rows, which it reads with FlashAttention on a GPU, 1.1 times (1,024) and 1.6 times (2,048).
Packed rows of 512 took as long, but the longest completions do not fit into them.

verl 0.9 asks for an older transformers than minprm, and runs with minprm's. In an environment of
its own, without trl, of which it would import what is gone:

    pip install verl==0.9.1 torch==2.13.0
    pip install transformers==5.19 loguru tyro matplotlib tensorboard  # pip objects; it runs
"""

import os
from copy import deepcopy
from functools import partial
from types import SimpleNamespace

import torch
import transformers
import verl
from tensordict import TensorDict
from torch import Tensor
from verl.plugin.platform import set_platform
from verl.plugin.platform.platform_cuda import PlatformCUDA

from benchmarks import peers
from benchmarks.cost import count_learned, timed
from benchmarks.peers import GROUP, Regime
from evidence.results import save_run, take_json_flag
from minprm.constants import Optim, Sampled
from minprm.data import Sample
from minprm.model.policy import Policy
from minprm.model.sampler import Sampler

AGGREGATIONS = {"sequence": "seq-mean-token-mean", "token": "token-mean"}  # ours: verl's
MICRO_TOKENS = 2048


class CPU(PlatformCUDA):
    """What verl asks of its device, answered for a CPU."""

    device_name = "cpu"
    device_module = torch.cpu

    def current_device(self) -> str:
        return "cpu"

    def communication_backend_name(self) -> str:
        return "gloo"


set_platform(CPU())  # verl's modules look at their device while they are imported
from verl.utils import tensordict_utils  # noqa: E402
from verl.workers.config import (  # noqa: E402
    FSDPActorConfig,
    FSDPEngineConfig,
    FSDPOptimizerConfig,
)
from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead  # noqa: E402
from verl.workers.utils.losses import ppo_loss  # noqa: E402


class Engine(FSDPEngineWithLMHead):
    """verl's engine around a model that is given, in one process."""

    def __init__(self, model, lr: float):
        self.given = model
        optimizer = FSDPOptimizerConfig(
            lr=lr, weight_decay=0.0, betas=(0.9, 0.95), clip_grad=1.0, total_training_steps=100,
            lr_warmup_steps=0,
        )  # fmt: skip
        shape = SimpleNamespace(use_remove_padding=False, lora_rank=0)
        super().__init__(shape, FSDPEngineConfig(use_torch_compile=False), optimizer, None)
        self._build_model_optimizer()

    def _build_module(self):
        return self.given

    def _build_fsdp_module(self, module):
        self._autocast_dtype = torch.float32
        return module


def batch_of(samples: list[Sample]) -> TensorDict:
    """What verl's trainer hands to its engine: one nested tensor for each thing it knows."""
    prompts = [torch.tensor(sample.parent.ids) for sample in samples]
    answers = [torch.tensor(sample.ids) for sample in samples]
    rows = [torch.cat(both) for both in zip(prompts, answers, strict=True)]
    ones = nested([torch.ones(len(ids)) for ids in answers])
    parts = {
        "input_ids": nested(rows),
        "position_ids": nested([torch.arange(len(ids)) for ids in rows]),
        "prompts": nested(prompts),
        "responses": nested(answers),
        "loss_mask": ones,
        "response_mask": ones.clone(),
        "old_log_probs": nested([torch.tensor(sample.logprobs) for sample in samples]),
        "advantages": nested([torch.tensor(sample.advantages) for sample in samples]),
    }
    batch = TensorDict(parts, batch_size=len(samples))
    tensordict_utils.assign_non_tensor(
        batch, temperature=1.0, global_batch_size=len(samples), use_remove_padding=False,
        use_dynamic_bsz=True, max_token_len_per_gpu=MICRO_TOKENS,
    )  # fmt: skip
    return batch


def nested(rows: list[Tensor]) -> Tensor:
    return torch.nested.as_nested_tensor(rows, layout=torch.jagged)


def train(model, tokenizer, regime: Regime, aggregation: str, lr: float, steps: int) -> dict:
    """verl and minprm in turns, from equal weights. Seconds and tokens, without the first step."""
    cfg = Sampled(loss="ppo_clip")
    optim = Optim(aggregation=aggregation)
    sampler = Sampler(deepcopy(model))
    p = Policy(deepcopy(model), tokenizer, 16_384)
    engine = Engine(deepcopy(model), lr)
    loss = partial(ppo_loss, actor(aggregation))
    read = {"verl": count_learned(engine.module), "minprm": count_learned(p.model)}
    prompts = tokenizer(peers.prompts_of(regime))["input_ids"]
    stops = [tokenizer.eos_token_id]
    norms = {"verl": [], "minprm": []}
    seconds = {"verl": [], "minprm": []}
    for seed in range(steps):
        drawn = sampler.generate(prompts, GROUP, regime.longest, stops, 1.0, seed)
        samples = peers.grouped(prompts, drawn)
        with engine.train_mode():
            found, took = timed(engine.train_batch, batch_of(samples), loss)
        norms["verl"].append(found["metrics"]["grad_norm"])
        seconds["verl"].append(took)
        stats, took = timed(p.update, samples, cfg, lr, 1.0, optim)
        norms["minprm"].append(stats["policy/grad_norm"])
        seconds["minprm"].append(took)
    peers.require_same(norms["minprm"], norms["verl"], f"{aggregation}, learning rate {lr:g}")
    return {
        "peer": seconds["verl"][1:],
        "ours": seconds["minprm"][1:],
        "read": {side: sum(tokens) / steps for side, tokens in read.items()},
    }


def actor(aggregation: str) -> FSDPActorConfig:
    """verl's loss as PPO's own. Without clip_ratio_c it would clip a second time, at 3."""
    return FSDPActorConfig(
        strategy="fsdp", loss_agg_mode=AGGREGATIONS[aggregation], clip_ratio_low=0.2,
        clip_ratio_high=0.28, clip_ratio_c=1e6, ppo_micro_batch_size_per_gpu=1, rollout_n=GROUP,
    )  # fmt: skip


def compare(name: str, regime: Regime) -> dict:
    """Checks, then times. The rows of the table."""
    tokenizer = peers.words()
    model = peers.model_of(tokenizer, regime.average)
    print(name)
    for aggregation in AGGREGATIONS:
        train(model, tokenizer, regime, aggregation, peers.CHECKED_LR, peers.CHECKED)
    found = train(model, tokenizer, regime, "token", peers.TIMED_LR, peers.TIMED + 1)
    return peers.update_rows("verl", found["peer"], found["ours"], found["read"])


if __name__ == "__main__":
    path = take_json_flag()
    peers.prepare()
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29500", RANK="0", WORLD_SIZE="1")
    torch.distributed.init_process_group("gloo")
    print(f"verl {verl.__version__}, transformers {transformers.__version__}, "
          f"torch {torch.__version__}, one thread, fp32, CPU seconds")  # fmt: skip
    rows = {}
    for name, regime in peers.REGIMES.items():
        rows[name] = compare(name, regime)
    save_run(path, [0], peers.INTERVAL, rows, ["verl"])
