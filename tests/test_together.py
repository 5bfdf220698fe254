"""Several processes end together, with one message, and go on in another number of them."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from minprm.__main__ import main
from minprm.commands import train
from minprm.constants import RL, SFT, Config, fail, refusal
from minprm.load import base
from minprm.look import looks
from minprm.look.log import Log
from minprm.run.events import Updated
from minprm.several import together
from minprm.several.processes import gathered, rank
from minprm.several.shares import Shares
from shared.processes import Processes
from shared.stages import clockless

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def impatient(monkeypatch) -> None:
    monkeypatch.setattr(together, "PATIENCE", 3)  # on a busy machine the first may be so late


# --- a run that is stopped goes on, in another number of processes too ---

FLAGS = (
    "--preset smoke --stages act_prm rl --act-prm.updates 5 --act-prm.batch 4 --act-prm.group 4 "
    "--rl.updates 3 --rl.batch 2 --rl.group 4 --eval-every 3 --eval-tasks 2 --num-demos 8 "
    "--held-out 2 --episodes 4 --save-every 2 --threads 1 --jobs 1 "
    "--act-prm.lr 2e-4 --rl.lr 2e-4"  # as a warm-up of five updates would begin
).split()


def lines(folder: Path) -> list[dict]:
    """The lines of metrics.jsonl so far."""
    file = folder / "runs/r/metrics.jsonl"
    text = file.read_text() if file.exists() else ""
    return [json.loads(line) for line in text.split("\n")[:-1]]


def files(folder: Path) -> list[str]:
    """Which files a run has left. TensorBoard has one for each start."""
    found = [file for name in ("runs", "checkpoints") for file in (folder / name).rglob("*")]
    return sorted({str(f.relative_to(folder)) for f in found if "events.out" not in f.name})


def assert_alike(folder: Path, whole: Path) -> None:
    """The files and the numbers of a run are those of the whole one."""
    assert files(folder) == files(whole)
    for ours, theirs in zip(lines(folder), lines(whole), strict=True):
        assert clockless(ours) == pytest.approx(clockless(theirs), abs=1e-5, nan_ok=True)
    rows = [json.loads((each / "runs/r/ladder.json").read_text()) for each in (folder, whole)]
    found, expected = ({arm: row["success"] for arm, (row,) in each.items()} for each in rows)
    assert found == expected


def torchrun(folder: Path, n: int, *flags: str, restarts: int) -> subprocess.Popen:
    """The command as a user starts it. What all say goes into output.txt."""
    port = str(random.randrange(20_000, 40_000))
    command = [
        sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(n),
        "--master-port", port, "--max-restarts", str(restarts),
        str(ROOT / "train.py"), "--", "--run", "r", *flags,
    ]  # fmt: skip
    with open(folder / "output.txt", "w") as output:
        return subprocess.Popen(
            command, cwd=folder, stdout=output, stderr=output, start_new_session=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip


def children(process: subprocess.Popen) -> list[int]:
    """The processes of a torchrun, in the order of their numbers."""
    return sorted(
        map(int, Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split())
    )


def until_logged(folder: Path, alive: Callable[[], bool], number: int) -> None:
    while len(lines(folder)) < number:
        assert alive(), (folder / "output.txt").read_text()[-3000:]
        time.sleep(0.02)


def stopped(folder: Path, processes: Processes) -> None:
    """Nothing is lost that was learned, nothing is left that is thrown away, and one said so."""
    assert any(processes.ended())
    said = processes.said()
    assert said.count("stopping after this update") == said.count("stopped and saved") == 1
    assert "has ended" not in said
    assert re.search(r"torchrun --nproc-per-node \d -m minprm -- train --run r --resume", said)
    logged = lines(folder)[-1]
    state = json.loads(
        (folder / f"checkpoints/r/stages/{logged['stage']}-0/state.json").read_text()
    )
    assert state["update"] == logged["update"] + 1
    assert {each.name for each in folder.iterdir()} == {"checkpoints", "output.txt", "runs"}


@pytest.fixture(scope="module")
def whole(ungated, tmp_path_factory) -> Path:
    """An uninterrupted run in one process."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        train.main(["--run", "r", *FLAGS])
    return folder


@pytest.mark.slow
def test_from_one_process_to_two_and_back(whole, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    update = Log.metrics

    def stopping(log: Log, seed: int, stage_id: str, number: int, stats: dict) -> None:
        update(log, seed, stage_id, number, stats)
        if number == 0:
            assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
            os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as patch, pytest.raises(SystemExit) as stop:
        patch.setattr(Log, "metrics", stopping)
        train.main(["--run", "r", *FLAGS])
    assert stop.value.code == 130 and len(lines(tmp_path)) == 1
    processes = Processes(tmp_path, 2, lambda: train.main(["--run", "r", "--resume"]))
    until_logged(tmp_path, processes.alive, 3)
    processes.signal(signal.SIGINT)
    stopped(tmp_path, processes)
    assert 3 <= len(lines(tmp_path)) < len(lines(whole))
    train.main(["--run", "r", "--resume"])
    assert_alike(tmp_path, whole)
    starts = (tmp_path / "runs/r/starts.jsonl").read_text().splitlines()
    assert [json.loads(line)["processes"] for line in starts] == [1, 2, 1]


@pytest.mark.slow
def test_weights_that_are_spread_go_on_in_two_processes_of_which_one_is_killed(whole, tmp_path):
    first = ["--run", "r", *FLAGS, "--shard", "always"]
    processes = Processes(tmp_path, 3, lambda: train.main(first))
    until_logged(tmp_path, processes.alive, 2)
    processes.signal(signal.SIGTERM)
    stopped(tmp_path, processes)
    process = torchrun(tmp_path, 2, "--resume", restarts=1)
    until_logged(tmp_path, lambda: process.poll() is None, len(lines(tmp_path)) + 2)
    os.kill(children(process)[0], signal.SIGKILL)
    assert process.wait(120) == 0, (tmp_path / "output.txt").read_text()[-3000:]
    said = (tmp_path / "output.txt").read_text()
    assert said.count("one of its processes has ended") == 1 and "--run r --resume" in said
    assert_alike(tmp_path, whole)


# --- one message ---


def refused() -> None:
    fail("this cannot be")


def broken() -> None:
    raise ZeroDivisionError("a fault of ours")


def killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def meeting(what: Callable[[], None], who: set[int]) -> Callable[[], None]:
    """All meet; then this happens to some, while the others wait for them."""

    def work() -> None:
        with together.together():
            print(f"{rank()} is here")
            gathered(None)
            if rank() in who:
                what()
            gathered(None)

    return work


@pytest.mark.slow
@pytest.mark.parametrize("who", [{0}, {1}, {0, 1, 2}])
@pytest.mark.parametrize(("what", "sentence"), [
    (refused, "this cannot be"),
    (broken, "ZeroDivisionError: a fault of ours"),
    (killed, "one of its processes has ended"),
])  # fmt: skip
def test_all_end_with_one_message_whoever_fails(what, sentence, who, tmp_path):
    processes = Processes(tmp_path, 3, meeting(what, who))
    codes = processes.ended()
    said = processes.said()
    assert None not in codes and 0 not in codes
    assert said.count("is here") == 1
    alive = what is not killed or len(who) < 3
    assert said.count(sentence) == alive and said.count("Traceback") == (what is broken)
    assert said.count("process 1:") == (who == {1} and what is not killed)
    assert what is broken or said.count("\n") == 1 + alive
    if what is not killed:  # which leaves its folder
        assert list(tmp_path.iterdir()) == [processes.output]


@pytest.mark.slow
def test_a_process_that_waits_for_another_one_ends_in_time(tmp_path):
    def work() -> None:
        with together.together():
            gathered(None)
            print("begun")
            if rank() == 1:
                time.sleep(600)
            gathered(None)

    processes = Processes(tmp_path, 2, work)
    while not (processes.output.exists() and "begun" in processes.said()):
        time.sleep(0.02)
    processes.signal(signal.SIGTERM)
    assert processes.ended()[1] == 143 and processes.said().count("\n") == 2
    assert "the run was stopped" in processes.said()


@pytest.mark.slow
@pytest.mark.parametrize("who", [{}, {1}])
def test_a_stage_goes_by_the_same_numbers_in_all_processes(who, tmp_path):
    """Here process 1 sees another success in a world that is no function of its seeds."""

    cfg = SimpleNamespace(eval_every=1)

    def success(run) -> dict[str, float]:
        return {"eval/success": 0.5 if rank() in who else 0.25 + rank() * 1e-6}

    def work() -> None:
        with together.together():
            looks.success = success
            agent = SimpleNamespace(policy=SimpleNamespace(shares=Shares()))
            run = SimpleNamespace(cfg=cfg, agent=agent)
            event = Updated("sft", 0, SFT(), [], {})
            looks.Looks()(run, event)
            assert event.stats["eval/success"] == 0.25

    processes = Processes(tmp_path, 2, work)
    assert any(processes.ended()) == bool(who)
    assert processes.said().count("different numbers on held-out tasks") == bool(who)


@pytest.mark.slow
def test_processes_that_no_longer_do_the_same_end_with_one_sentence(tmp_path):
    """One goes on writing where the other one learns, as after different rewards."""

    def work() -> None:
        signal.alarm(30)  # ends those that wait for each other
        with together.together():
            shares = Shares()
            if rank():
                shares.require_same([[1, 2]])
            gathered(None)

    processes = Processes(tmp_path, 2, work)
    assert processes.ended() == [2, 2]
    assert processes.said().count("the processes went different ways: what a world shows") == 1


@pytest.mark.slow
@pytest.mark.parametrize("flags", [
    "--help", "--arms nobody", "--world none --demos nowhere.jsonl", "--run old",
    "--resume --run x",
])  # fmt: skip
def test_what_is_said_before_a_run_is_said_once(flags, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs/old").mkdir(parents=True)
    (tmp_path / "runs/old/config.json").write_text("{}")
    processes = Processes(tmp_path, 2, lambda: main(["train", *flags.split()]))
    codes = processes.ended()
    with pytest.raises(SystemExit) as stop:
        main(["train", *flags.split()])
    expected = capsys.readouterr()
    assert processes.said() == expected.out + expected.err
    assert codes[0] == (stop.value.code or 0) and all(codes) == any(codes)


@pytest.mark.slow
def test_whoever_may_be_started_again_needs_a_name(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_MAX_RESTARTS", "1")
    processes = Processes(tmp_path, 2, lambda: main(["train"]))
    assert processes.ended()[0] == 2
    said = processes.said()
    assert said.count("--max-restarts needs a --run") == said.count("\n") == 1


def test_whoever_is_started_again_goes_on_with_the_flags_that_a_resume_was_given(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs/r").mkdir(parents=True)
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    begins = ["--run", "r", *FLAGS[:2]]
    resumes = ["--run", "r", "--resume", "--shard", "never"]
    assert train.again(begins) == begins  # nothing was saved
    (tmp_path / "runs/r/config.json").write_text("{}")
    assert train.again(begins) == resumes[:3]
    assert train.again(resumes) == resumes


@pytest.mark.parametrize("command", ["evaluate", "logs", "report", "export", "serve", "--help"])
def test_only_train_runs_in_several_processes(command, monkeypatch, capsys):
    monkeypatch.setenv("WORLD_SIZE", "2")
    said = []
    for number in ("0", "1"):
        monkeypatch.setenv("RANK", number)
        with pytest.raises(SystemExit) as stop:
            main([command])
        assert stop.value.code == 2
        said.append(capsys.readouterr().err)
    assert said == [f"minprm {command} runs in one process: start it without torchrun\n", ""]


def test_a_number_of_processes_that_no_torchrun_has_set_is_refused(monkeypatch, capsys):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(SystemExit) as stop:
        train.main([])
    assert stop.value.code == 2 and "unset WORLD_SIZE" in capsys.readouterr().err


def test_spread_weights_are_not_played_ahead_of(monkeypatch, tmp_path):
    monkeypatch.setattr(base, "count", lambda: 2)
    cfg = Config(preset="smoke", shard="always", sampler="transformers", rl=RL(max_async_level=1))
    sentence = refusal(base.base_policy, cfg, 0, tmp_path)
    assert "--rl.max-async-level 1" in sentence and "--shard never" in sentence
