"""The figure of chapter 5: one step of a log, from the log to the served model."""

import json
from pathlib import Path

from evidence.drawings.style import ACCENT, INK, SOFT, WASH, WIDTH, arrow, bar, page, write

LOGS = Path(__file__).parents[2] / "examples/support/logs.jsonl"
THOUGHT = "why that comes next, in words: the best of those that the model wrote"
# (command, what it does), between one box and the next
TRAINING = (
    ("minprm logs", "what is in them, and every bad line"),
    ("minprm train --dry-run", "does it fit, how long, what is the model told"),
    ("minprm train", "finds thoughts, and fine-tunes the model on them"),
)
SERVING = (
    ("minprm evaluate", "compares its actions with logs that it never saw"),
    ("minprm export", "weights, model card, and the line that serves them"),
    ("minprm serve", "answers the next customer"),
)


LINE = 15  # points from line to line


def path():
    """What becomes of a step of a log. First it holds the action alone, then a thought before it.
    In the end the served model thinks by itself, and its reasoning arrives apart from its
    answer."""
    first = json.loads(LOGS.read_text(encoding="utf-8").splitlines()[0])
    _, customer, agent, *_ = first["messages"]
    call = agent["tool_calls"][0]["function"]
    action = ("action", f"{call['name']} {call['arguments']}", INK)
    seen = ("customer", customer["content"], INK)
    answer = [
        ("customer", "the next question", INK),
        ("reasoning", "its own thought, apart from what the customer reads", ACCENT),
        ("answer", "words, calls of tools, or both", INK),
    ]
    figure, axes = page(307)
    box(axes, 0, "mine.jsonl", [seen, action])
    down(axes, 53, TRAINING)
    box(axes, 112, "runs/desk/relabelled-….jsonl", [seen, ("thought", THOUGHT, ACCENT), action])
    down(axes, 180, SERVING)
    box(axes, 239, "support-agent/", answer)
    return figure


def box(axes, top: float, name: str, lines: list[tuple[str, str, str]]) -> None:
    """A box with the name of its file and one line each of (who, text, colour)."""
    bar(axes, 0, top, WIDTH, LINE * len(lines) + 23, WASH)
    write(axes, 8, top + LINE, name, mono=True, weight="bold")
    for number, (who, text, colour) in enumerate(lines, start=2):
        write(axes, 8, top + LINE * number, who, size=8, color=SOFT)
        write(axes, 62, top + LINE * number, text, size=8, color=colour)


def down(axes, top: float, commands: tuple[tuple[str, str], ...]) -> None:
    """An arrow down to the next box, and beside it the commands that lead there."""
    arrow(axes, (20, top + 2), (20, top + 57), SOFT)
    for number, (command, what) in enumerate(commands, start=1):
        write(axes, 36, top + LINE * number, command, size=8, mono=True)
        write(axes, 152, top + LINE * number, what, size=8, color=SOFT)


FIGURES = {"path": path}
