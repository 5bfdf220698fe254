"""What is learned once from a model's chat template, as text. Token ids are chat.py's business.

A chat template is a program (Jinja) that writes a conversation as one text. We run it on messages
whose contents are placeholders, and split its output there. What lies between the placeholders is
the template's own writing. In Qwen3's template, with one user message:

    <|im_start|>user⏎xMINPRM0x<|im_end|>⏎<|im_start|>assistant⏎
    becomes  ["<|im_start|>user⏎", 0, "<|im_end|>⏎<|im_start|>assistant⏎"]

Three things are found in this way: the text that ends a turn, the text of a tool call, and the
text between one action and the next. With the first two, `Layout` says how a turn is written.

No text is lost in silence: a template that leaves out a placeholder, or raises an error, ends the
program with a sentence.
"""

import json
import re
from typing import NamedTuple

from transformers import PreTrainedTokenizerBase

from minprm.constants import fail

TAGS = ("<think>", "</think>", "<act>", "</act>")

# Placeholders: words that no template writes by itself.
_MESSAGE = "xMINPRM{}x"
_MESSAGE_PATTERN = r"xMINPRM(\d+)x"
_OPENED_THOUGHT = r"<think>\s*$"  # as it ends a prompt
_EMPTY_THOUGHT = r"<think>\s*</think>\s*$"
_CONTENT = "xMINPRMCx"
_NAME = "xMINPRMNx"
_ARGUMENTS = {"xMINPRMKx": "xMINPRMVx"}
_ARGUMENTS_PATTERN = r"\{\s*\"xMINPRMKx\":\s*\"xMINPRMVx\"\s*\}"  # templates differ in white space

# The shortest conversation in which the assistant has finished a turn.
_EXCHANGE = [{"role": "user"}, {"role": "assistant"}]


class Layout(NamedTuple):
    """The texts around the thought and the action in an assistant's turn."""

    think: str  # opens a thought; forced in sampling, learned in SFT
    gap: str  # templates write it between a thought and its stop
    stop: str  # ends a thought
    act: str  # opens the action after a thought
    act_without_thought: str  # opens the action of a turn that has no thought
    act_end: str  # ends the action


class Call(NamedTuple):
    """The texts around a tool call: a turn with one call is open, name, middle, arguments, close.

    A second call of the same turn follows after `join`, which closes one call and opens the next.
    """

    open: str
    middle: str
    close: str
    join: str | None  # None: the template allows one call a turn


class ChatTemplate:
    """One tokenizer's template: `end`, `call` and `layout` as texts, and the pieces of a state.

    It exits with a sentence where the template or the vocabulary cannot carry the layout.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, layout: str, tools: bool):
        self.tokenizer = tokenizer
        if not tokenizer.chat_template:
            fail(
                f"the tokenizer of {tokenizer.name_or_path or 'this model'} has no chat template"
                " (base models have none): use an instruct model as --model"
            )
        self.control_tokens = list(tokenizer.get_added_vocab())
        self._check_opening()
        self.end = self._find_end()
        self.call: Call | None = self._find_call() if tools else None
        self.layout = self._choose_layout(layout)
        # A template that loses what a user says next is refused now, and not at the second step.
        self.state_pieces([{"role": "user"}], [], first=False)

    def state_pieces(self, messages: list[dict], tools: list[dict], first: bool) -> list[str | int]:
        """What stands between two actions: template texts, and numbers of `messages` between them.

        first: these messages begin the conversation; otherwise an assistant's turn comes before.
        """
        before = [] if first else _EXCHANGE
        pieces = self._pieces([*before, *messages], tools, prompt=True)
        if not first:
            # The turn before is in the history already, and so is the text that ended it.
            pieces = pieces[pieces.index(1) + 1 :]
            if not pieces[0].startswith(self.end):
                fail(
                    f"the chat template ends the newest turn by {self.end!r} and earlier turns in"
                    " another way, so a history cannot grow by appending: use another --model"
                )
            pieces[0] = pieces[0].removeprefix(self.end)
        pieces[-1] = self._without_thought(pieces[-1])
        self._check_fields(messages, pieces)
        return [piece - len(before) if isinstance(piece, int) else piece for piece in pieces]

    def _check_fields(self, messages: list[dict], pieces: list[str | int]) -> None:
        """Exits where a field that the template wrote spells a control token, and would be one."""
        written = "".join(piece for piece in pieces if isinstance(piece, str))
        for message in messages:
            for key, value in message.items():
                if not isinstance(value, str) or value not in written:
                    continue
                if any(token in value for token in self.control_tokens):
                    fail(
                        f"the {key} {value[:80]!r} of a {message['role']} message spells a control"
                        " token of the model: take it out of the logs"
                    )

    def _without_thought(self, prompt: str) -> str:
        """The end of a prompt without the thought that some templates open there.

        The layout opens the thought itself, and twice would be wrong. Templates that ask for no
        thinking write an empty thought. It stays only where the layout's thoughts are plain text.
        """
        if self.layout.think:
            prompt = re.sub(_EMPTY_THOUGHT, "", prompt)
        return re.sub(_OPENED_THOUGHT, "", prompt)

    def _check_opening(self) -> None:
        """Exits where an answer does not begin at the prompt's end, a thought aside."""
        prompt = self._pieces(_EXCHANGE[:1], [], prompt=True)[-1]
        before_answer = self._pieces(_EXCHANGE, [], prompt=False)[2]
        bare = []
        for text in (prompt, before_answer):
            text = re.sub(_EMPTY_THOUGHT, "", text)
            bare.append(re.sub(_OPENED_THOUGHT, "", text).strip())
        if bare[0] != bare[1]:
            fail(
                f"the chat template writes {bare[1].removeprefix(bare[0])!r} between its prompt and"
                " an answer, which no layout here can: use another --model"
            )

    def _find_end(self) -> str:
        """The text that ends a turn: all that follows the answer, up to the first control token."""
        after = self._pieces(_EXCHANGE, [], prompt=False)[-1]
        ends = [after.index(token) + len(token) for token in self.control_tokens if token in after]
        if not ends:
            fail(
                "the chat template does not end a turn with a control token, so sampling would not"
                " stop: use another --model"
            )
        # What comes later, a line break for instance, belongs to the next state.
        return after[: min(ends)]

    def _find_call(self) -> Call:
        """The template's tool call."""
        reasons = []
        # Most templates take the arguments as an object, some take them as its JSON text.
        for arguments in (_ARGUMENTS, json.dumps(_ARGUMENTS)):
            try:
                opening, middle, close = self._around_calls(1, arguments)
            except ValueError as error:
                reasons.append(str(error))
                continue
            return Call(opening, middle, close, self._find_join(arguments))
        fail(f"{reasons[0]}: use another --model, or logs and a world without tools")

    def _find_join(self, arguments: dict | str) -> str | None:
        """The text from the arguments of one call to the name of the next."""
        try:
            around = self._around_calls(2, arguments)
        except ValueError:
            return None
        return around[2] if around[2].strip() else None  # white space would part no two calls

    def _around_calls(self, number: int, arguments: dict | str) -> tuple[str, ...]:
        """The texts before, between and after the names and the arguments of `number` calls.

        Raises ValueError with what is wrong where the template does not write them as JSON.
        """
        function = {"name": _NAME, "arguments": arguments}
        calls = [{"type": "function", "function": function}] * number
        question = {"role": "user", "content": "x"}
        answer = {"role": "assistant", "content": _CONTENT, "tool_calls": calls}
        text = self._render([question, answer], [], prompt=False)
        start = len(self._render([question], [], prompt=True))
        if _CONTENT in text:  # Llama's template drops the text beside a call
            start = text.index(_CONTENT) + len(_CONTENT)
        if _NAME not in text:
            raise ValueError("the chat template leaves out tool calls")
        *around, after = re.split(f"{_NAME}|{_ARGUMENTS_PATTERN}", text[start:])
        if len(around) != 2 * number or not around[1].strip():
            raise ValueError("the chat template writes tool calls in a format that is not JSON")
        if self.end not in after:
            raise ValueError("the chat template ends a turn with tool calls in another way")
        close = after[: after.index(self.end)]
        return *around, close

    def _choose_layout(self, name: str) -> Layout:
        """The layout of this name; for `auto`, the one that fits the template."""
        vocabulary = self.tokenizer.get_vocab()
        has_tags = all(tag in vocabulary for tag in TAGS)
        if name == "auto":
            name = self._fitting_layout(has_tags)
        if name == "tags":
            return self._tags_layout(has_tags)
        if name == "think":
            return self._think_layout()
        return self._tool_layout()

    def _fitting_layout(self, has_tags: bool) -> str:
        if has_tags:
            return "tags"
        # A model whose template knows </think> was trained to close its thoughts by it.
        if self.call is None or "</think>" in self.tokenizer.chat_template:
            return "think"
        return "tool"

    def _tags_layout(self, has_tags: bool) -> Layout:
        if self.call is not None:
            fail("--layout tags is for plain-text actions, and here are tools: use think or tool")
        # A tag that the vocabulary lacks is spelled in several tokens, and a line of its own sets
        # it apart from the text around it.
        line = "" if has_tags else "\n"
        return Layout(
            think="<think>" + line,
            gap=line,
            stop="</think>",
            act=line + "<act>",
            act_without_thought="<act>",
            act_end="</act>",
        )

    def _think_layout(self) -> Layout:
        opening = ""
        close = ""
        if self.call is not None:
            opening = self.call.open.lstrip("\n")  # `act` below writes these line breaks
            close = self.call.close
        return Layout(
            think="<think>\n",
            gap="\n",
            stop="</think>",
            act="\n\n" + opening,
            act_without_thought=opening,
            act_end=close,
        )

    def _tool_layout(self) -> Layout:
        if self.call is None:
            fail("--layout tool: neither the logs nor the world have tools; use --layout think")
        gap, stop, rest = self._opening_token()
        return Layout(
            think="",
            gap=gap,
            stop=stop,
            act=rest,
            act_without_thought=stop + rest,
            act_end=self.call.close,
        )

    def _opening_token(self) -> tuple[str, str, str]:
        """The control token that opens a tool call, with the text before it and after it."""
        opening = self.call.open
        for token in self.control_tokens:
            if opening.strip().startswith(token):
                return opening.partition(token)
        # Llama 3.1 opens a call with plain JSON, but has this token for calls of built-in tools.
        token = "<|python_tag|>"
        if token not in self.tokenizer.get_vocab():
            fail(
                "--layout tool: no control token opens a tool call in this chat template, so none"
                " ends a thought; use --layout think"
            )
        return "", token, opening

    def _pieces(self, messages: list[dict], tools: list[dict], prompt: bool) -> list[str | int]:
        """The template's texts, and between them the number of the message that belongs there."""
        marked = [{**message, "content": _MESSAGE.format(i)} for i, message in enumerate(messages)]
        try:
            text = self._render(marked, tools, prompt)
        except ValueError as error:
            fail(f"{error}: use another --model, or logs and a world without such messages")
        pieces: list[str | int] = re.split(_MESSAGE_PATTERN, text)
        pieces[1::2] = map(int, pieces[1::2])  # every second piece is what the pattern captured
        self._check_nothing_is_lost(messages, pieces[1::2])
        return pieces

    def _check_nothing_is_lost(self, messages: list[dict], written: list[int]) -> None:
        """Exits where the template did not write each message once, and in order."""
        for i, message in enumerate(messages):
            if i in written or (message["role"] == "system" and not self._reads_rules()):
                continue
            fail(
                f"the chat template leaves out the text of a {message['role']} message (templates"
                " of image models do, or those that know no tools): use another --model, or logs"
                " and a world without such messages"
            )
        if written != sorted(set(written)):
            roles = ", ".join(message["role"] for message in messages)
            fail(
                f"the chat template writes a conversation of {roles} in another order, or a message"
                " twice: use another --model"
            )

    def _reads_rules(self) -> bool:
        """False for the embedded model: its words are those of a world, and none are for rules."""
        try:
            self.tokenizer.encode(_CONTENT)
        except Exception:  # tokenizers raises nothing narrower
            return False
        return True

    def _render(self, messages: list[dict], tools: list[dict], prompt: bool) -> str:
        """The template's text. Raises ValueError where the template raises anything."""
        try:
            return self.tokenizer.apply_chat_template(
                messages,
                tools=tools or None,  # some templates take an empty list for tools
                add_generation_prompt=prompt,
                tokenize=False,
            )
        except Exception as error:  # a template raises whatever its author liked
            roles = ", ".join(message["role"] for message in messages)
            reason = " ".join(str(error).split())
            raise ValueError(
                f"the chat template cannot write a conversation of {roles} ({reason})"
            ) from error
