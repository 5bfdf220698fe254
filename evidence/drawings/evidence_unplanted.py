"""Figure of the evidence: a base whose thoughts were never planted."""

import matplotlib.pyplot as plt

from evidence.drawings.style import ACCENT, AGAINST, INCHES, INK, LINE, SOFT
from evidence.results import load

CASES = {  # name in the results: what is said of it
    "twice | 2": "2 swaps; documents\nlist, then tell",
    "once | 2": "2 swaps; documents\nonly tell",
    "twice | 3": "3 swaps; documents\nlist, then tell",
}
ARMS = {  # arm: colour, filled as, name, and how far above its row
    "action_sft": (SOFT, "full", "no thoughts", 0.24),
    "best_of_base_matched": (AGAINST, "full", "best of the base", 0.08),
    "act_prm": (ACCENT, "full", "Act-PRM", -0.08),
    "expert_thoughts": (INK, "none", "script's thoughts", -0.24),
}


def shares(axis, told: dict) -> None:
    """The good thoughts of each seed, before Act-PRM and after it."""
    for y, case in enumerate(CASES):
        before, after = told["shares"][case]["before"], told["shares"][case]["after"]
        for i, pair in enumerate(zip(before, after, strict=True)):
            height = y + 0.15 * (1 - i)
            axis.plot(pair, [height] * 2, color=LINE, linewidth=2)
            axis.plot(pair[0], height, "o", color=SOFT, clip_on=False)
            axis.plot(pair[1], height, "o", color=ACCENT, clip_on=False)
    axis.set(xscale="log", xlim=(1e-10, 1.5), ylim=(2.5, -0.5))
    axis.set_xticks([1e-9, 1e-6, 1e-3, 1], ["1e-9", "1e-6", ".001", "1"])
    axis.minorticks_off()
    axis.set_yticks(range(len(CASES)), CASES.values())
    axis.text(0, 1.01, "before", color=SOFT, fontsize=8, transform=axis.transAxes)
    place = {"transform": axis.transAxes, "ha": "right"}
    axis.text(1, 1.01, "after Act-PRM", color=ACCENT, fontsize=8, **place)
    axis.set_xlabel("share of good thoughts")


def success(axis, told: dict) -> None:
    """Each arm's success, seed by seed."""
    for y, case in enumerate(CASES):
        for arm, (colour, fill, _, up) in ARMS.items():
            values = told["rows"][f"{case} | {arm}"]["values"]
            axis.plot(values, [y - up] * len(values), "o", color=colour, fillstyle=fill)
    for arm, line in (("random", ":"), ("expert", "--")):
        means = [told["rows"][f"{case} | {arm}"]["mean"] for case in CASES]
        axis.axvline(sum(means) / len(means), color=SOFT, linewidth=1, linestyle=line)
    axis.set(xlim=(0, 1.04), ylim=(2.5, -0.5), xticks=[0, 0.5, 1], yticks=[])
    axis.set_xlabel("success on test tasks")
    for i, (colour, _, name, _) in enumerate(ARMS.values()):
        place = 0.53 * (i // 2), 1.07 - 0.06 * (i % 2)
        axis.text(*place, name, color=colour, fontsize=8, transform=axis.transAxes)


def unplanted():
    """Bases that never read a good thought, three seeds each. On the left the share of good
    thoughts before Act-PRM and after it, on the right the success of four arms. With two swaps, and
    documents that list the swaps before they tell them, one seed of three learns to think: its good
    thoughts go from 7 in 100,000 to a third, and its success is .88. Random play is the dotted
    line, the expert the dashed one."""
    told = load("unplanted")
    figure, axes = plt.subplots(1, 2, figsize=(INCHES, 3.4))
    shares(axes[0], told)
    success(axes[1], told)
    for axis in axes:
        axis.grid(axis="x", color=LINE, linewidth=0.8)
    return figure


FIGURES = {"unplanted": unplanted}
