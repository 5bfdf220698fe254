"""What a run writes while it goes: console, TensorBoard, metrics.jsonl, samples.jsonl."""

import json
import os
import sys
from pathlib import Path

from loguru import logger
from torch.utils.tensorboard import SummaryWriter
from tqdm import tqdm

from minprm.constants import flat


class Log:
    """One run's files. Every line names its seed, stage and update, so that a resumed run can drop
    what it is about to do again."""

    def __init__(self, folder: Path):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        logger.remove()
        logger.add(_above_the_bar, format="{time:HH:mm:ss} {message}")
        logger.add(folder / "log.txt", format="{time} {message}")
        self.writer = SummaryWriter(folder / "tensorboard")

    def config(self, knobs: dict) -> None:
        """The configuration as a file and as TensorBoard's table."""
        write_atomically(self.folder / "config.json", json.dumps(knobs, indent=1))
        rows = "".join(f"|{key}|{value}|\n" for key, value in flat(knobs))
        self.writer.add_text("config", "|knob|value|\n|-|-|\n" + rows)

    def update(self, seed: int, stage_id: str, update: int, stats: dict[str, float]) -> None:
        """One line of metrics.jsonl and one point of each curve."""
        line = {"seed": seed, "stage": stage_id, "update": update, **stats}
        with open(self.folder / "metrics.jsonl", "a") as file:
            file.write(json.dumps(line) + "\n")
        for key, value in stats.items():
            self.writer.add_scalar(f"{key}/{stage_id}-{seed}", value, update)

    def samples(self, seed: int, stage_id: str, update: int, groups: list[dict]) -> None:
        """Whole groups, thoughts with rewards and advantages, for people to read."""
        head = {"seed": seed, "stage": stage_id, "update": update}
        with open(self.folder / "samples.jsonl", "a") as file:
            for group in groups:
                file.write(json.dumps({**head, **group}) + "\n")
        if groups:
            first = json.dumps(groups[0], indent=1)
            self.writer.add_text(f"samples/{stage_id}-{seed}", first, update)

    def rewind(self, seed: int, stage_id: str, update: int) -> None:
        """Forgets what was logged of this stage from `update` on."""
        for name in ("metrics.jsonl", "samples.jsonl"):
            path = self.folder / name
            lines = path.read_text().splitlines() if path.exists() else []
            kept = [line for line in lines if not _from_then_on(line, seed, stage_id, update)]
            if len(kept) < len(lines):
                write_atomically(path, "".join(line + "\n" for line in kept))


def _from_then_on(line: str, seed: int, stage_id: str, update: int) -> bool:
    """Is this line of this stage, and of this update or a later one?"""
    try:
        row = json.loads(line)
    except ValueError:  # the process was killed while it wrote this line
        return True
    return (row["seed"], row["stage"]) == (seed, stage_id) and row["update"] >= update


def _above_the_bar(line: str) -> None:
    """Prints a line without tearing the progress bar."""
    tqdm.write(line, end="", file=sys.stderr)


def write_atomically(path: Path, text: str) -> None:
    """The whole new file or the whole old one, also after a crash."""
    half = path.with_name(f".{path.name}.tmp")
    half.write_text(text)
    os.replace(half, path)
