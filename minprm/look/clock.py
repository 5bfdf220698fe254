"""How long the rest of a ladder will take, from what its parts took so far.

A part is a stage of one seed, the evaluation of one of its arms, or its base model. A stage that
arms share is one part. What was never measured is not guessed: the time left is then a lower bound.
"""

import math
import time
from pathlib import Path
from typing import NamedTuple

from minprm.constants import Config
from minprm.data import Demo
from minprm.envs import make_world
from minprm.run.stage_ids import ids_of, kind, last_stage

UPDATED = ("sft", "act_prm", "rl")  # stages that are made of updates


class Part(NamedTuple):
    """Something that a ladder does once."""

    seed: int
    name: str  # a stage_id, "evaluate ARM", "raise" or "load" the base model


class Clock:
    """What is left to do, and the seconds that each kind of it takes."""

    def __init__(self):
        self.left: dict[Part, int] = {}  # with its updates; 1 for a part that has none
        self.spent: dict[str, tuple[float, int]] = {}  # (seconds, updates) by the name of a stage
        self.since: dict[Part, float] = {}  # when the update began that each stage is at

    def begin(self, part: Part, updates: int) -> None:
        """A stage begins that will take so many updates."""
        self.left[part] = updates
        self.since[part] = time.perf_counter()

    def update(self, part: Part) -> None:
        """One of its updates is over."""
        if part not in self.since:
            raise RuntimeError(f"an update of {part}, which has not begun")
        now = time.perf_counter()
        self._measure(part.name, now - self.since[part], 1)
        self.since[part] = now
        self.left[part] -= 1

    def done(self, part: Part, seconds: float) -> None:
        """A part is over. Updates that were counted one by one are not counted again."""
        updates = self.left.pop(part, 1)
        if self.since.pop(part, None) is None:
            self._measure(part.name, seconds, updates)

    def time_left(self) -> str:
        """The time that the ladder still takes; empty while nothing is known.

        >>> clock = Clock()
        >>> clock.left = {Part(0, "relabel"): 1, Part(1, "relabel"): 1, Part(1, "rl"): 20}
        >>> clock.time_left()
        ''
        >>> clock.done(Part(0, "relabel"), 40.0)
        >>> clock.time_left()    # and as long as rl takes
        'more than 40 s left'
        """
        rates = {part: self._rate(part.name) for part in self.left}
        known = [rate * self.left[part] for part, rate in rates.items() if rate is not None]
        if not self.spent or not known:
            return ""
        more = "more than " if len(known) < len(rates) else ""
        return f"{more}{duration(sum(known))} left"

    def _measure(self, name: str, seconds: float, updates: int) -> None:
        before, count = self.spent.get(_alike(name), (0.0, 0))
        self.spent[_alike(name)] = before + seconds, count + updates

    def _rate(self, name: str) -> float | None:
        """Seconds an update of such a part. A variant not met yet is taken for one of its kind."""
        measured = [self.spent[_alike(name)]] if _alike(name) in self.spent else []
        if not measured and kind(name) in UPDATED:
            measured = [spent for other, spent in self.spent.items() if kind(other) == kind(name)]
        if not measured:
            return None
        return sum(seconds for seconds, _ in measured) / sum(updates for _, updates in measured)


def _alike(name: str) -> str:
    """What parts have in common that take the same time: the last stage, or "evaluate".

    >>> _alike("act_prm+relabel+sft:thoughts"), _alike("evaluate act_prm")
    ('sft:thoughts', 'evaluate')
    """
    return last_stage(name).split(" ")[0]


def parts(cfg: Config, seed: int, arms: dict[str, list[str]], demos: list[Demo]) -> dict[Part, int]:
    """What a seed takes for these arms, with its updates."""
    found = {}
    for arm, stages in arms.items():
        for stage_id in ids_of(stages):
            found[Part(seed, stage_id)] = updates_of(stage_id, cfg, demos) or 1
        found[Part(seed, f"evaluate {arm}")] = 1
    return found


def base_model(cfg: Config, seed: int, checkpoints: Path) -> Part:
    """A seed's base model, for the clock: to raise it takes longer than to load it."""
    return Part(seed, "load" if is_raised(cfg, seed, checkpoints) else "raise")


def is_raised(cfg: Config, seed: int, checkpoints: Path) -> bool:
    """Is the base model there, or does a run raise it first?"""
    if cfg.model != "tiny":
        return True
    from minprm.load import tiny  # it brings torch along; a clock alone needs none

    world = make_world(cfg)
    return tiny.is_here(world, cfg.tiny, seed, cfg.micro_tokens, checkpoints)


def updates_of(stage_id: str, cfg: Config, demos: list[Demo]) -> int:
    """How many updates a stage takes at most; relabelling may leave demos out."""
    if kind(stage_id) != "sft":
        return {"act_prm": cfg.act_prm.updates, "rl": cfg.rl.updates}.get(kind(stage_id), 0)
    samples = sum(len(demo.steps) if cfg.history.edits() else 1 for demo in demos)
    return math.ceil(cfg.sft.epochs * samples / cfg.sft.batch)


def duration(seconds: float | None) -> str:
    """A time as people say it.

    >>> duration(40.0), duration(600.0), duration(9000.0), duration(None)
    ('40 s', '10 min', '2.5 h', '-')
    """
    if seconds is None:
        return "-"
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
