"""Figure of chapter 11: a reward that rises is no success yet."""

import matplotlib.pyplot as plt

from evidence.drawings.style import ACCENT, AGAINST, INCHES, INK, LINE, SOFT
from evidence.results import load

FAILED = {  # part of a row's name: what is said of it, and where the words stand
    "span turn; posterior": ("the reward reads the turn's tags too", (-10, -3), "right"),
    "from state_action": ("the thoughts saw the action", (-11, -12), "right"),
    "without the skill": ("no useful thought to find", (10, -8), "left"),
}


def failed(name: str) -> str:
    """The key of FAILED whose row this is; empty for those that went well."""
    plain = name.replace("`", "")
    return next((part for part in FAILED if part in plain), "")


def failures():
    """Twelve variants of Act-PRM on one round of cups: the reward in training against success. Nine
    end at a reward of .84 or more and a success of .97 or more. Three fail. Where thoughts saw the
    action, one seed ends at a reward of .72 and a success of .29, near chance."""
    figure, axis = plt.subplots(figsize=(INCHES, 3.4))
    for name, row in load("ablations")["rows"].items():
        x, y = row["reward"]["mean"], row["act_prm"]["mean"]
        part = failed(name)
        colour = AGAINST if part else ACCENT
        axis.plot(x, y, "o", color=colour, markersize=7, clip_on=False)
        if part:
            says, offset, side = FAILED[part]
            axis.annotate(says, (x, y), offset, textcoords="offset points", ha=side, color=colour)
            seeds = row["reward"]["values"], row["act_prm"]["values"]
            if len(seeds[0]) == len(seeds[1]):  # of some rows the mean alone is known
                axis.plot(*seeds, "o", color=colour, markersize=4, fillstyle="none")
    axis.text(0.83, 0.9, "the others", color=ACCENT, ha="right")
    axis.text(0.73, 0.28, "small: its seeds", color=AGAINST, fontsize=8, va="center")
    axis.axhline(0.2, color=SOFT, linewidth=1, linestyle=":")
    axis.text(1, 0.21, "chance", color=SOFT, ha="right", va="bottom")
    axis.set(xlim=(0, 1), ylim=(0, 1.02))
    axis.set_xlabel("reward in training, last update")
    axis.set_ylabel("success on unseen tasks", color=INK)
    axis.grid(color=LINE, linewidth=0.8)
    return figure


FIGURES = {"failures": failures}
