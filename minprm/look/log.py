"""What a run writes while it goes: console, TensorBoard, metrics.jsonl, samples.jsonl."""

import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import IO, TYPE_CHECKING

from filelock import FileLock, Timeout
from loguru import logger
from tqdm import tqdm

from minprm.arms import starts
from minprm.constants import Config, fail
from minprm.logs.reader import rewrite_demos
from minprm.look.screen import Screen
from minprm.look.tensorboard import TensorBoard
from minprm.printable import as_printable
from minprm.run.events import Began, Ended, Event, Left, Noted, Updated
from minprm.run.stage_ids import last_stage

if TYPE_CHECKING:
    from minprm.trainer import Run


class Log:
    """One run's files. Every line names its seed, stage and update, so that a resumed run can drop
    what it is about to do again."""

    def __init__(self, folder: Path, bars: bool = True):
        """Nothing is written before `open`: a run that is refused leaves no folder. Without bars
        there is none on the screen."""
        self.folder = folder
        self.lock: FileLock | None = None
        self.arm = "stages"  # the one whose stages run now
        self.screen = Screen(bars)
        self.tensorboard = TensorBoard(folder / "tensorboard")
        self.early: list[str] = []  # what was said before there was a file for it
        logger.remove()
        logger.configure(patcher=as_printable)
        logger.add(_above_the_bar, format="{time:HH:mm:ss} {message}")
        self.sink = logger.add(self.early.append, format="{time} {message}")

    def open(self, cfg: Config) -> None:
        """Makes the run's folder, or goes on in it. Exits where another process is at work there,
        or where a new run has the name of an old one."""
        if self.lock:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        self.lock = locked(self.folder / "lock")
        if not cfg.resume:
            require_new(self.folder)
            write_atomically(self.folder / "config.json", to_json(asdict(cfg), indent=1))
        # a line more in a file that no stage rewinds, so it must never hold half a line
        path = self.folder / starts.FILE
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        write_atomically(path, before + to_json(starts.this_start()) + "\n")
        self._append("log.txt", self.early)
        self.join()

    def join(self) -> None:
        """What is said from now on stands in the file of a run that is open, perhaps in another
        process."""
        logger.remove(self.sink)
        # catch=False: a full disk ends the run in a sentence, here as everywhere
        self.sink = logger.add(self.folder / "log.txt", format="{time} {message}", catch=False)

    def close(self) -> None:
        """Lets go of the files, and of the lock."""
        self.screen.close()
        self.tensorboard.close()
        if self.lock:
            self.lock.release()
        logger.remove(self.sink)

    def __call__(self, run: "Run", event: Event) -> None:
        """The listener."""
        match event:
            case Began():
                self.arm = run.arm
                self.rewind(run.seed, event.stage_id, event.first)
                self.screen.bar(run.seed, event.stage_id, event.first, event.updates)
            case Updated():
                self.metrics(run.seed, event.stage_id, event.update, event.stats)
            case Noted():
                self.samples(run.seed, event.stage_id, event.update, event.lines)
            case Left():
                name = f"{event.name}-{event.stage_id}-{run.seed}"
                file = rewrite_demos(event.demos, self.folder, name, event.numbers)
                logger.info(f"{len(event.demos)} logs: {file}")
            case Ended():
                self.screen.finish()

    def metrics(self, seed: int, stage_id: str, update: int, stats: dict[str, float]) -> None:
        """One line of metrics.jsonl and one point of each curve."""
        line = {"seed": seed, "stage": stage_id, "update": update, **stats}
        self._append("metrics.jsonl", [to_json(line) + "\n"])
        self.screen.advance(stats)
        name = last_stage(stage_id).replace(":", "-")
        place = f"{self.arm}-{seed}/{stage_id.count('+') + 1}-{name}"  # under the arm that runs it
        self.tensorboard.points(place, update, stats)

    def samples(self, seed: int, stage_id: str, update: int, groups: list[dict]) -> None:
        """Whole groups, thoughts with rewards and advantages, for people to read."""
        head = {"seed": seed, "stage": stage_id, "update": update}
        lines = [{**head, **group} for group in groups]
        self._append("samples.jsonl", [to_json(line) + "\n" for line in lines])
        self.screen.group(lines[0])  # the same state at every look

    def row(self, row: dict, arm: str) -> None:
        """A row of the ladder: an arm's, that of random play, or the expert's."""
        self.tensorboard.row(f"{arm}-{row['seed']}", row)

    def rewind(self, seed: int, stage_id: str, update: int) -> None:
        """Opens a stage: forgets what was logged of it from `update` on."""

        def stays(line: dict) -> bool:
            return (line["seed"], line["stage"]) != (seed, stage_id) or int(line["update"]) < update

        for name in ("metrics.jsonl", "samples.jsonl"):
            path = self.folder / name
            with self._writing():
                if path.exists():
                    text = "".join(lines_that(stays, path))
                    if len(text.encode()) != path.stat().st_size:
                        write_atomically(path, text)
        self.tensorboard.close()  # the stage's first point opens its own files

    def _append(self, name: str, lines: list[str]) -> None:
        with self._writing(), open(self.folder / name, "ab+") as file:
            _end_at_a_newline(file)
            file.write("".join(lines).encode())

    def _writing(self) -> FileLock:
        """`with self._writing():` one process at a time writes lines (--jobs)."""
        return FileLock(self.folder / "lines.lock")


def to_json(content: object, indent: int | None = None) -> str:
    """Strict JSON: it has no word for NaN and the infinities, so they become null.

    >>> to_json({"loss": float("nan")})
    '{"loss": null}'
    """
    strict = json.loads(json.dumps(content), parse_constant=lambda name: None)
    return json.dumps(strict, indent=indent)


def require_new(folder: Path) -> None:
    """Exits where a run has this folder: nothing is written over."""
    if (folder / "config.json").exists():
        fail(f"--run {folder.name} exists: add --resume to go on with it, or choose another name")


def locked(path: Path) -> FileLock:
    """The lock of a run; the system releases it when this process ends, in whatever way.

    Exits where another process holds it. Which one it is stands in a file beside it.
    """
    process = path.with_suffix(".pid")
    lock = FileLock(path, timeout=1)  # seconds: minprm report holds it for a moment (`held`)
    try:
        lock.acquire()
    except Timeout:
        owner = process.read_text(encoding="utf-8") if process.exists() else "of another user"
        fail(f"{path.parent} is in use by process {owner}: wait until that has ended")
    process.write_text(str(os.getpid()), encoding="utf-8")
    return lock


def held(path: Path) -> bool:
    """Does a process hold this lock? Who may only read here cannot ask, and hears no."""
    if not path.exists() or not os.access(path, os.W_OK):
        return False
    try:
        with FileLock(path, blocking=False):
            return False
    except Timeout:
        return True


def _end_at_a_newline(file: IO[bytes]) -> None:
    """Cuts off half a line, which a process was writing when it was killed."""
    end = file.seek(0, os.SEEK_END)
    if not end:
        return
    file.seek(end - 1)
    if file.read(1) == b"\n":
        return
    file.seek(0)
    file.truncate(file.read().rfind(b"\n") + 1)


def lines_that(stays: Callable[[dict], bool], path: Path) -> list[str]:
    """The lines of a file of which this is true. Exits where one is none of ours."""
    lines = []
    # what follows the last newline was being written when a process was killed
    text = path.read_text(encoding="utf-8", errors="replace")
    for number, line in enumerate(text.split("\n")[:-1], start=1):
        try:
            if stays(json.loads(line)):
                lines.append(line + "\n")
        except (ValueError, KeyError, TypeError, RecursionError):
            fail(f"{path}, line {number} is broken: remove the line, and resume again")
    return lines


def _above_the_bar(line: str) -> None:
    """Prints a line without tearing the progress bar."""
    tqdm.write(line, end="", file=sys.stderr)


def write_atomically(path: Path, text: str) -> None:
    """The whole new file or the whole old one, also after a crash."""
    half = path.with_name(f".{path.name}.tmp")
    with open(half, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())  # or a power cut could leave an empty file under the new name
    os.replace(half, path)
