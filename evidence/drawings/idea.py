"""Figures of chapter 1, the idea: one state of cups, and what thoughts make of it."""

from evidence.drawings.style import (
    ACCENT,
    GREY,
    INK,
    LETTER,
    SOFT,
    WASH,
    WIDTH,
    arrow,
    bar,
    page,
    probability,
    write,
)
from evidence.results import load


def the_group(when: str = "before") -> dict:
    """The group that act_prm.py prints before, or after, its updates; the best thought first."""
    group = load("act_prm")["groups"][when]
    cup = group["expert"][-1]
    for row in group["thoughts"]:
        row["reward"] = row["cups"][cup]  # with four digits
    group["thoughts"].sort(key=lambda row: row["reward"], reverse=True)
    group["size"] = sum(row["times"] for row in group["thoughts"])
    return group


def clauses(thought: str) -> list[str]:
    """A thought in lines: where it begins, then one swap each."""
    return thought.replace(" swap", "\nswap").splitlines()


def state_lines(axes, group: dict) -> None:
    """What the agent sees and what the expert did, over a figure."""
    write(axes, 0, 12, "state", color=SOFT)
    write(axes, 80, 12, group["state"], mono=True)
    write(axes, 0, 26, "the expert did", color=SOFT)
    write(axes, 80, 26, group["expert"], mono=True, color=ACCENT, weight="bold")


# ------------------------------------------------------------ The reward as a picture
TALL = 84  # points of a bar of probability 1
FLOOR = 202  # where bars stand
PITCH = 22  # from cup to cup


def reward():
    """The reward of a thought is the height of the expert's bar: after the best thought of the
    group the model opens the expert's cup, after the worst one another cup, and without a thought
    it guesses among five cups."""
    group = the_group()
    best, worst = group["thoughts"][0], group["thoughts"][-1]
    figure, axes = page(230)
    state_lines(axes, group)
    columns = {
        "after the best thought": best,
        "after the worst thought": worst,
        "without a thought": {"cups": group["without_thought"]},
    }
    for i, (title, row) in enumerate(columns.items()):
        _cups_after(axes, 143 * i, title, row, group["expert"][-1])
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
            write(axes, left + 8, FLOOR - TALL * p - 3, probability(p), size=8, ha="center", **how)


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
    after, fourteen do."""
    group = the_group()
    before, after = _by_thought(group), _by_thought(the_group("after"))
    thoughts = before | after
    figure, axes = page(68 + ROW * len(thoughts))
    state_lines(axes, group)
    for i, (thought, row) in enumerate(thoughts.items()):
        write(axes, 0, 81 + ROW * i, thought, size=7.5, mono=True)
        write(axes, 0, 92 + ROW * i, kind(row, group), size=8, color=SOFT)
    write(axes, 0, 63, f"{group['size']} draws, a square each", size=8, color=SOFT)
    updates = load("act_prm")["curves"]["0"]["updates"][-1] + 1
    _column(axes, WIDTH - 2 * BLOCK - 12, "before", [before.get(thought) for thought in thoughts])
    _column(
        axes,
        WIDTH - BLOCK,
        f"after {updates} updates",
        [after.get(thought) for thought in thoughts],
    )
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
        write(axes, x, y + 11, probability(row["reward"]), size=8)
        write(axes, x + BLOCK, y + 11, f"{row['advantage']:.2f}", size=8, ha="right")


# ------------------------------------------------------------ The E-step
PANEL = 32  # points of a bar of probability 1


def estep():
    """The E-step by draws: the share of the draws that a thought has, times its reward, divided by
    the sum over all thoughts, is its posterior probability. Almost half of it belongs to the one
    thought that follows the ball."""
    group = the_group()
    thoughts = group["thoughts"]
    figure, axes = page(90 + 20 * len(thoughts))
    state_lines(axes, group)
    for i, row in enumerate(thoughts):
        write(axes, 0, 86 + 20 * i, row["thought"], size=7.5, mono=True)
    drawn = [row["times"] / group["size"] for row in thoughts]
    rewards = [row["reward"] for row in thoughts]
    products = [p * r for p, r in zip(drawn, rewards, strict=True)]
    weights = [product / sum(products) for product in products]
    counts = [f"{row['times']}/{group['size']}" for row in thoughts]
    _panel(axes, 226, "drawn", "p(z | s)", GREY, drawn, counts)
    _panel(axes, 284, "× reward", "p(a | s, z)", GREY, rewards, map(probability, rewards))
    _panel(axes, 342, "∝ posterior", "p(z | s, a)", ACCENT, weights, map(probability, weights))
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


# ------------------------------------------------------------ The loop
WIDE, HIGH = 184, 92  # points of a step's box
RIGHT, TOP, LOW = WIDTH - WIDE, 44, 164  # where the boxes stand
LAST = 302  # where it is said what comes after the loop


def loop():
    """Each step of an expert's log goes round: think, score, credit, update. Afterwards the best
    thoughts are written into the log, a fresh model is fine-tuned on it, and acts by itself."""
    group = the_group()
    rows = [group["thoughts"][i] for i in (0, 1, -1)]
    drawn = [f"{row['times']} of {group['size']}" for row in rows]
    rewards = [probability(row["reward"]) for row in rows]
    shares = [f"{row['advantage']:.2f}" for row in rows]
    figure, axes = page(LAST + 34)
    write(axes, 0, 9, "An expert's log: what was seen and done, never why", weight="bold")
    write(axes, 0, 24, group["state"], size=8.5, mono=True)
    end = 8.5 * LETTER * (len(group["state"]) + 2)
    write(axes, end, 24, group["expert"], size=8.5, mono=True, color=ACCENT, weight="bold")
    steps = {
        "1 Think": (0, TOP, "thoughts from the state alone", "z ~ p(z | s)", drawn),
        "2 Score": (RIGHT, TOP, "how probable is what was done?", "r = p(a | s, z)", rewards),
        "3 Credit": (RIGHT, LOW, "its share of all rewards, times G", "A = G r / Σ r", shares),
        "4 Update": (
            0,
            LOW,
            "make it likelier",
            "−Σ A log p(z, a | s)",
            ["much", "a little", "not"],
        ),
    }
    for title, (x, y, words, formula, values) in steps.items():
        _step(axes, x, y, [title, words, formula], zip(rows, values, strict=True))
    _afterwards(axes)
    return figure


def _step(axes, x: float, y: float, texts: list[str], values) -> None:
    """A box: a step's name, what it does, its formula, and what becomes of three real thoughts."""
    title, words, formula = texts
    bar(axes, x, y, WIDE, HIGH, WASH)
    write(axes, x + 8, y + 15, title, size=10, weight="bold", color=ACCENT)
    write(axes, x + WIDE - 8, y + 15, formula, size=8.5, ha="right")
    write(axes, x + 8, y + 30, words, size=8.5)
    for i, (row, value) in enumerate(values):
        write(axes, x + 8, y + 51 + 15 * i, row["kind"], size=8, color=SOFT)
        write(axes, x + WIDE - 8, y + 51 + 15 * i, value, size=8, ha="right")


def _afterwards(axes) -> None:
    """The arrows of the loop, and the three steps that come after it."""
    arrow(axes, (WIDE, TOP + 46), (RIGHT, TOP + 46), ACCENT)
    arrow(axes, (RIGHT + 92, TOP + HIGH), (RIGHT + 92, LOW), ACCENT)
    arrow(axes, (RIGHT, LOW + 46), (WIDE, LOW + 46), ACCENT)
    arrow(axes, (92, LOW), (92, TOP + HIGH), ACCENT)
    write(axes, 100, LOW - 10, "again, with the next steps of the log", size=8, color=SOFT)
    arrow(axes, (92, LOW + HIGH), (92, LAST - 14), SOFT)
    write(axes, 100, LAST - 26, "afterwards", size=8, color=SOFT)
    steps = {
        "Relabel": "the best thought\ninto every step",
        "Fine-tune": "a fresh model\non that log",
        "Act": "on new tasks; then\nRL, if there is a world",
    }
    for i, (title, words) in enumerate(steps.items()):
        x = 140 * i
        write(axes, x, LAST, title, size=10, weight="bold")
        write(axes, x, LAST + 6, words, size=8.5, color=SOFT, va="top")
        if i:
            arrow(axes, (x - 50, LAST - 4), (x - 8, LAST - 4), SOFT)


FIGURES = {"reward": reward, "update": update, "estep": estep, "loop": loop}
