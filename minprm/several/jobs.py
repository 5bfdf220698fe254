"""--jobs: arms of a ladder in several processes at once, with the files of one run.

The parent hands out the arms. It alone writes the run's files and draws the screen; workers write
what is a stage's or an arm's own: snapshots, checkpoints, relabelled logs. What a worker has to log
it tells the parent through a pipe, and waits until that is written. So a snapshot is never ahead of
metrics.jsonl, and a run that is killed goes on as one of a single process does.

Arms that begin alike share stages: none is given away while a worker makes a stage that it needs.

Ctrl-C reaches the parent alone. It ends the workers that train nothing at the moment, and answers
the others with STOP, which is there what Ctrl-C is in a single process. Workers end when the parent
does, in whatever way that ends; and it ends them all when one of them fails or is killed.
"""

import os
import sys
from collections.abc import Callable, Iterator
from multiprocessing.connection import wait
from multiprocessing.context import ForkContext, SpawnContext
from operator import attrgetter
from pathlib import Path
from typing import Any, NoReturn

import torch
from loguru import logger
from tqdm import tqdm

from minprm.constants import Config, fail
from minprm.load.base import sharing
from minprm.load.pretrained import device_of
from minprm.look.log import Log
from minprm.run.ctrl_c import CtrlC
from minprm.several.together import way_on
from minprm.several.worker import STOP, Work, serve

MOST = 4  # processes that are started without being asked for
NOTICED = 0.2  # seconds after which the parent sees at the latest that Ctrl-C was pressed
# what a container may use of all cores together: "200000 100000" is 200 ms in every 100 ms
QUOTA = Path("/sys/fs/cgroup/cpu.max")


def processes(cfg: Config, arms: int) -> int:
    """In how many processes so many arms run."""
    jobs = cfg.jobs
    if sharing(cfg) > 1:  # torchrun's, which share out each arm
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


def side_by_side(
    work: Work, arms: dict[str, set[str]], jobs: int, log: Log, on_save: Callable[[], None]
) -> Iterator[tuple[str, Any]]:
    """(arm, its result) of each arm, in the order in which they end.

    arms: the stages that each still has to make. They are given away in this order.
    """
    with CtrlC(silent=True) as ctrl_c:  # while a process forks nothing can be logged
        dispatcher = Dispatcher(arms, log, on_save, ctrl_c)
        try:
            for _ in range(jobs):
                dispatcher.workers.append(Worker(work, log))
            yield from dispatcher.results()
        finally:
            for worker in dispatcher.workers:
                worker.end()


class Worker:
    """A process that runs arms, as the parent sees it."""

    def __init__(self, work: Work, log: Log):
        context = _context()
        self.pipe, theirs = context.Pipe()
        arguments = (theirs, work, log.folder, torch.get_num_threads())
        self.process = context.Process(target=serve, args=arguments, daemon=True)
        self.process.start()
        theirs.close()  # what the worker alone holds is closed by its death
        self.log = log.beside()
        self.arm = ""  # the one that it runs, or ran last
        self.waits = False  # for the next one

    def trains(self) -> bool:
        """Is it at a stage that is made of updates?"""
        return self.log.screen.shown is not None

    def end(self) -> None:
        """Ends it at once. All files that it writes are written whole or not at all."""
        self.process.kill()
        self.process.join()
        self.log.screen.close()
        self.log.tensorboard.close()


class Dispatcher:
    """Hands out the arms, and writes down what the workers tell."""

    def __init__(
        self, arms: dict[str, set[str]], log: Log, on_save: Callable[[], None], ctrl_c: CtrlC
    ):
        self.arms = arms  # those that nobody has begun, with the stages that each needs
        self.making: dict[str, set[str]] = {}  # the same of those that are under way
        self.clock = log.screen.clock
        self.on_save = on_save
        self.ctrl_c = ctrl_c
        self.workers: list[Worker] = []  # those that have not ended

    def results(self) -> Iterator[tuple[str, Any]]:
        """Listens to the workers until all have ended."""
        said = False
        while self.workers:
            if self.ctrl_c.pressed and not said:
                self.ctrl_c.say()
                said = True
            for pipe in wait([worker.pipe for worker in self.workers], NOTICED):
                worker = next(worker for worker in self.workers if worker.pipe is pipe)
                name, told = self._heard(worker)
                if name == "result":
                    self.making.pop(worker.arm)
                    yield worker.arm, *told
                if name in ("ready", "result"):
                    worker.waits = True
                elif name == "stopped":
                    self.ctrl_c.noted = True  # where it alone was told to stop, all do
                    self._let_go(worker)
                else:
                    self._write_down(worker, name, told)
                    self._answer(worker, STOP if self.ctrl_c.pressed else "")
            self._hand_out()

    def _heard(self, worker: Worker) -> tuple[str, tuple]:
        """The next thing that a worker tells. Raises the error with which it has ended."""
        try:
            name, told, said = worker.pipe.recv()
        except (EOFError, ConnectionError):
            _tell_of_death(worker)
        if said:
            tqdm.write(said, end="", file=sys.stderr)
        if name == "failed":
            raise told[0]
        return name, told

    def _write_down(self, worker: Worker, name: str, told: tuple) -> None:
        """Does what the worker's log was asked for."""
        if name == "saved":
            self.on_save()
        elif name == "message":
            logger.log(*told)
        else:
            attrgetter(name)(worker.log)(*told)
        if name == "screen.finish":
            _, stage_id, _ = told
            for stages in (*self.making.values(), *self.arms.values()):
                stages.discard(stage_id)

    def _answer(self, worker: Worker, answer: str) -> None:
        try:
            worker.pipe.send(answer)
        except ConnectionError:
            _tell_of_death(worker)

    def _hand_out(self) -> None:
        """Gives each worker without an arm the next one; ends it where there is none left."""
        for worker in list(self.workers):
            if (self.ctrl_c.pressed and not worker.trains()) or (worker.waits and not self.arms):
                self._let_go(worker)
            elif worker.waits:
                self._give_an_arm(worker)
        self.clock.jobs = max(1, len(self.making))

    def _give_an_arm(self, worker: Worker) -> None:
        """The first arm that waits for no stage of another worker. There may be none now."""
        others = set().union(*self.making.values())
        for arm, stages in self.arms.items():
            if not stages & others:
                self.making[arm] = self.arms.pop(arm)
                worker.arm = worker.log.arm = worker.log.screen.arm = arm
                worker.waits = False
                self._answer(worker, arm)
                return

    def _let_go(self, worker: Worker) -> None:
        self.workers.remove(worker)
        worker.end()


def _context() -> ForkContext | SpawnContext:
    """How a worker begins.

    A fork has all imports behind it. It is safe where no threads compute: those of OpenMP are not
    there after a fork, and would be waited for.
    """
    if sys.platform == "linux" and torch.get_num_threads() == 1:
        return ForkContext()
    return SpawnContext()


def _tell_of_death(worker: Worker) -> NoReturn:
    worker.process.join()
    fail(
        f"the process of {worker.arm or 'the next arm'} was killed (exit code "
        f"{worker.process.exitcode}), perhaps for memory. Go on with: "
        f"{way_on(worker.log.folder.name)}, or with fewer processes: --resume --jobs 1"
    )
