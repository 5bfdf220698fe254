"""python -m benchmarks.sync: adapters merged into the engine's weights, or swapped as adapters.

Merging moves all weights once an update, and compares a few tokens. Swapping moves the adapters
alone, and pays in every token that is drawn. Random weights of a small Qwen3's shape, vLLM on
whatever is there.
"""

import os
import tempfile
import time
from pathlib import Path
from statistics import median

import torch
from peft import LoraConfig, get_peft_model
from transformers import Qwen3Config, Qwen3ForCausalLM

from evidence.results import save_run, take_json_flag

os.environ |= {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_LOGGING_LEVEL": "ERROR"}
SHAPE = dict(hidden_size=512, intermediate_size=1536, num_hidden_layers=12, num_attention_heads=8,
             num_key_value_heads=4, head_dim=64, vocab_size=16_384)  # fmt: skip
PROMPTS, TOKENS, RANK, ROUNDS = 16, 128, 32, 5


def engine(folder: str, **more):
    from vllm import LLM

    room = {} if torch.cuda.is_available() else {
        "dtype": "float32", "enforce_eager": True, "kv_cache_memory_bytes": 2**28,
        "enable_chunked_prefill": False,
    }  # fmt: skip
    return LLM(model=folder, skip_tokenizer_init=True, max_model_len=512,
               logprobs_mode="processed_logprobs", **room, **more)  # fmt: skip


def drawn(llm, seed: int, lora=None) -> float:
    """Seconds of one batch."""
    from vllm import SamplingParams

    params = SamplingParams(max_tokens=TOKENS, ignore_eos=True, detokenize=False, logprobs=0,
                            temperature=1.0, seed=seed)  # fmt: skip
    prompts = [{"prompt_token_ids": [i + 1] * 200} for i in range(PROMPTS)]
    began = time.perf_counter()
    llm.generate(prompts, params, use_tqdm=False, lora_request=lora)
    return time.perf_counter() - began


def main() -> None:
    from vllm import __version__
    from vllm.lora.request import LoRARequest

    from minprm.constants import Engine
    from minprm.load.vllm import VLLM

    path = take_json_flag()
    told = {}
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(Qwen3Config(**SHAPE))
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        plain = engine(folder)
        swapped = engine(folder, enable_lora=True, max_lora_rank=RANK)
        adapters = LoraConfig(r=RANK, target_modules="all-linear", init_lora_weights=False)
        model = get_peft_model(model, adapters)
        sampler = VLLM(model, plain, Engine())
        rows = {"merge": [], "swap": [], "draw merged": [], "draw swapped": []}
        for i in range(ROUNDS + 1):
            began = time.perf_counter()
            sampler.sync()
            sampler.begin()
            rows["merge"].append(time.perf_counter() - began)
            began = time.perf_counter()
            model.save_pretrained(Path(folder) / f"{i}")
            request = LoRARequest(f"{i}", i + 1, str(Path(folder) / f"{i}"))
            swapped.llm_engine.add_lora(request)
            rows["swap"].append(time.perf_counter() - began)
            rows["draw merged"].append(drawn(plain, i))
            rows["draw swapped"].append(drawn(swapped, i, request))
    size = sum(p.numel() for p in model.parameters())
    print(f"{size:,} parameters, rank {RANK}, torch {torch.__version__}; medians of {ROUNDS}")
    for name, seconds in rows.items():
        seconds = seconds[1:]  # the first round warms up
        told[name] = {"median": median(seconds), "low": min(seconds), "high": max(seconds)}
        print(f"{name:<14}{median(seconds):>8.3f} s   [{min(seconds):.3f}, {max(seconds):.3f}]")
    interval = f"median of {ROUNDS}, smallest and largest"
    save_run(path, [0], interval, told, parameters=size, rank=RANK, vllm=__version__)


if __name__ == "__main__":
    main()
