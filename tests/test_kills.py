"""`pytest -m kills`: runs that are killed at random moments end as if nothing had happened.

The processes are forks of this one, which has all imports behind it: a kill costs a second.
"""

import json
import os
import random
import shutil
import signal
import time
from hashlib import sha256
from multiprocessing.context import ForkProcess
from pathlib import Path

import pytest

from minprm.commands import train
from shared.processes import Processes, begun
from shared.stages import clockless

pytestmark = [pytest.mark.kills, pytest.mark.usefixtures("ungated")]
KILLS = 20
KILLS_OF_SEVERAL = 6
FLAGS = (
    "--preset smoke --no-gate --tiny.updates 10 --tiny.dim 32 --arms act_prm rl --seeds 0 1 "
    "--act-prm.updates 6 --act-prm.batch 4 --eval-every 1 --act-prm.patience 3 "
    "--rl.updates 6 --rl.batch 2 --rl.group 4 --rl.advantage gae --rl.max-async-level 1 "
    "--num-demos 8 --held-out 2 --episodes 6 --eval-tasks 4 --save-every 2 --threads 1 "
    "--thought-tokens 16 --action-tokens 4"
).split()


def flags_of(folder: Path, run: str) -> list[str]:
    """Those that begin the run, or go on with it."""
    known = (folder / "runs" / run / "config.json").exists()
    return ["--run", run, *(["--resume"] if known else FLAGS)]


def begin(folder: Path, run: str) -> ForkProcess:
    flags = flags_of(folder, run)
    return begun(folder, lambda: train.main(flags))


def finish(folder: Path, run: str) -> None:
    process = begin(folder, run)
    process.join()
    assert process.exitcode == 0, (folder / "output.txt").read_text()[-3000:]


def left(folder: Path, run: str) -> dict[str, object]:
    """All that a run left, without what a clock measured: numbers, logs, weights."""
    files = folder / "runs" / run
    rows = json.loads((files / "ladder.json").read_text())
    found = {arm: [{**row, "seconds": 0} for row in many] for arm, many in rows.items()}
    lines = map(json.loads, (files / "metrics.jsonl").read_text().splitlines())
    found["metrics"] = [clockless(line) for line in lines]
    for file in files.glob("*samples*.jsonl"):
        found[file.name] = file.read_text()
    for file in files.glob("relabelled*.jsonl"):
        found[file.name] = file.read_text()
    for file in (folder / "checkpoints" / run).glob("*/model.safetensors"):
        found[file.parent.name] = sha256(file.read_bytes()).hexdigest()
    return found


@pytest.fixture(scope="module")
def whole(ungated, tmp_path_factory) -> tuple[dict, float]:
    """(what an undisturbed run of this process leaves, its seconds)."""
    folder = tmp_path_factory.mktemp("whole")
    began = time.perf_counter()
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.chdir(folder)
        train.main(flags_of(folder, "r"))
    return left(folder, "r"), time.perf_counter() - began


def test_a_run_that_is_killed_and_killed_again_ends_as_if_it_had_not_been(whole, tmp_path):
    expected, seconds = whole
    rng = random.Random(0)
    kills = runs = 0
    while kills < KILLS:
        process = begin(tmp_path, "r")
        process.join(rng.uniform(0, seconds / 2))
        if process.exitcode is None:
            number = rng.choice([signal.SIGKILL, signal.SIGINT])
            os.kill(process.pid, number)
            process.join()
            kills += 1
            # a Ctrl-C that comes after the last update lets the run end
            allowed = (-number,) if number == signal.SIGKILL else (130, 1, 0)
            assert process.exitcode in allowed, (tmp_path / "output.txt").read_text()[-3000:]
        else:
            assert process.exitcode == 0, (tmp_path / "output.txt").read_text()[-3000:]
        if process.exitcode == 0:
            assert left(tmp_path, "r") == expected
            runs += 1
            for name in ("runs", "checkpoints"):
                shutil.rmtree(tmp_path / name)
    finish(tmp_path, "r")
    assert left(tmp_path, "r") == expected


def test_two_runs_side_by_side_in_one_folder_do_not_disturb_each_other(whole, tmp_path):
    processes = [begin(tmp_path, run) for run in ("a", "b")]
    for process in processes:
        process.join()
        assert process.exitcode == 0, (tmp_path / "output.txt").read_text()[-3000:]
    assert left(tmp_path, "a") == left(tmp_path, "b") == whole[0]
    assert not list((tmp_path / "checkpoints").glob(".*"))


def test_several_processes_that_are_killed_go_on_in_any_number_of_them(whole, tmp_path):
    expected, seconds = whole
    rng = random.Random(0)
    kills = 0
    while True:
        flags = flags_of(tmp_path, "r")
        n = rng.randint(2, 3)
        processes = Processes(tmp_path, n, lambda: train.main(flags))  # noqa: B023
        if kills < KILLS_OF_SEVERAL:
            time.sleep(rng.uniform(0, 2 * seconds))
            number = rng.choice([signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
            if number == signal.SIGKILL:
                os.kill(rng.choice(processes.all).pid, number)
            else:
                processes.signal(number)
            kills += 1
        codes = processes.ended()
        assert None not in codes and "Traceback" not in processes.said(), processes.said()[-3000:]
        if not any(codes):
            break
    found = left(tmp_path, "r")
    assert found.keys() == expected.keys()
    for ours, theirs in zip(found["metrics"], expected["metrics"], strict=True):
        assert ours == pytest.approx(theirs, abs=1e-5, nan_ok=True)
    for arm in ("act_prm", "rl", "random", "expert"):
        success = [[row["success"] for row in each[arm]] for each in (found, expected)]
        assert success[0] == success[1]
