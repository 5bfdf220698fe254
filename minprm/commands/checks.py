"""What is refused before anything is loaded, each in one sentence that names the flag.

Every number has to be finite, and in the range that its type names; names have to exist, and knobs
may not contradict each other. Knobs without any effect are refused in effects.py.
"""

import sys
from collections.abc import Iterator
from dataclasses import is_dataclass
from importlib.util import find_spec
from typing import get_args, get_type_hints

from minprm import own
from minprm.arms.demos import few_shot
from minprm.constants import (
    ARMS,
    RL,
    ActPRM,
    Advantage,
    Baseline,
    Config,
    Range,
    Reward,
    Training,
    arms_of,
    fail,
    pairs,
)
from minprm.envs import make_world
from minprm.load.names import on_gpu, require_device
from minprm.several.together import started
from minprm.stages import NAMES, READ_GIVEN, STAGES
from minprm.text import instruction

CENTRED = ("mean", "mean_std", "asym_clip", "rloo", "opo")
MOST_STAGES = 10  # of --stages: the names of a stage's files hold all stages before it

# --- numbers --------------------------------------------------------------------------------------


def check_ranges(knobs: object) -> None:
    """Exits where a number of this dataclass is NaN, infinite, or out of its range."""
    for knob, value, allowed in ranges(knobs):
        fits = allowed.least <= value <= allowed.most  # never so for NaN
        limits = f"at least {allowed.least:,} and at most {allowed.most:,}"
        refuse(not fits, f"{flag(knob)} {value}: must be {limits}")
        refuse(allowed.even and value % 2, f"{flag(knob)} {value}: must be even")


def ranges(knobs: object, prefix: str = "") -> Iterator[tuple[str, float, Range]]:
    """(knob, value, range) of each number in a dataclass, also in its dataclasses and lists."""
    for name, kind in get_type_hints(type(knobs), include_extras=True).items():
        value = getattr(knobs, name)
        if is_dataclass(value):
            yield from ranges(value, f"{prefix}{name}.")
            continue
        allowed = _range(kind)
        if allowed:
            for each in value if isinstance(value, list) else [value]:
                yield prefix + name, each, allowed


def _range(kind: object) -> Range | None:
    """The range beside a type, or in a list beside the type of its items."""
    for part in (kind, *get_args(kind)):
        for note in getattr(part, "__metadata__", ()):
            if isinstance(note, Range):
                return note
    return None


# --- what does not exist, and what cannot work together -------------------------------------------


def check(config: Config) -> None:
    """Refuses what does not exist and what cannot work together."""
    check_ranges(config)
    _check_names(config)
    _check_functions(config)
    instruction.text_of(config.instruction)
    few_shot(config.few_shot)
    _check_run(config)
    _check_mixture(config)
    _check_act_prm(config)
    _check_rl(config)
    _check_text(config)
    _check_engine(config)
    trained = {"sft": config.sft, "act-prm": config.act_prm, "rl": config.rl}
    for name, stage in trained.items():
        _check_training(name, stage)
        _check_patience(name, stage, config)


def refuse(impossible: object, sentence: str) -> None:
    """Ends the program with this sentence where something is impossible."""
    if impossible:
        fail(sentence)


def flag(knob: str) -> str:
    """A knob as it is written on the command line.

    >>> flag("act_prm.top_k")
    '--act-prm.top-k'
    """
    return f"--{knob.replace('_', '-')}"


def stages_of(config: Config) -> set[str]:
    """All stages that are run, whatever the arm."""
    return {stage for stages in arms_of(config).values() for stage in stages}


def _check_names(config: Config) -> None:
    """Arms, stages and seeds."""
    for arm in config.arms:
        refuse(arm not in ARMS, f"--arms {arm}: no such arm. Arms: {', '.join(ARMS)}")
        refuse(config.arms.count(arm) > 1, f"--arms names {arm} twice")
    stages = sorted({*NAMES, *STAGES, "demos"})
    for stage in config.stages:
        known = ", ".join(stages)
        refuse(stage not in stages, f"--stages {stage}: no such stage. Stages: {known}")
    refuse(len(config.stages) > MOST_STAGES, f"--stages: at most {MOST_STAGES} of them")
    for seed in config.seeds:
        refuse(config.seeds.count(seed) > 1, f"--seeds names {seed} twice")
    refuse(
        not config.seeds or not (config.arms or config.stages),
        "--seeds and --arms name at least one each",
    )


def _check_functions(config: Config) -> None:
    """Rewards and advantages: names of ours, or functions of the user's own, which are loaded."""
    rewards = get_args(Reward)
    advantages = get_args(Advantage)
    _check_function("act_prm.reward", config.act_prm.reward, rewards, own.REWARD_TAKES)
    _check_function("act_prm.advantage", config.act_prm.advantage, advantages, own.ADVANTAGE_TAKES)
    advantages += get_args(Baseline)
    _check_function("rl.advantage", config.rl.advantage, advantages, own.ADVANTAGE_TAKES)


def _check_function(knob: str, name: str, ours: tuple[str, ...], takes: dict[int, str]) -> None:
    """takes: what each number of arguments would be."""
    try:
        found = own.users(name, ours)
    except ValueError as error:
        fail(f"{flag(knob)} {error}")
    fits = found is None or any(own.takes(found, number) for number in takes)
    refuse(not fits, f"{flag(knob)} {name}: it has to take {', or '.join(takes.values())}")


def _check_order(stages: list[str]) -> None:
    """The games that synth won are learned before a stage goes back to the expert's logs."""
    won = False  # are there games that no stage has learned yet?
    for stage in stages:
        refuse(
            won and stage in READ_GIVEN,
            f"--stages synth ... {stage}: this learns the expert's logs, not those of the games "
            "that were won; put sft:thoughts before it",
        )
        won = stage == "synth" or (won and stage != "sft:thoughts")


def _check_run(config: Config) -> None:
    """What is run: stages, model and world."""
    world = bool(config.world)
    embedded = config.model == "tiny"
    stages = stages_of(config)
    plays = any(stage.split(":")[0] in ("rl", "synth") for stage in stages)
    refuse(config.resume and config.dry_run, "--dry-run plans a new run: leave out --resume")
    refuse(
        "demos" in stages and (config.stages != ["demos"] or not world or len(config.seeds) > 1),
        "--stages demos writes a --world's expert logs: it stands alone, with one seed",
    )
    refuse(
        config.track != "none" and not find_spec(config.track),
        f"--track {config.track}: it is not installed; pip install {config.track}",
    )
    require_device(config.device, config.sampler)
    refuse(
        config.jobs > 1 and on_gpu(config.device, config.sampler),
        f"--jobs {config.jobs}: processes do not share a GPU or vLLM: leave it out, or add "
        "--device cpu --sampler transformers",
    )
    refuse(
        config.jobs > 1 and sys.platform == "win32",
        f"--jobs {config.jobs}: on Windows all arms run in one process; leave it out",
    )
    refuse(
        config.shard == "always" and config.lora,
        "--shard always with --lora: each process holds all adapters and their base; leave out one",
    )
    refuse(
        config.lora > 0 and embedded,
        "--lora is for a --model: of the embedded one all weights are trained",
    )
    refuse(
        not config.think and stages & {"sft:thoughts", "sft:expert"},
        "--no-think: an arm learns thoughts that it could not use; choose others by --arms",
    )
    refuse(
        not config.think and "synth" in stages,
        "--no-think: synth keeps episodes in which each turn began with a thought",
    )
    refuse(
        not world and not (config.demos and config.held_out > 1 and not embedded),
        "without a --world there must be --demos, a --model and --held-out 2 or more",
    )
    refuse(not world and plays, "rl and synth need a --world to play")
    _check_order(config.stages)
    refuse(
        config.relabel.keep > config.relabel.group,
        "--relabel.keep is larger than --relabel.group: sample at least as many as you keep",
    )


def _check_mixture(config: Config) -> None:
    """The shares of thoughts on which the embedded model is raised."""
    shares = pairs(config.tiny.mixture, float)
    for kind, share in shares.items():
        refuse(not 0 <= share <= 1, f"--tiny.mixture {kind}={share}: must be from 0 to 1")
    refuse(shares and not sum(shares.values()), "--tiny.mixture: no share is above 0")
    kinds = make_world(config).thought_mix if shares and config.world else shares
    for kind in shares:
        refuse(
            kind not in kinds,
            f"--tiny.mixture {kind}: {config.world} has no such thoughts, but "
            f"{', '.join(kinds) or 'none'}",
        )


def _check_act_prm(config: Config) -> None:
    act_prm = config.act_prm
    refuse(
        act_prm.thoughts_from == "state" and act_prm.trained_on == "action_first",
        "--act-prm.trained-on action_first needs --act-prm.thoughts-from state_action",
    )
    refuse(
        act_prm.continues == "resample" and act_prm.advantage not in ("posterior", "none"),
        "--act-prm.continues resample weighs by survival: --act-prm.advantage posterior",
    )
    if act_prm.baseline == "no_thought":
        refuse(
            act_prm.continues != "best",
            "--act-prm.baseline no_thought is about the thoughts of one step, and needs "
            "--act-prm.continues best",
        )
        refuse(
            act_prm.reward == "exact_match" or own.reads_texts(act_prm.reward),
            f"--act-prm.reward {act_prm.reward} says nothing of a step without a thought, and "
            "--act-prm.baseline no_thought needs that: use --act-prm.reward action_prob",
        )


def _check_rl(config: Config) -> None:
    rl = config.rl
    refuse(
        rl.group < 2 and (rl.groups != "all" or rl.backfill),
        "--rl.groups and --rl.backfill choose groups by their variance: --rl.group 2 or more",
    )
    refuse(
        rl.format_penalty > 0 and rl.advantage == "posterior",
        "--rl.format-penalty with posterior: its weights are shares of rewards above 0",
    )
    refuse(
        rl.max_async_level > 0 and config.engine.sleep,
        "--engine.sleep with --rl.max-async-level: an engine that plays ahead never sleeps",
    )


def _check_text(config: Config) -> None:
    """The world `text` pays a reward that `rl` would never see: there success is the reference."""
    knobs = pairs(config.world_args, str) if config.world == "text" else {}
    graded = knobs.get("reward", "exact_match") != "exact_match" and "enough" not in knobs
    stages = stages_of(config)
    for stage in sorted(stages & {"rl", "rl:finetune"}):
        refuse(
            graded and "rl:dense" not in stages,
            f"{stage} is paid by success, and not by the reward {knobs.get('reward')}: use the "
            "stage rl:dense (--arms rl_dense), or say by --world-args enough=0.5 which reward is "
            "a success",
        )


def _check_engine(config: Config) -> None:
    """The processes that have an engine of vLLM together."""
    together = config.engine.tensor_parallel
    there = started()
    refuse(
        there % together,
        f"--engine.tensor-parallel {together}: so many processes have an engine together, and "
        f"there are {there}: start {together} with torchrun, or a multiple of that",
    )


def _check_training(name: str, stage: Training) -> None:
    """What every stage has that takes gradient steps; SFT has no groups."""
    refuse(
        isinstance(stage, ActPRM | RL) and stage.group < 2 and stage.advantage in CENTRED,
        f"--{name}.group 1: a group of one has no signal to compare",
    )
    refuse(
        stage.kl_to == "sampler" and stage.correction != "none",
        f"--{name}.kl-to sampler with --{name}.correction, which forgets what the sampler found: "
        "use one",
    )
    ahead = getattr(stage, "max_async_level", 0)
    refuse(
        name != "sft" and stage.kl_to == "sampler" and stage.passes == 1 and not ahead,
        f"--{name}.kl-to sampler does nothing where the weights that sampled are those that learn: "
        f"it needs --{name}.passes above 1, or a batch played ahead",
    )


def _check_patience(name: str, stage: Training, config: Config) -> None:
    """Early stopping needs something to go by: held-out demos, or tasks that are played."""
    if not stage.patience or not any(kind_of(each) == name for each in stages_of(config)):
        return
    measured, tasks = "success on --eval-tasks tasks", config.eval_tasks
    if name == "act-prm" and config.act_prm.best_by == "held_out_reward":
        measured, tasks = "reward on --held-out demos", config.held_out
    refuse(
        not (config.eval_every and tasks),
        f"--{name}.patience goes by the {measured}, every --eval-every updates: neither may be 0",
    )


def kind_of(stage: str) -> str:
    """The section of knobs that a stage has, as it is written on the command line.

    >>> kind_of("act_prm:resample")
    'act-prm'
    """
    return stage.split(":")[0].replace("_", "-")
