"""The figure of chapter 6: where thoughts help."""

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from evidence.drawings.style import ACCENT, AGAINST, GREY, INCHES, INK, SOFT
from evidence.results import load

# results: (name, where the state is to be found)
WORLDS = {
    "cups": ("cups", "the state is never shown"),
    "errand": ("errand", "only the thoughts carry it"),
    "rooms": ("rooms", "the map is in the history"),
    "frozenlake": ("lake", "all in view"),
}
# arm: (what it learns from, colour)
ARMS = {
    "action_sft": ("actions alone", AGAINST),
    "act_prm": ("thoughts it found", ACCENT),
    "act_prm_resampled": ("… on whole paths", ACCENT),
    "expert_thoughts": ("the world's own thoughts", INK),
}


def worlds() -> Figure:
    """Success on unseen tasks of four worlds, a dot for each seed.

    In cups and errand, actions alone stay at chance and thoughts reach nearly all. In rooms,
    actions alone win as much as thoughts do. On the lake, where all is in view, no mean reaches
    one half.
    """
    figure, axes = plt.subplots(figsize=(INCHES, 4))
    height = 0.0
    for name, (world, where) in WORLDS.items():
        rows = load(name)["rows"]
        top = height
        axes.text(-1.25, top, world, weight="bold", va="center")
        axes.text(-1.25, top - 1, where, color=SOFT, va="center", fontsize=8)
        for arm in ARMS:
            if arm in rows:
                draw_arm(axes, height, rows[arm]["values"], arm)
                height -= 1
        chance = rows["random"]["mean"]
        axes.plot([chance, chance], [top + 0.5, height + 0.5], color=INK, linewidth=1, ls=":")
        if world == "errand":
            axes.text(chance + 0.01, top + 0.65, "random play", color=SOFT, fontsize=8)
        height -= 0.8
    axes.set_xlim(-1.25, 1.02)
    axes.set_ylim(height + 0.6, 0.8)
    axes.set_xticks([0, 0.5, 1], ["0", ".5", "1"])
    axes.set_xlabel("success on 400 unseen tasks, a dot for each seed", x=1, ha="right")
    axes.set_yticks([])
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    return figure


def draw_arm(axes: Axes, height: float, values: list[float], arm: str) -> None:
    """One line of the figure: what was learned from, a dot for each seed, and a bar at the mean."""
    label, colour = ARMS[arm]
    mean = sum(values) / len(values)
    axes.text(-0.03, height, label, color=SOFT, ha="right", va="center", fontsize=8)
    axes.plot([0, 1], [height, height], color=GREY, linewidth=0.5, zorder=0)
    axes.plot([mean, mean], [height - 0.32, height + 0.32], color=colour, linewidth=2)
    axes.plot(values, [height] * len(values), "o", color=colour, markersize=5, mew=0, alpha=0.6)


FIGURES = {"worlds": worlds}
