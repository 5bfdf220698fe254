"""The command as a user runs it: real processes, in a directory of their own."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import pytest

from minprm.constants import Config, Tiny
from minprm.envs.cups import Cups
from minprm.load import tiny
from minprm.logs.reader import read_demos
from minprm.model.policy import Policy
from shared.stages import clockless

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
TINY = (
    "--preset smoke --arms base act_prm --num-demos 48 "
    "--held-out 8 --episodes 100 --act-prm.updates 8 --act-prm.batch 16 "
    "--save-every 2 --threads 1 --jobs 1"
).split()


def command(program: str, *args: str) -> list[str]:
    return [sys.executable, str(ROOT / program), *args]


def finish(folder: Path, *args: str) -> subprocess.CompletedProcess:
    return subprocess.run(command("train.py", *args), cwd=folder, capture_output=True, text=True)


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
    done = finish(folder, "--run", "whole", *TINY)
    assert done.returncode == 0, done.stderr
    return folder


def interrupted(folder: Path, run: str, number: int) -> int:
    """Starts a run and sends it the signal `number` in the middle of Act-PRM. Its exit code."""
    process = subprocess.Popen(
        command("train.py", "--run", run, *TINY), cwd=folder, stderr=subprocess.DEVNULL
    )
    metrics, deadline = folder / "runs" / run / "metrics.jsonl", time.time() + 200
    while time.time() < deadline and process.poll() is None:
        if metrics.exists() and metrics.read_text().count('"act_prm"') >= 4:
            os.kill(process.pid, number)
            break
        time.sleep(0.02)
    return process.wait()


def test_training_raises_the_reward_and_the_success(whole):
    ladder, metrics = numbers(whole, "whole")
    rewards = [line["reward/mean"] for line in metrics if line["stage"] == "act_prm"]
    assert len(rewards) == 8
    assert sum(rewards[-2:]) > sum(rewards[:2]) + 0.2
    assert ladder["act_prm"][0]["success"] > ladder["base"][0]["success"] + 0.2
    assert ladder["expert"][0]["success"] == 1.0


def test_same_seed_same_numbers_and_after_kill_9_too(whole):
    assert interrupted(whole, "killed", signal.SIGKILL) == -signal.SIGKILL
    again = finish(whole, "--run", "killed", "--resume")
    assert again.returncode == 0, again.stderr
    assert numbers(whole, "killed") == numbers(whole, "whole")


def test_ctrl_c_saves_and_resume_ends_with_the_same_numbers(whole):
    assert interrupted(whole, "stopped", signal.SIGINT) == 130
    assert "--run stopped --resume" in (whole / "runs" / "stopped" / "log.txt").read_text()
    assert finish(whole, "--run", "stopped", "--resume").returncode == 0
    assert numbers(whole, "stopped") == numbers(whole, "whole")


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
    args = command("evaluate.py", "checkpoints/whole/act_prm-0", *world)
    done = subprocess.run(args, cwd=whole, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    expected = numbers(whole, "whole")[0]["act_prm"][0]["success"]
    line = next(x for x in done.stdout.splitlines() if x.startswith("act_prm-0"))
    assert f"{expected:.3f}" in line
    assert "random" in done.stdout and "expert" in done.stdout


def test_evaluate_reports_pass_at_k_of_samples_that_stand_together(whole):
    world = "--world cups --world-args rounds=1 swaps=3 --episodes 30".split()
    drawn = "--temperature 1.0 --samples 4 --transcripts all.jsonl".split()
    args = command("evaluate.py", "checkpoints/whole/act_prm-0", *world, *drawn)
    done = subprocess.run(args, cwd=whole, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    won = [json.loads(x)["success"] for x in (whole / "all.jsonl").read_text().splitlines()]
    tasks = [sum(won[i : i + 4]) for i in range(0, len(won), 4)]
    header, _random, line, _expert = done.stdout.split("\n\n")[1].splitlines()
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


def test_a_world_that_gives_no_reasons_cannot_be_judged_by_the_gate(capsys):
    class Silent(Cups):
        def thought(self) -> None:
            return None

    model, tokenizer = tiny.untrained(Silent(), Tiny(dim=32), 0)
    with pytest.raises(SystemExit):
        tiny.gate(Policy(model, tokenizer, 4096), Silent(), thought_tokens=32)
    assert "Silent, which gives no reason" in capsys.readouterr().err


def test_a_run_is_never_written_over(whole):
    done = finish(whole, "--run", "whole", *TINY)
    assert done.returncode == 2 and "--resume" in done.stderr


def test_a_run_of_another_version_is_not_resumed_and_says_so(tmp_path):
    folder = tmp_path / "runs" / "old"
    folder.mkdir(parents=True)
    knobs = asdict(Config()) | {"babble": {}}
    del knobs["tiny"]
    (folder / "config.json").write_text(json.dumps(knobs))
    done = finish(tmp_path, "--run", "old", "--resume")
    assert done.returncode == 2 and "another version" in done.stderr
    assert done.stderr.count("\n") == 1 and [x.name for x in folder.iterdir()] == ["config.json"]


def test_what_the_policy_won_becomes_logs_to_learn_from(whole):
    flags = "--preset smoke --stages synth sft:thoughts "
    flags += "--num-demos 200 --episodes 20 --threads 1"
    done = finish(whole, "--run", "won", *flags.split())
    assert done.returncode == 0, done.stderr
    (file,) = (whole / "runs" / "won").glob("synth-*.jsonl")
    (demos, _), world = read_demos(file), Cups(rounds=1, swaps=3)
    assert 10 < len(demos) < 100 and all(s.thought for d in demos for s in d.steps)
    for demo in demos:
        world.reset(int(demo.task.split("-")[1]))
        assert [s.action for s in demo.steps] == [world.expert()]
