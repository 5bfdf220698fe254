"""python -m evidence.experiments.passes [SHARE ...]: is choosing that refuses trained too little?

SFT makes ten passes over the logs that it gets. Choosing that refuses gets fewer logs than learning
does, so it makes fewer updates: at 1 good thought in 100 about a third. Here it is fine-tuned a
second time, with as many passes as give it the updates that ten passes over all logs are. The seeds
are those of ahead.py, raised again. Written before the first run, after a look at one seed of
filtered.py: "it is trained enough" is false of a share if the 95 % t interval of the ten
differences, more passes minus ten, lies above 0. "Learning is ahead" of it is false if the interval
of learning minus more passes does not lie above 0.
"""

import math

from evidence.experiments import ahead, as_long
from evidence.experiments.filtered import refusing, refusing_steps
from evidence.experiments.fresh import SEEDS
from evidence.experiments.runs import by_shares, successes
from evidence.results import over_seeds
from minprm.commands.train import go_on
from minprm.constants import SFT, Config
from minprm.report.files import RUNS

SHARES = (0.03, 0.01, 0.003)
AS_LONG = {0.01: 140}  # thoughts that take as long as learning; at this share alone, for time


def as_many_updates(share: float, seed: int) -> tuple[float, int]:
    """Success if the logs that choosing kept are passed over more often, and how many they are."""
    (kept,) = (RUNS / f"evidence-ahead-steps-{share}").glob(f"relabelled-*-{seed}.jsonl")
    logs = len(kept.read_text(encoding="utf-8").splitlines())
    passes = math.ceil(SFT().epochs * Config().num_demos / logs)
    run = f"evidence-passes-{share}-{seed}"
    found, _ = go_on(run, f"{refusing(share)} --sft.epochs {passes} --seeds {seed}".split())
    return found["best_of_base_matched"][0]["success"], logs


def measured(share: float) -> dict[str, dict]:
    """Rows of the bases with this share of good thoughts."""
    learning = successes(f"ahead-{share}", ahead.flags(share), SEEDS)["act_prm"]
    ten = refusing_steps("ahead", share, SEEDS)
    found = [as_many_updates(share, seed) for seed in SEEDS]
    more = over_seeds([success for success, _ in found])
    rows = {
        "learning, 44": learning,
        "choosing, 44": ten,
        "choosing, 44, more passes": more | {"logs": [logs for _, logs in found]},
        "what more passes add": ahead.difference(more, ten),
        "ahead of 44": ahead.difference(learning, ten),
        "ahead of 44, more passes": ahead.difference(learning, more),
    }
    if thoughts := AS_LONG.get(share):
        longer = as_long.choosing(share, thoughts)
        rows[f"choosing, {thoughts}"] = longer
        rows[f"ahead of {thoughts}"] = ahead.difference(learning, longer)
    return rows


def main() -> None:
    by_shares(SHARES, SEEDS, measured)


if __name__ == "__main__":
    main()
