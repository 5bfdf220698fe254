"""The command line: flags over TOML over preset, and every refusal in one sentence."""

import contextlib
import io
import re
import tomllib
from copy import deepcopy
from dataclasses import asdict
from itertools import pairwise

import tyro

from minprm.constants import ARMS, PRESETS, Config, arms_of, fail, flat

POSITIVE = (
    "batch", "group", "keep", "updates", "epochs", "passes", "episodes", "num_demos",
    "eval_every", "save_every", "thought_tokens", "action_tokens", "micro_tokens", "context",
)  # fmt: skip


def parse(argv: list[str]) -> Config:
    """Flags over TOML over preset. Exits with one sentence and code 2 on anything it cannot mean.

    >>> parse(["--preset", "smoke", "--act-prm.reward", "exact_match"]).act_prm.reward
    'exact_match'
    """
    flags = _toml_flags(_value(argv, "--config")) + argv
    preset = PRESETS.get(_value(flags, "--preset") or "cups", PRESETS["cups"])
    config = read_flags(Config, flags, "train.py", default=deepcopy(preset))
    check(config)
    return config


def check(config: Config) -> None:
    """Refuses what does not exist and what cannot work together, in one sentence."""
    stages = sorted({stage for arm in ARMS.values() for stage in arm} | {"demos", "synth"})
    for arm in config.arms:
        if arm not in ARMS:
            fail(f"--arms {arm}: no such arm. Arms: {', '.join(ARMS)}")
    for stage in config.stages:
        if stage not in stages:
            fail(f"--stages {stage}: no such stage. Stages: {', '.join(stages)}")
    if "demos" in config.stages and (config.stages != ["demos"] or not config.world):
        fail("--stages demos writes a --world's expert logs, and stands alone")
    for knob, value in flat(asdict(config)):
        if knob.split(".")[-1] in POSITIVE and value < 1:
            fail(f"--{knob.replace('_', '-')} {value}: must be at least 1")
    if not config.world and not (config.demos and config.held_out and config.model != "babble"):
        fail("without a --world there must be --demos, a --model and --held-out demos")
    plays = {"rl", "synth"}
    if not config.world and any(
        stage.split(":")[0] in plays for arm in arms_of(config).values() for stage in arm
    ):
        fail("rl and synth need a --world to play")
    act, rl = config.act_prm, config.rl
    centred = ("mean", "mean_std", "asym_clip", "rloo", "opo")
    if act.scored_by == "base" and act.reward == "exact_match":
        fail("--act-prm.scored-by base with exact_match: the policy writes the action; use policy")
    if act.thoughts_from == "state" and act.trained_on == "action_first":
        fail("--act-prm.trained-on action_first needs --act-prm.thoughts-from state_action")
    for name, stage in (("act-prm", act), ("rl", rl)):
        if stage.group < 2 and stage.advantage in centred:
            fail(f"--{name}.group 1 with {stage.advantage}: a group of one has no signal")
    if rl.group < 2 and (rl.groups != "all" or rl.backfill):
        fail("--rl.groups and --rl.backfill choose groups by their variance: --rl.group 2 or more")
    for name, stage in (("sft", config.sft), ("act-prm", act), ("rl", rl)):
        if stage.kl_target and not stage.kl:
            fail(f"--{name}.kl-target adapts the weight --{name}.kl, which has to start above 0")
    if config.sft.kl_to == "sampler" or config.sft.correction != "none":
        fail("--sft.kl-to sampler and --sft.correction: nobody sampled the demos")
    if rl.format_penalty and rl.advantage == "posterior":
        fail("--rl.format-penalty with posterior: its weights are shares of rewards above 0")
    if rl.max_async_level < 0:
        fail(f"--rl.max-async-level {rl.max_async_level}: must be at least 0")
    if rl.max_async_level and config.engine.sleep:
        fail("--engine.sleep with --rl.max-async-level: an engine that plays ahead never sleeps")
    if act.continues == "resample" and act.advantage not in ("posterior", "none"):
        fail("--act-prm.continues resample weighs by survival: --act-prm.advantage posterior")
    if config.relabel.keep > config.relabel.group:
        fail("--relabel.keep is larger than --relabel.group: sample at least as many as you keep")
    if config.temperature <= 0:
        fail("--temperature must be above 0 in training: a greedy group has no variance")


def read_flags(schema: type, argv: list[str], program: str, **default):
    """An instance of `schema` from flags; tyro's complaint, boxed over lines, in one sentence."""
    box = io.StringIO()
    try:
        with contextlib.redirect_stderr(box):
            return tyro.cli(schema, args=argv, prog=program, **default)
    except SystemExit as stop:
        if not stop.code:  # --help
            raise
    lines = [line.strip("│╭╮╰╯─ ") for line in box.getvalue().splitlines()[1:]]
    sentence = " ".join(lines[: lines.index("")] if "" in lines else lines)
    fail(f"{sentence} (python {program} --help lists every flag)")


def _value(argv: list[str], flag: str) -> str:
    """The value of a flag that has to be known before the others are read."""
    pairs = [*pairwise(argv), *(arg.split("=", 1) for arg in argv if "=" in arg)]
    return next((value for key, value in reversed(pairs) if key == flag), "")


def _toml_flags(path: str) -> list[str]:
    if not path:
        return []
    try:
        with open(path, "rb") as file:
            table = tomllib.load(file)
    except OSError as error:
        fail(f"--config {path}: {error.strerror}")
    except tomllib.TOMLDecodeError as error:
        fail(f"--config {path} is not TOML: {error}")
    flags = []
    for knob, value in flat(table):  # as flags, so that one parser checks both
        flag = f"--{knob.replace('_', '-')}"
        if isinstance(value, bool):
            flags.append(flag if value else re.sub(r"([^.-][^.]*)$", r"no-\1", flag))
        else:
            flags += [flag, *(str(x) for x in (value if isinstance(value, list) else [value]))]
    return flags
