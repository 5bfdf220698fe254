"""A run in TensorBoard: a folder for each arm and seed, and in it one for each of its stages.

    tensorboard/act_prm-0/1-act_prm         its first stage, of seed 0
    tensorboard/act_prm-0/3-sft-thoughts
    tensorboard/act_prm-0                   its row of the ladder

All use the same tags, so arms and seeds lie over each other in one chart.
"""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from minprm.constants import Config, flat
from minprm.look import markdown

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


class TensorBoard:
    """The event files of a run."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.writer: SummaryWriter | None = None  # of the stage that runs

    def knobs(self, cfg: Config) -> None:
        """The configuration, as a table."""
        with files_in(self.folder) as writer:
            writer.add_text("config", markdown.table(["knob", "value"], flat(asdict(cfg))))

    def update(self, place: str, update: int, stats: dict[str, float]) -> None:
        """A point of each curve."""
        writer = self._opened(place, update)
        for key, value in stats.items():
            writer.add_scalar(key, value, update)
        writer.flush()  # what kill -9 finds in a queue is lost

    def group(self, place: str, line: dict) -> None:
        """A group of thoughts or episodes."""
        writer = self._opened(place, line["update"])
        writer.add_text("samples", markdown.group(line), line["update"])

    def row(self, place: str, row: dict) -> None:
        """A row of the ladder: its numbers as points, and all of it as a table."""
        with files_in(self.folder / place, forget_from=0) as writer:
            for key, value in row.items():
                if isinstance(value, int | float):
                    writer.add_scalar(f"ladder/{key}", value, 0)
            writer.add_text("ladder", markdown.table(["what", "value"], row.items()), 0)

    def close(self) -> None:
        """Closes the stage."""
        if self.writer:
            self.writer.close()
        self.writer = None

    def _opened(self, place: str, update: int) -> "SummaryWriter":
        """The stage's files, made at its first point: some stages have none. They forget what they
        hold from there on."""
        if not self.writer:
            # a folder for each stage, because a purge is of all curves that lie in one
            self.writer = files_in(self.folder / place, forget_from=update)
        return self.writer


def files_in(folder: Path, forget_from: int | None = None) -> "SummaryWriter":
    """The event files of this folder, without the points that they hold from this update on."""
    # it brings torch along, and whoever only asks for a run's name does not wait for that
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(folder, purge_step=forget_from)
