"""The part of --dry-run (train.plan) that needs the model: what it reads, and one batch, measured.

The batch is of the longest logs, written, scored and learned from by the stages' own functions, and
then a look is taken at the longest held-out ones. The times of all stages are multiples of it, so
they are an estimate: a model learns to write shorter or longer thoughts.
"""

import math
import os
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from loguru import logger
from transformers import AutoTokenizer, PreTrainedModel
from transformers import PreTrainedTokenizerBase as Tokenizer

from minprm.arms.demos import (
    examples_of,
    fitting_demos,
    leave_out_unwritable,
    measured,
    split,
    tools_of,
)
from minprm.arms.ladder import start
from minprm.commands.checks import stages_of
from minprm.commands.logs import describe, tokens_of
from minprm.constants import Config, Training, arms_of
from minprm.data import Demo, Sample
from minprm.envs import make_world
from minprm.load import tiny
from minprm.load.base import checked_base
from minprm.load.check import check_sizes
from minprm.load.pretrained import (
    adapted,
    load_shape,
    pretrained,
    weights_here,
    with_saved_adapters,
)
from minprm.load.threads import set_threads
from minprm.logs.reader import Report
from minprm.look.failure import Tally
from minprm.look.log import Log
from minprm.look.looks import held_out_reward
from minprm.model.agent import Agent, make_prompter
from minprm.printable import printable
from minprm.run.stage_ids import kind, reads_instruction, stage_ids, updates_of
from minprm.several.jobs import processes
from minprm.several.together import several
from minprm.stages import READ_GIVEN, READ_LEFT
from minprm.stages.act_prm import SIDE_BY_SIDE, credit, outcomes, to_samples, walk_logs
from minprm.stages.relabel import thoughts_a_step, with_thoughts
from minprm.stages.sft import to_samples as logged
from minprm.text import instruction
from minprm.text.chat import Chat
from minprm.trainer import Run, learn

# the parts of a batch that are measured
WRITE, LEARN, IMITATE = "write and score thoughts", "learn from them", "make an update of SFT"
LOOK = "look at the longest held-out logs"
DRAWS_THOUGHTS = {"act_prm", "relabel", "sample"}  # stages that do, for the steps of logs


def of_model(
    cfg: Config, checkpoints: Path, demos: list[Demo], report: Report | None
) -> Iterator[str]:
    """The rest of the plan, part by part; what takes long comes last. Exits where a run would be
    refused. report: what there is to say of the logs; None where the expert has left them."""
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
    if any(reads_instruction(stages[:1], cfg) for stages in arms_of(cfg).values()):
        yield from instruction.plan(prompter.instruction, cfg.sft.keep_instruction)
    if train_demos:
        yield "\n" + rendered(as_learned(train_demos[0], cfg), prompter.chat) + "\n"
    if several():
        yield "Not measured: a plan measures one process, without torchrun. Of several, those that"
        yield "share weights (--shard) need less each."
    elif cfg.model != "tiny" and not weights_here(checked_base(cfg)[0]):
        yield f"Not measured: the weights of {cfg.model} are not on this machine."
        yield "A run downloads them; a plan does not."
    else:
        yield from one_batch(cfg, checkpoints)


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


def as_learned(demo: Demo, cfg: Config) -> Demo:
    """The demo, without its thoughts where no stage of this run has any."""
    thinks = (READ_GIVEN | READ_LEFT) - {"sft:actions"}
    return demo if stages_of(cfg) & thinks else demo.without_thoughts()


def rendered(demo: Demo, chat: Chat) -> str:
    """A demo as the model reads it."""
    ids = []
    for i, step in enumerate(demo.steps):
        ids += chat.state(step.state, demo.tools, demo.action_before(i))
        thought = None if step.thought is None else chat.thought(step.thought)
        ids += chat.closed(chat.opening(thought, step.action), chat.action(step.action))
    return printable(chat.text(ids))


# --- one batch ---


def one_batch(cfg: Config, checkpoints: Path) -> Iterator[str]:
    """Times of all stages, and the memory. Exits where a run could not start."""
    raised = True
    if cfg.model == "tiny":
        world = make_world(cfg)
        raised = tiny.is_here(world, cfg.tiny, cfg.seeds[0], cfg.micro_tokens, checkpoints)
    with TemporaryDirectory() as folder, closing(Log(Path(folder))) as log:
        if not raised:  # one of its size will do
            cfg = replace(cfg, tiny=replace(cfg.tiny, updates=1), gate=False)
        if not raised or not cfg.tiny.updates:  # nothing is left behind
            checkpoints = Path(folder)
        logger.disable("minprm")  # the plan has said it, or it is no news of another model
        try:
            run = start(cfg, cfg.seeds[0], log, checkpoints)
            tally, seconds = measure(run)
        finally:
            logger.enable("minprm")
    if not seconds:
        yield "Time was not measured: that of playing depends on what is learned."
        return
    yield f"{'stage':<50}{'about':>12}"
    whole = 0.0
    for stage_id in stage_ids(cfg):
        took = seconds_of(stage_id, run, seconds)
        yield f"{stage_id:<50}{duration(took):>12}"
        whole += took or 0.0
    yield f"{'all of them, for all seeds':<50}{duration(whole * len(cfg.seeds)):>12}"
    yield "In one process, without playing and evaluation. One batch of the longest logs took:"
    for part, took in seconds.items():
        yield f"{took:.1f} s to {part}"
    yield peak_memory(run.agent.policy.model.device)
    jobs = processes(cfg, len(arms_of(cfg)))
    if jobs > 1:
        yield f"{jobs} arms are trained at once (--jobs), which takes {jobs} times that memory."
    if not raised:
        yield "The embedded model is not raised yet: one of its size was measured, whose thoughts"
        yield "are as long as they may be. The run is faster than that, but raises it first."
    elif tally.drawn and not tally.readable:
        yield f"None of these thoughts can be read, so a run would stop; {tally.why(run)}."
    elif tally.drawn:
        yield f"{tally.readable} of {tally.drawn} thoughts can be read."


def measure(run: Run) -> tuple[Tally, dict[str, float]]:
    """(the thoughts of a batch of the longest logs, the seconds that its parts took)."""
    agent = run.agent
    act = run.cfg.act_prm
    kinds = {kind(stage_id) for stage_id in stage_ids(run.cfg)}
    tally = Tally()
    seconds = {}
    run.sync()
    # some twice where logs are few, as in a run
    demos = [*islice(cycle(longest_first(run.train_demos, agent)), act.batch)]
    if kinds & DRAWS_THOUGHTS:
        began = time.perf_counter()
        walks, groups = walk_logs(agent, demos, act, seed=0)
        outcomes(walks, act)
        credit(groups, act)
        samples = to_samples(groups, agent.chat, act, agent.version)
        seconds[WRITE] = time.perf_counter() - began
        if "act_prm" in kinds:
            seconds[LEARN] = seconds_of_update(run, samples, act)
            if run.cfg.eval_every and run.held_out:
                seconds[LOOK] = seconds_of_look(run)
        tally.add(groups, agent.chat)
        demos = [with_thoughts(walk, walk.paths[0].thoughts, agent.chat).demo for walk in walks]
    if "sft" in kinds:
        samples = []
        batch = run.cfg.sft.batch
        for demo in islice(cycle(demos), batch):
            samples += logged(as_learned(demo, run.cfg), agent)
        samples.sort(key=lambda sample: len(sample.whole()), reverse=True)
        seconds[IMITATE] = seconds_of_update(run, samples[:batch], run.cfg.sft)
    return tally, seconds


def longest_first(demos: list[Demo], agent: Agent) -> list[Demo]:
    """The longest ones first, as SFT reads them."""
    return sorted(demos, key=lambda demo: tokens(demo, agent), reverse=True)


def tokens(demo: Demo, agent: Agent) -> int:
    """How long a log is, as SFT reads it."""
    return sum(len(sample.ids) for sample in logged(demo, agent))


def seconds_of_look(run: Run) -> float:
    """How long a look takes at as many held-out logs as are in memory at once, the longest ones."""
    began = time.perf_counter()
    demos = longest_first(run.held_out, run.agent)[:SIDE_BY_SIDE]
    held_out_reward(replace(run, held_out=demos), run.cfg.act_prm)
    return time.perf_counter() - began


def seconds_of_update(run: Run, samples: list[Sample], cfg: Training) -> float:
    """How long one update on these samples takes. On a GPU the second one: the first compiles, and
    takes the optimizer's memory at its end."""
    seconds = 0.0
    for _ in range(2 if run.agent.policy.model.device.type == "cuda" else 1):
        began = time.perf_counter()
        run.running = {"baseline": 0.0}  # as a stage begins
        learn(run, samples, cfg, cfg.lr)
        run.sync()
        seconds = time.perf_counter() - began
    return seconds


def seconds_of(stage_id: str, run: Run, seconds: dict[str, float]) -> float | None:
    """How long a stage will take. None: it plays, and no episode was measured."""
    cfg, act = run.cfg, run.cfg.act_prm
    updates = updates_of(stage_id, cfg, run.train_demos)
    a_thought = seconds.get(WRITE, 0.0) / act.batch / act.group  # one for each step of a log
    match kind(stage_id):
        case "act_prm":
            took = updates * (seconds[WRITE] + seconds[LEARN])
            if LOOK in seconds:
                looks = 1 + math.ceil(updates / cfg.eval_every)
                portions = max(len(run.held_out) / SIDE_BY_SIDE, 1.0)
                took += looks * portions * seconds[LOOK]
            return took
        case "relabel":
            group = thoughts_a_step(cfg.relabel, act, run, stage_id.endswith(":matched"))
            return len(run.train_demos) * group * a_thought
        case "sample":
            return len(run.train_demos) * a_thought
        case "sft":
            return updates * seconds[IMITATE]
        case "shuffle" | "copy":
            return 0.0
    return None


def peak_memory(device: torch.device) -> str:
    """The most that this process has held so far, in a sentence."""
    if device.type == "mps" or sys.platform == "win32":
        return "Peak memory was not measured: this system does not tell it."
    if device.type == "cuda":
        peak = torch.cuda.max_memory_allocated()
        size = torch.cuda.get_device_properties(0).total_memory
    else:
        import resource  # which Windows lacks

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        peak *= 1 if sys.platform == "darwin" else 1024
        size = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    where = "this card" if device.type == "cuda" else "this machine"
    return f"Peak memory: {peak / 2**30:.2f} GiB, of the {size / 2**30:.2f} GiB of {where}."


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
