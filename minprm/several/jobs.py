"""--jobs: arms of a ladder in several processes at once, with the files of one run.

A process runs arms as a single one would, and appends to the files of the run itself. The parent
writes a row of the ladder when an arm ends. Arms that begin alike share stages, and these lie on
disk when they are done: so such arms go to one process, one by one.

Ctrl-C reaches the parent alone, which hands it on: a process that trains saves and ends, the others
end at once. Processes end when the parent does, in whatever way that ends; and it ends them all
when one of them fails or is killed.
"""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
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
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    if QUOTA.exists():
        time, period = QUOTA.read_text(encoding="utf-8").split()
        if time != "max":
            cores = min(cores, int(time) // int(period))
    return cores


def families(arms: dict[str, set[str]]) -> list[list[str]]:
    """The arms, those together that share a stage which is still to be made.

    >>> families({"a": {"x", "x+y"}, "b": {"w"}, "c": {"x", "x+z"}, "d": set()})
    [['a', 'c'], ['b'], ['d']]
    """
    together: list[list[str]] = []
    for arm, stages in arms.items():
        for family in together:
            if any(stages & arms[other] for other in family):
                family.append(arm)
                break
        else:  # it shares none
            together.append([arm])
    return together


def side_by_side(
    work: Work, arms: dict[str, set[str]], jobs: int, folder: Path
) -> Iterator[tuple[str, Any]]:
    """(arm, its outcome) of each arm, in the order in which they end.

    arms: the stages that each still has to make. folder: of the run.
    """
    waiting = families(arms)
    running: dict[Connection, BaseProcess] = {}
    with CtrlC(silent=True) as ctrl_c:  # while a process forks nothing can be logged
        try:
            while (waiting or running) and not ctrl_c.pressed:
                while waiting and len(running) < jobs:
                    pipe, process = _begin(work, waiting.pop(0), folder)
                    running[pipe] = process
                heard = wait(list(running), NOTICED)
                for pipe in list(running):
                    if pipe not in heard:
                        continue
                    try:
                        arm, outcome = pipe.recv()
                    except (EOFError, ConnectionError):  # the process has ended
                        ctrl_c.noted = _stopped(running.pop(pipe), folder.name) or ctrl_c.noted
                        continue
                    if isinstance(outcome, OSError):
                        raise outcome
                    yield arm, outcome
            if ctrl_c.pressed:
                ctrl_c.say()
                for process in running.values():
                    if process.is_alive() and process.pid:
                        os.kill(process.pid, signal.SIGINT)
                for process in running.values():
                    process.join()
        finally:
            for process in running.values():  # all files are written whole or not at all
                process.kill()
                process.join()


def _begin(work: Work, arms: list[str], folder: Path) -> tuple[Connection, BaseProcess]:
    """Begins a process that runs these arms. Returns what is heard of it, and the process."""
    context = _context()
    pipe, theirs = context.Pipe(duplex=False)
    arguments = (theirs, work, arms, folder, torch.get_num_threads())
    process = context.Process(target=_serve, args=arguments, daemon=True)
    process.start()
    theirs.close()  # what the process alone holds is closed by its death
    return pipe, process


def _stopped(process: BaseProcess, run: str) -> bool:
    """Did Ctrl-C end the process? Exits as it has where it failed, or where it was killed."""
    process.join()
    code = process.exitcode or 0
    if code < 0:
        fail(
            f"a process was killed (exit code {code}), perhaps for memory. Go on with: "
            f"{way_on(run)}, or with fewer processes: --resume --jobs 1"
        )
    if code not in (0, STOPPED):  # it has said why
        raise SystemExit(code)
    return code == STOPPED


def _context() -> ForkContext | SpawnContext:
    """How a process begins.

    A fork has all imports behind it. It is safe where no threads compute: those of OpenMP are not
    there after a fork, and would be waited for.
    """
    if sys.platform == "linux" and torch.get_num_threads() == 1:
        return ForkContext()
    return SpawnContext()


# --- in the process ---


def _serve(pipe: Connection, work: Work, arms: list[str], folder: Path, threads: int) -> None:
    """The life of a process."""
    os.setpgrp()  # Ctrl-C on the terminal is for the parent
    threading.Thread(target=_end_with_parent, daemon=True).start()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    log = Log(folder, bars=False)
    try:
        logger.disable("minprm")  # what a start says, the parent has said
        run_arm = work(log)
        logger.enable("minprm")
        logger.disable("minprm.run.ctrl_c")  # and it says once that all stop
        log.join()
        for arm in arms:
            pipe.send((arm, run_arm(arm)))
    except KeyboardInterrupt:
        raise SystemExit(STOPPED) from None
    except (OSError, SafetensorError) as error:  # as of a disk that is full: the parent says so
        pipe.send(("", OSError(str(error))))


def _end_with_parent() -> None:
    """Ends this process at once when the parent has ended, in whatever way."""
    parent = multiprocessing.parent_process()
    if parent:
        parent.join()
    os._exit(1)
