"""The part of --dry-run (plan.py) that needs the model: whether it fits, and what it would read.

Its numbers are an estimate, not a promise: fragmentation comes on top. Time is in estimate.py.
"""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedModel
from transformers import PreTrainedTokenizerBase as Tokenizer

from minprm.arms.demos import examples_of, fitting_demos, leave_out_unwritable, measured, split
from minprm.commands.counted import NEEDS_LESS, disk, why_not_measured
from minprm.commands.estimate import measured_table
from minprm.commands.logs import describe, tokens_of
from minprm.commands.memory import count, engine_lacks, memory, on_the_cpu, sent
from minprm.commands.threads import set_threads
from minprm.constants import Config, DeviceName, arms_of, fail
from minprm.data import Demo
from minprm.envs import make_world
from minprm.load import tiny
from minprm.load.base import checked_base, is_spread, sharing
from minprm.load.pretrained import (
    device_of,
    pretrained,
    require_layers,
    targets_of,
    weights_here,
)
from minprm.logs.reader import Report
from minprm.model.agent import make_prompter
from minprm.several.jobs import processes
from minprm.text import instruction
from minprm.text.actions import all_tools
from minprm.text.chat import Chat
from minprm.text.printable import GREEN, GREY, PLAIN, YELLOW, printable

CONTEXT = 2**30  # bytes of a card that CUDA itself takes
WAYS = {True: "with a part of each weight", False: "with all weights"}


def of_model(
    cfg: Config, checkpoints: Path, demos: list[Demo], report: Report | None
) -> Iterator[str]:
    """The rest of the plan, part by part; what takes long comes last. Exits where a run would be
    refused. report: what there is to say of the logs; None where the expert has left them."""
    set_threads(cfg.model, cfg.threads)
    model, tokenizer, planned, here = shape_of(cfg)
    prompter = make_prompter(tokenizer, cfg, all_tools(demos), examples_of(cfg))
    logs = measured(demos, prompter.chat)
    if report:
        writable = leave_out_unwritable(logs, report)
        tokens = tokens_of(writable, cfg, prompter.chat)
        yield describe([log.demo for log in writable], report, cfg, tokens)
        yield ""
    train_demos, *_ = split(fitting_demos(logs, prompter, cfg), cfg)
    total, trained = count(model, planned.lora, planned.lora_targets)
    yield f"{cfg.model}: {total:,} parameters, {trained:,} of them trained"
    card = card_memory(cfg.device)
    plan = memory(model, planned, card)
    many = sharing(cfg) > 1
    if many:
        yield f"each of {sharing(cfg)} processes, {WAYS[is_spread(planned)]}:"
    yield from lines(plan)
    jobs = processes(cfg, len(arms_of(cfg)))
    needed = jobs * plan["sum"]
    if jobs > 1:
        yield from lines({f"the same in {jobs} processes": needed})
    if cfg.processes and not card:
        fits, verdict = True, f"its card has to have {(needed + CONTEXT) / 2**30:.2f} GiB"
    else:
        fits, verdict = fit(needed if card or not many else sharing(cfg) * needed, card)
    yield verdict
    if lacks := engine_lacks(model, planned, card):
        fits = False
        yield lacks
    if many:
        yield from lines(sent(model, planned) | on_the_cpu(model, planned))
    yield disk(planned, total, trained, train_demos)
    yield from instruction.plan(prompter.instruction, cfg.sft.keep_instruction)
    yield ""
    yield rendered(train_demos[0], prompter.chat)
    yield ""
    if many:
        yield "Time was not measured: a plan for several processes starts none."
    elif fits and here:
        yield from measured_table(cfg, checkpoints)
    else:
        yield why_not_measured(cfg, here)


def shape_of(cfg: Config) -> tuple[PreTrainedModel, Tokenizer, Config, bool]:
    """(a model of the right shape, its tokenizer, the knobs with what its adapters are, are its
    weights here).

    Nothing is loaded but the configuration and the tokenizer.
    """
    if cfg.model == "tiny":
        return *tiny.untrained(make_world(cfg), cfg.tiny, seed=0), cfg, True
    base, rank = checked_base(cfg)
    tokenizer = pretrained(AutoTokenizer, cfg.model)
    config = pretrained(AutoConfig, base)
    here = weights_here(base)
    try:
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config)
    except (ValueError, ImportError) as error:
        fail(f"{base} is no model that transformers loads: {str(error).splitlines()[0]}")
    if rank:
        cfg = replace(cfg, lora=rank, lora_targets=targets_of(cfg.model))
    else:
        require_layers(model, cfg.lora_targets)
    return model, tokenizer, cfg, here


def card_memory(device: DeviceName) -> int:
    """Bytes of the GPU; 0 where there is none, or where the model computes elsewhere."""
    if device_of(device).type != "cuda":
        return 0
    return torch.cuda.get_device_properties(0).total_memory


def fit(needed: float, card: int) -> tuple[bool, str]:
    """(does a run that needs so many bytes fit this machine, the sentence that says so). card:
    bytes of the GPU; 0: the machine's own memory counts."""
    if card:
        has, where = card - CONTEXT, "on this card"
    elif not hasattr(os, "sysconf"):
        return True, "how much memory Windows has was not asked: compare it with the sum"
    else:
        has = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        where = "into this machine's memory, without a GPU"
    size = f"{where}: {has / 2**30:.2f} GiB can be used"
    if needed <= has:
        return True, f"it fits {size}"
    return False, f"it does not fit {size}; {NEEDS_LESS}"


def lines(sizes: dict[str, float]) -> Iterator[str]:
    """Sizes in bytes, a line each."""
    for name, size in sizes.items():
        yield f"{name:<42}{size / 2**30:>9.2f} GiB"


def rendered(demo: Demo, chat: Chat) -> str:
    """A demo as the model reads it."""
    text = ""
    for i, step in enumerate(demo.steps):
        state = chat.state(step.state, demo.tools, demo.action_before(i))
        text += GREY + printable(chat.text(state)) + GREEN
        opening = chat.act_without_thought
        if step.thought is not None:
            thought = chat.text([*chat.think, *chat.thought(step.thought), *chat.think_end])
            text += printable(thought)
            opening = chat.act
        action = [*opening, *chat.action(step.action), *chat.act_end, *chat.end]
        text += YELLOW + printable(chat.text(action))
    return text + PLAIN
