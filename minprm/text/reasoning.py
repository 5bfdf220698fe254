"""How a chat template shows a thought: the texts that open and close it, and where it is opened.

Many templates write a thought in the newest turn alone, or beside calls alone, and leave it out of
the history. What is learned here is how the newest turn has it.
"""

import re
from typing import NamedTuple

from minprm.text.render import MARK, QUESTION, Renderer, placeholder

# The names under which templates look for a thought in a message.
KEYS = ("reasoning_content", "reasoning", "thinking")
THOUGHT = placeholder(10**6)


class Reasoning(NamedTuple):
    """How the template writes a thought. Where it writes none, the tags of most templates."""

    key: str | None = None  # of the message's field for it
    open: str = "<think>\n"
    gap: str = "\n"  # between the thought and its stop
    stop: str = "</think>"

    def bare(self, prompt: str, empty: bool = True) -> str:
        """A prompt without the thought that some templates open at its end; or write, if empty."""
        if empty:
            prompt = re.sub(self._empty() + "$", "", prompt)
        return re.sub(re.escape(self.open.strip()) + r"\s*$", "", prompt)

    def without_empty(self, turn: str) -> str:
        """A turn without the empty thought that some templates begin it with."""
        return re.sub(r"^\s*" + self._empty(), "", turn)

    def _empty(self) -> str:
        return re.escape(self.open.strip()) + r"\s*" + re.escape(self.stop) + r"\s*"


def find_reasoning(render: Renderer, messages: list[dict]) -> Reasoning:
    """How the template writes a thought in one of these messages, the first that has any."""
    prompt = render([QUESTION], [], prompt=True)
    for key in KEYS:
        for message in messages:
            try:
                text = render([QUESTION, {**message, key: THOUGHT}], [], prompt=False)
            except ValueError:
                continue
            before, _, after = text.partition(THOUGHT)
            found = _tags(render, prompt, before, after.split(MARK)[0])
            if found:
                return Reasoning(key, *found)
    return Reasoning()


def _tags(render: Renderer, prompt: str, before: str, after: str) -> tuple[str, str, str] | None:
    """(open, gap, stop), from the texts before and after a thought. None: they are no tags."""
    start = len(prompt)
    if prompt.startswith(before):  # the prompt opens a thought already
        tokens = [match.start() for match in render.controls(before)]
        start = max([before.rfind("<think>"), *tokens])
    elif not before.startswith(prompt):
        return None
    ends = [match.group() for match in render.controls(after)]
    stop = ends[0] if ends else "</think>"
    gap, found, _ = after.partition(stop)
    opening = before[start:]
    if start < 0 or not found or not opening.strip():
        return None
    return opening, gap, stop
