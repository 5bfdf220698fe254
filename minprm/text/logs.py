"""Logs on disk: JSONL in the chat format that people already have, one line a demo.

    {"task": ..., "messages": [...], "tools": [...]}

An assistant message is one step. Its action is its `tool_calls`, with the thought in `content`; or,
without tool calls, its action is the `content`, with the thought in `reasoning_content`.
"""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from minprm.constants import fail
from minprm.data import Demo, Step

T = TypeVar("T")
ROLES = ("system", "user", "assistant", "tool")


def from_chat(line: dict) -> Demo:
    """The demo in one parsed line. Raises ValueError with what is wrong.

    >>> log = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "open c"}]
    >>> from_chat({"messages": log}).steps[0].action
    'open c'
    """
    if not isinstance(line, dict) or not isinstance(line.get("messages"), list):
        raise ValueError('a line is an object with a list "messages"')
    steps = []
    state = []
    for i, message in enumerate(line["messages"]):
        if not isinstance(message, dict) or message.get("role") not in ROLES:
            raise ValueError(f"message {i} has no role of {', '.join(ROLES)}")
        if message["role"] == "assistant":
            thought, action = _thought_and_action(message, i)
            steps.append(Step(state, thought, action))
            state = []
        elif isinstance(message.get("content"), str):
            state.append(message)
        else:
            raise ValueError(f"message {i} ({message['role']}) has no text content")
    if not steps:
        raise ValueError("there is no assistant message, so nothing to learn")
    task = line.get("task") or _task(line["messages"])
    return Demo(str(task), line["messages"], line.get("tools") or [], steps)


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
    key = "content" if message.get("tool_calls") else "reasoning_content"
    message = {k: v for k, v in message.items() if k != key}
    # beside tool calls `content` has to be there, as null where nothing was thought
    if thought is not None or key == "content":
        message[key] = thought
    return message


def _thought_and_action(message: dict, i: int) -> tuple[str | None, str]:
    """(thought, action) of the i-th message, an assistant's."""
    calls = message.get("tool_calls")
    if calls:
        action = "\n".join(_call(call, i) for call in calls)
        return message.get("content") or None, action
    if not isinstance(message.get("content"), str):
        raise ValueError(f"message {i} (assistant) has neither text content nor tool_calls")
    return message.get("reasoning_content") or None, message["content"]


def _call(call: dict, i: int) -> str:
    """One tool call as a line of JSON."""
    try:
        function = call["function"]
        arguments = function["arguments"]
        if isinstance(arguments, str):
            arguments = json.loads(arguments)
        return json.dumps({"name": function["name"], "arguments": arguments})
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"message {i} has a tool call without name and JSON arguments") from error


def _task(messages: list[dict]) -> str:
    """A hash of the first system and the first user message: what a split goes by."""
    head = [m["content"] for m in messages if m["role"] == "system"][:1]
    head += [m["content"] for m in messages if m["role"] == "user"][:1]
    return hashlib.sha256(json.dumps(head).encode()).hexdigest()[:16]


def read_jsonl(path: str | Path, parse: Callable[[dict], T]) -> list[T]:
    """`parse` of each line that is not empty. Raises ValueError with file, line and what is wrong.

    A line in another format, which `parse` trips over for want of a key say, is told as such.
    """
    if not Path(path).is_file():
        raise ValueError(f"{path}: no such file")
    parsed = []
    for number, text in enumerate(Path(path).read_text().splitlines(), start=1):
        if not text.strip():
            continue
        try:
            parsed.append(parse(json.loads(text)))
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}") from error
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"{path}, line {number}: another format ({error!r})") from error
    return parsed


def read_demos(path: str | Path) -> list[Demo]:
    """All demos of a JSONL file. Exits with file, line and what is wrong."""
    try:
        return read_jsonl(path, from_chat)
    except ValueError as error:
        fail(str(error))


def write_demos(demos: list[Demo], path: str | Path) -> None:
    """One line a demo. Raises FileExistsError rather than write over anything."""
    with open(path, "x") as file:
        for demo in demos:
            file.write(json.dumps(to_chat(demo), ensure_ascii=False) + "\n")


def rewrite_demos(demos: list[Demo], folder: Path, name: str) -> None:
    """A stage's demos, in a file of its run; over the file that a killed process has left."""
    file = folder / f"{name.replace(':', '-')}.jsonl"
    file.unlink(missing_ok=True)
    write_demos(demos, file)


def split_tasks(demos: list[Demo], held_out: int) -> tuple[list[Demo], list[Demo]]:
    """(training demos, held-out demos), by task: the last tasks are held out with all their demos.

    At least one task stays for training.
    """
    tasks = list(dict.fromkeys(demo.task for demo in demos))
    kept = set(tasks[: max(len(tasks) - held_out, 1)])
    train = [demo for demo in demos if demo.task in kept]
    held = [demo for demo in demos if demo.task not in kept]
    return train, held
