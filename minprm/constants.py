"""Every knob, its default, one line of meaning; presets, arms, and the command line made from them.

A choice is a string here and a pure function in `algorithms.py`; a test keeps the two in step.
"""

import contextlib
import io
import re
import sys
import tomllib
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from itertools import pairwise
from typing import Literal, NoReturn

import tyro

Advantage = Literal["posterior", "mean", "mean_std", "rloo", "best", "top_k", "none"]
Reward = Literal["action_prob", "action_prob_mean", "exact_match"]
TrainedOn = Literal["thought_action", "thought", "action_first", "both"]
Loss = Literal["pg", "is", "ppo_clip"]
Aggregation = Literal["token", "sequence"]

# An arm is a list of stages; each arm starts from the same base model. What each shows: README.
ARMS: dict[str, list[str]] = {
    "base": [],
    "action_sft": ["sft:actions"],
    "base_thoughts": ["sample", "sft:thoughts"],
    "best_of_base": ["relabel", "sft:thoughts"],
    "best_of_base_matched": ["relabel:matched", "sft:thoughts"],
    "act_prm": ["act_prm", "relabel", "sft:thoughts"],
    "best_of_base_resampled": ["relabel:resample", "sft:thoughts"],
    "act_prm_resampled": ["act_prm:resample", "relabel:resample", "sft:thoughts"],
    "expert_thoughts": ["sft:expert"],
    "shuffled_thoughts": ["act_prm", "relabel", "shuffle", "sft:thoughts"],
    "copied_actions": ["copy", "sft:thoughts"],
    "rl": ["rl"],
    "rl_dense": ["rl:dense"],
    "act_prm_rl": ["act_prm", "relabel", "sft:thoughts", "rl:finetune"],
}


@dataclass
class Babble:
    """The embedded model: a tiny Qwen3 raised from scratch on narrated random play."""

    dim: int = 64  # width of the residual stream
    layers: int = 2  # transformer blocks
    heads: int = 4  # attention heads (as many key-value heads)
    head_dim: int = 32  # width of a head; 16 does not learn to track in 600 updates
    ffn: int = 192  # width of the feed-forward layer
    rope_theta: float = 1000.0  # base of the rotary positions
    init: float = 0.08  # standard deviation of the initial weights
    lr: float = 3e-3  # AdamW learning rate, linear decay to zero after the warm-up
    updates: int = 600  # updates of pre-training
    batch: int = 16  # episodes an update
    act_only: float = 0.2  # share of episodes played without thoughts, at random
    action_first: float = 0.0  # share of episodes with turns in either order
    mixture: list[str] = field(default_factory=list)  # kinds of thought, bare=0.5; none: world's


@dataclass
class Training:
    """What every stage that takes gradient steps has."""

    lr: float = 1e-3  # AdamW learning rate
    warmup: int = 5  # updates of linear warm-up
    decay: bool = False  # linear decay of the learning rate to zero after the warm-up
    batch: int = 8  # tasks or demos an update
    loss: Loss = "pg"  # per-token loss
    aggregation: Aggregation = "token"  # how token losses are averaged
    max_grad_norm: float = 1.0  # gradients are clipped to this norm
    kl: float = 0.0  # weight of the KL to the base model (estimator k3)


@dataclass
class SFT(Training):
    """Supervised fine-tuning of a fresh copy of the base model."""

    decay: bool = True  # linear decay of the learning rate to zero after the warm-up
    batch: int = 16  # demos an update
    epochs: int = 5  # passes over the demos


@dataclass
class ActPRM(Training):
    """Thoughts for action-only logs: sample, reward by the expert's action, reinforce."""

    lr: float = 3e-4  # AdamW learning rate
    updates: int = 40  # updates; each walks `batch` demos from start to end
    group: int = 8  # G: thoughts sampled for each logged step
    thoughts_from: Literal["state", "state_action"] = "state"  # is the action shown as a hint
    reward: Reward = "action_prob"  # of a thought: how well it predicts the expert's action
    reward_span: Literal["action", "turn"] = "action"  # tokens the reward reads: turn adds its tags
    advantage: Advantage = "posterior"  # of a thought in its group
    top_k: int = 2  # k of the advantage top_k
    trained_on: TrainedOn = "thought_action"  # tokens that learn; both: in both orders
    continues: Literal["best", "own", "resample"] = "best"  # which thought the next step sees
    scored_by: Literal["policy", "base"] = "policy"  # whose probability is the reward
    length_penalty: float = 0.0  # reward is multiplied by exp(-penalty * thought tokens)
    eval_every: int = 5  # updates between held-out rewards
    patience: int = 0  # stop after so many held-out rewards without a new best; 0: never


@dataclass
class Relabel:
    """Writes the best thoughts of the current policy into the log, by Act-PRM's own reward."""

    group: int = 4  # thoughts sampled for each logged step
    keep: int = 1  # best thoughts kept for each step, each in its own copy of the demo
    min_reward: float = 0.0  # demos with a thought below this reward are left out


@dataclass
class RL(Training):
    """REINFORCE or GRPO with the world's reward."""

    lr: float = 5e-4  # AdamW learning rate
    finetune_lr: float = 2e-4  # the same where RL starts from a fine-tuned model (rl:finetune)
    updates: int = 20  # updates; each plays `batch` tasks `group` times
    group: int = 8  # G: episodes of one task, with the task's seed and their own noise
    advantage: Advantage = "mean_std"  # of an episode (or a step) in its group
    top_k: int = 2  # k of the advantage top_k
    gamma: float = 1.0  # discount a turn, where each step has its own reward (rl:dense)


@dataclass
class Engine:
    """vLLM, which writes the tokens of larger models on the GPU that trains them."""

    memory: float = 0.35  # share of the GPU's memory, weights included
    sleep: bool = False  # free the engine's memory during updates
    max_gap: float = 0.1  # stop where mean |log-prob of sampler - of trainer| is above; nats


@dataclass
class Config:
    """Trains the arms of a ladder on one world, evaluates each by playing, and prints the table."""

    preset: Literal["cups", "smoke", "errand", "logs"] = "cups"  # defaults to start from
    config: str = ""  # TOML file with the same knobs; flags override it
    run: str = ""  # name of the run; default: preset and time
    dry_run: bool = False  # print parameters, memory and the first sample, and stop
    resume: bool = False  # go on with --run (default: the newest) where it stopped
    arms: list[str] = field(default_factory=lambda: list(ARMS))  # arms of the ladder (README)
    stages: list[str] = field(default_factory=list)  # instead of arms: one unnamed arm's stages
    seeds: list[int] = field(default_factory=lambda: [0])  # one ladder a seed
    world: str = "cups"  # name of a world in minprm/envs; none: replay held-out logs instead
    world_args: list[str] = field(default_factory=list)  # its knobs, e.g. rounds=1 swaps=5
    model: str = "babble"  # hub id or path of a chat model; babble: the embedded one
    sampler: Literal["auto", "vllm", "transformers"] = "auto"  # auto: vllm if there is a GPU
    lora: int = 0  # rank of LoRA adapters; 0: all weights are trained
    checkpointing: bool = False  # compute activations anew for the gradient: less memory
    gate: bool = True  # stop where the embedded model lacks the world's skills
    layout: Literal["auto", "tags", "think", "tool"] = "auto"  # what ends a thought (chat.py)
    actions_only: bool = False  # drop the thoughts that the demos hold
    demos: str = ""  # JSONL of demos; default: the world's expert plays
    num_demos: int = 128  # demos to learn from
    held_out: int = 16  # further demos, for the held-out reward
    episodes: int = 400  # evaluation episodes an arm
    split: Literal["test", "validation"] = "test"  # evaluation tasks; choose on validation
    temperature: float = 1.0  # of everything sampled for training
    eval_temperature: float = 0.0  # of evaluation; 0: greedy
    thought_tokens: int = 32  # a longer thought is cut and earns nothing
    action_tokens: int = 8  # longest action, its tags included
    context: int = (
        4096  # longest prompt with its answer; what outgrows it is cut there, and counted
    )
    micro_tokens: int = 16384  # tokens of one forward pass, padding included
    save_every: int = 5  # updates between snapshots for --resume
    threads: int = 0  # CPU threads; 0: torch's choice
    babble: Babble = field(default_factory=Babble)
    sft: SFT = field(default_factory=SFT)
    act_prm: ActPRM = field(default_factory=ActPRM)
    relabel: Relabel = field(default_factory=Relabel)
    rl: RL = field(default_factory=RL)
    engine: Engine = field(default_factory=Engine)


PRESETS = {
    "cups": Config(),
    "smoke": Config(
        preset="smoke",
        arms=["base", "act_prm"],
        world_args=["rounds=1", "swaps=3"],
        num_demos=256,
        episodes=200,
        babble=Babble(batch=32, updates=400),
        sft=SFT(batch=32),
        act_prm=ActPRM(batch=32, updates=15, lr=5e-4),
    ),
    "errand": Config(
        preset="errand",
        world="errand",
        thought_tokens=12,
        babble=Babble(updates=1500, batch=8, act_only=0.1),
        act_prm=ActPRM(group=16, updates=30, scored_by="base"),
        relabel=Relabel(group=16, min_reward=0.9),
    ),
    # For a chat model and a person's own logs. Not run on a GPU yet. action_prob_mean, because a
    # product over forty tokens makes the posterior one-hot.
    "logs": Config(
        preset="logs",
        arms=["base", "action_sft", "best_of_base", "act_prm"],
        world="",
        model="Qwen/Qwen3-4B-Instruct-2507",
        lora=32,
        checkpointing=True,
        thought_tokens=512,
        action_tokens=256,
        eval_temperature=0.7,
        sft=SFT(lr=1e-4, epochs=2),
        act_prm=ActPRM(
            lr=4e-5,
            batch=16,
            reward="action_prob_mean",
            advantage="mean_std",
            trained_on="thought",
            patience=4,
        ),
    ),
}

POSITIVE = ("batch", "group", "keep", "updates", "epochs", "episodes", "num_demos", "eval_every",
            "save_every", "thought_tokens", "action_tokens", "micro_tokens", "context")  # fmt: skip


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


def arms_of(config: Config) -> dict[str, list[str]]:
    """The arms to run and their stages, by name; --stages is one unnamed arm."""
    if config.stages:
        return {"stages": config.stages}
    return {arm: ARMS[arm] for arm in config.arms}


def check(config: Config) -> None:
    """Refuses what does not exist and what cannot work together, in one sentence."""
    stages = sorted({stage for arm in ARMS.values() for stage in arm})
    for arm in config.arms:
        if arm not in ARMS:
            fail(f"--arms {arm}: no such arm. Arms: {', '.join(ARMS)}")
    for stage in config.stages:
        if stage not in stages:
            fail(f"--stages {stage}: no such stage. Stages: {', '.join(stages)}")
    for knob, value in flat(asdict(config)):
        if knob.split(".")[-1] in POSITIVE and value < 1:
            fail(f"--{knob.replace('_', '-')} {value}: must be at least 1")
    if not config.world and not (config.demos and config.held_out and config.model != "babble"):
        fail("without a --world there must be --demos, a --model and --held-out demos")
    if not config.world and any("rl" in stage for arm in arms_of(config).values() for stage in arm):
        fail("an arm with rl needs a --world to play")
    act, rl = config.act_prm, config.rl
    centred = ("mean", "mean_std", "rloo")
    if act.scored_by == "base" and act.reward == "exact_match":
        fail("--act-prm.scored-by base with exact_match: the policy writes the action; use policy")
    if act.thoughts_from == "state" and act.trained_on == "action_first":
        fail("--act-prm.trained-on action_first needs --act-prm.thoughts-from state_action")
    for name, stage in (("act-prm", act), ("rl", rl)):
        if stage.group < 2 and stage.advantage in centred:
            fail(f"--{name}.group 1 with {stage.advantage}: a group of one has no signal")
    if act.continues == "resample" and act.advantage not in ("posterior", "none"):
        fail("--act-prm.continues resample weighs by survival: --act-prm.advantage posterior")
    if config.relabel.keep > config.relabel.group:
        fail("--relabel.keep is larger than --relabel.group: sample at least as many as you keep")
    if config.temperature <= 0:
        fail("--temperature must be above 0 in training: a greedy group has no variance")


def flat(knobs: dict, prefix: str = "") -> Iterator[tuple[str, object]]:
    """A nested dict of knobs, one by one.

    >>> list(flat({"run": "", "sft": {"lr": 0.001}}))
    [('run', ''), ('sft.lr', 0.001)]
    """
    for key, value in knobs.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def pairs(texts: list[str], number: type) -> dict:
    """`name=value` texts as a dict of numbers.

    >>> pairs(["rounds=1", "swaps=5"], int)
    {'rounds': 1, 'swaps': 5}
    """
    try:
        return {k: number(v) for k, v in (text.split("=") for text in texts)}
    except ValueError:
        fail(f"{' '.join(texts)}: write name=value, each value a number ({number.__name__})")


def fail(sentence: str) -> NoReturn:
    """A user's error: one sentence, exit code 2."""
    print(sentence, file=sys.stderr)
    raise SystemExit(2)


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
    return _flags(table, Config(), "")


def _flags(table: dict, knobs, prefix: str) -> list[str]:
    """A TOML table as command-line flags, so that one parser checks both."""
    flags = []
    known = {f.name: getattr(knobs, f.name) for f in fields(knobs)}
    for key, value in table.items():
        name = key.replace("-", "_")
        flag = f"--{prefix}{name.replace('_', '-')}"
        if is_dataclass(known.get(name)) and isinstance(value, dict):
            flags += _flags(value, known[name], f"{prefix}{name.replace('_', '-')}.")
        elif isinstance(value, bool):
            flags.append(flag if value else re.sub(r"([^.-][^.]*)$", r"no-\1", flag))
        else:
            flags += [flag, *(str(x) for x in (value if isinstance(value, list) else [value]))]
    return flags
