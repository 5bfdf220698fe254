"""python -m benchmarks.evidence.paid: what should a thought be paid for?

Seven ways to turn the rewards of a group into weights, where good thoughts are scarce. All else is
equal: the same bases, samples, rate and fine-tuning. The sentence "what matters is to pay for what
a thought adds" is false if a way that does not subtract the action's probability without a thought
does as well.
"""

import re
from unittest.mock import patch

from benchmarks.evidence.runs import base, recipe, successes
from docs import tables
from docs.results import save_run, t_interval, take_json_flag
from minprm.stages import act_prm

SEEDS = [301, 302, 303, 304, 305]
PLAIN = {"baseline": "none"}
ALONE = {**PLAIN, "trained_on": "thought"}
WAYS = {
    "`posterior` of r": PLAIN,
    "`none` (REINFORCE) of r": PLAIN | {"advantage": "none"},
    "`mean` of r, thoughts alone": ALONE | {"advantage": "mean"},
    "`mean_std` of r, thoughts alone": ALONE | {"advantage": "mean_std"},
    "`posterior` of log r - log b, if above 0": {},
    "`none` (REINFORCE) of r - b, if above 0": {"advantage": "none"},
    "`posterior` of r - b, if above 0 (the recipe)": {},
}


def log_ratio(r, b):
    """How much likelier the thought makes the action, in nats; 0 where it does not."""
    return (r / b).log().clamp(min=0) if b else r


def measured(way: str, knobs: dict) -> dict:
    """Success of one way, a row."""
    run = "paid-" + re.sub("[^a-z0-9]+", "-", way.lower()).strip("-")
    flags = f"{base()} {recipe(**knobs)} --arms act_prm --jobs 1"
    if "log r" not in way:
        return successes(run, flags, SEEDS)["act_prm"]
    with patch.object(act_prm, "gain", log_ratio):  # --jobs 1: it has to be this process
        return successes(run, flags, SEEDS)["act_prm"]


def main() -> None:
    path = take_json_flag()
    rows = {way: measured(way, knobs) for way, knobs in WAYS.items()}
    print(tables.successes(rows))
    save_run(path, SEEDS, t_interval(SEEDS), rows)


if __name__ == "__main__":
    main()
