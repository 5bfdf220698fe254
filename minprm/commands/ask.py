"""The flags of minprm evaluate: what they are, what is refused, and what a checkpoint is asked.

A checkpoint is asked as it was trained: flags go before its minprm.json (arms/about.py), and that
goes before the defaults. Where a flag says otherwise than the file, a sentence tells of it.
"""

import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from minprm import own
from minprm.arms.about import ASKED, read_about
from minprm.commands.checks import check_ranges, refuse
from minprm.commands.cli import as_flags, differences, read_flags
from minprm.commands.effects import no_effect
from minprm.constants import (
    Config,
    Content,
    Count,
    CountOrNone,
    DeviceName,
    Engine,
    Episodes,
    History,
    LayoutName,
    Positive,
    SamplerName,
    Split,
    Temperature,
)
from minprm.load.names import require_device, uses_vllm
from minprm.logs.books import Reading
from minprm.own import is_own
from minprm.printable import say

PROGRAM = "minprm evaluate"


@dataclass
class Evaluation:
    """Plays checkpoints on held-out tasks, or replays held-out logs, and prints how well they act.

    A checkpoint's minprm.json says what it was trained for. Its knobs are the defaults here.
    """

    # directories of runs, or hub ids
    checkpoints: Annotated[list[str], Positional, arg(metavar="CHECKPOINT ...")]
    worlds: bool = False  # list all worlds, with what each teaches, and stop
    world: str = "cups"  # name of a world in minprm/envs, or FILE.py:NAME, one of your own
    world_args: list[str] = field(default_factory=list)  # its knobs, e.g. rounds=1 swaps=5
    agent: str = ""  # FILE.py:NAME, an agent of your own that plays in the place of a world
    agent_seconds: Positive = 120.0  # for which it may do without the model
    demos: str = ""  # instead of a world: logs that no training saw, replayed step by step
    content: Content = "reply"  # what text beside a call in --demos is
    skip_bad: bool = False  # go on without the bad lines of --demos
    drop: list[str] = field(default_factory=list)  # keys of --demos that are no part of it
    map: list[str] = field(default_factory=list)  # KEY=NAME: keys and what they are read as
    task_key: str = ""  # the key that says of which task a log is; none: task, task_id and the like
    keep: list[str] = field(default_factory=list)  # logs by their end: won, or 'reward>=0.5'
    thought: str = ""  # a pattern at the beginning of an answer, the thought in brackets
    format: str = ""  # FILE.py:NAME, a reader of your own for another format
    episodes: Episodes = 400  # tasks played
    samples: Count = 1  # times that each task is played; pass@2, pass@4 ... are reported up to it
    split: Split = "test"  # which tasks
    temperature: Temperature = 0.0  # 0: greedy
    seed: CountOrNone = 0  # of random play, and of the sampler above temperature 0
    instruction: str = "auto"  # what the model is told: auto, none, a text, or a .txt or .md file
    few_shot: str = ""  # logs with thoughts, shown as turns before each conversation
    think: bool = True  # may a turn think first; --no-think opens its action at once
    thought_tokens: Count = 32  # a longer thought is cut
    action_tokens: Count = 8  # longest action, its tags included
    context: Count = 4096  # longest prompt with its answer; an episode that outgrows it is lost
    layout: LayoutName = "auto"  # what ends a thought (text/layout.py)
    history: History = field(default_factory=History)
    sampler: SamplerName = "auto"  # auto: vllm if there is an Nvidia GPU
    device: DeviceName = "auto"  # where the model computes; auto: cuda if it is there, else cpu
    engine: Engine = field(default_factory=Engine)
    transcripts: str = ""  # new file to write every episode to, or every step of --demos, JSONL


def check(flags: Evaluation, chosen_knobs: set[str]) -> None:
    """Refuses, before anything is read, what cannot be meant. chosen_knobs: those of the flags."""
    check_ranges(flags)
    refuse(
        flags.worlds and (flags.checkpoints or chosen_knobs != {"worlds"}), "--worlds stands alone"
    )
    refuse(
        not flags.worlds and not flags.checkpoints,
        "name at least one checkpoint: minprm evaluate checkpoints/RUN/ARM-SEED",
    )
    for path in flags.checkpoints:
        refuse(flags.checkpoints.count(path) > 1, f"{path} is named twice")
    refuse(
        flags.samples > 1 and not flags.temperature,
        "--samples above 1 needs a --temperature above 0: greedy samples differ by luck at most",
    )
    require_device(flags.device, flags.sampler)
    file = flags.transcripts  # what could not be written after all the play
    refuse(file and Path(file).exists(), f"--transcripts {file} exists: choose another name")
    folder = Path(file).parent
    writable = folder.is_dir() and os.access(folder, os.W_OK)
    refuse(file and not writable, f"--transcripts {file}: nothing can be written there")


def as_trained(flags: Evaluation, argv: list[str], chosen_knobs: set[str]) -> dict[str, Evaluation]:
    """The flags that hold for each checkpoint, its own file read. Exits where they cannot be meant.

    A checkpoint without a file is asked like the first that has one, for a fair comparison; but
    what that one is told is its own matter, since it may have been trained to need no telling.
    """
    files = {path: read_about(path) for path in flags.checkpoints}
    described = [path for path in files if files[path]]
    example = dict(files[described[0]]["asked"]) if described else {}
    example.pop("instruction", None)
    example.pop("few_shot", None)
    evaluations = {}
    for path, file in files.items():
        evaluations[path] = evaluation_of(argv, chosen_knobs, file.get("asked", example))
        check_ranges(evaluations[path])  # a file can be changed by hand
    _check_effects(list(evaluations.values()), chosen_knobs)
    _check_world(evaluations, chosen_knobs)
    for path, file in files.items():
        if described and not file:
            say(
                f"{path} has no minprm.json: it is asked as {described[0]} was trained, but for"
                " --instruction and --few-shot"
            )
        # the file is the default, so what differs was given
        for before, now in differences(file.get("asked", {}), asdict(evaluations[path])):
            say(f"{path} was trained with {before}, not {now}")
    return evaluations


def evaluation_of(argv: list[str], chosen_knobs: set[str], trained: dict) -> Evaluation:
    """The flags over what the file says of the training; {}: over the defaults."""
    plain = read_flags(Evaluation, as_flags(trained), PROGRAM)
    flags = read_flags(Evaluation, argv, PROGRAM, default=plain)
    moved = Path(flags.world).name == Path(plain.world).name  # FILE.py:NAME, from another folder
    if not moved and "world_args" not in chosen_knobs:
        flags.world_args = []  # the file's are those of another world
    if "world" in chosen_knobs and "agent" not in chosen_knobs:
        flags.agent = ""
    return flags


def _check_effects(evaluations: list[Evaluation], chosen_knobs: set[str]) -> None:
    """Refuses flags that have no effect on any of the checkpoints."""
    played = not evaluations[0].demos
    needs = (
        (any(x.think for x in evaluations), "thoughts, so no --no-think", "thought_tokens"),
        (uses_vllm(evaluations[0].sampler), "the vLLM sampler", "engine.memory engine.max_gap"),
        (False, "training, and here nothing is trained", "engine.sleep engine.tensor_parallel"),
        (
            played,
            "a world that is played, so no --demos",
            "world world_args agent agent_seconds episodes samples split think",
        ),
        (
            not played or "few_shot" in chosen_knobs,
            "--demos or --few-shot",
            "content skip_bad drop map task_key thought format",
        ),
        (not played, "--demos", "keep"),
    )
    sentences = []
    for met, need, knobs in needs:
        for knob in knobs.split():
            if knob in chosen_knobs and not met:
                sentences.append(no_effect(knob, need))
    refuse(sentences, "; ".join(sentences))


def _check_world(evaluations: dict[str, Evaluation], chosen_knobs: set[str]) -> None:
    """Refuses checkpoints of different worlds, of none, and of a world whose file is gone, where no
    flag says what is played."""
    if any(flags.demos for flags in evaluations.values()):
        return
    (first, flags), *others = evaluations.items()
    for path, other in others:
        refuse(
            (other.world, other.world_args, other.agent)
            != (flags.world, flags.world_args, flags.agent),
            f"{first} and {path} were trained in different worlds: give --world and --world-args, "
            "or an --agent",
        )
    refuse(
        not flags.world and not flags.agent,
        f"{first} was trained on logs, without a world: give --demos with logs that no training "
        "saw, or a --world",
    )
    if flags.agent:
        own.require("--agent", flags.agent, (), own.AGENT_TAKES)
        return
    file = flags.world.rpartition(":")[0]
    refuse(
        is_own(flags.world) and "world" not in chosen_knobs and not Path(file).is_file(),
        f"{first} was trained in {flags.world}, and from here there is no such file: give --world "
        "with the path that it has now",
    )


def configured(path: str, flags: Evaluation) -> Config:
    """The configuration of an agent whose model is at this path, and that is asked so."""
    names = ("agent_seconds", "episodes", "split", "sampler", "device", "engine", "demos",
             "skip_bad", *Reading._fields, *ASKED)  # fmt: skip
    knobs = {name: getattr(flags, name) for name in names}
    # it trains no arm, so that no arm asks for more room in the context
    return Config(model=path, arms=[], eval_temperature=flags.temperature, **knobs)
