"""Figures of chapter 3, credit over time: paths that die and survive, and success on errand."""

from evidence.drawings.ladder import ladder
from evidence.drawings.style import ACCENT, AGAINST, GREY, PAPER, SOFT, page, write
from evidence.results import load


def ladder_errand():
    """Success of every arm on errand, three seeds each. With a reward for one step alone Act-PRM
    falls behind, and more samples make it worse; with paths resampled the same samples are as good
    as the world's own thoughts."""
    resampled = dict.fromkeys(["best_of_base_resampled", "act_prm_resampled"], ACCENT)
    one_step = dict.fromkeys(["best_of_base", "best_of_base_matched", "act_prm"], AGAINST)
    return ladder("errand", resampled | one_step)


# ------------------------------------------------------------ Paths that die and survive
TREE, TOP = 54, 48  # where the first path stands
COLUMN, ROW = 14, 28  # points from path to path, and from step to step


def paths():
    """Sixteen paths walk one log of errand, a row for each step. After each step they go on in
    proportion to the probability that they give to the expert's action. Most thoughts have no
    descendants at the end: those are grey. The number in the others says how many of the last paths
    descend from them, which is their credit. Beside the rows stand the thoughts of two of the last
    paths: one knows the place, the other does not, and no action has ruled it out."""
    steps = load("errand")["paths"]["steps"]
    size = len(steps[0]["group"])
    figure, axes = page(TOP + 28 + ROW * len(steps))
    write(axes, 0, 8, "state", color=SOFT)
    write(axes, TREE - 6, 8, steps[0]["state"], mono=True)
    write(axes, 0, 26, "action", color=SOFT)
    write(axes, TREE - 6, 26, f"{size} thoughts, drawn anew at each step", color=SOFT)
    places: list[float] = []
    for t, step in enumerate(steps):
        y = TOP + ROW * t
        write(axes, 0, y + 3, step["action"], size=8, mono=True)
        above, places = places, _places([z["up"] for z in step["group"]], places)
        _row(axes, y, step["group"], places, above)
    _two_paths(axes, steps)
    y = TOP + 14 + ROW * len(steps)
    write(axes, 0, y, "numbers: of the last paths, how many descend from it", color=SOFT)
    write(axes, 0, y + 13, "at the true place", color=ACCENT)
    write(axes, 92, y + 13, "not there, but no action has ruled it out", color=AGAINST)
    return figure


def _places(parents: list[int | None], above: list[float]) -> list[float]:
    """Where the thoughts of a step stand: in the order of their parents, so that no lines cross."""
    numbers = range(len(parents))
    order = sorted(numbers, key=lambda i: above[parents[i]] if above else i)
    return [TREE + COLUMN * order.index(i) for i in numbers]


def _row(axes, y: float, group: list[dict], places: list[float], above: list[float]) -> None:
    """The thoughts of one step, each with a line from the thought that it continues."""
    for z, x in zip(group, places, strict=True):
        colour, alive = _colour(z), z["descendants"] > 0
        if above:
            width = 1.2 if alive else 0.6
            axes.plot([above[z["up"]], x], [y - ROW, y], color=colour, linewidth=width, zorder=1)
        axes.scatter([x], [y], s=95 if alive else 14, color=colour, linewidth=0, zorder=2)
        if alive:
            how = {"color": PAPER, "ha": "center", "weight": "bold"}
            write(axes, x, y + 2.8, str(z["descendants"]), size=7.5, **how)


def _two_paths(axes, steps: list[dict]) -> None:
    """Beside the rows, the thoughts of two of the last paths: one that knows the place, one not."""
    last = steps[-1]["group"]
    alive = [i for i, z in enumerate(last) if z["descendants"]]
    right = [i for i in alive if last[i]["kind"] == "right"]
    wrong = [i for i in alive if last[i]["kind"] != "right"]
    for i in right[:1]:
        _texts(axes, steps, i, -1.5)
    for i in wrong[-1:]:
        _texts(axes, steps, i, 8)


def _texts(axes, steps: list[dict], i: int | None, dy: float) -> None:
    """What the last path number i thought at each step, from the last step back to the first."""
    x = TREE + COLUMN * len(steps[0]["group"])
    for t in reversed(range(len(steps))):
        z = steps[t]["group"][i]
        write(axes, x, TOP + ROW * t + dy, z["thought"], size=7.5, mono=True, color=_colour(z))
        i = z["up"]


def _colour(z: dict) -> str:
    if not z["descendants"]:
        return GREY
    return ACCENT if z["kind"] == "right" else AGAINST


FIGURES = {"ladder-errand": ladder_errand, "paths": paths}
