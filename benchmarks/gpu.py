"""python -m benchmarks.gpu [--small] [--json FILE]: what a GPU makes of models of Qwen3's shapes.

Weights are random and of the real shapes, so nothing is downloaded.

    updates      as trees (groups of 8 share a prompt) and as a row a sample: tokens a second, the
                 share of the card's peak (MFU: `flops`), and peak memory
    blocks       forward and backward pass with a dense mask and with blocks, by the row's length
    kernels      how many are compiled in the first updates of varied shapes, and in later ones
    sampling     a token of all completions in the plain loop, beside the time that the card takes
                 to read the weights and the cache once

Six minutes on an H200. `--small` runs the same code on a tiny shape where there is no GPU; what
only a card has is then nan.
"""

import random
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from math import nan

import torch
from torch._dynamo.utils import counters
from transformers import Qwen3Config, Qwen3ForCausalLM

from evidence.results import save_run, take_json_flag
from minprm.constants import Config
from minprm.data import Sample
from minprm.load.pretrained import adapted
from minprm.model import blocks
from minprm.model.adapters import has_adapters
from minprm.model.policy import Policy
from minprm.model.precision import output_layer
from minprm.model.sampler import Sampler
from minprm.model.tree import numbered_paths

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CARD = torch.cuda.get_device_name() if DEVICE == "cuda" else "CPU"
# bytes a second, of NVIDIA's data sheets
BANDWIDTH = {
    "NVIDIA H200": 4.8e12, "NVIDIA H100 80GB HBM3": 3.35e12, "NVIDIA A100-SXM4-80GB": 2.04e12,
}  # fmt: skip
# Peak FLOPs a second in bf16 with fp32 sums and without sparsity, in 10^12: NVIDIA's data sheets.
# A card is known by the words in its name; of several that fit, the first.
PEAK = {
    "B200": 2250, "H200": 989, "H100 PCIe": 756, "H100 NVL": 835, "H100": 989, "A100": 312,
    "L40S": 362, "L40": 181, "L4": 121, "A10G": 70, "A10": 125, "RTX 4090": 165, "RTX 3090": 71,
}  # fmt: skip
SLOWER = {"Laptop", "MIG", "D"}  # words for less of a card than the table says
GROUP = 8


@dataclass
class Size:
    """A model, and how it is trained."""

    shape: dict[str, int]
    vocabulary: int = 151_936
    lora: int = 0
    checkpointing: bool = True


@dataclass
class Work:
    """What is read and written in these measurements."""

    prompt: int = 512  # tokens
    answer: int = 256
    rows: int = 64
    lengths: tuple[int, ...] = (512, 1024, 1536, 2048, 3072, 4096, 8192)  # of rows with blocks
    row_tokens: int = 16_384  # of all these rows
    steps: int = 64  # tokens that are sampled in what is timed
    warm_up: int = 6  # updates of varied shapes before nothing should be compiled any more
    later: int = 12


QWEN_600M = dict(
    hidden_size=1024, intermediate_size=3072, num_hidden_layers=28, num_attention_heads=16,
    num_key_value_heads=8, head_dim=128, tie_word_embeddings=True,
)  # fmt: skip
QWEN_4B = dict(
    hidden_size=2560, intermediate_size=9728, num_hidden_layers=36, num_attention_heads=32,
    num_key_value_heads=8, head_dim=128, tie_word_embeddings=True,
)  # fmt: skip
TINY = dict(
    hidden_size=64, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
    num_key_value_heads=1, head_dim=32, tie_word_embeddings=True,
)  # fmt: skip
SIZES = {
    "0.6B, all weights": Size(QWEN_600M, checkpointing=False),
    "0.6B, LoRA 32": Size(QWEN_600M, lora=32, checkpointing=False),
    "4B, LoRA 32": Size(QWEN_4B, lora=32),
    "4B, all weights": Size(QWEN_4B),
}
SMALL = {"small, all weights": Size(TINY, 500), "small, LoRA 4": Size(TINY, 500, lora=4)}
SMALL_WORK = Work(
    prompt=32, answer=16, rows=16, lengths=(128, 256), row_tokens=256, steps=32, warm_up=1, later=2
)


# --- the clock ---


def seconds(work: Callable[[], object]) -> float:
    """Of the second call, until the card has done it. The first compiles and takes memory."""
    work()
    finish()
    began = time.perf_counter()
    work()
    finish()
    return time.perf_counter() - began


def finish() -> None:
    if DEVICE == "cuda":
        torch.cuda.synchronize()


# --- the model ---


def config_of(size: Size) -> Config:
    return Config(lora=size.lora, checkpointing=size.checkpointing, sampler="transformers")


def model_of(size: Size) -> Qwen3ForCausalLM:
    """Random weights: fp32 where all are trained, else bf16, as in a run."""
    torch.set_default_dtype(torch.bfloat16 if size.lora else torch.float32)
    with torch.device(DEVICE):
        model = Qwen3ForCausalLM(Qwen3Config(vocab_size=size.vocabulary, **size.shape))
    torch.set_default_dtype(torch.float32)
    return model


def policy_of(model: Qwen3ForCausalLM, size: Size) -> Policy:
    return Policy(adapted(model, size.lora, size.checkpointing), None, config_of(size).micro_tokens)


def tree(rng: random.Random, prompt: int, answer: int, branches: int) -> list[Sample]:
    """Answers to one prompt, of random tokens. The sampler's log-probs are made up."""
    root = Sample().extend([rng.randrange(500) for _ in range(prompt)])
    samples = []
    for i in range(branches):
        ids = [rng.randrange(500) for _ in range(answer)]
        samples.append(Sample(parent=root).extend(ids, 1.0 - 2 * (i % 2), [-6.0] * answer))
    return samples


# --- what is measured ---


def updates(policy: Policy, size: Size, work: Work) -> dict[str, float]:
    """Tokens are those of all rows, with the prompt in each, however they are read."""
    samples = trees(work)
    took = {}
    for share in (False, True):
        policy.shares_prefixes = share
        took[share] = seconds(lambda: policy.update(samples, config_of(size).act_prm, lr=1e-6))
    tokens = work.rows * (work.prompt + work.answer)
    needed = flops(policy, *token_counts(samples))
    return {
        "trees, tokens/s": tokens / took[True],
        "rows, tokens/s": tokens / took[False],
        "rows / trees": took[False] / took[True],
        "MFU of trees, %": 100 * needed / took[True] / (peak_of(CARD) or nan),
    }


def token_counts(samples: list[Sample]) -> tuple[int, int, int]:
    """(tokens, pairs of tokens of which one sees the other, tokens whose log-prob is read).

    >>> state = Sample().extend([1, 2])
    >>> token_counts([Sample(parent=state).extend([3], 1.0), Sample(parent=state).extend([4], 1.0)])
    (4, 9, 2)
    """
    tokens = 0
    pairs = 0
    scored = 0
    counted = set()
    for sample, path in zip(samples, numbered_paths(samples), strict=True):
        above = 0
        for number, ids in path:
            n = len(ids)
            if number not in counted:
                counted.add(number)
                tokens += n
                pairs += n * above + n * (n + 1) // 2  # each token sees itself too
            above += n
        scored += sum(sample.trained)
    return tokens, pairs, scored


def flops(policy: Policy, tokens: int, pairs: int, scored: int) -> float:
    """The arithmetic of one pass, forward and backward, that it cannot do without.

    MFU, the model FLOPs utilisation of PaLM (arXiv:2204.02311, appendix B), is this over what the
    card could do in the same time.

        a weight           2 FLOPs a token in the forward pass, 2 backward to the activations, and 2
                           to its own gradient where it is trained: 6 N in all, 4 N under adapters
        the output layer   the same, at the tokens whose log-prob is read
        attention          12 FLOPs for each pair of tokens of which one sees the other, a layer and
                           a unit of all heads' width

    Not counted: the optimizer, what gradient checkpointing computes again, and a reference model.
    Of a mixture of experts all experts are counted, which is too many.
    """
    model = policy.model
    head = output_layer(model)
    tied = head is model.get_input_embeddings().get_parameter("weight")
    layers = policy.size - (0 if tied else head.numel())  # weights that every token passes
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    frozen = has_adapters(model)
    if not frozen:  # all are trained, and the output layer is counted by itself
        trained = layers
    attention = 12 * policy.attention_size
    output = (4 if frozen else 6) * head.numel()
    return (4 * layers + 2 * trained) * tokens + output * scored + attention * pairs


def peak_of(name: str) -> float:
    """FLOPs a second that the card of this name could do; 0.0 where it is not in the table.

    >>> peak_of("NVIDIA H100 80GB HBM3") == 989e12, peak_of("NVIDIA H100 PCIe") == 756e12
    (True, True)
    >>> peak_of("NVIDIA GeForce RTX 4090 Laptop GPU"), peak_of("Tesla T4")
    (0.0, 0.0)
    """
    words = set(re.split(r"[\s-]+", name))
    for card, peak in PEAK.items():
        if words.issuperset(card.split()) and not words & SLOWER:
            return peak * 1e12
    return 0.0


def trees(work: Work) -> list[Sample]:
    rng = random.Random(0)
    samples = []
    for _ in range(work.rows // GROUP):
        samples += tree(rng, work.prompt, work.answer, GROUP)
    return samples


def block_masks(policy: Policy, work: Work) -> dict[str, float]:
    """Dense seconds over those of blocks: above 1 blocks win. One tree fills a row: half of it is
    the trunk, and eight branches share the rest."""
    rng = random.Random(0)
    longest = blocks.LONG[DEVICE]
    blocks.LONG[DEVICE] = 0  # so that short rows may have blocks too
    found = {}
    for length in work.lengths:
        rows = []
        for _ in range(work.row_tokens // length):
            rows.append(tree(rng, length // 2, length // 2 // GROUP, GROUP))
        took = {}
        for skip in (False, True):
            policy.reads_blocks = skip
            took[skip] = seconds(lambda rows=rows: forward_and_backward(policy, rows))
        found[f"dense / blocks at {length:,}"] = took[False] / took[True]
    blocks.LONG[DEVICE] = longest
    return found


def forward_and_backward(policy: Policy, rows: list[list[Sample]]) -> None:
    policy.model.train()
    policy.read(rows, 1.0).logp.sum().backward()
    policy.optimizer.zero_grad()
    policy.model.eval()


def kernels(policy: Policy, size: Size, work: Work) -> dict[str, float]:
    """Updates of random numbers of trees of random lengths."""
    rng = random.Random(1)
    counters.clear()
    compiled = []
    for _ in range(work.warm_up + work.later):
        samples = []
        for _ in range(rng.randint(1, work.rows // GROUP)):
            prompt = rng.randint(work.prompt // 2, 2 * work.prompt)
            answer = rng.randint(work.answer // 8, work.answer)
            samples += tree(rng, prompt, answer, rng.randint(2, GROUP))
        policy.update(samples, config_of(size).act_prm, lr=1e-6)
        compiled.append(counters["stats"]["unique_graphs"])
    early = compiled[work.warm_up - 1]
    return {
        f"compiled in {work.warm_up} updates": early,
        f"compiled in {work.later} later ones": compiled[-1] - early,
    }


def sampling(policy: Policy, work: Work) -> dict[str, float]:
    """A step writes one token of each completion. At least it reads the weights, in bf16, the cache
    of each prompt, and of each completion what is written so far."""
    rng = random.Random(2)
    prompts = [[rng.randrange(500) for _ in range(work.prompt)] for _ in range(work.rows // GROUP)]
    sampler = Sampler(policy.model)

    def write(tokens: int) -> None:
        sampler.begin()
        sampler.generate(prompts, GROUP, tokens, [], 1.0, seed=0)

    few = 8  # with the reading of the prompts, which is not timed
    step = (seconds(lambda: write(few + work.steps)) - seconds(lambda: write(few))) / work.steps
    weights = sum(p.numel() for p in policy.model.parameters())
    written = few + work.steps / 2
    cached = len(prompts) * work.prompt + work.rows * written
    shape = policy.model.config
    of_token = 2 * shape.num_hidden_layers * shape.num_key_value_heads * shape.head_dim
    limit = 2 * (weights + of_token * cached) / BANDWIDTH.get(CARD, nan)
    return {
        "plain loop, tokens/s": work.rows / step,
        "a step, ms": 1000 * step,
        "a step at the card's bandwidth, ms": 1000 * limit,
        "step / limit": step / limit,
    }


def measure(size: Size, work: Work) -> dict[str, float]:
    """All of one model; empty if it does not fit."""
    if DEVICE == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    try:
        policy = policy_of(model_of(size), size)
        rows = updates(policy, size, work)
    except torch.OutOfMemoryError:
        print("  it does not fit this card")
        return {}
    peak = torch.cuda.max_memory_allocated() if DEVICE == "cuda" else nan
    rows |= {"peak, GiB": peak / 2**30}
    rows |= sampling(policy, work)
    if size.lora:  # attention is the same with all weights
        rows |= kernels(policy, size, work)
        rows |= block_masks(policy, work)
    return rows


def main() -> None:
    path = take_json_flag()
    small = "--small" in sys.argv
    if not small and DEVICE == "cpu":
        raise SystemExit("there is no GPU here: python -m benchmarks.gpu --small runs the code")
    work = SMALL_WORK if small else Work()
    print(f"{CARD}, torch {torch.__version__}, {work.rows} rows of {work.prompt} + {work.answer}")
    rows = {}
    for name, size in (SMALL if small else SIZES).items():
        print(name, flush=True)
        rows[name] = measure(size, work)
        for key, value in rows[name].items():
            print(f"  {key:<36}{value:>12,.2f}", flush=True)
        save_run(path, [0], "the second of two calls", rows)


if __name__ == "__main__":
    main()
