"""--jobs: arms in processes of their own leave what one process leaves, however they are ended."""

import json
import multiprocessing
import os
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from hashlib import sha256
from multiprocessing.context import ForkContext, SpawnContext
from pathlib import Path

import pytest

from minprm.arms import ladder
from minprm.commands import checks, train
from minprm.commands.cli import parse
from minprm.constants import RL, Config, fail, refusal
from minprm.look.log import Log, to_json
from minprm.several import jobs
from shared.processes import begun
from shared.stages import CFG, Lines, clockless

FLAGS = (
    "--preset smoke --no-gate --tiny.updates 5 --tiny.dim 32 --act-prm.updates 6 "
    "--act-prm.batch 2 --act-prm.group 4 --rl.updates 6 --rl.batch 2 --rl.group 4 --eval-every 2 "
    "--eval-tasks 4 --num-demos 8 --held-out 2 --episodes 5 --save-every 2 --watch 1 --threads 1 "
    "--thought-tokens 16 --arms base act_prm shuffled_thoughts rl"
).split()


def left(folder: Path) -> dict[str, object]:
    """All that a run left, without what a clock measured, and whatever the order of the lines."""
    files = folder / "runs/r"
    rows = json.loads((files / "ladder.json").read_text())
    found = {"arms": list(rows)}
    found |= {arm: [{**row, "seconds": 0} for row in many] for arm, many in rows.items()}
    for file in files.glob("*.jsonl"):
        if file.name != "starts.jsonl":
            lines = map(json.loads, file.read_text().splitlines())
            found[file.name] = sorted(json.dumps(clockless(line)) for line in lines)
    found["tensorboard"] = {file.parent.relative_to(files) for file in files.glob("**/events*")}
    for file in (folder / "checkpoints/r").glob("*/model.safetensors"):
        about = json.loads(file.with_name("minprm.json").read_text())
        about["row"]["seconds"] = 0
        found[file.parent.name] = about, sha256(file.read_bytes()).hexdigest()
    return found


@pytest.fixture(scope="module")
def whole(ungated, tmp_path_factory) -> Path:
    """What one process leaves: this one, so that forks of it import nothing anew."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.chdir(folder)
        train.main(["--run", "r", *FLAGS, "--jobs", "1"])
    return folder


@pytest.fixture
def here(whole, tmp_path) -> Path:
    """A folder that holds the base model."""
    ignore = shutil.ignore_patterns("r")
    shutil.copytree(whole / "checkpoints", tmp_path / "checkpoints", ignore=ignore)
    return tmp_path


def begin(folder: Path, *flags: str) -> multiprocessing.Process:
    return begun(folder, lambda: train.main(["--run", "r", *flags]))


def ended(process: multiprocessing.Process, folder: Path) -> tuple[int, str]:
    """The exit code, and what the process said."""
    process.join(300)
    process.kill()  # it is none where it has ended
    return process.exitcode, (folder / "output.txt").read_text()


def finish(folder: Path, *flags: str) -> None:
    code, said = ended(begin(folder, *flags), folder)
    assert code == 0, said[-3000:]


def workers(process: multiprocessing.Process) -> list[int]:
    """The processes that a process has started and that have not ended."""
    return [
        int(word)
        for word in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    ]


def alive(pid: int) -> bool:
    """Is there such a process? One that has ended may wait to be buried."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(")")[-1].split()[0] != "Z"
    except OSError:
        return False


def until(true: Callable[[], object]) -> None:
    """Waits for what has to come."""
    late = time.monotonic() + 30
    while not true():
        assert time.monotonic() < late
        time.sleep(0.01)


def both_train(folder: Path) -> bool:
    """Does each of two workers have an update behind it?"""
    file = folder / "runs/r/metrics.jsonl"
    text = file.read_text() if file.exists() else ""
    return '"stage": "act_prm"' in text and '"stage": "rl"' in text


def slowed(monkeypatch, seconds: float = 0.3) -> None:
    """Updates of what is started from here take longer, so that they can be interrupted."""
    update_of_worker = Log.metrics

    def update(self, *what):
        time.sleep(seconds)
        update_of_worker(self, *what)

    monkeypatch.setattr(Log, "metrics", update)


# --- the numbers ---


@pytest.mark.slow
def test_two_processes_leave_what_one_leaves(whole, here):
    finish(here, *FLAGS, "--jobs", "2")
    assert left(here) == left(whole)
    said = (here / "output.txt").read_text()
    assert "4 arms in 2 processes" in said
    for stage in ("act_prm", "act_prm+relabel", "rl"):  # each is made once
        assert said.count(f"seed 0  {stage}  ") == 1


def test_a_process_that_ends_without_a_word_is_missed(capsys, tmp_path):
    work = lambda log: lambda arm: os._exit(0) if arm == "b" else arm  # noqa: E731
    with pytest.raises(SystemExit) as stop:
        list(jobs.side_by_side(work, {"a": set(), "b": set()}, 2, tmp_path / "r"))
    assert stop.value.code == 2
    assert "a process ended before it had run b" in capsys.readouterr().err


@pytest.mark.slow
def test_processes_that_are_no_forks_leave_the_same(whole, here, monkeypatch):
    monkeypatch.setattr(jobs, "_context", SpawnContext)
    finish(here, *FLAGS, "--jobs", "2")
    assert left(here) == left(whole)


def test_where_threads_compute_nothing_is_forked(monkeypatch):
    monkeypatch.setattr(jobs.sys, "platform", "linux")
    for threads, context in ((1, ForkContext), (2, SpawnContext)):
        monkeypatch.setattr(jobs.torch, "get_num_threads", lambda threads=threads: threads)
        assert isinstance(jobs._context(), context)
    monkeypatch.setattr(jobs.torch, "get_num_threads", lambda: 1)
    monkeypatch.setattr(jobs.sys, "platform", "darwin")
    assert isinstance(jobs._context(), SpawnContext)


def test_an_arm_waits_for_another_that_makes_a_stage_of_its_own():
    todo = {"a": {"x", "x+y"}, "b": {"x", "x+z"}, "c": {"w"}, "d": set()}
    running = []
    while (arm := jobs.next_arm(todo, running)) is not None:
        running.append(arm)
    assert running == ["a", "c", "d"]
    todo = {"b": {"x+z"}, "c": {"w"}, "d": set(), "e": {"x+v"}}  # "a" has made its stages
    assert jobs.next_arm(todo, ["c", "d"]) == "b"
    assert jobs.next_arm(todo, ["c", "d", "b"]) == "e"  # "x" is made, so they share none


def test_arms_that_share_a_stage_are_begun_when_it_is_made(tmp_path):
    begun = tmp_path / "begun"
    begun.touch()

    def run_arm(arm: str) -> str:
        with begun.open("a") as file:
            file.write(arm)
        if arm == "c":  # it outlasts the others
            until(lambda: len(begun.read_text()) == 3)
        return arm

    todo = {"a": {"x"}, "b": {"x", "x+y"}, "c": {"w"}}
    ended = [arm for arm, _ in jobs.side_by_side(lambda log: run_arm, todo, 2, tmp_path / "r")]
    assert ended.index("a") < ended.index("b") and len(ended) == 3


def test_half_a_line_of_a_process_that_was_killed_is_cut_off_before_the_next_one(tmp_path):
    log = Log(tmp_path)
    path = tmp_path / "metrics.jsonl"
    for before, after in (("", ""), ("{}\n", "{}\n"), ('{}\n{"a', "{}\n"), ('{"a', "")):
        path.write_text(before)
        log._append("metrics.jsonl", ["[]\n"])
        assert path.read_text() == after + "[]\n"


@pytest.mark.slow
def test_processes_write_whole_lines_beside_each_other(tmp_path):
    long = json.dumps("x" * 100_000) + "\n"

    def write() -> None:
        for _ in range(20):
            Log(tmp_path)._append("samples.jsonl", [long])

    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=write) for _ in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert (tmp_path / "samples.jsonl").read_text() == 60 * long


# --- how many ---


@pytest.mark.parametrize(("knobs", "arms", "expected"), [
    ({}, 14, 3),
    ({}, 2, 2),
    ({"jobs": 1}, 14, 1),
    ({"jobs": 6}, 14, 6),
    ({"jobs": 6}, 5, 5),
    ({"model": "some/model"}, 14, 1),
    ({"model": "some/model", "jobs": 2}, 14, 2),
    ({"rl": RL(max_async_level=1)}, 14, 1),
    ({}, 0, 1),
])  # fmt: skip
def test_one_process_a_core_for_the_embedded_model_and_as_many_as_are_asked_for(
    knobs, arms, expected, monkeypatch
):
    monkeypatch.setattr(jobs, "_cores", lambda: 3)
    monkeypatch.setattr(jobs.torch, "get_num_threads", lambda: 1)
    assert jobs.processes(Config(**knobs), arms) == expected


def test_at_most_four_unasked_and_threads_count_as_cores(monkeypatch):
    monkeypatch.setattr(jobs, "_cores", lambda: 64)
    monkeypatch.setattr(jobs.torch, "get_num_threads", lambda: 1)
    assert jobs.processes(Config(), 14) == 4
    monkeypatch.setattr(jobs, "_cores", lambda: 6)
    monkeypatch.setattr(jobs.torch, "get_num_threads", lambda: 2)
    assert jobs.processes(Config(), 14) == 3


def test_a_container_uses_no_more_cores_than_it_may(tmp_path, monkeypatch):
    monkeypatch.setattr(jobs, "QUOTA", tmp_path / "cpu.max")
    allowed = jobs._cores()
    for quota, cores in (("max 100000", allowed), ("100000 100000", 1), ("50000 100000", 0)):
        jobs.QUOTA.write_text(f"{quota}\n")
        assert jobs._cores() == cores
    assert jobs.processes(Config(), 14) == 1


def test_on_windows_all_arms_run_in_one_process(monkeypatch):
    monkeypatch.setattr(jobs, "_cores", lambda: 4)
    monkeypatch.setattr(jobs.torch, "get_num_threads", lambda: 1)
    assert jobs.processes(Config(), 14) == 4
    monkeypatch.setattr(jobs.sys, "platform", "win32")
    assert jobs.processes(Config(), 14) == 1
    assert "--jobs 2: on Windows" in refusal(checks.check, Config(jobs=2))


def test_several_processes_for_one_arm_are_refused():
    said = refusal(parse, ["--arms", "act_prm", "--jobs", "2"])
    assert said == (
        "--jobs has no effect here: it needs several --arms, and no torchrun that "
        "shares out each arm"
    )
    for flags in ("--arms act_prm --jobs 1", "--arms base act_prm --jobs 2"):
        assert refusal(parse, flags.split()) == ""


def test_several_processes_on_a_gpu_are_refused(monkeypatch):
    monkeypatch.setattr(checks, "on_gpu", lambda device, sampler: True)
    assert "--jobs 2: " in refusal(checks.check, Config(jobs=2))
    assert refusal(checks.check, Config(jobs=1)) == ""


# --- how they end ---


@pytest.mark.kills
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_saves_what_each_process_trains_and_the_run_goes_on_alike(
    number, whole, here, monkeypatch
):
    with monkeypatch.context() as patch:
        slowed(patch)
        process = begin(here, *FLAGS, "--jobs", "2")
        until(lambda: both_train(here))
    pids = workers(process)
    os.killpg(process.pid, number)  # as a terminal does
    code, said = ended(process, here)
    assert code == 130 and len(pids) == 2 and not any(map(alive, pids))
    for sentence in ("stopping after this update", "stopped and saved", "--run r --resume"):
        assert said.count(sentence) == 1
    assert "Traceback" not in said
    for stage in ("act_prm", "rl"):
        lines = map(json.loads, (here / "runs/r/metrics.jsonl").read_text().splitlines())
        logged = sum(line["stage"] == stage for line in lines)
        state = json.loads((here / f"checkpoints/r/stages/{stage}-0/state.json").read_text())
        assert state["update"] == logged < 6  # nothing that was learned is lost
    finish(here, "--resume")
    assert left(here) == left(whole)


@pytest.mark.kills
def test_a_parent_that_is_killed_leaves_no_process_and_the_run_goes_on_alike(
    whole, here, monkeypatch
):
    with monkeypatch.context() as patch:
        slowed(patch)
        process = begin(here, *FLAGS, "--jobs", "2")
        until(lambda: both_train(here))
    pids = workers(process)
    os.kill(process.pid, signal.SIGKILL)
    assert ended(process, here)[0] == -signal.SIGKILL and len(pids) == 2
    until(lambda: not any(map(alive, pids)))
    finish(here, "--resume")
    assert left(here) == left(whole)


@pytest.mark.kills
def test_a_process_that_trains_nothing_is_not_waited_for(here, monkeypatch):
    monkeypatch.setattr(ladder, "evaluate", lambda *_: time.sleep(120))
    process = begin(here, *FLAGS, "--jobs", "2")
    until((here / "checkpoints/r/act_prm-0").exists)
    pids = workers(process)
    os.killpg(process.pid, signal.SIGINT)
    assert ended(process, here)[0] == 130 and len(pids) == 2
    assert not any(map(alive, pids))


@pytest.mark.kills
def test_a_second_ctrl_c_ends_all_at_once(here, monkeypatch):
    slowed(monkeypatch, 120.0)
    process = begin(here, *FLAGS, "--jobs", "2")
    samples = here / "runs/r/samples.jsonl"
    until(lambda: samples.exists() and '"rl"' in samples.read_text())
    pids = workers(process)
    os.killpg(process.pid, signal.SIGINT)
    until(lambda: "stopping after this update" in (here / "output.txt").read_text())
    assert any(map(alive, pids))
    os.killpg(process.pid, signal.SIGINT)
    assert ended(process, here)[0] == -signal.SIGINT
    until(lambda: not any(map(alive, pids)))


@pytest.mark.slow
def test_a_run_goes_on_in_as_many_processes_as_are_asked_for_now(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cfg = train.parse(["--run", "r", "--jobs", "4"])
    log = Log(Path("runs/r"))
    log.open(cfg)
    log.close()
    again = ["--run", "r", "--resume"]
    for flags, number in ((again, 4), ([*again, "--jobs=1"], 1), ([*again, "--jobs", "0"], 0)):
        found = train.resumed(train.parse(flags), flags)
        assert found == replace(cfg, jobs=number, resume=True)
    monkeypatch.setenv("WORLD_SIZE", "2")
    flags = [*again, "--shard", "always"]
    assert train.resumed(train.parse(flags), flags).shard == "always"
    monkeypatch.delenv("WORLD_SIZE")
    (tmp_path / "runs/one").mkdir()
    one = to_json(asdict(replace(cfg, arms=["base"])))
    (tmp_path / "runs/one/config.json").write_text(one)
    alone = ["--run", "one", "--resume", "--jobs", "4"]
    assert "--jobs has no effect here: it needs several --arms" in refusal(
        train.resumed, train.parse(alone), alone
    )
    other = [*again, "--threads", "2"]
    assert "give only --run, --jobs and --shard" in refusal(
        train.resumed, train.parse(other), other
    )


@pytest.mark.slow
def test_no_snapshot_depends_on_how_the_work_was_shared_out(checkpoints):
    ways = [{}, {"jobs": 2}, {"shard": "never"}]
    runs = [ladder.start(replace(CFG, **knobs), 0, Lines(), checkpoints) for knobs in ways]
    assert len({run.snapshots.fingerprint() for run in runs}) == 1
    other = ladder.start(replace(CFG, context=77), 0, Lines(), checkpoints)
    assert other.snapshots.fingerprint() != runs[0].snapshots.fingerprint()


@pytest.mark.kills
def test_a_process_that_is_killed_ends_the_run_in_a_sentence_and_it_goes_on_alike(
    whole, here, monkeypatch
):
    with monkeypatch.context() as patch:
        slowed(patch)
        process = begin(here, *FLAGS, "--jobs", "2")
        until(lambda: both_train(here))
    pids = workers(process)
    os.kill(pids[1], signal.SIGKILL)
    code, said = ended(process, here)
    assert code == 2 and "was killed (exit code -9)" in said.splitlines()[-1]
    assert "Traceback" not in said and not any(map(alive, pids))
    finish(here, "--resume", "--jobs", "1")
    assert left(here) == left(whole)


def refused(*_) -> None:
    fail("this cannot be")


def broken(*_) -> None:
    raise ZeroDivisionError("a fault of ours")


def full(*_) -> None:
    raise OSError("[Errno 28] No space left on device")


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "code", "sentence"), [
    (refused, 2, "this cannot be"),
    (full, 2, "No space left on device: nothing is half written"),
    (broken, 1, "ZeroDivisionError: a fault of ours"),
])  # fmt: skip
def test_what_ends_one_process_ends_the_run_as_it_does_in_one(
    fault, code, sentence, whole, here, monkeypatch
):
    with monkeypatch.context() as patch:
        patch.setitem(ladder.STAGES, "rl", fault)
        process = begin(here, *FLAGS, "--jobs", "2")
        found, said = ended(process, here)
    assert found == code and said.count(sentence) == 1
    assert said.count("Traceback") == (fault is broken)
    finish(here, "--resume")
    assert left(here) == left(whole)


def interrupted(*_) -> None:
    raise KeyboardInterrupt


@pytest.mark.slow
def test_ctrl_c_that_one_process_alone_hears_stops_the_run(whole, here, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setitem(ladder.STAGES, "rl", interrupted)
        code, said = ended(begin(here, *FLAGS, "--jobs", "2"), here)
    assert code == 130 and said.count("stopped and saved") == 1
    finish(here, "--resume")
    assert left(here) == left(whole)


@pytest.mark.slow
def test_what_ends_the_parent_ends_the_processes(here, monkeypatch, capsys):
    monkeypatch.chdir(here)
    monkeypatch.setattr(ladder, "write_atomically", full)
    on_ctrl_c = signal.getsignal(signal.SIGINT)
    with pytest.raises(SystemExit):
        train.main(["--run", "r", *FLAGS, "--jobs", "2"])
    assert "No space left on device: nothing is half written" in capsys.readouterr().err
    assert not multiprocessing.active_children()
    assert signal.getsignal(signal.SIGINT) is on_ctrl_c


@pytest.mark.slow
def test_the_parent_alone_hears_that_an_arm_has_ended_and_keeps_its_lock(here, monkeypatch):
    monkeypatch.chdir(here)
    heard = []
    train.main(["--run", "r", *FLAGS, "--jobs", "2"], lambda: heard.append(os.getpid()))
    assert heard == [os.getpid()] * 4  # after each arm
