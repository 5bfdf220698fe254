"""An MCP server is a world: its tools are called, and what it breaks is its own episode."""

import json
import os
import re
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from minprm.commands import evaluate, train
from minprm.constants import Config
from minprm.endpoint.agents import play_in_world
from minprm.envs import check_tasks, make_world, world_class
from minprm.envs import mcp as servers
from minprm.envs.base import SPLITS, call, task_seed, tasks_split
from minprm.play import act, begin, messages_of
from shared.commands import refusal

pytest.importorskip("mcp", reason='needs the extra: pip install ".[mcp]"')
pytestmark = pytest.mark.extras
SHARED = Path(__file__).parent / "shared"
RAW = f"mcp:{sys.executable} {SHARED / 'mcp_raw.py'}"
DESK = f"mcp:{sys.executable} {SHARED / 'mcp_desk.py'}"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    rows = []
    for number in range(40):
        answer = ["Paris", "Rome", "Oslo"][number % 3]
        rows.append({"question": f"Where is order {number}?", "answer": answer})
    write("tasks.jsonl", rows, tmp_path)
    counts = [{"question": f"Count, {n}.", "answer": "2"} for n in range(40)]
    write("counts.jsonl", counts, tmp_path)
    check = {"name": "count", "arguments": {}}
    write("checked.jsonl", [{**row, "check": check} for row in counts], tmp_path)
    monkeypatch.chdir(tmp_path)
    servers.IDLE.clear()
    opened = []

    class Noted(servers.Connection):
        def __init__(self, *args):
            opened.append(self)
            super().__init__(*args)

    monkeypatch.setattr(servers, "Connection", Noted)
    yield
    for connection in opened:  # of worlds that a test has left
        connection.close()


def write(name: str, rows: list, folder: Path) -> None:
    (folder / name).write_text("\n".join(map(json.dumps, rows)))


def world(name: str = RAW, *args: str):
    cfg = Config(world=name, world_args=[*args] or ["tasks=counts.jsonl"])
    check_tasks(cfg)
    return make_world(cfg)


def children() -> list[str]:
    """The commands of our servers that run."""
    commands = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
            command = (folder / "cmdline").read_text()
        except OSError:
            continue
        if parent == str(os.getpid()) and "mcp_" in command:
            commands.append(command)
    return commands


def end_of_servers() -> bool:
    """Are all servers gone, within seconds?"""
    until = time.monotonic() + 10
    while children() and time.monotonic() < until:
        time.sleep(0.02)
    return not children()


COUNT = call("count")


def test_its_tools_are_shown_as_it_has_them_and_its_tasks_are_split_by_their_questions():
    count = world()
    schemas = [schema["function"] for schema in count.tools]
    assert [schema["name"] for schema in schemas] == ["count", "clear"]
    assert schemas[0] == {
        "name": "count", "description": "", "parameters": {"type": "object", "properties": {}},
    }  # fmt: skip
    for split in SPLITS:
        question = count.reset(task_seed(split, 3))
        assert tasks_split(question) == split and question.startswith("Count, ")
        assert question == world().reset(task_seed(split, 3))
    assert end_of_servers()  # a task begins without one


def test_calls_are_answered_and_an_answer_in_words_ends_the_episode():
    count = world()
    count.reset(task_seed("train", 0))
    assert count.step("")[:3] == ("illegal: call a tool, or answer in words", 0.0, False)
    assert count.step(COUNT) == ("1", 0.0, False, {"valid": True, "effective": True})
    assert len(children()) == 1
    both = f"I count.\n{COUNT}\n{COUNT}"
    assert count.step(both)[:3] == ("2\n3", 0.0, False)
    wrong = call("nowhere")
    observation, _, done, info = count.step(wrong)
    assert observation == "no tool nowhere"
    assert not done and not info["valid"]
    assert count.step(call("count", how="refuse"))[0] == "no such count"
    assert count.step(" 2.\n")[:3] == ("", 1.0, True) and count.success
    assert end_of_servers()


def test_each_episode_has_a_server_of_its_own():
    one, other = world(), world()
    for player in (one, other, one):
        player.reset(task_seed("train", 0))
        assert player.step(COUNT)[0] == "1"
    one.step("3")
    assert not one.success
    other.step("2")
    assert other.success and end_of_servers()


def test_a_tool_that_resets_it_lets_the_next_episode_have_it_and_is_not_shown():
    count = world(RAW, "tasks=counts.jsonl", "reset=clear")
    assert [schema["function"]["name"] for schema in count.tools] == ["count"]
    running = []
    for _ in range(3):
        count.reset(task_seed("train", 0))
        assert count.step(COUNT)[0] == "1"
        count.step("2")
        running.append(len(children()))
    assert running == [1, 1, 1]
    servers.IDLE.popitem()[1][0].close()
    assert end_of_servers()


def test_a_server_that_holds_nothing_is_used_again_as_it_is():
    count = world(RAW, "tasks=counts.jsonl", "reset=none")
    for number in ("1", "2"):
        count.reset(task_seed("train", 0))
        assert count.step(COUNT)[0] == number
        count.step("2")
    servers.IDLE.popitem()[1][0].close()


def test_what_the_server_holds_at_the_end_may_be_the_answer():
    for calls, won in ((0, False), (1, True), (2, False)):
        count = world(RAW, "tasks=checked.jsonl")
        count.reset(task_seed("train", 0))
        for _ in range(calls):
            count.step(COUNT)
        assert count.step("done")[1:3] == (float(won), True) and count.success == won
    count = world(RAW, "tasks=checked.jsonl", "turns=1")  # its last turn may be a call
    count.reset(task_seed("train", 0))
    assert count.step(COUNT) == ("1", 1.0, True, {"valid": True, "effective": True})


def test_of_what_is_no_text_the_kind_is_shown_and_what_is_too_long_is_cut():
    count = world()
    count.reset(task_seed("train", 0))
    assert count.step(call("count", how="image"))[0] == "[image]\n1"
    assert count.step(call("count", how="link"))[0] == "[resource_link file:///count]"
    long = count.step(call("count", how="long"))[0]
    assert len(long) < 100_100 and long.endswith("x (cut)")


def test_an_answer_in_structured_content_alone_is_shown():
    count = world()
    count.reset(task_seed("train", 0))
    assert count.step(call("count", how="structured"))[0] == '{"count": 1}'


def test_a_model_that_guesses_the_tool_that_resets_does_not_reset():
    count = world(RAW, "tasks=counts.jsonl", "reset=clear")
    count.reset(task_seed("train", 0))
    count.step(COUNT)
    observation, _, _, info = count.step(f"{COUNT}\n{call('clear')}")
    assert observation == "illegal: there is no tool clear" and not info["valid"]
    assert count.step(COUNT)[0] == "2"
    count.step("2")
    servers.IDLE.popitem()[1][0].close()


def test_a_tool_that_is_not_there_is_no_warning_on_the_screen(caplog):
    desk = world(DESK, "tasks=tasks.jsonl")
    desk.reset(task_seed("train", 0))
    assert not desk.step(call("nowhere"))[3]["valid"]
    assert "nowhere" not in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("die", "count: Connection closed"),
        ("hang", "count: Request 'tools/call' timed out"),
        ("flood", "count: Request 'tools/call' timed out"),
        ("chatter", "count: Request 'tools/call' timed out"),
        ("nonsense", "count: 1 validation error"),
    ],
)
def test_a_server_that_breaks_costs_its_own_episode(how, said, monkeypatch, capfd):
    broken, whole = (begin(world(), task_seed("train", 0), noise=0) for _ in range(2))
    act(broken, None, COUNT)
    act(whole, None, COUNT)
    monkeypatch.setattr(servers, "SECONDS", 2)
    act(broken, None, call("count", how=how))
    assert broken.done and broken.failure.startswith(said) and broken.steps[-1].reward == 0
    act(whole, None, COUNT)
    act(whole, None, "2")
    assert whole.world.success and not whole.failure and not broken.world.success
    assert messages_of(whole)[-2] == {"role": "tool", "content": "2"}
    assert end_of_servers() and not capfd.readouterr().err


def test_an_episode_that_ends_without_a_turn_leaves_no_server():
    count = world()
    count.reset(task_seed("train", 0))
    count.step(COUNT)
    count.close()  # as one that outgrew the context
    assert end_of_servers()


def test_a_server_that_died_while_it_waited_is_not_used_again():
    count = world(RAW, "tasks=counts.jsonl", "reset=clear")
    count.reset(task_seed("train", 0))
    count.step(COUNT)
    count.step("2")
    ((waiting,),) = servers.IDLE.values()
    waiting.close()
    assert end_of_servers()
    count.reset(task_seed("train", 0))
    assert count.step(COUNT)[0] == "1"
    count.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked there")
def test_a_forked_process_starts_servers_of_its_own():
    count = world()
    count.reset(task_seed("train", 0))
    count.step(COUNT)
    child = os.fork()
    if not child:
        status = 1
        with suppress(BaseException):
            signal.alarm(30)
            own = world()
            own.reset(task_seed("train", 0))
            status = int(own.step(COUNT)[0] != "1")
            own.close()
        os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert count.step(COUNT)[0] == "2"
    count.close()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("mcp:", '--world mcp: the command of a server is missing, as in "mcp:python desk.py"'),
        (
            "mcp:nobody x",
            "mcp:nobody x: the server did not start: [Errno 2] No such file or direct",
        ),
        ("mcp:'", "mcp:': the server did not start: No closing quotation"),
        (f"mcp:{sys.executable} nowhere.py", "Connection closed: "),
    ],
)
def test_a_server_that_does_not_start_is_refused_before_the_run(name, said, capsys):
    error = refusal(lambda flags: check_tasks(Config(world=name)), [], capsys)
    assert said in error and "\n" not in error.strip()


def test_a_server_that_dies_when_an_episode_starts_it_says_why(tmp_path):
    script = tmp_path / "server.py"
    script.write_text((SHARED / "mcp_raw.py").read_text())
    count = world(f"mcp:{sys.executable} {script}")
    script.write_text("raise SystemExit('the port is taken')")
    count.reset(task_seed("train", 0))
    done, info = count.step(COUNT)[2:]
    why = "the server did not start: Connection closed: the port is taken"
    assert done and info["failure"] == why


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([], "tasks=FILE is missing: {"),
        (["tasks=counts.jsonl", "turns=0"], "turns 1 or more"),
        (["tasks=counts.jsonl", "reset=empty"], "reset=empty: no such tool. Tools: count, clear"),
        (["tasks=few.jsonl"], "it needs more tasks"),
        (["tasks=keys.jsonl"], """a task has "question", "answer", and may have "check", not ["""),
        (["tasks=list.jsonl"], 'list.jsonl, line 1: a task has "question", "answer", and may have'),
        (["tasks=blank.jsonl"], "question and answer are texts, and"),
        (["tasks=number.jsonl"], "question and answer are texts, and"),
        (["tasks=check.jsonl"], '"check" is a call, {"name": ..., "arguments": {...}}'),
        (["tasks=typo.jsonl"], "check cuont: no such tool. Tools: count, clear"),
    ],
)
def test_tasks_and_knobs_that_make_no_world_are_refused(args, said, tmp_path, capsys):
    row = {"question": "a", "answer": "b"}
    write("few.jsonl", [row], tmp_path)
    write("keys.jsonl", [{**row, "anwser": "b"}], tmp_path)
    write("list.jsonl", [3], tmp_path)
    write("blank.jsonl", [{**row, "answer": " ."}], tmp_path)
    write("number.jsonl", [{**row, "answer": 3}], tmp_path)
    write("check.jsonl", [{**row, "check": {"name": "count"}}], tmp_path)
    check = {"name": "cuont", "arguments": {}}
    typo = [{"question": f"Count, {n}.", "answer": "2", "check": check} for n in range(40)]
    write("typo.jsonl", typo, tmp_path)
    make = lambda flags: check_tasks(Config(world=RAW, world_args=args))  # noqa: E731
    assert said in refusal(make, args, capsys)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "check find is called with {}, and the tool requires number too"),
        ({"number": 1, "no": 2}, "check find is called with no, and the tool takes number"),
    ],
)
def test_a_call_that_the_tools_schema_forbids_is_refused(arguments, said):
    schema = {"properties": {"number": {}}, "required": ["number"], "additionalProperties": False}
    tool = {"function": {"name": "find", "parameters": schema}}
    with pytest.raises(ValueError, match=re.escape(said)):
        servers.check_call("check find", arguments, tool)
    servers.check_call("check find", {"number": 1}, tool)
    schema["patternProperties"] = {"^no": {}}
    servers.check_call("check find", {"number": 1, "no": 2}, tool)
    del schema["additionalProperties"], schema["patternProperties"]
    servers.check_call("check find", {"number": 1, "no": 2}, tool)


def test_a_check_and_a_reset_that_lack_an_argument_are_refused(tmp_path):
    check = {"name": "find", "arguments": {"no": 1}}
    rows = [{"question": f"Where, {n}?", "answer": "Rome", "check": check} for n in range(40)]
    write("find.jsonl", rows, tmp_path)
    kind = world_class(DESK)
    with pytest.raises(ValueError, match=r"check find is called with .*requires number too"):
        kind(tasks="find.jsonl")
    with pytest.raises(ValueError, match=r"reset=put is called with \{\}.*requires thing too"):
        kind(tasks="tasks.jsonl", reset="put")


def test_a_null_in_the_column_of_checks_is_no_check(tmp_path):
    rows = [{"question": f"Count, {n}.", "answer": "2", "check": None} for n in range(40)]
    write("null.jsonl", rows, tmp_path)
    assert {task.check for task in world(RAW, "tasks=null.jsonl").tasks} == {None}


def test_a_backslash_of_a_windows_path_stays_and_quotes_hold_a_path_together():
    command = r"""python "my desk\server.py" 'a\b c'"""
    assert servers.words(command, windows=True) == ["python", r"my desk\server.py", r"a\b c"]
    assert servers.words(r"python my\ desk.py", windows=False) == ["python", "my desk.py"]


def test_without_the_extra_it_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setattr("minprm.envs.base.find_spec", lambda name: None)
    said = refusal(lambda flags: world_class("mcp:a server of nobody"), [], capsys)
    assert said == 'this world needs mcp: pip install ".[mcp]"\n'


def test_so_many_episodes_are_played_at_once_as_the_world_allows(monkeypatch):
    batches = []
    closed = []

    def play(agent, new_world, seeds, noise):
        batches.append((seeds, noise))
        steps = [0] if len(seeds) > 6 else []  # of the last few none fits the context
        ended = SimpleNamespace(close=lambda: closed.append(1))
        return [SimpleNamespace(world=ended, steps=steps, failure="")] * len(seeds)

    monkeypatch.setattr("minprm.endpoint.agents.play", play)
    cfg = Config(world=RAW, world_args=["tasks=counts.jsonl"])
    play_in_world(cfg, None, [*range(70)], 5)
    assert batches == [([*range(32)], 5), ([*range(32, 64)], 32_005), ([*range(64, 70)], 64_005)]
    assert len(closed) == 70
    batches.clear()
    play_in_world(Config(), None, [*range(70)], 5)
    assert batches == [([*range(70)], 5)]


@pytest.mark.slow
def test_a_server_of_the_library_is_played():
    desk = world(DESK, "tasks=tasks.jsonl")
    assert desk.system.startswith("You are a desk.\n\nUse the tools.")
    assert desk.tools[0]["function"]["description"] == "Where an order is."
    number = int(desk.reset(task_seed("test", 0)).split()[-1][:-1])
    city = desk.step(call("find", number=number))[0]
    refused, _, _, info = desk.step(call("find", no=1))
    assert "Field required" in refused and not info["valid"]
    assert desk.step(city)[1:3] == (1.0, True)
    assert end_of_servers()


@pytest.mark.slow
def test_it_is_trained_on_from_logs_and_by_rl_and_evaluated(tmp_path, model, capsys):
    logs = []
    for i in range(40):
        count = world()
        demo = begin(count, task_seed("train", i), noise=0)
        for action in (COUNT, COUNT, "2"):
            act(demo, None, action)
        logs.append({"messages": messages_of(demo), "tools": count.tools})
    write("logs.jsonl", logs, tmp_path)
    flags = ["--world", RAW, "--world-args", "tasks=counts.jsonl", "turns=3"]
    flags += ["--model", str(model), "--demos", "logs.jsonl"]
    flags += "--thought-tokens 4 --action-tokens 64 --episodes 4 --eval-tasks 2 --jobs 1".split()
    flags += "--sft.epochs 1 --rl.updates 1 --rl.batch 2 --rl.group 2 --device cpu".split()
    train.main([*flags, "--stages", "sft:actions", "rl", "--run", "r"])
    rows = json.loads((tmp_path / "runs/r/ladder.json").read_text())
    assert list(rows) == ["stages"]
    evaluate.main(["checkpoints/r/stages-0", "--episodes", "2"])
    assert "success" in capsys.readouterr().out
    assert end_of_servers()
