"""Two logs by hand, of calls and of text, and what can be changed in one."""

import random
from copy import deepcopy

CALL = {"id": "c1", "type": "function", "function": {"name": "go", "arguments": '{"to": "hall"}'}}
TOOLS = [{"type": "function", "function": {"name": "go", "parameters": {}}}]
CALLS = {
    "task": "t1",
    "tools": TOOLS,
    "messages": [
        {"role": "system", "content": "rules"},
        {"role": "user", "content": "find the key"},
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": "the hall is near",
            "tool_calls": [CALL],
        },
        {"role": "tool", "content": "a hall", "tool_call_id": "c1"},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "content": "the end", "tool_call_id": "c1"},
    ],
}
TEXT = {
    "task": "t2",
    "tools": [],
    "messages": [
        {"role": "user", "content": "ball under a ."},
        {"role": "assistant", "content": "open a", "reasoning_content": "no swap"},
        {"role": "user", "content": "ball under b ."},
        {"role": "assistant", "content": "open b"},
    ],
}


def mixed() -> dict:
    """CALLS, and something is said beside its first call."""
    log = deepcopy(CALLS)
    log["messages"][2]["content"] = "This way, please."
    return log


def changed(log: dict, rng: random.Random) -> dict:
    """The log after one or two accidents: a value of another type, or a missing one."""
    log = deepcopy(log)
    for _ in range(rng.randint(1, 2)):
        places = list(all_places(log))
        parent, key = rng.choice(places)
        value = rng.choice([None, 5, -1.5, True, "", " ", "x", [], {}, [None], {"a": 1}, "\ud83d"])
        if rng.random() < 0.3:
            del parent[key]
        else:
            parent[key] = value
    return log


def all_places(value):
    """Every (container, key) in a piece of JSON, from the outside in."""
    keys = list(value) if isinstance(value, dict) else range(len(value))
    for key in keys:
        yield value, key
        if isinstance(value[key], dict | list):
            yield from all_places(value[key])
