"""The families of logs: each file in a family's own shape says the same conversation.

The files lie in families/. Their right values stand in the table here, worked out by hand from the
shapes; further shapes of a family (another tool, several calls, no thought) stand beside as dicts.
"""

import gzip
import json
import random
import zipfile
from pathlib import Path

import pytest

from minprm.logs.books import Reading
from minprm.logs.reader import read_logs
from shared.logs import FILES, changed, state, steps

RULES = "Answer in one line. Never give a forecast beyond three days."
BERN = ("forecast", {"city": "Bern"})
LOOK = ("forecast", {"city": "Bern", "days": 2})


def read(*logs, folder: Path, name: str = "logs.jsonl"):
    """(demos, report) of these values, one a line."""
    path = folder / name
    path.write_text("".join(json.dumps(log) + "\n" for log in logs), encoding="utf-8")
    return read_logs(path)


# file: (format, logs, the steps of the first, the state of its first, the answer that it sees last)
ASKED = ("user", "Weather in Bern?")
RULED = [("system", RULES), ASKED]
SHELL = [("system", "You use a shell."), ("user", "Which files are here?")]
CASES = {
    "anthropic_messages.jsonl": (
        "Anthropic", 3, [("I need the tool.", "Let me look.", [LOOK]), (None, "Bern: sun.", [])],
        RULED, "sun"),
    "anthropic_system_beside.jsonl": (
        "chat", 3, [(None, "I only look three days ahead.", [])],
        [("system", RULES), ("user", "Weather in Bern next month?")], None),
    "sharegpt_system_prompt_key.jsonl": (
        "ShareGPT", 3, [(None, "I only look three days ahead.", [])],
        [("system", RULES), ("user", "Weather in Bern next month?")], None),
    "proxy_messages_and_response.jsonl": (
        "chat", 3, [(None, "", [BERN]), (None, "Bern: sun.", [])], RULED, "sun"),
    "proxy_request_and_response.jsonl": ("chat", 3, [(None, "", [BERN])], [ASKED], None),
    "completion_beside.jsonl": (
        "chat", 3, [(None, "Today or tomorrow?", []), (None, "sun", [])], [ASKED], None),
    "bedrock_converse.jsonl": (
        "Bedrock", 3, [(None, "I look.", [BERN]), (None, "sun", [])], RULED, '{"sky": "sun"}'),
    "text_parts_of_a_word.jsonl": ("chat", 1, [(None, "Sunny.", [])], [ASKED], None),
    "claude_code_session.jsonl": (
        "Claude Code", 1,
        [("List them.", "I list them.", [("Bash", {"command": "ls"})]),
         (None, "Two: a.py and b.py.", [])],
        [("user", "Which files are here?")], "a.py\nb.py"),
    "codex_rollout.jsonl": (
        "Codex", 1,
        [("List them.", "", [("shell", {"command": ["ls"]})]), (None, "One: a.py.", [])],
        [("system", "Be brief."), ("user", "Which files are here?")], "a.py"),
    "responses_items.jsonl": (
        "Responses", 3, [(None, "", [BERN]), (None, "Bern: sun.", [])], [ASKED], "sun"),
    "gemini_contents.jsonl": (
        "Gemini", 3, [(None, "", [BERN]), (None, "Bern: sun.", [])], RULED, '{"sky": "sun"}'),
    "langchain_types.jsonl": (
        "LangChain", 3, [(None, "", [BERN]), (None, "Bern: sun.", [])], RULED, "sun"),
    "calls_in_additional_kwargs.jsonl": (
        "LangChain", 3, [(None, "I look.", [BERN]), (None, "sun", [])], [ASKED], "sun"),
    "otel_genai_parts.jsonl": (
        "OpenTelemetry", 3, [("I look.", "", [BERN]), (None, "Bern: sun.", [])], RULED, "sun"),
    "tau_bench.json": (
        "tau-bench", 6, [(None, "", [BERN]), (None, "It is sun", [])],
        [("system", RULES), ("user", "Weather in Bern, please (0)")], "sun"),
    "tau2_simulations.json": (
        "tau2-bench", 3, [(None, "", [BERN]), (None, "Bern: sun.", [])],
        [("assistant", "Hi! How can I help?"), ASKED], "sun"),
    "user_calls_tau2.jsonl": (
        "tau2-bench", 3, [(None, "Switch the airplane mode off.", []), (None, "Good.", [])],
        [("system", RULES), ("user", "My phone in Bern has no signal.")], None),
    "verifiers_results.jsonl": (
        "verifiers", 3, [(None, "", [BERN]), (None, "Bern: sun.", [])], RULED, "sun"),
    "inspect_log.json": (
        "Inspect", 3, [("I look.", "Looking.", [BERN]), (None, "It did not answer.", [])],
        RULED, "The forecast timed out."),
    "openhands_events.json": (
        "OpenHands", 1,
        [("I look.", "", [("execute_bash", {"command": "ls"})]), (None, "One: a.py.", [])],
        [("user", "Which files?")], "a.py"),
    "swe_agent.traj": (
        "SWE-agent", 1,
        [("I look.", "", [("bash", {"command": "ls"})]), ("Done.", "", [("submit", {})])],
        [("system", "You use a shell."), ("user", "A demonstration: ls shows files."),
         ("user", "Which files are here?")], "a.py"),
    "mini_swe_v2.traj.json": (
        "mini-swe-agent", 1, None, SHELL, "a.py"),
    "conversations_with_roles.jsonl": ("chat", 3, [(None, "sun", [])], [ASKED], None),
    "agentgym_loss_flags.jsonl": (
        "ShareGPT", 3, None,
        [("user", "You act in a shop. Answer with Thought and Action."),
         ("assistant", "OK. I will."), ("user", "Find a lamp of Bern.")], None),
    "hermes_tools_in_system.jsonl": (
        "ShareGPT", 3, [(None, "", [BERN]), (None, "Bern: sun.", [])], None,
        '{"name": "forecast", "content": {"sky": "sun"}}'),
    "toolace_text_calls.jsonl": (
        "ShareGPT", 3, [(None, '[forecast(city="Bern")]', []), (None, "Bern: sun.", [])], None,
        '[{"name": "forecast", "results": {"sky": "sun"}}]'),
    "nan_in_metadata.jsonl": ("chat", 2, [(None, "Hello.", [])], [("user", "Hi there")], None),
    "gz.jsonl.gz": ("chat", 3, [(None, "sun", [])], [ASKED], None),
    "bom_crlf.jsonl": (
        "chat", 3, [(None, "sun\r\n- dry", [])], [("user", "Weather\r\nin Bern?")], None),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_each_family_is_read_as_it_is(name):
    family, count, said, shown, seen = CASES[name]
    demos, report = read_logs(FILES / name)
    assert not report.problems and report.formats == {family: count} and len(demos) == count
    assert said is None or steps(demos[0]) == said
    assert shown is None or state(demos[0]) == shown
    if seen is not None:
        answers = [m for demo in demos[:1] for m in demo.messages if m["role"] == "tool"]
        assert answers[-1]["content"] == seen and all(len(demo.steps) == 2 for demo in demos)
    assert all(step.state for demo in demos for step in demo.steps)


VARIATIONS = [json.loads(line) for line in (FILES / "variations.jsonl").read_text().splitlines()]


SURFACES = [json.loads(line) for line in (FILES / "surfaces.jsonl").read_text().splitlines()]


def in_short(demo) -> list[str]:
    """Each message as "role:text"; a step as "a:thought>text|calls", "!text" if not learned."""
    lines = []
    left = list(demo.steps)
    for message in demo.messages:
        text = message["content"]
        if message["role"] != "assistant":
            lines.append(f"{message['role'][0]}:{text}")
            continue
        greets = not any(line.startswith("u:") for line in lines)
        if message.get("weight") == 0 or greets:
            lines.append(f"!{text or ''}")
            continue
        calls = []
        for call in message.get("tool_calls", ()):
            arguments = json.dumps(json.loads(call["function"]["arguments"]))
            calls.append(call["function"]["name"] + arguments)
        lines.append(f"a:{left.pop(0).thought or ''}>{text or ''}|{';'.join(calls)}")
    return lines


@pytest.mark.parametrize("row", SURFACES, ids=[row["name"] for row in SURFACES])
def test_the_same_kinds_with_another_surface_lose_nothing(row, tmp_path):
    file = tmp_path / f"logs.{row['ending']}"
    file.write_text(row["file"], encoding="utf-8")
    demos, report = read_logs(file)
    assert not report.problems
    assert sorted(map(in_short, demos), key=str) == sorted(row["read"], key=str)


@pytest.mark.parametrize("row", VARIATIONS, ids=[row["name"] for row in VARIATIONS])
def test_other_shapes_of_a_family_say_the_same(row, tmp_path):
    """Another order of keys, several calls, a request with its response, an envelope around."""
    path = tmp_path / "log.jsonl"
    lines = row.get("lines") or [row["log"]]
    path.write_text("\n".join(map(json.dumps, lines)))
    demos, report = read_logs(path)
    demo = demos[0]
    # Claude Code's session has started an agent of its own, whose log is another one
    assert not report.problems and report.formats == {row["family"]: 1 + (len(lines) == 12)}
    assert [tool["function"]["name"] for tool in demo.tools] == row["tools"]
    assert len(demo.steps) == len(row["steps"])
    for number, (step, (thought, reply, calls)) in enumerate(
        zip(row["steps"], steps(demo), strict=True)
    ):
        assert [list(message) for message in state(demo, number)] == step[0]
        if step[2] is not None:
            assert step[1:] == [thought, reply, [list(one) for one in calls]]


@pytest.mark.parametrize("row", VARIATIONS, ids=[row["name"] for row in VARIATIONS])
def test_the_order_of_keys_says_nothing_and_damage_is_no_traceback(row, tmp_path):
    rng = random.Random(0)
    lines = row.get("lines") or [row["log"]]
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(json.dumps(shuffled(line, rng)) for line in lines))
    demos, report = read_logs(path)
    assert not report.problems and row["family"] in report.formats
    assert len(demos[0].steps) == len(row["steps"])
    for _ in range(20):
        path.write_text("\n".join(json.dumps(changed(line, rng)) for line in lines))
        read_logs(path)


def shuffled(tree, rng: random.Random):
    """The same JSON with its keys in another order."""
    if isinstance(tree, list):
        return [shuffled(entry, rng) for entry in tree]
    if not isinstance(tree, dict):
        return tree
    keys = rng.sample(list(tree), len(tree))
    return {key: shuffled(tree[key], rng) for key in keys}


def test_answers_between_tags_are_answers_whoever_says_them(tmp_path):
    """Some programs write it as a message of the user, as Qwen's template does."""
    call = '<tool_call>\n{"name": "forecast", "arguments": {"city": "Bern"}}\n</tool_call>'
    told = "<tool_response>\nsun\n</tool_response>"
    said = [("user", "Weather in Bern?"), ("assistant", call), ("user", told), ("assistant", "sun")]
    log = {"messages": [{"role": role, "content": text} for role, text in said]}
    (demo,), report = read(log, folder=tmp_path)
    assert not report.problems and state(demo, 1) == [("tool", "sun")]


def test_an_answer_that_the_log_holds_already_is_read_once(tmp_path):
    """A proxy may log the answer as a message and as the response; one that differs is named."""
    asked = {"role": "user", "content": "Weather in Bern?"}
    answer = {"role": "assistant", "content": "sun"}
    response = {"choices": [{"message": answer}]}
    for log in (
        {"messages": [asked, answer], "response": response},
        {"request": {"messages": [asked]}, "response": {"messages": [asked, answer]}},
    ):
        (demo,), _ = read(log, folder=tmp_path)
        assert steps(demo) == [(None, "sun", [])]
    _, report = read({"messages": [asked, answer], "completion": "rain"}, folder=tmp_path)
    assert '"completion" of a log: not understood' in report.problems[0].reason


# --- a reader of the user's own -------------------------------------------------------------------

OWN = """
def mine(value):
    if "talk" not in value:
        return None
    return {"messages": [{"role": who, "content": text} for who, text in value["talk"]]}

def many(value):
    return [mine(one) for one in value["talks"]]

def two(value, more): return None
def wrong(value): return value["nothing"]
"""
TALK = {"talk": [["user", "Weather in Bern?"], ["assistant", "sun"]]}


def test_a_reader_of_ones_own_is_asked_first(tmp_path):
    reader = tmp_path / "reader.py"
    reader.write_text(OWN)
    chat = {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}
    path = tmp_path / "logs.jsonl"
    path.write_text(json.dumps(TALK) + "\n" + json.dumps(chat) + "\n")
    demos, report = read_logs(path, Reading(format=f"{reader}:mine"))
    assert not report.problems and [steps(demo)[0][1] for demo in demos] == ["sun", "b"]
    path.write_text(json.dumps({"talks": [TALK, TALK]}))
    assert len(read_logs(path, Reading(format=f"{reader}:many"))[0]) == 2


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("chat", "--format chat: no such name. Names: FILE.py:NAME"),
        ("reader.py:none", "defines no none"),
        ("reader.py:two", "it has to take a JSON value alone"),
        ("reader.py:wrong", "reader.py:wrong raised KeyError"),
    ],
)
def test_a_reader_that_cannot_read_ends_in_a_sentence(name, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("reader.py").write_text(OWN)
    Path("logs.jsonl").write_text(json.dumps(TALK))
    with pytest.raises(SystemExit):
        read_logs("logs.jsonl", Reading(format=name))
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


# --- files ----------------------------------------------------------------------------------------

CHAT = {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}


def test_a_folder_names_what_it_does_not_read(tmp_path):
    demos, report = read_logs(FILES / "mixed_folder")
    assert len(demos) == 4 and not report.problems
    assert report.normalised["files without a conversation, not read: config.json"] == 1
    (tmp_path / "a.jsonl").write_text(json.dumps(CHAT))
    for name in ("notes.txt", "more.txt", "run.log", "LICENSE"):
        (tmp_path / name).write_text("no log")
    _, report = read_logs(tmp_path)
    unread = {k.rpartition(": ")[2]: n for k, n in report.normalised.items() if "not read" in k}
    assert unread == {".txt": 2, ".log": 1, "without an ending": 1}
    (tmp_path / "broken.json").write_text(json.dumps({"rows": [{"text": "a"}]}))
    _, report = read_logs(tmp_path)  # it may be a log: that it is none is said
    assert len(report.problems) == 1 and "no log, but an object" in report.problems[0].reason


TABLES = [
    {"prompt": "Hi", "completion": "Hello."},
    {"messages": json.dumps(CHAT["messages"])},
    {"query": "Hi", "tools": "[]", "answers": '[{"name": "greet", "arguments": {}}]'},
]


@pytest.mark.parametrize("log", TABLES, ids=lambda log: next(iter(log)))
def test_logs_of_texts_alone_are_read_beside_other_files_too(log, tmp_path):
    """As tables have them: shards of one data set, in a folder with settings."""
    for name, row in (("1.jsonl", log), ("2.jsonl", log | {"task_id": "2"})):
        (tmp_path / name).write_text(json.dumps(row))
    settings = {"prompt": "Be kind.", "steps": 100, "output": "runs", "turns": 3}
    (tmp_path / "settings.json").write_text(json.dumps({**settings, "output": None}))
    demos, report = read_logs(tmp_path)
    assert len(demos) == 2 and not report.problems
    assert report.normalised["files without a conversation, not read: settings.json"] == 1


def test_packed_files_are_read_as_what_is_in_them(tmp_path, monkeypatch):
    line = json.dumps(CHAT).encode() + b"\n"
    (tmp_path / "a.zip").touch()
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("x/one.jsonl", line * 2)
        archive.writestr("x/two.jsonl.gz", gzip.compress(line))
        archive.writestr("readme.md", "no log")
    demos, report = read_logs(tmp_path / "a.zip")
    assert len(demos) == 3 and report.places[0].endswith("a.zip/x/one.jsonl, line 1")
    (tmp_path / "cut.gz").write_bytes(gzip.compress(line)[:-9])
    (tmp_path / "a.zst").write_bytes(b"\x28\xb5\x2f\xfd" + b"0" * 9)
    monkeypatch.setitem(__import__("sys").modules, "zstandard", None)
    for name, said in (("cut.gz", "cannot be unpacked"), ("a.zst", "pip install zstandard")):
        _, report = read_logs(tmp_path / name)
        (problem,) = report.problems
        assert said in problem.reason and str(tmp_path / name) == problem.place


def test_a_file_that_zstandard_cannot_unpack_is_a_problem(tmp_path):
    pytest.importorskip("zstandard")
    (tmp_path / "a.zst").write_bytes(b"\x28\xb5\x2f\xfd" + b"0" * 9)
    _, report = read_logs(tmp_path / "a.zst")
    assert "cannot be unpacked" in report.problems[0].reason


def test_inspects_zip_is_its_samples(tmp_path):
    log = json.loads((FILES / "inspect_log.json").read_text())
    with zipfile.ZipFile(tmp_path / "a.eval", "w") as archive:
        archive.writestr("header.json", json.dumps({"version": 2, "eval": log["eval"]}))
        archive.writestr("summaries.json", json.dumps([{"id": 0, "input": "a"}]))
        archive.writestr("_journal/start.json", json.dumps({"version": 2}))
        for sample in log["samples"]:
            archive.writestr(f"samples/{sample['id']}_epoch_1.json", json.dumps(sample))
    demos, report = read_logs(tmp_path / "a.eval")
    assert report.formats == {"Inspect": 3} and not report.problems
    assert list(map(steps, demos)) == list(map(steps, read_logs(FILES / "inspect_log.json")[0]))


def test_a_table_in_parquet_is_read_where_its_reader_is_installed(tmp_path, monkeypatch):
    table = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(table.Table.from_pylist([CHAT, CHAT]), tmp_path / "a.parquet")
    demos, report = read_logs(tmp_path / "a.parquet")
    assert len(demos) == 2 and report.places[1].endswith("a.parquet, row 2")
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    _, report = read_logs(tmp_path / "a.parquet")
    assert "pip install pyarrow" in report.problems[0].reason


def test_a_data_set_by_name_is_refused_in_a_sentence_where_it_cannot_be_read(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "datasets", None)
    _, report = read_logs("nobody/nothing")
    assert "pip install datasets" in report.problems[0].reason


def test_the_page_has_a_row_for_each_format_in_the_order_of_their_names():
    page = (Path(__file__).parents[1] / "docs" / "logs.md").read_text(encoding="utf-8")
    table = page.split("| format |")[1].split("\n\n")[0]
    rows = [line.split("|")[1].strip() for line in table.splitlines()[2:]]
    assert rows == sorted(rows, key=str.lower)
    for name in {case[0] for case in CASES.values()} | {row["family"] for row in VARIATIONS}:
        assert name.lower() in table.lower(), name


def test_what_a_tool_answered_under_an_unknown_name_is_no_empty_answer(tmp_path):
    block = {"type": "tool_result", "tool_use_id": "c1", "seen_by_tool": "sun"}
    log = anthropic_log(block)
    (tmp_path / "logs.jsonl").write_text(json.dumps(log))
    demos, report = read_logs(tmp_path)
    assert not demos
    assert "--map seen_by_tool=content reads it" in report.problems[0].reason
    demos, report = read_logs(tmp_path, Reading(map=["seen_by_tool=content"]))
    assert not report.problems and in_short(demos[0])[2] == "t:sun"


def anthropic_log(block: dict) -> dict:
    call = {"type": "tool_use", "id": "c1", "name": "forecast", "input": {"city": "Bern"}}
    messages = [("user", "Weather?"), ("assistant", [call]), ("user", [block]), ("assistant", "A")]
    return {"messages": [{"role": role, "content": content} for role, content in messages]}


def test_of_several_answers_to_a_request_the_first_is_read_and_this_is_said(tmp_path):
    choices = [{"message": {"role": "assistant", "content": text}} for text in ("A", "B")]
    for beside in ({"response": {"choices": choices}}, {"choices": choices}):
        log = {"messages": [{"role": "user", "content": "Weather?"}], **beside}
        (tmp_path / "logs.jsonl").write_text(json.dumps(log))
        demos, report = read_logs(tmp_path)
        assert in_short(demos[0]) == ["u:Weather?", "a:>A|"]
        assert report.normalised["requests with several answers, of which the first is read"] == 1


def test_a_prompt_of_claude_code_that_was_taken_back_takes_along_what_followed_it(tmp_path):
    """Parallel calls have results behind events of their own, and no result is a prompt."""
    file = FILES / "claude_code_session.jsonl"
    before, _ = read_logs(file)
    events = [json.loads(line) for line in file.read_text().splitlines()]
    typed = next(
        e for e in events if e["type"] == "user" and isinstance(e["message"]["content"], str)
    )
    again = {**typed, "uuid": "again", "message": {"role": "user", "content": "Again?"}}
    answer = {
        **next(e for e in events if e["type"] == "assistant"),
        "uuid": "b",
        "parentUuid": "again",
    }
    answer["message"] = {"role": "assistant", "content": [{"type": "text", "text": "Yes."}]}
    (tmp_path / "logs.jsonl").write_text("\n".join(map(json.dumps, [*events, again, answer])))
    demos, _ = read_logs(tmp_path)
    assert in_short(demos[0])[-2:] == ["u:Again?", "a:>Yes.|"] and len(demos) == len(before)
