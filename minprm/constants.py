"""Every knob, its default, and what it means in a plain sentence; and the arms of the ladder.

A choice is a string here and a pure function in algorithms.py or zoo.py; a test keeps the two in
step. A number has its range in its type. Each stage of an arm has a dataclass of its own, because
stages differ in learning rate, group size and advantage. Where a knob has an effect in some runs
alone, its type says what it needs; given in another run, it is refused (commands/effects.py).
Defaults for a language model instead of the tiny one: commands/presets.py.
"""

import io
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr
from dataclasses import dataclass, field
from typing import Annotated, Literal, NamedTuple, NoReturn

from minprm.printable import say


class Range(NamedTuple):
    """The numbers that a knob may have, both ends included."""

    least: float
    most: float


class Needs(NamedTuple):
    """What a knob needs to have an effect: another knob, of its section or by its full name, that
    is on or has this setting; or what a sentence says, which commands/effects.py finds out."""

    name: str
    setting: str = ""


class ReadBy:
    """The stages that read a knob, or a section of knobs; `rl*` are all whose names begin so."""

    def __init__(self, *stages: str):
        self.stages = stages


Count = Annotated[int, Range(1, 10**6)]
CountOrNone = Annotated[int, Range(0, 10**6)]  # what 0 means is said beside the knob
Few = Annotated[int, Range(0, 1000)]
Episodes = Annotated[int, Range(1, 100_000)]
Seed = Annotated[int, Range(0, 9_998)]  # each has 100,000 tasks of a split to itself
Share = Annotated[float, Range(0, 1)]
Gain = Annotated[float, Range(-1, 1)]  # a difference of two shares
Momentum = Annotated[float, Range(0, 0.999999)]
SomeShare = Annotated[float, Range(0.01, 1)]
Weight = Annotated[float, Range(0, 1000)]  # a factor, a penalty, or a number of nats
Positive = Annotated[float, Range(1e-6, 10**9)]
LearningRate = Annotated[float, Range(1e-12, 1)]
Temperature = Annotated[float, Range(0, 100)]  # 0: greedy

Advantage = Literal[
    "posterior", "max_rl", "mean", "mean_std", "asym_clip", "rloo", "opo", "batch", "best", "top_k",
    "none"
]  # fmt: skip
Baseline = Literal["ema", "gae", "turn_gae"]  # what RL can compare with beside a group
Reward = Literal["action_prob", "action_prob_mean", "exact_match"]
Own = str  # FILE.py:NAME, one of the user's own (own.py)
TrainedOn = Literal["thought_action", "thought", "action_first", "both"]
Span = Literal["action", "turn"]
Scorer = Literal["policy", "base"]
Continues = Literal["best", "own", "resample"]
Loss = Literal[
    "pg", "is", "ppo_clip", "dual_clip", "gspo", "cispo", "masked_is", "ipo", "dppo", "sapo"
]  # fmt: skip
Correction = Literal["none", "truncate", "mask"]
Aggregation = Literal["token", "sequence", "constant"]
Preset = Literal["cups", "smoke", "errand", "logs", "small", "paper", "qwen3-4b", "qwen3-0.6b"]
LayoutName = Literal["auto", "tags", "think"]  # of a turn (text/chat.py)
Content = Literal["reply", "thought"]
SamplerName = Literal["auto", "vllm", "transformers"]
DeviceName = Literal["auto", "cpu", "cuda", "mps"]  # mps: Apple's GPU
Shard = Literal["auto", "always", "never"]
Split = Literal["test", "validation"]

# What several knobs need, and the stages that read several.
TRAINED = ReadBy("sft*", "act_prm*", "rl*")
REWARDED = ReadBy("act_prm*", "relabel*")  # thoughts, where they are learned from and written down
COUNTED = ReadBy("act_prm*", "relabel:matched")  # which draws as many thoughts as Act-PRM does
DRAWN = Needs("--act-prm.thoughts-from state, or --act-prm.trained-on action_first or both")
SCORED = Needs("another --act-prm.reward than exact_match")
VLLM = Needs("the vLLM sampler")
RAISED = Needs("updates")
LOOKS = Needs("--eval-tasks above 0, or a stage act_prm with --held-out demos, or a stage rl")
PLAYED = Needs("--world or --agent")
READ = Needs("--demos or --few-shot")
INSTRUCTED = Needs("a --model that writes before SFT, or --sft.keep-instruction")

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


@dataclass
class Tiny:
    """The embedded model: a tiny Qwen3 raised from scratch on narrated random play."""

    dim: Annotated[int, Range(1, 4096)] = 64  # its width; its other sizes follow (load/tiny.py)
    # updates of pre-training; 0: none, for SFT from nothing (docs/worlds.md)
    updates: CountOrNone = 600
    batch: Annotated[Count, RAISED] = 16  # episodes in an update
    # share of episodes that are played without thoughts, at random
    act_only: Annotated[Share, RAISED] = 0.2
    # share of episodes whose turns may hold the action first
    action_first: Annotated[Share, RAISED] = 0.0
    # thoughts, as bare=0.5; none: the world's mix
    mixture: Annotated[list[str], RAISED] = field(default_factory=list)


@dataclass
class Optim:
    """How gradient steps are taken, in every stage that takes any."""

    warmup: CountOrNone = 5  # updates in which the rate rises, a quarter of the stage's at most
    # how the rate falls to zero after the warm-up; with none that of SFT alone does, linearly
    decay: Literal["none", "linear", "cosine"] = "none"
    passes: Count = 1  # times that each batch of samples is learned from; above 1 ratios leave 1
    minibatches: Count = 1  # parts of a batch, each an update of its own; groups stay whole
    aggregation: Aggregation = "token"  # how the losses of tokens are averaged
    max_grad_norm: Positive = 1.0  # gradients are clipped to this norm
    beta1: Momentum = 0.9  # of AdamW: how much of the mean gradient stays at each update
    beta2: Momentum = 0.95  # the same of its square
    weight_decay: Share = 0.0  # of AdamW: weights shrink by the learning rate times this


@dataclass
class Training:
    """What every stage that takes gradient steps has for itself."""

    lr: LearningRate = 1e-3  # learning rate of AdamW
    batch: Count = 8  # tasks or demos in an update
    patience: CountOrNone = 0  # stop after so many looks without a new best; 0: never


@dataclass
class SFT(Training):
    """Supervised fine-tuning of a fresh copy of the base model."""

    batch: Count = 16  # demos in an update; steps, where the history is edited
    epochs: Count = 10  # passes over the demos
    # its samples, and all that comes after, hold --instruction
    keep_instruction: Annotated[bool, Needs("a --model with --instruction or --few-shot")] = False


@dataclass
class Sampled(Training):
    """What a stage has that learns from tokens which the model itself has sampled."""

    loss: Loss = "pg"  # loss of a token
    kl: Weight = 0.0  # weight of the KL to a reference, at the tokens that were sampled


@dataclass
class ActPRM(Sampled):
    """Thoughts for logs of actions alone: sample, reward by the expert's action, reinforce."""

    lr: LearningRate = 6e-4  # learning rate of AdamW
    batch: Annotated[Count, COUNTED] = 8  # demos in an update
    updates: Annotated[Count, COUNTED] = 80  # updates; each walks `batch` demos from start to end
    group: Annotated[Count, COUNTED] = 8  # G: thoughts sampled for each logged step
    thoughts_from: Literal["state", "state_action"] = "state"  # state_action: the action is a hint
    # of a thought: how well it predicts the expert's action; or FILE.py:NAME, one of your own
    reward: Annotated[Reward | Own, REWARDED] = "action_prob"
    reward_span: Annotated[Span, REWARDED, SCORED] = "action"  # what it reads; turn: the tags too
    # no_thought: a thought is paid for what it adds to the reward of the step without a thought
    baseline: Annotated[Literal["none", "no_thought"], ReadBy("act_prm")] = "none"
    advantage: Annotated[Advantage | Own, ReadBy("act_prm")] = "mean"  # of a thought in its group
    # tokens that learn; both: in both orders
    trained_on: Annotated[TrainedOn, ReadBy("act_prm")] = "thought"
    # which thought the next step sees
    continues: Annotated[Continues, ReadBy("act_prm", "relabel", "relabel:matched")] = "best"
    scored_by: Annotated[Scorer, REWARDED, SCORED] = "policy"  # whose probability is the reward
    # what patience goes by
    best_by: Annotated[Literal["held_out_reward", "success"], Needs("patience")] = "held_out_reward"
    loss: Annotated[Loss, DRAWN] = "pg"  # loss of a token
    kl: Annotated[Weight, DRAWN] = 0.0  # weight of the KL to the base model, at sampled tokens


@dataclass
class Relabel:
    """Writes the best thoughts of the current policy into the log, by Act-PRM's own reward."""

    group: Count = 4  # thoughts sampled for each logged step
    min_reward: Share = 0.0  # a demo with a thought below this reward is left out
    min_step_reward: Share = 0.0  # a step with a thought below this one is read, and not learned
    # a demo is left out where thoughts raise the mean reward by less; -1: none is
    min_gain: Annotated[Gain, SCORED, Needs("an --act-prm.reward that reads no thought")] = -1.0


@dataclass
class RL(Sampled):
    """REINFORCE, GRPO or PPO with the world's reward."""

    lr: Annotated[LearningRate, ReadBy("rl", "rl:dense", "rl:sum")] = 5e-4  # learning rate of AdamW
    # learning rate of the stage rl:finetune, which goes on after SFT
    finetune_lr: Annotated[LearningRate, ReadBy("rl:finetune")] = 2e-4
    # what the KL is to: the base model, or what wrote the tokens
    kl_to: Annotated[Literal["base", "sampler"], Needs("kl")] = "base"
    kl_target: Annotated[Weight, Needs("kl")] = 0.0  # nats a token that kl is adapted to; 0: not
    entropy: Weight = 0.0  # weight of the entropy at the trained tokens, as a bonus
    correction: Correction = "none"  # for sampler and trainer that differ
    updates: Count = 20  # updates; each plays `batch` tasks `group` times
    group: Count = 8  # G: episodes of one task, each with sampling noise of its own
    # of an episode: success, as the world says; or FILE.py:NAME, one of your own
    reward: Annotated[Literal["success"] | Own, ReadBy("rl", "rl:finetune")] = "success"
    # of an episode, or of a step, in its group; or FILE.py:NAME, one of your own
    advantage: Advantage | Baseline | Own = "mean_std"
    # discount: with gae of a token; with turn_gae and in rl:dense of a turn
    gamma: Annotated[Share, Needs("--rl.advantage gae or turn_gae, or the stage rl:dense")] = 1.0
    # lambda of gae: below 1 credit fades with distance
    lam: Annotated[Share, Needs("advantage", "gae or turn_gae")] = 1.0
    # which groups are learned from: all; only the most uncertain; all, weighted by uncertainty
    groups: Literal["all", "top_p", "soft"] = "all"
    top_p: Annotated[SomeShare, Needs("groups", "top_p")] = 0.25  # share of the groups that stay
    backfill: bool = False  # replace groups without variance by other tasks, in up to 4 rounds
    format_penalty: Weight = 0.0  # what a turn costs in which no action can be read
    # 1: the next batch is played while this one is learned from
    max_async_level: Annotated[Literal[0, 1], Needs("--save-every above 1")] = 0


@dataclass
class History:
    """Which earlier turns the model sees when it writes the next one."""

    thoughts: bool = True  # do earlier thoughts stay
    # observations before the present one that stay, beside the first; 0: all stay
    last: CountOrNone = 0

    def edits(self) -> bool:
        """Is anything left out?"""
        return self.last > 0 or not self.thoughts


@dataclass
class Engine:
    """vLLM, which writes the tokens of larger models on the GPU that trains them."""

    memory: Annotated[SomeShare, VLLM] = 0.35  # share of the GPU's memory, weights included
    sleep: Annotated[bool, TRAINED, VLLM] = False  # does it free its memory during updates
    # K: so many processes of torchrun have an engine together, for a model too large for one card
    tensor_parallel: Annotated[int, Range(1, 64), VLLM] = 1
    # nats; stop where sampler and trainer differ by more on average
    max_gap: Annotated[Weight, Needs("the vLLM sampler, or a stage act_prm or rl")] = 0.1


@dataclass
class Config:
    """Trains the arms of a ladder on one world, evaluates each by playing, and prints the table."""

    preset: Preset = "cups"  # defaults to start from
    # TOML files with the same knobs; later ones override earlier ones, and flags all of them
    config: list[str] = field(default_factory=list)
    run: str = ""  # name of the run; default: preset and time
    dry_run: bool = False  # print what the run would take, and the first sample; and stop
    resume: bool = False  # go on with --run (default: the newest) where it stopped
    # arms of the ladder
    arms: Annotated[list[str], Needs("no --stages")] = field(default_factory=lambda: list(ARMS))
    stages: list[str] = field(default_factory=list)  # instead of arms: one unnamed arm's stages
    seeds: list[Seed] = field(default_factory=lambda: [0])  # one ladder for each seed
    # a world by name, or FILE.py:NAME, one of your own; none: replay held-out logs
    world: str = "cups"
    # its knobs, e.g. rounds=1 swaps=5
    world_args: Annotated[list[str], Needs("world")] = field(default_factory=list)
    # FILE.py:NAME, an agent of your own that plays its own tasks in the place of a world
    agent: str = ""
    # seconds for which it may do without the model; then its episode is given up
    agent_seconds: Annotated[Positive, Needs("agent")] = 120.0
    model: str = "tiny"  # hub id or path of a chat model; tiny: the embedded one
    sampler: SamplerName = "auto"  # auto: vllm if there is an Nvidia GPU
    device: DeviceName = "auto"  # where the model computes; auto: cuda if it is there, else cpu
    # rank of LoRA adapters; 0: all weights, or those that --model has
    lora: Annotated[Few, Needs("a --model")] = 0
    # what adapters add is multiplied by alpha / rank; 0: alpha is twice the rank
    lora_alpha: Annotated[CountOrNone, Needs("--lora above 0")] = 0
    # layers with adapters; none: all linear
    lora_targets: Annotated[list[str], Needs("--lora above 0")] = field(default_factory=list)
    # with torchrun, does each process hold a part of every weight (always) or all weights (never);
    # auto: a part where all weights of a larger model are trained
    shard: Annotated[Shard, Needs("torchrun with several processes")] = "auto"
    # compute activations again for the gradient, to save memory
    checkpointing: Annotated[bool, TRAINED, Needs("a --model")] = False
    # stop where the embedded model lacks the world's skills
    gate: Annotated[bool, Needs("model", "tiny"), Needs("tiny.updates")] = True
    layout: LayoutName = "auto"  # what ends a thought (text/layout.py)
    think: Annotated[bool, PLAYED] = True  # may a turn think first; else it acts at once
    # told to a --model until SFT has taught it: auto, none, a text, or a .txt or .md file
    instruction: Annotated[str, INSTRUCTED] = "auto"
    # logs with thoughts, shown as turns before each conversation; with no-think, without them
    few_shot: Annotated[str, INSTRUCTED] = ""
    # logs: a file, a folder or a quoted pattern; default: the world's expert plays
    demos: Annotated[str, Needs("a stage that learns from logs")] = ""
    content: Annotated[Content, READ] = "reply"  # what text beside a call in --demos is
    skip_bad: Annotated[bool, READ] = False  # go on without the bad lines of --demos
    # keys of --demos that are no part of the conversation, to be left out
    drop: Annotated[list[str], READ] = field(default_factory=list)
    # KEY=NAME: keys of --demos, and the names under which they are read
    map: Annotated[list[str], READ] = field(default_factory=list)
    # the key that says of which task a log is; none: task, task_id and others like it
    task_key: Annotated[str, READ] = ""
    # logs to learn from, by how they ended: won, or 'reward>=0.5'; none: all
    keep: Annotated[list[str], Needs("demos")] = field(default_factory=list)
    # a pattern that fits the beginning of an answer, the thought in brackets: taken out of it
    thought: Annotated[str, READ] = ""
    # FILE.py:NAME, a reader of your own for another format of logs
    format: Annotated[str, READ] = ""
    # demos to learn from
    num_demos: Annotated[int, Range(1, 90_000), Needs("logs of the world's expert")] = 128
    # further demos, for the held-out reward
    held_out: Annotated[int, Range(0, 10_000), Needs("the stage act_prm, or --demos")] = 16
    episodes: Annotated[Episodes, PLAYED] = 400  # evaluation episodes of an arm
    split: Annotated[Split, PLAYED] = "test"  # evaluation tasks; make choices on validation
    # of everything that is sampled for training
    temperature: Annotated[Positive, ReadBy("act_prm*", "relabel*", "rl*", "sample", "synth")] = 1.0
    eval_temperature: Temperature = 0.0  # of evaluation; 0: greedy
    # longest thought, its end included; a longer one earns nothing. A turn that is played has these
    # tokens and --action-tokens together
    thought_tokens: Count = 32
    action_tokens: Count = 8  # longest action, its tags included
    context: Count = 4096  # longest prompt with its answer; what outgrows it is cut, and counted
    # tokens of one forward pass, padding included; at least 1.5 times those of the longest log
    micro_tokens: Count = 16384
    eval_every: Annotated[CountOrNone, TRAINED, LOOKS] = 10  # updates between two looks; 0: none
    # validation tasks (or held-out logs) played at a look; 0: none
    eval_tasks: Annotated[CountOrNone, TRAINED, Needs("eval_every")] = 32
    keep_every: Annotated[CountOrNone, TRAINED] = 0  # updates between kept checkpoints; 0: none
    save_every: Annotated[Count, TRAINED] = 5  # updates between snapshots for --resume
    # states (in rl: tasks) whose groups are kept for the report; 0: none
    watch: Annotated[Few, ReadBy("act_prm*", "rl*")] = 3
    threads: Few = 0  # CPU threads of a process; 0: one for a small model, else as torch chooses
    # how many arms are trained at once, each in a process of its own; 0: with the embedded model on
    # a CPU one for each core, at most four, and else 1
    jobs: Annotated[Few, Needs("several --arms, and no torchrun that shares out each arm")] = 0

    tiny: Annotated[Tiny, Needs("model", "tiny")] = field(default_factory=Tiny)
    optim: Annotated[Optim, TRAINED] = field(default_factory=Optim)
    sft: Annotated[SFT, ReadBy("sft*")] = field(default_factory=SFT)
    act_prm: Annotated[ActPRM, ReadBy("act_prm*")] = field(default_factory=ActPRM)
    relabel: Annotated[Relabel, ReadBy("relabel*")] = field(default_factory=Relabel)
    rl: Annotated[RL, ReadBy("rl*")] = field(default_factory=RL)
    history: History = field(default_factory=History)
    engine: Engine = field(default_factory=Engine)


def arms_of(config: Config) -> dict[str, list[str]]:
    """The arms to run and their stages, by name; --stages is one unnamed arm."""
    if config.stages:
        return {"stages": config.stages}
    return {arm: ARMS[arm] for arm in config.arms}


def reads_base(config: Config) -> bool:
    """Does a stage score by the frozen base model, or hold the policy to it?"""
    held = to_base(config.act_prm) or to_base(config.rl)
    scored = config.act_prm.scored_by == "base" and config.act_prm.reward != "exact_match"
    return held or scored


def to_base(stage: Training) -> bool:
    """Does a KL hold the policy to the base model?"""
    if isinstance(stage, RL) and stage.kl_to == "sampler":
        return False
    return isinstance(stage, Sampled) and stage.kl > 0


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


def refusal(function: Callable, *arguments) -> str:
    """The sentence with which the function exits by `fail`; empty where it does not."""
    box = io.StringIO()
    try:
        with redirect_stderr(box):
            function(*arguments)
    except SystemExit:
        return box.getvalue().strip()
    return ""


class Refused(SystemExit):
    """What `fail` ends with; a user's own program may raise SystemExit too."""


def fail(sentence: str) -> NoReturn:
    """A user's error: one sentence, exit code 2. Texts of others in it are shown, not obeyed."""
    say(sentence)
    raise Refused(2)
