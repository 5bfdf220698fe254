"""Figure of the evidence: one base for five worlds, and what is learned in one for the others."""

import matplotlib.pyplot as plt

from evidence.drawings.style import ACCENT, AGAINST, INCHES, INK, LINE, SOFT
from evidence.results import load

WORLDS = ("cups", "errand", "rooms", "frozenlake", "hanoi")
NAMES = ("cups", "errand", "rooms", "lake", "hanoi")
ARMS = {  # arm: colour, name
    "action_sft": (AGAINST, "actions alone"),
    "act_prm": (ACCENT, "Act-PRM"),
    "expert_thoughts": (SOFT, "script's thoughts"),
}


def several():
    """On the left success in five worlds from a base of that world alone (filled) and from one base
    of all five (hollow), for three arms; a point is a seed. On the right what Act-PRM made of the
    common base in one world, a row, plays in the others, a column: mean success. The more of a
    cell is filled, the higher. The first row is the base as it was."""
    told = load("several")
    figure, axes = plt.subplots(1, 2, figsize=(INCHES, 3.6))
    own_and_common(axes[0], told["rows"])
    matrix(axes[1], told)
    return figure


def own_and_common(axis, rows: dict) -> None:
    for y, world in enumerate(WORLDS):
        for i, (arm, (colour, _)) in enumerate(ARMS.items()):
            for j, (base, fill) in enumerate((("own", "full"), ("common", "none"))):
                values = rows[f"{world} | {base} | {arm}"]["values"]
                height = [y + 0.26 * (i - 1) + 0.11 * (j - 0.5)] * len(values)
                axis.plot(values, height, "o", c=colour, fillstyle=fill, ms=4, clip_on=False)
    for i, (colour, name) in enumerate(ARMS.values()):
        axis.text(0, 1.15 - 0.055 * i, name, color=colour, fontsize=8, transform=axis.transAxes)
    axis.set(xlim=(0, 1), ylim=(len(WORLDS) - 0.5, -0.5), xlabel="success on test tasks")
    axis.set_xticks([0, 0.5, 1], ["0", ".5", "1"])
    axis.set_yticks(range(len(WORLDS)), NAMES)
    axis.grid(axis="x", color=LINE, linewidth=0.8)


def success(told: dict, learned: str, played: str) -> float:
    """Of what Act-PRM made of the common base in one world, in another or in the same."""
    if learned in ("base", played):
        arm = "base" if learned == "base" else "act_prm"
        return told["rows"][f"{played} | common | {arm}"]["mean"]
    return told["elsewhere"][f"{learned} | {played}"]["mean"]


def matrix(axis, told: dict) -> None:
    """A number in each cell, over a bar as long as it."""
    learned = ("base", *WORLDS)
    for y, name in enumerate(learned):
        for x, played in enumerate(WORLDS):
            mean = success(told, name, played)
            colour = ACCENT if name == played else LINE
            axis.barh(y, 0.94 * mean, left=x - 0.47, height=0.9, color=colour, alpha=0.5, lw=0)
            axis.text(x, y, f"{mean:.2f}", ha="center", va="center", color=INK, fontsize=8)
    axis.set(xlim=(-0.5, len(WORLDS) - 0.5), ylim=(len(learned) - 0.5, -0.5))
    axis.set_xticks(range(len(WORLDS)), NAMES, fontsize=8)
    axis.set_yticks(range(len(learned)), ["base", *[f"in {name}" for name in NAMES]], fontsize=8)
    axis.set_xlabel("played")
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)


FIGURES = {"evidence-several": several}
