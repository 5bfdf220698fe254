"""Tools that a log calls and does not declare: their schemas, learned from the calls of all logs.

A schema of another log is taken where there is one. Otherwise it names the arguments that occur,
their JSON types, and as required those that every call has.
"""

from collections import Counter
from collections.abc import Iterable

from minprm.data import Demo
from minprm.text.actions import parts

TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array",
         dict: "object", type(None): "null"}  # fmt: skip


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
            notes[f'logs without "tools", given those of the calls: {_listed(shared)}'] += 1
            demo.tools = of_all
        elif names:
            notes[f'calls of tools that "tools" lacks, added to it: {_listed(names)}'] += 1
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


def _called(demo: Demo) -> dict[str, None]:
    """The names of the tools that a log calls, in order of their first call."""
    names: dict[str, None] = {}
    for message in demo.messages:
        for call in message.get("tool_calls", ()):
            names[call["function"]["name"]] = None
    return names


def _listed(names: Iterable[str]) -> str:
    names = sorted(names)
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
