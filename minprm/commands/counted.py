"""What a run takes that can be counted: updates and disk. Time is measured, in estimate.py."""

import shutil
from collections.abc import Callable, Iterator

from minprm.constants import Config, arms_of
from minprm.data import Demo
from minprm.look.clock import duration, updates_of
from minprm.run.stage_ids import stage_ids

NEEDS_LESS = "fewer --micro-tokens, --checkpointing, --lora or a smaller --model need less"


def stages_table(
    cfg: Config, demos: list[Demo], seconds_of: Callable[[str, int], float | None] | None = None
) -> Iterator[str]:
    """A line for each stage: its updates, and its time where that was measured; `seconds_of` takes
    a stage's id and its updates."""
    about = f"{'about':>12}" if seconds_of else ""
    yield f"{'stage':<50}{'updates':>9}{about}"
    whole = 0.0
    for stage_id in stage_ids(cfg):
        updates = updates_of(stage_id, cfg, demos)
        if seconds_of:
            seconds = seconds_of(stage_id, updates)
            about = f"{duration(seconds):>12}"
            whole += seconds or 0.0
        yield f"{stage_id:<50}{updates or '-':>9}{about}"
    if seconds_of:
        name = "all of them, for all seeds"
        yield f"{name:<50}{'':>9}{duration(whole * len(cfg.seeds)):>12}"


def disk(cfg: Config, total: int, trained: int, demos: list[Demo]) -> str:
    """Bytes of snapshots and checkpoints beside what is free. `total`, `trained`: parameters.
    demos: those that are learned from."""
    weights = 4 * trained
    stages = len(cfg.seeds) * len(stage_ids(cfg)) * weights
    # while a stage is under way it holds AdamW's moments, and the best weights where patience keeps
    # them; the snapshot before is removed when the next one is whole
    patient = cfg.sft.patience or cfg.act_prm.patience or cfg.rl.patience
    under_way = 2 * weights * (4 if patient else 3)
    models = len(arms_of(cfg)) + kept_checkpoints(cfg, demos)
    checkpoints = len(cfg.seeds) * models * (weights if cfg.lora else 4 * total)
    needed = stages + under_way + checkpoints
    free = shutil.disk_usage(".").free
    line = f"disk for snapshots and checkpoints {needed / 2**30:>16.2f} GiB"
    if needed <= free:
        return f"{line}, {free / 2**30:.2f} GiB are free"
    return (
        f"{line}, but {free / 2**30:.2f} GiB are free: make room, or run fewer --arms or --seeds "
        "at a time"
    )


def kept_checkpoints(cfg: Config, demos: list[Demo]) -> int:
    """How many checkpoints --keep-every keeps for a seed."""
    if not cfg.keep_every:
        return 0
    return sum(updates_of(each, cfg, demos) // cfg.keep_every for each in stage_ids(cfg))


def why_not_measured(cfg: Config, here: bool) -> str:
    """Why there are no times."""
    if here:
        return "Time was not measured: the model does not fit, so it was not loaded."
    return (
        f"Time was not measured: the weights of {cfg.model} are not on this machine. A run "
        "downloads them; a plan does not."
    )
