"""One log in the chat format -> the same log in one form: what each message of a `Demo` may be.

    system, user   {"role", "content"}                             content is a text
    assistant      {"role", "content", "reasoning_content"?, "tool_calls"?, "weight"?}
    tool           {"role", "content", "tool_call_id"?}

Any message may have a "name". `content` of an assistant is None where it only calls. A tool call is
{"id"?, "type": "function", "function": {"name", "arguments"}}, its arguments JSON as text.

Programs write the same things in other ways. Each other way is brought into this form, and counted
in `notes` by a name that people can read. What would be lost is refused in a sentence.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from minprm.constants import Content
from minprm.text.actions import parse_json

ROLES = ("system", "user", "assistant", "tool")
OTHER_ROLES = {"developer": "system", "function": "tool"}
REASONING = "reasoning_content"
TEXTS = ("text", "input_text", "output_text")  # parts of content that hold "text"
MEDIA = ("image_url", "image", "input_image", "images", "input_audio", "audio", "file",
         "input_file", "files", "video", "videos", "document")  # fmt: skip
THINK, END_OF_THINK = "<think>", "</think>"
CALL, END_OF_CALL = "<tool_call>", "</tool_call>"
# What is read of a message. All else is left out, because a template might write it.
READ = {
    "system": ("role", "content", "name"),
    "user": ("role", "content", "name"),
    "assistant": ("role", "content", "name", REASONING, "reasoning", "refusal", "tool_calls",
                  "function_call", "weight"),
    "tool": ("role", "content", "name", "tool_call_id"),
}  # fmt: skip
READ_OF_A_LINE = ("task", "messages", "tools", "functions")
READ_OF_A_CALL = ("id", "type", "function", "name", "arguments")


def normalised(line: dict, content: Content, notes: Counter) -> dict:
    """{"task", "messages", "tools"} of a log; "tools" is None where it does not say.

    content: what text beside a tool call is. Raises ValueError with what is wrong.
    """
    if not isinstance(line, dict) or not isinstance(line.get("messages"), list):
        raise ValueError('a log is an object with a list "messages"')
    messages = []
    for i, message in enumerate(line["messages"]):
        try:
            messages.append(_message(message, content, notes))
        except ValueError as error:
            raise ValueError(f"message {i}{_role_in_brackets(message)}: {error}") from error
    note_unread(line, READ_OF_A_LINE, "a log", notes)
    return {"task": _task(line, messages), "messages": messages, "tools": _tools(line, notes)}


def _role_in_brackets(message: Any) -> str:
    role = message.get("role") if isinstance(message, dict) else None
    return f" ({role})" if isinstance(role, str) and role in ROLES else ""


def note_unread(fields: dict, keys: Sequence[str], of: str, notes: Counter) -> None:
    """Counts the fields that have none of these keys: they are not read, and so left out."""
    for key, field in fields.items():
        if key not in keys and not _is_nothing(field):
            notes[f'"{key}" of {of}, left out'] += 1


def _is_nothing(field: Any) -> bool:
    """Null or empty: programs write out fields that they do not use."""
    return field is None or field == "" or field == [] or field == {}


# --- messages -------------------------------------------------------------------------------------


def _message(message: Any, content: Content, notes: Counter) -> dict:
    """One message in the one form."""
    if not isinstance(message, dict):
        raise ValueError("it is no object")
    role = _role(message, notes)
    for key in MEDIA:
        if not _is_nothing(message.get(key)):
            raise ValueError(_no_media(key))
    note_unread(message, READ[role], f"a message of the {role}", notes)
    form = {"role": role}
    for key in ("name", "tool_call_id"):
        if key in READ[role] and not _is_nothing(message.get(key)):
            if not isinstance(message[key], str):
                raise ValueError(f"its {key} is no text")
            form[key] = message[key]
    if role == "assistant":
        return form | _of_assistant(message, content, notes)
    if role == "tool":
        return form | {"content": _answer(message.get("content"), notes)}
    text = _text(message.get("content"), notes)
    if text is None:
        raise ValueError("it has no text content")
    return form | {"content": text}


def _role(message: dict, notes: Counter) -> str:
    role = message.get("role")
    if isinstance(role, str) and role in OTHER_ROLES:
        notes[f"role {role}, read as {OTHER_ROLES[role]}"] += 1
        return OTHER_ROLES[role]
    if role not in ROLES:
        raise ValueError(f"its role is none of {', '.join(ROLES)}, but {json.dumps(role)[:40]}")
    return role


def _text(content: Any, notes: Counter) -> str | None:
    """The text of `content`, which may be a list of parts; None where there is none."""
    if content is None or isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise ValueError("it has no text content")
    texts = []
    for part in content:
        text = part if isinstance(part, str) else None
        if isinstance(part, dict):
            kind = part.get("type")
            if kind in TEXTS or kind == "refusal":
                text = part.get("refusal" if kind == "refusal" else "text")
            elif kind is not None:
                raise ValueError(_no_media(kind))
        if not isinstance(text, str):
            raise ValueError("it has no text content: a part of its list holds none")
        texts.append(text)
    if not texts:
        return None
    notes["content in parts, joined line by line"] += 1
    return "\n".join(texts)


def _no_media(kind: Any) -> str:
    return (
        f"it holds {json.dumps(kind)[:40]}, and only text is read here: put a text in its place, or"
        " leave the log out"
    )


def _answer(content: Any, notes: Counter) -> str:
    """The text of a tool's answer: often it is JSON that was never written as text."""
    if isinstance(content, str):
        return content
    if content is None or content == []:
        notes["tool answers without content, read as empty"] += 1
        return ""
    kinds = []
    if isinstance(content, list):
        kinds = [part.get("type") if isinstance(part, dict) else None for part in content]
    if any(kind in (*TEXTS, *MEDIA) for kind in kinds if isinstance(kind, str)):
        return _text(content, notes) or ""
    notes["tool answers in JSON, written as text"] += 1
    return json.dumps(content, ensure_ascii=False)


def _of_assistant(message: dict, content: Content, notes: Counter) -> dict:
    """Text, thought, calls and weight of an assistant's message."""
    calls = _calls(message, notes)
    text, thought = _text_and_thought(message, notes)
    if not calls:
        text, calls = _spelled_calls(text, notes)
    if calls and text.strip() and content == "thought" and not thought:
        notes["text beside a call, taken for its thought"] += 1
        text, thought = "", text
    if not text.strip() and not calls:
        raise ValueError("it has an empty action: neither text content nor tool_calls")
    form: dict = {"content": text if text.strip() else None}
    if thought:
        form[REASONING] = thought
    if calls:
        form["tool_calls"] = calls
    weight = message.get("weight")
    if weight not in (None, 0, 1):
        raise ValueError("its weight is neither 0 nor 1")
    if weight == 0:
        if calls:
            raise ValueError(
                "it calls tools and has weight 0, and a call is always learned: end the log before"
                " it, or leave out the weight"
            )
        notes["answers of weight 0, read and not learned"] += 1
        form["weight"] = 0
    return form


def _text_and_thought(message: dict, notes: Counter) -> tuple[str, str]:
    """(text, thought) of an assistant's message; each is empty where there is none."""
    text = _text(message.get("content"), notes) or ""
    refusal = message.get("refusal")
    if not _is_nothing(refusal):
        if not isinstance(refusal, str):
            raise ValueError("its refusal is no text")
        notes["refusals, read as text"] += 1
        text = f"{text}\n{refusal}" if text.strip() else refusal
    thought = message.get(REASONING)
    if _is_nothing(thought) and not _is_nothing(message.get("reasoning")):
        notes[f"reasoning, read as {REASONING}"] += 1
        thought = message["reasoning"]
    if not _is_nothing(thought) and not isinstance(thought, str):
        raise ValueError(f"its {REASONING} is no text")
    thought = thought or ""
    # an empty one may stand before it, as templates write those for agents that do not think
    while text.lstrip().startswith(THINK) and END_OF_THINK in text:
        notes[f"thoughts between {THINK} and {END_OF_THINK}, taken out of content"] += 1
        inside, _, text = text.lstrip().removeprefix(THINK).partition(END_OF_THINK)
        if inside.strip() and thought:
            raise ValueError(f"it has more than one thought, in content or {REASONING}: keep one")
        text = text.lstrip()
        thought = inside.strip() or thought
    return text, thought


# --- tool calls and tools -------------------------------------------------------------------------


def _calls(message: dict, notes: Counter) -> list[dict]:
    """The tool calls of an assistant's message."""
    calls = message.get("tool_calls") or []
    if not isinstance(calls, list):
        raise ValueError("its tool_calls are no list")
    old = message.get("function_call")
    if _is_nothing(old):
        return [_call(call, notes) for call in calls]
    if calls:
        raise ValueError("it has both tool_calls and function_call: keep one")
    notes["function_call, read as tool_calls"] += 1
    return [_call({"function": old}, notes)]


def _spelled_calls(text: str, notes: Counter) -> tuple[str, list[dict]]:
    """(text, calls) of an answer that ends in calls as the models of Hermes and Qwen spell them."""
    reply, *bodies = text.split(CALL)
    if not bodies or not all(body.rstrip().endswith(END_OF_CALL) for body in bodies):
        return text, []
    notes[f"calls between {CALL} and {END_OF_CALL}, taken out of content"] += 1
    calls = []
    for body in bodies:
        try:
            calls.append(_call(parse_json(body.rstrip().removesuffix(END_OF_CALL)), notes))
        except ValueError as error:
            raise ValueError(f"what stands behind a {CALL} is no call: {error}") from error
    return reply, calls


def _call(call: Any, notes: Counter) -> dict:
    """One tool call in the one form."""
    kind = call.get("type") or "function" if isinstance(call, dict) else "function"
    if kind != "function":
        raise ValueError(f"it has a call of type {json.dumps(kind)[:40]}, and not of a function")
    function = call.get("function", call) if isinstance(call, dict) else None
    if not isinstance(function, dict) or "name" not in function:
        raise ValueError("it has a tool call without name and arguments")
    name = function["name"]
    if not isinstance(name, str) or not name.strip():
        raise ValueError("it has a tool call whose name is no text")
    form = {
        "type": "function",
        "function": {"name": name, "arguments": _arguments(function, notes)},
    }
    if not _is_nothing(call.get("id")):
        if not isinstance(call["id"], str):
            raise ValueError("it has a tool call whose id is no text")
        form = {"id": call["id"], **form}
    if function is call:
        notes["calls without a function around name and arguments"] += 1
    note_unread(call, READ_OF_A_CALL, "a call", notes)
    return form


def _arguments(function: dict, notes: Counter) -> str:
    """The arguments of a call as JSON."""
    arguments = function.get("arguments")
    if arguments is None or (isinstance(arguments, str) and arguments.strip() in ("", "null")):
        notes["calls without arguments, read as {}"] += 1
        return "{}"
    if isinstance(arguments, dict):
        notes["arguments that are an object, written as JSON"] += 1
        return json.dumps(arguments, ensure_ascii=False)
    if not isinstance(arguments, str):
        raise ValueError("it has a tool call with arguments that are no object")
    try:
        objects = parse_json(f"[{arguments}]")  # an action holds them one level deeper too
    except ValueError as error:
        raise ValueError(f"it has a tool call with bad arguments: {error}") from error
    if len(objects) != 1 or not isinstance(objects[0], dict):
        raise ValueError("it has a tool call with arguments that are no object")
    return arguments


def _tools(line: dict, notes: Counter) -> list[dict] | None:
    """The log's tools; None where the line has no such key, or null."""
    tools = line.get("tools")
    if isinstance(tools, str) and tools.strip():
        notes['"tools" as text, read as JSON'] += 1
        tools = parse_json(tools)
    if _is_nothing(tools) and not _is_nothing(line.get("functions")):
        notes['"functions", read as "tools"'] += 1
        tools = line["functions"]
    if tools is None or tools == "":
        return None
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        raise ValueError('"tools" is no list of objects')
    return [_tool(tool, notes) for tool in tools]


def _tool(tool: dict, notes: Counter) -> dict:
    """One schema: {"type": "function", "function": {"name", ...}}."""
    kind = tool.get("type", "function")
    if kind != "function":
        raise ValueError(f'"tools" holds one of type {json.dumps(kind)[:40]}, and not a function')
    function = tool.get("function", tool)
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(name, str) or not name.strip():
        raise ValueError('"tools" holds one without a name')
    if function is not tool:
        return {"type": "function", **tool}
    notes["tools without a function around name and parameters"] += 1
    bare = {key: field for key, field in tool.items() if key != "type"}
    return {"type": "function", "function": bare}


def _task(line: dict, messages: list[dict]) -> str:
    """What a split goes by: the task that the line names, or else a hash of the first system and
    the first user message."""
    task = line.get("task")
    if isinstance(task, str | int) and task != "":
        return str(task)
    if task not in (None, ""):
        raise ValueError('"task" is neither a text nor a whole number')
    head = [m["content"] for m in messages if m["role"] == "system"][:1]
    head += [m["content"] for m in messages if m["role"] == "user"][:1]
    return hashlib.sha256(json.dumps(head).encode()).hexdigest()[:16]
