"""--rl.reward: what an episode earns in the place of success, and a judge that says it."""

import json
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from examples import judge as example
from minprm import chosen, own
from minprm.arms.ladder import run_stage, start
from minprm.commands import evaluate, judge, train
from minprm.constants import RL
from minprm.data import Step
from minprm.envs.hotpot import Hotpot
from minprm.play import Episode, messages_of
from minprm.stages.rl import paid
from shared.commands import refusal
from shared.stages import CFG, Lines, log_of, weights

FILE = """
import json
def same(messages, success): return success
def brief(messages, success):
    with open("seen.jsonl", "a") as file: file.write(json.dumps([messages, success]) + "\\n")
    return 1 / len(messages)
def of_task(messages, success, seed): return seed
def wipes(messages, success):
    messages[0].clear()
    return 0.5
def alone(messages): return 1
def wrong(messages, success): return 1 / 0
def leaves(messages, success): raise SystemExit(0)
def word(messages, success): return "much"
def nan(messages, success): return float("nan")
def hangs(messages, success):
    while True: pass
"""
TALK = [{"role": "user", "content": "open a"}, {"role": "assistant", "content": "a"}]


@pytest.fixture
def here(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(FILE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_success_is_the_reward_unless_a_function_says_another(here):
    assert chosen.judged("success", TALK, True, 7) == 1.0
    assert chosen.judged("mine.py:same", TALK, False, 7) == 0.0
    assert chosen.judged("mine.py:of_task", TALK, False, 7) == 7.0
    talk = json.loads(json.dumps(TALK))
    assert chosen.judged("mine.py:wipes", talk, True, 7) == 0.5 and talk == TALK


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("wrong", "raised ZeroDivisionError: division by zero (mine.py, line "),
        ("leaves", "raised SystemExit: 0 (mine.py, line "),
        ("word", "returned 'much', and a reward is a finite number"),
        ("nan", "returned nan, and a reward is a finite number"),
        ("hangs", "did not end within 0.1 seconds"),
    ],
)
def test_a_reward_that_is_none_ends_in_a_sentence(here, monkeypatch, capsys, name, complaint):
    monkeypatch.setattr(own, "LIMIT", 0.1)
    error = refusal(lambda name: chosen.judged(name, TALK, True, 0), f"mine.py:{name}", capsys)
    assert error.startswith(f"mine.py:{name} {complaint}")


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        ("--rl.reward nice", "--rl.reward nice: no such name. Names: success, or FILE.py:NAME"),
        ("--rl.reward mine.py:alone", "it has to take messages and success, or messages, success"),
        ("--rl.reward none.py:f", "none.py: No such file"),
        (
            "--rl.reward mine.py:same --arms rl rl_dense",
            "rl:dense and rl:sum are paid at each turn: use",
        ),
        ("--rl.reward mine.py:same --arms base", "--rl.reward has no effect here"),
    ],
)
def test_what_cannot_be_a_reward_is_refused_before_a_run(here, capsys, flags, complaint):
    arms = [] if "--arms" in flags else ["--arms", "rl"]
    assert complaint in refusal(train.main, [*flags.split(), *arms], capsys)


def test_it_reads_the_conversation_with_thoughts_calls_and_what_could_not_be_read(here):
    world = Hotpot()
    asked = {"role": "user", "content": world.reset(3)}
    found = {"role": "tool", "content": "a page"}
    call = '{"name": "visit", "arguments": {"title": "Paris"}}'
    unreadable = f"<think>\nso\n</think>\n<tool_call>\n{call}"  # cut: nothing was called
    steps = [Step([asked], "hm", call), Step([found], "so", "", unreadable=unreadable)]
    infos = [{"formatted": True}, {"formatted": False}]
    e = Episode(world, steps=steps, infos=infos)
    function = {"name": "visit", "arguments": '{"title": "Paris"}'}
    assert messages_of(e) == [
        asked,
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": "hm",
            "tool_calls": [{"type": "function", "function": function}],
        },
        found,
        {"role": "assistant", "content": unreadable},
    ]
    earned = paid(e, RL(reward="mine.py:brief", format_penalty=1.0), by_turn=False)
    assert earned == [0.0, 0.25 - 1.0]  # at the last turn, with what an unreadable one costs
    messages, success = json.loads((here / "seen.jsonl").read_text())
    assert messages == messages_of(e) and success is False


@pytest.mark.slow
def test_rl_learns_by_it_and_success_is_still_what_is_counted(checkpoints, here):
    logs = {}
    learned = {}
    for name in ("success", "mine.py:same", "mine.py:brief"):
        cfg = replace(CFG, run=name[-5:], rl=replace(CFG.rl, reward=name, updates=2))
        run = start(cfg, 0, Lines(), checkpoints)
        run_stage(run, "rl")
        logs[name] = log_of(run).lines
        learned[name] = weights(run)
    assert (learned["success"] == learned["mine.py:same"]).all()
    assert not (learned["success"] == learned["mine.py:brief"]).all()
    judged, plain = logs["mine.py:brief"][0], logs["success"][0]
    assert judged["reward/mean"] == plain["reward/mean"]  # the first batch is the same
    assert judged["reward/paid"] != plain["reward/paid"] == plain["reward/mean"]
    seen = (here / "seen.jsonl").read_text().splitlines()
    assert len(seen) == sum(line["reward/episodes"] for line in logs["mine.py:brief"])


# --- stored episodes ---


EPISODE = {"checkpoint": "c", "task": 7, "success": True, "reward": 1.0, "messages": TALK}


def stored(*episodes: dict) -> None:
    with open("turns.jsonl", "w", encoding="utf-8") as file:
        for episode in episodes:
            file.write(json.dumps(EPISODE | episode) + "\n")


def test_stored_episodes_are_paid_as_training_would_pay_them(here, capsys):
    lost = {"checkpoint": "d", "success": False, "reward": 0.0}
    stored({"task": 0}, {"task": 3}, {"task": 1, **lost}, lost)
    judge.main("turns.jsonl --reward mine.py:of_task --to judged.jsonl".split())
    means, count, most = capsys.readouterr().out.split("\n\n")
    assert [line.split() for line in means.splitlines()[1:]] == [
        ["1.000", "1.500", "2", "c"],
        ["0.000", "4.000", "2", "d"],
    ]
    assert count == "4 of 4 episodes earn another reward than before."
    lines = [line.split() for line in most.splitlines()[1:]]  # before, after, line, task
    assert lines[0] == ["0.000", "7.000", "4", "7", "d"]
    assert [line[2] for line in lines] == ["4", "2", "1", "3"]
    written = [json.loads(line) for line in (here / "judged.jsonl").read_text().splitlines()]
    assert [line["after"] for line in written] == [0.0, 3.0, 1.0, 7.0]
    assert written[1] == {
        "checkpoint": "c", "task": 3, "success": True, "before": 1.0, "after": 3.0
    }  # fmt: skip
    judge.main("turns.jsonl --reward mine.py:brief".split())
    messages, success = json.loads((here / "seen.jsonl").read_text().splitlines()[0])
    assert messages == TALK and success is True


def test_stored_episodes_can_be_compared_by_two_functions(here, capsys):
    stored({"reward": 0.25})
    flags = "turns.jsonl --reward mine.py:of_task --before mine.py:brief"
    judge.main(flags.split())
    assert "   0.500   7.000         1  c" in capsys.readouterr().out
    judge.main("turns.jsonl --reward success --before mine.py:same".split())
    assert "\n0 of 1 episodes earn another reward than before.\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("episode", "flags", "complaint"),
    [
        ({}, "", "Missing from minprm judge: --reward"),
        ({}, "--reward nice", "--reward nice: no such name. Names: success, or FILE.py:NAME"),
        ({}, "--reward mine.py:same --before mine.py:alone", "--before mine.py:alone: it has to"),
        ({}, "--reward mine.py:wrong", "mine.py:wrong raised ZeroDivisionError"),
        ({}, "--reward mine.py:same --to mine.py", "--to mine.py: this file is there already"),
        ({}, "--reward mine.py:same --to none/a", "--to none/a: No such file or directory"),
        ({"messages": 3}, "--reward success", 'turns.jsonl, line 1: its "messages" is missing'),
        ({"reward": None}, "--reward success", "transcripts writes them, or give --before success"),
    ],
)
def test_what_cannot_be_paid_anew_is_refused(here, capsys, episode, flags, complaint):
    stored(episode)
    assert complaint in refusal(judge.main, ["turns.jsonl", *flags.split()], capsys)


def test_a_file_without_an_episode_is_refused(here, capsys):
    for name in ("turns.jsonl", "none.jsonl"):
        stored()
        error = refusal(judge.main, [name, "--reward", "success"], capsys)
        assert error in (
            "turns.jsonl: there is no episode in it\n", "none.jsonl: no such file\n"
        )  # fmt: skip


# --- the example ---


class Answers(BaseHTTPRequestHandler):
    """A server of the API that says 7, and notes what it was asked."""

    asked: list[dict] = []  # noqa: RUF012

    def do_POST(self):
        self.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        message = {"role": "assistant", "content": "Well. I give 3, no: 7"}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        body = {"id": "1", "object": "chat.completion", "created": 1, "model": "m"}
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps({**body, "choices": [choice]}).encode())

    def log_message(self, *told):
        pass


@pytest.fixture
def server(monkeypatch):
    pytest.importorskip("openai", reason="needs openai: pip install openai")
    with HTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{server.server_port}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        monkeypatch.setenv("JUDGE_MODEL", "m")
        Answers.asked.clear()
        yield Answers.asked
        server.shutdown()
        thread.join()


def test_the_judge_pays_a_tenth_of_its_last_number_and_for_won_episodes_alone(server):
    assert example.judge(TALK, True) == 0.7 and example.judge(TALK, False) == 0.0
    (request,) = server
    assert "open a" in request["messages"][0]["content"]


def test_without_openai_the_judge_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "openai", None)
    with pytest.raises(SystemExit, match="needs openai: pip install openai"):
        example.judge(TALK, True)


@pytest.mark.slow
def test_stored_episodes_are_judged_anew(server, here, capsys):
    flags = "--world-args rounds=1 --tiny.updates 2 --tiny.dim 16 --no-gate --arms base --run r"
    train.main(f"{flags} --episodes 4".split())
    evaluate.main("checkpoints/r/base-0 --episodes 6 --transcripts turns.jsonl".split())
    episodes = [json.loads(line) for line in (here / "turns.jsonl").read_text().splitlines()]
    won = sum(episode["success"] for episode in episodes)
    capsys.readouterr()
    judge.main(["turns.jsonl", "--reward", f"{example.__file__}:judge"])
    told = f"{won / 6:8.3f}{0.7 * won / 6:8.3f}         6  checkpoints/r/base-0\n"
    assert told in capsys.readouterr().out and len(server) == won
    roles = [message["role"] for message in episodes[0]["messages"]]
    assert roles[:3] == ["system", "user", "assistant"] and episodes[0]["task"] == 2_000_000_000
