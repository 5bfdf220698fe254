"""python -m benchmarks.long_logs: logs as long as those of people's agents, through Act-PRM.

Four logs are made, of 30 steps and, with thoughts, some 8,000 tokens: an agent searches a shop's
files, and each answer of its tool has some 200 tokens. SmolLM2-135M-Instruct (examples/smollm2.py
makes it) thinks about two of them in each of two updates; the others are held out, and never looked
at. First `--dry-run` says how much memory and time the run will take, and then the run takes them,
each in a process of its own. All weights are trained; with `--checkpointing` activations are
computed again.
"""

import argparse
import json
import os
import random
import re
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from evidence.results import save_run, take_json_flag
from examples.smollm2 import smollm2

LOGS, STEPS, LINES, UPDATES = 4, 30, 13, 2
THINGS = ("mug", "lamp", "scarf", "pen", "plate", "candle", "towel", "vase")
RULES = "You search the orders of a shop. Answer with `open FILE`, the file to be read next."


def made_log(number: int) -> dict:
    """A log whose every answer names the file that the expert opens next, among others."""
    dice = random.Random(number)
    messages = [{"role": "system", "content": RULES}]
    for _ in range(STEPS):
        lines = []
        for order in dice.sample(range(1000, 9999), LINES):
            lines.append(f"order {order}: {dice.randrange(2, 90)} {dice.choice(THINGS)}s, paid")
        late = dice.choice(lines).split(":")[0]
        state = "\n".join(lines) + f"\nThe {late} is late."
        action = f"open {late.replace(' ', '_')}.txt"
        messages += [{"role": "user", "content": state}, {"role": "assistant", "content": action}]
    return {"messages": messages}


def train(folder: str, *words: str) -> tuple[str, float, float]:
    """(what `minprm train` says, the most memory of its process in GiB, seconds that passed)
    folder: where it writes its files."""
    command = [sys.executable, "-m", "minprm", "train", *words]
    began = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8"
    )
    assert process.stdout
    said = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    if status:
        sys.exit(said)
    return said, used.ru_maxrss / 2**20, time.perf_counter() - began


def main() -> None:
    path = take_json_flag()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpointing", action="store_true")
    flags = parser.parse_args()
    with TemporaryDirectory() as folder:
        logs = Path(folder) / "logs.jsonl"
        lines = [json.dumps(made_log(number)) + "\n" for number in range(LOGS)]
        logs.write_text("".join(lines), encoding="utf-8")
        words = [
            "--preset", "small", "--model", str(smollm2()), "--demos", str(logs),
            "--stages", "act_prm", "--held-out", "2", "--eval-every", "0", "--context", "8192",
            "--micro-tokens", "16384", "--act-prm.batch", "2",
            "--act-prm.updates", str(UPDATES), "--instruction", "none",
        ]  # fmt: skip
        if flags.checkpointing:
            words.append("--checkpointing")
        said, *_ = train(folder, *words, "--dry-run")
        print(said)
        (foretold,) = re.findall(r"Peak memory: ([\d.]+) GiB", said)
        said, taken, seconds = train(folder, *words)
        print(said)
    row = {"foretold": float(foretold), "GiB": taken, "seconds": seconds}
    print(row)
    save_run(path, [0], "one run", {f"{LOGS} logs of {STEPS} steps": row})


if __name__ == "__main__":
    main()
