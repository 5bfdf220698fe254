"""Figures of chapter 1, the idea: one state of cups, and what thoughts make of it."""

from docs.drawing.style import ACCENT, GREY, INK, LETTER, SOFT, WIDTH, bar, page, share, write
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


# ------------------------------------------------------------ One group, before and after
ROW = 29  # points from thought to thought
BLOCK = 80  # width of one group's column
DRAW = 4.4  # from one draw to the next


def update():
    """A group of sixteen thoughts for one state before the first update and after the last, each
    square one draw. Before, one thought in sixteen follows the ball and has the largest advantage;
    after, fifteen do."""
    groups = load("act_prm")["groups"]
    before, after = (_by_thought(groups[when]) for when in ("before", "after"))
    thoughts = before | after
    figure, axes = page(68 + ROW * len(thoughts))
    state_lines(axes, groups["before"])
    for i, (thought, row) in enumerate(thoughts.items()):
        write(axes, 0, 81 + ROW * i, thought, size=7.5, mono=True)
        write(axes, 0, 92 + ROW * i, kind(row, groups["before"]), size=8, color=SOFT)
    write(axes, 0, 63, f"{groups['before']['size']} draws, a square each", size=8, color=SOFT)
    later = f"after {groups['after']['update']} updates"
    _column(axes, WIDTH - 2 * BLOCK - 12, "before", [before.get(thought) for thought in thoughts])
    _column(axes, WIDTH - BLOCK, later, [after.get(thought) for thought in thoughts])
    return figure


def kind(row: dict, group: dict) -> str:
    """What a thought does. Those that act_prm.py has no name for lose the ball on the way."""
    start = group["state"].split(" swap")[0]
    as_long = len(row["thought"]) == len(group["state"])
    lost = row["kind"] == "something else" and row["thought"].startswith(start) and as_long
    return "loses the ball on the way" if lost else row["kind"]


def _by_thought(group: dict) -> dict[str, dict]:
    return {row["thought"]: row for row in group["thoughts"]}


def _column(axes, x: float, title: str, rows: list[dict | None]) -> None:
    """One group: how often each thought was drawn, in squares; below, its reward and advantage."""
    write(axes, x, 52, title, size=8.5, weight="bold")
    write(axes, x, 63, "reward", size=8, color=SOFT)
    write(axes, x + BLOCK, 63, "advantage", size=8, color=SOFT, ha="right")
    for i, row in enumerate(rows):
        if row is None:
            continue
        y = 81 + ROW * i
        colour = ACCENT if row["reward"] > 0.5 else GREY
        for k in range(row["times"]):
            bar(axes, x + DRAW * k, y - 6, DRAW - 1, 6, colour)
        write(axes, x + DRAW * row["times"] + 2, y, str(row["times"]), size=8)
        write(axes, x, y + 11, share(row["reward"]), size=8)
        write(axes, x + BLOCK, y + 11, f"{row['advantage']:.2f}", size=8, ha="right")


# ------------------------------------------------------------ The E-step
PANEL = 32  # points of a bar of probability 1


def estep():
    """The E-step by draws: the share of the draws that a thought has, times its reward, divided by
    the sum over all thoughts, is its posterior probability. Half of it belongs to the one thought
    that follows the ball."""
    group = load("act_prm")["groups"]["before"]
    thoughts = group["thoughts"]
    figure, axes = page(90 + 20 * len(thoughts))
    state_lines(axes, group)
    for i, row in enumerate(thoughts):
        write(axes, 0, 86 + 20 * i, row["thought"], size=7.5, mono=True)
    drawn = [row["times"] / group["size"] for row in thoughts]
    rewards = [row["reward"] for row in thoughts]
    weights = [p * r / group["reward"] for p, r in zip(drawn, rewards, strict=True)]
    counts = [f"{row['times']}/{group['size']}" for row in thoughts]
    _panel(axes, 226, "drawn", "p(z | s)", GREY, drawn, counts)
    _panel(axes, 284, "× reward", "p(a | s, z)", GREY, rewards, map(share, rewards))
    _panel(axes, 342, "∝ posterior", "p(z | s, a)", ACCENT, weights, map(share, weights))
    note = f"The advantage of one draw: {group['size']} × posterior / times drawn."
    write(axes, 0, 90 + 20 * len(thoughts), note, color=SOFT)
    return figure


def _panel(axes, x, title: str, formula: str, colour: str, lengths, labels) -> None:
    """A bar for each thought, with its number."""
    write(axes, x, 54, title, size=8.5, weight="bold", color=ACCENT if colour == ACCENT else INK)
    write(axes, x, 66, formula, size=8, color=SOFT)
    for i, (length, label) in enumerate(zip(lengths, labels, strict=True)):
        y = 86 + 20 * i
        bar(axes, x, y - 8, PANEL * length, 10, colour)
        write(axes, x + PANEL * length + 3, y, label, size=7.5, color=SOFT)


FIGURES = {"reward": reward, "update": update, "estep": estep}
