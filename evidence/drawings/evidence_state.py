"""Figure of the experiments: which cup is opened after a thought that was changed."""

from math import log2

import matplotlib.pyplot as plt

from evidence.drawings.style import ACCENT, AGAINST, INCHES, INK, LINE, SOFT
from evidence.results import load

ARMS = {"base": "base", "act_prm": "Act-PRM", "expert_thoughts": "expert's thoughts"}
CHANGES = {  # as the results name it: what the figure says
    "none": "no thought",
    "its own": "its own thought",
    "of another state": "another state's",
    "cut after 0 swaps": "cut after 0 swaps",
    "cut after 1 swaps": "cut after 1",
    "cut after 2 swaps": "cut after 2",
    "cut after 3 swaps": "cut after 3",
    "last cup edited": "last cup edited",
    "edited after 2 swaps, written on": "edited after 2,\nwritten on",
}


def state():
    """Three models of cups, and nine thoughts that each is given before it acts: none, its own,
    that of another state, its own cut after none to three of the four swaps, and its own with a cup
    edited at the end or in the middle. Filled: the probability of the cup that the thought names.
    Hollow: that of the right cup. Of changed thoughts those count that name a wrong cup. Above: how
    many bits the last cup of a model's own thought tells of the right one."""
    rows = load("state")["rows"]
    figure, axes = plt.subplots(1, 3, figsize=(INCHES, 3.6), sharex=True, sharey=True)
    for axis, (arm, name) in zip(axes, ARMS.items(), strict=True):
        panel(axis, rows, arm)
        told = rows[f"{arm} | told by the last cup"]["mean"] * log2(5)
        axis.set_title(f"{name}\n{told:.2f} of 2.32 bits", color=INK)
    axes[0].set_yticks(range(len(CHANGES)), CHANGES.values(), fontsize=8)
    axes[0].invert_yaxis()
    axes[1].set_xlabel("probability that a cup is opened")
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=2, frameon=False, fontsize=8)
    return figure


def panel(axis, rows: dict, arm: str) -> None:
    """One model: two points for each change."""
    for cup, colour, fill in (("named", ACCENT, "full"), ("right", AGAINST, "none")):
        says = "the right cup" if cup == "right" else "the cup that the thought names"
        places = [i for i, change in enumerate(CHANGES) if (change, cup) != ("none", "named")]
        found = [rows[f"{arm} | {change} | {cup}"]["mean"] for change in CHANGES]
        points = [found[i] for i in places]
        size = 5 if cup == "named" else 9  # so that both are seen in one place
        axis.plot(points, places, "o", c=colour, fillstyle=fill, ms=size, clip_on=False, label=says)
    axis.axvline(0.2, color=SOFT, linewidth=1, linestyle=":")
    axis.set(xlim=(0, 1))
    axis.set_xticks([0, 0.5, 1], ["0", ".5", "1"])
    axis.grid(color=LINE, linewidth=0.8, axis="y")


FIGURES = {"evidence-state": state}
