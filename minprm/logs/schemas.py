"""The tools of a log: their schemas in one form, and those of tools that it calls and does not
declare.

A schema that lacks is taken of another log where there is one. Otherwise it is learned from the
calls of all logs: it names the arguments that occur, their JSON types, and as required those that
every call has.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from typing import Any

from minprm.data import Demo
from minprm.logs.books import (
    Note,
    field_at,
    fields_of,
    first,
    is_list_of,
    is_nothing,
    objects_in,
    parsed,
    unread_in,
    without,
)
from minprm.text.actions import parse_json, parts

TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array",
         dict: "object", type(None): "null"}  # fmt: skip
RECONSTRUCTED = (
    "their schemas were reconstructed from calls and are not what the agent sends; declare the real"
    " ones in the logs, or the model may not call under these"
)
READ_OF_A_TOOL = ("name", "description", "type", "strict", "title")
# Names of what a tool takes.
SCHEMAS = ("parameters", "input_schema", "inputSchema", "parametersJsonSchema",
           "parameters_json_schema", "input_json_schema", "json_schema", "args_schema", "schema",
           "parameter_definitions", "inputs", "args", "arguments", "params", "input")  # fmt: skip
OTHER_TYPES = {"str": "string", "text": "string", "int": "integer", "float": "number",
               "bool": "boolean", "list": "array", "dict": "object"}  # fmt: skip


def tools_of(line: dict, notes: Counter) -> list[dict] | None:
    """The log's tools; None where the line has no such key, or null."""
    tools = line.get("tools")
    if is_nothing(tools) and not is_nothing(line.get("functions")):
        notes['"functions", read as "tools"'] += 1
        tools = line["functions"]
    if isinstance(tools, str) and tools.strip():
        notes['"tools" as text, read as JSON'] += 1
        tools = parse_json(tools)
    if is_nothing(tools) and tools != []:
        return None
    if objects_in(tools) != tools:
        raise ValueError('"tools" is no list of objects; --drop .tools leaves it out')
    functions, changes = _functions(json.dumps(tools))
    notes.update(changes)
    return functions


@lru_cache(maxsize=64)
def _functions(tools: str) -> tuple[list[dict], Counter]:
    """(schemas, what was changed) of tools as JSON. Logs of one agent share one list of them."""
    changes: Counter[str] = Counter()
    functions = [_tool(tool, changes) for tool in json.loads(tools)]
    return [tool for tool in functions if tool is not None], changes


def _tool(tool: dict, notes: Counter) -> dict | None:
    """One schema: {"type": "function", "function": {"name", ...}}; None for a provider's own tool,
    of which a log holds no schema."""
    kind = tool.get("type", "function")
    if len(tool) == 1 and not tool.keys() & {"type", "function", "name"}:
        (kind,) = tool  # of Gemini: {"googleSearch": {}}
    function = tool.get("function", tool)
    if not isinstance(function, dict):
        raise ValueError('"tools" holds one without a name')
    if kind not in ("function", "object") and not any(key in function for key in SCHEMAS):
        left_out = f"tools of the provider's own, without a schema, left out: {str(kind)[:40]}"
        notes[Note(left_out, "tools")] += 1
        return None
    name = function.get("name")
    if not isinstance(name, str) or not name.strip():
        raise ValueError('"tools" holds one without a name')
    if function is tool:
        notes["tools without a function around name and parameters"] += 1
        function = without(tool, "type")
        tool = {}
    other = _as_parameters(function)
    if other is not None:
        key, parameters = other
        notes[f"{key} of a tool in another notation, read as parameters"] += 1
        function = without(function, key) | {"parameters": parameters}
    if "parameters" not in function:
        for key in unread_in(function, READ_OF_A_TOOL):
            notes[f'"{key}" of a tool without parameters, left out'] += 1
    clean = _without_nulls(function)
    if clean != function:
        notes["nulls in schemas, left out"] += 1
    typed = tool if "type" in tool else {"type": "function", **tool}
    return {**typed, "function": clean}


def leave_out_nulls(messages: list[dict], tools: list[dict], notes: Counter) -> None:
    """Takes nulls out of arguments that the tool's schema does not allow, as tables put there."""
    schemas = {tool["function"]["name"]: tool["function"].get("parameters") for tool in tools}
    for message in messages:
        for call in message.get("tool_calls", ()):
            function = call["function"]
            parameters = schemas.get(function["name"])
            if "null" not in function["arguments"]:
                continue
            if not isinstance(parameters, dict) or not parameters.get("properties"):
                if None in json.loads(function["arguments"]).values():
                    kept = "calls with nulls, kept: no schema says whether they are asked for"
                    notes[Note(kept, "arguments")] += 1
                continue
            # a number stays as it is spelled, between two characters by which it is told again
            arguments = json.loads(function["arguments"], parse_float="\0{}\0".format)
            clean = _asked_for(arguments, parameters)
            if clean != arguments:
                left_out = "calls with nulls that the tool's schema does not ask for, left out"
                notes[Note(left_out, "arguments")] += 1
                text = json.dumps(clean, ensure_ascii=False)
                function["arguments"] = re.sub(r'"\\u0000([-+.eE\d]+)\\u0000"', r"\1", text)


def _asked_for(argument: Any, schema: Any) -> Any:
    """The argument without nulls under names that the schema lacks, or does not ask for and plainly
    allows no null for."""
    schema = fields_of(schema)
    if isinstance(argument, list):
        return [_asked_for(entry, schema.get("items")) for entry in argument]
    if not isinstance(argument, dict) or not isinstance(schema.get("properties"), dict):
        return argument
    arguments = {}
    for key, field in argument.items():
        inner = schema["properties"].get(key)
        required = key in (schema.get("required") or ())
        lacking = key not in schema["properties"] and not schema.get("additionalProperties")
        if field is not None or required or not (lacking or _allows_no_null(inner)):
            arguments[key] = _asked_for(field, inner)
    return arguments


def _allows_no_null(schema: Any) -> bool:
    """Has it types or values, and speaks nowhere of null, of another schema or of any type?"""
    typed = first(fields_of(schema), ("type", "enum", "anyOf", "oneOf"))
    words = ("null", "$ref", '"any"')
    return bool(typed) and not any(word in json.dumps(schema) for word in words)


def _as_parameters(function: dict) -> tuple[str, dict] | None:
    """(key, JSON schema) where a tool says in another notation what it takes; None where it says so
    as chat does, or says nothing.

    >>> _as_parameters({"name": "find", "parameters": {"id": {"type": "int"}}})[1]["properties"]
    {'id': {'type': 'integer'}}
    """
    for key in SCHEMAS:
        schema = function.get(key)
        if isinstance(schema, str) and schema.lstrip().startswith("{"):
            with suppress(ValueError):  # else it is a description
                return key, parse_json(schema)
        if is_list_of(schema, "name"):
            named = {one["name"]: without(one, "name") for one in schema}
            return key, from_flat(named)
        if not isinstance(schema, dict) or not schema:
            continue
        schema = fields_of(parsed(schema.get("json"))) or schema  # of Bedrock
        typed = "type" in schema and not isinstance(schema["type"], dict)
        is_flat = all(isinstance(field, dict) for field in schema.values())
        if is_flat and not typed and not {"properties", "anyOf", "$ref"} & schema.keys():
            return key, from_flat(schema)
        return None if key == "parameters" else (key, schema)
    return None


def from_flat(fields: dict[str, dict]) -> dict:
    """A JSON schema of arguments that are named without one around them, as xLAM's are."""
    properties = {}
    required = []
    for key, field in fields.items():
        properties[key] = {k: v for k, v in field.items() if k not in ("required", "optional")}
        kind = field.get("type", "string")
        if isinstance(kind, str):
            name = kind.split(",")[0].split("[")[0].strip()
            properties[key]["type"] = OTHER_TYPES.get(name.lower(), name)
        if "optional" not in kind and "default" not in field and field.get("required") is not False:
            required.append(key)
    return {"type": "object", "properties": properties, "required": required}


def _without_nulls(schema: Any) -> Any:
    """A schema without its keys that are null; a default may be, where null is allowed.

    >>> _without_nulls({"type": "string", "enum": None})
    {'type': 'string'}
    """
    if isinstance(schema, list):
        return [_without_nulls(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    allows = "null" in json.dumps([schema.get("type"), schema.get("anyOf")])
    clean = {}
    for key, part in schema.items():
        if part is not None or (key in ("default", "const") and allows):
            clean[key] = part if key == "enum" else _without_nulls(part)
    return clean


def is_reconstructed(tool: dict) -> bool:
    """Was this schema learned from calls? Then it has no description, and bare types alone."""
    function = tool.get("function", tool)
    properties = fields_of(field_at(function, "parameters.properties"))
    bare = all(
        isinstance(field, dict) and field.keys() == {"type"} for field in properties.values()
    )
    return function.get("description") == "" and bare


def tool_name(tool: dict) -> str:
    """The name of a tool as it was sent; empty where it has none."""
    function = tool.get("function")
    named = function if isinstance(function, dict) else tool
    return str(named.get("name") or "")


def spelled_otherwise(learned: list[dict], sent: list[dict]) -> dict[str, str]:
    """How each tool that was sent differs as JSON from those that were learned, by its name; what
    is the same is left out. A template writes tools as they stand: each spelling is a prompt."""
    spellings: dict[str, list[dict]] = {}
    for tool in learned:
        spellings.setdefault(tool_name(tool), []).append(tool)
    otherwise = {}
    for tool in sent:
        name = tool_name(tool)
        if name not in spellings:
            otherwise[name] = "is none of those in training"
            continue
        places = min((_places(one, tool) for one in spellings[name]), key=len)
        if places:
            listed = ", ".join(places[:4]) + (" …" if len(places) > 4 else "")
            otherwise[name] = f"is spelled otherwise than in training ({listed[:200]})"
    return otherwise


def _places(one: Any, other: Any, place: str = "") -> list[str]:
    """The places at which two JSON values differ."""
    if not isinstance(one, dict) or not isinstance(other, dict):
        return [] if json.dumps(one) == json.dumps(other) else [place]
    places = []
    for key in {**one, **other}:
        inside = f"{place}.{key}" if place else key
        if key in one and key in other:
            places += _places(one[key], other[key], inside)
        else:
            null = {**one, **other}[key] is None  # a template that writes JSON writes it
            places.append(f"{inside}: null against absent" if null else inside)
    if not places and [*one] != [*other]:
        places.append(f"the order of the keys of {place or 'the tool'}")
    return places


def add_missing_tools(demos: list[Demo], declares: list[bool], notes: Counter) -> None:
    """Gives each log the tools that it calls.

    declares: does each log say what tools there were. One that does not is given all tools that
    such logs call. notes: counts the logs that are given any.
    """
    declared: dict[str, dict] = {}
    for demo in demos:
        for tool in demo.tools:
            declared.setdefault(tool["function"]["name"], tool)
    missing: list[list[str]] = []  # of each log
    shared: set[str] = set()  # called by the logs that declare none
    for demo, declares_tools in zip(demos, declares, strict=True):
        names = _called(demo)
        own = {tool["function"]["name"] for tool in demo.tools}
        missing.append([name for name in names if name not in own])
        if not declares_tools:
            shared.update(names)
    unknown = {name for names in missing for name in names} - declared.keys()
    schemas = declared | (inferred(demos, unknown) if unknown else {})
    of_all = [schemas[name] for name in sorted(shared)]
    for demo, names, declares_tools in zip(demos, missing, declares, strict=True):
        if of_all and not declares_tools:
            given = f'logs without "tools", given those of the calls: {_listed(shared)}'
            notes[Note(given, "tools")] += 1
            demo.tools = of_all
        elif names:
            added = f'calls of tools that "tools" lacks, added to it: {_listed(names)}'
            notes[Note(added, "tools")] += 1
            demo.tools = [*demo.tools, *(schemas[name] for name in names)]


def inferred(demos: list[Demo], names: set[str]) -> dict[str, dict]:
    """The schemas of these tools, as the calls in all logs show them."""
    calls: dict[str, list[dict]] = {}
    for demo in demos:
        for step in demo.steps:
            for call in parts(step.action)[1]:
                if call["name"] in names:
                    calls.setdefault(call["name"], []).append(call["arguments"])
    return {name: schema(name, arguments) for name, arguments in calls.items()}


def schema(name: str, calls: list[dict]) -> dict:
    """The schema of one tool from the arguments of its calls.

    >>> schema("find", [{"id": 7}, {"id": 8, "full": True}])["function"]["parameters"]["required"]
    ['id']
    """
    counts: Counter[str] = Counter()
    types: dict[str, set[str]] = {}
    for arguments in calls:
        for key, argument in arguments.items():
            counts[key] += 1
            types.setdefault(key, set()).add(TYPES[type(argument)])
    properties = {key: {"type": _type(names)} for key, names in types.items()}
    required = [key for key in types if counts[key] == len(calls)]
    parameters = {"type": "object", "properties": properties, "required": required}
    # templates that write a description fail where there is none
    function = {"name": name, "description": "", "parameters": parameters}
    return {"type": "function", "function": function}


def _type(names: set[str]) -> str | list[str]:
    if names == {"integer", "number"}:
        return "number"
    return names.pop() if len(names) == 1 else sorted(names)


def _called(demo: Demo) -> list[str]:
    """The names of the tools that a log calls, in order of their first call."""
    calls = [call for message in demo.messages for call in message.get("tool_calls", ())]
    return list(dict.fromkeys(call["function"]["name"] for call in calls))


def _listed(names: Iterable[str]) -> str:
    names = sorted(names)
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
