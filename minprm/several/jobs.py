"""--jobs: arms of a ladder in several processes at once, with the files of one run.

Each process runs whole arms, as a single one would, and appends to the files of the run itself. The
parent hands out the arms, and writes a row of the ladder when one ends. Arms that begin alike share
stages, and these lie on disk when they are done: so such arms go to one process, one by one.

Ctrl-C reaches the parent alone, which hands it on: a process that trains saves and ends, the others
end at once. Processes end when the parent does, in whatever way that ends; and it ends them all
when one of them fails or is killed.
"""

import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkContext, SpawnContext
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
        alone = not embedded or cfg.track != "none" or cfg.rl.max_async_level > 0
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
    with CtrlC(silent=True) as ctrl_c:  # while a process forks nothing can be logged
        workers = [Worker(work, folder) for _ in range(min(jobs, len(waiting)))]
        try:
            for worker in workers:
                worker.take(waiting.pop(0))
            while any(worker.arms for worker in workers) and not ctrl_c.pressed:
                heard = wait([worker.pipe for worker in workers], NOTICED)
                for worker in workers:
                    if worker.pipe not in heard:
                        continue
                    arm, outcome = worker.outcome()
                    if not arm:  # it alone was told to stop, and so all are
                        ctrl_c.noted = True
                        break
                    yield arm, outcome
                    if waiting and not worker.arms:
                        worker.take(waiting.pop(0))
            if ctrl_c.pressed:
                ctrl_c.say()
                _stop(workers)
        finally:
            for worker in workers:  # all files that they write are written whole or not at all
                worker.process.kill()
                worker.process.join()


class Worker:
    """A process that runs arms, as the parent sees it."""

    def __init__(self, work: Work, folder: Path):
        context = _context()
        self.folder = folder
        self.arms: list[str] = []  # that it has taken and not ended
        self.pipe, theirs = context.Pipe()
        arguments = (theirs, work, folder, torch.get_num_threads())
        self.process = context.Process(target=_serve, args=arguments, daemon=True)
        self.process.start()
        theirs.close()  # what the process alone holds is closed by its death

    def take(self, arms: list[str]) -> None:
        """Has it run these arms."""
        self.arms = arms
        for arm in arms:
            self.pipe.send(arm)

    def outcome(self) -> tuple[str, Any]:
        """(the arm that has ended, what came of it); ("", None) where Ctrl-C has ended the process.
        Raises what else it has ended with."""
        try:
            arm, outcome = self.pipe.recv()
        except (EOFError, ConnectionError):
            self.process.join()
            fail(
                f"the process of {self.arms[0]} was killed (exit code {self.process.exitcode}), "
                f"perhaps for memory. Go on with: {way_on(self.folder.name)}, or with fewer "
                "processes: --resume --jobs 1"
            )
        if isinstance(outcome, BaseException):
            raise outcome
        self.arms = self.arms[1:]
        return arm, outcome


def _stop(workers: list[Worker]) -> None:
    """Hands Ctrl-C on, and waits until each process has saved what it trains."""
    for worker in workers:
        if worker.process.is_alive() and worker.process.pid:
            os.kill(worker.process.pid, signal.SIGINT)
    for worker in workers:
        worker.process.join()


def _context() -> ForkContext | SpawnContext:
    """How a process begins.

    A fork has all imports behind it. It is safe where no threads compute: those of OpenMP are not
    there after a fork, and would be waited for.
    """
    if sys.platform == "linux" and torch.get_num_threads() == 1:
        return ForkContext()
    return SpawnContext()


# --- in the process ---


def _serve(pipe: Connection, work: Work, folder: Path, threads: int) -> None:
    """The life of a process. The parent ends it."""
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
        while True:
            arm = pipe.recv()
            pipe.send((arm, run_arm(arm)))
    except (EOFError, ConnectionError):  # the parent has ended
        return
    except KeyboardInterrupt:
        pipe.send(("", None))
    except BaseException as error:  # whatever it is, the parent ends with it
        pipe.send(("", _portable(error)))


def _end_with_parent() -> None:
    """Ends this process at once when the parent has ended, in whatever way."""
    parent = multiprocessing.parent_process()
    if parent:
        parent.join()
    os._exit(1)


def _portable(error: BaseException) -> BaseException:
    """The error as it can go through a pipe, with the lines that led to it."""
    if isinstance(error, SafetensorError):  # of a disk that is full, as an OSError is
        error = OSError(str(error))
    elif not isinstance(error, SystemExit | OSError):
        error = RuntimeError(f"{type(error).__name__}: {error}")
    error.add_note("".join(traceback.format_exc()))
    return error
