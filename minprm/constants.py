"""Every knob, its default, and what it means in a plain sentence; and the arms of the ladder.

A choice is a string here and a pure function in algorithms.py or zoo.py; a test keeps the two in
step. Each stage of an arm has a dataclass of its own, because stages differ in learning rate, group
size and advantage. Defaults for a language model instead of the tiny one: commands/presets.py.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, NoReturn

Advantage = Literal[
    "posterior", "mean", "mean_std", "asym_clip", "rloo", "opo", "batch", "best", "top_k", "none"
]  # fmt: skip
Baseline = Literal["ema", "gae", "turn_gae"]  # what RL can compare with beside a group
Reward = Literal["action_prob", "action_prob_mean", "exact_match"]
TrainedOn = Literal["thought_action", "thought", "action_first", "both"]
Loss = Literal[
    "pg", "is", "ppo_clip", "dual_clip", "gspo", "cispo", "masked_is", "ipo", "sapo"
]  # fmt: skip
Aggregation = Literal["token", "sequence", "constant"]
Preset = Literal["cups", "smoke", "errand", "logs", "paper", "qwen3-4b", "qwen3-0.6b"]

# An arm is a list of stages, each a function in ladder.STAGES. Every arm starts from the same base
# model and the same demos. What each arm asks: README.
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

    dim: int = 64  # width of the residual stream
    layers: int = 2  # transformer blocks
    heads: int = 4  # attention heads, and as many key-value heads
    head_dim: int = 32  # width of a head; with 16 it does not learn to track in 600 updates
    ffn: int = 192  # width of the feed-forward layer
    rope_theta: float = 1000.0  # base of the rotary positions
    init: float = 0.08  # standard deviation of the initial weights
    lr: float = 3e-3  # learning rate of AdamW; it decays linearly to zero after the warm-up
    updates: int = 600  # updates of pre-training
    batch: int = 16  # episodes in an update
    act_only: float = 0.2  # share of episodes that are played without thoughts, at random
    action_first: float = 0.0  # share of episodes whose turns may hold the action first
    mixture: list[str] = field(default_factory=list)  # thoughts, as bare=0.5; none: the world's mix


@dataclass
class Training:
    """What every stage that takes gradient steps has."""

    lr: float = 1e-3  # learning rate of AdamW
    warmup: int = 5  # updates in which the learning rate rises linearly
    decay: bool = False  # after the warm-up, does the learning rate fall linearly to zero
    batch: int = 8  # tasks or demos in an update
    passes: int = 1  # updates on each batch of samples; above 1 the ratios leave 1
    loss: Loss = "pg"  # loss of a token
    aggregation: Aggregation = "token"  # how the losses of tokens are averaged
    max_grad_norm: float = 1.0  # gradients are clipped to this norm
    kl: float = 0.0  # weight of the KL to a reference, at the tokens that were sampled
    kl_to: Literal["base", "sampler"] = "base"  # reference: the base model, or the sampling weights
    kl_target: float = 0.0  # nats a token that --kl is adapted to; 0: --kl stays as it is
    entropy: float = 0.0  # weight of the entropy at the trained tokens, as a bonus
    correction: Literal["none", "truncate", "mask"] = "none"  # for sampler and trainer that differ


@dataclass
class SFT(Training):
    """Supervised fine-tuning of a fresh copy of the base model."""

    decay: bool = True  # after the warm-up, does the learning rate fall linearly to zero
    batch: int = 16  # demos in an update
    epochs: int = 5  # passes over the demos


@dataclass
class ActPRM(Training):
    """Thoughts for logs of actions alone: sample, reward by the expert's action, reinforce."""

    lr: float = 3e-4  # learning rate of AdamW
    updates: int = 40  # updates; each walks `batch` demos from start to end
    group: int = 8  # G: thoughts sampled for each logged step
    thoughts_from: Literal["state", "state_action"] = "state"  # state_action: the action is a hint
    reward: Reward = "action_prob"  # of a thought: how well it predicts the expert's action
    reward_span: Literal["action", "turn"] = "action"  # tokens that it reads; turn: the tags too
    advantage: Advantage = "posterior"  # of a thought in its group
    top_k: int = 2  # k of the advantage top_k
    trained_on: TrainedOn = "thought_action"  # tokens that learn; both: in both orders
    continues: Literal["best", "own", "resample"] = "best"  # which thought the next step sees
    scored_by: Literal["policy", "base"] = "policy"  # whose probability is the reward
    length_penalty: float = 0.0  # the reward is multiplied by exp(-penalty * tokens of the thought)
    eval_every: int = 5  # updates between two looks at the held-out reward
    patience: int = 0  # stop after so many looks without a new best; 0: never


@dataclass
class Relabel:
    """Writes the best thoughts of the current policy into the log, by Act-PRM's own reward."""

    group: int = 4  # thoughts sampled for each logged step
    keep: int = 1  # best thoughts kept for each step, each in a copy of the demo of its own
    min_reward: float = 0.0  # a demo with a thought below this reward is left out


@dataclass
class RL(Training):
    """REINFORCE, GRPO or PPO with the world's reward."""

    lr: float = 5e-4  # learning rate of AdamW
    finetune_lr: float = 2e-4  # the same where RL starts from a fine-tuned model (rl:finetune)
    updates: int = 20  # updates; each plays `batch` tasks `group` times
    group: int = 8  # G: episodes of one task, each with sampling noise of its own
    advantage: Advantage | Baseline = "mean_std"  # of an episode, or of a step, in its group
    top_k: int = 2  # k of the advantage top_k
    gamma: float = 1.0  # discount: with gae of a token; with turn_gae and in rl:dense of a turn
    lam: float = 1.0  # lambda of gae and turn_gae; below 1 credit fades with distance
    value_weight: float = 0.5  # weight of the critic's loss, with gae and turn_gae
    # which groups are learned from: all; only the most uncertain; all, weighted by uncertainty
    groups: Literal["all", "top_p", "soft"] = "all"
    top_p: float = 0.25  # share of the groups that top_p keeps
    backfill: bool = False  # replace groups without variance by other tasks, in up to 4 rounds
    format_penalty: float = 0.0  # what a turn costs in which no action can be read
    max_async_level: Literal[0, 1] = 0  # 1: the next batch is played while this one is learned from


@dataclass
class History:
    """Which earlier turns the model sees when it writes the next one."""

    thoughts: bool = True  # do earlier thoughts stay
    first: int = 1  # observations that stay from the start, where `last` hides some
    last: int = 0  # newest observations that stay beside those; 0: all stay

    def edits(self) -> bool:
        """Is anything left out?"""
        return self.last > 0 or not self.thoughts


@dataclass
class Engine:
    """vLLM, which writes the tokens of larger models on the GPU that trains them."""

    memory: float = 0.35  # share of the GPU's memory that it takes, weights included
    sleep: bool = False  # does it free its memory during updates
    max_gap: float = 0.1  # nats; stop where sampler and trainer differ by more on average


@dataclass
class Config:
    """Trains the arms of a ladder on one world, evaluates each by playing, and prints the table."""

    preset: Preset = "cups"  # defaults to start from
    config: str = ""  # TOML file with the same knobs; flags override it
    run: str = ""  # name of the run; default: preset and time
    dry_run: bool = False  # print parameters, memory and the first sample, and stop
    resume: bool = False  # go on with --run (default: the newest) where it stopped
    arms: list[str] = field(default_factory=lambda: list(ARMS))  # arms of the ladder (README)
    stages: list[str] = field(default_factory=list)  # instead of arms: one unnamed arm's stages
    seeds: list[int] = field(default_factory=lambda: [0])  # one ladder for each seed
    world: str = "cups"  # name of a world in minprm/envs; none: replay held-out logs instead
    world_args: list[str] = field(default_factory=list)  # its knobs, e.g. rounds=1 swaps=5
    model: str = "tiny"  # hub id or path of a chat model; tiny: the embedded one
    sampler: Literal["auto", "vllm", "transformers"] = "auto"  # auto: vllm if there is a GPU
    lora: int = 0  # rank of LoRA adapters; 0: all weights are trained
    checkpointing: bool = False  # compute activations again for the gradient, to save memory
    gate: bool = True  # stop where the embedded model lacks the world's skills
    layout: Literal["auto", "tags", "think", "tool"] = "auto"  # what ends a thought (template.py)
    think: bool = True  # may a played turn think first; --no-think opens its action at once
    actions_only: bool = False  # drop the thoughts that the demos hold
    demos: str = ""  # JSONL of demos; default: the world's expert plays
    num_demos: int = 128  # demos to learn from
    held_out: int = 16  # further demos, for the held-out reward
    episodes: int = 400  # evaluation episodes of an arm
    split: Literal["test", "validation"] = "test"  # evaluation tasks; make choices on validation
    temperature: float = 1.0  # of everything that is sampled for training
    eval_temperature: float = 0.0  # of evaluation; 0: greedy
    thought_tokens: int = 32  # a longer thought is cut and earns nothing
    action_tokens: int = 8  # longest action, its tags included
    context: int = 4096  # longest prompt with its answer; what outgrows it is cut, and counted
    micro_tokens: int = 16384  # tokens of one forward pass, padding included
    save_every: int = 5  # updates between snapshots for --resume
    threads: int = 0  # CPU threads; 0: torch's choice
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
    return held or config.act_prm.scored_by == "base"


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
    """`name=value` texts as a dict.

    >>> pairs(["rounds=1", "swaps=5"], int)
    {'rounds': 1, 'swaps': 5}
    """
    found = {}
    for text in texts:
        name, separator, value = text.partition("=")
        try:
            found[name] = kind(value)
        except ValueError:
            separator = ""
        if not separator:
            values = {int: "whole numbers", float: "numbers", str: "texts"}[kind]
            fail(f"{' '.join(texts)}: write name=value; the values are {values}")
    return found


def fail(sentence: str) -> NoReturn:
    """A user's error: one sentence, exit code 2."""
    print(sentence, file=sys.stderr)
    raise SystemExit(2)
