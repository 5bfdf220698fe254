"""Logs on disk: JSONL in the chat format that people already have, one line a demo.

    {"task": ..., "messages": [...], "tools": [...]}

An assistant message is one step. Its action is its `tool_calls`, with the thought in `content`, or
in `reasoning_content` where there is no content. Without tool calls its action is the `content`,
with the thought in `reasoning_content`.

Every field is checked where it is read. A line that training would trip over later ends in a
sentence with the file, the line and what is wrong.
"""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from minprm.constants import fail
from minprm.data import Demo, Step
from minprm.text.actions import parse_json

T = TypeVar("T")
ROLES = ("system", "user", "assistant", "tool")
REASONING = "reasoning_content"


def from_chat(line: dict) -> Demo:
    """The demo in one parsed line. Raises ValueError with what is wrong.

    >>> log = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "open c"}]
    >>> from_chat({"messages": log}).steps[0].action
    'open c'
    """
    if not isinstance(line, dict) or not isinstance(line.get("messages"), list):
        raise ValueError('a line is an object with a list "messages"')
    tools = _tools(line)
    steps = []
    state = []
    for i, message in enumerate(line["messages"]):
        if not isinstance(message, dict) or message.get("role") not in ROLES:
            raise ValueError(f"message {i} has no role of {', '.join(ROLES)}")
        if message["role"] == "assistant":
            thought, action = _thought_and_action(message, i, bool(tools))
            steps.append(Step(state, thought, action))
            state = []
        elif isinstance(message.get("content"), str):
            state.append(message)
        else:
            raise ValueError(f"message {i} ({message['role']}) has no text content")
    if not steps:
        raise ValueError("there is no assistant message, so nothing to learn")
    if not steps[0].state:
        raise ValueError("message 0 is the assistant's: a log begins with what it answers")
    return Demo(_task(line), line["messages"], tools, steps)


def to_chat(demo: Demo) -> dict:
    """The demo as one line of JSONL.

    Thoughts go where `from_chat` finds them. All else is as it came.
    """
    steps = iter(demo.steps)
    messages = []
    for message in demo.messages:
        if message["role"] == "assistant":
            message = _with_thought(message, next(steps).thought)
        messages.append(message)
    return {"task": demo.task, "messages": messages, "tools": demo.tools}


def _with_thought(message: dict, thought: str | None) -> dict:
    key = _thought_key(message)
    message = {k: v for k, v in message.items() if k != key}
    # beside tool calls `content` has to be there, as null where nothing was thought
    if thought is not None or key == "content":
        message[key] = thought
    return message


def _thought_and_action(message: dict, i: int, tools: bool) -> tuple[str | None, str]:
    """(thought, action) of the i-th message, an assistant's. tools: the log has some."""
    calls = message.get("tool_calls")
    if calls:
        if not isinstance(calls, list):
            raise ValueError(f"message {i} (assistant): its tool_calls are no list")
        action = "\n".join(_call(call, i) for call in calls)
        return _thought(message, i), action
    action = message.get("content")
    if not isinstance(action, str):
        raise ValueError(f"message {i} (assistant) has neither text content nor tool_calls")
    if tools:
        raise ValueError(
            f"message {i} (assistant) calls no tool, and the log has tools: write it as a call, or"
            " end the log before it"
        )
    if not action.strip():
        raise ValueError(f"message {i} (assistant) has an empty action")
    return _thought(message, i), action


def _thought_key(message: dict) -> str:
    """Where the thought of an assistant's message stands, or would stand."""
    if message.get("tool_calls") and (message.get("content") or not message.get(REASONING)):
        return "content"
    return REASONING


def _thought(message: dict, i: int) -> str | None:
    """The thought of the i-th message, an assistant's. An empty one is none."""
    key = _thought_key(message)
    thought = message.get(key)
    if thought is not None and not isinstance(thought, str):
        raise ValueError(f"message {i} (assistant): its {key} is no text")
    if key == "content" and message.get(REASONING):
        raise ValueError(
            f"message {i} (assistant) has a thought in content and another in {REASONING}: keep one"
        )
    return thought or None


def _call(call: dict, i: int) -> str:
    """One tool call as a line of JSON."""
    try:
        name = call["function"]["name"]
        arguments = call["function"]["arguments"]
        if isinstance(arguments, str):
            arguments = parse_json(arguments)
    except (KeyError, TypeError) as error:
        raise ValueError(f"message {i} has a tool call without name and arguments") from error
    except ValueError as error:
        raise ValueError(f"message {i} has a tool call with bad arguments: {error}") from error
    if not isinstance(name, str) or not name.strip() or not isinstance(arguments, dict):
        raise ValueError(
            f"message {i} has a tool call whose name is no text or arguments no object"
        )
    return json.dumps({"name": name, "arguments": arguments})


def _tools(line: dict) -> list[dict]:
    """The log's tools; none where the line has no such key, or null."""
    tools = line.get("tools")
    if tools is None:
        return []
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        raise ValueError('"tools" is no list of objects')
    return tools


def _task(line: dict) -> str:
    """What a split goes by: the task that the line names, or else a hash of the first system and
    the first user message."""
    task = line.get("task")
    if isinstance(task, str | int) and task != "":
        return str(task)
    if task not in (None, ""):
        raise ValueError('"task" is neither a text nor a whole number')
    messages = line["messages"]
    head = [m["content"] for m in messages if m["role"] == "system"][:1]
    head += [m["content"] for m in messages if m["role"] == "user"][:1]
    return hashlib.sha256(json.dumps(head).encode()).hexdigest()[:16]


def read_jsonl(path: str | Path, parse: Callable[[dict], T]) -> list[T]:
    """`parse` of each line that is not empty. Raises ValueError with file, line and what is wrong.

    A line in another format, which `parse` trips over for want of a key say, is told as such.
    """
    parsed = []
    for number, text in enumerate(_lines(path), start=1):
        if not text.strip():
            continue
        try:
            parsed.append(parse(parse_json(text)))
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}") from error
        except (AttributeError, LookupError, TypeError) as error:
            raise ValueError(f"{path}, line {number}: another format ({error!r})") from error
    return parsed


def _lines(path: str | Path) -> list[str]:
    """The lines of a UTF-8 file. Raises ValueError where it is none."""
    if not Path(path).is_file():
        raise ValueError(f"{path}: no such file")
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from error
    if b"\0" in data:  # as in the UTF-16 of English; JSON in UTF-8 holds none
        raise ValueError(f"{path}, line 1: in UTF-16, not in UTF-8; save the file as UTF-8")
    try:
        text = data.decode("utf-8-sig")  # some editors begin a file with a mark of the encoding
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{path}, line {line}: not in UTF-8; save the file as UTF-8") from error
    # str.splitlines() would also split at U+2028 and its like, which JSON allows inside a text
    return text.split("\n")


def read_demos(path: str | Path) -> list[Demo]:
    """All demos of a JSONL file. Exits with file, line and what is wrong."""
    try:
        demos = read_jsonl(path, from_chat)
    except ValueError as error:
        fail(str(error))
    if not demos:
        fail(f"{path}: there is no log in it; write one a line")
    return demos


def write_demos(demos: list[Demo], path: str | Path) -> None:
    """One line a demo. Raises FileExistsError rather than write over anything."""
    with open(path, "x", encoding="utf-8", newline="\n") as file:
        for demo in demos:
            file.write(json.dumps(to_chat(demo), ensure_ascii=False) + "\n")


def rewrite_demos(demos: list[Demo], folder: Path, name: str) -> None:
    """A stage's demos, in a file of its run; over the file that a killed process has left."""
    file = folder / f"{name.replace(':', '-')}.jsonl"
    file.unlink(missing_ok=True)
    write_demos(demos, file)


def split_tasks(demos: list[Demo], held_out: int) -> tuple[list[Demo], list[Demo]]:
    """(training demos, held-out demos), by task: the last tasks are held out with all their demos.

    Exits where none would be left to train on.
    """
    tasks = list(dict.fromkeys(demo.task for demo in demos))
    if held_out and len(tasks) < 2:
        fail(
            f"all logs are of one task ({tasks[0][:40]!r}), so none can be held out: add logs of"
            ' other tasks, name the tasks apart by a "task" in each line, or use --held-out 0'
        )
    if held_out >= len(tasks):
        fail(
            f"--held-out {held_out} leaves nothing to learn from: these logs are of "
            f"{len(tasks)} tasks"
        )
    kept = set(tasks[: len(tasks) - held_out])
    train = [demo for demo in demos if demo.task in kept]
    held = [demo for demo in demos if demo.task not in kept]
    return train, held
