"""Reading tool calls: from a turn's text to names and arguments.

How a template writes calls is learned from the calls of a made-up tool. Two notations are read:

    object   the arguments are one object: JSON, or JSON with other quotation marks and bare keys
             <tool_call>⏎{"name": "visit", "arguments": {"title": "Paris"}}⏎</tool_call>
             <|tool_call>call:visit{title:<|"|>Paris<|"|>}<tool_call|>
    fields   each argument stands in tags of its own, and a text has no quotation marks
             <tool_call>⏎<function=visit>⏎<parameter=title>⏎Paris⏎</parameter>⏎</function>⏎...

A value without quotation marks may be a text or a number: the tool's schema says which.
"""

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from minprm.text.actions import parse_json
from minprm.text.render import common_start
from minprm.text.turns import KEY, NAME

Write = Callable[[list[dict]], str]  # the template's text of these calls

_LATER_KEY = "minprm_b"
_LATER_NAME = "minprm_later"
_VALUE = "minprm_v"
_NUMBER = 190737
_HARD = {KEY: 'a "b", it\'s {c} \\d\n<e> é', _LATER_KEY: _NUMBER}  # a text to stumble over

PYTHON = {"True": "true", "False": "false", "None": "null"}  # some templates write these words
TYPES = {"boolean": bool, "integer": int, "number": int | float, "array": list, "object": dict,
         "null": type(None)}  # fmt: skip


class CallReader:
    """Reads the calls of one template. The constructor raises ValueError where it could not."""

    def __init__(self, write: Write, tools: list[dict]):
        one = {"name": NAME, "arguments": {KEY: _VALUE}}
        text = write([one])
        self.open = text.partition(NAME)[0]
        self.notation = ObjectNotation.learn(write) or FieldNotation.learn(write, types_of(tools))
        # What the notation leaves of a call, and of one that another call follows.
        self.close = self._left(text)
        self.join = self._find_join(write, one)
        for call in (one, {**one, "arguments": {}}, {**one, "arguments": _HARD}):
            if self.read(write([call])) != ("", [call]):
                raise ValueError("the chat template writes tool calls in a format that is not read")

    @property
    def several(self) -> bool:
        """May a turn have more than one call?"""
        return self.join is not None

    def read(self, text: str) -> tuple[str, list[dict]] | None:
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
            found = self.notation.read(text)
            if found is None:
                return None
            call, rest = found
            calls.append(call)
            if rest.strip() == self.close:
                return calls
            if self.join is None or not rest.lstrip().startswith(self.join):
                return None
            text = rest.lstrip().removeprefix(self.join)

    def _left(self, text: str) -> str:
        found = self.notation.read(text.removeprefix(self.open))
        return found[1].strip() if found else ""

    def _find_join(self, write: Write, call: dict) -> str | None:
        """The text between two calls. None: the template allows one call a turn."""
        try:
            text = write([call, {**call, "name": _LATER_NAME}])
        except ValueError:
            return None
        left = self._left(text)
        return left.partition(_LATER_NAME)[0].strip() if _LATER_NAME in left else None


class ObjectNotation(NamedTuple):
    """NAME middle {KEY: VALUE, ...}"""

    middle: str
    quotes: tuple[str, str]  # around a text

    @classmethod
    def learn(cls, write: Write) -> "ObjectNotation | None":
        """None: the template does not write arguments as an object with texts in quotes."""
        quotes = _quotes(write)
        after_name = write([{"name": NAME, "arguments": {KEY: _VALUE}}]).partition(NAME)[2]
        notation = cls(after_name.partition("{")[0].strip(), quotes)
        if not all(quotes) or notation.read(NAME + after_name) is None:
            return None
        return notation

    def read(self, text: str) -> tuple[dict, str] | None:
        """(the call that the text begins with, what is left of the text)."""
        head, brace, rest = text.partition("{")
        text = brace + rest
        name = head.strip().removesuffix(self.middle).strip()
        end = self._end(text)
        if not head.strip().endswith(self.middle) or not name or not end:
            return None
        try:
            arguments = parse_json(self._as_json(text[:end]))
        except ValueError:
            return None
        return {"name": name, "arguments": arguments}, text[end:]

    def _end(self, text: str) -> int:
        """Where the object that the text begins with ends; 0 where it does not."""
        depth = 0
        for found in re.finditer(rf"{self._quoted()}|[{{}}]", text, re.DOTALL):
            depth += {"{": 1, "}": -1}.get(found.group(), 0)
            if depth == 0:
                return found.end()
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
    def _rewritten(found: re.Match) -> str:
        if found["word"]:
            return PYTHON[found["word"]]
        return json.dumps(found["key"] if found["text"] is None else found["text"])

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
        found = re.search(pattern, text, re.DOTALL)
        if not found or any(_quotes(write)) or found[2] != found[4]:
            raise ValueError("the chat template writes tool calls in a format that is not read")
        empty = write([{"name": NAME, "arguments": {}}]).partition(NAME)[2]
        first, between, later, _, close = found.groups()
        return cls(first, between, later, close.rstrip(), empty.rstrip(), types)

    def read(self, text: str) -> tuple[dict, str] | None:
        """(the call that the text begins with, what is left of the text)."""
        stem = common_start([self.first, self.empty]).partition(NAME)[0]
        name, _, _ = text.partition(stem)
        rest = text[len(name) :]
        empty = self.empty.replace(NAME, name)
        if not stem or not name.strip():
            return None
        arguments = {}
        if rest.startswith(empty):
            return {"name": name.strip(), "arguments": arguments}, rest[len(empty) :]
        lead = self.first.replace(NAME, name)
        while rest.startswith(lead):
            key, _, rest = rest[len(lead) :].partition(self.between)
            ends = [rest.find(mark) for mark in (self.later, self.close) if mark in rest]
            if not ends:
                return None
            arguments[key] = self._typed(name.strip(), key, rest[: min(ends)])
            rest = rest[min(ends) :]
            lead = self.later
        if not arguments or not rest.startswith(self.close):
            return None
        return {"name": name.strip(), "arguments": arguments}, rest[len(self.close) :]

    def _typed(self, name: str, key: str, text: str) -> Any:
        """The value that a text stands for, by the types that the tool's schema allows.

        Without a schema, a text that is JSON is what the JSON says.
        """
        allowed = self.types.get(name, {}).get(key, set())
        try:
            value = parse_json(PYTHON.get(text.strip(), text))
        except ValueError:
            return text
        if isinstance(value, str):  # a text that has quotation marks itself
            return text
        fits = any(_is_of(value, kind) for kind in allowed)
        return text if "string" in allowed and not fits else value


def types_of(tools: list[dict]) -> dict[str, dict[str, set[str]]]:
    """The types that each argument of each tool may have. Nothing known of it: no types."""
    types: dict[str, dict[str, set[str]]] = {}
    for tool in tools:
        function = tool.get("function") or {}
        parameters = function.get("parameters") or {}
        known = types.setdefault(function.get("name", ""), {})
        for key, schema in (parameters.get("properties") or {}).items():
            known.setdefault(key, set()).update(_types(schema))
    return types


def _types(schema: Any) -> set[str]:
    """The types that a JSON schema allows."""
    if not isinstance(schema, dict):
        return set()
    named = schema.get("type") or []
    types = {named} if isinstance(named, str) else set(named)
    for choice in (schema.get("anyOf") or []) + (schema.get("oneOf") or []):
        types |= _types(choice)
    if not types and any(isinstance(value, str) for value in schema.get("enum") or []):
        types.add("string")
    return types


def _is_of(value: Any, kind: str) -> bool:
    """Is this value, which is no text, of the type of JSON schema?"""
    if isinstance(value, bool):
        return kind == "boolean"  # Python counts True among the integers
    return kind in TYPES and isinstance(value, TYPES[kind])


def _quotes(write: Write) -> tuple[str, str]:
    """The quotation marks around a text, by comparing it with a number."""
    text = write([{"name": NAME, "arguments": {KEY: _VALUE}}]).partition(KEY)[2]
    number = write([{"name": NAME, "arguments": {KEY: _NUMBER}}]).partition(KEY)[2]
    before, _, after = text.partition(_VALUE)
    bare_before, _, bare_after = number.partition(str(_NUMBER))
    return before.removeprefix(bare_before), after.removesuffix(bare_after)
