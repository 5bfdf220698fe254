"""A process of --jobs: it runs the arms that the parent names (several/jobs.py).

Its log is a stand-in: what it is told goes to the parent through a pipe, and the parent does it.
"""

import gc
import io
import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable
from contextlib import redirect_stderr
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from loguru import logger
from safetensors import SafetensorError

from minprm.look.log import Log
from minprm.look.screen import Screen

if TYPE_CHECKING:
    from loguru import Message  # which is in its types alone

STOP = "stop"  # the parent's answer after Ctrl-C

# Makes, in the worker, the function that runs an arm by its name; from a log, and from what is to
# be called after each snapshot.
Work = Callable[[Log, Callable[[], None]], Callable[[str], object]]


def serve(pipe: Connection, work: Work, folder: Path, threads: int) -> None:
    """The life of a worker. The parent ends it."""
    gc.freeze()  # what the parent left to collect may hold threads, which are not here to be ended
    os.setpgrp()  # Ctrl-C on the terminal is for the parent
    threading.Thread(target=_end_with_parent, daemon=True).start()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    logger.remove()
    parent = Parent(pipe)
    with redirect_stderr(parent.said):
        try:
            run_arm = work(RemoteLog(folder, parent.tell), parent.saved)
            logger.add(parent.message, format="{message}")  # what was said before, the parent said
            arm = parent.tell("ready")
            while True:
                arm = parent.tell("result", run_arm(arm))
        except KeyboardInterrupt:
            parent.send("stopped")
        except BaseException as error:  # whatever it is, the parent ends with it
            parent.send("failed", _portable(error))


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


class Parent:
    """The parent, as a worker sees it."""

    def __init__(self, pipe: Connection):
        self.pipe = pipe
        self.said = io.StringIO()  # on stderr; it goes to the parent with what is told next
        self.stopped = False
        self.lock = threading.Lock()  # batches that are played ahead are logged by another thread

    def tell(self, name: str, *what: object) -> str:
        """Tells the parent something, and waits until it has acted on it. Returns its answer.

        The first time that the answer is STOP, this is where Ctrl-C is pressed.
        """
        with self.lock:
            self.send(name, *what)
            try:
                answer = self.pipe.recv()
            except (EOFError, ConnectionError):
                os._exit(1)  # the parent has ended
        # not while a message is written: Ctrl-C writes one too
        if answer == STOP and name != "message" and not self.stopped:
            self.stopped = True
            signal.raise_signal(signal.SIGINT)
        return answer

    def send(self, name: str, *what: object) -> None:
        """Tells the parent something that it does not answer."""
        said = self.said.getvalue()
        self.said.seek(0)
        self.said.truncate()
        try:
            self.pipe.send((name, what, said))
        except ConnectionError:
            os._exit(1)  # the parent has ended

    def saved(self) -> None:
        """A snapshot is there."""
        self.tell("saved")

    def message(self, message: "Message") -> None:
        """A line of the log. The parent has said already that it stops."""
        if not self.stopped:
            record = message.record
            self.tell("message", record["level"].name, record["message"])


class RemoteLog(Log):
    """The log of a worker: the parent writes it. The worker opens no file, takes no lock and draws
    no bar, so what `Log` makes for these is not made."""

    def __init__(self, folder: Path, tell: Callable[..., str]):
        self.folder = folder
        self.arm = ""
        self.tell = tell
        self.screen = RemoteScreen(tell)

    def update(self, seed: int, stage_id: str, update: int, stats: dict[str, float]) -> None:
        self.tell("update", seed, stage_id, update, stats)

    def samples(self, seed: int, stage_id: str, update: int, groups: list[dict]) -> None:
        self.tell("samples", seed, stage_id, update, groups)

    def rewind(self, seed: int, stage_id: str, update: int) -> None:
        self.tell("rewind", seed, stage_id, update)


class RemoteScreen(Screen):
    """The screen of a worker: the parent draws it."""

    def __init__(self, tell: Callable[..., str]):
        super().__init__()
        self.tell = tell

    def bar(self, seed: int, stage_id: str, first: int, updates: int) -> None:
        self.tell("screen.bar", seed, stage_id, first, updates)

    def finish(self, seed: int, name: str, seconds: float) -> None:
        self.tell("screen.finish", seed, name, seconds)
