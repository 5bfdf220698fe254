"""What flows: `Step` and `Demo` between people and worlds, `Sample` into every loss.

Demos are read and written as JSONL in the chat format that people already have, one line a demo:
`{"task": ..., "messages": [...], "tools": [...]}`.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from minprm.constants import fail

NAN = float("nan")
T = TypeVar("T")


@dataclass(eq=False)
class Sample:
    """What every loss trains on, for SFT, RL and Act-PRM alike. All lists have len(ids), or,
    the last two, nothing."""

    ids: list[int] = field(default_factory=list)  # continues `parent` where there is one
    mask: list[bool] = field(default_factory=list)  # True where the loss is taken
    logprobs: list[float] = field(default_factory=list)  # the sampler's; NaN where it did not draw
    advantages: list[float] = field(default_factory=list)  # of a step, on that step's tokens
    version: int = 0  # which weights wrote it
    parent: "Sample | None" = None  # the prefix it shares with others
    values: list[float] = field(default_factory=list)  # the critic's before the update, if any
    returns: list[float] = field(default_factory=list)  # what those should have been

    def extend(
        self, ids: list[int], advantage: float | None = None, logprobs: list[float] | None = None
    ) -> "Sample":
        """Appends ids, and returns itself. With an advantage they are trained; with log-probs, the
        sampler drew them.

        >>> Sample().extend([5, 6]).extend([7], advantage=1.0).mask
        [False, False, True]
        """
        self.ids += ids
        self.mask += [advantage is not None] * len(ids)
        self.logprobs += logprobs or [NAN] * len(ids)
        self.advantages += [advantage or 0.0] * len(ids)
        return self

    def whole(self) -> list[int]:
        """Ids of all ancestors, oldest first, and its own."""
        return self.ids if self.parent is None else self.parent.whole() + self.ids


def chain(segments: list[list[int]], known: dict) -> Sample:
    """The segments as a chain of Samples. What an earlier chain, noted in `known`, began with is
    shared: the same segments, not equal ones.

    >>> a, b, known = [1, 2], [3], {}
    >>> chain([a, b], known).parent is chain([a, [4]], known).parent
    True
    """
    node, path = None, ()
    for ids in segments:
        path = (*path, id(ids))
        if path not in known:
            known[path] = Sample(parent=node).extend(ids), ids  # kept, so that its id stays its own
        node, _ = known[path]
    return node


@dataclass
class Step:
    """One decision. `state` holds the messages that are new since the action before."""

    state: list[dict]
    thought: str | None
    action: str  # plain text, or one JSON object {"name", "arguments"} a line for tool calls
    reward: float = 0.0

    def observation(self) -> str:
        """The state as plain text."""
        return "\n".join(str(m.get("content") or "") for m in self.state)


@dataclass
class Demo:
    """An expert's log. `messages` is the log as it came; `steps` are its decisions, in order."""

    task: str  # what splits go by
    messages: list[dict]
    tools: list[dict]
    steps: list[Step]

    def with_thoughts(
        self, thoughts: list[str | None], rewards: list[float] | None = None
    ) -> "Demo":
        """The same log with these thoughts, one a step."""
        rewards = rewards or [0.0] * len(thoughts)
        rows = zip(self.steps, thoughts, rewards, strict=True)
        return replace(self, steps=[replace(s, thought=z, reward=r) for s, z, r in rows])

    def until(self, n: int) -> "Demo":
        """Its first n steps."""
        turns = [i for i, m in enumerate(self.messages) if m["role"] == "assistant"]
        return replace(self, messages=self.messages[: turns[n]], steps=self.steps[:n])

    def to_chat(self) -> dict:
        """One line of JSONL. Thoughts go where `from_chat` finds them; the rest is as it came."""
        steps, messages = iter(self.steps), []
        for message in self.messages:
            if message["role"] == "assistant":
                key = "content" if message.get("tool_calls") else "reasoning_content"
                message = {k: v for k, v in message.items() if k != key}
                if (thought := next(steps).thought) is not None or key == "content":
                    message[key] = thought
            messages.append(message)
        return {"task": self.task, "messages": messages, "tools": self.tools}


def from_chat(line: dict) -> Demo:
    """The demo in one parsed line. Raises ValueError with what is wrong.

    >>> log = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "open c"}]
    >>> from_chat({"messages": log}).steps[0].action
    'open c'
    """
    if not isinstance(line, dict) or not isinstance(line.get("messages"), list):
        raise ValueError('a line is an object with a list "messages"')
    steps, state = [], []
    for i, message in enumerate(line["messages"]):
        if not isinstance(message, dict) or message.get("role") not in _ROLES:
            raise ValueError(f"message {i} has no role of {', '.join(_ROLES)}")
        if message["role"] != "assistant":
            if not isinstance(message.get("content"), str):
                raise ValueError(f"message {i} ({message['role']}) has no text content")
            state.append(message)
            continue
        thought, action = _thought_and_action(message, i)
        steps.append(Step(state, thought, action))
        state = []
    if not steps:
        raise ValueError("there is no assistant message, so nothing to learn")
    task = line.get("task") or _task(line["messages"])
    return Demo(str(task), line["messages"], line.get("tools") or [], steps)


_ROLES = ("system", "user", "assistant", "tool")


def _thought_and_action(message: dict, i: int) -> tuple[str | None, str]:
    if calls := message.get("tool_calls"):
        return message.get("content") or None, "\n".join(_call(call, i) for call in calls)
    if not isinstance(message.get("content"), str):
        raise ValueError(f"message {i} (assistant) has neither text content nor tool_calls")
    return message.get("reasoning_content") or None, message["content"]


def _call(call: dict, i: int) -> str:
    try:
        function = call["function"]
        arguments = function["arguments"]
        arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
        return json.dumps({"name": function["name"], "arguments": arguments})
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"message {i} has a tool call without name and JSON arguments") from error


def _task(messages: list[dict]) -> str:
    """A hash of system and first user message: one task is never on both sides of a split."""
    head = [m["content"] for m in messages if m["role"] == "system"][:1]
    head += [m["content"] for m in messages if m["role"] == "user"][:1]
    return hashlib.sha256(json.dumps(head).encode()).hexdigest()[:16]


def read_jsonl(path: str | Path, parse: Callable[[dict], T]) -> list[T]:
    """`parse` of each line that holds something. Raises ValueError with file, line, what is wrong.

    What `parse` raises of a line in another format, a missing key say, is told as such.
    """
    if not Path(path).is_file():
        raise ValueError(f"{path}: no such file")
    parsed = []
    for number, text in enumerate(Path(path).read_text().splitlines(), start=1):
        if text.strip():
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
        file.writelines(json.dumps(demo.to_chat(), ensure_ascii=False) + "\n" for demo in demos)


def split_tasks(demos: list[Demo], held_out: int) -> tuple[list[Demo], list[Demo]]:
    """(train, held out), by task: the last demos' tasks are held out, with all their demos."""
    tasks = list(dict.fromkeys(demo.task for demo in demos))
    kept = set(tasks[: max(len(tasks) - held_out, 1)])
    return [d for d in demos if d.task in kept], [d for d in demos if d.task not in kept]
