"""The event files of a run, which TensorBoard draws while it goes.

    tensorboard/act_prm-0/1-act_prm         the first stage of this arm, of seed 0
    tensorboard/act_prm-0/3-sft-thoughts
    tensorboard/act_prm-0                   its row of the ladder

All use the same tags, so arms and seeds lie over each other in one chart.
"""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


class TensorBoard:
    """The files of the stage that runs, and those of the rows of the ladder."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.writer: SummaryWriter | None = None  # of a stage: made at its first point

    def points(self, place: str, update: int, stats: dict[str, float]) -> None:
        """A point of each curve. The stage's files forget what they hold from its first one on."""
        if not self.writer:
            # a folder for each stage, because a purge is of all curves that lie in one
            self.writer = _files(self.folder / place, update)
        for key, number in stats.items():
            self.writer.add_scalar(key, number, update)
        self.writer.flush()  # what kill -9 finds in a queue is lost

    def row(self, place: str, row: dict) -> None:
        """The numbers of a row of the ladder."""
        with _files(self.folder / place, 0) as writer:
            for key, cell in row.items():
                if isinstance(cell, int | float):
                    writer.add_scalar(f"ladder/{key}", cell, 0)

    def close(self) -> None:
        """Closes the stage."""
        if self.writer:
            self.writer.close()
        self.writer = None


def _files(folder: Path, forget_from: int) -> "SummaryWriter":
    """The event files of this folder, without the points that they hold from this update on."""
    # it brings torch along, and whoever only asks for a run's name does not wait for that
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(folder, purge_step=forget_from)
