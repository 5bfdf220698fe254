"""Where a thought and an action stand in the assistant's turn: the two layouts.

`Chat` (chat.py) says what each of them is. Here are the texts that it takes.
"""

from typing import NamedTuple

from minprm.constants import fail
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
    skip: str = ""  # an empty thought up to the action, where a turn without one has no opening


def choose_layout(name: str, turns: Turns, tools: bool, vocabulary: dict[str, int]) -> Layout:
    """The layout of this name; for `auto`, the one that fits the template.

    tools: actions may be calls. Exits where the template cannot carry the layout.
    """
    has_tags = all(tag in vocabulary for tag in TAGS)
    if name == "think" or (name == "auto" and not has_tags):
        thinks = turns.newest.key is not None or turns.newest.stop in turns.written
        skips = thinks and not turns.act_without_thought
        return Layout(
            name="think",
            think=turns.newest.open,
            gap=turns.newest.gap,
            stop=turns.newest.stop,
            act=turns.act,
            act_without_thought=turns.act_without_thought,
            act_end="",
            act_gap=turns.ends.gap,
            skip=turns.newest.skipped(turns.act, turns.written) if skips else "",
        )
    if tools:
        fail("--layout tags is for plain-text actions, and here are tools: use --layout think")
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
        act_end="</act>" + turns.ends.gap,
        act_gap=line,
    )
