"""Two logs by hand, what can be changed in one, logs by chance, and what a read log says."""

import random
from copy import deepcopy
from pathlib import Path

from hypothesis import strategies as st

from minprm.text.actions import parts

FILES = Path(__file__).parents[1] / "families"

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


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
WORDS = TEXTS.filter(lambda text: text.strip() and "think>" not in text)
ARGUMENTS = st.dictionaries(TEXTS, TEXTS | st.integers() | st.lists(st.booleans()), max_size=2)
A_CALL = st.tuples(st.sampled_from(["go", "find it"]), ARGUMENTS).map(
    lambda made: {"type": "function", "function": {"name": made[0], "arguments": made[1]}}
)
ANSWERS = st.fixed_dictionaries(
    {"role": st.just("assistant"), "content": WORDS},
    optional={"reasoning_content": WORDS, "tool_calls": st.lists(A_CALL, max_size=2)},
)
TURNS = st.lists(st.tuples(WORDS, ANSWERS, st.lists(TEXTS, max_size=2)), min_size=1, max_size=3)


def conversation(turns: list) -> dict:
    """A log with ids, in which tools answer calls alone."""
    messages = []
    for asked, answer, seen in turns:
        messages += [{"role": "user", "content": asked}, answer]
        calls = answer.get("tool_calls", [])
        for i, (call, text) in enumerate(zip(calls, seen, strict=False)):
            call["id"] = f"c{i}"
            messages.append({"role": "tool", "content": text, "tool_call_id": f"c{i}"})
    return {"task": "t", "messages": messages, "tools": TOOLS}


def steps(demo) -> list[tuple]:
    """(thought, reply, calls) of each step."""
    said = []
    for step in demo.steps:
        reply, calls = parts(step.action)
        said.append((step.thought, reply, [(c["name"], c["arguments"]) for c in calls]))
    return said


def state(demo, number: int = 0) -> list[tuple]:
    return [(message["role"], message["content"]) for message in demo.steps[number].state]
