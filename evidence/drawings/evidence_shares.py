"""The figure of what decides: success against the share of good thoughts that a base writes."""

from evidence.drawings.style import ACCENT, AGAINST, INCHES, INK, LINE, plt
from evidence.results import load

LEARNING = "learning"
AGAIN = "learning, other logs"
CHOOSING = "choosing"
REFUSING = "choosing, bad steps left out"
TICKS = {1e-5: "1 in 100,000", 1e-4: "1 in 10,000", 1e-3: "1 in 1,000", 1e-2: "1 in 100"}
LOOKS = {
    CHOOSING: {"marker": ".", "color": AGAINST, "markersize": 4},
    REFUSING: {"marker": "s", "color": AGAINST, "markersize": 4, "fillstyle": "none"},
    AGAIN: {"marker": "o", "color": ACCENT, "markersize": 4, "fillstyle": "none"},
    LEARNING: {"marker": "o", "color": ACCENT, "markersize": 4},
}


def points() -> dict[str, list[tuple[float, float]]]:
    """Of each way: (share of good thoughts where they are rarest, success), one for each run."""
    found = {look: [] for look in LOOKS}
    selecting, filtered = load("selecting"), load("filtered")["rows"]
    for share, written in selecting["shares"].items():
        learned = selecting["rows"][f"{share} | 44 | r - mean(r)"]["values"]
        chosen = selecting["rows"][f"{share} | 44 | best of the base"]["values"]
        refused = filtered[f"{share} | steps left out"]["values"]
        found[LEARNING] += zip(written["scarcest"], learned, strict=True)
        found[CHOOSING] += zip(written["scarcest"], chosen, strict=True)
        found[REFUSING] += zip(written["scarcest"], refused, strict=True)
    fresh, ahead = load("fresh"), load("ahead")
    for share, written in ahead["shares"].items():
        learned = ahead["rows"][f"{share} | learning"]["values"]
        refused = ahead["rows"][f"{share} | steps left out"]["values"]
        found[LEARNING] += zip(written["scarcest"], learned, strict=True)
        found[REFUSING] += zip(written["scarcest"], refused, strict=True)
    for share, written in fresh["shares"].items():
        chosen = fresh["rows"][f"{share} | best_of_base_matched"]["values"]
        found[CHOOSING] += zip(written["scarcest"], chosen, strict=True)
    again = load("luck")["rows"].values()
    for scarcest, row in zip(ahead["shares"]["0.003"]["scarcest"], again, strict=True):
        found[AGAIN] += [(scarcest, success) for success in row["values"]]
    return found


def shares():
    """Success against the share of good thoughts in the hardest tenth of the states, a point for
    each run with 44 thoughts a step: learning, and choosing with its bad steps or without them."""
    figure, axis = plt.subplots(figsize=(INCHES, 3.4))
    for way, runs in points().items():
        where, success = zip(*runs, strict=True)
        axis.plot(where, success, linestyle="", label=way, clip_on=False, **LOOKS[way])
    axis.set(ylim=(0, 1), xscale="log", xlabel="good thoughts in the hardest tenth of the states")
    axis.set_xticks(list(TICKS), list(TICKS.values()))
    axis.minorticks_off()
    axis.set_ylabel("success", color=INK)
    axis.grid(color=LINE, linewidth=0.8)
    figure.legend(loc="outside upper left", ncols=2, frameon=False)
    return figure


FIGURES = {"evidence-shares": shares}
