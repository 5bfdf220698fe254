"""Logs in, logs out: nothing is lost, nothing is written over, and a bad line says which it is."""

import json

import pytest

from minprm.text.logs import from_chat, read_demos, split_tasks, to_chat, write_demos

CALL = {"id": "c1", "type": "function", "function": {"name": "go", "arguments": '{"to": "hall"}'}}
TOOLS = [{"type": "function", "function": {"name": "go", "parameters": {}}}]
CALLS = {
    "task": "t1",
    "tools": TOOLS,
    "messages": [
        {"role": "system", "content": "rules"},
        {"role": "user", "content": "find the key"},
        {"role": "assistant", "content": "the hall is near", "tool_calls": [CALL]},
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


@pytest.mark.parametrize("line", [CALLS, TEXT])
def test_a_log_comes_out_as_it_went_in(line):
    assert to_chat(from_chat(line)) == line


def test_every_action_is_a_step_the_last_one_too():
    assert [s.action for s in from_chat(TEXT).steps] == ["open a", "open b"]
    steps = from_chat(CALLS).steps
    assert [json.loads(s.action)["arguments"] for s in steps] == [{"to": "hall"}] * 2
    assert [s.thought for s in steps] == ["the hall is near", None]
    assert [m["role"] for m in steps[0].state] == ["system", "user"]


@pytest.mark.parametrize("line", [CALLS, TEXT])
def test_thoughts_go_where_they_are_read_from(line):
    demo = from_chat(line).with_thoughts(["first", "second"])
    again = from_chat(json.loads(json.dumps(to_chat(demo))))
    assert [s.thought for s in again.steps] == ["first", "second"]
    assert [s.action for s in again.steps] == [s.action for s in from_chat(line).steps]


def test_a_file_is_read_back_and_never_written_over(tmp_path):
    path = tmp_path / "demos.jsonl"
    write_demos([from_chat(CALLS), from_chat(TEXT)], path)
    assert [to_chat(d) for d in read_demos(path)] == [CALLS, TEXT]
    before = path.read_text()
    with pytest.raises(FileExistsError):
        write_demos([from_chat(TEXT)], path)
    assert path.read_text() == before


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("not json", "Expecting value"),
        ("[]", "messages"),
        ('{"messages": [{"content": "x"}]}', "role"),
        ('{"messages": [{"role": "user", "content": 3}]}', "no text content"),
        ('{"messages": [{"role": "user", "content": "x"}]}', "nothing to learn"),
        ('{"messages": [{"role": "assistant", "content": null}]}', "neither"),
        ('{"messages": [{"role": "assistant", "tool_calls": [{"function": {}}]}]}', "tool call"),
    ],
)
def test_a_malformed_line_names_file_line_and_reason(line, said, tmp_path, capsys):
    path = tmp_path / "demos.jsonl"
    path.write_text(json.dumps(TEXT) + "\n" + line + "\n")
    with pytest.raises(SystemExit) as stop:
        read_demos(path)
    error = capsys.readouterr().err
    assert stop.value.code == 2
    assert f"{path}, line 2" in error and said in error


def test_a_task_is_on_one_side_of_the_split_only():
    lines = [{**TEXT, "task": t} for t in "aabbcc"]
    train, held_out = split_tasks([from_chat(line) for line in lines], held_out=1)
    assert [d.task for d in train] == list("aabb")
    assert [d.task for d in held_out] == list("cc")


def test_a_log_without_a_task_is_known_by_its_first_messages():
    bare = {"messages": TEXT["messages"]}
    longer = {"messages": [*TEXT["messages"], {"role": "user", "content": "more"}]}
    other = {"messages": [{"role": "user", "content": "else"}, *TEXT["messages"]]}
    assert from_chat(bare).task == from_chat(longer).task != from_chat(other).task


def test_a_log_is_cut_before_a_step_and_stays_a_log():
    roles = ("user", "assistant") * 2
    messages = [{"role": r, "content": c} for r, c in zip(roles, "a1b2", strict=True)]
    whole = from_chat({"messages": messages})
    cut = whole.until(1)
    assert [s.action for s in cut.steps] == ["1"] and cut.task == whole.task
    assert from_chat(to_chat(cut)).steps == cut.steps
