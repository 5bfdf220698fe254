"""What is in a log is read, is bookkeeping, or is refused; pairings, marks, thoughts, flaws.

The files lie in families/, and their right values stand here.
"""

import json
import random
from collections import Counter
from copy import deepcopy
from pathlib import Path

import pytest
from hypothesis import given, settings

from minprm.commands.logs import main
from minprm.logs.account import secrets
from minprm.logs.atif import to_atif
from minprm.logs.books import AS_THEY_ARE, Reading, reading_of
from minprm.logs.formats import opened
from minprm.logs.reader import from_chat, read_logs, to_openai
from minprm.logs.schemas import is_reconstructed
from minprm.text.actions import parts
from shared.logs import CALLS, FILES, TEXT, TOOLS, TURNS, conversation, state, steps

BERN = ("forecast", {"city": "Bern"})
OSLO = ("forecast", {"city": "Oslo"})
LOOK = ("forecast", {"city": "Bern", "days": 2})
CLOCK = ("clock", {"city": "Bern"})
FLAW = "not learned: "

# file: (logs, tasks, the steps of the first, what the tools answered in it, a note and its count)
CASES = {
    "calls_with_parameters": (3, 3, [(None, "", [LOOK]), (None, "Bern: sun.", [])], ["sun"],
                              {"parameters of a call, read as its arguments": 3}),
    "calls_with_args": (3, 3, [(None, "", [LOOK]), (None, "Bern: sun.", [])], ["sun"],
                        {"args of a call, read as its arguments": 3}),
    "spelled_call_with_parameters": (3, 3, [(None, "", [BERN]), (None, "Bern: sun.", [])], ["sun"],
                                     {}),
    "train_flags": (3, 3, [(None, "sun", [])], [],
                    {"answers of weight 0, read and not learned": 3}),
    "results_out_of_order": (1, 1, [(None, "", [BERN, CLOCK]), (None, "Sunny, 14:05.", [])],
                             ["sunny", "14:05"],
                             {"answers sorted into the order of their calls": 1}),
    "same_tool_results_out_of_order": (1, 1, [(None, "", [BERN, OSLO]),
                                              (None, "Sunny in Bern.", [])], ["sunny", "snow"], {}),
    "turn_split_in_messages": (1, 1, [(None, "Let me look.", [BERN]), (None, "Sunny.", [])],
                               ["sunny"], {"turns in several messages, made one": 1}),
    "result_of_no_call": (1, 1, [(None, "Sunny.", []), (None, "Snow.", [])], ["sunny"],
                          {"answers to no call": 1}),
    "call_without_result": (1, 1, [(None, "", [BERN, OSLO]), (None, "Sunny in Bern.", [])],
                            ["sunny"], {"calls without an answer": 1}),
    "think_closed_only": (3, 3, [("It asks for Bern.", "sun", [])], [], {}),
    "other_thought_tags": (3, 3, [("I say it.", "sun", [])], [], {}),
    "think_in_the_middle": (3, 3, [("I look.", "Sure. sun", [])], [], {}),
    "thought_only_turn": (3, 3, [("I look.", "sun", [])], [], {}),
    "gpt_oss_thinking": (3, 3, [("I need the tool.", "", [BERN]), ("I say it.", "sun", [])],
                         ["sun"], {"thinking, read as reasoning_content": 6}),
    "ollama_chat": (3, 3, [("I look.", "", [BERN]), (None, "sun", [])], ["sun"], {}),
    "tool_error_field": (3, 3, [(None, "", [BERN]), (None, "It did not answer.", [])],
                         ["The forecast timed out."], {}),
    "arrow_merged_nulls": (2, 2, [(None, "", [BERN]), (None, "Sunny.", [])], ["sunny"],
                           {"calls with nulls that the tool's schema does not ask for, left out": 2,
                            "nulls in schemas, left out": 2}),
    "tau_trials_unwrapped": (6, 3, [(None, "It is sun", [])], [], {}),
    "proxy_every_request": (3, 3, [(None, "", [BERN]), (None, "Bern: sun.", []),
                                   (None, "You are welcome.", [])], ["sun"],
                            {"logs that are the beginning of another one, left out": 6}),
    "mcp_input_schema": (3, 3, [(None, "", [BERN]), (None, "sun", [])], ["sun"], {}),
    "ids_are_numbers": (3, 3, [(None, "", [BERN]), (None, "sun", [])], ["sun"], {}),
    "broken_arguments_midway": (3, 3, [(None, "", [BERN]), (None, "sun", [])], ["sun"],
                                {FLAW + "calls that cannot be read, shown as text": 3}),
    "image_in_tool_result": (3, 3, [(None, "", [("map", {"city": "Bern"})])], None, {}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_each_file_is_read_right(name):
    count, tasks, said, answers, notes = CASES[name]
    demos, report = read_logs(FILES / f"{name}.jsonl")
    assert not report.problems and len(demos) == count
    assert len({demo.task for demo in demos}) == tasks and steps(demos[0]) == said
    seen = [m["content"] for m in demos[0].messages if m["role"] == "tool"]
    assert answers is None or seen == answers
    assert notes.items() <= report.normalised.items()
    assert all(step.state for demo in demos for step in demo.steps)


def test_schemas_of_any_notation_are_one():
    for name in ("mcp_input_schema", "arrow_merged_nulls"):
        (demo, *_), _ = read_logs(FILES / f"{name}.jsonl")
        function = demo.tools[0]["function"]
        assert function["parameters"]["properties"]["city"] == {"type": "string"}
        assert "inputSchema" not in function and "null" not in json.dumps(function)
    flat = {
        "name": "find",
        "parameters": {"id": {"type": "int"}, "full": {"type": "bool, optional"}},
    }
    tools = from_chat({**TEXT, "tools": [flat, {"type": "web_search"}]}).tools
    schema = tools[0]["function"]["parameters"]
    assert len(tools) == 1 and schema["required"] == ["id"]
    assert schema["properties"] == {"id": {"type": "integer"}, "full": {"type": "boolean"}}


def test_numbers_and_spaces_of_an_action_stay_to_the_letter():
    (demo,), _ = read_logs(FILES / "numbers_in_arguments.jsonl")
    for number in ('"amount": 129.90,', '"exp": 1e3,', '"neg": -0.0,', "12345678901234567890123"):
        assert number in demo.steps[0].action
    assert parts(demo.steps[0].action)[1][0]["arguments"]["amount"] == 129.9
    log = deepcopy(CALLS)
    call = log["messages"][2]["tool_calls"][0]
    numbers = ('{"to": 129.9}', '{"to": 129.90}')
    calls = [{"function": call["function"] | {"arguments": number}} for number in numbers]
    log["messages"][2]["tool_calls"] = calls
    first, second = from_chat(log).steps[0].action.splitlines()
    assert "129.9}" in first and "129.90}" in second
    log = deepcopy(TEXT)
    log["messages"][1]["content"] = "\n    return 1\n"
    assert from_chat(log).steps[0].action == "    return 1"


# --- fields ---------------------------------------------------------------------------------------


def problem(log: dict, reading: Reading = AS_THEY_ARE) -> str:
    with pytest.raises(ValueError) as refused:
        from_chat(log, reading)
    return str(refused.value)


def lines(folder: Path, *logs: dict) -> Path:
    path = folder / "logs.jsonl"
    path.write_text("".join(json.dumps(log) + "\n" for log in logs))
    return path


def test_a_field_that_is_not_understood_is_refused_until_it_is_dropped_or_mapped(tmp_path):
    calls = deepcopy(CALLS)
    calls["messages"][2]["tool_calls"] = [{"function": {"name": "go", "payload": {"to": "hall"}}}]
    for log, key in [
        ({**TEXT, "hint": "look left"}, "hint"),
        (
            {**TEXT, "metadata": {"run": {"system_prompt": "be brief"}}},
            "metadata.run.system_prompt",
        ),
        ({**TEXT, "lists": {"id": 5, "inner": {"plan": "left"}}}, "lists.inner.plan"),
        (calls, "payload"),
    ]:
        said = problem(log)
        assert f'"{key}" of a' in said and "--map" in said
        advised = said.partition("--drop ")[2].split()[0]
        assert key.endswith(advised)
        assert len(read_logs(lines(tmp_path, log), Reading(drop=[advised]))[0]) == 1
    path = lines(tmp_path, {**TEXT, "hint": "look left"})
    assert len(read_logs(path, Reading(drop=["hint"]))[0]) == 1
    (demo,), _ = read_logs(lines(tmp_path, calls), Reading(map=["payload=arguments"]))
    assert steps(demo)[0][2] == [("go", {"to": "hall"})]
    book = {**TEXT, "createdAt": 5, "usage": {"total_tokens": 9}, "metadata": {"customer": "x"}}
    assert from_chat(book).steps == from_chat(TEXT).steps


def test_logs_are_kept_by_how_they_ended(tmp_path, capsys):
    logs = [{**TEXT, "task": str(i), "won": i > 1, "reward": i / 4} for i in range(5)]
    path = lines(tmp_path, *logs)
    for condition, tasks in (("won", "234"), ("reward>=0.5", "234"), ("reward == 1.0", "4")):
        demos, report = read_logs(path, Reading(keep=[condition]))
        assert [demo.task for demo in demos] == list(tasks) and not report.problems
        assert sum(report.normalised.values()) == 5 - len(tasks)
    assert demos[0].outcome == {"won": True, "reward": 1.0}
    with pytest.raises(SystemExit):
        read_logs(path, Reading(keep=["resolved"]))
    assert "--keep resolved: no log" in capsys.readouterr().err
    for flags in ({"keep": ["won!"]}, {"map": ["a"]}, {"thought": "("}, {"thought": "a"}):
        with pytest.raises(SystemExit):
            reading_of(Reading(**flags))
    assert capsys.readouterr().err.count("\n") == 4


def test_a_task_key_names_the_task():
    log = {**TEXT, "task": "a", "metadata": {"case": 7}}
    assert from_chat(log, Reading(task_key="metadata.case")).task == "7"
    assert "--task-key game: the log has no such field" in problem(log, Reading(task_key="game"))


@pytest.mark.parametrize("mark", ["weight", "train", "trainable", "loss", "loss_weight"])
def test_marks_of_other_trainers_are_obeyed_on_calls_too(mark):
    log = deepcopy(CALLS)
    log["messages"][2][mark] = 0
    demo = from_chat(log)
    assert len(demo.steps) == 1 and demo.steps[0].state[2]["weight"] == 0
    assert demo.steps[0].state[3] == {"role": "user", "content": "a hall"}
    assert '{"name": "go", "arguments": {"to": "hall"}}' in demo.steps[0].state[2]["content"]
    log["messages"][2][mark] = 0.5
    assert len(from_chat(log).steps) == 2
    assert "marked as not to be learned" in problem({**TEXT, "train": False})
    masked = {**TEXT, "loss_mask": [0, 0, 0, 1]}
    assert [step.action for step in from_chat(masked).steps] == ["open b"]
    assert "one mark for each message" in problem({**TEXT, "loss_mask": [1]})


# --- thoughts, secrets, the account ---------------------------------------------------------------


def shown(path: Path, *flags: str, capsys) -> str:
    main([str(path), *flags])
    return capsys.readouterr().out


def test_a_thought_inside_actions_is_told_with_the_flag_that_takes_it_out(capsys):
    path = FILES / "agentgym_loss_flags.jsonl"
    text = shown(path, capsys=capsys)
    assert "6 of 6 answers begin with what reads as a thought" in text
    pattern = text.split("--thought '")[1].split("'")[0]
    demos, _ = read_logs(path, Reading(thought=pattern))
    assert steps(demos[0])[0] == ("I search first.", "Action:\nsearch[lamp Bern]", [])
    assert "reads as a thought" not in shown(path, "--thought", pattern, capsys=capsys)
    assert "--content thought" in shown(FILES / "mini_swe_v2.traj.json", capsys=capsys)


def test_the_account_says_how_much_was_read_and_why_it_differs(capsys):
    text = shown(FILES / "broken_arguments_midway.jsonl", capsys=capsys)
    assert "calls               6        3  3 calls that cannot be read, shown as text" in text
    assert "line 1" in text.split("costs its step")[1]
    assert "The first log as it was written" in text and "| as it was read" in text
    assert '{"role": "user", "content": "Weather in Bern?"}' in text
    text = shown(FILES / "ids_are_numbers.jsonl", capsys=capsys)
    assert "reconstructed from calls and are not what the agent sends" in text
    assert "To look at" not in shown(FILES / "mcp_input_schema.jsonl", capsys=capsys)


def test_what_looks_like_a_secret_is_counted_with_a_place(tmp_path, capsys):
    log = deepcopy(CALLS)
    log["messages"][3]["content"] = (
        "key sk-proj-abcdefghij0123456789AB and card 4111 1111 1111 1111"
    )
    log["messages"][5]["content"] = "order 4111 1111 1111 1112, born 1999"
    found = secrets([from_chat(log)], ["here"])
    assert found == {"a key": (1, "here, message 3"), "a card number": (1, "here, message 3")}
    text = shown(lines(tmp_path, TEXT, log), capsys=capsys)
    assert "1  times what looks like a key; the first: " in text and "line 2, message 3" in text


def test_reconstructed_tools_are_told_from_declared_ones():
    (demo, *_), _ = read_logs(FILES / "ids_are_numbers.jsonl")
    assert all(map(is_reconstructed, demo.tools)) and not any(map(is_reconstructed, TOOLS))
    for parameters in ("x", 5, [1], {"properties": "x"}):
        assert not is_reconstructed({"function": {"name": "go", "parameters": parameters}})


def test_the_account_of_a_call_that_cannot_be_read_is_printed(tmp_path, capsys):
    log = deepcopy(TEXT)
    log["messages"][1]["tool_calls"] = [{"function": "go"}]
    text = shown(lines(tmp_path, log), capsys=capsys)
    assert "calls               1        0  1 calls that cannot be read, shown as text" in text


def test_the_word_for_an_image_stays_beside_calls_that_cannot_be_read():
    log = deepcopy(CALLS)
    log["messages"][2] |= {"tool_calls": [{"function": {"name": "go"}, "id": []}], "image": "a.png"}
    log["messages"][2]["tool_calls"][0]["function"]["arguments"] = "{"
    (step,) = from_chat(log).steps
    assert [m["content"] for m in step.state if m["role"] == "assistant"] == ["go {\n[image]"]


# --- there and back -------------------------------------------------------------------------------


@settings(max_examples=60)
@given(TURNS)
def test_what_was_read_is_written_as_openai_or_atif_and_read_again_alike(turns):
    demo = from_chat({**conversation(turns), "won": True})
    line = to_openai(demo)
    with_ids = from_chat(line)
    assert with_ids.steps == demo.steps or [s.action for s in with_ids.steps]
    for form in (line, to_atif(line)):
        _, chat = opened(json.loads(json.dumps(form)), Counter())
        again = from_chat(chat)
        assert [(s.thought, s.action) for s in again.steps] == [
            (s.thought, s.action) for s in demo.steps
        ]
        assert (again.task, again.tools, again.outcome) == (demo.task, demo.tools, demo.outcome)
        said = [(m["role"], m["content"]) for m in again.messages]
        assert said == [(m["role"], m["content"]) for m in demo.messages]


def test_every_family_is_written_and_read_again_alike(tmp_path, capsys):
    files = sorted(f for f in FILES.iterdir() if f.suffix in (".jsonl", ".json", ".traj"))
    for name in ("variations.jsonl", "surfaces.jsonl"):  # logs with their right values around them
        files.remove(FILES / name)
    for number, file in enumerate(random.Random(0).sample(files, len(files))):
        before, report = read_logs(file)
        for form in ("openai", "atif"):
            if form == "atif" and "answers to no call" in report.normalised:
                continue  # ATIF cannot say them, and says so
            out = tmp_path / f"{number}.{form}.jsonl"
            main([str(file), "--skip-bad", "--to", form, str(out)])
            after, report_after = read_logs(out)
            assert not report_after.problems, file
            for one, other in zip(before, after, strict=True):
                assert (one.task, one.tools, steps(one)) == (other.task, other.tools, steps(other))
                assert [state(one, i) for i in range(len(one.steps))] == [
                    state(other, i) for i in range(len(other.steps))
                ], file
    capsys.readouterr()


def test_a_step_that_relabelling_does_not_learn_is_not_learned_when_its_log_is_read():
    log = {**CALLS, "rewards": [0.9, 0.1], "learned": [True, False]}
    demo = from_chat(deepcopy(log))
    assert [step.learned for step in demo.steps] == [True, False][: len(demo.steps)]
