"""--jobs: arms of a ladder in several processes at once, with the files of one run.

Each arm has a process, which runs it as a single one would, and appends to the files of the run
itself. The parent writes a row of the ladder when an arm ends. A stage lies on disk when it is
done: an arm waits for the one that makes a stage of its own.

Ctrl-C reaches the parent alone, which hands it on, as it does where a process fails or is killed:
one that trains saves and ends, the others end at once. All end when the parent ends, in whatever
way.
"""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkContext, SpawnContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch
from loguru import logger
from safetensors import SafetensorError

from minprm.constants import Config, fail
from minprm.load.pretrained import device_of
from minprm.look.log import Log
from minprm.run.ctrl_c import CtrlC
from minprm.several.processes import count
from minprm.several.together import way_on

MOST = 4  # processes that are started without being asked for
STOPPED = 130  # the exit code after Ctrl-C
NOTICED = 0.2  # seconds after which the parent sees at the latest that Ctrl-C was pressed
# what a container may use of all cores together: "200000 100000" is 200 ms in every 100 ms
QUOTA = Path("/sys/fs/cgroup/cpu.max")
Work = Callable[[Log], Callable[[str], Any]]  # makes, in the process, what runs an arm by its name


def processes(cfg: Config, arms: int) -> int:
    """In how many processes so many arms run."""
    jobs = cfg.jobs
    if count() > 1:  # torchrun's, which share out each arm
        return 1
    if not jobs:
        embedded = cfg.model == "tiny" and device_of(cfg.device).type == "cpu"
        alone = not embedded or cfg.rl.max_async_level > 0
        alone = alone or sys.platform == "win32"  # where Ctrl-C cannot be the parent's alone
        jobs = 1 if alone else min(MOST, _cores() // torch.get_num_threads())
    return max(1, min(jobs, arms))


def _cores() -> int:
    """The cores that this process may use, where the system tells."""
    cores = os.cpu_count() or 1
    if sys.platform == "linux":
        cores = len(os.sched_getaffinity(0))
    if QUOTA.exists():
        time, period = QUOTA.read_text(encoding="utf-8").split()
        if time != "max":
            cores = min(cores, int(time) // int(period))
    return cores


def next_arm(todo: dict[str, set[str]], running: list[str]) -> str | None:
    """The first arm to begin: it shares no stage that a running one makes. None: all have to wait.

    >>> next_arm({"a": {"x", "x+y"}, "b": {"x", "x+z"}, "c": {"w"}}, ["a"])
    'c'
    """
    making: set[str] = set()
    for arm in running:
        making |= todo[arm]
    for arm, stages in todo.items():
        if arm not in running and stages.isdisjoint(making):
            return arm
    return None


def side_by_side(
    work: Work, todo: dict[str, set[str]], jobs: int, folder: Path
) -> Iterator[tuple[str, Any]]:
    """(arm, its outcome) of each arm, in the order in which they end.

    todo: the stages that each arm still has to make; what is done is taken out. folder: of the run.
    """
    running: dict[Connection, BaseProcess] = {}
    with CtrlC(silent=True) as ctrl_c:  # while a process forks nothing can be logged
        try:
            while todo and not ctrl_c.pressed:
                arm = next_arm(todo, [process.name for process in running.values()])
                if arm and len(running) < jobs:
                    pipe, process = _begin(work, arm, folder)
                    running[pipe] = process
                    continue
                heard = wait(list(running), NOTICED)
                for pipe in [pipe for pipe in running if pipe in heard]:
                    process = running[pipe]
                    outcome = _outcome(pipe, process, folder.name)
                    del running[pipe]
                    if outcome is None:
                        ctrl_c.noted = True
                        continue
                    made = todo.pop(process.name)
                    for stages in todo.values():
                        stages -= made
                    yield process.name, outcome
            if ctrl_c.pressed:
                ctrl_c.say()
        finally:
            for process in running.values():
                process.terminate()  # by SIGTERM, which is the same as Ctrl-C
            for process in running.values():
                process.join()


def _begin(work: Work, arm: str, folder: Path) -> tuple[Connection, BaseProcess]:
    """Begins a process that runs this arm. Returns what is heard of it, and the process."""
    context = _context()
    pipe, theirs = context.Pipe(duplex=False)
    arguments = (theirs, work, arm, folder, torch.get_num_threads())
    process = context.Process(target=_serve, name=arm, args=arguments, daemon=True)
    process.start()
    theirs.close()  # what the process alone holds is closed by its death
    return pipe, process


def _context() -> ForkContext | SpawnContext:
    """How a process begins.

    A fork has all imports behind it. It is safe where no threads compute: those of OpenMP are not
    there after a fork, and would be waited for.
    """
    if sys.platform == "linux" and torch.get_num_threads() == 1:
        return ForkContext()
    return SpawnContext()


def _outcome(pipe: Connection, process: BaseProcess, run: str) -> Any:
    """What the arm came to; None where Ctrl-C has ended its process. Exits where it has failed."""
    outcome = None
    with suppress(EOFError, ConnectionError):  # it has ended without one
        outcome = pipe.recv()
    process.join()
    code = process.exitcode or 0
    if code > 0 and code != STOPPED:  # it has said why
        raise SystemExit(code)
    if outcome is None and code != STOPPED:
        fail(
            f"a process ended before it had run {process.name}: it was killed (exit code {code}), "
            "perhaps for memory, or ended by a program of yours. Go on with: "
            f"{way_on(run)}, or with fewer processes: --resume --jobs 1"
        )
    return outcome


# --- in the process ---


def _serve(pipe: Connection, work: Work, arm: str, folder: Path, threads: int) -> None:
    """The life of a process."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    os.setpgrp()  # Ctrl-C on the terminal is for the parent
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    log = Log(folder, bars=False)
    try:
        logger.disable("minprm")  # what a start says, the parent has said
        run_arm = work(log)
        logger.enable("minprm")
        logger.disable("minprm.run.ctrl_c")  # and it says once that all stop
        log.join()
        pipe.send(run_arm(arm))
    except KeyboardInterrupt:
        raise SystemExit(STOPPED) from None
    except (OSError, SafetensorError) as error:  # as of a disk that is full
        fail(f"{error}: nothing is half written; mend that, and go on with: {way_on(folder.name)}")


def _end_with_parent() -> None:
    """Ends this process at once when the parent has ended, in whatever way."""
    parent = multiprocessing.parent_process()
    if parent:
        parent.join()
    os._exit(1)
