"""What a person sees while a run goes: a bar with the newest numbers and the time that its stage
still takes, and at the first and the last look of a stage one group. A pipe or a file gets the
groups as plain text, and no bar.
"""

from functools import partial

from loguru import logger
from tqdm import tqdm

from minprm.look.picture import picture
from minprm.run.stage_ids import last_stage

# a progress bar, and none where nobody watches; its text comes first, so that it is never cut
bar = partial(
    tqdm, leave=False, disable=None, dynamic_ncols=True,
    bar_format="{desc} {n_fmt}/{total_fmt}{postfix}, {remaining} left |{bar}|",
)  # fmt: skip
# What the bar says of an update, and of the newest look.
NUMBERS = {"reward/mean": "reward", "eval/success": "success", "loss/total": "loss"}


class Screen:
    """The bar of the stage that runs, and the groups that were not shown yet."""

    def __init__(self, bars: bool = True):
        """bars: may there be any? Where stages run at once, in several processes, there is none."""
        self.bars = bars
        self.shown: tqdm | None = None
        self.numbers: dict[str, float] = {}
        self.last_group: dict = {}

    def bar(self, seed: int, stage_id: str, first: int, updates: int) -> None:
        """A stage begins; it has a bar from now on."""
        self.numbers = {}
        if self.bars:
            name = last_stage(stage_id)
            self.shown = bar(desc=f"seed {seed}  {name}", total=updates, initial=first)

    def advance(self, stats: dict[str, float]) -> None:
        """An update is over: what it measured stands before the bar."""
        if self.shown is None:
            return
        for key, name in NUMBERS.items():
            if key in stats:
                self.numbers[name] = stats[key]
        numbers = {name: number for name, number in self.numbers.items() if name != "loss"}
        numbers = numbers or self.numbers  # the loss alone, where there is nothing else
        texts = [f"{name} {number:.3f}" for name, number in numbers.items()]
        self.shown.set_postfix_str(", ".join(texts), refresh=False)
        self.shown.update()

    def group(self, line: dict) -> None:
        """Shows the first group of a stage, and keeps the newest one until the stage is over."""
        if line["update"]:
            self.last_group = line
        else:
            logger.info(picture(line))

    def close(self) -> None:
        """Takes the bar away."""
        if self.shown is not None:
            self.shown.close()
        self.shown = None

    def finish(self) -> None:
        """A stage, or an evaluation, is over."""
        self.close()
        if self.last_group:
            logger.info(picture(self.last_group))
        self.last_group = {}
