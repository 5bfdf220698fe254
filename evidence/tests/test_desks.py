"""The desks: their logs, their template, and what counts as a right thought."""

import json
from itertools import pairwise

import pytest
from jinja2 import Environment

from evidence import desks
from evidence.experiments.ground import ARMS, EXPERTS, TEST, write_logs
from examples import refund


def read(file) -> list[dict]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("desk", desks.DESKS)
def test_no_log_of_the_test_is_learned_from_and_all_arms_have_the_same_test(desk, tmp_path):
    tests = []
    for arm in ARMS:
        thoughts = write_logs(desk, arm, tmp_path / arm)
        logs, test = read(tmp_path / arm / "logs.jsonl"), read(tmp_path / arm / "test.jsonl")
        assert len(test) == len(thoughts) == TEST
        asked = {str(log["messages"][:-1]) for log in map(refund.without_thoughts, logs)}
        assert len(asked) == len(logs) and not asked & {str(log["messages"][:-1]) for log in test}
        with_thoughts = "reasoning_content" in logs[0]["messages"][-1]
        assert with_thoughts == (arm in EXPERTS)
        tests.append(test)
    assert all(test == tests[0] for test in tests)


def test_shuffled_thoughts_are_the_experts_and_hardly_ever_right(tmp_path):
    logs = []
    for arm in EXPERTS:
        write_logs("refund", arm, tmp_path / arm)
        logs.append(read(tmp_path / arm / "logs.jsonl"))
    thoughts = [[log["messages"][-1]["reasoning_content"] for log in of_arm] for of_arm in logs]
    assert sorted(thoughts[0]) == sorted(thoughts[1])
    assert sum(map(desks.is_right, *thoughts)) < 16  # of 160: amounts that are equal by chance
    assert [log["messages"][:-1] for log in logs[0]] == [log["messages"][:-1] for log in logs[1]]


def test_tasks_are_the_logs_that_are_learned_from(tmp_path):
    write_logs("refund", "rl", tmp_path)
    logs, tasks = read(tmp_path / "logs.jsonl"), read(tmp_path / "tasks.jsonl")
    for log, task in zip(logs, tasks, strict=True):
        texts = [task[name] for name in ("system", "prompt", "reference")]
        assert texts == [message["content"] for message in log["messages"]]


@pytest.mark.parametrize("desk", desks.DESKS)
def test_an_experts_thought_is_right_and_hardly_ever_that_of_another_log(desk):
    thoughts = [log["messages"][-1]["reasoning_content"] for log in desks.DESKS[desk](0)[:100]]
    assert all(desks.is_right(thought, thought) for thought in thoughts)
    others = [desks.is_right(*pair) for pair in pairwise(thoughts)]
    assert sum(others) < 50  # of the four kinds of thoughts at returns every fourth is the same
    assert not any(desks.is_right(thought, "") for thought in thoughts)


def test_the_template_writes_a_call_and_its_result():
    log = desks.orders(0)[0]
    made = Environment().from_string(desks.TEMPLATE)
    calls = [dict(c["function"]) for m in log["messages"] for c in m.get("tool_calls", [])]
    for call in calls:
        call["arguments"] = json.loads(call["arguments"])
    messages = [{"role": m["role"], "content": m["content"]} for m in log["messages"]]
    messages[2]["tool_calls"] = [{"function": call} for call in calls]
    text = made.render(messages=messages, tools=log["tools"])
    number = calls[0]["arguments"]["number"]
    assert f'<tool_call>{{"name": "find_order", "arguments": {{"number": "{number}"}}}}' in text
    assert f"<tool_response>{log['messages'][3]['content']}</tool_response><|im_end|>" in text
    assert text.count("<|im_start|>") == 5
