"""--dry-run: what would be trained, at once; then whether it fits, and what the model would read.

It goes through the same functions as a run, so it refuses what a run refuses, and it writes nothing
to runs/ or checkpoints/. What needs the model itself is in dry_run.py, and comes last.
"""

from collections.abc import Iterator
from pathlib import Path

from minprm.arms.demos import logs_of, split
from minprm.commands.counted import stages_table
from minprm.constants import Config
from minprm.load.names import require_sampler


def plan(cfg: Config, checkpoints: Path) -> Iterator[str]:
    """The plan, part by part. Exits where a run would be refused."""
    if cfg.stages == ["demos"]:
        yield f"the expert's logs of {cfg.episodes} tasks; no model is needed for them"
        return
    demos, report = logs_of(cfg, cfg.seeds[0])
    train_demos, *_ = split(demos, cfg)
    require_sampler(cfg.sampler)
    yield from stages_table(cfg, train_demos)
    yield "\nWhether that fits, and how long it takes, takes a moment to find out.\n"
    from minprm.commands.dry_run import of_model  # what stands above waited for no torch

    yield from of_model(cfg, checkpoints, demos, report)
