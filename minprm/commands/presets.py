"""Defaults to start from, by name: --preset NAME. Flags and --config override them.

`small` is for a laptop. The other presets for language models are for a GPU, and were not run on
one yet. They score a thought by a mean over the action's tokens, because a product over forty is
near 0 for all thoughts but one. In that mean the tokens that are certain anyway hide the others, so
how large it is says more of the log than of the thoughts. Demos are kept by what thoughts add to
it: no less than no thought.
"""

from typing import Any

from minprm.constants import RL, SFT, ActPRM, Config, Preset, Relabel, Tiny


def language_model(name: Preset, **knobs) -> Config:
    """What the presets for language models have in common; `knobs` override it."""
    defaults = {
        "arms": ["base", "action_sft", "best_of_base", "act_prm"],
        "world": "",
        "model": "Qwen/Qwen3-4B-Instruct-2507",
        "lora": 32,
        "checkpointing": True,
        "thought_tokens": 512,
        "action_tokens": 256,
        "context": 8192,
        "eval_temperature": 0.7,
        "eval_every": 5,
        "sft": SFT(lr=1e-4, epochs=2),
        "rl": RL(lr=4e-5, finetune_lr=4e-5),
        "relabel": Relabel(min_gain=0.0),
        "act_prm": ActPRM(
            lr=4e-5, batch=16, updates=40, reward="action_prob_mean", advantage="mean_std",
            patience=4,
        ),
    }  # fmt: skip
    return Config(preset=name, **{**defaults, **knobs})


# an E-step: a thought weighs its share of the group's rewards, and the action is learned with it
POSTERIOR: dict[str, Any] = {"advantage": "posterior", "trained_on": "thought_action"}
PLAYS = {"world": "cups", "arms": ["base", "act_prm", "rl"]}
PRESETS = {
    "cups": Config(),
    # one round of three swaps, whose base has three times as many good thoughts: under a minute
    "smoke": Config(
        preset="smoke", arms=["base", "act_prm"], world_args=["rounds=1", "swaps=3"],
        num_demos=256, episodes=200, eval_every=5,
        tiny=Tiny(
            batch=32, updates=400, mixture=["faithful=.1", "wrong=.45", "restate=.35", "bare=.1"]
        ),
        sft=SFT(batch=32, epochs=5),
        act_prm=ActPRM(batch=32, updates=15, lr=5e-4, **POSTERIOR),
    ),
    # a world in which credit has to travel over steps
    "errand": Config(
        preset="errand", world="errand", thought_tokens=12,
        tiny=Tiny(updates=1500, batch=8, act_only=0.1),
        sft=SFT(epochs=5),
        act_prm=ActPRM(lr=3e-4, group=16, updates=30, scored_by="base", **POSTERIOR),
        relabel=Relabel(group=16, min_reward=0.9),
    ),
    # a person's logs, one GPU of 80 GB
    "logs": language_model("logs"),
    # a person's logs with short actions, a model of a few hundred million weights, two cores: the
    # reward is the product again, and nothing is pushed away, or eight thoughts are soon one
    "small": language_model(
        "small", model="HuggingFaceTB/SmolLM2-135M-Instruct", lora=0, checkpointing=False,
        arms=["base", "action_sft", "best_of_base_matched", "act_prm"],
        thought_tokens=40, action_tokens=32, context=1024, micro_tokens=4096, eval_temperature=0.0,
        held_out=40, eval_every=10, eval_tasks=0,
        sft=SFT(lr=5e-5, epochs=4),
        act_prm=ActPRM(lr=1e-5, updates=30, advantage="posterior"),
        relabel=Relabel(min_reward=0.5),
    ),
    # Act-PRM as its authors run it, as far as they say
    "paper": language_model("paper", act_prm=ActPRM(
        lr=4e-5, batch=16, updates=30, reward="action_prob_mean", reward_span="turn", **POSTERIOR,
    )),
    # a world, one GPU of 80 GB
    "qwen3-4b": language_model("qwen3-4b", **PLAYS),
    # a world, all weights trained, one GPU of 24 GB
    "qwen3-0.6b": language_model(
        "qwen3-0.6b", model="Qwen/Qwen3-0.6B", lora=0, micro_tokens=8192, **PLAYS
    ),
}  # fmt: skip
