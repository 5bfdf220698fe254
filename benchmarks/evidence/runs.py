"""What the experiments share: a base whose good thoughts are scarce, a recipe, and runs."""

import re
from collections.abc import Callable

from docs.results import over_seeds
from minprm.commands.train import go_on
from minprm.report.files import RUNS

SEEDS = [301, 302, 303]


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
    knobs = {"baseline": "no_thought", "updates": 80, "lr": 6e-4} | changed
    flags = [f"--act-prm.{name.replace('_', '-')} {value}" for name, value in knobs.items()]
    return " ".join([*flags, f"--sft.epochs {epochs}"])


def successes(name: str, flags: str, seeds: list[int] = SEEDS) -> dict[str, dict]:
    """Of each arm: success on test tasks, as a row. A run that exists is gone on with."""
    numbers = " ".join(map(str, seeds))
    ladder, _ = go_on(f"evidence-{name}", f"{flags} --seeds {numbers}".split())
    return {arm: over_seeds([row["success"] for row in rows]) for arm, rows in ladder.items()}


def by_logs(sizes: tuple[int, ...], measured: Callable[[int], dict[str, dict]]) -> dict[str, dict]:
    """The rows that `measured` finds for each number of logs, under one name each."""
    rows = {}
    for logs in sizes:
        for arm, row in measured(logs).items():
            rows[f"{logs} | {arm}"] = {"logs": logs, "arm": arm, **row}
    return rows


def good_shares(name: str) -> dict[str, list[float]]:
    """What the gate found of each seed's base: the share of good thoughts over all states
    ("good"), and over the tenth of the states where they are rarest ("scarcest")."""
    log = (RUNS / f"evidence-{name}" / "log.txt").read_text(encoding="utf-8")
    found = {}
    for share in ("good", "scarcest"):
        found[share] = [float(x) for x in re.findall(rf"base model: .*{share} (\S+)", log)]
    return found
