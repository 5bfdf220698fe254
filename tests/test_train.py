"""The command as a user runs it, in a directory of its own.

Two runs are real processes. Those that are killed are forks, and what goes on with them is this
process: neither has to import torch anew.
"""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import pytest

from minprm.commands import evaluate, train
from minprm.constants import Config, Tiny
from minprm.envs.cups import Cups
from minprm.load import tiny
from minprm.logs.reader import read_demos
from minprm.model.policy import Policy
from shared.commands import refusal
from shared.processes import begun
from shared.stages import clockless

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
TINY = (
    "--preset smoke --arms base act_prm --num-demos 48 "
    "--held-out 8 --episodes 100 --act-prm.updates 8 --act-prm.batch 16 "
    "--eval-tasks 4 --save-every 2 --threads 1 --jobs 1"
).split()


def finish(folder: Path, program: str, *args: str) -> str:
    """What a process of its own prints."""
    words = [sys.executable, str(ROOT / program), *args]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def numbers(folder: Path, run: str) -> tuple[dict, list[dict]]:
    """(ladder, metrics) without what a clock measured."""
    rows = json.loads((folder / "runs" / run / "ladder.json").read_text())
    rows = {arm: [{**row, "seconds": 0} for row in many] for arm, many in rows.items()}
    lines = map(json.loads, (folder / "runs" / run / "metrics.jsonl").read_text().splitlines())
    return rows, [clockless(line) for line in lines]


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A folder with one uninterrupted run, `whole`."""
    folder = tmp_path_factory.mktemp("ladder")
    finish(folder, "train.py", "--run", "whole", *TINY)
    return folder


@pytest.fixture
def here(whole, monkeypatch) -> Path:
    """That folder, in which this process is."""
    monkeypatch.chdir(whole)
    return whole


def interrupted(folder: Path, run: str, number: int) -> int:
    """Starts a run and sends it the signal `number` in the middle of Act-PRM. Its exit code."""
    process = begun(folder, lambda: train.main(["--run", run, *TINY]))
    metrics, deadline = folder / "runs" / run / "metrics.jsonl", time.time() + 200
    while time.time() < deadline and process.exitcode is None:
        if metrics.exists() and metrics.read_text().count('"act_prm"') >= 4:
            os.kill(process.pid, number)
            break
        time.sleep(0.02)
    process.join()
    return process.exitcode


def test_training_raises_the_reward_and_the_success(whole):
    ladder, metrics = numbers(whole, "whole")
    rewards = [line["reward/mean"] for line in metrics if line["stage"] == "act_prm"]
    assert len(rewards) == 8
    assert sum(rewards[-2:]) > sum(rewards[:2]) + 0.2
    assert ladder["act_prm"][0]["success"] > ladder["base"][0]["success"] + 0.2
    assert ladder["expert"][0]["success"] == 1.0


def test_same_seed_same_numbers_and_after_kill_9_too(here):
    assert interrupted(here, "killed", signal.SIGKILL) == -signal.SIGKILL
    train.main(["--run", "killed", "--resume"])
    assert numbers(here, "killed") == numbers(here, "whole")


def test_ctrl_c_saves_and_resume_ends_with_the_same_numbers(here):
    assert interrupted(here, "stopped", signal.SIGINT) == 130
    assert "--run stopped --resume" in (here / "runs" / "stopped" / "log.txt").read_text()
    train.main(["--run", "stopped", "--resume"])
    assert numbers(here, "stopped") == numbers(here, "whole")


def test_a_run_leaves_what_readme_promises(whole):
    run = whole / "runs" / "whole"
    for name in (
        "config.json", "starts.jsonl", "metrics.jsonl", "samples.jsonl",
        "ladder.json", "report.html",
    ):  # fmt: skip
        assert (run / name).stat().st_size > 0, name
    assert list((run / "tensorboard").iterdir())
    group = json.loads((run / "samples.jsonl").read_text().splitlines()[0])["group"]
    assert len(group) == Config().act_prm.group
    assert {"thought", "reward", "advantage"} <= set(group[0])
    assert not list((whole / "checkpoints" / "whole").glob(".*.tmp"))


def test_evaluate_prints_a_checkpoint_beside_random_and_expert(whole):
    world = "--world cups --world-args rounds=1 swaps=3 --episodes 100".split()
    table = finish(whole, "evaluate.py", "checkpoints/whole/act_prm-0", *world)
    expected = numbers(whole, "whole")[0]["act_prm"][0]["success"]
    line = next(x for x in table.splitlines() if x.startswith("act_prm-0"))
    assert f"{expected:.3f}" in line
    assert "random" in table and "expert" in table


def test_evaluate_reports_pass_at_k_of_samples_that_stand_together(here, capsys):
    world = "--world cups --world-args rounds=1 swaps=3 --episodes 30".split()
    drawn = "--temperature 1.0 --samples 4 --transcripts all.jsonl".split()
    evaluate.main(["checkpoints/whole/act_prm-0", *world, *drawn])
    won = [json.loads(x)["success"] for x in (here / "all.jsonl").read_text().splitlines()]
    tasks = [sum(won[i : i + 4]) for i in range(0, len(won), 4)]
    header, _random, line, _expert = capsys.readouterr().out.split("\n\n")[1].splitlines()
    header, line = header.split(), line.split()
    assert header[-2:] == ["pass@2", "pass@4"] and len(tasks) == 30
    assert float(line[-1]) == pytest.approx(sum(c > 0 for c in tasks) / 30, abs=1e-3)


def test_a_base_model_without_the_skills_is_refused(tmp_path, capsys):
    policy = tiny.raised(Cups(), Tiny(updates=2), 0, 4096, tmp_path)
    skills = tiny.gate(policy, Cups(), thought_tokens=32)
    with pytest.raises(SystemExit) as stopped:
        tiny.check_gate(skills, stop=True)
    assert stopped.value.code == 2 and "--tiny.updates" in capsys.readouterr().err
    tiny.check_gate(skills, stop=False)
    skills = tiny.gate(policy, Cups(), thought_tokens=2)  # it has hardly learned to end a thought
    assert skills["cut"] > 0.8


@pytest.mark.parametrize(("acts", "cut", "told"), [(1.0, 0.3, True), (0.5, 0.1, False)])
def test_the_gate_says_where_thoughts_are_cut(acts, cut, told, capsys):
    with pytest.raises(SystemExit):
        tiny.check_gate({"acts": acts, "?": 0.0, "cut": cut}, stop=True)
    assert ("allow longer ones (--thought-tokens)" in capsys.readouterr().err) == told


def test_a_world_that_gives_no_reasons_cannot_be_judged_by_the_gate(capsys):
    class Silent(Cups):
        def thought(self) -> None:
            return None

    model, tokenizer = tiny.untrained(Silent(), Tiny(dim=32), 0)
    with pytest.raises(SystemExit):
        tiny.gate(Policy(model, tokenizer, 4096), Silent(), thought_tokens=32)
    assert "Silent, which gives no reason" in capsys.readouterr().err


def test_a_run_is_never_written_over(here, capsys):
    assert "--resume" in refusal(train.main, ["--run", "whole", *TINY], capsys)


def test_a_run_of_another_version_is_not_resumed_and_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "runs" / "old"
    folder.mkdir(parents=True)
    knobs = asdict(Config()) | {"babble": {}}
    del knobs["tiny"]
    (folder / "config.json").write_text(json.dumps(knobs))
    error = refusal(train.main, ["--run", "old", "--resume"], capsys)
    assert "another version" in error and [x.name for x in folder.iterdir()] == ["config.json"]


def test_what_the_policy_won_becomes_logs_to_learn_from(here):
    flags = "--preset smoke --stages synth sft:thoughts "
    flags += "--num-demos 200 --episodes 20 --threads 1"
    train.main(["--run", "won", *flags.split()])
    (file,) = (here / "runs" / "won").glob("synth-*.jsonl")
    (demos, _), world = read_demos(file), Cups(rounds=1, swaps=3)
    assert 10 < len(demos) < 100 and all(s.thought for d in demos for s in d.steps)
    for demo in demos:
        world.reset(int(demo.task.split("-")[1]))
        assert [s.action for s in demo.steps] == [world.expert()]
