"""What the experiments share: a base whose good thoughts are scarce, a recipe, and runs."""

import re
import sys
from collections.abc import Callable, Iterable
from statistics import fmean

from evidence import tables
from evidence.results import over_seeds, save_run, t_interval, take_json_flag
from minprm.commands.presets import POSTERIOR
from minprm.commands.train import go_on
from minprm.report.files import RUNS

Measured = Callable[[float], dict[str, dict]]  # of a number: the rows of all arms, by their names
SEEDS = [301, 302, 303]
# Knobs of --act-prm: a thought is weighed by r - mean(r), and learned without the action
CENTRED = {"baseline": "none", "advantage": "mean", "trained_on": "thought"}


def base(faithful: float = 0.03) -> str:
    """Flags of cups, whose embedded model was raised with this share of good thoughts.

    What is missing of the usual .10 are thoughts that follow the ball from a wrong start. No base
    is turned away by the gate: that would choose among seeds.
    """
    mixture = f"faithful={faithful} wrong={0.55 - faithful:.3f} restate=.35 bare=.10"
    return f"--preset cups --no-gate --tiny.mixture {mixture}"


def recipe(epochs: int = 10, **changed) -> str:
    """Flags of the frozen recipe; `epochs` of fine-tuning, `changed` are other knobs of
    --act-prm."""
    knobs = {"baseline": "no_thought", **POSTERIOR, "updates": 80, "lr": 6e-4} | changed
    flags = [f"--act-prm.{name.replace('_', '-')} {value}" for name, value in knobs.items()]
    return " ".join([*flags, f"--sft.epochs {epochs}"])


def successes(name: str, flags: str, seeds: list[int] = SEEDS) -> dict[str, dict]:
    """Of each arm: success on test tasks, as a row, and the seconds that a seed took in the mean.
    A run that exists is gone on with."""
    numbers = " ".join(map(str, seeds))
    ladder, _ = go_on(f"evidence-{name}", f"{flags} --seeds {numbers}".split())
    found = {}
    for arm, rows in ladder.items():
        seconds = fmean(row["seconds"] for row in rows)
        found[arm] = over_seeds([row["success"] for row in rows]) | {"seconds": round(seconds, 1)}
    return found


def by_each(name: str, values: Iterable[float], measured: Measured) -> dict[str, dict]:
    """The rows of all arms that `measured` finds for each value, under one name each.

    name: what the values are, as "logs".
    """
    rows = {}
    for value in values:
        for arm, row in measured(value).items():
            rows[f"{value} | {arm}"] = {name: value, "arm": arm, **row}
    return rows


def by_shares(shares: Iterable[float], seeds: list[int], measured: Measured) -> None:
    """What a program of shares of good thoughts does: it measures those that its command names, or
    all of them, prints the rows, and saves them where --json says."""
    path = take_json_flag()
    rows = by_each("share", map(float, sys.argv[1:] or shares), measured)
    print(tables.successes(rows))
    save_run(path, seeds, t_interval(seeds), rows)


def good_shares(name: str) -> dict[str, list[float]]:
    """What the gate found of each seed's base: the share of good thoughts over all states
    ("good"), and over the tenth of the states where they are rarest ("scarcest")."""
    log = (RUNS / f"evidence-{name}" / "log.txt").read_text(encoding="utf-8")
    told = dict.fromkeys(re.findall("base model: (.*)", log))  # a run gone on with says it again
    found = {}
    for share in ("good", "scarcest"):
        found[share] = [float(x) for x in re.findall(rf"{share} (\S+)", "\n".join(told))]
    return found
