"""Episodes as files of ATIF: by the rules of the format, and read back as the same steps."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from minprm.commands import evaluate
from minprm.commands.trajectories import write_trajectories
from minprm.constants import Config
from minprm.data import Sample
from minprm.envs.base import World, call, task_seed
from minprm.envs.cups import Cups
from minprm.logs.reader import read_demos
from minprm.play import Episode, act, begin, play, task_name
from shared.policies import agent, policy
from shared.worlds import Doors

CUPS = Config(world_args=["rounds=2", "swaps=1"], thought_tokens=8, action_tokens=4)


def acted(world: World, *turns: tuple[str | None, str | None]) -> Episode:
    """An episode of these thoughts and actions, each as if it had been drawn as three tokens."""
    e = begin(world, task_seed("test", 0), noise=0)
    for i, (thought, action) in enumerate(turns):
        sample = Sample().extend([1, 2]).extend([i, i + 1, i + 2], 0.0, [-0.5, -0.25, -0.125])
        e.spans.append((sample, 2, 5))
        act(e, thought, action, tokens=1)
    return e


def written(folder: Path, *episodes: Episode) -> list[dict]:
    write_trajectories(folder, "checkpoints/r/act_prm-0", list(episodes))
    return [json.loads(file.read_text()) for file in sorted(folder.iterdir())]


def same_steps(folder: Path, episodes: list[Episode]) -> None:
    """Our own reader finds the steps of the episodes in these files."""
    demos, report = read_demos(folder)
    assert report.formats == {"ATIF": len(episodes)} and not report.problems
    for demo, e in zip(demos, episodes, strict=True):
        assert demo.task == task_name(e.world) and demo.tools == e.world.tools
        found = [(s.observation(), s.thought, s.action) for s in demo.steps]
        assert found == [(s.observation(), s.thought, s.action) for s in e.steps]


def test_plain_actions_and_thoughts_are_read_back_alike(tmp_path):
    one = acted(Cups(rounds=2, swaps=1), ("ball under a .", "open a"), (None, "open b"))
    other = acted(Cups(rounds=1, swaps=1), ("line\nbreak \x1b[2J \u2028", "open c"))
    files = written(tmp_path / "out", one, other)
    same_steps(tmp_path / "out", [one, other])
    thoughts = [s.get("reasoning_content") for s in files[0]["steps"] if s["source"] == "agent"]
    assert thoughts == ["ball under a .", None]


def test_tool_calls_and_their_answers_are_read_back_alike(tmp_path):
    a, b = call("open", door="a"), call("open", door="b")
    e = acted(Doors(), ("a first", a), (None, "hello?"), ("then b", f"Now.\n{b}"))
    (file,) = written(tmp_path / "out", e)
    same_steps(tmp_path / "out", [e])
    turns = [step for step in file["steps"] if step["source"] == "agent"]
    assert turns[0]["tool_calls"][0]["arguments"] == {"door": "a"}
    assert turns[0]["observation"]["results"][0]["content"] == "a is open"
    assert "tool_calls" not in turns[1] and turns[1]["message"] == "hello?"


def test_a_trajectory_is_as_the_format_has_it(tmp_path):
    """The rules of ATIF v1.7: which fields are known, required, and of an agent's steps alone."""
    a, b = call("open", door="a"), call("open", door="b")
    tools = acted(Doors(), ("a first", a), (None, None), ("b", b))
    for file in written(tmp_path / "out", tools, acted(Cups(rounds=1), ("so", "open a"))):
        assert file["schema_version"] == "ATIF-v1.7" and isinstance(file["session_id"], str)
        root = {"schema_version", "session_id", "agent", "steps", "final_metrics", "extra"}
        assert file.keys() == root
        agent_keys = {"name", "version", "model_name", "tool_definitions"}
        assert file["agent"].keys() == agent_keys and file["agent"]["name"] == "minprm"
        assert [step["step_id"] for step in file["steps"]] == list(range(1, len(file["steps"]) + 1))
        for step in file["steps"]:
            assert step["source"] in ("system", "user", "agent") and type(step["message"]) is str
            more = step.keys() - {"step_id", "source", "message"}
            of_agents = {"reasoning_content", "tool_calls", "observation", "metrics"}
            assert more <= (of_agents if step["source"] == "agent" else set())
            calls = [each["tool_call_id"] for each in step.get("tool_calls", [])]
            for answer in step.get("observation", {"results": []})["results"]:
                assert answer["source_call_id"] in calls
        known = {"total_steps", "total_completion_tokens", "extra"}
        assert file["final_metrics"].keys() == known


def test_what_is_known_of_each_turn_and_of_the_whole_stands_beside(tmp_path):
    e = acted(Doors(), (None, None), ("b", call("open", door="b")))
    (file,) = written(tmp_path / "out", e)
    first, second = [step for step in file["steps"] if step["source"] == "agent"]
    assert first["message"] == "" and first["metrics"]["extra"]["formatted"] is False
    assert second["metrics"] == {
        "completion_tokens": 3,
        "completion_token_ids": [1, 2, 3],
        "logprobs": [-0.5, -0.25, -0.125],
        "extra": {
            "reward": 1.0, "valid": True, "effective": True, "thought_tokens": 1, "formatted": True,
        },
    }  # fmt: skip
    assert file["final_metrics"] == {
        "total_steps": 5, "total_completion_tokens": 6,
        "extra": {"success": True, "reward": 1.0, "outgrown": False},
    }  # fmt: skip
    assert second["observation"]["results"][0]["content"] == "b is open"  # the last answer
    assert file["agent"]["model_name"] == "checkpoints/r/act_prm-0"


def test_an_episode_that_did_not_fit_is_written_too(tmp_path):
    who = agent(policy(), replace(CUPS, context=30))
    seeds = [task_seed("test", i) for i in range(2)]
    episodes = play(who, partial(Cups, rounds=2, swaps=1), seeds, noise=0)
    assert all(e.outgrown and len(e.steps) == 1 for e in episodes)
    files = written(tmp_path / "out", *episodes)
    assert [file["final_metrics"]["extra"]["outgrown"] for file in files] == [True, True]
    assert files[0]["final_metrics"]["total_completion_tokens"] == episodes[0].tokens([0])


def test_evaluate_writes_a_file_for_each_episode_of_each_checkpoint(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("a/act_prm-0", "b/act_prm-0"):
        policy().save(Path(name).absolute())
    flags = "--world-args rounds=2 swaps=1 --episodes 2 --atif out --transcripts all.jsonl"
    evaluate.main(["a/act_prm-0", "b/act_prm-0", *flags.split()])
    files = sorted(Path("out").iterdir())
    assert [file.name for file in files] == [f"act_prm-0-0000{i}.json" for i in range(4)]
    lines = [json.loads(line) for line in Path("all.jsonl").read_text().splitlines()]
    for file, line in zip(files, lines, strict=True):
        found = json.loads(file.read_text())
        assert (
            found["session_id"] == file.stem and found["agent"]["model_name"] == line["checkpoint"]
        )
        assert found["final_metrics"]["extra"]["success"] is line["success"]
        turns = [step for step in found["steps"] if step["source"] == "agent"]
        for turn, step in zip(turns, line["steps"], strict=True):
            assert turn["message"] == step["action"]
            assert turn.get("reasoning_content", "") == (step["thought"] or "")


@pytest.mark.parametrize("name", ["old", "nowhere/out", "file"])
def test_a_folder_that_is_there_or_cannot_be_made_is_refused(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("old").mkdir()
    Path("file").write_text("")
    with pytest.raises(SystemExit) as stopped:
        evaluate.main(["c", "--atif", name])
    error = capsys.readouterr().err
    assert stopped.value.code == 2 and f"--atif {name}" in error and error.count("\n") == 1
