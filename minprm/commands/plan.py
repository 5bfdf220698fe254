"""--dry-run: what would be trained, at once; then what the model reads, and one batch, measured.

It goes through the same functions as a run, so it refuses what a run refuses, and it writes nothing
to runs/ or checkpoints/. What needs the model itself is in dry_run.py, and comes last.
"""

from collections.abc import Iterator
from pathlib import Path

from minprm.arms.demos import logs_of, split
from minprm.constants import Config, fail
from minprm.load.names import require_sampler
from minprm.run.stage_ids import stage_ids, updates_of

NEEDS_LESS = "fewer --micro-tokens, --checkpointing, --lora or a smaller --model need less"


def plan(cfg: Config, checkpoints: Path) -> Iterator[str]:
    """The plan, part by part. Exits where a run would be refused."""
    if cfg.stages == ["demos"]:
        yield f"the expert's logs of {cfg.episodes} tasks; no model is needed for them"
        return
    demos, report = logs_of(cfg, cfg.seeds[0])
    train_demos, *_ = split(demos, cfg)
    require_sampler(cfg.sampler)
    yield f"{'stage':<50}{'updates':>9}"
    for stage_id in stage_ids(cfg):
        yield f"{stage_id:<50}{updates_of(stage_id, cfg, train_demos) or '-':>9}"
    yield "\nWhether that fits, and how long it takes, is found out by one batch.\n"
    from torch import OutOfMemoryError  # what stands above waited for no torch

    from minprm.commands.dry_run import of_model

    try:
        yield from of_model(cfg, checkpoints, demos, report)
    except OutOfMemoryError:
        fail(f"the memory of the card ran out in one batch of the longest logs; {NEEDS_LESS}")
