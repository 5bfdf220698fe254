"""What is learned once from a model's chat template, as text. Token ids are chat.py's business.

Three things are found by running the template on placeholders (render.py): how the assistant's turn
is written (turns.py), how its calls are read (calls.py), and, here, the text between one action and
the next. With these, layout.py says where a turn has its thought and its action.

No text is lost in silence: a template that leaves out a placeholder, or raises an error, ends the
program with a sentence.
"""

from typing import TYPE_CHECKING

from loguru import logger

from minprm.constants import fail
from minprm.text.actions import joined, normalise, parts
from minprm.text.calls import CallReader
from minprm.text.layout import choose_layout
from minprm.text.render import (
    QUESTION,
    Control,
    Hole,
    Renderer,
    at_holes,
    hole_numbers,
    placeholder,
    text_at,
)
from minprm.text.turns import Turns, call_id

# For models without a template of their own. It needs no control tokens but those that begin and
# end a text, and no model has to learn new ones.
PLAIN = """\
{{- bos_token if bos_token and bos_token != eos_token else '' }}
{%- if tools %}
{{- 'Tools:\\n' }}
{%- for tool in tools %}{{- tool | tojson + '\\n' }}{% endfor %}
{{- 'To call one, write <tool_call>{"name": ..., "arguments": {...}}</tool_call>\\n\\n' }}
{%- endif %}
{%- for message in messages %}
{{- message.role + ':\\n' + (message.content or '') }}
{%- for call in message.tool_calls or [] %}
{{- '\\n<tool_call>{"name": ' + call.function.name | tojson + ', "arguments": ' }}
{{- call.function.arguments | tojson + '}</tool_call>' }}
{%- endfor %}
{{- (eos_token if message.role == 'assistant' else '') + '\\n\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- 'assistant:\\n' }}{% endif %}
"""

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class ChatTemplate:
    """One tokenizer's template: `turns`, `calls` and `layout`, and the pieces of a state.

    It exits with a sentence where the template or the vocabulary cannot carry the layout.
    """

    def __init__(self, tokenizer: "PreTrainedTokenizerBase", layout: str, tools: list[dict]):
        _give_template(tokenizer)
        self.render = Renderer(tokenizer)
        self._warned = False
        try:
            self._check_question()
            self.turns = Turns(self.render, bool(tools))
            calls = None
            if tools:
                calls = self.calls = CallReader(self._write_calls, tools)
            self.layout = choose_layout(layout, self.turns, calls, tokenizer.get_vocab())
            # A template that loses what a user says next is refused now, not at the second step.
            self.state_pieces([{"role": "user"}], [], called=())
        except ValueError as error:
            advice = ", or logs and a world without tools" if tools else ""
            fail(f"{error}: use another --model{advice}")

    # --- actions ---

    def write(self, action: str) -> list[str]:
        """An action as its control tokens (each a Control) and the texts between them.

        Raises ValueError where the template or the layout has no place for it.
        """
        reply, calls = parts(action)
        if self.layout.name == "tool" and (reply or not calls):
            raise ValueError(
                "--layout tool carries tool calls alone, and this action is or has plain text: use"
                " --layout think"
            )
        if len(calls) > 1 and not self.calls.several:
            raise ValueError(
                "the chat template allows one tool call a turn, and this one has more: split the"
                " turn, or use another --model"
            )
        pieces, texts = self.turns.pieces(reply, calls)
        if self.layout.opened:
            first = text_at(pieces, 0).lstrip().removeprefix(self.layout.opened)
            pieces = [first, *pieces[1:]]
        return self.render.with_controls(pieces, texts)

    def warn_of_other_reading(self, action: str) -> None:
        """Says once that a logged action would be read as another one: a number that stands there
        as a text, say, where the template has no quotation marks and the schema says number; or a
        reply that ends as the template writes a call."""
        reply, calls = parts(action)
        if self.layout.name == "tool" or self._warned:
            return
        read = self.read(self.turns.written(reply, calls))
        if read == action or normalise(read or "") == normalise(action):
            return
        self._warned = True
        advice = "give its arguments the types that the tool's schema names"
        if not calls:
            advice = (
                "it is written as a thought or a call would be; put those in fields of their own"
            )
        logger.warning(
            f"the logged action {action[:200]!r} is read back as {read!r}, so nothing that the"
            f" model writes can match it: {advice}"
        )

    def read(self, text: str) -> str | None:
        """The action that a marked text is. None: it is empty, or begins as a call and is none."""
        text = self._opened_call() + text.strip()
        said, calls = self.calls.read(text) or (text, [])
        if not calls and (self.layout.name == "tool" or self._begins_a_call(text)):
            return None
        if said:
            head, tail = self.turns.around_reply
            tail = "" if calls else tail
            if len(said) < len(head + tail) or not (said.startswith(head) and said.endswith(tail)):
                return None
            said = said[len(head) : len(said) - len(tail)]
        try:
            return joined(said, calls) or None
        except ValueError:
            return None

    def _opened_call(self) -> str:
        """What the stop of a thought has already opened of a call, up to the next word."""
        if not self.layout.opened:
            return ""
        opening = self.calls.open
        opened = self.render.marked([Control(self.layout.opened)])
        rest = opening.partition(opened)[2]
        return opened + rest[: len(rest) - len(rest.lstrip())]

    def _begins_a_call(self, text: str) -> bool:
        """Also where the tokens that open a call are spelled in letters."""
        opening = self.render.unmarked(self.calls.open).strip()
        return bool(opening) and self.render.unmarked(text).startswith(opening)

    # --- between two actions ---

    def state_pieces(
        self, messages: list[dict], tools: list[dict], called: tuple[str, ...] | None
    ) -> list[str | Hole]:
        """What stands between two actions: template texts, and holes for the texts of `messages`.

        called: the tools that the action before called; None: the messages begin the conversation.
        """
        try:
            return self._state_pieces(messages, tools, called)
        except ValueError as error:
            fail(f"{error}: use another --model, or logs and a world without such messages")

    def _state_pieces(
        self, messages: list[dict], tools: list[dict], called: tuple[str, ...] | None
    ) -> list[str | Hole]:
        self.render.check_tools(tools)
        messages = _with_ids(messages, called or ())
        marked = [{**m, "content": placeholder(i)} for i, m in enumerate(messages)]
        if called is None:
            pieces = at_holes(self.render(marked, tools, prompt=True))
        else:
            # The turn before is in the history already, and so is the text that ended it.
            before = self.turns.before(called, len(messages))
            text = self.render([QUESTION, before, *marked], tools, prompt=True)
            pieces = at_holes(text)
            holes = [i for i, piece in enumerate(pieces) if _is_hole(piece, len(messages))]
            if not holes:
                raise ValueError("the chat template leaves out the turn before")
            pieces = pieces[holes[-1] + 1 :]
            pieces[0] = self.turns.behind(called, text_at(pieces, 0))
        self._check_nothing_is_lost(messages, hole_numbers(pieces))
        pieces[-1] = self._without_thought(text_at(pieces, -1))
        self._check_fields(messages, pieces)
        return pieces

    def _check_question(self) -> None:
        question = {**QUESTION, "content": placeholder(0)}
        pieces = at_holes(self.render([question], [], prompt=True))
        self._check_nothing_is_lost([question], hole_numbers(pieces))

    def _check_nothing_is_lost(self, messages: list[dict], written: list[int]) -> None:
        """Raises ValueError where the template did not write each message once, and in order."""
        for i, message in enumerate(messages):
            rules = message["role"] == "system"
            if i in written or (rules and not self.render.reads_any_text()):
                continue
            raise ValueError(
                f"the chat template leaves out the text of a {message['role']} message (templates"
                " of image models do, or those that know no tools)"
            )
        if written != sorted(set(written)):
            roles = ", ".join(message["role"] for message in messages)
            raise ValueError(
                f"the chat template writes a conversation of {roles} in another order, or a message"
                " twice"
            )

    def _check_fields(self, messages: list[dict], pieces: list[str | Hole]) -> None:
        """Exits where a field that the template wrote spells a control token, and would be one."""
        written = "".join(piece for piece in pieces if isinstance(piece, str))
        for message in messages:
            for key, value in message.items():
                if not isinstance(value, str) or value not in written:
                    continue
                if self.render.controls(value):
                    fail(
                        f"the {key} {value[:80]!r} of a {message['role']} message spells a control"
                        " token of the model: take it out of the logs"
                    )

    def _without_thought(self, prompt: str) -> str:
        """The end of a prompt without the thought that some templates open there.

        The layout opens the thought itself, and twice would be wrong. Templates that ask for no
        thinking write an empty thought. It stays only where the layout's thoughts are plain text.
        """
        return self.turns.reasoning.bare(prompt, empty=bool(self.layout.think))

    def _write_calls(self, calls: list[dict]) -> str:
        return self.turns.written("", calls)


def _is_hole(piece: str | Hole, number: int) -> bool:
    return isinstance(piece, Hole) and piece.number == number


def _with_ids(messages: list[dict], names: tuple[str, ...]) -> list[dict]:
    """Messages whose tool answers have the ids that `Turns` gives to calls of these names.

    An action holds no ids, so an answer belongs to the first call that is not answered yet; where
    it has a name, to the first of that name.
    """
    open_calls = list(enumerate(names))
    named = []
    for message in messages:
        if message["role"] == "tool":
            same = [call for call in open_calls if call[1] == message.get("name")]
            found = (same or open_calls)[:1]
            message = {**message, "tool_call_id": call_id(found[0][0] if found else len(names))}
            open_calls = [call for call in open_calls if call not in found]
        named.append(message)
    return named


def _give_template(tokenizer: "PreTrainedTokenizerBase") -> None:
    """A tokenizer without a chat template gets the plain one, and is saved with it."""
    if tokenizer.chat_template:
        return
    name = tokenizer.name_or_path or "this model"
    if not tokenizer.eos_token:
        fail(
            f"the tokenizer of {name} has no chat template and no token that ends a text: use"
            " another --model"
        )
    logger.warning(
        f"the tokenizer of {name} has no chat template (base models have none): it gets a plain"
        " one, with the roles as words, which is saved with the model"
    )
    tokenizer.chat_template = PLAIN
