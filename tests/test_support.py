"""The sixty logs of examples/support: what its generator writes, and as its policy says."""

import json
import random
import re

import pytest

from examples.support import make, tiny
from minprm.logs.reader import from_chat
from minprm.text.chat import Chat

LOGS = [json.loads(line) for line in make.FILE.read_text(encoding="utf-8").splitlines()]


def test_the_file_is_what_the_generator_writes():
    assert [make.log(i) for i in range(make.LOGS)] == LOGS


def test_turns_are_mixed_and_all_tools_are_used():
    turns = [m for log in LOGS for m in log["messages"] if m["role"] == "assistant"]
    calls = [call for turn in turns for call in turn.get("tool_calls", [])]
    assert {c["function"]["name"] for c in calls} == {t["function"]["name"] for t in make.TOOLS}
    kinds = {(bool(turn["content"]), "tool_calls" in turn) for turn in turns}
    assert kinds == {(True, False), (False, True), (True, True)}
    assert sum(not log["won"] for log in LOGS) == 10


def outcome(messages: list[dict]) -> str:
    """What the agent did in the end: its last call but a look, or its last words."""
    for message in reversed(messages):
        for call in message.get("tool_calls", []):
            function = call["function"]
            if function["name"] == "refund":
                return f"refund {json.loads(function['arguments'])['amount']}"
            if function["name"] in ("replace", "escalate"):
                return function["name"]
    return "answer"


def right(messages: list[dict]) -> str:
    """What the policy asks for, read from the log by rules of its own."""
    today = int(re.search(r"day (\d+)", messages[0]["content"])[1])
    said = messages[1]["content"]
    told = [json.loads(m["content"]) for m in messages if m["role"] == "tool"]
    if "come by" in said:
        hour = int(re.search(r"at (\d+)", said)[1])
        return "yes" if 9 <= hour < 17 else "no"
    if "parcel" in said:
        return "escalate" if today - told[0]["since_day"] >= 7 else "answer"
    if not told:
        return "a look at the order"
    order = told[0]
    age = today - order["delivered_on_day"]
    broken = "broken" in said
    if broken and age <= 60 and order["in_stock"]:
        return "replace"
    if age <= (60 if broken else 14):
        return "escalate" if order["price"] > 150 else f"refund {order['price']}"
    return "answer"


@pytest.mark.parametrize("log", LOGS, ids=[log["task"] for log in LOGS])
def test_a_log_is_won_exactly_where_it_follows_the_policy(log):
    messages = log["messages"]
    done = outcome(messages)
    if "come by" in messages[1]["content"]:
        done = messages[-1]["content"].split(",")[0].lower()
    assert (done == right(messages)) == log["won"]


def test_a_narrated_turn_does_what_its_thought_names_with_the_numbers_that_were_read():
    demos = [from_chat(log) for log in LOGS]
    turns = {}
    for demo in demos:
        for step in demo.steps:
            turns.setdefault(tiny.thought_of(step), []).append(step)
    assert turns.keys() == set(tiny.THOUGHTS.values())
    words = tiny.tokenizer()
    chat = Chat(words, tools=make.TOOLS)
    starts = {thought: start for start, thought in tiny.THOUGHTS.items()}
    named = []
    for demo in demos:
        samples = tiny.narrated(demo, turns, chat, random.Random(demo.task))
        for sample, step in zip(samples, demo.steps, strict=True):
            turn = words.decode(sample.ids)
            thought, found, action = turn.partition("</think>")
            if found:
                thought = thought.removeprefix("<think>").strip()
                named.append(thought == tiny.thought_of(step))
                assert all(sample.trained) and starts[thought] in action
            number = re.search(r"[A-E]-\d{3}", demo.messages[1]["content"])
            assert not number or set(re.findall(r"[A-E]-\d{3}", action)) <= {number[0]}
    assert 0.2 < sum(named) / len(named) < 0.45 and len(named) < 139
