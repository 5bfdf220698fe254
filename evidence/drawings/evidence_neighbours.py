"""Figure of the evidence: Act-PRM and its neighbours, on two bases."""

import matplotlib.pyplot as plt

from evidence.drawings.style import ACCENT, AGAINST, GREY, INCHES, INK, LINE, SOFT
from evidence.results import load

BASES = {"thought first": (AGAINST, -0.17), "either order": (ACCENT, 0.17)}
REFERENCES = ("random", "expert")


def neighbours():
    """Success of thirteen ways to get thoughts for logs of actions: the mean of three seeds, its
    interval, and small the seeds. Those that do not show the action start from a base that has
    never seen an action before its thought, those that show it from one that has."""
    rows = load("neighbours")["rows"]
    of = {base: {} for base in BASES}
    for name, row in rows.items():
        base, _, way = name.partition(" | ")
        of[base][way] = row
    ways = [way for way in {**of["either order"], **of["thought first"]} if way not in REFERENCES]
    ways.sort(key=lambda way: (way.startswith("Act-PRM"), "recipe" in way))
    figure, axis = plt.subplots(figsize=(INCHES, 4.6))
    for base, (colour, shift) in BASES.items():
        for y, way in enumerate(ways):
            if way not in of[base]:
                continue
            row = of[base][way]
            axis.plot([row["low"], row["high"]], [y + shift] * 2, color=colour, linewidth=1.5)
            axis.plot(row["mean"], y + shift, "o", color=colour, markersize=6, clip_on=False)
            seeds = row["values"]
            axis.plot(seeds, [y + shift] * len(seeds), "|", color=colour, markersize=6)
    for name in REFERENCES:
        axis.axvline(of["thought first"][name]["mean"], color=GREY, linewidth=1, linestyle=":")
    axis.text(1, -0.75, "expert", color=SOFT, ha="right", fontsize=8)
    axis.text(0.015, -0.75, "random play", color=SOFT, fontsize=8)
    axis.set_yticks(range(len(ways)), ways, color=INK)
    axis.set(xlim=(0, 1.02), ylim=(len(ways) - 0.4, -1.1), xticks=[0, 0.5, 1])
    axis.set_xlabel("success on unseen tasks")
    axis.grid(color=LINE, linewidth=0.8, axis="x")
    axis.tick_params(axis="y", length=0)
    for i, (base, (colour, _)) in enumerate(BASES.items()):
        axis.text(0.98, 4.2 + i * 0.6, f"base raised {base}", color=colour, ha="right", fontsize=8)
    return figure


FIGURES = {"evidence-neighbours": neighbours}
