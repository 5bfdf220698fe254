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
from functools import lru_cache

from minprm.text.reasoning import THOUGHT, find_reasoning
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
    text_at,
    with_placeholders,
)

NAME = "minprm_tool"  # of a call that is made to see how the template writes it
KEY = "minprm_a"


def call_id(number: int) -> str:
    """Nine letters and digits: some templates refuse any other id."""
    return f"call{number:05}"


class Turns:
    """One template's assistant turns, as texts.

    tools: actions may be calls. The constructor raises ValueError with what the template cannot.
    """

    def __init__(self, render: Renderer, tools: bool):
        self.render = render
        self.text_arguments = False  # does the template take arguments as the text of JSON
        self.no_content: str | None = ""  # the content of a message that only calls
        self.reasoning = find_reasoning(render, [self._reply(), self._call()])
        self.prompt = self.reasoning.bare(render([QUESTION], [], prompt=True))
        if tools:
            self._choose_style()
        kinds = [self._reply(), self._call()] if tools else [self._reply()]
        without_thought = [self._without_thought(message) for message in kinds]
        self.act_without_thought = self._common_start(without_thought)
        # Where the template has no thoughts, ours stands before what it writes.
        self.act = "\n\n" + self.act_without_thought.lstrip("\n")
        if self.reasoning.key:
            behind = []
            for message, bare in zip(kinds, without_thought, strict=True):
                text = self._behind_thought(message)
                behind.append(bare if text is None else text)
            self.act = self._common_start(behind)
        self._find_ends(tools)
        self._known = lru_cache(maxsize=1024)(self._new_pieces)
        self._closings = lru_cache(maxsize=1024)(self._closing)
        reply = self._split_action(self._reply(), self.reply_end, [0])
        self.beside = self._find_beside(text_at(reply, 0)) if tools else None
        head, _, tail = self.written(MARK, []).partition(MARK)
        self.around_reply = head.strip(), tail.strip()

    # --- writing ---

    def pieces(self, reply: str, calls: list[dict]) -> tuple[list[str | Hole], list[str]]:
        """An action as the template's texts and holes, and the texts that belong in the holes.

        Raises ValueError where the template cannot write it.
        """
        texts: list[str] = []
        with_placeholders(reply, texts)  # it has number 0
        marked = []
        for call in calls:
            self._check_keys(call)
            arguments = with_placeholders(call["arguments"], texts)
            marked.append({"name": call["name"], "arguments": arguments})
        return self._known(bool(reply), json.dumps(marked), len(texts)), texts

    def written(self, reply: str, calls: list[dict]) -> str:
        """The same as one text to be read, without what ends the turn."""
        parts = self.render.with_controls(*self.pieces(reply, calls))
        if not self.end:
            parts = parts[:-2]  # the end, and the nothing behind it
        return self.render.marked(parts)

    def _new_pieces(self, says: bool, marked_calls: str, count: int) -> list[str | Hole]:
        """The pieces of an action whose texts are placeholders already."""
        calls = json.loads(marked_calls)
        if not calls:
            return self._split_action(self._reply(), self.reply_end, [0])
        expected = list(range(0 if says else 1, count))
        if says and self.beside is None:
            raise ValueError(
                "the chat template has no place for text beside a tool call: read the logs with"
                " --content thought"
            )
        if says and self.beside == "template":
            message = self._call(calls, reply=placeholder(0))
            return self._split_action(message, self.call_end, expected)
        pieces = self._split_action(self._call(calls), self.call_end, expected[says:])
        if says:
            pieces = ["", Hole(0, escaped=False), "\n" + text_at(pieces, 0), *pieces[1:]]
        return pieces

    def _split_action(self, message: dict, end: str, expected: list[int]) -> list[str | Hole]:
        """The pieces of a message from behind `act` to before the common `end`."""
        text = self._behind_thought(message)
        if text is None:
            text = self.act + self._without_thought(message).removeprefix(self.act_without_thought)
        text = text.removeprefix(self.act)
        head, _, _ = text.partition(end)
        pieces = at_holes((head + end).removesuffix(self.end))
        if sorted(hole_numbers(pieces)) != expected:
            calls = "tool_calls" in message
            what = "parts of tool calls" if calls else "the text of an assistant message"
            raise ValueError(f"the chat template leaves out {what}, or writes it twice")
        return pieces

    def _check_keys(self, call: dict) -> None:
        """Raises ValueError where a name would be a control token: the template writes names."""
        names = [call["name"]]
        values = [call["arguments"]]
        while values:
            value = values.pop()
            if isinstance(value, dict):
                names += value
                value = list(value.values())
            if isinstance(value, list):
                values += value
        for name in names:
            if self.render.controls(name) or at_holes(name) != [name]:
                raise ValueError(
                    f"the name {name[:80]!r} in a tool call spells a control token of this model: "
                    "rename it in the logs, or use another --model"
                )

    # --- what follows a turn ---

    def before(self, names: tuple[str, ...], number: int) -> dict:
        """A turn that called these tools, or else a reply; its last text is a placeholder."""
        if not names:
            return {"role": "assistant", "content": placeholder(number)}
        calls = [{"name": name, "arguments": {KEY: "x"}} for name in names]
        calls[-1]["arguments"] = {KEY: placeholder(number)}
        return self._call(calls)

    def behind(self, names: tuple[str, ...], rest: str) -> str:
        """What follows the last text of such a turn, without that which closes the turn.

        A turn keeps the end that was sampled, where the template ends earlier turns by another.
        Raises ValueError where the turn itself is written in another way.
        """
        rest = rest.removeprefix(self._closings(names))
        end = self.call_end if names else self.reply_end
        if rest.startswith(end) or self.next_ends:
            return rest.removeprefix(end)
        found = self.render.controls(rest)
        other = found[0].group() if found and found[0].start() == 0 else ""
        if not other or not self._ends_a_question(other):
            raise ValueError(
                f"the chat template ends the newest turn by {end!r} and earlier turns in another"
                " way, so a history cannot grow by appending"
            )
        return rest.removeprefix(other)

    def _closing(self, names: tuple[str, ...]) -> str:
        """What the newest turn has between its last text and its end."""
        message = self.before(names, 0)
        after = behind_holes(self._newest(message))
        return after.partition(self.call_end if names else self.reply_end)[0]

    def _ends_a_question(self, token: str) -> bool:
        asked = {**QUESTION, "content": placeholder(0)}
        return behind_holes(self.render([asked], [], prompt=True)).startswith(token)

    # --- what is learned once ---

    def _choose_style(self) -> None:
        """How the template takes calls: most take arguments as an object, some as its text."""
        reasons = []
        for style in (("", False), ("", True), (None, False), (None, True)):
            self.no_content, self.text_arguments = style
            try:
                text = self._newest(self._call())
            except ValueError as error:
                reasons.append(str(error))
                continue
            if call_id(0) in text:
                raise ValueError("the chat template writes ids of calls, which actions do not have")
            if NAME in text and hole_numbers(at_holes(text)) == [1]:
                return
        raise ValueError(reasons[3] if reasons[3:] else "the chat template leaves out tool calls")

    def _find_ends(self, tools: bool) -> None:
        """The tokens at which a turn ends. GLM's is the one that begins the next message."""
        reply = self._newest(self._reply()).partition(placeholder(0))[2]
        self.next_ends = not self.render.controls(reply)
        if self.next_ends:
            reply = self._followed_by(self._reply(), {"role": "user", "content": "x"})
        found = self.render.controls(reply)
        if not found:
            raise ValueError(
                "the chat template does not end a turn with a control token, so sampling would not"
                " stop"
            )
        self.reply_end = self.call_end = found[0].group()
        self.close = self.end = reply[: found[0].end()]  # what comes later begins the next state
        if not tools:
            return
        call = behind_holes(self._newest(self._call()))
        if self.next_ends:
            later = self._followed_by(self._call(), self._answer()).removeprefix(call)
            self.call_end = (self.render.controls(later) or found)[0].group()
        elif self.reply_end not in call:
            found = self.render.controls(call)
            if not found:
                raise ValueError("the chat template does not end a tool call with a control token")
            self.call_end = found[-1].group()
        if self.call_end != self.reply_end:
            self.end = ""

    def _answer(self) -> dict:
        return {"role": "tool", "name": NAME, "tool_call_id": call_id(0), "content": "x"}

    def _followed_by(self, message: dict, later: dict) -> str:
        """What the template writes after the last text of a message that another one follows."""
        return behind_holes(self.render([QUESTION, message, later], [], prompt=False))

    def _find_beside(self, head: str) -> str | None:
        """Who writes text beside a call: the `template`; or we (`ours`), where a reply is bare.

        head: what stands before a reply.
        """
        call = self._split_action(self._call(), self.call_end, [1])
        try:
            message = self._call(reply=placeholder(0))
            found = self._split_action(message, self.call_end, [0, 1])
            ahead, between = text_at(found, 0), text_at(found, 2)
            says_first = hole_numbers(found) == [0, 1]
            if ahead == head and says_first and between.strip() == text_at(call, 0).strip():
                return "template"
        except ValueError:
            pass
        return None if head else "ours"

    # --- messages, and the texts of one ---

    def _reply(self) -> dict:
        return {"role": "assistant", "content": placeholder(0)}

    def _call(self, calls: list[dict] | None = None, reply: str | None = None) -> dict:
        """A message with these calls, or with one that is made to see how it is written."""
        calls = calls or [{"name": NAME, "arguments": {KEY: placeholder(1)}}]
        made = []
        for i, call in enumerate(calls):
            arguments = call["arguments"]
            if self.text_arguments:
                arguments = json.dumps(arguments, ensure_ascii=False)
            function = {"name": call["name"], "arguments": arguments}
            made.append({"id": call_id(i), "type": "function", "function": function})
        content = self.no_content if reply is None else reply
        return {"role": "assistant", "content": content, "tool_calls": made}

    def _newest(self, message: dict) -> str:
        """What the template writes behind the prompt when this message is the last."""
        text = self.render([QUESTION, message], [], prompt=False)
        if not text.startswith(self.prompt):
            raise ValueError("the chat template begins an answer in another way than its prompt")
        return text.removeprefix(self.prompt)

    def _behind_thought(self, message: dict) -> str | None:
        """The message behind a thought. None: the template writes none in such a message."""
        if self.reasoning.key is None:
            return None
        try:
            text = self._newest({**message, self.reasoning.key: THOUGHT})
        except ValueError:
            return None
        _, found, after = text.partition(THOUGHT + self.reasoning.gap + self.reasoning.stop)
        return after if found else None

    def _without_thought(self, message: dict) -> str:
        """The message without a thought, and without the tags of an empty one."""
        return self.reasoning.without_empty(self._newest(message))

    def _common_start(self, texts: list[str]) -> str:
        """What all texts begin with, up to the first placeholder; no control token is cut."""
        texts = [text.split(MARK)[0] for text in texts]
        start = common_start(texts)
        for token in self.render.controls(texts[0]):
            if token.start() < len(start) < token.end():
                return start[: token.start()]
        return start
