"""Figures of the chapter on evidence: success against the number of logs, on cups and errand."""

from docs.drawing.style import ACCENT, AGAINST, INCHES, INK, LINE, SOFT, plt
from docs.results import load

CUPS = {  # arm: what it is called, its colour, and how its line is drawn
    "expert_thoughts": ("the world's own explanations", INK, "-"),
    "act_prm": ("Act-PRM", ACCENT, "-"),
    "act_prm, best look": ("Act-PRM, its best look", ACCENT, "--"),
    "best_of_base_matched": ("best of the base, as many drawn", AGAINST, "-"),
    "action_sft": ("actions alone", SOFT, "-"),
    "action_sft, ten passes": ("actions alone, ten passes", SOFT, "--"),
}
ERRAND = {
    "expert_thoughts": CUPS["expert_thoughts"],
    "act_prm_resampled": CUPS["act_prm"],
    "best_of_base_resampled, as many drawn": CUPS["best_of_base_matched"],
    "best_of_base_resampled": ("best of the base, 16 a step", AGAINST, "--"),
    "action_sft": CUPS["action_sft"],
}


def logs_cups():
    """Success on cups against the number of logs, from 8 to 1,024, a line for each arm and a point
    for each seed. Random play is dotted."""
    return _success("logs", CUPS)


def logs_errand():
    """Success on errand against the number of logs, from 2 to 512, a line for each arm and a point
    for each seed. Random play is dotted."""
    return _success("logs_errand", ERRAND)


def _success(name: str, arms: dict[str, tuple]):
    """Means as lines, seeds as points."""
    rows = list(load(name)["rows"].values())
    figure, axis = plt.subplots(figsize=(INCHES, 3.6))
    for arm, (label, colour, line) in arms.items():
        found = [row for row in rows if row["arm"] == arm]
        logs = [row["logs"] for row in found]
        means = [row["mean"] for row in found]
        axis.plot(logs, means, line, color=colour, linewidth=1.4, label=label, clip_on=False)
        for row in found:
            seeds = row["values"]
            how = {"color": colour, "markersize": 3.5, "clip_on": False}
            full = "full" if line == "-" else "none"
            axis.plot([row["logs"]] * len(seeds), seeds, "o", fillstyle=full, **how)
    random = [row["mean"] for row in rows if row["arm"] == "random"]
    axis.axhline(sum(random) / len(random), color=SOFT, linestyle=":", label="random play")
    sizes = sorted({row["logs"] for row in rows})
    axis.set(ylim=(0, 1), ylabel="success on unseen tasks", xlabel="logs to learn from")
    axis.set_xscale("log", base=2)
    axis.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axis.minorticks_off()
    axis.grid(color=LINE, linewidth=0.8)
    figure.legend(loc="outside upper left", ncols=2, frameon=False)
    return figure


FIGURES = {"evidence-logs": logs_cups, "evidence-logs-errand": logs_errand}
