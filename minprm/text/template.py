"""What is learned once from a model's chat template, as text. Token ids are chat.py's business.

Three things are found by running the template on placeholders (render.py): how the assistant's turn
is written (turns.py), how its calls are read (calls.py), and, here, the text between one action and
the next. With these, layout.py says where a turn has its thought and its action.

No text is lost in silence: a template that leaves out a placeholder, or raises an error, ends the
program with a sentence.
"""

from functools import partial
from typing import TYPE_CHECKING

from loguru import logger

from minprm.constants import fail
from minprm.text.actions import joined, normalise, parts
from minprm.text.calls import HARD_CALL, UNREAD, find_calls
from minprm.text.layout import choose_layout
from minprm.text.render import (
    QUESTION,
    Renderer,
    at_holes,
    hole_numbers,
    placeholder,
)
from minprm.text.turns import call_id, find_turns

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
        self._warned = False
        try:
            self.render = Renderer(tokenizer, bool(tools))
            question = {**QUESTION, "content": placeholder(0)}
            text = self.render([question], [], prompt=True)
            self._check_nothing_is_lost([question], hole_numbers(at_holes(text)))
            self.turns = find_turns(self.render, bool(tools))
            if tools:
                if not self.turns.writes_as_they_stand([HARD_CALL]):
                    raise ValueError(f"{UNREAD}: it wraps a text that holds signs such as < or é")
                self.calls = find_calls(partial(self.turns.text, ""), tools)
            self.layout = choose_layout(layout, self.turns, bool(tools), tokenizer.get_vocab())
            # A template that loses what a user says next is refused now, not at the second step.
            self.state_pieces([question], [], called=())
        except ValueError as error:
            advice = ", or logs and a world without tools" if tools else ""
            fail(f"{error}: use another --model{advice}")

    # --- actions, where they may be calls ---

    def write(self, action: str) -> list[str]:
        """An action as its control tokens (each a Control) and the texts between them.

        Raises ValueError where the template has no place for it.
        """
        reply, calls = parts(action)
        if reply != reply.strip() and not calls:
            reply = self.turns.trimmed(reply)
        if len(calls) > 1 and self.calls.join is None:
            raise ValueError(
                "the chat template allows one tool call a turn, or numbers them, and this one has"
                " more: split the turn, or use another --model"
            )
        return self.render.with_controls(*self.turns.pieces(reply, calls))

    def action_in(self, text: str) -> str | None:
        """The action that a marked text is. None: it is empty, or begins as a call and is none."""
        reply, calls = self.calls.calls_in(text.strip()) or (text.strip(), [])
        if not calls:
            # also where the tokens that open a call are spelled in letters
            spelled = self.render.unmarked(self.calls.open).strip()
            if spelled and self.render.unmarked(reply).startswith(spelled):
                return None
        if reply:
            head, tail = self.turns.around_reply
            tail = "" if calls else tail
            fits = reply.startswith(head) and reply.endswith(tail)
            if not fits or len(reply) < len(head + tail):
                return None
            reply = reply[len(head) : len(reply) - len(tail)]
        try:
            return joined(reply, calls) or None
        except ValueError:
            return None

    def warn_of_other_reading(self, action: str) -> None:
        """Says once that a logged action would be read as another one: a number that stands there
        as a text, say, where the template has no quotation marks and the schema says number; or a
        reply that ends as the template writes a call."""
        reply, calls = parts(action)
        if self._warned:
            return
        other = self.action_in(self.turns.text(reply, calls))
        if other == action or normalise(other or "") == normalise(action):
            return
        self._warned = True
        advice = "give its arguments the types that the tool's schema names"
        if not calls:
            advice = (
                "it is written as a thought or a call would be; put those in fields of their own"
            )
        logger.warning(
            f"the logged action {action[:200]!r} is read back as {other!r}, so nothing that the"
            f" model writes can match it: {advice}"
        )

    # --- between two actions ---

    def state_pieces(
        self, messages: list[dict], tools: list[dict], called: tuple[str, ...] | None
    ) -> list[str]:
        """What stands between two actions: template texts, and holes for the texts of `messages`.

        messages: their contents are placeholders (`with_edges`).
        called: the tools that the action before called; None: the messages begin the conversation.
        Raises ValueError where the template cannot write it.
        """
        self.render.check_tools(tools)
        messages = _with_ids(messages, called or ())
        before = []
        if called is not None:
            before = [QUESTION, self.turns.before(called, len(messages))]
        pieces = at_holes(self.render([*before, *messages], tools, prompt=True))
        if called is not None:
            # The turn before is in the history already, and so is the text that ended it.
            if len(messages) not in hole_numbers(pieces):
                raise ValueError("the chat template leaves out the turn before")
            while len(messages) in hole_numbers(pieces):
                pieces = pieces[2:]
            pieces[0] = self.turns.behind(called, pieces[0])
        self._check_nothing_is_lost(messages, hole_numbers(pieces))
        # The layout opens a thought itself, and twice would be wrong.
        newest = self.turns.newest
        pieces[-1] = newest.bare(pieces[-1] + newest.header)
        self._check_fields(messages, pieces)
        return pieces

    def _check_nothing_is_lost(self, messages: list[dict], numbers: list[int]) -> None:
        """Raises ValueError where the template did not write each message once, and in order."""
        for i, message in enumerate(messages):
            rules = message["role"] == "system"
            empty = not message["content"].strip()
            if i in numbers or empty or (rules and not self.render.reads_any_text()):
                continue
            which = "templates of image models do, or those that know no tools"
            if rules:
                which = "some write none, or one alone that begins the conversation"
            raise ValueError(
                f"the chat template leaves out the text of a {message['role']} message ({which})"
            )
        if numbers != sorted(set(numbers)):
            roles = ", ".join(message["role"] for message in messages)
            raise ValueError(
                f"the chat template writes a conversation of {roles} in another order, or a message"
                " twice"
            )

    def what_moves(self, messages: list[dict], tools: list[dict], pieces: list[str]) -> str:
        """Why the user may say nothing more in a conversation that begins with these messages: the
        template would then write them in another way. "" where it does not.

        pieces: the `state_pieces` of these messages.
        """
        count = len(messages)
        more = [{"role": "assistant", "content": placeholder(count)},
                {"role": "user", "content": placeholder(count + 1)}]  # fmt: skip
        try:
            text = self.render([*_with_ids(messages, ()), *more], tools, prompt=True)
        except ValueError:  # then it does not go on so
            return ""
        if at_holes(text)[: len(pieces) - 1] == pieces[:-1]:
            return ""
        roles = ", ".join(message["role"] for message in messages)
        return (
            f"the chat template writes a conversation of {roles} in another way once it goes on"
            " (some move a system message to the newest question), so a history cannot grow by"
            " appending"
        )

    def _check_fields(self, messages: list[dict], pieces: list[str]) -> None:
        """Raises ValueError where a field that the template wrote spells a control token, and would
        be one."""
        text = "".join(pieces[::2])  # without the holes
        for message in messages:
            for key, field in message.items():
                if isinstance(field, str) and field in text and self.render.controls(field):
                    raise ValueError(
                        f"the {key} {field[:80]!r} of a {message['role']} message spells a control"
                        " token of the model"
                    )


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
            number, name = (same or open_calls or [(len(names), "")])[0]
            message = {**message, "tool_call_id": call_id(number)}
            open_calls = [call for call in open_calls if call != (number, name)]
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
