"""The command line: flags over TOML over preset, and every refusal in one sentence."""

import contextlib
import io
import re
import tomllib
from copy import deepcopy
from dataclasses import asdict
from itertools import pairwise

import tyro

from minprm.commands.presets import PRESETS
from minprm.constants import ARMS, ActPRM, Config, Training, arms_of, fail, flat
from minprm.ladder import STAGES

POSITIVE = (
    "batch", "group", "keep", "updates", "epochs", "passes", "episodes", "num_demos",
    "eval_every", "save_every", "thought_tokens", "action_tokens", "micro_tokens", "context",
    "top_k",
)  # fmt: skip
SHARES = ("gamma", "lam", "top_p", "min_reward")
CENTRED = ("mean", "mean_std", "asym_clip", "rloo", "opo")


def parse(argv: list[str]) -> Config:
    """The configuration that the flags mean. Exits with one sentence where they mean none.

    >>> parse(["--preset", "smoke", "--act-prm.reward", "exact_match"]).act_prm.reward
    'exact_match'
    """
    flags = _toml_flags(_value(argv, "--config")) + argv
    preset = PRESETS.get(_value(flags, "--preset") or "cups", PRESETS["cups"])
    config = read_flags(Config, flags, "minprm train", default=deepcopy(preset))
    check(config)
    return config


def read_flags(schema: type, argv: list[str], program: str, **default):
    """An instance of the dataclass `schema` from flags.

    tyro draws its complaints as a box of several lines; here they end in one sentence.
    """
    box = io.StringIO()
    try:
        with contextlib.redirect_stderr(box):
            return tyro.cli(schema, args=argv, prog=program, **default)
    except SystemExit as stop:
        if not stop.code:  # --help
            raise
    lines = [line.strip("│╭╮╰╯─ ") for line in box.getvalue().splitlines()[1:]]
    if "" in lines:
        lines = lines[: lines.index("")]
    fail(f"{' '.join(lines)} ({program} --help lists every flag)")


def check(config: Config) -> None:
    """Refuses what does not exist and what cannot work together."""
    for arm in config.arms:
        refuse(arm not in ARMS, f"--arms {arm}: no such arm. Arms: {', '.join(ARMS)}")
    stages = sorted([*STAGES, "demos"])
    for stage in config.stages:
        known = ", ".join(stages)
        refuse(stage not in stages, f"--stages {stage}: no such stage. Stages: {known}")
    for knob, value in flat(asdict(config)):
        _check_range(knob, value)
    _check_run(config)
    _check_act_prm(config.act_prm)
    _check_rl(config)
    trained = {"sft": config.sft, "act-prm": config.act_prm, "rl": config.rl}
    for name, stage in trained.items():
        _check_training(name, stage)


def refuse(impossible: bool, sentence: str) -> None:
    """Ends the program with this sentence where something is impossible."""
    if impossible:
        fail(sentence)


def _check_range(knob: str, value: object) -> None:
    """No number is negative, some are at least 1, shares are at most 1."""
    if not isinstance(value, int | float):
        return
    name = knob.split(".")[-1]
    flag = f"--{knob.replace('_', '-')} {value}"
    least = 1 if name in POSITIVE else 0
    refuse(value < least, f"{flag}: must be at least {least}")
    refuse(name in SHARES and value > 1, f"{flag}: must be at most 1")


def _check_run(config: Config) -> None:
    """What is run: stages, seeds, model and world."""
    world = bool(config.world)
    embedded = config.model == "tiny"
    learned = {stage for stages in arms_of(config).values() for stage in stages}
    plays = any(stage.split(":")[0] in ("rl", "synth") for stage in learned)
    refuse(
        "demos" in config.stages and (config.stages != ["demos"] or not world),
        "--stages demos writes a --world's expert logs, and stands alone",
    )
    refuse(
        not config.seeds or min(config.seeds) < 0 or not (config.arms or config.stages),
        "--seeds and --arms name at least one each, and no seed is below 0",
    )
    refuse(
        config.lora > 0 and embedded,
        "--lora is for a --model: of the embedded one all weights are trained",
    )
    refuse(
        not config.think and bool(learned & {"sft:thoughts", "sft:expert"}),
        "--no-think: an arm learns thoughts that it could not use; choose others by --arms",
    )
    refuse(
        not world and not (config.demos and config.held_out > 1 and not embedded),
        "without a --world there must be --demos, a --model and --held-out 2 or more",
    )
    refuse(not world and plays, "rl and synth need a --world to play")
    refuse(
        config.relabel.keep > config.relabel.group,
        "--relabel.keep is larger than --relabel.group: sample at least as many as you keep",
    )
    refuse(
        config.temperature <= 0,
        "--temperature must be above 0 in training: a greedy group has no variance",
    )


def _check_act_prm(act_prm: ActPRM) -> None:
    refuse(
        act_prm.scored_by == "base" and act_prm.reward == "exact_match",
        "--act-prm.scored-by base with exact_match: the policy writes the action; use policy",
    )
    refuse(
        act_prm.thoughts_from == "state" and act_prm.trained_on == "action_first",
        "--act-prm.trained-on action_first needs --act-prm.thoughts-from state_action",
    )
    natural_order = act_prm.trained_on in ("thought_action", "thought")
    looks_back = act_prm.kl > 0 or act_prm.correction != "none" or act_prm.loss != "pg"
    refuse(
        act_prm.thoughts_from == "state_action" and natural_order and looks_back,
        "--act-prm.kl, .correction and every .loss but pg compare with how a token was sampled; "
        "with --act-prm.thoughts-from state_action that is trained on by --act-prm.trained-on both",
    )
    refuse(
        act_prm.thoughts_from == "state_action"
        and act_prm.trained_on in ("thought_action", "thought")
        and act_prm.correction != "none",
        "--act-prm.correction with thoughts-from state_action: such a thought was drawn after"
        " another prompt than it is trained after; use trained-on action_first or both",
    )
    refuse(
        act_prm.continues == "resample" and act_prm.advantage not in ("posterior", "none"),
        "--act-prm.continues resample weighs by survival: --act-prm.advantage posterior",
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


def _check_training(name: str, stage: Training) -> None:
    """What every stage has that takes gradient steps; SFT has no groups and no sampler."""
    if name == "sft":
        refuse(
            stage.kl > 0 or stage.kl_to == "sampler" or stage.correction != "none",
            "--sft.kl, --sft.kl-to sampler and --sft.correction: nobody sampled the demos",
        )
    else:
        refuse(
            stage.group < 2 and stage.advantage in CENTRED,
            f"--{name}.group 1 with {stage.advantage}: a group of one has no signal",
        )
    refuse(
        stage.kl_target > 0 and not stage.kl,
        f"--{name}.kl-target adapts the weight --{name}.kl, which has to start above 0",
    )
    refuse(
        stage.kl_to == "sampler" and stage.correction != "none",
        "--*.kl-to sampler with --*.correction, which forgets what the sampler found: use one",
    )
    ahead = getattr(stage, "max_async_level", 0)
    refuse(
        stage.kl_to == "sampler" and not (stage.kl > 0 and (stage.passes > 1 or ahead)),
        f"--{name}.kl-to sampler does nothing where the weights that sampled are those that learn: "
        f"it needs --{name}.kl above 0 and --{name}.passes above 1, or batches played ahead",
    )


def _value(argv: list[str], flag: str) -> str:
    """The value of a flag that has to be known before the others are read; the last one counts."""
    pairs = [*pairwise(argv), *(arg.split("=", 1) for arg in argv if "=" in arg)]
    for key, value in reversed(pairs):
        if key == flag:
            return value
    return ""


def _toml_flags(path: str) -> list[str]:
    """The knobs of a TOML file as flags, so that one parser checks both."""
    if not path:
        return []
    try:
        with open(path, "rb") as file:
            table = tomllib.load(file)
    except OSError as error:
        fail(f"--config {path}: {error.strerror}")
    except tomllib.TOMLDecodeError as error:
        fail(f"--config {path} is not TOML: {error}")
    return as_flags(table)


def as_flags(table: dict) -> list[str]:
    """Knobs of a file as flags.

    >>> as_flags({"gate": False, "seeds": [4, 5], "act-prm": {"lr": 0.5}})
    ['--no-gate', '--seeds', '4', '5', '--act-prm.lr', '0.5']
    """
    flags = []
    for knob, value in flat(table):
        flag = f"--{knob.replace('_', '-')}"
        if value is False:
            flags.append(re.sub(r"([^.-][^.]*)$", r"no-\1", flag))  # --act-prm.no-decay
        elif value is True:
            flags.append(flag)
        elif isinstance(value, list):
            flags += [flag, *map(str, value)]
        else:
            flags += [flag, str(value)]
    return flags
