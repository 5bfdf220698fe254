"""Commands in processes of their own, which are forks of the test: they have all imports behind
them. `Processes` are several, as torchrun starts them; what torchrun does when one of them ends,
`ended` does here."""

import gc
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing.context import ForkContext, ForkProcess
from multiprocessing.synchronize import Event
from pathlib import Path

from torch.distributed import TCPStore

FORK = ForkContext()
LIMIT = 60  # seconds in which one has to end, and then all


def begun(folder: Path, work: Callable[[], None]) -> ForkProcess:
    """A fork in a folder, in which it writes output.txt: a command as a shell starts it."""
    process = FORK.Process(target=alone, args=(folder, work))
    process.start()
    return process


def alone(folder: Path, work: Callable[[], None]) -> None:
    os.setpgrp()
    as_a_command(folder)
    work()


def as_a_command(folder: Path) -> None:
    """Goes to the folder, prints into output.txt, and hears Ctrl-C, whatever the tests do."""
    os.chdir(folder)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    output = os.open("output.txt", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.stdout = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115


class Processes:
    """n processes that run a function, in a folder in which they write output.txt."""

    def __init__(self, folder: Path, n: int, work: Callable[[], None]):
        self.output = folder / "output.txt"
        self.store = TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
        all_forked = FORK.Event()
        self.all = []
        for rank in range(n):
            names = {
                "RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": n, "MASTER_ADDR": "localhost",
                "MASTER_PORT": self.store.port, "TORCHELASTIC_USE_AGENT_STORE": True,
            }  # fmt: skip
            arguments = (folder, names, all_forked, work)
            self.all.append(FORK.Process(target=child, args=arguments))
        for process in self.all:
            process.start()
        all_forked.set()

    def signal(self, number: int) -> None:
        """What torchrun does with a signal of its own."""
        for process in self.all:
            if process.exitcode is None:
                os.kill(process.pid, number)

    def alive(self) -> bool:
        return any(process.exitcode is None for process in self.all)

    def ended(self, limit: float = LIMIT) -> list[int]:
        """Waits until all have ended. Returns their exit codes."""
        until = time.monotonic() + limit
        while not any(process.exitcode for process in self.all) and time.monotonic() < until:
            if all(process.exitcode == 0 for process in self.all):
                return [0 for _ in self.all]
            time.sleep(0.02)
        self.signal(signal.SIGTERM)
        until = time.monotonic() + LIMIT
        for process in self.all:
            process.join(max(0.0, until - time.monotonic()))
        codes = [process.exitcode for process in self.all]
        self.signal(signal.SIGKILL)
        return codes

    def said(self) -> str:
        return self.output.read_text()


def child(folder: Path, names: dict[str, object], all_forked: Event, work: Callable) -> None:
    """The life of one.

    It waits until all are forked. The store's thread works as soon as one process joins, and a lock
    that the thread holds in that moment would stay locked in whatever is forked then.
    """
    gc.freeze()  # a store of an earlier test would wait for its thread, which is not in a fork
    all_forked.wait()
    os.environ.update({name: str(value) for name, value in names.items()})
    as_a_command(folder)
    tempfile.tempdir = str(folder)
    work()
