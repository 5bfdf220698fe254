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
    "top_k",
)  # fmt: skip
SHARES = ("gamma", "lam", "top_p")
CENTRED = ("mean", "mean_std", "asym_clip", "rloo", "opo")


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
    for knob, value in flat(asdict(config)):
        name, flag = knob.split(".")[-1], f"--{knob.replace('_', '-')} {value}"
        if isinstance(value, int | float) and value < (least := int(name in POSITIVE)):
            fail(f"{flag}: must be at least {least}")
        if name in SHARES and value > 1:
            fail(f"{flag}: must be at most 1")
    for impossible, sentence in _clashes(config):
        if impossible:
            fail(sentence)


def _clashes(config: Config) -> list[tuple[bool, str]]:
    """(is it so?, why it cannot work and the way out)."""
    act, rl, sft, world = config.act_prm, config.rl, config.sft, bool(config.world)
    learned = {stage for arm in arms_of(config).values() for stage in arm}
    embedded = config.model == "babble"
    trained = (("sft", sft), ("act-prm", act), ("rl", rl))
    return [
        ("demos" in config.stages and (config.stages != ["demos"] or not world),
         "--stages demos writes a --world's expert logs, and stands alone"),
        (not config.seeds or min(config.seeds) < 0 or not (config.arms or config.stages),
         "--seeds and --arms name at least one each, and no seed is below 0"),
        (config.lora > 0 and embedded,
         "--lora is for a --model: of the embedded one all weights are trained"),
        (not config.think and bool(learned & {"sft:thoughts", "sft:expert"}),
         "--no-think: an arm learns thoughts that it could not use; choose others by --arms"),
        (not world and not (config.demos and config.held_out and not embedded),
         "without a --world there must be --demos, a --model and --held-out demos"),
        (not world and any(stage.split(":")[0] in ("rl", "synth") for stage in learned),
         "rl and synth need a --world to play"),
        (act.scored_by == "base" and act.reward == "exact_match",
         "--act-prm.scored-by base with exact_match: the policy writes the action; use policy"),
        (act.thoughts_from == "state" and act.trained_on == "action_first",
         "--act-prm.trained-on action_first needs --act-prm.thoughts-from state_action"),
        *((stage.group < 2 and stage.advantage in CENTRED,
           f"--{name}.group 1 with {stage.advantage}: a group of one has no signal")
          for name, stage in trained[1:]),
        (rl.group < 2 and (rl.groups != "all" or rl.backfill),
         "--rl.groups and --rl.backfill choose groups by their variance: --rl.group 2 or more"),
        *((stage.kl_target > 0 and not stage.kl,
           f"--{name}.kl-target adapts the weight --{name}.kl, which has to start above 0")
          for name, stage in trained),
        (sft.kl_to == "sampler" or sft.correction != "none",
         "--sft.kl-to sampler and --sft.correction: nobody sampled the demos"),
        (any(x.kl_to == "sampler" and x.correction != "none" for x in (act, rl)),
         "--*.kl-to sampler with --*.correction, which forgets what the sampler found: use one"),
        (rl.format_penalty > 0 and rl.advantage == "posterior",
         "--rl.format-penalty with posterior: its weights are shares of rewards above 0"),
        (rl.max_async_level > 0 and config.engine.sleep,
         "--engine.sleep with --rl.max-async-level: an engine that plays ahead never sleeps"),
        (act.continues == "resample" and act.advantage not in ("posterior", "none"),
         "--act-prm.continues resample weighs by survival: --act-prm.advantage posterior"),
        (config.relabel.keep > config.relabel.group,
         "--relabel.keep is larger than --relabel.group: sample at least as many as you keep"),
        (config.temperature <= 0,
         "--temperature must be above 0 in training: a greedy group has no variance"),
    ]  # fmt: skip


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
