"""A run in several processes (torchrun): the first one writes its files, and one speaks for all.

All run the same program (several/shares.py). The others do so in a folder of their own, which is
thrown away, and what they print is not shown. When one of them fails, all end, and one says why. A
counter that torchrun keeps tells who that is; and what torchrun itself prints comes after it.
"""

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO, TypeVar

from minprm.constants import fail
from minprm.printable import say

T = TypeVar("T")
PATIENCE = 5  # seconds in which the first process may find out what another one knows
SET_BY_TORCHRUN = ("RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
TERMINATED = 128 + signal.SIGTERM  # the exit code after that signal
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Place:
    """Where a process works: here, but for those that are not the first."""

    first = True
    run = ""  # its name, once it has one
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
        from minprm.several import processes  # torch, for which a single process need not wait here

        self.processes = processes
        self.first = processes.rank() == 0
        if not self.first:
            self.runs = Path(folder) / "runs"
            self.checkpoints = Path(folder) / "checkpoints"

    def from_first(self, make: Callable[[], T]) -> T:
        return self.processes.from_first(make)

    def copy(self, file: Path) -> None:
        self.processes.copy_from_first(self.runs / file.parent, file.name)


def started() -> int:
    """How many processes torchrun has started."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def several() -> bool:
    """Has torchrun started more than one process?"""
    return started() > 1


def restarts() -> int:
    """How often torchrun has started all of them again (its --max-restarts)."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


def may_restart() -> bool:
    """Will torchrun start all again when one has ended?"""
    return several() and int(os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0")) > 0


def way_on(run: str) -> str:
    """The command by which a run goes on."""
    if not several():
        return f"minprm train --run {run} --resume"
    here = os.environ.get("LOCAL_WORLD_SIZE", os.environ["WORLD_SIZE"])  # on this machine
    return f"torchrun --nproc-per-node {here} -m minprm -- train --run {run} --resume"


def refuse_several(command: str) -> None:
    """Exits where a command that needs one process was started in several. The first says so."""
    if several():
        if os.environ.get("RANK", "0") == "0":
            say(f"minprm {command} runs in one process: start it without torchrun")
        raise SystemExit(2)


@contextmanager
def together() -> Iterator[Place]:
    """The place of this process, from the moment when all are there to that when all are done."""
    if not several():
        yield Place()
        return
    missing = [name for name in SET_BY_TORCHRUN if name not in os.environ]
    if missing:
        fail(
            f"WORLD_SIZE is {os.environ['WORLD_SIZE']}, but {missing[0]} is not set: start with "
            "torchrun, or unset WORLD_SIZE"
        )
    from minprm.several import processes

    processes.start()
    code = 0
    with TemporaryDirectory() as folder, TemporaryFile() as transcript:
        terminal = os.dup(2)
        if processes.rank():
            _print_to(transcript.fileno())
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
        place = Beside(folder)
        try:
            yield place
            processes.gathered(None)  # nobody leaves while another one has something to ask
        except BaseException as error:
            code = _ended(error, place, transcript, terminal)
    if code:
        os._exit(code)  # what Python would tidy up needs the others
    processes.stop()


def _print_to(file: int) -> None:
    """What this process prints from now on goes there."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.dup2(file, 1)
    os.dup2(file, 2)


def _ended(error: BaseException, place: Beside, transcript: IO[bytes], terminal: int) -> int:
    """Says why all end, where no other process does. Returns the exit code of this one.

    transcript: what this process has printed, if it is not the first. terminal: where the user
    reads.
    """
    for number in SIGNALS:  # torchrun may send one to all when the first of them has ended
        signal.signal(number, signal.SIG_IGN)
    code = error.code if isinstance(error, SystemExit) else 1
    if not code:  # --help
        return 0
    stopped = code == TERMINATED or isinstance(error, KeyboardInterrupt)
    knows = not stopped and not place.processes.of_others(error)
    speaks = _speaks(place, knows)
    if not place.first:
        _print_to(terminal if speaks else transcript.fileno())
    if speaks:
        _say(error, knows, place, transcript)
    sys.stdout.flush()
    sys.stderr.flush()
    return code if isinstance(code, int) else 1


def _speaks(place: Beside, knows: bool) -> bool:
    """Is it this process that says why? The first to ask is. One that knows leaves the first
    process some time: it may end for the same reason, and has told it already."""
    notes = place.processes.store()
    if notes is None:  # torchrun has ended too
        return place.first
    attempt = f"ended {restarts()}"  # how many have asked; to add 0 is to read it
    until = time.monotonic() + PATIENCE
    while knows and not place.first and not notes.add(attempt, 0) and time.monotonic() < until:
        time.sleep(0.1)
    return notes.add(attempt, 1) == 1


def _say(error: BaseException, knows: bool, place: Beside, transcript: IO[bytes]) -> None:
    """Why all end."""
    if not knows:
        saved = place.run and (Place.runs / place.run / "config.json").exists()
        further = f"go on with --run {place.run} --resume" if saved else "begin anew"
        say(
            "the run was stopped, or one of its processes has ended; where torchrun does not start "
            f"all of them again, {further}"
        )
        return
    if not place.first:
        print(f"process {place.processes.rank()}:", file=sys.stderr, end=" ")
    if not isinstance(error, SystemExit):
        traceback.print_exception(error)
    elif not place.first:  # a refusal is the line that it has printed last
        transcript.seek(0)
        last = transcript.read().decode(errors="replace").strip().rpartition("\n")[2]
        say(last)
