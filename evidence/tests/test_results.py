"""Files of results: what writes them, and what refuses to."""

import doctest
import json
import platform
import subprocess
import sys
from dataclasses import asdict

import pytest

from evidence import ladders, results, tables
from evidence.experiments import idea
from minprm.constants import Config

CONFIG = asdict(Config()) | {"arms": ["base", "act_prm"], "seeds": [0, 1], "threads": 1}
START = {
    "command": ["python", "train.py", "--run", "r"], "started": "2026-11-22T11:40:39+00:00",
    "python": "3.11.7", "platform": platform.platform(), "commit": "4a84caa",
    "libraries": {"torch": "2.13.0"},
}  # fmt: skip


def row(seed: int, success: float) -> dict:
    return {"seed": seed, "success": success, "tasks": 400, "thought_rate": 1.0, "copy_rate": 0.0,
            "seconds": 2.0 + seed}  # fmt: skip


def thought(text: str, reward: float, advantage: float) -> dict:
    return {"thought": text, "kind": "wrong", "reward": reward, "advantage": advantage}


def line(update: int, group: list[dict]) -> dict:
    told = {"seed": 0, "stage": "act_prm", "update": update, "watched": 0, "where": "held out"}
    told |= {"task": "Cups-0", "step": 0, "state": "ball under b .", "action": "open b"}
    return {**told, "group": group, "without_thought": {"logp": [0.0, -1.6094]}}


@pytest.fixture
def run(tmp_path):
    """A finished run of two arms and two seeds. Call it with what differs in its starts."""

    def write(*starts: dict, done=True):
        folder = tmp_path / "r"
        folder.mkdir()
        ladder = {"base": [row(0, 0.25), row(1, 0.25)], "act_prm": [row(0, 0.75), row(1, 1.0)]}
        if not done:
            ladder["act_prm"].pop()
        lines = {
            "starts": [START | start for start in starts or ({},)],
            "samples": [line(0, [thought("a", 0.2, 0.5), thought("b", 0.9, 3.5)] * 2),
                        line(9, [thought("b", 0.9, 1.0)] * 4)],
            "metrics": [{"seed": seed, "stage": "act_prm", "update": i, "reward/mean": 0.1 * i,
                         "eval/success": None if i else 0.5} for seed in (0, 1) for i in (0, 1)],
        }  # fmt: skip
        for name, many in lines.items():
            text = "".join(json.dumps(one) + "\n" for one in many)
            (folder / f"{name}.jsonl").write_text(text)
        (folder / "config.json").write_text(json.dumps(CONFIG))
        (folder / "ladder.json").write_text(json.dumps(ladder))
        (folder / "log.txt").write_text(
            "seed 0: base model ready in 46.7 s\n"
            "act_prm+relabel: 128 demos, mean reward 0.398, 0.201 without a thought\n"
        )
        return str(folder)

    return write


def test_a_finished_ladder_becomes_a_file(run):
    found = ladders.of_run(run())
    assert found["command"] == "python train.py --run r" and found["commit"] == "4a84caa"
    assert found["interval"] == "95 %, t over seeds, n = 2; where they agree Wilson's over tasks"
    assert found["base_seconds"] == [46.7]
    arm = found["rows"]["act_prm"]
    assert arm["values"] == [0.75, 1.0] and arm["mean"] == 0.875 and arm["seconds"] == 2.5
    assert arm["low"] == 0 and arm["high"] == 1  # 12.7 times the standard error
    (state,) = found["groups"]["act_prm"]
    assert [(z["thought"], z["times"]) for z in state["before"]["thoughts"]] == [("b", 2), ("a", 2)]
    assert state["after"]["thoughts"][0]["times"] == 4
    assert state["before"]["without_thought"] == 0.2
    curves = found["curves"]["act_prm"]
    assert curves == {"reward": [[0.0, 0.1]] * 2, "updates": [0], "success": [[0.5]] * 2}
    assert found["relabelled"] == {"act_prm+relabel": [0.398]} and found["paths"] == {}


@pytest.mark.parametrize(("starts", "said"), [
    ([{"commit": "4a84caa-dirty"}], "name one commit"),
    ([{"commit": None}], "name one commit"),
    ([{}, {"commit": "a51db27"}], "name one commit"),
    ([{"platform": "another"}], "on the machine that made it"),
])  # fmt: skip
def test_a_run_that_cannot_be_made_again_becomes_no_file(run, capsys, starts, said):
    with pytest.raises(SystemExit) as stop:
        ladders.of_run(run(*starts))
    assert stop.value.code == 2 and said in capsys.readouterr().err


def test_an_unfinished_run_becomes_no_file(run, capsys):
    with pytest.raises(SystemExit):
        ladders.of_run(run(done=False))
    assert "--resume" in capsys.readouterr().err


def test_a_program_writes_its_rows_where_it_is_told(monkeypatch, tmp_path):
    file = tmp_path / "x.json"
    monkeypatch.setattr(sys, "argv", ["x.py", "--json", str(file), "METHOD"])
    assert results.take_json_flag() == str(file) and sys.argv == ["x.py", "METHOD"]
    assert results.take_json_flag() == ""
    rows = {"base": results.over_seeds([0.5, 0.7])}
    results.save_run("", [0], "none", rows)
    assert not file.exists()
    results.save_run(str(file), [0, 1], results.t_interval([0, 1]), rows)
    found = json.loads(file.read_text())
    assert found["rows"]["base"]["mean"] == 0.6 and found["interval"].endswith("n = 2")
    assert found["command"].startswith("python ") and "torch" in found["libraries"]


@pytest.mark.parametrize("name", ["minprm", "benchmarks"])
def test_code_that_was_changed_since_its_commit_is_named_dirty(name, monkeypatch, tmp_path):
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    file = tmp_path / name
    file.write_text("1")
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], check=True)
    monkeypatch.setattr(results, "ROOT", tmp_path)
    clean = results.commit()
    (tmp_path / "README.md").write_text("a page is not what ran")
    assert results.commit() == clean and "dirty" not in clean
    file.write_text("2")
    assert results.commit() == f"{clean}-dirty"


def test_what_fits_a_line_stands_on_one_and_nothing_is_lost():
    value = {"long": [0.123] * 60, "rows": {"a" * 40: {"b": "c" * 40}, "d": {}}, "e": None}
    text = results.to_text(value)
    assert json.loads(text) == value
    assert all(len(line) <= 100 for line in text.splitlines()) and text.count("\n") < 15


def test_act_prm_s_printed_lines_are_read():
    told = """update  6   mean reward 0.691
     7.88   0.998      1  ball under d . swap d a a                        follows the ball
"""
    assert idea.rewards(told) == {"updates": [6], "mean": [0.691]}
    found = idea.LINE.fullmatch(told.splitlines()[1])
    assert found["thought"] == "ball under d . swap d a a" and found["kind"] == "follows the ball"


@pytest.mark.parametrize("module", [results, ladders, tables, idea])
def test_the_examples_in_docstrings_hold(module):
    found = doctest.testmod(module)
    assert not found.failed


def test_a_benchmark_names_the_versions_of_other_libraries_that_it_ran(tmp_path):
    results.save_run(str(tmp_path / "rows.json"), [0], "one run", {"a": 1.0}, ["pytest"], G=8)
    told = json.loads((tmp_path / "rows.json").read_text())
    assert told["libraries"]["pytest"] == pytest.__version__ and "torch" in told["libraries"]
    assert (told["seeds"], told["rows"], told["G"]) == ([0], {"a": 1.0}, 8)
