"""The figure of choosing once, repeated choosing, and learning, on the same bases."""

from evidence.drawings.style import ACCENT, AGAINST, GREY, INCHES, INK, plt
from evidence.results import load

NAMES = ("once", "repeated", "learning")


def ways(share: float) -> list[dict]:
    """The rows of chosen once, chosen four times, learned."""
    rows = load("rounds")["rows"]
    once = load("passes")["rows"][f"{share} | choosing, 44"]
    return [once, rows[f"{share} | choosing, 4 times 11"], rows[f"{share} | learning, 44"]]


def rounds():
    """A panel for each share of good thoughts in the base's training. A line is a seed: its success
    if the best of 44 thoughts is chosen once, of 11 four times, and if Act-PRM learns with 44.
    A bar is the mean of the ten seeds."""
    shares = list(dict.fromkeys(row["share"] for row in load("rounds")["rows"].values()))
    figure, panels = plt.subplots(1, len(shares), figsize=(INCHES, 2.8), sharey=True)
    for axis, share in zip(panels, shares, strict=True):
        found = ways(share)
        for seed in zip(*(row["values"] for row in found), strict=True):
            axis.plot(range(3), seed, color=GREY, linewidth=0.8, zorder=1)
        for x, (row, colour) in enumerate(zip(found, (AGAINST, AGAINST, ACCENT), strict=True)):
            at = [x] * len(row["values"])
            axis.plot(at, row["values"], "o", color=colour, markersize=3.5, clip_on=False)
            axis.plot([x - 0.2, x + 0.2], [row["mean"]] * 2, color=colour, linewidth=2.5)
        axis.set_xticks(range(3), NAMES, fontsize=8)
        axis.set(xlim=(-0.4, 2.4), ylim=(0, 1))
        axis.set_title(f"{100 * share:g} in 100 good", loc="left")
    panels[0].set_ylabel("success", color=INK)
    return figure


FIGURES = {"evidence-rounds": rounds}
