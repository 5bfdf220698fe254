"""Figures of the experiments: rounds of more and fewer swaps than the arms were trained on, and
walks to more cells."""

import matplotlib.pyplot as plt

from evidence.drawings.style import ACCENT, AGAINST, GREY, INCHES, INK, SOFT, WASH
from evidence.results import load

BASES = {"4": "base raised on 4 swaps", "2 to 8": "base raised on 2 to 8 swaps"}
LINES = {  # arm: (its name, colour, style)
    "base": ("base", GREY, "-"),
    "action_sft": ("actions alone", SOFT, ":"),
    "best_of_base_matched": ("best of base", AGAINST, "-"),
    "expert_thoughts": ("expert's thoughts", INK, "--"),
    "act_prm": ("Act-PRM", ACCENT, "-"),
}
ERRAND = LINES | {  # whose arms resample paths of thoughts
    "best_of_base_resampled": LINES["best_of_base_matched"],
    "act_prm_resampled": LINES["act_prm"],
}
WALKS = {"1": "base raised on one cell", "3": "base raised on one to three"}
FATES = {  # of a thought: what is said of it, and its colour
    "right": ("right", ACCENT),
    "restates": ("restates", GREY),
    "wrong start": ("wrong start", AGAINST),
    "another swap": ("another swap", SOFT),
    "others": ("others", WASH),
}


def of_arm(rows: dict, raised_on: str, arm: str) -> list[dict]:
    """Its rows, by the number of swaps."""
    found = [r for r in rows.values() if (r["raised_on"], r["arm"]) == (raised_on, arm)]
    return sorted(found, key=lambda row: row["swaps"])


def beyond():
    """Rounds of 2 to 12 swaps, played by arms whose logs had 4. Above: the share of rounds in which
    the right cup is opened, by every arm. Below: what becomes of Act-PRM's thoughts, by the first
    word at which they leave the right one. Left, the base was raised on 4 swaps alone; right, on 2
    to 8."""
    rows = load("beyond")["rows"]
    figure, axes = plt.subplots(2, 2, figsize=(INCHES, 4.8), sharex=True, sharey="row")
    for column, raised_on in enumerate(BASES):
        opened(axes[0][column], rows, raised_on)
        fates(axes[1][column], of_arm(rows, raised_on, "act_prm"))
        axes[1][column].set_xlabel("swaps in a round")
    axes[0][0].set_ylabel("rounds opened right", color=INK)
    axes[1][0].set_ylabel("Act-PRM's thoughts", color=INK)
    for row, side in ((0, "upper"), (1, "lower")):
        handles, names = axes[row][0].get_legend_handles_labels()
        place = f"outside {side} center"
        figure.legend(handles, names, loc=place, ncols=5, frameon=False, fontsize=8)
    return figure


def opened(axis, rows: dict, raised_on: str) -> None:
    """The share of rounds opened right, by every arm, and its interval for Act-PRM."""
    for arm, (name, colour, style) in LINES.items():
        found = of_arm(rows, raised_on, arm)
        x = [row["swaps"] for row in found]
        axis.plot(x, [row["right"]["mean"] for row in found], style, color=colour, label=name)
        if arm == "act_prm":
            low, high = ([row["right"][end] for row in found] for end in ("low", "high"))
            axis.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
    axis.axhline(0.2, color=SOFT, linewidth=1, linestyle=":")
    axis.set(title=BASES[raised_on], ylim=(0, 1.02))


def fates(axis, found: list[dict]) -> None:
    """Shares of what becomes of a thought, stacked."""
    x = [row["swaps"] for row in found]
    shares = {fate: [row["fates"].get(fate, 0) for row in found] for fate in FATES}
    shares["others"] = [1 - sum(column) for column in zip(*shares.values(), strict=True)]
    names, colours = zip(*FATES.values(), strict=True)
    axis.stackplot(x, list(shares.values()), labels=names, colors=colours, linewidth=0)
    axis.set(ylim=(0, 1), xlim=(2, 12), xticks=x)


def beyond_errand():
    """Walks of errand to three cells, by arms whose logs are walks to one: of those that came so
    far, the share that finds the first cell, the second and the third."""
    rows = load("beyond_errand")["rows"]
    figure, axes = plt.subplots(1, 2, figsize=(INCHES, 2.9), sharey=True)
    for axis, raised_on in zip(axes, WALKS, strict=True):
        for row in rows.values():
            if row["raised_on"] == raised_on and row["cells"] == 3:
                name, colour, style = ERRAND[row["arm"]]
                means = [found["mean"] for found in row["found"]]
                axis.plot(range(1, len(means) + 1), means, style, color=colour, label=name)
                for cell, found in enumerate(row["found"], start=1):
                    seeds = found["values"]
                    axis.plot([cell] * len(seeds), seeds, "o", color=colour, markersize=3)
        axis.set(title=WALKS[raised_on], ylim=(0, 1.02), xticks=[1, 2, 3], xlabel="cell of a walk")
    axes[0].set_ylabel("found, if it is reached", color=INK)
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=5, frameon=False, fontsize=8)
    return figure


FIGURES = {"evidence-beyond": beyond, "evidence-beyond-errand": beyond_errand}
