"""How long a run will take, which is measured on one batch.

The batch is walked and learned from by the stages' own functions, in memory alone. All other times
are multiples of it, so they are an estimate: a model learns to write shorter or longer thoughts.
"""

import math
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import torch
from loguru import logger

from minprm.arms.ladder import start
from minprm.commands.counted import NEEDS_LESS, stages_table
from minprm.constants import Config, Training, fail
from minprm.data import Demo, Sample
from minprm.look.clock import is_raised
from minprm.look.failure import Tally
from minprm.look.log import Log
from minprm.run.randomness import pick
from minprm.run.stage_ids import kind, stage_ids
from minprm.stages.act_prm import credit, outcomes, to_samples, walk_logs
from minprm.stages.relabel import thoughts_a_step, with_thoughts
from minprm.stages.sft import to_samples as logged
from minprm.trainer import Run, learn

DRAWS_THOUGHTS = ("act_prm", "relabel", "sample")  # stages that do, for the steps of logs


class Seconds(NamedTuple):
    """What one batch took."""

    walk: float  # to draw and score its thoughts
    act_prm: float  # to learn from them
    sft: float  # an update of SFT


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
        yield "Time was not measured: that of playing depends on what is learned."
        return
    found, took = measured
    yield from stages_table(cfg, run.train_demos, partial(seconds_of, run=run, took=took))
    yield (
        f"Measured: {took.walk:.1f} s to write and score {found.drawn} thoughts, "
        f"{took.act_prm:.1f} s to learn from them, {took.sft:.1f} s for an update of SFT. "
        "All else is a multiple of that, in one process; playing and evaluation are not in it."
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
