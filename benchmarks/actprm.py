"""python -m benchmarks.actprm: an Act-PRM update as trees, and as a row a thought.

One logged episode of T steps, G thoughts a step, states of S tokens; random ids, random weights of
4 layers x 256. Both give the same gradient norm (checked) from different numbers of tokens. Prints
tokens computed against tokens that are unique, and CPU seconds; docs/figures/trees.svg shows both
as T grows. 11 minutes, most of them rows. In place of this table

    --growth     CPU seconds and memory of updates as trees up to T 32, G 32: three minutes
    --scoring    scoring logs step by step, what was read kept and read anew: seven minutes
    --profile    where the time of one update of T 8, G 8 goes
    --peak       how much memory the process has taken after it, both ways
"""

import json
import os
import sys
from statistics import median

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from benchmarks.cost import count_learned, in_a_process, most_memory, on_each_pass, timed
from evidence import tables
from evidence.results import save_run, take_json_flag
from minprm.constants import Sampled
from minprm.data import Sample
from minprm.load.threads import set_threads
from minprm.model.policy import Policy
from minprm.model.tree import row
from minprm.model.trunks import LONG, Trunks

THOUGHT, ACTION, ROUNDS = 24, 6, 3
GROWTH = [(4, 8), (8, 8), (16, 8), (32, 8), (8, 4), (8, 16), (8, 32), (32, 32)]
# logs, steps of each, tokens of a state
SCORED = [*((1, t, 200) for t in (4, 8, 16, 32)), *((16, t, 50) for t in (4, 8, 16, 32))]
NEVER = 10**9  # tokens: no trunk is that long
GRID = [*((t, 8, 200) for t in (1, 2, 4, 8, 16)), (8, 4, 200), (8, 16, 200), (8, 8, 50),
        (8, 8, 400)]  # fmt: skip


def episode(steps: int, group: int, state: int) -> list[Sample]:
    """The samples of one episode: the committed path is the trunk, thoughts are its branches."""
    draw = lambda n: torch.randint(1, 1000, (n,)).tolist()  # noqa: E731
    trunk, samples = Sample().extend(draw(state)), []
    for _ in range(steps):
        for _ in range(group):
            thought = Sample(parent=trunk).extend(draw(THOUGHT), 0.5, [-7.0] * THOUGHT)
            samples.append(thought.extend(draw(ACTION), 1.0))
        trunk = Sample(parent=trunk).extend(draw(THOUGHT + ACTION + state))
    return samples


def measure(p: Policy, samples: list[Sample], share: bool) -> tuple[int, float, float]:
    """(tokens computed, median CPU seconds of an update, gradient norm)."""
    p.shares_prefixes = share
    tokens = 0
    for batch in p.micro_batches(samples):
        tokens += sum(len(row([samples[i] for i in members]).ids) for members in batch)
    seconds = []
    for _ in range(ROUNDS if tokens < 50_000 else 1):
        stats, spent = timed(p.update, samples, Sampled(), 0.0)
        seconds.append(spent)
    return tokens, median(seconds), stats["policy/grad_norm"]


def compare(p: Policy, steps: int, group: int, state: int) -> dict:
    """One update both ways: tokens and CPU seconds. Exits where their gradients differ."""
    samples = episode(steps, group, state)
    trees, trees_seconds, norm = measure(p, samples, share=True)
    rows, rows_seconds, other = measure(p, samples, share=False)
    if abs(norm / other - 1) > 1e-4:
        raise SystemExit(f"gradient norms differ: {norm} and {other}")
    return {
        "T": steps, "G": group, "state": state, "unique": len(row(samples).ids), "trees": trees,
        "rows": rows, "trees_seconds": trees_seconds, "rows_seconds": rows_seconds,
        "ratio": rows_seconds / trees_seconds,
    }  # fmt: skip


def profile(p: Policy) -> None:
    """Where the time of one update goes, by operation."""
    samples = episode(8, 8, 200)
    p.update(samples, Sampled(), lr=0.0)
    with torch.profiler.profile() as prof:
        p.update(samples, Sampled(), lr=0.0)
    print(prof.key_averages().table(sort_by="self_cpu_time_total", row_limit=12))


def gigabytes() -> float:
    """GiB that this process has taken at most."""
    return most_memory() / 2**30


def child(*words: str) -> str:
    """What this program prints when it is run with these words, in a process of its own."""
    return in_a_process("benchmarks.actprm", *words)


def peaks() -> dict[str, float]:
    """GiB of a process that makes one update, both ways, each in a process of its own."""
    return {way: float(child("--peak", way)) for way in ("rows", "trees")}


def peak(p: Policy, way: str) -> None:
    """Memory of this process after one update."""
    p.shares_prefixes = way == "trees"
    p.update(episode(8, 8, 200), Sampled(), lr=0.0)
    print(gigabytes())


def growth() -> dict[str, dict]:
    """What updates as trees cost as logs and groups grow, each in a process of its own."""
    told = {}
    for steps, group in GROWTH:
        name = f"T {steps}, G {group}"
        told[name] = json.loads(child("--grown", str(steps), str(group)))
        print(f"{name}: {told[name]['seconds']:.2f} s", flush=True)
    print(tables.growth(told))
    return told


def grown(p: Policy, steps: int, group: int) -> dict:
    """One update: its padded tokens, the different ones among them, and what it costs. CPU time:
    another job on the machine does not count."""
    samples = episode(steps, group, 200)
    learned = count_learned(p.model)
    _, seconds = timed(p.update, samples, Sampled(), 0.0)
    return {"T": steps, "G": group, "tokens": sum(learned), "unique": len(row(samples).ids),
            "seconds": seconds, "gigabytes": gigabytes()}  # fmt: skip


def scoring(p: Policy) -> dict[str, dict]:
    """What it costs to score logs step by step: with each trunk kept, with none, and as a run does,
    which keeps long ones alone. Six thoughts a step. Exits where the log-probs differ."""
    tokens = []
    on_each_pass(p.model, tokens.append)
    told = {}
    for logs, steps, state in SCORED:
        walks = [episode(steps, 6, state) for _ in range(logs)]
        row = {"logs": logs, "T": steps, "state": state}
        scored = []
        for way, least in (("kept", 1), ("anew", NEVER), ("run", LONG)):
            tokens.clear()
            logps, seconds = timed(score, Trunks(p, False, least), walks, steps)
            row[way] = {"tokens": sum(tokens), "seconds": seconds}
            scored.append(logps)
        if max((scored[0] - other).abs().max() for other in scored[1:]) > 1e-4:
            raise SystemExit("log-probs behind a kept trunk differ from others")
        told[f"{logs} logs, T {steps}, state {state}"] = row
        print(logs, steps, state, row, flush=True)
    print(tables.scoring(told))
    return told


def score(trunks: Trunks, walks: list[list[Sample]], steps: int) -> torch.Tensor:
    """Log-probs of all thoughts and actions, step by step, as act_prm.py asks for them."""
    logps = []
    for t in range(steps):
        samples = []
        for walk in walks:
            samples += walk[6 * t : 6 * (t + 1)]
        logps += trunks.logprobs(samples)
    return torch.cat(logps)


def main() -> None:
    path = take_json_flag()
    set_threads("tiny", int(os.environ.get("OMP_NUM_THREADS", "1")))
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=1000, hidden_size=256, intermediate_size=768, num_hidden_layers=4,
        num_attention_heads=4, num_key_value_heads=4, head_dim=64, max_position_embeddings=32_768,
    )  # fmt: skip
    p = Policy(Qwen3ForCausalLM(config), None, 16_384)
    if "--profile" in sys.argv:
        return profile(p)
    match sys.argv[1:]:
        case ["--peak"]:
            return print(peaks())
        case ["--peak", way]:
            return peak(p, way)
        case ["--growth"]:
            return save_run(path, [0], "one update each", growth())
        case ["--scoring"]:
            return save_run(path, [0], "each once", scoring(p))
        case ["--grown", steps, group]:
            return print(json.dumps(grown(p, int(steps), int(group))))
    print(
        f"torch {torch.__version__}, {torch.get_num_threads()} threads, fp32, medians of {ROUNDS}, "
        "or one update where it reads 50,000 tokens or more\n"
    )
    told = {}
    for steps, group, state in GRID:
        name = f"T {steps}, G {group}, state {state}"
        told[name] = compare(p, steps, group, state)
        print(f"{name}: {told[name]['ratio']:.1f}x", flush=True)
    print(tables.actprm(told))
    if path:
        save_run(path, [0], f"medians of {ROUNDS}", told, peak=peaks())


if __name__ == "__main__":
    main()
