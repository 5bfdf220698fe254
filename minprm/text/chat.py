"""Messages -> token segments and back: where a thought or an action starts and ends.

A template is rendered once with placeholders, its text split there; from then on segments are
concatenated. Template text is tokenised with special tokens, content without: an observation that
spells a control token stays text. History is appended to, never rendered again.

A turn is  state | think | thought | stop | act | action | act_end | end,  and what ends a thought
is one token: its closing tag, or the first token of a tag that the vocabulary has to spell.
"""

import json
import re
from typing import NamedTuple

from transformers import PreTrainedTokenizerBase

from minprm.constants import History, fail

TAGS = ("<think>", "</think>", "<act>", "</act>")
ORDERS = ("natural", "action_first")
_MARK = "xMINPRM{}x"
_ARGUMENTS = {_MARK.format("K"): _MARK.format("V")}
_ASKED = [{"role": "user"}, {"role": "assistant"}]


class Layout(NamedTuple):
    """Texts around thought and action in the assistant's turn."""

    think: str  # opens a thought: forced in sampling, learned in SFT
    gap: str  # between a given thought and its stop, as templates write it
    stop: str  # ends a thought
    act: str  # opens the action after a thought
    bare: str  # opens it where there is no thought
    act_end: str  # ends it


class Call(NamedTuple):
    """A template's own tool call: open name middle arguments close, and what joins two of them."""

    open: str
    middle: str
    close: str
    join: str | None  # None: one call a turn


class Turn(NamedTuple):
    """A turn of the history, as ids, in the versions that it may be shown in."""

    state: list[int]
    hidden: list[int]  # the state without what was observed
    full: list[int]
    silent: list[int]  # the turn without its thought


class Chat:
    """Segments of one template. Exits where the template or tokenizer cannot carry the layout.

    layout: `tags`, thought and plain-text action each in tags; `think`, <think> ... </think>, then
    the action; `tool`, a thought in plain text that the tool call's opening token ends.
    tools: actions are JSON objects {"name", "arguments"}, one a line, in the template's own format.
    """

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, layout: str = "auto", tools: bool = False
    ):
        self.tokenizer, self._pieces = tokenizer, {}
        self.special = {i: token for token, i in tokenizer.get_added_vocab().items()}
        after = self._split(_ASKED, [], False)[-1]
        if not (ends := [after.index(t) + len(t) for t in self.special.values() if t in after]):
            fail("the chat template does not end a turn with a control token")
        self._end_text = after[: min(ends)]
        self.end = self._template(self._end_text)
        self.call = self._native() if tools else None
        self.layout = self._layout(layout)
        self.think, self.think_end, self.act, self.bare, self.act_end = (
            self._template(x) for x in (self.layout.think, *self.layout[2:])
        )
        self.stop = self.think_end[:1]  # where sampling of a thought ends

    def state(self, messages: list[dict], tools: list[dict], first: bool) -> list[int]:
        """Ids from the end of the last turn to where the assistant writes; `first`: no turn yet."""
        return self.asked(messages, tools, first)[0]

    def asked(self, messages: list[dict], tools: list[dict], first: bool) -> tuple[list[int], ...]:
        """(state, the same with nothing observed; the rules stay): how a Turn begins."""
        key = (first, tuple(m["role"] for m in messages), repr(tools))
        if key not in self._pieces:
            self._pieces[key] = self._state_pieces(messages, tools, first)
        state, hidden = [], []
        for piece in self._pieces[key]:
            template = not isinstance(piece, int)
            ids = piece if template else self.content(messages[piece]["content"])
            state += ids
            if template or messages[piece]["role"] == "system":
                hidden += ids
        return state, hidden

    def history(self, turns: list[Turn], cfg: History) -> list[list[int]]:
        """Ids of all turns so far, of which `cfg` may hide observations and drop thoughts: for each
        turn its state and its answer."""
        segments: list[list[int]] = []
        for i, turn in enumerate(turns):
            shown = not cfg.last or i < cfg.first or i >= len(turns) - cfg.last
            segments.append(turn.state if shown else turn.hidden)
            segments.append(turn.full if cfg.thoughts else turn.silent)
        return segments

    def silent(self, ids: list[int]) -> list[int]:
        """A sampled turn without its thought."""
        thought, rest = self.split(ids)
        if thought is None or rest[: len(self.act)] != self.act:
            return rest
        return self.bare + rest[len(self.act) :]

    def content(self, text: str) -> list[int]:
        """Ids of text that is nobody's template. Exits on a word that the vocabulary lacks."""
        try:
            return self.tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True)
        except Exception as error:  # tokenizers raises nothing narrower
            fail(f"{text!r} holds a word that the model's vocabulary lacks ({error})")

    def thought(self, text: str) -> list[int]:
        """Ids of a given thought, with the space that templates put after it."""
        return self.content(text.strip() + self.layout.gap)

    def action(self, text: str) -> list[int]:
        """Ids of an action; tool calls in the template's own format."""
        if self.call is None:
            return self.content(text)
        ids: list[int] = []
        for i, call in enumerate(map(json.loads, text.splitlines())):
            if i and self.call.join is None:
                fail("the chat template allows one tool call a turn, and a logged turn has two")
            arguments = json.dumps(call["arguments"], ensure_ascii=False)
            ids += self._template(self.call.join) if i else []
            ids += self.content(call["name"]) + self._template(self.call.middle)
            ids += self.content(arguments)
        return ids

    def opening(self, thought: list[int] | None) -> list[int]:
        """Ids of an assistant turn up to its action."""
        if thought is None:
            return self.bare
        return [*self.think, *thought, *self.think_end, *self.act]

    def turn(
        self, thought: list[int] | None, action: list[int], order: str = "natural"
    ) -> list[int]:
        """Ids of one assistant turn; `order` is one of ORDERS. No thought, no tags."""
        if thought is None or order == "natural":
            return [*self.opening(thought), *action, *self.act_end, *self.end]
        think = [*self.think, *thought, *self.think_end]
        return [*self.bare, *action, *self.act_end, *think, *self.end]

    def parse(self, ids: list[int]) -> tuple[str | None, str | None]:
        """(thought, action) of a sampled turn, found by id. A malformed turn has action None."""
        thought, ids = self.split(ids)
        opening = self.bare if thought is None else self.act
        if ids[-1:] != self.end[-1:]:
            return self.text(thought), None
        body = self.text(ids[: -len(self.end)]).strip()
        head, tail = self.text(opening).strip(), self.text(self.act_end).strip()
        if not (body.startswith(head) and body.endswith(tail) and len(body) >= len(head + tail)):
            return self.text(thought), None
        action = self.read(body[len(head) : len(body) - len(tail)])
        if action is not None and self._controls(ids) != self._controls(
            [*opening, *self._between(action), *self.act_end, *self.end]
        ):
            action = None  # a tag that was spelled is no tag, and none may be inside an action
        return self.text(thought), action

    def split(self, ids: list[int]) -> tuple[list[int] | None, list[int]]:
        """(thought, rest) of a sampled turn; a turn without a thought is all rest."""
        n, (stop,) = len(self.think), self.stop
        if ids[:n] != self.think or stop not in ids[n:] or (ids[:1] == [stop] and not n):
            return None, ids
        cut = ids.index(stop, n)
        end = cut + len(self.think_end)
        return (ids[n:cut], ids[end:]) if ids[cut:end] == self.think_end else (None, ids)

    def read(self, text: str) -> str | None:
        """The action in the text between its tags; None where it is no call of the template's."""
        if self.call is None:
            return text.strip()
        middle, calls = self.call.middle.strip(), []
        for part in text.split(self.call.join.strip()) if self.call.join else [text]:
            name, _, arguments = part.strip().partition(middle)
            try:
                calls.append({"name": name.strip(), "arguments": json.loads(arguments)})
            except ValueError:
                return None
        good = all(c["name"] and isinstance(c["arguments"], dict) for c in calls)
        return "\n".join(map(json.dumps, calls)) if good else None

    def clean(self, ids: list[int]) -> bool:
        """True where no control token is among the ids."""
        return self.special.keys().isdisjoint(ids)

    def text(self, ids: list[int] | None) -> str | None:
        """For worlds and people, never for the loss."""
        return None if ids is None else self.tokenizer.decode(ids)

    def _between(self, action: str) -> list[int]:
        """Template ids inside an action."""
        if self.call is None:
            return []
        middle, join = (self._template(text or "") for text in (self.call.middle, self.call.join))
        return middle + (join + middle) * (len(action.splitlines()) - 1)

    def _controls(self, ids: list[int]) -> list[int]:
        return [i for i in ids if i in self.special]

    def _template(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False)

    def _render(self, messages: list[dict], tools: list[dict], prompt: bool) -> str:
        return self.tokenizer.apply_chat_template(
            messages, tools=tools or None, add_generation_prompt=prompt, tokenize=False
        )

    def _split(self, messages: list[dict], tools: list[dict], prompt: bool) -> list[str]:
        marked = [{**m, "content": _MARK.format(i)} for i, m in enumerate(messages)]
        return re.split(_MARK.format(r"(\d+)"), self._render(marked, tools, prompt))

    def _state_pieces(self, messages, tools, first) -> list[list[int] | int]:
        before = [] if first else _ASKED
        parts = self._split([*before, *messages], tools, True)
        if not first:  # drop the turn before, and the end that it already holds
            parts = parts[parts.index("1") + 1 :]
            parts[0] = parts[0].removeprefix(self._end_text)
        parts[-1] = parts[-1].removesuffix("<think>\n")  # some templates open the thought
        skip = len(before)
        return [int(p) - skip if i % 2 else self._template(p) for i, p in enumerate(parts)]

    def _native(self) -> Call:
        """The template's tool call, from a rendering of one and of two calls."""
        for arguments in (_ARGUMENTS, json.dumps(_ARGUMENTS)):  # some templates want text
            try:
                one = self._called(1, arguments)
            except (TypeError, ValueError):
                continue
            break
        else:
            fail("the chat template renders no tool calls: --layout think or tags, without tools")
        try:
            two = self._called(2, arguments)
        except Exception:  # templates raise what they like where they allow one call
            two = None
        opening, middle, close = one
        return Call(opening, middle, close, two and two[2])

    def _called(self, number: int, arguments) -> tuple[str, ...]:
        """Texts before, between and after name and arguments of each call."""
        function = {"name": _MARK.format("N"), "arguments": arguments}
        calls = [{"type": "function", "function": function}] * number
        user, written = {"role": "user", "content": "x"}, _MARK.format("C")
        turn = {"role": "assistant", "content": written, "tool_calls": calls}
        text = self._render([user, turn], [], False)
        start = len(self._render([user], [], True))
        if written in text:
            start = text.index(written) + len(written)
        arguments_here = r"\{\s*\"xMINPRMKx\":\s*\"xMINPRMVx\"\s*\}"
        parts = re.split(f"{_MARK.format('N')}|{arguments_here}", text[start:])
        if len(parts) != 2 * number + 1:
            raise ValueError("the template drops tool calls")
        return *parts[:-1], parts[-1][: parts[-1].index(self._end_text)]

    def _layout(self, name: str) -> Layout:
        opening, close = (self.call.open, self.call.close) if self.call else ("", "")
        known = self.tokenizer.get_vocab()
        tags = all(tag in known for tag in TAGS)
        if name == "auto":
            thinks = "</think>" in self.tokenizer.chat_template or self.call is None
            name = "tags" if tags else "think" if thinks else "tool"
        if name == "tags":
            if self.call:
                fail("--layout tags is for plain-text actions, and here are tools: think or tool")
            line = "" if tags else "\n"  # a spelled tag stands on its own line
            return Layout("<think>" + line, line, "</think>", line + "<act>", "<act>", "</act>")
        if name == "think":
            after = opening.lstrip("\n")
            return Layout("<think>\n", "\n", "</think>", "\n\n" + after, after, close)
        if self.call is None:
            fail("--layout tool: neither the logs nor the world have tools; use --layout think")
        stop = next((t for t in self.special.values() if opening.strip().startswith(t)), "")
        gap, _, rest = opening.partition(stop) if stop else ("", "", opening)
        stop = stop or "<|python_tag|>"
        if stop not in known:
            fail("--layout tool: no token opens a tool call here, to end a thought; use think")
        return Layout("", gap, stop, rest, stop + rest, close)
