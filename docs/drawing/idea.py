"""Figures of chapter 1, the idea: one state of cups, and what thoughts make of it."""

from docs.drawing.style import ACCENT, GREY, INK, LETTER, SOFT, bar, page, share, write
from docs.results import load


def clauses(thought: str) -> list[str]:
    """A thought in lines: where it begins, then one swap each."""
    return thought.replace(" swap", "\nswap").splitlines()


def state_lines(axes, group: dict) -> None:
    """What the agent sees and what the expert did, over a figure."""
    write(axes, 0, 12, "state", color=SOFT)
    write(axes, 80, 12, group["state"], mono=True)
    write(axes, 0, 26, "the expert did", color=SOFT)
    write(axes, 80, 26, group["action"], mono=True, color=ACCENT, weight="bold")


# ------------------------------------------------------------ The reward as a picture
TALL = 84  # points of a bar of probability 1
FLOOR = 202  # where bars stand
PITCH = 22  # from cup to cup


def reward():
    """The reward of a thought is the height of the expert's bar: after the best thought of the
    group the model opens the expert's cup, after the worst one another cup, and without a thought
    it guesses among five cups."""
    group = load("act_prm")["groups"]["before"]
    best, worst = group["thoughts"][0], group["thoughts"][-1]
    figure, axes = page(230)
    state_lines(axes, group)
    columns = {
        "after the best thought": best,
        "after the worst thought": worst,
        "without a thought": group["without_thought"],
    }
    for i, (title, row) in enumerate(columns.items()):
        _cups_after(axes, 143 * i, title, row, group["action"][-1])
    write(axes, PITCH + 5, FLOOR - 66, "its reward is\nthe height\nof this bar", color=ACCENT)
    write(axes, 0, 230, "bars: how probable it is that the model opens this cup", color=SOFT)
    return figure


def _cups_after(axes, x: float, title: str, row: dict, expert: str) -> None:
    """A column: the thought, and how probable each cup is after it."""
    write(axes, x, 52, title, weight="bold")
    if "thought" in row:
        _thought_lines(axes, x, 65, row["thought"], expert)
    else:
        write(axes, x, 65, "it acts at once", color=SOFT)
    bar(axes, x, FLOOR, 5 * PITCH - 6, 0.8, GREY)
    for i, (cup, p) in enumerate(row["cups"].items()):
        is_expert = cup == expert
        how = {"color": ACCENT if is_expert else SOFT, "weight": "bold" if is_expert else "normal"}
        left = x + PITCH * i
        bar(axes, left, FLOOR - TALL * p, PITCH - 6, TALL * p, ACCENT if is_expert else GREY)
        write(axes, left + 8, FLOOR + 12, cup, mono=True, ha="center", **how)
        if is_expert or p > 0.1:
            write(axes, left + 8, FLOOR - TALL * p - 3, share(p), size=8, ha="center", **how)


def _thought_lines(axes, x: float, y: float, thought: str, expert: str) -> None:
    """The thought; the cup at which it ends stands out, because that is the one that is opened."""
    *lines, last = clauses(thought)
    for line in lines:
        write(axes, x, y, line, size=8.5, mono=True, color=SOFT)
        y += 11
    write(axes, x, y, last[:-1], size=8.5, mono=True, color=SOFT)
    colour = ACCENT if last[-1] == expert else INK
    end = x + 8.5 * LETTER * len(last[:-1])
    write(axes, end, y, last[-1], size=8.5, mono=True, color=colour, weight="bold")


FIGURES = {"reward": reward}
