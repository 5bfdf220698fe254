"""How many updates a run makes, whether it raises its model first, and a time as people say it."""

import math
from pathlib import Path

from minprm.constants import Config
from minprm.data import Demo
from minprm.envs import make_world
from minprm.run.stage_ids import kind


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
