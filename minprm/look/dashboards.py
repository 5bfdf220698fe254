"""Where a run's numbers are drawn while it goes: TensorBoard; with --track, a reader of its files.

    tensorboard/act_prm-0/1-act_prm         the first stage of this arm, of seed 0
    tensorboard/act_prm-0/3-sft-thoughts
    tensorboard/act_prm-0                   its row of the ladder

All use the same tags, so arms and seeds lie over each other in one chart.
"""

import os
import secrets
import sys
from contextlib import redirect_stdout
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from loguru import logger

from minprm.constants import Config, fail, flat
from minprm.look import markdown
from minprm.look.picture import one_line
from minprm.several.together import way_on

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

FILE = "tracked_as.txt"  # in the run's folder: the name of the tracked run, which goes on under it


class TensorBoard:
    """The event files of a run."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.writer: SummaryWriter | None = None  # of the stage that runs

    def knobs(self, cfg: Config) -> None:
        """The configuration, as a table."""
        with _files(self.folder) as writer:
            writer.add_text("config", markdown.table(["knob", "value"], flat(asdict(cfg))))

    def points(self, place: str, update: int, stats: dict[str, float]) -> None:
        """A point of each curve."""
        writer = self._opened(place, update)
        for key, number in stats.items():
            writer.add_scalar(key, number, update)
        writer.flush()  # what kill -9 finds in a queue is lost

    def row(self, place: str, row: dict) -> None:
        """A row of the ladder: its numbers as points, and all of it as a table."""
        with _files(self.folder / place, forget_from=0) as writer:
            for key, cell in row.items():
                if isinstance(cell, int | float):
                    writer.add_scalar(f"ladder/{key}", cell, 0)
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
            self.writer = _files(self.folder / place, forget_from=update)
        return self.writer


def _files(folder: Path, forget_from: int | None = None) -> "SummaryWriter":
    """The event files of this folder, without the points that they hold from this update on."""
    # it brings torch along, and whoever only asks for a run's name does not wait for that
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(folder, purge_step=forget_from)


def track(cfg: Config, folder: Path) -> None:
    """--track wandb: Weights & Biases reads what TensorBoard's files get from now on.

    All seeds and stages are one tracked run, which a run that goes on joins. With
    WANDB_MODE=offline it stays in the run's folder. Exits where a new run cannot be tracked; one
    that has begun goes on without it.
    """
    import wandb

    file = folder / FILE
    new = f"{folder.name}-{secrets.token_hex(4)}"  # a run's own name may be given again
    name = file.read_text(encoding="utf-8") if file.exists() else new
    try:
        with redirect_stdout(sys.stderr):  # stdout is for the ladder
            board = wandb.tensorboard  # pyright: ignore[reportAttributeAccessIssue]
            board.patch(root_logdir=str(folder / "tensorboard"), pytorch=True)
            wandb.init(
                project=os.environ.get("WANDB_PROJECT", "minprm"), name=folder.name, id=name,
                config=asdict(cfg), dir=str(folder), resume="allow",
                settings=wandb.Settings(console="off"),
            )  # fmt: skip
    except Exception as error:  # whatever it is, a run that has begun is worth more
        why = f"--track wandb: {one_line(str(error)).rstrip('.')[:200]}"
        if not file.exists():
            mend = "log in (wandb login), or set WANDB_MODE=offline"
            fail(f"{why}: {mend}, and go on with: {way_on(folder.name)}")
        logger.warning(f"{why}. The run goes on without it; all numbers are in metrics.jsonl")
    file.write_text(name, encoding="utf-8")


def stop_tracking() -> None:
    """Waits until all is sent."""
    import wandb

    with redirect_stdout(sys.stderr):
        wandb.tensorboard.unpatch()  # pyright: ignore[reportAttributeAccessIssue]
        wandb.finish()
