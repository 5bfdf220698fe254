"""A chat template is run on placeholders, and its output is split where they come out.

A chat template is a program (Jinja) that writes a conversation as one text. Where a message has a
placeholder, the output shows what stands around the message. In Qwen3's template:

    <|im_start|>user⏎xMINPRM0"x<|im_end|>⏎<|im_start|>assistant⏎
    becomes  ["<|im_start|>user⏎", Hole(0), "<|im_end|>⏎<|im_start|>assistant⏎"]

A placeholder holds a quotation mark. Where it comes out as \\" the template writes that text inside
JSON, and the text that takes its place has to be written so too.
"""

import json
import re
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

TAGS = ("<think>", "</think>", "<act>", "</act>")
# A question that no conversation needs to be told apart by.
QUESTION = {"role": "user", "content": "x"}
# A tool for templates that cannot write a message without one.
TOOL = {"type": "function", "function": {
    "name": "minprm_tool", "description": "x",
    "parameters": {"type": "object", "properties": {}, "required": []}}}  # fmt: skip
MARK = "xMINPRM"  # begins every placeholder: no template writes it by itself
_PLACEHOLDER = re.compile(rf'({MARK}\d+\\?"x)')


class Hole(str):
    """A placeholder in the template's output: the place of a text."""

    def __init__(self, text: str):
        self.number = int(text.removeprefix(MARK).rstrip('\\"x'))  # which text
        self.escaped = "\\" in text  # the template writes it inside JSON

    def fill(self, text: str) -> str:
        """The text as it stands in this place."""
        return json.dumps(text, ensure_ascii=False)[1:-1] if self.escaped else text


class Control(str):
    """A control token of the template's own."""


def placeholder(number: int) -> str:
    return f'{MARK}{number}"x'


def with_edges(text: str, number: int) -> str:
    """A placeholder with the white space that this text begins and ends with: the template keeps of
    it what it would keep of the text's."""
    start = len(text) - len(text.lstrip())
    return text[:start] + placeholder(number) + text[start:][len(text.strip()) :]


def at_holes(text: str) -> list[str]:
    """The template's output, as texts and the holes between them. First and last is a text."""
    pieces = _PLACEHOLDER.split(text)
    pieces[1::2] = map(Hole, pieces[1::2])
    return pieces


def common_start(texts: list[str]) -> str:
    """What all texts begin with."""
    start = texts[0]
    for text in texts:
        while not text.startswith(start):
            start = start[:-1]
    return start


def behind_holes(text: str) -> str:
    """What stands behind the last hole of the template's output."""
    return at_holes(text)[-1]


def hole_numbers(pieces: list[str]) -> list[int]:
    """The numbers of the holes, in their order."""
    return [piece.number for piece in pieces if isinstance(piece, Hole)]


def with_placeholders(tree: Any, texts: list[str]) -> Any:
    """This JSON with a placeholder for each text in it. The texts are appended to `texts`."""
    if isinstance(tree, str):
        texts.append(tree)
        return placeholder(len(texts) - 1)
    if isinstance(tree, list):
        return [with_placeholders(part, texts) for part in tree]
    if isinstance(tree, dict):
        return {key: with_placeholders(part, texts) for key, part in tree.items()}
    return tree


# transformers' types allow more than is asked for here: several texts, or a conversation as ids.


def decoded(tokenizer: "PreTrainedTokenizerBase", ids: list[int]) -> str:
    """The text of ids."""
    return cast(str, tokenizer.decode(ids))


def applied(
    tokenizer: "PreTrainedTokenizerBase",
    messages: list[dict],
    tools: list[dict],
    template: str | None = None,
    **knobs,
) -> str:
    """The text of this chat template, or else of the tokenizer's own. It raises whatever the
    template's author liked.

    transformers' `apply_chat_template` drops a content of None, since 5.24, before it renders so;
    but some templates write calls only in a message whose content is None.
    """
    # who has a tokenizer has loaded transformers; a command that only reads flags need not
    from transformers.utils.chat_template_utils import render_jinja_template

    schemas: list | None = [*tools] or None  # some templates take an empty list for tools
    texts, _ = render_jinja_template(
        [messages],
        tools=schemas,
        chat_template=tokenizer.get_chat_template(template, tools=schemas),
        **tokenizer.special_tokens_map,
        **knobs,
    )
    return texts[0]


class Renderer:
    """A tokenizer's template as a function of messages."""

    def __init__(self, tokenizer: "PreTrainedTokenizerBase", tools: bool = False):
        self.tokenizer = tokenizer
        # of several templates, the one that is meant for turns like these
        self._template = tokenizer.get_chat_template(tools=[{}] if tools else None)
        # Its control tokens. Of those that are not marked as special, only tags are: some models
        # have such tokens for runs of white space, and Gemma for <b> too.
        self.ids: dict[str, int] = {}
        special = []
        for i, added in tokenizer.added_tokens_decoder.items():
            token = str(added)
            is_tag = token in TAGS or token.startswith("<|") or token in self._template
            is_space = not token.replace("▁", " ").strip()
            if added.special:
                special.append(token)
            if added.special or (is_tag and not is_space):
                self.ids[token] = i
        self.tokens = {i: token for token, i in self.ids.items()}
        self._controls = _any_of(list(self.ids))
        # The tokenizer knows how to spell those that are marked as special, and no others.
        self._unmarked = _any_of([token for token in self.ids if token not in special])
        # Unicode leaves these characters to private use.
        self._marks = {token: chr(0xF0000 + i) for i, token in enumerate(self.ids)}
        self._line = self._line_before()
        self.begins_texts, self._shows_space = self._beginning()
        self.stand_in: list[dict] = []  # for made-up messages, where there must be tools
        if tools and self._needs_tools():
            self.stand_in = [TOOL]
        # Some texts stand in many logs: rules, instructions, examples. They are long.
        self.content_ids = lru_cache(maxsize=256)(self._content_ids)
        self._message_ids = lru_cache(maxsize=256)(self.encode)

    def __call__(self, messages: list[dict], tools: list[dict], prompt: bool, **knobs) -> str:
        """The template's text. Raises ValueError where the template raises anything."""
        try:
            knobs["add_generation_prompt"] = prompt
            schemas = tools or self.stand_in
            return applied(self.tokenizer, messages, schemas, self._template, **knobs)
        except Exception as error:  # a template raises whatever its author liked
            roles = ", ".join(message["role"] for message in messages)
            reason = " ".join(str(error).split())
            raise ValueError(
                f"the chat template cannot write a conversation of {roles} ({reason})"
            ) from error

    def _needs_tools(self) -> bool:
        """Does the template raise an error where there is no tool? Some models have another one for
        turns without."""
        try:
            self([QUESTION], [], prompt=True)
        except ValueError:
            return True
        return False

    def check_tools(self, tools: list[dict]) -> None:
        """Raises ValueError where a schema spells a control token: the template writes schemas."""
        for tool in tools:
            token = self._controls.search(json.dumps(tool, ensure_ascii=False))
            if token:
                raise ValueError(
                    f"the schema of a tool spells the control token {token.group()}"
                    f" ({tool.get('function', tool).get('name')!r})"
                )

    def controls(self, text: str) -> list[re.Match]:
        """Where control tokens stand in a text."""
        return list(self._controls.finditer(text))

    def with_controls(self, pieces: list[str], texts: list[str]) -> list[str]:
        """The pieces with their holes filled: control tokens of the template, and the texts between
        them, each to be tokenised at once, as a model would write it."""
        parts = [""]
        for piece in pieces:
            if isinstance(piece, Hole):
                parts[-1] += piece.fill(texts[piece.number])
                continue
            start = 0
            for token in self.controls(piece):
                parts[-1] += piece[start : token.start()]
                parts += [Control(token.group()), ""]
                start = token.end()
            parts[-1] += piece[start:]
        return parts

    def marked(self, parts: list[str]) -> str:
        """The parts as one text to be read, in which a control token is a character that no text
        has: so no content that spells a token is taken for one."""
        return "".join(self._marks[part] if isinstance(part, Control) else part for part in parts)

    def readable(self, ids: list[int]) -> str:
        """The marked text of ids."""
        parts: list[str] = []
        run: list[int] = []
        for i in ids:
            if i in self.tokens:
                parts += [self._text(run, bool(parts)), Control(self.tokens[i])]
                run = []
            else:
                run.append(i)
        return self.marked([*parts, self._text(run, bool(parts))])

    def _text(self, ids: list[int], behind: bool) -> str:
        """The text of ids, without the space that the tokenizer begins it with behind a control
        token."""
        text = decoded(self.tokenizer, ids)
        return text.removeprefix(" ") if behind and self._shows_space else text

    def _beginning(self) -> tuple[bool, bool]:
        """(does the tokenizer begin a text behind a control token with a space; does it show this
        space when it decodes the ids). Llama 2's begins, and does not show."""
        if not self._line or not self.ids:
            return False, False
        ids = self.behind(next(iter(self.ids)), "x")
        return ids != self.encode("x"), decoded(self.tokenizer, ids) == " x"

    def unmarked(self, text: str) -> str:
        """The same with control tokens as they are written."""
        for token, mark in self._marks.items():
            text = text.replace(mark, token)
        return text

    def _content_ids(self, text: str) -> list[int]:
        """Ids of text that the template did not write; a control token in it is spelled out."""
        parts = []  # none of them is or holds a token that the tokenizer does not spell
        while token := self._unmarked.search(text):
            parts.append(text[: token.start() + 1])
            text = text[token.start() + 1 :]
        ids: list[int] = []
        for part in [*parts, text]:
            ids += self.encode(part, split_special_tokens=True)
        return ids

    def state_ids(self, text: str, end: str) -> list[int]:
        """Ids of the template's text behind the control token `end`; "": it begins a conversation.

        A control token parts what stands before it from itself, so the parts are tokenised one by
        one: many states have some in common.
        """
        starts = [match.start() for match in self.controls(text)]
        ids: list[int] = []
        for start, stop in pairwise([0, *starts, len(text)]):
            if start == 0 < stop and end:
                ids += self.behind(end, text[:stop])
            elif start < stop:
                ids += self._message_ids(text[start:stop], start == 0)
        return ids

    def behind(self, token: str, text: str) -> list[int]:
        """Ids of text behind a control token: some vocabularies add a space there, and some tokens
        take white space with them."""
        ids = self.tokenizer.encode(token + text, add_special_tokens=False)
        return ids[ids.index(self.ids[token]) + 1 :]

    def encode(self, text: str, begins: bool = False, **knobs) -> list[int]:
        """Ids of a piece of text, as they are where the piece stands behind a line break, or where
        it begins a text."""
        line = self._line
        if line and not begins:
            behind = self.tokenizer.encode("\n" + text, add_special_tokens=False, **knobs)
            if behind[: len(line)] == line:
                return behind[len(line) :]
        return self.tokenizer.encode(text, add_special_tokens=False, **knobs)

    def _line_before(self) -> list[int]:
        """Ids of a line break, for a tokenizer of the SentencePiece kind, which begins whatever it
        encodes with a space: a piece must not have one. []: this one adds nothing."""
        if not self.reads_any_text():
            return []
        line = self.tokenizer.encode("\n", add_special_tokens=False)
        text = self.tokenizer.encode("x", add_special_tokens=False)
        both = self.tokenizer.encode("\nx", add_special_tokens=False)
        return [] if line + text == both else line

    def reads_any_text(self) -> bool:
        """False for the embedded model: its words are those of a world, and none are for rules."""
        try:
            self.tokenizer.encode(MARK)
        except Exception:  # tokenizers raises nothing narrower
            return False
        return True


def _any_of(tokens: list[str]) -> re.Pattern:
    # longer ones first, so that none is taken for the beginning of another
    longest_first = sorted(tokens, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")
