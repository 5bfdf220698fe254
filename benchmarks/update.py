"""python -m benchmarks.update: a whole Act-PRM update of a pretrained model.

SmolLM2-135M-Instruct (examples/smollm2.py makes it) thinks about 8 logs of the refund desk with
three examples in its prompt, 8 thoughts each of at most 32 tokens; all are scored with the expert's
action, and then learned from. The states and thoughts that are scored and learned are read from one
file, so every program has the same ids. Layers compute in fp32, and, if the processor multiplies
bf16, once more in that. Products of two matrices as large as the model's, timed between the
updates, tell what the processor could do.

    --before FOLDER    a checkout of this repository at another commit, to be compared with
    --rounds N         updates that count, of each code in each precision: 3

The code of FOLDER makes the same update, in a process of its own, and the two take turns. In fp32
both must find the same log-probs and gradients. Seconds are those of the processor; OMP_NUM_THREADS
sets threads. Together they take 16 GB.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import torch

STATES, GROUP, LONGEST = 8, 8, 32
ROOT = Path(__file__).parents[1]
PARTS = ("think", "score", "learn")


# --- what runs with the code of either commit: no name of minprm that only one of them has ---


def updates(file: Path) -> None:
    """Makes an update for each line of input, and prints what it cost. A line names the precision.
    file: the ids."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from minprm.constants import ActPRM
    from minprm.data import Sample
    from minprm.model import precision
    from minprm.model.policy import Policy
    from minprm.model.sampler import Sampler

    ids = json.loads(file.read_text(encoding="utf-8"))
    model = AutoModelForCausalLM.from_pretrained(ids["model"], dtype=torch.float32).eval()
    precision.make_head_fp32(model)  # as whoever loads it for a run
    policy = Policy(model, AutoTokenizer.from_pretrained(ids["model"]), ids["micro_tokens"])
    sampler = Sampler(model)
    keep_freed_memory()

    def samples(trained: str) -> list[Sample]:
        """Of each thought, and, where the action is trained, of the action after it."""
        some = []
        columns = [ids[name] for name in ("prompts", "thoughts", "actions")]
        for prompt, thoughts, action in zip(*columns, strict=True):
            root = Sample().extend(prompt)
            for thought in thoughts:
                if trained == "thought":
                    some.append(Sample(parent=root).extend(thought, 0.5, [-1.0] * len(thought)))
                else:
                    some.append(Sample(parent=root).extend(thought).extend(action, 1.0))
        return some

    print("ready", flush=True)
    for line in sys.stdin:
        in_bf16 = line.strip() == "bf16"
        precision.in_bf16 = lambda model, answer=in_bf16: answer
        precision.BF16_DEVICES = {"cpu"} if in_bf16 else set()  # its name until 74c4b5e
        cost = {}
        sampler.begin()
        start = time.process_time()
        drawn = sampler.generate(ids["prompts"], GROUP, LONGEST, ids["stop"], 1.0, 0)
        cost["drawn"] = sum(len(completion.ids) for group in drawn for completion in group)
        cost["think"] = time.process_time() - start
        start = time.process_time()
        logprobs = policy.logprobs(samples("action"))
        cost["score"] = time.process_time() - start
        cost["logprob"] = sum(logp.sum().item() for logp in logprobs) / len(logprobs)
        start = time.process_time()
        cost["norm"] = policy.update(samples("thought"), ActPRM(), 0.0)["policy/grad_norm"]
        cost["learn"] = time.process_time() - start
        print(json.dumps(cost), flush=True)


def keep_freed_memory() -> None:
    """As the commands do, where the code has it."""
    try:
        from minprm.load.threads import keep_freed_memory as keep
    except ImportError:
        return
    keep()


# --- the ids, and who makes updates with them ---


def write_ids(file: Path) -> None:
    """Prompts of the refund desk, thoughts that the model draws, and the expert's actions."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from benchmarks.peers import refund_desk
    from examples.smollm2 import smollm2
    from minprm.model.sampler import Sampler

    folder = smollm2()
    tokenizer = AutoTokenizer.from_pretrained(folder)

    def encoded(text: str) -> list[int]:
        return tokenizer(text, add_special_tokens=False).input_ids

    texts, answers = refund_desk(tokenizer, STATES)
    prompts = [encoded(text) for text in texts]
    close, end = encoded("</think>\n"), tokenizer.eos_token_id
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    stop = [close[0], end]
    thoughts = Sampler(model).generate(prompts, GROUP, LONGEST, stop, 1.0, 0)
    ids = {
        "model": str(folder),
        "micro_tokens": 4096,  # as --preset small has it
        "stop": stop,
        "prompts": prompts,
        "thoughts": [[thought.ids for thought in group] for group in thoughts],
        "actions": [[*close[1:], *encoded(answer), end] for answer in answers],
    }
    file.write_text(json.dumps(ids), encoding="utf-8")


def started(code: Path, file: Path) -> subprocess.Popen:
    """A process that makes updates with the code of this checkout."""
    command = [sys.executable, str(Path(__file__).resolve()), "--updates", str(file)]
    environment = os.environ | {"PYTHONPATH": str(code)}
    process = subprocess.Popen(
        command, env=environment, cwd=code, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout
    process.stdout.readline()  # it has loaded the model
    return process


def one_update(process: subprocess.Popen, precision: str) -> dict[str, float]:
    """Asks for an update: what it cost, and what it found."""
    assert process.stdin and process.stdout
    process.stdin.write(f"{precision}\n")
    process.stdin.flush()
    line = process.stdout.readline()
    if not line:
        raise SystemExit("an update did not end: its process says why, or the memory was too small")
    return json.loads(line)


def gigaflops(precision: str) -> float:
    """10^9 operations a CPU second, of a product as large as the model's widest layer has."""
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    one, other = torch.rand(2048, 576).to(dtype), torch.rand(576, 1536).to(dtype)
    torch.matmul(one, other)
    began = time.process_time()
    for _ in range(50):
        torch.matmul(one, other)
    return 50 * 2 * one.shape[0] * other.numel() / (time.process_time() - began) / 1e9


def operations(file: Path, drawn: int) -> dict[str, tuple[float, float]]:
    """10^9 multiplications and additions that each part takes at least: those of every distinct
    token once through all layers, with attention to the tokens that it sees; and those with the
    table of words where a token is drawn, scored or learned. What is drawn is counted as if no two
    thoughts began alike: nobody knows before."""
    from transformers import AutoConfig, AutoModelForCausalLM

    ids = json.loads(file.read_text(encoding="utf-8"))
    config = AutoConfig.from_pretrained(ids["model"])
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    table = config.vocab_size * config.hidden_size
    weights = sum(weight.numel() for weight in model.parameters()) - table  # tied: it is there once
    heads = config.num_attention_heads * config.head_dim
    a_pair = 2 * heads * config.num_hidden_layers  # a query with a key, and a weight with a value

    def layers(tokens: int, pairs: int) -> int:
        return weights * tokens + a_pair * pairs

    thoughts, turns = [], []
    actions = 0
    columns = [ids[name] for name in ("prompts", "thoughts", "actions")]
    for prompt, group, action in zip(*columns, strict=True):
        thoughts += [prompt + thought for thought in group]
        turns += [prompt + thought + action for thought in group]
        actions += len(group) * len(action)
    states, of_states = distinct(ids["prompts"])
    learned, of_learned = distinct(thoughts)
    scored, of_scored = distinct(turns)
    of_drawn = sum(map(sees, thoughts)) - GROUP * sum(map(sees, ids["prompts"]))
    counts = {
        "think": (layers(states + drawn, of_states + of_drawn), table * drawn),
        "score": (layers(scored, of_scored), table * actions),
        "learn": (3 * layers(learned, of_learned), 3 * table * (learned - states)),
    }
    return {part: (2 * one / 1e9, 2 * other / 1e9) for part, (one, other) in counts.items()}


def sees(ids: list[int]) -> int:
    """The pairs of a token and one that it sees, itself among them."""
    return len(ids) * (len(ids) + 1) // 2


def distinct(sequences: list[list[int]]) -> tuple[int, int]:
    """Tokens of these sequences, those that several begin with counted once; and the pairs of one
    of these and a token that it sees."""
    beginnings = set()
    for ids in sequences:
        beginnings |= {tuple(ids[:n]) for n in range(1, len(ids) + 1)}
    return len(beginnings), sum(map(len, beginnings))


def compare(before: Path | None, file: Path, count: int) -> dict[str, dict]:
    """Rounds in which each code makes an update in each precision; the first is not counted.
    The rows: a code and a precision, as "now, fp32"."""
    from minprm.model.precision import cpu_has_bf16

    codes = {"now": started(ROOT, file)}
    if before:
        codes["before"] = started(before.resolve(), file)
    precisions = ("fp32", "bf16") if cpu_has_bf16() else ("fp32",)
    rounds: dict[str, list[dict]] = {}
    speeds: dict[str, list[float]] = {}
    for i in range(count + 1):
        for precision in precisions:
            for code, process in codes.items():
                cost = one_update(process, precision)
                row = f"{code}, {precision}"
                seconds = ", ".join(f"{part} {cost[part]:.1f}" for part in PARTS)
                print(f"{row}: {seconds} s, log p {cost['logprob']:.4f}, |g| {cost['norm']:.4f}")
                if i:
                    rounds.setdefault(row, []).append(cost)
            speeds.setdefault(precision, []).append(gigaflops(precision))
    for process in codes.values():
        process.communicate()
    rows = {}
    for row, costs in rounds.items():
        rows[row] = {part: median(cost[part] for cost in costs) for part in PARTS}
        rows[row]["update"] = sum(rows[row].values())
        rows[row] |= {key: costs[0][key] for key in ("drawn", "logprob", "norm")}
    # a part at the speed of these products alone; the table of words is multiplied in fp32
    fp32 = median(speeds["fp32"])
    for precision in precisions:
        now = rows[f"now, {precision}"]
        now["gigaflops"] = median(speeds[precision])
        needed = 0.0
        for part, (layers, table) in operations(file, now["drawn"]).items():
            least = layers / now["gigaflops"] + table / fp32
            now[f"{part}_of_ceiling"] = least / now[part]
            needed += least
        now["update_of_ceiling"] = needed / now["update"]
    return rows


def require_same(rows: dict[str, dict]) -> None:
    """Ends the program unless both find the same log-probs and gradients in fp32."""
    before, now = rows["before, fp32"], rows["now, fp32"]
    for key in ("logprob", "norm"):
        if abs(before[key] / now[key] - 1) > 1e-3:
            raise SystemExit(f"{key}: {before[key]} before, {now[key]} now")


def main() -> None:
    from evidence.results import save_run, take_json_flag

    path = take_json_flag()
    parser = argparse.ArgumentParser(description="An Act-PRM update of a pretrained model.")
    parser.add_argument("--before", type=Path, help="a checkout of an earlier commit")
    parser.add_argument("--rounds", type=int, default=3, help="updates that count, of each code")
    flags = parser.parse_args()
    with TemporaryDirectory() as folder:
        file = Path(folder) / "ids.json"
        write_ids(file)
        rows = compare(flags.before, file, flags.rounds)
    if flags.before:
        require_same(rows)
        for row in list(rows):
            if row.startswith("now"):
                rows[row]["faster"] = rows["before, fp32"]["update"] / rows[row]["update"]
    print(json.dumps(rows, indent=1))
    save_run(path, [0], f"CPU seconds, medians of {flags.rounds}", rows)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--updates"]:
        updates(Path(sys.argv[2]))
    else:
        main()
