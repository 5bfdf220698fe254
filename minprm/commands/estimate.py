"""What a run will take: disk, updates, and time, which is measured on one batch.

The batch is walked and learned from by the stages' own functions, in memory alone. All other times
are multiples of it, so they are an estimate: a model learns to write shorter or longer thoughts.
"""

import math
import shutil
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import torch
from loguru import logger

from minprm.constants import Config, Training, arms_of, fail
from minprm.data import Demo, Sample
from minprm.ladder import start
from minprm.run.clock import duration, is_raised, updates_of
from minprm.run.log import Log
from minprm.run.randomness import pick
from minprm.run.stage_ids import kind, stage_ids
from minprm.stages.act_prm import credit, outcomes, to_samples, walk_logs
from minprm.stages.failure import Tally
from minprm.stages.relabel import thoughts_a_step, with_thoughts
from minprm.stages.sft import to_samples as logged
from minprm.trainer import Run, learn

NEEDS_LESS = "fewer --micro-tokens, --checkpointing, --lora or a smaller --model need less"
DRAWS_THOUGHTS = ("act_prm", "relabel", "sample")  # stages that do, for the steps of logs


class Seconds(NamedTuple):
    """What one batch took."""

    walk: float  # to draw and score its thoughts
    act_prm: float  # to learn from them
    sft: float  # an update of SFT


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


def stages_table(
    cfg: Config, demos: list[Demo], measured: tuple[Run, Seconds] | None = None
) -> Iterator[str]:
    """A line for each stage: its updates, and its time where it was measured."""
    yield f"{'stage':<50}{'updates':>9}{'about':>12}"
    whole = 0.0
    for stage_id in stage_ids(cfg):
        updates = updates_of(stage_id, cfg, demos)
        seconds = seconds_of(stage_id, updates, *measured) if measured else None
        whole += seconds or 0.0
        yield f"{stage_id:<50}{updates or '-':>9}{duration(seconds):>12}"
    if measured:
        name = "all of them, for all seeds"
        yield f"{name:<50}{'':>9}{duration(whole * len(cfg.seeds)):>12}"


def seconds_of(stage_id: str, updates: int, run: Run, took: Seconds) -> float | None:
    """How long a stage will take. None: it plays, and no episode was measured."""
    act = run.cfg.act_prm
    every = run.cfg.eval_every

    def walks(demos: list[Demo], group: int) -> float:
        return took.walk * len(demos) / act.batch * group / act.group

    match kind(stage_id):
        case "act_prm":
            looks = 1 + math.ceil(updates / every) if every else 0
            learned = updates * (took.walk + took.act_prm)
            return learned + looks * walks(run.held_out, act.group)
        case "relabel":
            matched = stage_id.endswith(":matched")
            return walks(run.train_demos, thoughts_a_step(run.cfg.relabel, act, run, matched))
        case "sample":
            return walks(run.train_demos, 1)
        case "sft":
            return updates * took.sft
        case "shuffle" | "copy":
            return 0.0
    return None


def measured_table(cfg: Config, checkpoints: Path) -> Iterator[str]:
    """The table with times, and what they were measured on. Exits where a run could not start."""
    raised = is_raised(cfg, cfg.seeds[0], checkpoints)
    kinds = {kind(stage_id) for stage_id in stage_ids(cfg)}
    with TemporaryDirectory() as folder, closing(Log(Path(folder))) as log, _quiet():
        if raised:
            run = start(cfg, cfg.seeds[0], log, checkpoints)
        else:
            stand_in = replace(cfg, tiny=replace(cfg.tiny, updates=1), gate=False)
            run = start(stand_in, cfg.seeds[0], log, Path(folder))
        measured = measure(run) if kinds & {*DRAWS_THOUGHTS, "sft"} else None
    if measured is None:
        yield from stages_table(cfg, run.train_demos)
        yield "Time was not measured: that of playing depends on what is learned."
        return
    found, took = measured
    yield from stages_table(cfg, run.train_demos, (run, took))
    yield (
        f"Measured: {took.walk:.1f} s to write and score {found.drawn} thoughts, "
        f"{took.act_prm:.1f} s to learn from them, {took.sft:.1f} s for an update of SFT. "
        "All else is a multiple of that; playing and evaluation are not in it."
    )
    if not raised:
        yield (
            "The embedded model is not raised yet: one of its size was measured, whose thoughts "
            "are as long as they may be. The run is faster than that, but raises it first."
        )
    elif found.readable == 0 and kinds & {*DRAWS_THOUGHTS}:
        yield f"None of these thoughts can be read, so a run would stop; {found.why(run.agent)}."
    else:
        yield f"{found.readable} of {found.drawn} thoughts can be read."


@contextmanager
def _quiet() -> Iterator[None]:
    """What a start says has been said by the plan, or is no news of a stand-in. Exits where the
    card is full after all."""
    logger.disable("minprm")
    try:
        yield
    except torch.OutOfMemoryError:
        fail(f"the memory of the card ran out in the first update; {NEEDS_LESS}")
    finally:
        logger.enable("minprm")


def measure(run: Run) -> tuple[Tally, Seconds]:
    """(what was drawn for one batch, the seconds that its parts took)."""
    act = run.cfg.act_prm
    run.running = {"baseline": 0.0, "kl": act.kl}
    run.sync()
    demos = pick(run.train_demos, act.batch, run.seed, "act_prm", 0)
    began = time.perf_counter()
    walks, groups = walk_logs(run.agent, demos, act, seed=0)
    outcomes(walks, act)
    credit(groups, act)
    samples = to_samples(groups, run.agent.chat, act, run.agent.version)
    walk = time.perf_counter() - began
    act_prm = _seconds(run, samples, act)
    logs = []
    for each in walks:
        demo = with_thoughts(each, each.paths[0].thoughts, run.agent.chat).demo
        logs += logged(demo, run.agent)
    sft = _seconds(run, pick(logs, run.cfg.sft.batch, run.seed, "sft", 0), run.cfg.sft)
    return Tally().add(groups, run.agent.chat), Seconds(walk, act_prm, sft)


def _seconds(run: Run, samples: list[Sample], cfg: Training) -> float:
    """How long one update on these samples takes."""
    began = time.perf_counter()
    learn(run, samples, cfg, cfg.lr)
    run.sync()
    return time.perf_counter() - began


def why_not_measured(cfg: Config, here: bool) -> str:
    """Why there are no times."""
    if here:
        return "Time was not measured: the model does not fit, so it was not loaded."
    return (
        f"Time was not measured: the weights of {cfg.model} are not on this machine. A run "
        "downloads them; a plan does not."
    )
