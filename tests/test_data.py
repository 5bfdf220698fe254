"""Logs in, logs out: nothing is lost, nothing is written over, and a bad line says which it is."""

import json
import random
from copy import deepcopy

import pytest

from minprm.data import Sample, chain
from minprm.logs.books import Reading
from minprm.logs.reader import from_chat, read_demos, read_rows, split_tasks, to_chat, write_demos
from minprm.text.actions import copies, exact_match, parts
from shared.logs import CALL, CALLS, TEXT, changed, mixed


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


def test_what_is_said_beside_a_call_is_part_of_the_action_and_never_replaced():
    demo = from_chat(mixed())
    go = {"name": "go", "arguments": {"to": "hall"}}
    assert [parts(s.action) for s in demo.steps] == [("This way, please.", [go]), ("", [go])]
    assert to_chat(demo) == mixed()
    renewed = to_chat(demo.with_thoughts(["no key here", None]))
    assert "the hall is near" not in json.dumps(renewed)
    first, second = (m for m in renewed["messages"] if m["role"] == "assistant")
    assert first["content"] == "This way, please." and second["content"] is None
    assert first["reasoning_content"] == "no key here" and "reasoning_content" not in second


def test_content_thought_takes_it_for_one_where_there_is_no_other():
    log = mixed()
    steps = from_chat(log, Reading("thought")).steps
    assert steps[0].thought == "the hall is near" and steps[0].action.startswith("This way")
    del log["messages"][2]["reasoning_content"]
    demo = from_chat(log, Reading("thought"))
    assert [s.thought for s in demo.steps] == ["This way, please.", None]
    assert demo.steps[0].action == demo.steps[1].action
    assert from_chat(to_chat(demo)) == demo  # a later reader need not be told


def test_a_log_is_read_again_as_it_was_read_where_an_empty_thought_stands_before_another():
    content = "<think>\n\n</think>\n\n<think>hm</think>open c"
    said = {"role": "assistant", "content": content}
    demo = from_chat({"messages": [{"role": "user", "content": "hi"}, said]})
    assert (demo.steps[0].thought, demo.steps[0].action) == ("hm", "open c")
    assert from_chat(to_chat(demo)) == demo
    said["content"] = "<think>a</think><think>b</think>open c"
    with pytest.raises(ValueError, match="more than one thought"):
        from_chat({"messages": [{"role": "user", "content": "hi"}, said]})


def test_an_action_that_is_nested_without_end_is_compared_as_text():
    deep = "[" * 100_000
    assert exact_match(deep, "open c") == 0.0 and exact_match(deep, deep) == 1.0
    assert copies(deep, deep, "") and not copies("open c", deep, "")


def test_a_file_is_read_back_and_never_written_over(tmp_path):
    path = tmp_path / "demos.jsonl"
    write_demos([from_chat(CALLS), from_chat(TEXT)], path)
    assert [to_chat(d) for d in read_demos(path)[0]] == [CALLS, TEXT]
    before = path.read_text()
    with pytest.raises(FileExistsError):
        write_demos([from_chat(TEXT)], path)
    assert path.read_text() == before


def refused(path, capsys) -> str:
    """The one sentence with which reading the file ends."""
    with pytest.raises(SystemExit) as stop:
        read_demos(path)
    error = capsys.readouterr().err
    assert stop.value.code == 2 and error.count("\n") == 1
    return error


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("not json", "Expecting value"),
        ("[]", "messages"),
        ("[" * 100_000 + "]" * 100_000, "nested"),
        ('{"messages": [{"content": "x"}]}', "role"),
        ('{"messages": [{"role": "user", "content": 3}]}', "no text content"),
        ('{"messages": [{"role": "user", "content": "x"}]}', "to learn"),
        ('{"messages": [{"role": "user", "content": NaN}]}', "no text content"),
        ('{"messages": [{"role": "assistant", "content": "open a"}]}', "begins with"),
    ],
)
def test_a_malformed_line_names_file_line_and_reason(line, said, tmp_path, capsys):
    path = tmp_path / "demos.jsonl"
    path.write_text(json.dumps(TEXT) + "\n" + line + "\n")
    error = refused(path, capsys)
    assert f"{path}, line 2" in error and said in error


def call(**fields) -> list[dict]:
    """The tool calls of a message, which are one call: CALL with other fields."""
    return [{"function": {**CALL["function"], **fields}}]


@pytest.mark.parametrize(
    ("log", "fields", "said"),
    [
        (TEXT, {"content": None}, "neither text"),
        (TEXT, {"content": " \n"}, "empty action"),
        (TEXT, {"reasoning_content": 5}, "reasoning_content is no text"),
        (CALLS, {"content": ["the", 5]}, "no text content"),
        (CALLS, {"content": "<think>to the garden</think>"}, "keep one"),
        (CALLS, {"content": '{"name": "go", "arguments": {}}'}, "reads as a tool call"),
        (CALLS, {"tool_calls": [], "content": ""}, "empty action"),
        (CALLS, {"tool_calls": "go"}, "tool_calls are no list"),
        (CALLS, {"tool_calls": [{"function": {}}]}, "without name"),
        (CALLS, {"tool_calls": [None]}, "without name"),
        (CALLS, {"tool_calls": call(name=None)}, "name is no text"),
        (CALLS, {"tool_calls": call(arguments="[1]")}, "no object"),
        (CALLS, {"tool_calls": call(arguments="{")}, "bad arguments"),
        (
            CALLS,
            {"tool_calls": call(arguments='{"to": ' + "[" * 5000 + "]" * 5000 + "}")},
            "nested",
        ),
        (CALLS, {"tool_calls": call(arguments='{"to": "\\ud83d"}')}, "half a character"),
    ],
)
def test_a_step_that_cannot_be_learned_names_its_message(log, fields, said, tmp_path, capsys):
    """The fields are those of the first answer: message 1 of TEXT, message 2 of CALLS. It is the
    only one, because others would be learned."""
    bad = deepcopy(log)
    i = [message["role"] for message in bad["messages"]].index("assistant")
    bad["messages"][i] |= fields
    del bad["messages"][i + 1 :]
    path = tmp_path / "demos.jsonl"
    path.write_text(json.dumps(bad) + "\n")
    error = refused(path, capsys)
    assert f"{path}, line 1: message {i}" in error and said in error


@pytest.mark.parametrize(
    ("field", "value"), [("tools", 5), ("tools", ["go"]), ("task", ["a"]), ("task", 0.5)]
)
def test_a_field_of_the_line_that_is_of_another_type_is_named(field, value, tmp_path, capsys):
    path = tmp_path / "demos.jsonl"
    path.write_text(json.dumps({**TEXT, field: value}) + "\n")
    error = refused(path, capsys)
    assert f"{path}, line 1" in error and f'"{field}"' in error


def test_a_file_without_a_log_is_refused(tmp_path, capsys):
    path = tmp_path / "demos.jsonl"
    path.write_text("\n\n")
    assert "no log" in refused(path, capsys)


def test_a_damaged_log_is_read_or_refused_in_one_sentence(tmp_path, capsys):
    """What was read can be written, and says the same when it is read again."""
    rng = random.Random(0)
    read = 0
    for i in range(300):
        path = tmp_path / f"{i}.jsonl"
        path.write_text(json.dumps(changed(rng.choice([CALLS, TEXT]), rng)) + "\n")
        try:
            (demo,), _ = read_demos(path)
        except SystemExit as stop:
            error = capsys.readouterr().err
            assert stop.code == 2 and error.count("\n") == 1 and f"{path}, line 1: " in error
            continue
        read += 1
        write_demos([demo], tmp_path / "again.jsonl")
        (again,), _ = read_demos(tmp_path / "again.jsonl")
        (tmp_path / "again.jsonl").unlink()
        assert again == demo
    assert 20 < read < 280  # both happen


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\u0085"])
def test_a_character_that_is_a_line_break_to_some_stays_inside_its_text(mark, tmp_path):
    log = deepcopy(TEXT)
    log["messages"][0]["content"] = log["messages"][1]["content"] = f"one{mark}two"
    write_demos([from_chat(log)], tmp_path / "demos.jsonl")
    (demo,), _ = read_demos(tmp_path / "demos.jsonl")
    assert to_chat(demo) == log


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "latin-1"])
def test_a_file_in_another_encoding_says_which_one_to_save_in(encoding, tmp_path, capsys):
    log = deepcopy(TEXT)
    log["messages"][0]["content"] = "où est la balle ?"
    path = tmp_path / "demos.jsonl"
    text = json.dumps(TEXT) + "\n" + json.dumps(log, ensure_ascii=False) + "\n"
    path.write_bytes(text.encode(encoding))
    error = refused(path, capsys)
    assert error.startswith(str(path)) and "save the file as UTF-8" in error
    assert ("line 2" in error) is (encoding == "latin-1")


def test_a_mark_of_the_encoding_and_windows_line_ends_are_read(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}\r\n\r\n{"a": 2}\r\n')
    assert read_rows(path, lambda row: row["a"]) == [1, 2]
    with pytest.raises(ValueError, match=r"^nowhere\.jsonl: no such file"):
        read_rows("nowhere.jsonl", str)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"b": 1}, 'line 1: another format: "a" is missing'),
        ({"a": 1}, "line 1: another format: one of the fields a has another type"),
        (3, "line 1: another format: a row is an object, {...}"),
    ],
)
def test_a_row_in_another_format_is_told_without_pythons_names(row, said, tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(row))
    with pytest.raises(ValueError, match="another format") as refused:
        read_rows(path, lambda row: row["a"].strip())
    assert said in str(refused.value) and "Error" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (".", "a folder, and one file is read here; name a file in it"),
        ("x*.jsonl", "a pattern is not read here; name one file"),
        ("hf://openai/gsm8k", "a data set of the hub as owner/name or owner/name:configuration"),
    ],
)
def test_what_is_no_file_is_called_what_it_is(name, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=said):
        read_rows(name, str)


def test_a_task_is_on_one_side_of_the_split_only():
    lines = [{**TEXT, "task": t} for t in "aabbcc"]
    train, held_out = split_tasks([from_chat(line) for line in lines], held_out=1)
    assert [d.task for d in train] == list("aabb")
    assert [d.task for d in held_out] == list("cc")


def test_logs_of_one_task_cannot_be_held_out(capsys):
    demos = [from_chat({**TEXT, "task": "a"}) for _ in range(3)]
    assert split_tasks(demos, held_out=0) == (demos, [])
    with pytest.raises(SystemExit):
        split_tasks(demos, held_out=1)
    assert "one task ('a')" in capsys.readouterr().err


def test_a_task_may_be_the_number_0():
    other = {"messages": [{"role": "user", "content": "else"}, *TEXT["messages"]], "task": 0}
    assert from_chat({**TEXT, "task": 0}).task == from_chat(other).task == "0"


def test_a_history_of_thousands_of_turns_is_whole():
    segments = [[i] for i in range(2000)]
    assert chain(segments, {}).whole() == list(range(2000))
    child = Sample(parent=Sample(parent=Sample().extend([1]))).extend([2])  # one holds nothing
    assert child.whole() == [1, 2]


def test_a_log_without_a_task_is_known_by_its_first_messages():
    bare = {"messages": TEXT["messages"]}
    longer = {"messages": [*TEXT["messages"], {"role": "user", "content": "more"}]}
    other = {"messages": [{"role": "user", "content": "else"}, *TEXT["messages"]]}
    assert from_chat(bare).task == from_chat(longer).task != from_chat(other).task
    unlike = [{**TEXT["messages"][2], "content": "else"} if i == 2 else message
              for i, message in enumerate(TEXT["messages"])]  # fmt: skip
    assert from_chat({"messages": unlike}).task == from_chat(bare).task


def test_a_log_is_cut_before_a_step_and_stays_a_log():
    roles = ("user", "assistant") * 2
    messages = [{"role": r, "content": c} for r, c in zip(roles, "a1b2", strict=True)]
    whole = from_chat({"messages": messages})
    cut = whole.until(1)
    assert [s.action for s in cut.steps] == ["1"] and cut.task == whole.task
    assert from_chat(to_chat(cut)).steps == cut.steps
