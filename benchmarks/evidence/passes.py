"""python -m benchmarks.evidence.passes [SHARE ...]: is choosing that refuses trained too little?

SFT makes ten passes over the logs that it gets. Choosing that refuses gets fewer logs than learning
does, so it makes fewer updates: at 1 good thought in 100 about a third. Here it is fine-tuned a
second time, with as many passes as give it the updates that ten passes over all logs are. The seeds
are those of ahead.py, raised again. Written before the first run, after a look at one seed of
filtered.py: "it is trained enough" is false of a share and a number of thoughts if the 95 % t
interval of the ten differences, more passes minus ten, lies above 0. "Learning is ahead" of it is
false if the interval of learning minus more passes does not lie above 0.
"""

import math
import sys

from benchmarks.evidence import ahead, as_long
from benchmarks.evidence.filtered import refusing, refusing_steps
from benchmarks.evidence.fresh import SEEDS
from benchmarks.evidence.runs import by_each, successes
from docs import tables
from docs.results import over_seeds, save_run, t_interval, take_json_flag
from minprm.commands.train import go_on
from minprm.constants import SFT, Config
from minprm.report.files import RUNS

THOUGHTS = {0.03: [44], 0.01: [44, 140], 0.003: [44, 140]}  # a step, by the share of good ones


def ten_passes(share: float, thoughts: int) -> tuple[str, str, dict]:
    """Of choosing among so many: the run's name, its flags and its row."""
    if thoughts == 44:
        row = refusing_steps("ahead", share, SEEDS)
        return f"ahead-steps-{share}", refusing(share), row
    name, flags = f"as_long-{share}-{thoughts}", as_long.flags(share, thoughts)
    return name, flags, successes(name, flags, SEEDS)["best_of_base_matched"]


def as_many_updates(name: str, flags: str, seed: int) -> tuple[float, int]:
    """Success if the logs that this run kept are passed over more often, and how many they are."""
    (kept,) = (RUNS / f"evidence-{name}").glob(f"relabelled-*-{seed}.jsonl")
    logs = len(kept.read_text(encoding="utf-8").splitlines())
    passes = math.ceil(SFT().epochs * Config().num_demos / logs)
    run = f"evidence-passes-{name}-{seed}"
    found, _ = go_on(run, f"{flags} --sft.epochs {passes} --seeds {seed}".split())
    return found["best_of_base_matched"][0]["success"], logs


def measured(share: float) -> dict[str, dict]:
    """Rows of the bases with this share of good thoughts."""
    learning = successes(f"ahead-{share}", ahead.flags(share), SEEDS)["act_prm"]
    rows = {"learning, 44": learning}
    for thoughts in THOUGHTS[share]:
        name, flags, ten = ten_passes(share, thoughts)
        found = [as_many_updates(name, flags, seed) for seed in SEEDS]
        more = over_seeds([success for success, _ in found])
        rows[f"choosing, {thoughts}, ten passes"] = ten
        rows[f"choosing, {thoughts}, more passes"] = more | {"logs": [logs for _, logs in found]}
        rows[f"what more passes add, {thoughts}"] = ahead.difference(more, ten)
        rows[f"learning ahead of more passes, {thoughts}"] = ahead.difference(learning, more)
    return rows


def main() -> None:
    path = take_json_flag()
    rows = by_each("share", map(float, sys.argv[1:] or THOUGHTS), measured)
    print(tables.successes(rows))
    save_run(path, SEEDS, t_interval(SEEDS), rows)


if __name__ == "__main__":
    main()
