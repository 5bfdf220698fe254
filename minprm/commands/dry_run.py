"""--dry-run: what the model reads, and one batch of the longest logs, run and measured.

It goes through the same functions as a run, so it refuses what a run refuses, and it writes nothing
to runs/ or checkpoints/. A stage takes as long as its updates, each as long as that of the batch.
That is an estimate: a model learns to write shorter or longer thoughts.
"""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from itertools import cycle, islice
from pathlib import Path

import torch
from loguru import logger
from transformers import AutoTokenizer, PreTrainedModel
from transformers import PreTrainedTokenizerBase as Tokenizer

from minprm.arms.demos import (
    examples_of,
    fitting_demos,
    leave_out_unwritable,
    logs_of,
    measured,
    split,
    tools_of,
)
from minprm.arms.ladder import start
from minprm.commands.logs import describe, tokens_of
from minprm.commands.threads import set_threads
from minprm.constants import Config, Training
from minprm.data import Demo, Sample
from minprm.envs import make_world
from minprm.load import tiny
from minprm.load.base import checked_base
from minprm.load.check import check_sizes
from minprm.load.names import require_sampler
from minprm.load.pretrained import (
    adapted,
    load_shape,
    pretrained,
    weights_here,
    with_saved_adapters,
)
from minprm.look.failure import Tally
from minprm.look.log import Log
from minprm.model.agent import Agent, make_prompter
from minprm.printable import printable
from minprm.run.stage_ids import kind, stage_ids, updates_of
from minprm.several.together import several
from minprm.stages.act_prm import credit, outcomes, to_samples, walk_logs
from minprm.stages.relabel import with_thoughts
from minprm.stages.sft import to_samples as logged
from minprm.text import instruction
from minprm.trainer import Run, learn

DRAWS_THOUGHTS = {"act_prm", "relabel", "sample"}  # stages that do, for the steps of logs


def plan(cfg: Config, checkpoints: Path) -> Iterator[str]:
    """The plan, part by part; what takes long comes last. Exits where a run would be refused."""
    demos, report = logs_of(cfg, cfg.seeds[0])
    require_sampler(cfg.sampler)
    set_threads(cfg.model, cfg.threads)
    model, tokenizer = shape_of(cfg)
    check_sizes(model, tokenizer, cfg.context)
    prompter = make_prompter(tokenizer, cfg, tools_of(demos, cfg), examples_of(cfg))
    logs = measured(demos, prompter.chat)
    if report:
        writable = leave_out_unwritable(logs, report)
        rows = tokens_of(writable, cfg, prompter.chat)
        yield describe([log.demo for log in writable], report, cfg, rows) + "\n"
    train_demos, *_ = split(fitting_demos(logs, prompter, cfg), cfg)
    total, trained = model.num_parameters(), model.num_parameters(only_trainable=True)
    yield f"{cfg.model}: {total:,} parameters, {trained:,} of them trained"
    yield from instruction.plan(prompter.instruction, cfg.sft.keep_instruction)
    as_learned = replace(prompter, reads_instruction=cfg.sft.keep_instruction)
    samples = logged(train_demos[0], as_learned) if train_demos else []
    if samples:
        yield "\n" + printable(prompter.chat.text(samples[-1].whole())) + "\n"
    reason = why_not_measured(cfg, checkpoints)
    seconds, notes = ({}, [f"Not measured: {reason}"]) if reason else one_batch(cfg, checkpoints)
    yield f"{'stage':<50}{'updates':>9}{'about':>16}"
    whole = 0.0
    for stage_id in stage_ids(cfg):
        updates = updates_of(stage_id, cfg, train_demos)
        took = updates * seconds.get(kind(stage_id), 0.0)
        yield f"{stage_id:<50}{updates or '-':>9}{clock(took):>16}"
        whole += took * len(cfg.seeds)
    yield f"{'all of them, for all seeds':<50}{clock(whole):>25}"
    yield from notes


def shape_of(cfg: Config) -> tuple[PreTrainedModel, Tokenizer]:
    """A model of the right shape, without its weights, and its tokenizer."""
    if cfg.model == "tiny":
        return tiny.untrained(make_world(cfg), cfg.tiny, seed=0)
    base, rank = checked_base(cfg)
    tokenizer = pretrained(AutoTokenizer, cfg.model)
    model = load_shape(base)
    if rank:
        return with_saved_adapters(model, cfg.model, checkpointing=False), tokenizer
    return adapted(model, cfg.lora, checkpointing=False, targets=cfg.lora_targets), tokenizer


def clock(seconds: float) -> str:
    """Hours, minutes and seconds; `-` where nothing was measured."""
    return str(timedelta(seconds=round(seconds))) if seconds else "-"


# --- one batch ---


def why_not_measured(cfg: Config, checkpoints: Path) -> str:
    """Why no batch is run; empty where one is."""
    if several():
        return (
            "a plan measures one process, without torchrun. Of several, those that\n"
            "share weights (--shard) need less each."
        )
    if not {kind(stage_id) for stage_id in stage_ids(cfg)} & {*DRAWS_THOUGHTS, "sft"}:
        return "how long playing takes depends on what is learned."
    if cfg.model == "tiny":
        world = make_world(cfg)
        if not tiny.is_here(world, cfg.tiny, cfg.seeds[0], cfg.micro_tokens, checkpoints):
            return "the embedded model is not raised yet. A run raises it first."
    elif not weights_here(checked_base(cfg)[0]):
        return (
            f"the weights of {cfg.model} are not on this machine.\n"
            "A run downloads them; a plan does not."
        )
    return ""


def one_batch(cfg: Config, checkpoints: Path) -> tuple[dict[str, float], list[str]]:
    """(the seconds of an update by kind of stage, what there is to say of it in lines). Exits where
    a run could not start."""
    with closing(Log(checkpoints / cfg.run)) as log:  # it writes when it is opened, and no sooner
        logger.disable("minprm")  # the plan has said it
        try:
            run = start(cfg, cfg.seeds[0], log, checkpoints)
            tally, seconds = measure(run)
        finally:
            logger.enable("minprm")
    notes = [
        "That is updates alone, as if all were of the longest logs, in one process.",
        peak_memory(run.agent.policy.model.device),
    ]
    if tally.drawn and not tally.readable:
        why = tally.why(run.agent)
        notes.append(f"None of these thoughts can be read, so a run would stop; {why}.")
    elif tally.drawn:
        notes.append(f"{tally.readable} of {tally.drawn} thoughts can be read.")
    return seconds, notes


def measure(run: Run) -> tuple[Tally, dict[str, float]]:
    """(the thoughts of a batch of the longest logs, the seconds of an update by kind of stage)."""
    agent = run.agent
    act = run.cfg.act_prm
    kinds = {kind(stage_id) for stage_id in stage_ids(run.cfg)}
    tally = Tally()
    seconds = {}
    run.sync()
    by_length = sorted(run.train_demos, key=lambda demo: tokens(demo, agent), reverse=True)
    demos = [*islice(cycle(by_length), act.batch)]  # some twice where logs are few, as in a run
    if kinds & DRAWS_THOUGHTS:
        began = time.perf_counter()
        walks, groups = walk_logs(agent, demos, act, seed=0)
        outcomes(walks, act)
        credit(groups, act)
        if "act_prm" in kinds:
            update(run, to_samples(groups, agent.chat, act, agent.version), act)
            seconds["act_prm"] = time.perf_counter() - began
        tally.add(groups, agent.chat)
        demos = [with_thoughts(walk, walk.paths[0].thoughts, agent.chat).demo for walk in walks]
    if "sft" in kinds:
        samples = []
        batch = run.cfg.sft.batch
        for demo in islice(cycle(demos), batch):
            samples += logged(demo, agent)
        samples.sort(key=lambda sample: len(sample.whole()), reverse=True)
        began = time.perf_counter()
        update(run, samples[:batch], run.cfg.sft)
        seconds["sft"] = time.perf_counter() - began
    return tally, seconds


def tokens(demo: Demo, agent: Agent) -> int:
    """How long a log is, as SFT reads it."""
    return sum(len(sample.ids) for sample in logged(demo, agent))


def update(run: Run, samples: list[Sample], cfg: Training) -> None:
    """One update on these samples."""
    learn(run, samples, cfg, cfg.lr)
    run.sync()


def peak_memory(device: torch.device) -> str:
    """The most that this process has held so far, in a sentence."""
    if device.type == "cuda":
        where = "this card"
        peak = torch.cuda.max_memory_allocated()
        size = torch.cuda.get_device_properties(0).total_memory
    elif sys.platform == "linux":
        import resource  # which Windows lacks

        where = "this machine"
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        size = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    else:
        return "Peak memory was not measured: this system does not tell it."
    return f"Peak memory: {peak / 2**30:.2f} GiB, of the {size / 2**30:.2f} GiB of {where}."
