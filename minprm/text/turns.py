"""The assistant's newest turn, as a chat template writes it: a thought, an action, an end.

An action is a reply, tool calls, or a reply with tool calls beside it. All are written in one way:
the template writes a message with placeholders for the texts of the action, and what it wrote is
split there. So no template's format of a call has code of its own. In Qwen3's template:

    {"name": "visit", "arguments": {"title": "Paris"}}
    becomes  ['<tool_call>⏎{"name": "visit", "arguments": {"title": "', Hole(1), '"}}⏎</tool_call>']

The text around actions is in three parts. `act` and `end` are what all kinds of actions have in
common; the rest is part of the action. So the choice between a reply and a call, and an end that
only calls have, are part of what is scored and trained. That nothing follows an action, a call
behind a reply say, is always trained; scored it is with `end` (--act-prm.reward-span turn).
"""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

from minprm.text.reasoning import Newest, find_newest
from minprm.text.render import (
    MARK,
    QUESTION,
    Hole,
    Renderer,
    at_holes,
    behind_holes,
    common_start,
    hole_numbers,
    placeholder,
    with_placeholders,
)

NAME = "minprm_tool"  # of a call that is made to see how the template writes it
KEY = "minprm_a"
REPLY = {"role": "assistant", "content": placeholder(0)}
HARD = 'a "b", it\'s {c} \\d\n<e> é'  # a text to stumble over
IDS = "the chat template writes ids of calls, which actions do not have"


def call_id(number: int) -> str:
    """Nine letters and digits: some templates refuse any other id."""
    return f"call{number:05}"


ANSWER = {"role": "tool", "name": NAME, "tool_call_id": call_id(0), "content": "x"}


class Style(NamedTuple):
    """How the template takes a message with calls."""

    content: str | None = ""  # of a message that only calls
    text_arguments: bool = False  # arguments are the text of JSON, not an object

    def call(self, calls: list[dict] | None = None, reply: str | None = None) -> dict:
        """A message with these calls, or with one that is made to see how it is written."""
        tool_calls = []
        for i, call in enumerate(calls or [{"name": NAME, "arguments": {KEY: placeholder(1)}}]):
            arguments = call["arguments"]
            if self.text_arguments:
                arguments = json.dumps(arguments, ensure_ascii=False)
            function = {"name": call["name"], "arguments": arguments}
            tool_calls.append({"id": call_id(i), "type": "function", "function": function})
        content = self.content if reply is None else reply
        return {"role": "assistant", "content": content, "tool_calls": tool_calls}


# the ways to try, the usual one first
STYLES = (Style("", False), Style("", True), Style(None, False), Style(None, True))


class Ends(NamedTuple):
    """The control tokens at which a turn ends. GLM's is the one that begins the next message."""

    reply: str
    call: str
    close: str  # what closes a reply, up to its token; what comes later begins the next state
    next_ends: bool  # the token is that of the next message

    @property
    def common(self) -> str:
        """The end that all actions have; "" where replies and calls end differently."""
        return self.reply if self.reply == self.call else ""

    @property
    def gap(self) -> str:
        """What stands between a reply and its end, such as a line break. It belongs to the reply:
        a full stop and a line break may be one token."""
        return self.close.removesuffix(self.reply)


@dataclass(frozen=True, eq=False)
class Turns:
    """One template's assistant turns, as texts."""

    newest: Newest
    style: Style
    ends: Ends
    act: str  # opens an action behind a thought
    act_without_thought: str
    written: str  # what all messages without a thought begin with, an empty one included

    @cached_property
    def beside(self) -> str | None:
        """Who writes text beside a call: the `template`; or we (`ours`), where a reply is bare."""
        head = self._split_action(REPLY, [0])[0]
        opening = self._split_action(self.style.call(), [1])[0]
        without = None if head else "ours"
        try:
            both = self._split_action(self.style.call(reply=placeholder(0)), [0, 1])
        except ValueError:
            return without
        in_order = hole_numbers(both) == [0, 1] and both[0] == head
        return "template" if in_order and both[2].strip() == opening.strip() else without

    def alone(self, calls: bool) -> str:
        """What opens a call, or else a reply, that has no thought before it in a history: the empty
        thought that some templates write in earlier turns too, or what opens any action."""
        message, number, later = REPLY, 0, [QUESTION]
        if calls:
            message, number, later = self.style.call(), 1, [ANSWER, REPLY, QUESTION]
        try:
            text = self.newest.render([QUESTION, message, *later], [], prompt=False)
            start, hole = self._split_action(message, [number])[:2]
        except ValueError:  # it knows no calls, or no such conversation
            return self.act_without_thought
        before, found, _ = text.removeprefix(self.newest.prompt).partition(start + hole)
        as_newest = text.startswith(self.newest.prompt + self.written)
        empty = found and as_newest and self.newest.stop in self.written
        return before if empty else self.act_without_thought

    @cached_property
    def around_reply(self) -> tuple[str, str]:
        """What stands before and behind a reply."""
        head, _, tail = self.text(MARK, []).partition(MARK)
        return head.strip(), tail.strip()

    def trimmed(self, reply: str) -> str:
        """The reply without the white space at its edges that the template drops."""
        before, _, after = self.newest.text(REPLY).partition(placeholder(0))
        spaced = {**REPLY, "content": f" {placeholder(0)} "}
        spaced_before, _, spaced_after = self.newest.text(spaced).partition(placeholder(0))
        reply = reply.lstrip() if spaced_before == before else reply
        return reply.rstrip() if spaced_after == after else reply

    def pieces(self, reply: str, calls: list[dict]) -> tuple[list[str], list[str]]:
        """An action as the template's texts and holes, and the texts that belong in the holes.

        Raises ValueError where the template cannot write it.
        """
        if self.writes_by_content and not self.writes_as_they_stand(calls):
            raise ValueError(
                "the chat template writes some texts by what they hold (in an object or a list, as"
                " Python does), and this tool call has one: leave it out, or use another --model"
            )
        return self._pieces(reply, calls)

    def _pieces(self, reply: str, calls: list[dict]) -> tuple[list[str], list[str]]:
        texts: list[str] = []
        with_placeholders(reply, texts)  # it has number 0
        marked = []
        for call in calls:
            self._check_keys(call)
            arguments = with_placeholders(call["arguments"], texts)
            marked.append({"name": call["name"], "arguments": arguments})
        return self._pieces_of(bool(reply), json.dumps(marked), len(texts)), texts

    def text(self, reply: str, calls: list[dict]) -> str:
        """The same as one text to be read, without what ends the turn."""
        parts = self.newest.render.with_controls(*self.pieces(reply, calls))
        if not self.ends.common:
            parts = parts[:-2]  # the end, and the nothing behind it
        return self.newest.render.marked(parts)

    def before(self, names: tuple[str, ...], number: int) -> dict:
        """A turn that called these tools, or else a reply; its last text is a placeholder."""
        if not names:
            return {"role": "assistant", "content": placeholder(number)}
        calls = [{"name": name, "arguments": {KEY: "x"}} for name in names]
        calls[-1]["arguments"] = {KEY: placeholder(number)}
        return self.style.call(calls)

    def writes_as_they_stand(self, calls: list[dict]) -> bool:
        """Does the template write these texts as it writes placeholders? Some wrap a text by what
        it holds."""
        if not calls:
            return True
        action = "".join(self.newest.render.with_controls(*self._pieces("", calls)))
        return action.removesuffix(self.ends.call) in self.newest.text(self.style.call(calls))

    @cached_property
    def writes_by_content(self) -> bool:
        """Does it wrap texts inside an object or a list so, as Python does?"""
        try:
            return not self.writes_as_they_stand([{"name": NAME, "arguments": {KEY: [HARD]}}])
        except ValueError:  # it has no calls
            return False

    def behind(self, names: tuple[str, ...], later: str) -> str:
        """What follows the last text of such a turn, without that which closes the turn.

        A turn keeps the end that was sampled, where the template ends earlier turns by another.
        Raises ValueError where the turn itself is written in another way.
        """
        end = self.ends.call if names else self.ends.reply
        closing = behind_holes(self.newest.text(self.before(names, 0))).partition(end)[0]
        later = later.removeprefix(closing)
        if later.startswith(end) or self.ends.next_ends:
            return later.removeprefix(end)
        tokens = self.newest.render.controls(later)
        other = tokens[0].group() if tokens and tokens[0].start() == 0 else ""
        question = {**QUESTION, "content": placeholder(0)}
        after_question = behind_holes(self.newest.render([question], [], prompt=True))
        if not other or not after_question.startswith(other):
            raise ValueError(
                f"the chat template ends the newest turn by {end!r} and earlier turns in another"
                " way, so a history cannot grow by appending"
            )
        return later.removeprefix(other)

    @cached_property
    def _pieces_of(self) -> Callable[[bool, str, int], list[str]]:
        """Most actions differ in their texts alone, so their pieces are rendered once."""
        return lru_cache(maxsize=1024)(self._new_pieces)

    def _new_pieces(self, has_reply: bool, marked_calls: str, count: int) -> list[str]:
        """The pieces of an action whose texts are placeholders already."""
        calls = json.loads(marked_calls)
        if not calls:
            return self._split_action(REPLY, [0])
        numbers = list(range(1, count))
        if not has_reply:
            return self._split_action(self.style.call(calls), numbers)
        if self.beside is None:
            raise ValueError(
                "the chat template has no place for text beside a tool call: read the logs with"
                " --content thought"
            )
        if self.beside == "template":
            return self._split_action(self.style.call(calls, placeholder(0)), [0, *numbers])
        pieces = self._split_action(self.style.call(calls), numbers)
        return ["", Hole(placeholder(0)), "\n" + pieces[0], *pieces[1:]]

    def _split_action(self, message: dict, numbers: list[int]) -> list[str]:
        """The pieces of a message from behind `act` to before the common end.

        numbers: of the holes that it must have.
        """
        text = self.newest.behind_thought(message)
        if text is None:
            bare = self.newest.without_thought(message)
            text = self.act + bare.removeprefix(self.act_without_thought)
        calls = "tool_calls" in message
        end = self.ends.call if calls else self.ends.reply
        action, _, _ = text.removeprefix(self.act).partition(end)
        pieces = at_holes((action + end).removesuffix(self.ends.common))
        if sorted(hole_numbers(pieces)) != numbers:
            lost = "parts of tool calls" if calls else "the text of an assistant message"
            raise ValueError(f"the chat template leaves out {lost}, or writes it twice")
        return pieces

    def _check_keys(self, call: dict) -> None:
        """Raises ValueError where a name would be a control token: the template writes names."""
        names = [call["name"]]
        parts = [call["arguments"]]
        while parts:
            part = parts.pop()
            if isinstance(part, dict):
                names += part
                part = list(part.values())
            if isinstance(part, list):
                parts += part
        for name in names:
            if self.newest.render.controls(name):
                raise ValueError(
                    f"the name {name[:80]!r} in a tool call spells a control token of this model: "
                    "rename it in the logs, or use another --model"
                )


# --- what is learned once ---


def find_turns(render: Renderer, tools: bool) -> Turns:
    """tools: actions may be calls. Raises ValueError with what the template cannot."""
    newest = find_newest(render, [REPLY, Style().call()])
    style = find_style(newest) if tools else Style()
    kinds = [REPLY, style.call()] if tools else [REPLY]
    bare = [newest.without_thought(message) for message in kinds]
    act_without_thought = _start_of_all(render, bare)
    # Where the template has no thoughts, ours stands before what it writes. Between them is one
    # line break, which has the same id whatever an action begins with. Two of them have one id
    # before a space, and in some vocabularies before a digit, and other ids before a letter.
    act = "\n" + act_without_thought.lstrip()
    if newest.key:
        behind = []
        for message, text in zip(kinds, bare, strict=True):
            after_thought = newest.behind_thought(message)
            behind.append(text if after_thought is None else after_thought)
        act = _start_of_all(render, behind)
    written = _start_of_all(render, [newest.text(message) for message in kinds])
    ends = find_ends(newest, style, tools)
    turns = Turns(newest, style, ends, act, act_without_thought, written)
    turns.pieces("x", [])  # a template that loses a reply is refused now
    return turns


def find_style(newest: Newest) -> Style:
    """Most templates take arguments as an object, some as its text."""
    reasons = []
    for style in STYLES:
        try:
            text = newest.text(style.call())
        except ValueError as error:
            reasons.append(str(error))
            continue
        if NAME in text and hole_numbers(at_holes(text)) == [1]:
            check_ids(newest.render, style)
            return style
        if call_id(0) in text:
            raise ValueError(IDS)
    if len(reasons) == len(STYLES):
        raise ValueError(reasons[0])
    raise ValueError("the chat template leaves out tool calls")


def check_ids(render: Renderer, style: Style) -> None:
    """Raises ValueError where the template writes the id of a call, there or with its answer."""
    text = render([QUESTION, style.call()], [], prompt=False)
    with suppress(ValueError):  # some know no answers
        text = render([QUESTION, style.call(), ANSWER], [], prompt=False)
    if call_id(0) in text:
        raise ValueError(IDS)


def find_ends(newest: Newest, style: Style, tools: bool) -> Ends:
    """Raises ValueError where no control token ends a turn: sampling would not stop."""
    controls = newest.render.controls
    text = newest.text(REPLY).partition(placeholder(0))[2]
    next_ends = not controls(text)
    if next_ends:
        text = followed_by(newest.render, REPLY, QUESTION)
    tokens = controls(text)
    if not tokens:
        raise ValueError(
            "the chat template does not end a turn with a control token, so sampling would not stop"
        )
    reply = tokens[0].group()
    close = text[: tokens[0].end()]
    if not tools:
        return Ends(reply, reply, close, next_ends)
    text = behind_holes(newest.text(style.call()))
    if reply in text:
        call_tokens = tokens[:1]
    elif next_ends:
        later = followed_by(newest.render, style.call(), ANSWER).removeprefix(text)
        call_tokens = controls(later)[:1] or tokens[:1]
    else:
        call_tokens = controls(text)
    if not call_tokens:
        raise ValueError("the chat template does not end a tool call with a control token")
    return Ends(reply, call_tokens[-1].group(), close, next_ends)


def followed_by(render: Renderer, message: dict, later: dict) -> str:
    """What the template writes between the last text of a message and that of the next one."""
    later = {**later, "content": placeholder(9)}
    text = render([QUESTION, message, later], [], prompt=False)
    return behind_holes(text.partition(f"{MARK}9")[0])


def _start_of_all(render: Renderer, texts: list[str]) -> str:
    """What all texts begin with, up to the first placeholder; no control token is cut."""
    texts = [text.split(MARK)[0] for text in texts]
    start = common_start(texts)
    for token in render.controls(texts[0]):
        if token.start() < len(start) < token.end():
            return start[: token.start()]
    return start
