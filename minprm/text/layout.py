"""Where a thought and an action stand in the assistant's turn: the three layouts.

`Chat` (chat.py) says what each of them is. Here are the texts that it takes.
"""

from typing import NamedTuple

from minprm.constants import fail
from minprm.text.calls import CallReader
from minprm.text.render import TAGS
from minprm.text.turns import Turns


class Layout(NamedTuple):
    """The texts around the thought and the action in an assistant's turn."""

    name: str
    think: str  # opens a thought; forced in sampling, learned in SFT
    gap: str  # templates write it between a thought and its stop
    stop: str  # ends a thought
    act: str  # opens the action after a thought
    act_without_thought: str  # opens the action of a turn that has no thought
    act_end: str  # ends the action
    act_gap: str = ""  # between an action and its end
    opened: str = ""  # what a call begins with, where `stop` is a part of it


def choose_layout(
    name: str, turns: Turns, calls: CallReader | None, vocabulary: dict[str, int]
) -> Layout:
    """The layout of this name; for `auto`, the one that fits the template.

    calls: None without tools. Exits where the template or the vocabulary cannot carry the layout.
    """
    has_tags = all(tag in vocabulary for tag in TAGS)
    if name == "auto":
        name = "tags" if has_tags else "think"
    if name == "tags":
        return _tags(turns, calls, has_tags)
    if name == "think":
        return _think(turns)
    return _tool(turns, calls, vocabulary)


def _tags(turns: Turns, calls: CallReader | None, has_tags: bool) -> Layout:
    if calls:
        fail("--layout tags is for plain-text actions, and here are tools: use think or tool")
    if turns.act_without_thought.strip():
        fail(
            f"--layout tags: the chat template begins an answer by"
            f" {turns.act_without_thought!r}; use --layout think"
        )
    # A tag that the vocabulary lacks is spelled in several tokens, and a line of its own sets
    # it apart from the text around it: "><" or `>"` would be one token.
    line = "" if has_tags else "\n"
    return Layout(
        name="tags",
        think="<think>" + line,
        gap=line,
        stop="</think>",
        act=line + "<act>" + line,
        act_without_thought="<act>" + line,
        act_end="</act>",
        act_gap=line,
    )


def _think(turns: Turns) -> Layout:
    return Layout(
        name="think",
        think=turns.newest.open,
        gap=turns.newest.gap,
        stop=turns.newest.stop,
        act=turns.act,
        act_without_thought=turns.act_without_thought,
        act_end="",
    )


def _tool(turns: Turns, calls: CallReader | None, vocabulary: dict[str, int]) -> Layout:
    if calls is None:
        fail("--layout tool: neither the logs nor the world have tools; use --layout think")
    render = turns.newest.render
    opening = render.unmarked(calls.open)
    tokens = render.controls(opening)
    if tokens and not (turns.act_without_thought + opening[: tokens[0].start()]).strip():
        stop = opened = tokens[0].group()
        gap = _gap_before_calls(turns)
    else:
        # Llama 3.1 opens a call with plain JSON, but has this token for built-in tools.
        stop = "<|python_tag|>"
        gap = opened = ""
    if stop not in vocabulary:
        fail(
            "--layout tool: no control token opens a tool call in this chat template, so none"
            " ends a thought; use --layout think"
        )
    return Layout(
        name="tool",
        think="",
        gap=gap,
        stop=stop,
        act="",
        act_without_thought=stop,
        act_end="",
        opened=opened,
    )


def _gap_before_calls(turns: Turns) -> str:
    """The white space between what is said and the calls beside it."""
    if turns.beside != "template":
        return ""
    text = turns.text("x", [{"name": "x", "arguments": {}}])[1:]
    return text[: len(text) - len(text.lstrip())]
