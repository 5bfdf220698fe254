"""The figure of chapter 5: one step of a log, from the log to the served model."""

import json
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from docs.drawing.style import ACCENT, GREY, INK, SOFT, WASH

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


def path() -> Figure:
    """What becomes of a step of a log: first it holds the action alone, then a thought before it.

    In the end the served model thinks by itself, and its reasoning arrives apart from its answer.
    """
    first = json.loads(LOGS.read_text(encoding="utf-8").splitlines()[0])
    _, customer, agent, *_ = first["messages"]
    call = agent["tool_calls"][0]["function"]
    action = ("action", f"{call['name']} {call['arguments']}", INK)
    asked = ("customer", customer["content"], INK)
    figure, axes = plt.subplots(figsize=(7.6, 5.6))
    axes.set_xlim(0, 76)
    axes.set_ylim(-59, 0)
    axes.axis("off")
    step(axes, 0, "mine.jsonl", [asked, action])
    arrow(axes, -10, TRAINING)
    step(axes, -21, "runs/desk/relabelled-….jsonl", [asked, ("thought", THOUGHT, ACCENT), action])
    arrow(axes, -34, SERVING)
    answer = [
        ("customer", "the next question", INK),
        ("reasoning", "its own thought, apart from what the customer reads", ACCENT),
        ("answer", "words, calls of tools, or both", INK),
    ]
    step(axes, -45, "support-agent/", answer)
    return figure


def step(axes: Axes, top: float, name: str, lines: list[tuple[str, str, str]]) -> None:
    """A box with the name of its file and one line each of (who, text, colour)."""
    height = 3 * len(lines) + 4
    shape = FancyBboxPatch(
        (0.5, top - height), 75, height, boxstyle="round,pad=0,rounding_size=.6", fc=WASH, ec=GREY
    )
    axes.add_patch(shape)
    axes.text(2, top - 2.2, name, family="monospace", fontsize=9, weight="bold", va="center")
    for number, (who, text, colour) in enumerate(lines):
        height = top - 5.3 - 3 * number
        axes.text(2, height, who, color=SOFT, fontsize=9, va="center")
        axes.text(13, height, text, color=colour, fontsize=9, va="center")


def arrow(axes: Axes, top: float, commands: tuple[tuple[str, str], ...]) -> None:
    """An arrow down to the next box, and beside it the commands that lead there."""
    axes.annotate(
        "", (6, top - 10.6), (6, top - 0.4), arrowprops={"arrowstyle": "-|>", "color": SOFT}
    )
    for number, (command, what) in enumerate(commands):
        height = top - 2.5 - 3 * number
        axes.text(9, height, command, family="monospace", fontsize=9, va="center")
        axes.text(34, height, what, color=SOFT, fontsize=9, va="center")


FIGURES = {"path": path}
