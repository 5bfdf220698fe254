"""What a person sees while a run goes: a bar with the newest numbers and the time left, and at the
first and the last look of a stage one group. A pipe or a file gets the groups as plain text, and no
bar.
"""

import shutil
import sys
from functools import partial
from typing import TYPE_CHECKING

from loguru import logger
from tqdm import tqdm

from minprm.look.clock import Clock, Part
from minprm.look.picture import picture
from minprm.run.stage_ids import last_stage
from minprm.text.printable import in_colours

if TYPE_CHECKING:
    from loguru import Record  # which is in its types alone

# a progress bar, and none where nobody watches
bar = partial(
    tqdm, leave=False, disable=None, dynamic_ncols=True,
    bar_format="{desc} {n_fmt}/{total_fmt}{postfix} |{bar}|",  # text first: it is never cut
)  # fmt: skip
# What the bar says of an update, and of the newest look.
NUMBERS = {"reward/mean": "reward", "eval/success": "success", "loss/total": "loss"}


class Screen:
    """The bar of the stage that runs, the groups that were not shown yet, and the time left."""

    def __init__(self, bars: bool = True):
        """bars: may there be any? Where stages run at once, in several processes, there is none."""
        self.bars = bars
        self.clock = Clock()
        self.part = Part(0, "")  # the one that the bar is of
        self.shown: tqdm | None = None
        self.numbers: dict[str, float] = {}
        self.last_group: dict = {}
        self.colours = in_colours(sys.stderr)

    def bar(self, seed: int, stage_id: str, first: int, updates: int) -> None:
        """A stage begins; it has a bar from now on."""
        self.part = Part(seed, stage_id)
        self.clock.begin(self.part, updates - first)
        self.numbers = {}
        if self.bars:
            name = last_stage(stage_id)
            self.shown = bar(desc=f"seed {seed}  {name}", total=updates, initial=first)

    def advance(self, stats: dict[str, float]) -> None:
        """An update is over: what it measured stands before the bar."""
        if self.shown is None:
            return
        self.clock.update(self.part)
        for key, name in NUMBERS.items():
            if key in stats:
                self.numbers[name] = stats[key]
        numbers = {name: number for name, number in self.numbers.items() if name != "loss"}
        numbers = numbers or self.numbers  # the loss alone, where there is nothing else
        texts = [f"{name} {number:.3f}" for name, number in numbers.items()]
        left = self.clock.time_left()
        if left:
            texts.append(left)
        self.shown.set_postfix_str(", ".join(texts), refresh=False)
        self.shown.update()

    def group(self, line: dict) -> None:
        """Shows the first group of a stage, and keeps the newest one until the stage is over."""
        if line["update"]:
            self.last_group = line
        else:
            self._show(line)

    def close(self) -> None:
        """Takes the bar away."""
        if self.shown is not None:
            self.shown.close()
        self.shown = None

    def finish(self, seed: int, name: str, seconds: float) -> None:
        """A stage, or an evaluation, is over."""
        self.clock.done(Part(seed, name), seconds)
        self.close()
        if self.last_group:
            self._show(self.last_group)
        self.last_group = {}

    def format(self, record: "Record") -> str:
        """How loguru writes a message on the console: a picture in colours, where it has them."""
        text = "{extra[coloured]}" if "coloured" in record["extra"] else "{message}"
        return "{time:HH:mm:ss} " + text + "\n{exception}"

    def _show(self, line: dict) -> None:
        columns = shutil.get_terminal_size().columns if sys.stderr.isatty() else sys.maxsize
        coloured = picture(line, self.colours, columns)
        logger.bind(coloured=coloured).info(picture(line))  # the file has lines of full width
