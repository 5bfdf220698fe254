"""Figures of the experiments in which one number grows: thoughts drawn, logs, the model.

Each is success against that number, a line through the means of an arm and a point for each seed.
"""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from evidence.drawings.style import ACCENT, AGAINST, INCHES, INK, LINE, SOFT, plt
from evidence.results import load

Style = tuple[str, str, str]  # of a line: what it is called, its colour, and how it is drawn

OURS = ("Act-PRM", ACCENT, "-")
OWN = ("the world's own thoughts", INK, "-")
BEST = ("best of the base, as many drawn", AGAINST, "-")

WAYS = {
    "best of the base": ("choosing", AGAINST, "-"),
    "r": ("Act-PRM, r (posterior)", SOFT, "--"),
    "r - b": ("r - b (recipe)", ACCENT, "--"),
    "r - mean(r)": ("r - mean(r) (centring)", ACCENT, "-"),
}
ARMS = {
    "expert_thoughts": OWN,
    "act_prm": OURS,
    "act_prm, best look": ("Act-PRM, its best look", ACCENT, "--"),
    "act_prm_resampled": OURS,
    "best_of_base_matched": BEST,
    "act_prm, refusing": ("Act-PRM, centring, bad steps left out", ACCENT, "--"),
    "best_of_base_matched, refusing": ("best of the base, bad steps left out", AGAINST, "--"),
    "best_of_base_resampled, as many drawn": BEST,
    "best_of_base_resampled": ("best of the base, 16 a step", AGAINST, "--"),
    "action_sft": ("actions alone", SOFT, "-"),
    "action_sft, ten passes": ("actions alone, ten passes", SOFT, "--"),
}


def selecting() -> Figure:
    """Four bases, a panel each, with ever fewer good thoughts. Success against the thoughts that
    were drawn for each step, for four ways to spend them: keep the best, or learn, with one of
    three weights. Squares: keep the best of 44, and leave out steps where it is bad."""
    rows = list(load("selecting")["rows"].values())
    shares = list(dict.fromkeys(row["share"] for row in rows))
    figure, panels = plt.subplots(1, len(shares), figsize=(INCHES, 3.2), sharey=True)
    for axis, share in zip(panels, shares, strict=True):
        of_share = [row for row in rows if row["share"] == share]
        lines(axis, of_share, "way", WAYS, "drawn")
        refusing = load("filtered")["rows"][f"{share} | steps left out"]["values"]
        look = {"color": AGAINST, "fillstyle": "none", "markersize": 5, "clip_on": False}
        label = "choosing, bad steps left out"
        most = max(row["drawn"] for row in of_share)
        axis.plot([most] * len(refusing), refusing, "s", label=label, **look)
        axis.set_title(f"{100 * share:g} in 100 good", loc="left")
    panels[0].set_ylabel("success", color=INK)
    figure.supxlabel("thoughts drawn for each step, training included", fontsize=9, color=SOFT)
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper left", frameon=False, ncols=3, fontsize=8)
    return figure


def logs_cups() -> Figure:
    """Success on cups against the number of logs, from 8 to 1,024, a line for each arm and a point
    for each seed. Random play is dotted."""
    return one_panel("logs", "logs", "logs to learn from")


def logs_errand() -> Figure:
    """Success on errand against the number of logs, from 2 to 512, a line for each arm and a point
    for each seed. Random play is dotted."""
    return one_panel("logs_errand", "logs", "logs to learn from")


def scales() -> Figure:
    """Success on cups against the parameters of the embedded model, a line for each arm and a point
    for each seed. Random play is dotted."""
    return one_panel("scales", "parameters", "parameters of the model")


def one_panel(name: str, by: str, told: str) -> Figure:
    """The arms of a results file, against `by`."""
    rows = list(load(name)["rows"].values())
    figure, axis = plt.subplots(figsize=(INCHES, 3.6))
    lines(axis, rows, "arm", ARMS, by)
    random = [row["mean"] for row in rows if row["arm"] == "random"]
    axis.axhline(sum(random) / len(random), color=SOFT, linestyle=":", label="random play")
    axis.set(ylabel="success on unseen tasks", xlabel=told)
    figure.legend(loc="outside upper left", ncols=2, frameon=False)
    return figure


def lines(axis: Axes, rows: list[dict], what: str, styles: dict[str, Style], by: str) -> None:
    """Means as lines, seeds as points: of the rows whose `what` is in styles, against `by`."""
    for arm, (label, colour, line) in styles.items():
        found = [row for row in rows if row[what] == arm]
        if not found:
            continue
        numbers = [row[by] for row in found]
        means = [row["mean"] for row in found]
        axis.plot(numbers, means, line, color=colour, linewidth=1.4, label=label, clip_on=False)
        look = {"color": colour, "markersize": 3, "clip_on": False}
        look["fillstyle"] = "full" if line == "-" else "none"
        for row in found:
            axis.plot([row[by]] * len(row["values"]), row["values"], "o", **look)
    ticks = sorted({row[by] for row in rows})
    axis.set(ylim=(0, 1), xscale="log")
    axis.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axis.minorticks_off()
    axis.grid(color=LINE, linewidth=0.8)


FIGURES = {
    "evidence-selecting": selecting,
    "evidence-logs": logs_cups,
    "evidence-logs-errand": logs_errand,
    "evidence-scales": scales,
}
