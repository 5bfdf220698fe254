"""The command line: flags over TOML over preset. What cannot be meant ends in one sentence."""

import contextlib
import io
import re
import tomllib
from copy import deepcopy
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import tyro
from loguru import logger

from minprm.commands.checks import called_here, check, refuse
from minprm.commands.effects import check_effects
from minprm.commands.knobs import flag, short_help
from minprm.commands.presets import PRESETS
from minprm.constants import Config, fail, flat, refusal
from minprm.envs import WORLDS
from minprm.load.names import holds_adapters

Flags = TypeVar("Flags")  # a dataclass of flags
NEGATION = re.compile(r"(^|\.)no_")  # rl.no_backfill
# Flags of `minprm train` in earlier versions, and what to do without them.
GONE = {
    "tiny.layers": "the embedded model has two layers: leave it out",
    "tiny.head_dim": "the heads of the embedded model are 32 wide: leave it out",
    "tiny.rope_theta": "the embedded model has 1000: leave it out",
    "act_prm.kl_to": "the KL of Act-PRM is to the base model: leave it out",
    "processes": "--dry-run measures one process; how many share a run torchrun says",
    "track": "wandb sync --sync-tensorboard runs/RUN/tensorboard, or another reader of these files",
    "relabel.keep": "each step has the best of its thoughts: leave it out",
    "keep_episodes": "a report has 40 of an arm; minprm evaluate --transcripts FILE writes all",
    "history.first": "the first observation always stays: leave it out",
    "act_prm.kl_target": "--act-prm.kl stays as it is: leave it out",
    "act_prm.entropy": "Act-PRM has no such bonus: leave it out",
    "act_prm.correction": "--act-prm.loss is (or cispo) takes the ratio to the sampler",
    "act_prm.length_penalty": "a reward of your own can read the thought, FILE.py:NAME",
    "rl.value_weight": "the critic's loss counts half: leave it out",
}
for _knob in ("heads", "ffn", "init", "lr"):
    GONE[f"tiny.{_knob}"] = "it follows from the width: leave it out, or give another --tiny.dim"
for _stage in ("sft", "act_prm", "rl"):
    for _knob in ("warmup", "decay", "passes", "aggregation", "max_grad_norm"):
        GONE[f"{_stage}.{_knob}"] = f"give {flag('optim.' + _knob)}, one for all stages"
for _stage in ("act_prm", "rl"):
    GONE[f"{_stage}.top_k"] = "top_k counts the two best: leave it out, or name a FILE.py:NAME"
for _knob in ("loss", "kl", "kl_to", "kl_target", "entropy", "correction"):
    GONE[f"sft.{_knob}"] = "it is about sampled tokens, and nobody sampled the demos: leave it out"
GONE["sft.decay"] = "the learning rate of SFT always decays: leave it out"
# Flags of other projects that are not here, and why.
LEFT_OUT = {
    **dict.fromkeys(
        ("top-p", "top-k", "min-p", "min-length", "repetition-penalty"),
        "the loss holds for tokens of the whole vocabulary, drawn at --temperature",
    ),
    **dict.fromkeys(
        ("load-in-4bit", "load-in-8bit"),
        "weights are fp32 or bf16: leave it out; --lora 32 takes less memory",
    ),
    "output-dir": "runs/ and checkpoints/ lie where the command starts; a symbolic link moves them",
    "teacher": "there is no second model to learn from; TRL and PRIME-RL have one",
}


def parse(argv: list[str]) -> Config:
    """The configuration that the flags mean. Exits with one sentence where they mean none.

    >>> parse(["--preset", "smoke", "--act-prm.reward", "exact_match"]).act_prm.reward
    'exact_match'
    """
    chosen_knobs = given_knobs(argv)
    from_files = _toml_flags(argv)
    chosen_knobs |= given_knobs(from_files)
    config = configuration(from_files + argv)
    for knob in ("stages", "config"):
        names = getattr(config, knob)
        nothing = knob in chosen_knobs and not (names and all(names))
        refuse(nothing, f"--{knob} names nothing: name one or more, or leave it out")
    check_effects(config, chosen_knobs, PRESETS[config.preset])
    return config


def configuration(flags: list[str]) -> Config:
    """The configuration of these flags, checked. Whether each of them has an effect is not asked:
    the config.json of a run names every knob."""
    preset = deepcopy(PRESETS.get(_setting(flags, "--preset"), PRESETS["cups"]))
    _forget_other(preset, flags)
    if {"-h", "--help"} & {*flags}:
        print(short_help(preset))
        raise SystemExit
    flags = ["--help" if word == "--help-all" else word for word in flags]
    config = read_flags(Config, flags, "minprm train", default=preset)
    check(config)
    return config


def _forget_other(preset: Config, flags: list[str]) -> None:
    """Takes out of a preset what it says of its own world and its own model, where the flags name
    another one: nobody has asked for that."""
    if _setting(flags, "--world") not in ("", preset.world):
        preset.world_args = []
        preset.tiny.mixture = []
    model = _setting(flags, "--model")
    if _setting(flags, "--agent") and (model or preset.model) != "tiny":
        preset.world = ""  # the agent plays in its place
        preset.world_args = []
    if model and holds_adapters(model):
        preset.lora = 0  # that of the adapters


def read_known_flags(schema: type[Flags], argv: list[str], program: str) -> tuple[Flags, list[str]]:
    """What `read_flags` makes of the flags that the schema knows; and the others."""
    both: Any = read_flags(schema, argv, program, return_unknown_args=True)
    return both


def read_flags(schema: type[Flags], argv: list[str], program: str, **knobs: Any) -> Flags:
    """An instance of the dataclass `schema` from flags. knobs: tyro's, which reads them.

    tyro draws its complaints as a box of several lines; here they end in one sentence.
    """
    box = io.StringIO()
    try:
        with contextlib.redirect_stderr(box):
            return tyro.cli(schema, args=argv, prog=program, **knobs)
    except SystemExit as stop:
        if not stop.code:  # --help
            raise
    fail(f"{_sentence(box.getvalue())} ({program} --help tells more)")


def _sentence(box: str) -> str:
    """What a box says: its first paragraph, and the flags that may have been meant."""
    paragraphs = [[]]
    for line in box.splitlines()[1:]:
        text = line.strip("│|╭╮╰╯+ ")  # drawn in ASCII where the terminal knows no more
        if text.strip("─-"):
            paragraphs[-1].append(text)
        elif paragraphs[-1]:
            paragraphs.append([])
    complaint = " ".join(paragraphs[0])
    if complaint.startswith("Unrecognized options:"):
        for name in re.findall(r"--([\w-]+)", complaint):
            reason = LEFT_OUT.get(name.replace("_", "-"))
            if reason:
                return f"--{name} is not here: {reason}"
    for title, *lines in paragraphs[1:-1]:
        if title == "Perhaps you meant:":
            flags = re.findall(r"(?:^|, )(--[\w.-]+)", "\n".join(lines), re.MULTILINE)
            complaint += f"; perhaps you meant {' or '.join(flags)}"
    if re.search(r"^Unrecognized options: (true|false)$", complaint, re.IGNORECASE):
        complaint += "; a switch takes no word: --gate, or --no-gate"
    if re.search(r"\['\d+,", complaint):
        complaint += "; several numbers have a space between them"
    if re.search(rf"^Unrecognized options: ({'|'.join(WORLDS)})\b", complaint):
        complaint += '; several worlds are --world mixed --world-args "worlds=cups, errand"'
    choice = re.match(r"invalid choice '([\w-]+)' for argument '--(rl|act-prm)\.loss'", complaint)
    ours = called_here(choice[1]) if choice else None
    if choice and ours:
        complaint += f" {choice[1]} is --{choice[2]}.{ours} here"
    return complaint


def given_knobs(argv: list[str], gone: dict[str, str] = GONE) -> set[str]:
    """The knobs that these flags set. Exits where one is gone, or is set twice, since one of the
    two would be ignored. gone: what to do without the flags that a command had once.

    >>> sorted(given_knobs(["--seeds", "0", "1", "--rl.no-backfill", "--rl.lr=1e-3"]))
    ['rl.backfill', 'rl.lr', 'seeds']
    """
    knobs = set()
    for word in argv:
        if not word.startswith("--"):
            continue
        knob = word.split("=")[0].removeprefix("--").replace("-", "_")
        knob = NEGATION.sub(r"\1", knob)
        refuse(knob in knobs, f"{flag(knob)} is given twice")
        refuse(knob in gone, f"{flag(knob)} is gone: {gone.get(knob)}")
        knobs.add(knob)
    return knobs


def _setting(argv: list[str], name: str) -> str:
    """The value of a flag that has to be known before the others are read; the last one counts."""
    pairs = [*pairwise(argv), *(arg.split("=", 1) for arg in argv if "=" in arg)]
    for key, setting in reversed(pairs):
        if key == name:
            return setting
    return ""


def _toml_flags(argv: list[str]) -> list[str]:
    """The knobs of the files of --config as flags, so that one parser checks both. Where two files
    have a knob, the later one counts."""
    knobs: dict[str, object] = {}
    is_path = False
    for word in argv:
        name, _, path = word.partition("=")
        if word.startswith("--"):
            is_path = name == "--config"
        else:
            path = word
        if is_path and path:
            newer = _toml(path)
            knobs = _that_remain(knobs, newer) | newer
    settings = {knob: _setting(argv, flag(knob)) for knob in given_knobs(argv)}
    knobs = _that_remain(knobs, settings)
    if "world_args" in knobs and "world_args" in settings:
        _, *texts = as_flags({"world_args": knobs["world_args"]})
        if not {*texts} <= {word.removeprefix("--world-args=") for word in argv}:
            logger.info(f"--world-args replaces all that --config has: {' '.join(texts)}")
    return as_flags(knobs)


def _that_remain(knobs: dict[str, object], newer: dict) -> dict[str, object]:
    """The knobs without those that only belong to what newer ones replace: arms and stages are two
    ways to say what is run, and the knobs of a world or of the embedded model are no other's."""
    replaced = set()
    if "stages" in newer:
        replaced.add("arms")
    if "arms" in newer:
        replaced.add("stages")
    if "world" in knobs and newer.get("world", knobs["world"]) != knobs["world"]:
        replaced.add("world_args")
    preset = PRESETS.get(str(newer.get("preset")), Config())
    if newer.get("model", preset.model) != "tiny":
        replaced |= {"gate", *(knob for knob in knobs if knob.startswith("tiny."))}
    return {knob: setting for knob, setting in knobs.items() if knob not in replaced}


def _toml(path: str) -> dict[str, object]:
    """The knobs of a file, one by one."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")  # an editor may put a mark before it
        settings = [*flat(tomllib.loads(text))]
    except OSError as error:
        fail(f"--config {path}: {error.strerror}")
    except (ValueError, RecursionError) as error:  # no TOML, no UTF-8, or nested too deeply
        fail(f"--config {path} is not TOML: {error}")
    ours = dict(flat(asdict(Config())))
    knobs = {}
    for key, setting in settings:
        name = key.replace("-", "_")
        positive = NEGATION.sub(r"\1", name)
        negated = positive != name and isinstance(ours.get(positive), bool)
        name = positive if negated else name
        refuse(name in knobs, f"--config {path} names {name} twice")
        place = f"--config {path}: {key}"
        if name in ours:
            switch, switched = isinstance(ours[name], bool), isinstance(setting, bool)
            refuse(switch and not switched, f"{place} is true or false, and not {setting!r}")
            refuse(switched and not switch, f"{place} takes a value, and not true or false")
            several = isinstance(setting, list) and len(setting) != 1
            refuse(
                several and not isinstance(ours[name], list),
                f"{place} takes one value, and not {setting!r}",
            )
        knobs[name] = not setting if negated else setting
    refuse("config" in knobs, f"--config {path} names another config: give both, --config A B")
    flags = as_flags(knobs)
    sentence = refusal(given_knobs, flags) or refusal(read_flags, Config, flags, "minprm train")
    refuse(sentence, f"--config {path}: {sentence}")
    return knobs


def as_flags(knobs: dict) -> list[str]:
    """Knobs of a file as flags.

    >>> as_flags({"gate": False, "seeds": [4, 5], "act-prm": {"lr": 0.5}})
    ['--no-gate', '--seeds', '4', '5', '--act-prm.lr', '0.5']
    """
    flags = []
    for knob, setting in flat(knobs):
        name = flag(knob)
        if setting is False:
            flags.append(re.sub(r"([^.-][^.]*)$", r"no-\1", name))  # --rl.no-backfill
        elif setting is True:
            flags.append(name)
        elif isinstance(setting, list):
            flags += [name, *map(str, setting)]
        elif str(setting).startswith("-"):  # a text that would be read as a flag
            flags.append(f"{name}={setting}")
        else:
            flags += [name, str(setting)]
    return flags


def differences(before: dict, now: dict) -> list[tuple[str, str]]:
    """(flag, flag) of each knob of `before` that has another value now.

    >>> differences({"think": True, "context": 9}, {"think": False, "context": 9})
    [('--think', '--no-think')]
    """
    settings = dict(flat(now))
    pairs = []
    for knob, setting in flat(before):
        if settings[knob] != setting:
            old = " ".join(as_flags({knob: setting}))
            new = " ".join(as_flags({knob: settings[knob]}))
            pairs.append((old, new))
    return pairs
