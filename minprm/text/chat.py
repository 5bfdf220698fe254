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
    act       ⏎⏎<tool_call>⏎{"name": "
    action    visit", "arguments": {"title": "Paris"}
    act_end   }⏎</tool_call>
    end       <|im_end|>

Text is tokenised piece by piece, never a whole conversation at once, for two reasons:

- Content never becomes a control token. Only the template's own pieces are tokenised with control
  tokens. A web page that spells </think> stays ordinary text, and cannot end a thought.
- Nothing sampled is tokenised again. Decoding ids and encoding the text may give other ids, and
  the sampler's log-probs belong to the ids that it drew. So the history grows by appending.

The end of a thought is one token, because the sampler stops at a token: `Chat.stop`. Where the
vocabulary has no closing tag and spells it in several tokens, `stop` is the first of them and
`Chat.think_end` is all of them.
"""

import json
from functools import lru_cache
from typing import NamedTuple

from transformers import PreTrainedTokenizerBase

from minprm.constants import History, fail
from minprm.text.actions import parse_json
from minprm.text.template import ChatTemplate

ORDERS = ("natural", "action_first")


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
        `think`  the thought stands in <think> ... </think>, and the action follows
        `tool`   the thought is plain text, and the token that opens the tool call ends it
        `auto`   the one of these that fits the template
    tools: True where actions are tool calls. Such an action is given as JSON objects
        {"name", "arguments"}, one a line, and is written in the template's own format.
    """

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, layout: str = "auto", tools: bool = False
    ):
        self.tokenizer = tokenizer
        # The control tokens. `content` never writes one; `clean` says whether a thought has one.
        self.special = {i: token for token, i in tokenizer.get_added_vocab().items()}
        self._chat_template = ChatTemplate(tokenizer, layout, tools)
        # Most states differ in their contents alone, so their pieces are rendered once and kept.
        self._known_pieces = lru_cache(maxsize=1024)(self._new_pieces)
        self.call = self._chat_template.call
        self.layout = self._chat_template.layout

        # The segments that are the same in every turn.
        self.think = self._template(self.layout.think)
        self.think_end = self._template(self.layout.stop)
        self.stop = self.think_end[:1]  # where sampling of a thought ends
        self.act = self._template(self.layout.act)
        self.act_without_thought = self._template(self.layout.act_without_thought)
        self.act_end = self._template(self.layout.act_end)
        self.end = self._template(self._chat_template.end)

    # Writing: from messages, thoughts and actions to ids.

    def state(self, messages: list[dict], tools: list[dict], first: bool) -> list[int]:
        """Ids from the end of the last turn to where the assistant writes.

        first: these messages begin the conversation.
        """
        return self.state_ids(messages, tools, first)[0]

    def state_ids(
        self, messages: list[dict], tools: list[dict], first: bool
    ) -> tuple[list[int], list[int]]:
        """The first two fields of a Turn: the state, and the state without what was observed."""
        state: list[int] = []
        hidden: list[int] = []
        for piece in self._state_pieces(messages, tools, first):
            if isinstance(piece, int):
                message = messages[piece]
                ids = self.content(message["content"])
                observed = message["role"] != "system"  # the rules are no observation
            else:
                ids = piece
                observed = False
            state += ids
            if not observed:
                hidden += ids
        return state, hidden

    @staticmethod
    def history(turns: list[Turn], cfg: History) -> list[list[int]]:
        """The segments of all turns so far: for each turn its state, then the assistant's turn.

        cfg says which observations are hidden, and whether thoughts are dropped.
        """
        segments: list[list[int]] = []
        newest = len(turns) - cfg.last
        for i, turn in enumerate(turns):
            shown = cfg.last == 0 or i < cfg.first or i >= newest
            # The Turn's own lists, no copies: Samples share a segment if it is the same list.
            segments.append(turn.state if shown else turn.hidden)
            segments.append(turn.full if cfg.thoughts else turn.without_thought)
        return segments

    def content(self, text: str) -> list[int]:
        """Ids of text that the template did not write; a control token in it is spelled out.

        Exits at a word that the vocabulary lacks.
        """
        try:
            return self.tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True)
        except Exception as error:  # tokenizers raises nothing narrower
            start = text[:80]
            fail(f"a text holds a word that the model's vocabulary lacks ({error}): {start!r}")

    def thought(self, text: str) -> list[int]:
        """Ids of a given thought, with the white space that templates put after it."""
        return self.content(text.strip() + self.layout.gap)

    def action(self, text: str) -> list[int]:
        """Ids of an action. Tool calls are written in the template's own format."""
        if self.call is None:
            return self.content(text)
        ids: list[int] = []
        for i, line in enumerate(text.splitlines()):
            try:
                call = json.loads(line)
                name = call["name"]
                arguments = call["arguments"]
            except (ValueError, TypeError, KeyError):
                fail(f"the action {line[:80]!r} is no tool call, and other logs have tools")
            if i > 0:
                if self.call.join is None:
                    fail(
                        "the chat template allows one tool call a turn, and a logged turn has two:"
                        " split the turn, or use another --model"
                    )
                ids += self._template(self.call.join)
            ids += self.content(name)
            ids += self._template(self.call.middle)
            # Templates write an é as it is, not as \u00e9.
            ids += self.content(json.dumps(arguments, ensure_ascii=False))
        return ids

    def opening(self, thought: list[int] | None) -> list[int]:
        """Ids of an assistant's turn up to its action."""
        if thought is None:
            return self.act_without_thought
        return [*self.think, *thought, *self.think_end, *self.act]

    def turn(
        self, thought: list[int] | None, action: list[int], order: str = "natural"
    ) -> list[int]:
        """Ids of an assistant's turn. A turn without a thought has no tags of a thought either.

        order: one of ORDERS; `action_first` writes the thought after the action.
        """
        if thought is None or order == "natural":
            return [*self.opening(thought), *action, *self.act_end, *self.end]
        # Act-PRM can train on this order too: the model learns to explain a given action.
        acted = self.before_thought(action)
        return [*acted, *self.think, *thought, *self.think_end, *self.end]

    def before_thought(self, action: list[int]) -> list[int]:
        """Ids of an action that is shown before the thought about it.

        Exits in layout `tool`: there the token that ends a thought would open a second call.
        """
        if not self.think:
            fail(
                "a thought after its action needs tags around it, which this layout lacks: use"
                " --layout think, or --act-prm.thoughts-from state and trained-on thought_action"
            )
        return [*self.act_without_thought, *action, *self.act_end]

    # Reading: from sampled ids to thought and action.

    def split(self, ids: list[int]) -> tuple[list[int] | None, list[int]]:
        """(thought, rest) of a sampled turn. A turn without a thought is all rest."""
        start = len(self.think)
        stop = self.stop[0]
        if ids[:start] != self.think or stop not in ids[start:]:
            return None, ids
        stop_at = ids.index(stop, start)
        # Where no tag opens a thought, a turn that begins with the stop has none.
        if stop_at == 0:
            return None, ids
        end = stop_at + len(self.think_end)
        # Of a closing tag that is spelled, the tokens after the first must follow too.
        if ids[stop_at:end] != self.think_end:
            return None, ids
        return ids[start:stop_at], ids[end:]

    def without_thought(self, ids: list[int]) -> list[int]:
        """Ids of a sampled turn without its thought."""
        thought, rest = self.split(ids)
        if thought is None or rest[: len(self.act)] != self.act:
            # The model wrote no action that we know how to open, so nothing else is changed.
            return rest
        return self.act_without_thought + rest[len(self.act) :]

    def parse(self, ids: list[int]) -> tuple[str | None, str | None]:
        """(thought, action) of a sampled turn as text. A malformed turn has the action None.

        The texts around the action are compared as texts: a model may write the same characters
        in other tokens. Control tokens are compared as ids: only the token itself is a tag.
        """
        thought_ids, rest = self.split(ids)
        thought = self.text(thought_ids)
        opening = self.act_without_thought if thought_ids is None else self.act
        body = self._body(rest, opening)
        action = None if body is None else self.read(body)
        if action is None:
            return thought, None
        # The control tokens must be those that we would write ourselves. This refuses a tag that
        # the model spelled in letters, a second tag, and a tag inside the action.
        written = [*opening, *self._template_inside(action), *self.act_end, *self.end]
        if self._controls(rest) != self._controls(written):
            return thought, None
        return thought, action

    def read(self, text: str) -> str | None:
        """The action in the text between its tags. None: the text is no tool call of the template.

        Tool calls come back as `Chat.action` takes them: JSON objects, one a line.
        """
        if self.call is None:
            return text.strip()
        parts = [text]
        if self.call.join:
            parts = text.split(self.call.join.strip())
        lines = []
        for part in parts:
            call = self._read_call(part)
            if call is None:
                return None
            # In ASCII, so that no character of an argument is a line break to splitlines().
            lines.append(json.dumps(call))
        return "\n".join(lines)

    def clean(self, ids: list[int]) -> bool:
        """True where no control token is among the ids."""
        return self.special.keys().isdisjoint(ids)

    def text(self, ids: list[int] | None) -> str | None:
        """The text of ids, for worlds and people. Losses never see it."""
        if ids is None:
            return None
        return self.tokenizer.decode(ids)

    # Helpers.

    def _state_pieces(
        self, messages: list[dict], tools: list[dict], first: bool
    ) -> list[list[int] | int]:
        """The template's pieces of a state as ids, with the numbers of the messages between them.

        They depend on all of a message but its content: some templates write the name of a tool.
        """
        fields = []
        for message in messages:
            fields.append({key: value for key, value in message.items() if key != "content"})
        return self._known_pieces(json.dumps(fields), json.dumps(tools), first)

    def _new_pieces(self, messages: str, tools: str, first: bool) -> list[list[int] | int]:
        """The same, of messages without contents and tools as JSON."""
        pieces = []
        found = self._chat_template.state_pieces(json.loads(messages), json.loads(tools), first)
        for piece in found:
            pieces.append(piece if isinstance(piece, int) else self._template(piece))
        return pieces

    def _body(self, ids: list[int], opening: list[int]) -> str | None:
        """The text between the opening and the end of the action. None: the turn lacks either."""
        if ids[-1:] != self.end[-1:]:
            return None
        text = self.text(ids[: -len(self.end)]).strip()
        # A model may leave out white space at the edges, or add some.
        head = self.text(opening).strip()
        tail = self.text(self.act_end).strip()
        # Head and tail may not overlap: each must have its own characters.
        if len(text) < len(head) + len(tail):
            return None
        if not (text.startswith(head) and text.endswith(tail)):
            return None
        return text[len(head) : len(text) - len(tail)]

    def _read_call(self, text: str) -> dict | None:
        """The one tool call in this text, as {"name", "arguments"}."""
        name, _, arguments_text = text.strip().partition(self.call.middle.strip())
        try:
            arguments = parse_json(arguments_text)
        except ValueError:
            return None
        call = {"name": name.strip(), "arguments": arguments}
        if not call["name"] or not isinstance(arguments, dict):
            return None
        return call

    def _template_inside(self, action: str) -> list[int]:
        """Ids that the template writes inside an action, between the names and the arguments."""
        if self.call is None:
            return []
        middle = self._template(self.call.middle)
        ids = list(middle)
        for _ in action.splitlines()[1:]:
            ids += self._template(self.call.join)
            ids += middle
        return ids

    def _controls(self, ids: list[int]) -> list[int]:
        """The control tokens among these ids, in their order."""
        return [i for i in ids if i in self.special]

    def _template(self, text: str) -> list[int]:
        """Ids of text that the template wrote: here a control token is one token."""
        return self.tokenizer.encode(text, add_special_tokens=False)
