"""A run in several processes (torchrun): the first one writes its files, and one speaks for all.

All run the same program (model/parallel.py). The others do so in a folder of their own, which is
thrown away, and what they print is not shown. When one of them fails, all end, and one says why.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO, TypeVar

T = TypeVar("T")
PATIENCE = 5  # seconds that a process leaves to the first one to say why all of them end
GO_ON = "go on with the same command and --resume"


class Place:
    """Where a process works: here, but for those that are not the first."""

    first = True
    runs = Path("runs")
    checkpoints = Path("checkpoints")

    def from_first(self, make: Callable[[], T]) -> T:
        """What the function returns in the first process, which alone calls it."""
        return make()

    def copy(self, file: Path) -> None:
        """Brings a file of the first process's `runs` to this one's, where that has it."""


class Beside(Place):
    """That of one of several processes."""

    def __init__(self, folder: str):
        from minprm.model import processes  # torch, for which a single process need not wait here

        self.processes = processes
        self.first = processes.rank() == 0
        if not self.first:
            self.runs = Path(folder) / "runs"
            self.checkpoints = Path(folder) / "checkpoints"

    def from_first(self, make: Callable[[], T]) -> T:
        return self.processes.from_first(make)

    def copy(self, file: Path) -> None:
        path = self.runs / file
        content = self.from_first(lambda: path.read_bytes() if path.exists() else None)
        if content is not None and not self.first:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def several() -> bool:
    """Has torchrun started more than one process?"""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def restarts() -> int:
    """How often torchrun has started all of them again (its --max-restarts)."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) if several() else 0


@contextmanager
def together() -> Iterator[Place]:
    """The place of this process, from the moment when all are there to that when all are done."""
    if not several():
        yield Place()
        return
    from minprm.model.processes import gathered, rank, start

    start()
    with TemporaryDirectory() as folder, TemporaryFile() as said, _one_message(rank(), said):
        yield Beside(folder)
        gathered(None)  # nobody leaves while another one has something to ask


@contextmanager
def _one_message(rank: int, said: IO[bytes]) -> Iterator[None]:
    """Lets one process say why all of them end. said: what this one prints, if it is not the
    first."""
    shown = os.dup(2)
    if rank:
        sys.stdout.flush()
        sys.stderr.flush()
        os.dup2(said.fileno(), 1)
        os.dup2(said.fileno(), 2)
    try:
        yield
    except BaseException as error:
        code = error.code if isinstance(error, SystemExit) else 1
        if not code or isinstance(error, KeyboardInterrupt) or code == 130:
            raise
        if not _speaks(rank, _of_others(error)):
            _end(1)
        os.dup2(shown, 2)
        if _of_others(error):
            print(
                f"another process of this run has ended, and so it ends; {GO_ON}", file=sys.stderr
            )
            _end(1)
        if rank:
            print(f"process {rank}: {_last_line(said) if code == 2 else ''}", file=sys.stderr)
        raise


def _end(code: int) -> None:
    """Ends this process at once: what it would tidy up needs the others."""
    sys.stderr.flush()
    os._exit(code)


def _of_others(error: BaseException) -> bool:
    """Does it only tell that another process is no longer there?"""
    return isinstance(error, RuntimeError) and any(
        word in str(error) for word in ("gloo", "NCCL", "Connection", "connection")
    )


def _speaks(rank: int, of_others: bool) -> bool:
    """Is it this process that says why? The first one, where it knows a reason; else any that
    does."""
    from minprm.model.processes import store

    notes = store()
    if notes is None:  # torchrun has ended too
        return rank == 0
    attempt = f"ended {restarts()}"
    if rank == 0 and not of_others:
        notes.add(attempt, 1)
        return True
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if notes.add(attempt, 0):
            return False
        time.sleep(0.1)
    return notes.add(attempt, 1) == 1


def _last_line(said: IO[bytes]) -> str:
    """What was printed last. A refusal is one line."""
    said.flush()
    said.seek(0)
    lines = said.read().decode(errors="replace").split("\n")
    return next((line for line in reversed(lines) if line.strip()), "")
