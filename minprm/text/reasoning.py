"""How a chat template shows a thought: the texts that open and close it, and where it is opened.

Many templates write a thought in the newest turn alone, or beside calls alone, and leave it out of
the history. What is learned here is how the newest turn has it.
"""

import re
from itertools import product
from typing import NamedTuple

from minprm.text.render import MARK, QUESTION, Renderer, placeholder

# The names under which templates look for a thought in a message.
KEYS = ("reasoning_content", "reasoning", "thinking")
THOUGHT = placeholder(10**6)


class Newest(NamedTuple):
    """How the template writes an assistant's message that is the last of a conversation, and a
    thought in it. Where it writes no thoughts, they have the tags of most templates."""

    render: Renderer
    prompt: str  # what stands before the message, without a thought that is opened there
    header: str = ""  # its end, where the template does not write it there by itself
    key: str | None = None  # of the message's field for a thought
    open: str = "<think>\n"
    gap: str = "\n"  # between the thought and its stop
    stop: str = "</think>"

    def bare(self, prompt: str) -> str:
        """A prompt without the thought that some templates open at its end, or write empty."""
        opened = re.escape(self.open.strip())
        return re.sub(rf"{opened}\s*({re.escape(self.stop)}\s*)?$", "", prompt)

    def skipped(self, act: str, written: str) -> str:
        """An empty thought, and what opens the action behind it: as the template has it in messages
        without a thought, or in the prompt of who is not to think; else in the texts of a thought.

        written: what all messages without a thought begin with.
        """
        if self.stop in written:
            return written
        try:
            prompt = self.render([QUESTION], [], prompt=True, enable_thinking=False)
        except ValueError:
            prompt = ""
        empty = prompt.removeprefix(self.bare(prompt))
        if self.stop not in empty:
            return self.open + self.gap + self.stop + act
        space = len(self.open) - len(self.open.lstrip())
        return self.open[:space] + empty

    def text(self, message: dict) -> str:
        """The message as the template writes it."""
        text = self.render([QUESTION, message], [], prompt=False)
        if not text.startswith(self.prompt):
            raise ValueError("the chat template begins an answer in another way than its prompt")
        return text.removeprefix(self.prompt)

    def without_thought(self, message: dict) -> str:
        """The same without the empty thought that some templates begin it with. Where the content
        is to hold the thought, some open one that they do not end."""
        closed = rf"\s*{re.escape(self.stop)}"
        if self.key is None:
            closed = f"({closed})?"
        return re.sub(rf"^\s*{re.escape(self.open.strip())}{closed}\s*", "", self.text(message))

    def behind_thought(self, message: dict) -> str | None:
        """What follows a thought in this message. None: the template writes none in it."""
        if self.key is None:
            return None
        try:
            text = self.text({**message, self.key: THOUGHT})
        except ValueError:
            return None
        _, thought, action = text.partition(THOUGHT + self.gap + self.stop)
        return action if thought else None


def find_newest(render: Renderer, messages: list[dict]) -> Newest:
    """messages: such as may have a thought; the first that has one shows how it is written."""
    newest = _with_header(Newest(render, render([QUESTION], [], prompt=True)), messages[0])
    for key, message in product(KEYS, messages):
        try:
            text = render([QUESTION, {**message, key: THOUGHT}], [], prompt=False)
        except ValueError:
            continue
        before, _, after = text.partition(THOUGHT)
        tags = _tags(render, newest.prompt, before, after.split(MARK)[0])
        if tags:
            newest = Newest(render, newest.prompt, newest.header, key, *tags)
            break
    newest = newest._replace(prompt=newest.bare(newest.prompt))
    if newest.key is None and _ends_in_a_sign(render, newest.prompt):
        return newest._replace(open=" " + newest.open)  # or ":<" would be a token of some models
    return newest


def _with_header(newest: Newest, message: dict) -> Newest:
    """The same, where the template ignores `add_generation_prompt`: the prompt ends in what stands
    before an answer. A space before the answer is left to it, as in Llama 2's."""
    render, prompt = newest.render, newest.prompt
    if prompt != render([QUESTION], [], prompt=False):
        return newest
    answer = render([QUESTION, message], [], prompt=False)
    before = newest.bare(answer.partition(MARK)[0]).rstrip(" ")
    if not before.startswith(prompt):
        return newest
    return newest._replace(prompt=before, header=before.removeprefix(prompt))


def _ends_in_a_sign(render: Renderer, prompt: str) -> bool:
    """Is the prompt's last character no white space, and no part of a control token?"""
    ends = [match.end() for match in render.controls(prompt)]
    return not prompt[-1:].isspace() and len(prompt) not in ends


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
    gap, closing, _ = after.partition(stop)
    opening = before[start:]
    if start < 0 or not closing or not opening.strip():
        return None
    return opening, gap, stop
