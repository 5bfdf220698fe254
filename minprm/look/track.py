"""--track: a run's numbers and groups also go to Weights & Biases, or to Trackio.

All seeds and stages of a run are one tracked run. A metric's name there begins with its place, as
TensorBoard's folders do (`act_prm-0/1-act_prm/reward/mean`), and its step is the update within the
stage. A run that goes on after a kill sends some updates again; their numbers are the same.

A service that fails costs no run: that is said once, and training goes on without it.
"""

import os
import secrets
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import asdict
from pathlib import Path

from loguru import logger

from minprm.constants import Config, fail
from minprm.look import markdown
from minprm.look.picture import one_line
from minprm.several.together import way_on

PROJECT = "minprm"
FILE = "tracked_as.txt"  # in the run's folder: the name of the tracked run, which goes on under it


class Wandb:
    """A run of Weights & Biases. With WANDB_MODE=offline it stays in the run's folder."""

    mend = "log in (wandb login), or set WANDB_MODE=offline"

    def __init__(self, name: str, knobs: dict, folder: Path):
        import wandb

        self.library = wandb
        self.run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT), name=folder.name, id=name,
            config=knobs, dir=str(folder), resume="allow", settings=wandb.Settings(console="off"),
        )  # fmt: skip

    def log(self, place: str, values: dict, update: int) -> None:
        # W&B has one step for a whole run, which only grows: each stage gets an axis of its own
        self.run.define_metric(f"{place}/*", step_metric=f"{place}/update")
        self.run.log({**values, f"{place}/update": update})

    def group(self, line: dict) -> object:
        return self.library.Table(columns=[*markdown.COLUMNS], data=[*markdown.cells(line)])


class Trackio:
    """A run of Trackio. It stays on this machine unless TRACKIO_SPACE_ID names a Space."""

    mend = "see that the folder TRACKIO_DIR can be written"

    def __init__(self, name: str, knobs: dict, folder: Path):
        import trackio

        self.library = trackio
        self.run = trackio.init(project=PROJECT, name=name, config=knobs, resume="allow")

    def log(self, place: str, values: dict, update: int) -> None:
        self.run.log(values, step=update)

    def group(self, line: dict) -> object:
        return self.library.Markdown(markdown.group(line))


SERVICES = {"wandb": Wandb, "trackio": Trackio}


class Tracker:
    """What is tracked of a run, in whichever service."""

    def __init__(self, cfg: Config, folder: Path):
        """Exits where a new run cannot be tracked; one that has begun goes on without it."""
        self.folder = folder
        self.service: Wandb | Trackio | None = None
        service = SERVICES[cfg.track]
        file = folder / FILE
        begun = file.exists()
        if begun:
            name = file.read_text(encoding="utf-8")
        else:
            name = f"{folder.name}-{secrets.token_hex(4)}"  # a run's own name may be given again
        try:
            with redirect_stdout(sys.stderr):  # stdout is for the ladder
                self.service = service(name, asdict(cfg), folder)
        except Exception as error:
            if begun:
                self._lost(error)
                return
            why = one_line(str(error)).rstrip(".")[:200]
            fail(
                f"--track {cfg.track}: {why}: {service.mend}, and go on with: {way_on(folder.name)}"
            )
        file.write_text(name, encoding="utf-8")

    def update(self, place: str, update: int, stats: dict[str, float]) -> None:
        """The numbers of an update."""
        values = {f"{place}/{key}": value for key, value in stats.items()}
        self._send(lambda service: service.log(place, values, update))

    def group(self, place: str, line: dict) -> None:
        """A group of thoughts or episodes, as a table."""

        def send(service: Wandb | Trackio) -> None:
            service.log(place, {f"{place}/samples": service.group(line)}, line["update"])

        self._send(send)

    def row(self, place: str, row: dict) -> None:
        """The numbers of a row of the ladder."""
        numbers = {key: value for key, value in row.items() if isinstance(value, int | float)}
        values = {f"ladder/{place}/{key}": value for key, value in numbers.items()}
        self._send(lambda service: service.log("ladder", values, 0))

    def close(self) -> None:
        """Waits until all is sent."""
        self._send(lambda service: service.library.finish())

    def _send(self, send: Callable[[Wandb | Trackio], None]) -> None:
        if not self.service:
            return
        try:
            with redirect_stdout(sys.stderr):
                send(self.service)
        except Exception as error:  # whatever it is, the run is worth more
            self._lost(error)

    def _lost(self, error: Exception) -> None:
        self.service = None
        logger.warning(
            f"TRACKING HAS STOPPED: {type(error).__name__}: {one_line(str(error))[:200]}. The run "
            f"goes on without it; all numbers are in {self.folder}/metrics.jsonl"
        )
