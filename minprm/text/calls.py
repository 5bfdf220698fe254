"""Reading tool calls: from a turn's text to names and arguments.

How a template writes calls is learned from the calls of a made-up tool. Two notations are read:

    object   the arguments are one object: JSON, or JSON with other quotation marks and bare keys
             <tool_call>⏎{"name": "visit", "arguments": {"title": "Paris"}}⏎</tool_call>
             <|tool_call>call:visit{title:<|"|>Paris<|"|>}<tool_call|>
    fields   each argument stands in tags of its own, and a text has no quotation marks
             <tool_call>⏎<function=visit>⏎<parameter=title>⏎Paris⏎</parameter>⏎</function>⏎...

A value without quotation marks may be a text or a number: the tool's schema says which.
"""

import ast
import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from minprm.text.actions import parse_json
from minprm.text.render import common_start
from minprm.text.turns import HARD, KEY, NAME

Write = Callable[[list[dict]], str]  # the template's text of these calls

_LATER_KEY = "minprm_b"
_LATER_NAME = "minprm_later"
_VALUE = "minprm_v"
_NUMBER = 190737
_CALL = {"name": NAME, "arguments": {KEY: _VALUE}}
_EMPTY_CALL = {"name": NAME, "arguments": {}}
_LATER_CALL = {"name": _LATER_NAME, "arguments": {KEY: _VALUE}}
HARD_CALL = {"name": NAME, "arguments": {KEY: HARD, _LATER_KEY: _NUMBER}}
UNREAD = "the chat template writes tool calls in a format that is not read"

PYTHON = {"True": "true", "False": "false", "None": "null"}  # some templates write these words
# the types of JSON schema that a value can be of
TYPES = {bool: {"boolean"}, int: {"integer", "number"}, float: {"number"}, list: {"array"},
         dict: {"object"}, type(None): {"null"}}  # fmt: skip


class CallReader(NamedTuple):
    """Reads the calls of one template."""

    open: str  # what stands before a name
    notation: "ObjectNotation | FieldNotation"
    close: str  # what the notation leaves of a call
    join: str | None  # and of one that another call follows. None: a turn has one call

    def calls_in(self, text: str) -> tuple[str, list[dict]] | None:
        """(what stands before the calls, the calls). None: the text does not end in calls."""
        opening = self.open.strip()
        start = text.find(opening)
        while start >= 0:
            calls = self._calls(text[start + len(opening) :])
            if calls:
                return text[:start].strip(), calls
            # where nothing opens a call, the name does, and nothing can stand before it
            start = text.find(opening, start + 1) if opening else -1
        return None

    def _calls(self, text: str) -> list[dict] | None:
        """The calls of a text that begins with a name, if it holds nothing else."""
        calls = []
        while True:
            call, left = self.notation.call_in(text) or (None, "")
            if call is None:
                return None
            calls.append(call)
            if left.strip() == self.close:
                return calls
            if self.join is None or not left.lstrip().startswith(self.join):
                return None
            text = left.lstrip().removeprefix(self.join)


def find_calls(write: Write, tools: list[dict]) -> CallReader:
    """Raises ValueError where the template's calls could not be read."""
    text = write([_CALL])
    several = _written(write, [_CALL, _LATER_CALL])
    opening = text.partition(NAME)[0]
    notation = ObjectNotation.learn(write) or FieldNotation.learn(write, types_of(tools))
    _, close = notation.call_in(text.removeprefix(opening)) or ({}, "")
    _, later = notation.call_in(several.removeprefix(opening)) or ({}, "")
    join = later.strip().partition(_LATER_NAME)[0].strip() if _LATER_NAME in later else None
    reader = CallReader(opening, notation, close.strip(), join)
    for call in (_CALL, _EMPTY_CALL, HARD_CALL):
        if reader.calls_in(write([call])) != ("", [call]):
            raise ValueError(UNREAD)
    if join is not None and reader.calls_in(several) != ("", [_CALL, _LATER_CALL]):
        return reader._replace(join=None)  # the second is numbered, say
    return reader


def _written(write: Write, calls: list[dict]) -> str:
    """The text of these calls; "" where the template cannot write them."""
    try:
        return write(calls)
    except ValueError:
        return ""


class ObjectNotation(NamedTuple):
    """NAME middle {KEY: VALUE, ...}"""

    middle: str
    quotes: tuple[str, str]  # around a text

    @classmethod
    def learn(cls, write: Write) -> "ObjectNotation | None":
        """None: the template does not write arguments as an object with texts in quotes."""
        quotes = _quotes(write)
        after_name = write([_CALL]).partition(NAME)[2]
        notation = cls(after_name.partition("{")[0].strip(), quotes)
        if not all(quotes) or notation.call_in(NAME + after_name) is None:
            return None
        return notation

    def call_in(self, text: str) -> tuple[dict, str] | None:
        """(the call that the text begins with, what is left of the text)."""
        head, brace, after = text.partition("{")
        text = brace + after
        name = head.strip().removesuffix(self.middle).strip()
        end = self._end(text)
        # A name has no line breaks: here text stands beside the call, as no template writes it.
        if not head.strip().endswith(self.middle) or not name or not end or "\n" in name:
            return None
        try:
            arguments = parse_json(self._as_json(text[:end]))
        except ValueError:
            return None
        return {"name": name, "arguments": arguments}, text[end:]

    def _end(self, text: str) -> int:
        """Where the object that the text begins with ends; 0 where it does not."""
        depth = 0
        for match in re.finditer(rf"{self._quoted()}|[{{}}]", text, re.DOTALL):
            depth += {"{": 1, "}": -1}.get(match.group(), 0)
            if depth == 0:
                return match.end()
        return 0

    def _as_json(self, text: str) -> str:
        if self.quotes == ('"', '"'):
            return text
        start, end = map(re.escape, self.quotes)
        key = r"(?<=[{,])(?P<key>[^{}\[\],:\"]+)(?=:)"
        word = r"\b(?P<word>True|False|None)\b"
        return re.sub(
            f"{start}(?P<text>.*?){end}|{key}|{word}", self._rewritten, text, flags=re.DOTALL
        )

    @staticmethod
    def _rewritten(match: re.Match) -> str:
        if match["word"]:
            return PYTHON[match["word"]]
        return json.dumps(match["key"] if match["text"] is None else match["text"])

    def _quoted(self) -> str:
        """A pattern of a text in quotation marks."""
        if self.quotes == ('"', '"'):
            return r'"(?:[^"\\]|\\.)*"'
        start, end = map(re.escape, self.quotes)
        return f"{start}.*?{end}"


class FieldNotation(NamedTuple):
    """NAME first KEY between VALUE later KEY between VALUE close; without arguments NAME empty

    The name may stand in `first` and `empty` once more.
    """

    first: str
    between: str
    later: str
    close: str
    empty: str
    types: dict[str, dict[str, set[str]]]

    @classmethod
    def learn(cls, write: Write, types: dict[str, dict[str, set[str]]]) -> "FieldNotation":
        """Raises ValueError where arguments do not stand in fields, or a text has quotes."""
        text = write([{"name": NAME, "arguments": {KEY: _VALUE, _LATER_KEY: _VALUE}}])
        pattern = f"{NAME}(.*?){KEY}(.*?){_VALUE}(.*?){_LATER_KEY}(.*?){_VALUE}(.*)"
        match = re.search(pattern, text, re.DOTALL)
        if not match or any(_quotes(write)) or match[2] != match[4]:
            raise ValueError(UNREAD)
        empty = write([_EMPTY_CALL]).partition(NAME)[2]
        first, between, later, _, close = match.groups()
        # What ends one call alone, and not the last of several, is no part of the notation.
        several = _written(write, [_CALL, _LATER_CALL])
        if several:
            close = common_start([close, several.partition(_VALUE)[2]])
        several = _written(write, [_EMPTY_CALL, _LATER_CALL])
        if several:
            empty = common_start([empty, several.partition(NAME)[2]])
        return cls(first, between, later, close.rstrip(), empty.rstrip(), types)

    def call_in(self, text: str) -> tuple[dict, str] | None:
        """(the call that the text begins with, what is left of the text)."""
        name = self._name_in(text)
        left = text[len(name) :]
        empty = self.empty.replace(NAME, name)
        if not name.strip():
            return None
        arguments = {}
        if left.startswith(empty):
            return {"name": name.strip(), "arguments": arguments}, left[len(empty) :]
        lead = self.first.replace(NAME, name)
        while left.startswith(lead):
            key, _, left = left[len(lead) :].partition(self.between)
            ends = [left.find(mark) for mark in (self.later, self.close) if mark in left]
            if not ends:
                return None
            arguments[key] = self._typed(name.strip(), key, left[: min(ends)])
            left = left[min(ends) :]
            lead = self.later
        if not arguments or not left.startswith(self.close):
            return None
        return {"name": name.strip(), "arguments": arguments}, left[len(self.close) :]

    def _name_in(self, text: str) -> str:
        """The name that the text begins with, up to what follows a name; "" where nothing does."""
        stem = common_start([self.first, self.empty]).partition(NAME)[0]
        # Where a tag follows the name at once, it is another one if there are no arguments.
        stems = [stem] if stem else [lead.partition(NAME)[0] for lead in (self.first, self.empty)]
        ends = [text.find(stem) for stem in stems if stem and stem in text]
        return text[: min(ends)] if ends else ""

    def _typed(self, name: str, key: str, text: str) -> Any:
        """The value that a text stands for, as JSON or as Python writes it, by the types that the
        tool's schema allows.

        Without a schema, a text that is JSON is what the JSON says.
        """
        allowed = self.types.get(name, {}).get(key, set())
        try:
            literal = parse_json(PYTHON.get(text.strip(), text))
        except ValueError:
            literal = _python(text)
            fits = literal is not None and allowed & TYPES[type(literal)]
            return literal if fits else text
        if isinstance(literal, str):  # a text that has quotation marks itself
            return text
        fits = allowed & TYPES[type(literal)]
        return text if "string" in allowed and not fits else literal


def _python(text: str) -> dict | list | None:
    """The object or list that some templates write as Python does. None: it is none."""
    if not text.strip().startswith(("[", "{")):
        return None
    try:
        literal = parse_json(json.dumps(ast.literal_eval(text.strip())))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
    return literal if isinstance(literal, dict | list) else None


def types_of(tools: list[dict]) -> dict[str, dict[str, set[str]]]:
    """The types that each argument of each tool may have. Nothing known of it: no types."""
    types: dict[str, dict[str, set[str]]] = {}
    for tool in tools:
        function = tool.get("function") or {}
        parameters = _only(dict, function.get("parameters"))
        of_tool = types.setdefault(function.get("name", ""), {})
        for key, schema in _only(dict, parameters.get("properties")).items():
            of_tool.setdefault(key, set()).update(_types(schema, parameters))
    return types


def _types(schema: Any, root: dict) -> set[str]:
    """The types that a JSON schema allows. A `$ref` names a place in the root, as pydantic writes
    an enum; it is looked up once, because some schemas name themselves."""
    types: set[str] = set()
    seen = set()
    todo = [schema]
    while todo:
        part = _only(dict, todo.pop())
        for key in ("anyOf", "oneOf", "allOf"):
            todo += _only(list, part.get(key))
        reference = part.get("$ref")
        if isinstance(reference, str) and reference not in seen:
            seen.add(reference)
            todo.append(_referred(reference, root))
        named = part.get("type")
        literals = [part.get("const"), *_only(list, part.get("enum"))]
        if named is None and any(isinstance(literal, str) for literal in literals):
            named = "string"
        types.update(name for name in [named, *_only(list, named)] if isinstance(name, str))
    return types


def _only(kind: type, value: Any) -> Any:
    """This value if it is of this kind, else an empty one: not all that a log calls a schema is."""
    return value if isinstance(value, kind) else kind()


def _referred(reference: str, root: dict) -> Any:
    """What stands at `#/$defs/Color` in the root; None where there is nothing."""
    if not reference.startswith("#/"):
        return None
    place: Any = root
    for key in reference.removeprefix("#/").split("/"):
        place = place.get(key) if isinstance(place, dict) else None
    return place


def _quotes(write: Write) -> tuple[str, str]:
    """The quotation marks around a text, by comparing it with a number."""
    text = write([_CALL]).partition(KEY)[2]
    number = write([{"name": NAME, "arguments": {KEY: _NUMBER}}]).partition(KEY)[2]
    before, _, after = text.partition(_VALUE)
    bare_before, _, bare_after = number.partition(str(_NUMBER))
    return before.removeprefix(bare_before), after.removesuffix(bare_after)
