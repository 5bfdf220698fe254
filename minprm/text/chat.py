"""Messages to token segments and back: where a thought or an action starts and ends.

A turn is a chain of segments. Each is a list of token ids, and their concatenation is the turn:

    state | think | thought | stop | act | action | act_end | end
    `---'   `---------------------------------------------------'
    Chat.state                    Chat.turn

The state holds the messages that are new since the last action. Thought and action come from the
model or from a log. All other segments are the template's, and are the same in every turn. Here
is a turn in Qwen3's template whose action is a tool call (layout `think`; ⏎ is a line break):

    state     <|im_start|>user⏎Where is the Louvre?<|im_end|>⏎<|im_start|>assistant⏎
    think     <think>⏎
    thought   The page on Paris says it.⏎
    stop      </think>
    act       ⏎⏎
    action    <tool_call>⏎{"name": "visit", "arguments": {"title": "Paris"}}⏎</tool_call>
    act_end
    end       <|im_end|>

Where actions may be replies or tool calls, all in which the two differ is part of the action: the
texts that open and close a call, and the end of the turn where calls have one of their own.

Text is tokenised piece by piece, never a whole conversation at once, for two reasons:

- Content never becomes a control token. Only in the template's own pieces is a control token one
  token. A web page that spells </think> stays ordinary text, and cannot end a thought. (Where no
  content of a state spells one, it is tokenised together with the template's text around it.)
- Nothing sampled is tokenised again. Decoding ids and encoding the text may give other ids, and
  the sampler's log-probs belong to the ids that it drew. So the history grows by appending.

Where two pieces meet, the ids are those that the tokenizer gives for the whole text: a model never
saw any others. When the model acts, nobody knows yet how its action will begin, so what stands
before it is chosen such that the ids do not depend on it (load/check.py tries that).

The end of a thought is one token, because the sampler stops at a token: `Chat.stop`. Where the
vocabulary has no closing tag and spells it in several tokens, `stop` is the first of them and
`Chat.think_end` is all of them; also the line break behind it, where both are one token.
"""

import json
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from minprm.constants import History, fail
from minprm.own import limited
from minprm.text.actions import parts
from minprm.text.render import Control, Hole, decoded, with_edges
from minprm.text.template import ChatTemplate

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

ORDERS = ("natural", "action_first")
OTHERS = "use another --model, or logs and a world without such messages"


class Turn(NamedTuple):
    """One turn of the history as ids, in the versions in which a later turn may see it."""

    state: list[int]
    hidden: list[int]  # the state without what was observed
    full: list[int]
    without_thought: list[int]  # the assistant's turn without its thought


class Chat:
    """The segments of one chat template, written and read.

    layout: how a turn shows where its thought and its action are.
        `tags`   the thought and a plain-text action each stand in tags of their own
        `think`  the thought stands in the template's own tags, or in <think> ... </think> where it
                 has none, and the action follows
        `auto`   `tags` where the vocabulary has them, else `think`
    tools: the schemas of all tools that actions may call. With tools, an action is a reply, calls,
        or both, as one text (text/actions.py); without, it is plain text.
    """

    def __init__(
        self, tokenizer: "PreTrainedTokenizerBase", layout: str = "auto", tools: Sequence[dict] = ()
    ):
        self.tokenizer = tokenizer
        with limited(f"the chat template of {tokenizer.name_or_path}"):  # a program, and not ours
            self.template = ChatTemplate(tokenizer, layout, list(tools))
        # The control tokens. `content` never writes one; `clean` says whether a thought has one.
        self.special = self.template.render.tokens
        self._ids = self.template.render.ids
        self._with_text = {*tokenizer.get_vocab().values()}  # a model may have rows for more ids
        # Most states differ in their contents alone, so their pieces are rendered once.
        self._pieces_of = lru_cache(maxsize=1024)(self._new_pieces)
        self._last_tools: tuple[Sequence[dict], str] = ((), "[]")  # and the same as JSON
        self._moved = ""  # why the user may say nothing more in conversations that began here
        self.tools = bool(tools)
        self.layout = self.template.layout

        # The segments that are the same in every turn.
        self.think = self.encode(self.layout.think)
        self.think_end, self.act = self._behind_thought()
        self.stop = self.think_end[:1]  # where sampling of a thought ends
        tags = [*self.think, *self.think_end, *self.act]
        letters = "".join(f"{self.layout.think}{self.layout.stop}{self.layout.act}".split())
        said = "".join(self.text(tags).split())  # some vocabularies drop what they cannot say
        if tokenizer.unk_token_id in tags or said.casefold() != letters.casefold():
            fail(
                f"the vocabulary of {tokenizer.name_or_path} cannot say "
                f"{self.layout.think + self.layout.stop!r}: use another --model or --layout"
            )
        self.act_without_thought = self.encode(self.layout.act_without_thought)
        self._alone = [self.act_without_thought] * 2  # what opens a reply, and what a call, so
        if self.layout.name == "think":
            self._alone = [self.encode(self.template.turns.alone(calls)) for calls in (False, True)]
        self.skip = self.encode(self.layout.skip)  # as one text: its parts alone have other ids
        self.act_end = self.encode(self.layout.act_end)
        ends = self.template.turns.ends
        self.end = self.encode(ends.common)  # empty where replies and calls end differently
        # Where sampling of a turn ends.
        self.ends = [self._ids[end] for end in dict.fromkeys((ends.reply, ends.call))]
        self._turn_end = ends.reply  # behind which the next state begins
        self.close = self.encode(ends.close)  # ends a turn that was cut for its length

    # Writing: from messages, thoughts and actions to ids.

    def state(self, messages: list[dict], tools: list[dict], after: str | None) -> list[int]:
        """Ids from the end of the last turn to where the assistant writes.

        after: the action of the last turn, because templates write the answer to a call by its
        name; "" where no action could be read. None: these messages begin the conversation.
        """
        return self.state_ids(messages, tools, after)[0]

    def state_ids(
        self, messages: list[dict], tools: list[dict], after: str | None
    ) -> tuple[list[int], list[int]]:
        """The first two fields of a Turn: the state, and the state without what was observed."""
        asked_further = after is not None and any(m["role"] == "user" for m in messages)
        if asked_further and self._moved:
            fail(f"{self._moved}: {OTHERS}")
        contents = []
        rules = []  # a system message is no observation
        for message in messages:
            contents.append(message["content"])
            rules.append(message["content"] if message["role"] == "system" else "")
        versions = []
        for texts in (contents, rules):
            pieces = self._state_pieces(messages, texts, tools, after)
            versions.append(self._filled(pieces, texts, begins=after is None))
        return versions[0], versions[1]

    @staticmethod
    def history(turns: list[Turn], cfg: History) -> list[list[int]]:
        """The segments of all turns so far: for each turn its state, then the assistant's turn.

        cfg says which observations are hidden, and whether thoughts are dropped.
        """
        segments: list[list[int]] = []
        newest = len(turns) - cfg.last
        for i, turn in enumerate(turns):
            visible = cfg.last == 0 or i == 0 or i >= newest
            # The Turn's own lists, no copies: Samples share a segment if it is the same list.
            segments.append(turn.state if visible else turn.hidden)
            segments.append(turn.full if cfg.thoughts else turn.without_thought)
        return segments

    def content(self, text: str) -> list[int]:
        """Ids of text that the template did not write; a control token in it is spelled out.

        Exits at a word that the vocabulary lacks.
        """
        try:
            return [*self.template.render.content_ids(text)]
        except Exception as error:  # tokenizers raises nothing narrower
            start = text[:80]
            if text != text.encode(errors="replace").decode():
                fail(f"a text holds half a character, one of \\ud800 to \\udfff: {start!r}")
            fail(f"a text holds a word that the model's vocabulary lacks ({error}): {start!r}")

    def thought(self, text: str) -> list[int]:
        """Ids of a given thought, with the white space that templates put after it."""
        return self.content(text.strip() + self.layout.gap)

    def action(self, text: str) -> list[int]:
        """Ids of an action; with tools, as the template writes its replies and calls.

        Exits where the template has no place for it.
        """
        if not self.tools:
            if self.layout.act_end:
                text = text.rstrip()  # before the line break of a tag it would have other ids
            elif text != text.strip():
                text = self.template.turns.trimmed(text)
            return self.content(text + self.layout.act_gap)
        try:
            texts = self.template.write(text)
        except ValueError as error:
            fail(f"{error} (the action {text[:80]!r})")
        self.template.warn_of_other_reading(text)
        ids: list[int] = []
        token = ""  # the control token that stands before a text
        for part in texts:
            if isinstance(part, Control):
                ids.append(self._ids[part])
                token = part
            else:
                ids += self._behind(token, part)
        return ids

    def _behind(self, token: str, text: str) -> list[int]:
        """Ids of text behind a control token: some vocabularies begin it with a space there."""
        render = self.template.render
        if token and text and render.begins_texts and not render.controls(text):
            with suppress(Exception):  # a word that the vocabulary lacks: `content` names it
                return render.behind(token, text)
        return self.content(text)

    def opening(self, thought: list[int] | None, action: str | None = None) -> list[int]:
        """Ids of an assistant's turn up to its action.

        action: its text, where it is known. Before it some templates write an empty thought if
        there is none.
        """
        if thought is not None:
            return [*self.think, *thought, *self.think_end, *self.act]
        if action is None:
            return self.act_without_thought
        reply, calls = parts(action) if self.tools else (action, [])
        return self._alone[bool(calls) and not reply]

    def closed(self, opening: list[int], action: list[int]) -> list[int]:
        """Ids of an assistant's turn that begins with this opening."""
        return [*opening, *action, *self.act_end, *self.end]

    def turn(
        self, thought: list[int] | None, action: list[int], order: str = "natural"
    ) -> list[int]:
        """Ids of an assistant's turn. A turn without a thought has no tags of a thought either.

        order: one of ORDERS; `action_first` writes the thought after the action.
        """
        if thought is None or order == "natural":
            return self.closed(self.opening(thought), action)
        # Act-PRM can train on this order too: the model learns to explain a given action.
        acted = self.before_thought(action)
        return [*acted, *self.think, *thought, *self.think_end, *self.end]

    def before_thought(self, action: list[int]) -> list[int]:
        """Ids of an action that is shown before the thought about it.

        Exits where the end of the turn is part of the action.
        """
        if not self.end:
            fail(
                "a thought after its action needs a template that ends replies and calls alike: use"
                " another --model, or --act-prm.thoughts-from state and trained-on thought_action"
            )
        return [*self.act_without_thought, *action, *self.act_end]

    # Reading: from sampled ids to thought and action.

    def split(self, ids: list[int]) -> tuple[list[int] | None, list[int]]:
        """(thought, what follows it) of a sampled turn. Without a thought, all of it follows."""
        if self._skips(ids):
            return [], ids[len(self.skip) :]
        start = len(self.think)
        if ids[:start] != self.think:
            return None, ids
        for stop_at in range(start, len(ids)):
            end = stop_at + len(self.think_end)
            # Of a closing tag that is spelled, the tokens after the first must follow too.
            if ids[stop_at:end] == self.think_end:
                return ids[start:stop_at], ids[end:]
        return None, ids

    def opening_of(self, ids: list[int]) -> list[int]:
        """Ids of a sampled turn up to its action, as another action may stand behind them."""
        return self.skip if self._skips(ids) else self.opening(self.split(ids)[0])

    def without_thought(self, ids: list[int], action: str | None = None) -> list[int]:
        """Ids of a sampled turn without its thought. action: its text, as in `opening`."""
        thought, acted = self.split(ids)
        opening = self.opening(None, action)
        if self._skips(ids) and opening[: len(self.skip)] == self.skip:
            return ids
        if thought is None or acted[: len(self.act)] != self.act:
            # The model wrote no action that we know how to open, so nothing else is changed.
            return acted
        return opening + acted[len(self.act) :]

    def parse(self, ids: list[int]) -> tuple[str | None, str | None]:
        """(thought, action) of a sampled turn as text. A malformed turn has the action None.

        The texts around the action are compared as texts: a model may write the same characters
        in other tokens. Control tokens are compared as ids: only the token itself is a tag.
        """
        thought_ids, acted = self.split(ids)
        thought = None if thought_ids is None else self.text(thought_ids)
        opening = self.act_without_thought if thought_ids is None else self.act
        if self._skips(ids):
            opening = []  # it is part of `skip`
        body = self._body(acted, opening)
        if body is None or self.opens_a_thought(body):
            return thought, None
        action = self.action_in(body)
        if action is None:
            return thought, None
        # The control tokens must be those that we would write ourselves. This refuses a tag that
        # the model spelled in letters, a second tag, and a tag inside the action.
        inside = self._controls_inside(action)
        if inside is None:
            return thought, None
        around = self._controls(opening), self._controls([*self.act_end, *self.end])
        if self._controls(acted) != [*around[0], *inside, *around[1]]:
            return thought, None
        return thought, action

    def action_in(self, text: str) -> str | None:
        """The action in the text between its tags. None: nothing or, with tools, a broken call."""
        return self.template.action_in(text) if self.tools else text.strip() or None

    def clean(self, ids: list[int]) -> bool:
        """True where all ids have a text, and none is a control token."""
        return self.special.keys().isdisjoint(ids) and self._with_text.issuperset(ids)

    def text(self, ids: list[int]) -> str:
        """The text of ids, for worlds and people. Losses never see it."""
        return decoded(self.tokenizer, ids)

    def encode(self, text: str, begins: bool = False, end: str = "") -> list[int]:
        """Ids of text in which a control token is one token. Exits at what the vocabulary lacks.

        begins: the conversation begins with it. Else it stands behind this end of a turn, if any.
        """
        render = self.template.render
        try:
            return render.behind(end, text) if end and not begins else render.encode(text, begins)
        except Exception as error:  # tokenizers raises nothing narrower
            name = self.tokenizer.name_or_path
            fail(f"the vocabulary of {name} cannot say {text!r} ({error}): use another --model")

    def reads_any_text(self) -> bool:
        """False where the vocabulary is the words of one world."""
        return self.template.render.reads_any_text()

    # Helpers.

    def _skips(self, ids: list[int]) -> bool:
        """Does this turn begin with the empty thought of who may not think?"""
        return bool(self.skip) and ids[: len(self.skip)] == self.skip

    def _state_pieces(
        self, messages: list[dict], contents: list[str], tools: list[dict], after: str | None
    ) -> list[str]:
        """The template's pieces of a state, and the holes for the messages between them.

        They depend on all of a message but its content, of which only the white space at its edges
        counts: some templates write the name of a tool.
        """
        fields = []
        for i, (message, content) in enumerate(zip(messages, contents, strict=True)):
            # an empty text stands as it is: some templates then leave out the message
            is_empty = not message["content"].strip()
            message = {**message, "content": content if is_empty else with_edges(content, i)}
            message.pop("tool_call_id", None)  # it is another one in each log
            fields.append(message)
        called = None if after is None else ()
        if after and self.tools:
            called = tuple(call["name"] for call in parts(after)[1])
        last_tools, as_text = self._last_tools
        if tools is not last_tools:  # all states of a log have the same list
            as_text = json.dumps(tools)
            self._last_tools = tools, as_text
        return self._pieces_of(json.dumps(fields), as_text, called)

    def _new_pieces(self, messages: str, tools: str, called: tuple[str, ...] | None) -> list[str]:
        """The same, of messages without contents and tools as JSON, and the names of the calls
        before."""
        said, schemas = json.loads(messages), json.loads(tools)
        if self.template.render.stand_in and not schemas:
            fail(
                "the chat template cannot write a conversation without tools: use another --model,"
                " or logs and a world with tools"
            )
        try:
            pieces = self.template.state_pieces(said, schemas, called)
        except ValueError as error:
            fail(f"{error}: {OTHERS}")
        if called is None:
            self._moved = self._moved or self.template.what_moves(said, schemas, pieces)
        return pieces

    def _filled(self, pieces: list[str], contents: list[str], begins: bool) -> list[int]:
        """Ids of the pieces with these contents in their holes. begins: nothing stands before."""
        render = self.template.render
        if not any(map(render.controls, contents)):
            texts = []
            for piece in pieces:
                hole = isinstance(piece, Hole)
                texts.append(piece.fill(contents[piece.number].strip()) if hole else piece)
            with suppress(Exception):  # a word that the vocabulary lacks: `content` names it
                return render.state_ids("".join(texts), "" if begins else self._turn_end)
        ids: list[int] = []
        for piece in pieces:
            if isinstance(piece, Hole):
                ids += self.content(piece.fill(contents[piece.number].strip()))
            elif piece:
                ids += self.encode(piece, begins and not ids, "" if ids else self._turn_end)
        return ids

    def _body(self, ids: list[int], opening: list[int]) -> str | None:
        """The text between the opening and the end of the action. None: the turn lacks either."""
        if not ids or ids[-1] not in self.ends:
            return None
        # With tools, control tokens are marked, so that none is mistaken for its spelling.
        text_of = self.template.render.readable if self.tools else self.text
        text = text_of(ids[:-1]).strip()
        # A model may leave out white space at the edges, or add some.
        head = text_of(opening).strip()
        gap = "" if self.tools else self.layout.act_gap  # with tools, `action_in` takes it off
        tail = (gap + text_of([*self.act_end, *self.end[:-1]])).strip()
        # Head and tail may not overlap: each must have its own characters.
        if len(text) < len(head) + len(tail):
            return None
        if not (text.startswith(head) and text.endswith(tail)):
            return None
        return text[len(head) : len(text) - len(tail)]

    def opens_a_thought(self, body: str) -> bool:
        """Where letters spell the tags, a thought without an end, or a second one, would be read as
        an action."""
        return body.lstrip().startswith(self.layout.think.strip())

    def _controls_inside(self, action: str) -> list[int] | None:
        """The control tokens that the template writes in an action. None: it cannot write it."""
        if not self.tools:
            return []
        try:
            texts = self.template.write(action)
        except ValueError:
            return None
        return [self._ids[text] for text in texts if isinstance(text, Control)]

    def _controls(self, ids: list[int]) -> list[int]:
        """The control tokens among these ids, in their order."""
        return [i for i in ids if i in self.special]

    def _behind_thought(self) -> tuple[list[int], list[int]]:
        """(ids of what ends a thought, ids of what opens the action behind it), of one text."""
        whole = self.encode(self.layout.stop + self.layout.act)
        stop = self.encode(self.layout.stop)
        if whole[: len(stop)] == stop:
            return stop, whole[len(stop) :]
        return whole, []  # a token has parts of both, such as ">\n"
