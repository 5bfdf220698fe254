"""python -m benchmarks.gpu: updates and sampling of models of Qwen3's shapes, on the GPU there is.

Weights are random and of the real shapes, so nothing is downloaded. Prints tokens a second of one
update, as trees (groups of 8 share a prompt) and as a row a sample, its share of the card's peak
(MFU: 6 operations a weight and token that was read, over the bf16 peak), tokens a second of the
plain sampling loop, and peak memory beside what --dry-run plans. `--small` runs the same code on a
tiny shape, where there is no GPU.
"""

import sys
import time

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from minprm.commands.dry_run import memory
from minprm.constants import Config
from minprm.data import Sample
from minprm.model.load import adapted
from minprm.model.policy import Policy
from minprm.model.sampler import Sampler

SHAPES = {
    "0.6B, all weights": (dict(hidden_size=1024, intermediate_size=3072, num_hidden_layers=28,
                               num_attention_heads=16, num_key_value_heads=8,
                               head_dim=128, tie_word_embeddings=True), 0),
    "4B, LoRA 32": (dict(hidden_size=2560, intermediate_size=9728, num_hidden_layers=36,
                         num_attention_heads=32, num_key_value_heads=8,
                         head_dim=128, tie_word_embeddings=True), 32),
}  # fmt: skip
SMALL = {"small": (dict(hidden_size=64, intermediate_size=64, num_hidden_layers=2,
                        num_attention_heads=2, num_key_value_heads=1,
                        head_dim=32, tie_word_embeddings=True), 4)}  # fmt: skip
PROMPT, ANSWER, ROWS, GROUP = 512, 256, 32, 8
PEAK = {"H100": 989e12, "H200": 989e12, "A100": 312e12}  # bf16, dense, operations a second


def measure(shape: dict, lora: int, vocabulary: int) -> dict[str, float]:
    """The second of two updates, sampling, bytes at the peak and as planned."""
    cuda = torch.cuda.is_available()
    config = Qwen3Config(vocab_size=vocabulary, **shape)
    torch.set_default_dtype(torch.bfloat16 if lora else torch.float32)
    with torch.device("cuda" if cuda else "cpu"):
        model = Qwen3ForCausalLM(config)
    torch.set_default_dtype(torch.float32)
    cfg = Config(lora=lora, checkpointing=True, sampler="transformers")
    plan = memory(model, cfg)["sum"]
    policy = Policy(adapted(model, lora, checkpointing=True), None, cfg.micro_tokens)
    drawn = torch.randint(0, vocabulary, (ROWS, PROMPT + ANSWER)).tolist()
    roots = [Sample().extend(x[:PROMPT]) for x in drawn[::GROUP]]
    samples = [Sample(parent=roots[i // GROUP]).extend(x[PROMPT:], 1.0, [-1.0] * ANSWER)
               for i, x in enumerate(drawn)]  # fmt: skip
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    seconds = {}
    for share in (False, True):
        policy.shares_prefixes = share
        for _ in range(2):
            began = time.perf_counter()
            policy.update(samples, cfg.act_prm, lr=1e-6)
            seconds[share] = time.perf_counter() - began
    name = torch.cuda.get_device_name() if cuda else ""
    card = next((peak for key, peak in PEAK.items() if key in name), float("nan"))
    read = len(roots) * PROMPT + ROWS * ANSWER
    peak = torch.cuda.max_memory_allocated() if cuda else float("nan")
    began = time.perf_counter()
    Sampler(policy.model).generate([x[:PROMPT] for x in drawn], 1, 64, [], 1.0, seed=0)
    sample = time.perf_counter() - began
    return {
        "update, trees, tokens/s": ROWS * (PROMPT + ANSWER) / seconds[True],
        "update, rows, tokens/s": ROWS * (PROMPT + ANSWER) / seconds[False],
        "MFU of trees, %": 600 * policy.size * read / seconds[True] / card,
        "plain loop, tokens/s": ROWS * 64 / sample,
        "peak, GiB": peak / 2**30,
        "planned, GiB": plan / 2**30,
    }


if __name__ == "__main__":
    small = "--small" in sys.argv
    if not small and not torch.cuda.is_available():
        raise SystemExit("there is no GPU here: python -m benchmarks.gpu --small runs the code")
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    print(f"{device}, torch {torch.__version__}, {ROWS} rows of {PROMPT} + {ANSWER} tokens")
    for name, (shape, lora) in (SMALL if small else SHAPES).items():
        for key, value in measure(shape, lora, 500 if small else 151_936).items():
            print(f"{name:<20}{key:<24}{value:>12.1f}")
