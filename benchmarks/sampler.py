"""python -m benchmarks.sampler [--sizes NAME ...] [--rounds N]: tokens drawn in a CPU second.

The plain sampler, transformers' `generate` and vLLM (where it is installed) write with the same
weights, in one process, and take turns. Each draws the same number of tokens for the same
prompts, from the whole vocabulary at temperature 1; none stops early. The plain sampler and vLLM
also give log-probs, `generate` does not. What was kept of a prompt is dropped before each round, so
all of them read all prompts. OMP_NUM_THREADS sets threads; seven minutes on one, four of them vLLM.
`--sizes SmolLM2` is the pretrained model itself, as examples/smollm2.py makes it; half an hour. All
write in fp32. In `--sizes "SmolLM2, bf16"` all but vLLM write in bf16, for a processor that
multiplies it.

    --llama FOLDER   llama.cpp writes with SmolLM2, too: by its `llama-batched-bench`, which must be
                     found, and by fp32.gguf, bf16.gguf and q4_1.gguf in this folder. q4_1.gguf is
                     what PyPI has, and `llama-quantize --allow-requantize` makes the others of it.

llama.cpp reads one prompt for all completions there and draws from no distribution. So its time is
put together from two speeds: that of reading, for all prompts, and that of writing all completions
at once.
"""

import argparse
import json
import os
import random
import subprocess
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import NamedTuple

import torch
import transformers
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    GenerationConfig,
    PreTrainedModel,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from benchmarks.cost import timed
from evidence.results import save_run, take_json_flag
from examples.smollm2 import smollm2
from minprm.constants import Engine
from minprm.load import vllm
from minprm.load.threads import set_threads
from minprm.model import precision
from minprm.model.sampler import Sampler

ROUNDS = 5
CONTEXT = 512  # tokens of vLLM's longest sequence
BLOCK = 128  # tokens that its cache is taken by, on a CPU


class Size(NamedTuple):
    """A model, and what it draws: a group of completions for each prompt."""

    layers: int
    width: int
    head_dim: int
    heads: int  # of keys and values
    vocabulary: int
    prompts: int
    group: int
    shortest: int  # tokens of a prompt, at least
    longest: int
    new: int  # tokens of a completion
    bf16: bool = False

    @property
    def drawn(self) -> int:
        return self.prompts * self.group * self.new


SIZES = {
    "embedded": Size(2, 64, 32, 4, 60, 32, 8, 28, 32, 32),
    "4 x 256": Size(4, 256, 64, 4, 1008, 4, 8, 208, 256, 64),
    "12 x 512": Size(12, 512, 64, 8, 30_000, 16, 4, 112, 144, 64),
    "SmolLM2": Size(30, 576, 64, 3, 49_152, 8, 8, 290, 290, 32),
    "SmolLM2, bf16": Size(30, 576, 64, 3, 49_152, 8, 8, 290, 290, 32, bf16=True),
}
RANDOM = [name for name in SIZES if "SmolLM2" not in name]


def is_smollm2(size: Size) -> bool:
    """In either precision."""
    return size in (SIZES["SmolLM2"], SIZES["SmolLM2, bf16"])


def model_of(size: Size) -> PreTrainedModel:
    """A Qwen3 of this size, with random weights, or SmolLM2."""
    if is_smollm2(size):
        model = AutoModelForCausalLM.from_pretrained(smollm2(), dtype=torch.float32).eval()
        model.generation_config.eos_token_id = None  # it ends no completion here
        precision.make_head_fp32(model)  # as whoever loads it for a run
        return model
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=size.vocabulary, hidden_size=size.width, intermediate_size=3 * size.width,
        num_hidden_layers=size.layers, num_attention_heads=size.heads, head_dim=size.head_dim,
        num_key_value_heads=size.heads, tie_word_embeddings=True, pad_token_id=0,
        eos_token_id=None, bos_token_id=None,
    )  # fmt: skip
    return Qwen3ForCausalLM(config).eval()


def prompts_of(size: Size) -> list[list[int]]:
    rng = random.Random(0)
    prompts = []
    for _ in range(size.prompts):
        length = rng.randint(size.shortest, size.longest)
        prompts.append([rng.randrange(1, size.vocabulary) for _ in range(length)])
    return prompts


# --- the writers: each returns a function that draws once, and the number of tokens it drew ---


def plain(model: PreTrainedModel, size: Size) -> Callable[[int], int]:
    """The plain sampler."""
    return drawing(Sampler(model), size, forget=lambda writer: writer.begin())


def engine(model: PreTrainedModel, size: Size) -> Callable[[int], int]:
    """vLLM, with as much cache as all sequences need at once."""
    token = 2 * 4 * size.layers * size.heads * size.head_dim  # bytes of its keys and values
    tokens = size.longest + size.new + BLOCK
    vllm.CPU_CACHE = token * tokens * size.prompts * size.group
    writer = vllm.start_engine(model, Engine(), CONTEXT)
    return drawing(writer, size, forget=lambda writer: writer.llm.reset_prefix_cache())


def drawing(writer, size: Size, forget: Callable) -> Callable[[int], int]:
    """Draws with a sampler of minprm."""
    prompts = prompts_of(size)

    def draw(seed: int) -> int:
        forget(writer)
        groups = writer.generate(prompts, size.group, size.new, [], 1.0, seed)
        return sum(len(completion.ids) for group in groups for completion in group)

    return draw


def generate(model: PreTrainedModel, size: Size) -> Callable[[int], int]:
    """transformers' generate. In bf16 all of the model is, but for its output layer."""
    if size.bf16:
        head = model.get_output_embeddings().weight
        model = deepcopy(model).bfloat16()
        model.get_output_embeddings().weight = torch.nn.Parameter(head.detach().clone())
    ids, mask = left_padded(prompts_of(size))
    settings = GenerationConfig(
        do_sample=True, temperature=1.0, top_k=0, top_p=1.0, max_new_tokens=size.new,
        num_return_sequences=size.group, use_cache=True, pad_token_id=0, eos_token_id=None,
    )  # fmt: skip

    def draw(seed: int) -> int:
        torch.manual_seed(seed)
        found = model.generate(input_ids=ids, attention_mask=mask, generation_config=settings)
        return found[:, ids.shape[1] :].numel()

    return draw


def left_padded(prompts: list[list[int]]) -> tuple[Tensor, Tensor]:
    """(ids, mask), 0 at the padding.  [P, L], [P, L]"""
    width = max(map(len, prompts))
    ids = torch.tensor([[0] * (width - len(prompt)) + prompt for prompt in prompts])
    return ids, (ids > 0).long()  # no prompt has token 0


def llama(file: Path, size: Size) -> Callable[[int], tuple[int, float]]:
    """llama.cpp: a function that returns tokens and seconds; they pass on one thread."""
    completions = size.prompts * size.group
    flags = {
        "-m": file, "-c": completions * (size.longest + size.new), "-npp": size.longest,
        "-ntg": size.new, "-npl": completions, "-t": 1, "-tb": 1, "--output-format": "jsonl",
    }  # fmt: skip
    command = ["llama-batched-bench", "-pps"]
    for flag, value in flags.items():
        command += [flag, str(value)]

    def draw(seed: int) -> tuple[int, float]:
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        (line,) = [text for text in done.stdout.splitlines() if text.startswith("{")]
        speeds = json.loads(line)
        reading = size.prompts * size.longest / speeds["speed_pp"]
        return size.drawn, reading + size.drawn / speeds["speed_tg"]

    return draw


# --- who draws how fast ---


def measure(size: Size, rounds: int = ROUNDS, ggufs: Path | None = None) -> dict[str, dict | None]:
    """Tokens a CPU second of each writer; None where it is not installed."""
    precision.in_bf16 = lambda model: size.bf16
    model = model_of(size)
    writers = {"plain sampler": plain(model, size), "generate": generate(model, size)}
    if find_spec("vllm"):
        writers["vLLM"] = engine(model, size)
    timers = {name: partial(timed, draw) for name, draw in writers.items()}
    if ggufs and is_smollm2(size):
        timers["llama.cpp"] = llama(ggufs / ("bf16.gguf" if size.bf16 else "fp32.gguf"), size)
        timers["llama.cpp, 4 bits"] = llama(ggufs / "q4_1.gguf", size)
    speeds = {name: [] for name in timers}
    for turn in range(1 + rounds):
        for name, timer in timers.items():
            drawn, seconds = timer(turn)
            speeds[name].append(drawn / seconds)
            if drawn != size.drawn:
                raise SystemExit(f"{name} drew {drawn} tokens, not {size.drawn}")
    rows: dict[str, dict | None] = {"plain sampler": None, "generate": None, "vLLM": None}
    for name, (_, *found) in speeds.items():
        rows[name] = {"median": median(found), "low": min(found), "high": max(found)}
        if name != "plain sampler":
            rows[name]["ratio"] = rows["plain sampler"]["median"] / rows[name]["median"]
    return rows


def told(name: str, writer: str, row: dict | None) -> str:
    """One line."""
    if row is None:
        return f"{name:<14}{writer:<18}not installed"
    spread = f"[{row['low']:,.0f}, {row['high']:,.0f}]"
    ratio = f"   plain / this {row['ratio']:.2f}x" if "ratio" in row else ""
    return f"{name:<14}{writer:<18}{row['median']:>8,.0f} {spread:<18}{ratio}"


if __name__ == "__main__":
    path = take_json_flag()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=RANDOM)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="after one that is not timed")
    parser.add_argument("--llama", type=Path, help="a folder of GGUF files for llama.cpp")
    flags = parser.parse_args()
    set_threads("tiny", int(os.environ.get("OMP_NUM_THREADS", "1")))
    transformers.utils.logging.set_verbosity_error()
    print(f"tokens a CPU second, transformers {transformers.__version__}, "
          f"torch {torch.__version__}, {torch.get_num_threads()} threads")  # fmt: skip
    results = {}
    for name in flags.sizes:
        results[name] = measure(SIZES[name], flags.rounds, flags.llama)
        for writer, row in results[name].items():
            print(told(name, writer, row), flush=True)
    installed = import_module("vllm").__version__ if find_spec("vllm") else "not installed"
    save_run(path, [0], f"median of {flags.rounds}, smallest and largest", results, vllm=installed)
