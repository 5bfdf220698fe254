"""Every knob, its default, one line of meaning; arms and presets.

A choice is a string here and a pure function in `algorithms.py`; a test keeps the two in step.
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
    passes: int = 1  # updates on each batch of samples; above 1 ratios leave 1
    loss: Loss = "pg"  # per-token loss
    aggregation: Aggregation = "token"  # how token losses are averaged
    max_grad_norm: float = 1.0  # gradients are clipped to this norm
    kl: float = 0.0  # weight of the KL to a reference (estimator k3)
    kl_to: Literal["base", "sampler"] = "base"  # the base model, or the weights that sampled
    kl_target: float = 0.0  # nats a token that --kl is adapted to; 0: --kl stays as it is
    entropy: float = 0.0  # weight of the entropy at the trained tokens, as a bonus
    correction: Literal["none", "truncate", "mask"] = "none"  # where sampler and trainer differ


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
    """REINFORCE, GRPO or PPO with the world's reward."""

    lr: float = 5e-4  # AdamW learning rate
    finetune_lr: float = 2e-4  # the same where RL starts from a fine-tuned model (rl:finetune)
    updates: int = 20  # updates; each plays `batch` tasks `group` times
    group: int = 8  # G: episodes of one task, with the task's seed and their own noise
    advantage: Advantage | Baseline = "mean_std"  # of an episode (or a step) in its group
    top_k: int = 2  # k of the advantage top_k
    gamma: float = 1.0  # discount: of gae a token; else a turn, in rl:dense and turn_gae
    lam: float = 1.0  # lambda of gae and turn_gae; below 1 credit fades, token by token or turn
    value_weight: float = 0.5  # weight of the critic's loss, with gae and turn_gae
    groups: Literal["all", "top_p", "soft"] = "all"  # learned from: uncertain ones, or those more
    top_p: float = 0.9  # share of all groups' reward std that top_p keeps; 1: all with any
    backfill: bool = False  # replace groups without variance by others, in up to 4 rounds
    format_penalty: float = 0.0  # what a turn costs in which no action can be read
    max_async_level: int = 0  # batches played ahead of learning, but not over a snapshot


@dataclass
class History:
    """What a turn shows of the turns before it; what an edit left alone is still shared."""

    thoughts: bool = True  # earlier thoughts stay
    first: int = 1  # observations shown from the start, where `last` hides some
    last: int = 0  # newest observations shown beside those; 0: all are

    def edits(self) -> bool:
        """Is anything left out?"""
        return self.last > 0 or not self.thoughts


@dataclass
class Engine:
    """vLLM, which writes the tokens of larger models on the GPU that trains them."""

    memory: float = 0.35  # share of the GPU's memory, weights included
    sleep: bool = False  # free the engine's memory during updates
    max_gap: float = 0.1  # stop where mean |log-prob of sampler - of trainer| is above; nats


@dataclass
class Config:
    """Trains the arms of a ladder on one world, evaluates each by playing, and prints the table."""

    preset: Literal["cups", "smoke", "errand", "logs", "paper", "qwen3-4b", "qwen3-0.6b"] = (
        "cups"  # defaults to start from
    )
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
    think: bool = True  # a played turn may think first; --no-think opens its action at once
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
    context: int = 4096  # longest prompt with its answer; what outgrows it is cut, and counted
    micro_tokens: int = 16384  # tokens of one forward pass, padding included
    save_every: int = 5  # updates between snapshots for --resume
    threads: int = 0  # CPU threads; 0: torch's choice
    babble: Babble = field(default_factory=Babble)
    sft: SFT = field(default_factory=SFT)
    act_prm: ActPRM = field(default_factory=ActPRM)
    relabel: Relabel = field(default_factory=Relabel)
    rl: RL = field(default_factory=RL)
    history: History = field(default_factory=History)
    engine: Engine = field(default_factory=Engine)


def _llm(name: str, **knobs) -> Config:
    defaults = {
        "arms": ["base", "action_sft", "best_of_base", "act_prm"], "world": "",
        "model": "Qwen/Qwen3-4B-Instruct-2507", "lora": 32, "checkpointing": True,
        "thought_tokens": 512, "action_tokens": 256, "context": 8192, "eval_temperature": 0.7,
        "sft": SFT(lr=1e-4, epochs=2), "rl": RL(lr=4e-5, finetune_lr=4e-5),
        "act_prm": ActPRM(lr=4e-5, batch=16, reward="action_prob_mean", advantage="mean_std",
                          trained_on="thought", patience=4),
    }  # fmt: skip
    return Config(preset=name, **{**defaults, **knobs})


_PLAYS = {"world": "cups", "arms": ["base", "act_prm", "rl"]}
PRESETS = {
    "cups": Config(),
    "smoke": Config(
        preset="smoke", arms=["base", "act_prm"], world_args=["rounds=1", "swaps=3"],
        num_demos=256, episodes=200, babble=Babble(batch=32, updates=400), sft=SFT(batch=32),
        act_prm=ActPRM(batch=32, updates=15, lr=5e-4),
    ),
    "errand": Config(
        preset="errand", world="errand", thought_tokens=12,
        babble=Babble(updates=1500, batch=8, act_only=0.1),
        act_prm=ActPRM(group=16, updates=30, scored_by="base"),
        relabel=Relabel(group=16, min_reward=0.9),
    ),
    # The presets below are for a GPU and were not run on one yet. A mean over the action's tokens,
    # because the product over forty makes the posterior one-hot.
    "logs": _llm("logs"),  # a person's logs, one GPU of 80 GB
    "paper": _llm("paper", act_prm=ActPRM(  # Act-PRM as its authors run it, as far as they say
        lr=4e-5, batch=16, updates=30, reward="action_prob_mean", reward_span="turn",
    )),
    "qwen3-4b": _llm("qwen3-4b", **_PLAYS),  # one GPU of 80 GB
    "qwen3-0.6b": _llm(  # all weights trained, one GPU of 24 GB
        "qwen3-0.6b", model="Qwen/Qwen3-0.6B", lora=0, micro_tokens=8192, **_PLAYS
    ),
}  # fmt: skip


def arms_of(config: Config) -> dict[str, list[str]]:
    """The arms to run and their stages, by name; --stages is one unnamed arm."""
    if config.stages:
        return {"stages": config.stages}
    return {arm: ARMS[arm] for arm in config.arms}


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
    try:
        return {k: kind(v) for k, v in (text.split("=", 1) for text in texts)}
    except ValueError:
        fail(f"{' '.join(texts)}: write name=value, each value a {kind.__name__}")


def fail(sentence: str) -> NoReturn:
    """A user's error: one sentence, exit code 2."""
    print(sentence, file=sys.stderr)
    raise SystemExit(2)
