"""python -m benchmarks.evidence.paid: what should a thought be paid for?

Seven ways to turn the rewards of a group into weights, where good thoughts are scarce. All else is
equal: the same bases, samples, rate and fine-tuning. The sentence "what matters is to pay for what
a thought adds" is false if a way that does not subtract the action's probability without a thought
does as well.
"""

import re
from unittest.mock import patch

from benchmarks.evidence.runs import RECIPE, base, successes
from docs import tables
from docs.results import save_run, t_interval, take_json_flag
from minprm.stages import act_prm

SEEDS = [301, 302, 303, 304, 305]
PLAIN = "--act-prm.baseline none"
WAYS = {
    "`posterior`, no baseline": PLAIN,
    "`none` (REINFORCE), no baseline": f"{PLAIN} --act-prm.advantage none",
    "`mean`, no baseline; thought alone": f"{PLAIN} --act-prm.advantage mean "
    "--act-prm.trained-on thought",
    "`mean_std`, no baseline; thought alone": f"{PLAIN} --act-prm.advantage mean_std "
    "--act-prm.trained-on thought",
    "`posterior` of log r - log b, if above 0": "--jobs 1",
    "`none` (REINFORCE) of r - b, if above 0": "--act-prm.advantage none",
    "`posterior` of r - b, if above 0 (the recipe)": "",
}


def log_ratio(r, b):
    """How much likelier the thought makes the action, in nats; 0 where it does not."""
    return (r / b).log().clamp(min=0) if b else r


def measured(name: str, flags: str) -> dict:
    """Success of one way, a row."""
    run = "paid-" + re.sub("[^a-z0-9]+", "-", name.lower()).strip("-")
    said = f"{base()} {RECIPE} {flags} --arms act_prm"
    if "log r" not in name:
        return successes(run, said, SEEDS)["act_prm"]
    with patch.object(act_prm, "gain", log_ratio):
        return successes(run, said, SEEDS)["act_prm"]


def main() -> None:
    path = take_json_flag()
    rows = {name: measured(name, flags) for name, flags in WAYS.items()}
    print(tables.successes(rows))
    save_run(path, SEEDS, t_interval(SEEDS), rows)


if __name__ == "__main__":
    main()
