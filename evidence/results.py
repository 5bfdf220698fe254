"""Results that the book quotes: evidence/results/NAME.json says which command made its numbers.

    python -m evidence.results RUN [NAME [NOTE]]   # of a finished ladder: its name in runs/, a path
    python -m evidence.experiments.idea --json FILE   # all other programs write theirs themselves

    command    what was typed
    commit     the last one that changed the code that ran
    date       of the day that it ran
    python, libraries, machine
    seeds      of the rows
    interval   how [low, high] of a row was made
    note       what else a reader of the numbers should know
    rows       the numbers, by the names that the tables have

A file may hold more: groups of real thoughts, curves. Tables and figures are made from these files
alone, so that a page, its tables and its figures show the same numbers.
"""

import argparse
import json
import os
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from datetime import date
from importlib.metadata import version
from pathlib import Path

import torch

from evidence import audit
from minprm.arms.starts import libraries
from minprm.constants import fail
from minprm.look.log import to_json, write_atomically
from minprm.model.precision import cpu_has_bf16
from minprm.report import table

ROOT = Path(__file__).parents[1]
FOLDER = Path(__file__).with_name("results")
# what the numbers depend on; the pages around them may change
CODE = ("minprm", "act_prm.py", "benchmarks", "evidence/experiments", "examples")


def load(name: str) -> dict:
    """The results of that name: rows, and the command, commit, machine and versions behind them.

    `audit` is what every world was measured by; it lies beside the program that wrote it.
    """
    path = audit.FILE if name == "audit" else FOLDER / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8"))


def save(path: str | Path, **results) -> None:
    """Writes the file, one line for each short list or dict so that a change is easy to read."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    write_atomically(Path(path), to_text(results) + "\n")
    print(f"written: {path}")


def take_json_flag() -> str:
    """Takes `--json FILE` out of sys.argv. Returns the FILE, or "" where there is none."""
    if "--json" not in sys.argv:
        return ""
    place = sys.argv.index("--json")
    if place + 1 == len(sys.argv):
        fail("--json needs the name of a file")
    sys.argv.pop(place)
    return sys.argv.pop(place)


def save_run(
    path: str,
    seeds: list[int],
    interval: str,
    rows: dict,
    other: Sequence[str] = (),
    **more,
) -> None:
    """Writes what the program that is running has measured. No path: writes nothing.

    other: libraries beside the usual whose versions the numbers depend on.
    """
    if path:
        save(path, **this_program(*other), seeds=seeds, interval=interval, rows=rows, **more)


def save_seed(path: str, name: str, seed: int, row: dict) -> None:
    """Writes what one seed measured: to results/NAME-SEED.json where no path is given."""
    where = path or FOLDER / f"{name}-{seed}.json"
    save(where, **this_program(), seeds=[seed], interval="none: one seed", rows=row)


def rows_of_seeds(name: str, seeds: list[int]) -> list[dict]:
    """What each seed measured, of those whose results/NAME-SEED.json is there."""
    return [load(f"{name}-{seed}")["rows"] for seed in seeds_of_all([name], seeds)]


def seeds_of_all(names: Sequence[str], seeds: list[int]) -> list[int]:
    """The seeds that all of these have measured."""
    there = []
    for seed in seeds:
        if all((FOLDER / f"{name}-{seed}.json").exists() for name in names):
            there.append(seed)
    return there


def file_of(name: str) -> str:
    """The name of a row as the name of a file, and of its runs.

    >>> file_of("GRPO, 2 passes")
    'grpo-2-passes'
    """
    return re.sub("[^a-z0-9]+", "-", name.lower())


def this_program(*other: str) -> dict:
    """Where the numbers of this process come from; `other` are libraries beside the usual."""
    return {
        "command": shlex.join(["python", *sys.orig_argv[1:]]),
        "commit": commit(),
        "date": date.today().isoformat(),
        "python": platform.python_version(),
        "machine": machine(torch.get_num_threads()),
        "libraries": libraries() | {name: version(name) for name in other},
    }


def commit() -> str:
    """The last commit that changed the code; "-dirty" after it where it was changed since."""
    git = ["git", "-C", str(ROOT)]
    told = subprocess.run(
        [*git, "log", "-1", "--format=%h", "--", *CODE], capture_output=True, text=True
    )
    if told.returncode or not told.stdout.strip():
        fail("results name the commit that made them: run this in a git checkout of minprm")
    changed = subprocess.run(
        [*git, "status", "--porcelain", "--", *CODE], capture_output=True, text=True
    )
    return told.stdout.strip() + "-dirty" * bool(changed.stdout.strip())


def machine(threads: int) -> str:
    """The processor, its cores, the system, and the first GPU; never the name of the host.

    The vector instructions belong to it: with others sums are rounded otherwise.
    """
    name = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        names = [line.split(": ")[1] for line in lines if line.startswith("model name")]
        name = names[0] if names else name
    name = f"{name} with {torch.backends.cpu.get_cpu_capability()}"
    if cpu_has_bf16():  # large models compute in it
        name += " and bf16"
    told = f"{name}, {threads} of {os.cpu_count()} cores, {platform.system()}"
    return f"{torch.cuda.get_device_name()}, {told}" if torch.cuda.is_available() else told


def over_seeds(values: list[float]) -> dict:
    """A row: mean and interval of one success a seed, and each of them."""
    if len({*values}) == 1:  # seeds that agree show no spread
        return {"mean": values[0], "low": values[0], "high": values[0], "values": values}
    mean, low, high = table.interval([{"success": value} for value in values])
    return {"mean": mean, "low": low, "high": high, "values": values}


def t_interval(seeds: list) -> str:
    return f"95 %, t over seeds, n = {len(seeds)}"


def to_text(value, indent: int = 0) -> str:
    """JSON in which what fits a line stands on one, and numbers fill lines.

    >>> print(to_text({"seeds": [0, 1], "rows": {"base": {"mean": 0.5}}}))
    {"seeds": [0, 1], "rows": {"base": {"mean": 0.5}}}
    """
    flat = to_json(value)
    if len(flat) + indent <= 100 or not isinstance(value, dict | list):
        return flat
    inner = indent + 1
    if isinstance(value, dict):
        parts = [f"{to_json(key)}: {to_text(item, inner)}" for key, item in value.items()]
    else:
        parts = [to_text(item, inner) for item in value]
    lines = [""]
    for part in parts:
        full = len(lines[-1]) + len(part) + inner > 98
        if not lines[-1] or full or "{" in part:
            lines.append(part)
        else:
            lines[-1] += f", {part}"
    body = ",\n".join(" " * inner + line for line in lines[1:])
    start, end = "{}" if isinstance(value, dict) else "[]"
    return f"{start}\n{body}\n{' ' * indent}{end}"


def main() -> None:
    """Writes the results of a finished ladder."""
    from evidence.ladders import of_run

    parser = argparse.ArgumentParser(prog="python -m evidence.results")
    parser.add_argument("run", help="its name in runs/, or a path")
    parser.add_argument("name", nargs="?", help="of the file; default: the run's")
    parser.add_argument("note", nargs="?", default="", help="what a reader should know of that day")
    flags = parser.parse_args()
    save(
        FOLDER / f"{flags.name or Path(flags.run).name}.json", **of_run(flags.run), note=flags.note
    )


if __name__ == "__main__":
    main()
