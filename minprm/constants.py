"""Every knob, its default, and what it means in a plain sentence; and the arms of the ladder.

A choice is a string here and a pure function in algorithms.py or zoo.py; a test keeps the two in
step. A number has its range in its type. Each stage of an arm has a dataclass of its own, because
stages differ in learning rate, group size and advantage. Defaults for a language model instead of
the tiny one: commands/presets.py. What is refused, and why: commands/checks.py and effects.py.
"""

import io
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr
from dataclasses import dataclass, field
from typing import Annotated, Literal, NamedTuple, NoReturn


class Range(NamedTuple):
    """The numbers that a knob may have, both ends included."""

    least: float
    most: float
    even: bool = False


Count = Annotated[int, Range(1, 10**6)]
CountOrNone = Annotated[int, Range(0, 10**6)]  # what 0 means is said beside the knob
Few = Annotated[int, Range(0, 1000)]
Size = Annotated[int, Range(1, 4096)]  # of a part of the embedded model
EvenSize = Annotated[int, Range(2, 4096, even=True)]
Episodes = Annotated[int, Range(1, 100_000)]
Seed = Annotated[int, Range(0, 9_998)]  # each has 100,000 tasks of a split to itself
Share = Annotated[float, Range(0, 1)]
Gain = Annotated[float, Range(-1, 1)]  # a difference of two shares
SomeShare = Annotated[float, Range(0.01, 1)]
Weight = Annotated[float, Range(0, 1000)]  # a factor, a penalty, or a number of nats
Positive = Annotated[float, Range(1e-6, 10**9)]
LearningRate = Annotated[float, Range(1e-12, 1)]
Temperature = Annotated[float, Range(0, 100)]  # 0: greedy

Advantage = Literal[
    "posterior", "mean", "mean_std", "asym_clip", "rloo", "opo", "batch", "best", "top_k", "none"
]  # fmt: skip
Baseline = Literal["ema", "gae", "turn_gae"]  # what RL can compare with beside a group
Reward = Literal["action_prob", "action_prob_mean", "exact_match"]
Own = str  # FILE.py:NAME, one of the user's own (own.py)
TrainedOn = Literal["thought_action", "thought", "action_first", "both"]
Loss = Literal[
    "pg", "is", "ppo_clip", "dual_clip", "gspo", "cispo", "masked_is", "ipo", "sapo"
]  # fmt: skip
Aggregation = Literal["token", "sequence", "constant"]
Preset = Literal["cups", "smoke", "errand", "logs", "paper", "qwen3-4b", "qwen3-0.6b"]
LayoutName = Literal["auto", "tags", "think", "tool"]  # of a turn (text/chat.py)
Content = Literal["reply", "thought"]
SamplerName = Literal["auto", "vllm", "transformers"]
DeviceName = Literal["auto", "cpu", "cuda", "mps"]  # mps: Apple's GPU
Split = Literal["test", "validation"]

# An arm is a list of stages, each a function in ladder.STAGES. Every arm starts from the same base
# model and the same demos. What each arm asks: docs/ladder.md.
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

# The variant act_prm:resample. It trains thoughts alone: with action tokens trained too, the model
# learned the commonest action after short thoughts, whose reward meant nothing (docs/credit.md).
RESAMPLE = {
    "continues": "resample", "trained_on": "thought", "advantage": "posterior", "baseline": "none",
}  # fmt: skip


@dataclass
class Tiny:
    """The embedded model: a tiny Qwen3 raised from scratch on narrated random play."""

    dim: Size = 64  # width of the residual stream
    layers: Size = 2  # transformer blocks
    heads: Size = 4  # attention heads, and as many key-value heads
    head_dim: EvenSize = 32  # width of a head; with 16 it does not learn to track in 600 updates
    ffn: Size = 192  # width of the feed-forward layer
    rope_theta: Positive = 1000.0  # base of the rotary positions
    init: Positive = 0.08  # standard deviation of the initial weights
    lr: LearningRate = 3e-3  # learning rate of AdamW; it decays linearly to zero after the warm-up
    updates: Count = 600  # updates of pre-training
    batch: Count = 16  # episodes in an update
    act_only: Share = 0.2  # share of episodes that are played without thoughts, at random
    action_first: Share = 0.0  # share of episodes whose turns may hold the action first
    mixture: list[str] = field(default_factory=list)  # thoughts, as bare=0.5; none: the world's mix


@dataclass
class Training:
    """What every stage that takes gradient steps has."""

    lr: LearningRate = 1e-3  # learning rate of AdamW
    warmup: CountOrNone = 5  # updates in which the rate rises, a quarter of the stage's at most
    decay: bool = False  # after the warm-up, does the learning rate fall linearly to zero
    batch: Count = 8  # tasks or demos in an update
    passes: Count = 1  # updates on each batch of samples; above 1 the ratios leave 1
    loss: Loss = "pg"  # loss of a token
    aggregation: Aggregation = "token"  # how the losses of tokens are averaged
    max_grad_norm: Positive = 1.0  # gradients are clipped to this norm
    kl: Weight = 0.0  # weight of the KL to a reference, at the tokens that were sampled
    kl_to: Literal["base", "sampler"] = "base"  # reference: the base model, or the sampling weights
    kl_target: Weight = 0.0  # nats a token that --kl is adapted to; 0: --kl stays as it is
    entropy: Weight = 0.0  # weight of the entropy at the trained tokens, as a bonus
    correction: Literal["none", "truncate", "mask"] = "none"  # for sampler and trainer that differ
    patience: CountOrNone = 0  # stop after so many looks without a new best; 0: never


@dataclass
class SFT(Training):
    """Supervised fine-tuning of a fresh copy of the base model."""

    decay: bool = True  # after the warm-up, does the learning rate fall linearly to zero
    batch: Count = 16  # demos in an update; steps, where the history is edited
    epochs: Count = 10  # passes over the demos
    keep_instruction: bool = False  # its samples, and all that comes after, hold --instruction


@dataclass
class ActPRM(Training):
    """Thoughts for logs of actions alone: sample, reward by the expert's action, reinforce."""

    lr: LearningRate = 6e-4  # learning rate of AdamW
    updates: Count = 80  # updates; each walks `batch` demos from start to end
    group: Count = 8  # G: thoughts sampled for each logged step
    thoughts_from: Literal["state", "state_action"] = "state"  # state_action: the action is a hint
    # of a thought: how well it predicts the expert's action; or FILE.py:NAME, one of your own
    reward: Reward | Own = "action_prob"
    reward_span: Literal["action", "turn"] = "action"  # tokens that it reads; turn: the tags too
    # no_thought: a thought is paid for what it adds to the reward of the step without a thought
    baseline: Literal["none", "no_thought"] = "none"
    advantage: Advantage | Own = "mean"  # of a thought in its group; or FILE.py:NAME
    top_k: Count = 2  # k of the advantage top_k
    trained_on: TrainedOn = "thought"  # tokens that learn; both: in both orders
    continues: Literal["best", "own", "resample"] = "best"  # which thought the next step sees
    scored_by: Literal["policy", "base"] = "policy"  # whose probability is the reward
    length_penalty: Weight = 0.0  # the reward is multiplied by exp(-penalty * thought's tokens)
    best_by: Literal["held_out_reward", "success"] = "held_out_reward"  # what patience goes by


@dataclass
class Relabel:
    """Writes the best thoughts of the current policy into the log, by Act-PRM's own reward."""

    group: Count = 4  # thoughts sampled for each logged step
    keep: Count = 1  # best thoughts kept for each step, each in a copy of the demo of its own
    min_reward: Share = 0.0  # a demo with a thought below this reward is left out
    min_step_reward: Share = 0.0  # a step with a thought below this one is read, and not learned
    min_gain: Gain = -1.0  # the same where thoughts raise the mean reward by less; -1: none is


@dataclass
class RL(Training):
    """REINFORCE, GRPO or PPO with the world's reward."""

    lr: LearningRate = 5e-4  # learning rate of AdamW
    finetune_lr: LearningRate = 2e-4  # the same from a model that is fine-tuned (rl:finetune)
    updates: Count = 20  # updates; each plays `batch` tasks `group` times
    group: Count = 8  # G: episodes of one task, each with sampling noise of its own
    # of an episode, or of a step, in its group; or FILE.py:NAME, one of your own
    advantage: Advantage | Baseline | Own = "mean_std"
    top_k: Count = 2  # k of the advantage top_k
    gamma: Share = 1.0  # discount: with gae of a token; with turn_gae and in rl:dense of a turn
    lam: Share = 1.0  # lambda of gae and turn_gae; below 1 credit fades with distance
    value_weight: Weight = 0.5  # weight of the critic's loss, with gae and turn_gae
    # which groups are learned from: all; only the most uncertain; all, weighted by uncertainty
    groups: Literal["all", "top_p", "soft"] = "all"
    top_p: SomeShare = 0.25  # share of the groups that top_p keeps
    backfill: bool = False  # replace groups without variance by other tasks, in up to 4 rounds
    format_penalty: Weight = 0.0  # what a turn costs in which no action can be read
    max_async_level: Literal[0, 1] = 0  # 1: the next batch is played while this one is learned from


@dataclass
class History:
    """Which earlier turns the model sees when it writes the next one."""

    thoughts: bool = True  # do earlier thoughts stay
    first: CountOrNone = 1  # observations that stay from the start, where `last` hides some
    last: CountOrNone = 0  # newest observations that stay beside those; 0: all stay

    def edits(self) -> bool:
        """Is anything left out?"""
        return self.last > 0 or not self.thoughts


@dataclass
class Engine:
    """vLLM, which writes the tokens of larger models on the GPU that trains them."""

    memory: SomeShare = 0.35  # share of the GPU's memory that it takes, weights included
    sleep: bool = False  # does it free its memory during updates
    # K: so many processes of torchrun have an engine together, for a model too large for one card
    tensor_parallel: Annotated[int, Range(1, 64)] = 1
    max_gap: Weight = 0.1  # nats; stop where sampler and trainer differ by more on average


@dataclass
class Config:
    """Trains the arms of a ladder on one world, evaluates each by playing, and prints the table."""

    preset: Preset = "cups"  # defaults to start from
    config: str = ""  # TOML file with the same knobs; flags override it
    run: str = ""  # name of the run; default: preset and time
    dry_run: bool = False  # print what the run would take, and the first sample; and stop
    resume: bool = False  # go on with --run (default: the newest) where it stopped
    arms: list[str] = field(default_factory=lambda: list(ARMS))  # arms of the ladder
    stages: list[str] = field(default_factory=list)  # instead of arms: one unnamed arm's stages
    seeds: list[Seed] = field(default_factory=lambda: [0])  # one ladder for each seed
    # a world by name, or FILE.py:NAME, one of your own; none: replay held-out logs
    world: str = "cups"
    world_args: list[str] = field(default_factory=list)  # its knobs, e.g. rounds=1 swaps=5
    model: str = "tiny"  # hub id or path of a chat model; tiny: the embedded one
    sampler: SamplerName = "auto"  # auto: vllm if there is an Nvidia GPU
    device: DeviceName = "auto"  # where the model computes; auto: cuda if it is there, else cpu
    lora: Few = 0  # rank of LoRA adapters; 0: all weights, or those that --model has
    lora_alpha: CountOrNone = 0  # adapters count alpha / rank times; 0: alpha is twice the rank
    lora_targets: list[str] = field(default_factory=list)  # layers with adapters; none: all linear
    # with torchrun, does each process hold a part of every weight (always) or all weights (never);
    # auto: a part where all weights of a larger model are trained
    shard: Literal["auto", "always", "never"] = "auto"
    checkpointing: bool = False  # compute activations again for the gradient, to save memory
    gate: bool = True  # stop where the embedded model lacks the world's skills
    layout: LayoutName = "auto"  # what ends a thought (text/layout.py)
    think: bool = True  # may a played turn think first; --no-think opens its action at once
    # told to a --model until SFT has taught it: auto, none, a text, or a .txt or .md file
    instruction: str = "auto"
    few_shot: str = ""  # logs with thoughts, shown as turns before each conversation
    demos: str = ""  # logs: a file, a folder or a quoted pattern; default: the world's expert plays
    content: Content = "reply"  # what text beside a call in --demos is
    skip_bad: bool = False  # go on without the bad lines of --demos
    num_demos: Annotated[int, Range(1, 90_000)] = 128  # demos to learn from
    held_out: Annotated[int, Range(0, 10_000)] = 16  # further demos, for the held-out reward
    episodes: Episodes = 400  # evaluation episodes of an arm
    split: Split = "test"  # evaluation tasks; make choices on validation
    temperature: Positive = 1.0  # of everything that is sampled for training
    eval_temperature: Temperature = 0.0  # of evaluation; 0: greedy
    thought_tokens: Count = 32  # a longer thought is cut and earns nothing
    action_tokens: Count = 8  # longest action, its tags included
    context: Count = 4096  # longest prompt with its answer; what outgrows it is cut, and counted
    micro_tokens: Count = 16384  # tokens of one forward pass, padding included
    eval_every: CountOrNone = 10  # updates between two looks at held-out tasks; 0: no looks
    eval_tasks: CountOrNone = 32  # validation tasks (or held-out logs) played at a look; 0: none
    keep_every: CountOrNone = 0  # updates between two checkpoints that are kept; 0: none is
    save_every: Count = 5  # updates between snapshots for --resume
    watch: Few = 3  # states (in rl: tasks) whose groups are kept for the report; 0: none
    keep_episodes: CountOrNone = 40  # evaluation episodes of an arm that are kept for the report
    track: Literal["none", "wandb"] = "none"  # Weights & Biases, beside TensorBoard
    threads: Few = 0  # CPU threads of a process; 0: one for a small model, else as torch chooses
    # how many arms are trained at once, each in a process of its own; 0: with the embedded model on
    # a CPU one for each core, at most four, and else 1
    jobs: Few = 0
    tiny: Tiny = field(default_factory=Tiny)
    sft: SFT = field(default_factory=SFT)
    act_prm: ActPRM = field(default_factory=ActPRM)
    relabel: Relabel = field(default_factory=Relabel)
    rl: RL = field(default_factory=RL)
    history: History = field(default_factory=History)
    engine: Engine = field(default_factory=Engine)


def arms_of(config: Config) -> dict[str, list[str]]:
    """The arms to run and their stages, by name; --stages is one unnamed arm."""
    if config.stages:
        return {"stages": config.stages}
    return {arm: ARMS[arm] for arm in config.arms}


def reads_base(config: Config) -> bool:
    """Does a stage score by the frozen base model, or hold the policy to it?"""
    stages = (config.sft, config.act_prm, config.rl)
    held = any(stage.kl and stage.kl_to == "base" for stage in stages)
    scored = config.act_prm.scored_by == "base" and config.act_prm.reward != "exact_match"
    return held or scored


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


def pairs(texts: list[str], kind: type) -> dict:
    """`name=value` texts as a dict. Exits where one is no such text, or a name comes twice.

    >>> pairs(["rounds=1", "swaps=5"], int)
    {'rounds': 1, 'swaps': 5}
    """
    found = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if name in found:
            fail(f"{' '.join(texts)}: {name} is given twice")
        try:
            found[name] = kind(value)
        except ValueError:
            separator = ""
        if not separator:
            number = "" if kind is str else ", the value a number"
            fail(f"{text}: write name=value{number}")
    return found


def refusal(function: Callable, *arguments) -> str:
    """The sentence with which the function exits by `fail`; empty where it does not."""
    box = io.StringIO()
    try:
        with redirect_stderr(box):
            function(*arguments)
    except SystemExit:
        return box.getvalue().strip()
    return ""


def fail(sentence: str) -> NoReturn:
    """A user's error: one sentence, exit code 2."""
    print(sentence, file=sys.stderr)
    raise SystemExit(2)
