"""What is refused before anything is loaded, each in one sentence that names the flag.

Every number has to be finite, and in the range that its type names; names have to exist, and knobs
may not contradict each other. Knobs without any effect are refused in effects.py.
"""

import sys
from contextlib import suppress
from typing import get_args

from minprm import own
from minprm.arms.demos import examples_of
from minprm.commands.knobs import flag, ranges
from minprm.constants import ARMS, Advantage, Baseline, Config, Reward, arms_of, fail
from minprm.envs import pairs
from minprm.envs.mixed import worlds_in
from minprm.load.names import on_gpu, require_device
from minprm.load.narration import require_mixture
from minprm.run.stage_ids import kind
from minprm.several.together import started
from minprm.stages import NAMES, READ_GIVEN, READ_LEFT, STAGES
from minprm.text import instruction

CENTRED = ("max_rl", "mean", "mean_std", "asym_clip", "rloo", "opo")
# Names that others use for a loss or an advantage of ours.
NAMES_ELSEWHERE = {
    "aipo": "loss cispo",
    "ppo": "loss ppo_clip",
    "grpo": "advantage mean_std",
    "dr_grpo": "advantage mean",
    "gpg": "advantage batch",
    "reinforce": "loss pg",
    "a2c": "advantage gae",
}
MOST_STAGES = 10  # of --stages: the names of a stage's files hold all stages before it


def check_ranges(knobs: object) -> None:
    """Exits where a number of this dataclass is NaN, infinite, or out of its range."""
    for knob, value, allowed in ranges(knobs):
        fits = allowed.least <= value <= allowed.most  # never so for NaN
        limits = f"at least {allowed.least:,} and at most {allowed.most:,}"
        refuse(not fits, f"{flag(knob)} {value}: must be {limits}")


def check(config: Config) -> None:
    """Refuses what does not exist and what cannot work together."""
    check_ranges(config)
    _check_names(config)
    _check_functions(config)
    instruction.text_of(config.instruction)
    examples_of(config)
    _check_run(config)
    _check_order(config.stages)
    require_mixture(config)
    _check_act_prm(config)
    _check_rl(config)
    _check_text(config)
    for name, stage in (("act-prm", config.act_prm), ("rl", config.rl)):
        alone = stage.group < 2 and stage.advantage in CENTRED
        refuse(alone, f"--{name}.group 1: a group of one has no signal to compare")
    for name, stage in (("sft", config.sft), ("act_prm", config.act_prm), ("rl", config.rl)):
        refuse(
            trains(name, config) and config.optim.minibatches > stage.batch,
            f"--optim.minibatches {config.optim.minibatches}: a batch of {stage.batch} has no more "
            f"parts than that; ask for fewer, or for a larger {flag(name)}.batch",
        )


def refuse(impossible: object, sentence: str) -> None:
    """Ends the program with this sentence where something is impossible."""
    if impossible:
        fail(sentence)


def stages_of(config: Config) -> set[str]:
    """All stages that are run, whatever the arm."""
    return {stage for stages in arms_of(config).values() for stage in stages}


def trains(name: str, config: Config) -> bool:
    """Is there a stage with the knobs of this section?"""
    return name in map(kind, stages_of(config))


def _check_names(config: Config) -> None:
    """Arms, stages and seeds."""
    for arm in config.arms:
        refuse(arm not in ARMS, f"--arms {arm}: no such arm. Arms: {', '.join(ARMS)}")
        refuse(config.arms.count(arm) > 1, f"--arms names {arm} twice")
    stages = sorted({*NAMES, *STAGES, "demos"})
    for stage in config.stages:
        refuse(stage not in stages, f"--stages {stage}: no such stage. Stages: {', '.join(stages)}")
    refuse(len(config.stages) > MOST_STAGES, f"--stages: at most {MOST_STAGES} of them")
    for seed in config.seeds:
        refuse(config.seeds.count(seed) > 1, f"--seeds names {seed} twice")
    refuse(
        not config.seeds or not (config.arms or config.stages),
        "--seeds and --arms name at least one each",
    )


def called_here(name: str) -> str | None:
    """What we call a loss or an advantage that others call so."""
    return NAMES_ELSEWHERE.get(name.lower().replace("-", "_"))


def _check_functions(config: Config) -> None:
    """Rewards and advantages: names of ours, or functions of the user's own, which are loaded."""
    advantages = get_args(Advantage)
    for section, stage in (("act-prm", config.act_prm), ("rl", config.rl)):
        ours = called_here(stage.advantage)
        refuse(ours, f"--{section}.advantage {stage.advantage} is --{section}.{ours} here")
    own.require("--act-prm.reward", config.act_prm.reward, get_args(Reward), own.REWARD_TAKES)
    own.require("--rl.reward", config.rl.reward, ["success"], own.EPISODE_TAKES)
    own.require("--act-prm.advantage", config.act_prm.advantage, advantages, own.ADVANTAGE_TAKES)
    advantages += get_args(Baseline)
    own.require("--rl.advantage", config.rl.advantage, advantages, own.ADVANTAGE_TAKES)


def _check_order(stages: list[str]) -> None:
    """The games that synth won are learned before a stage goes back to the expert's logs."""
    won = False  # are there games that no stage has learned yet?
    for stage in stages:
        refuse(
            won and stage in READ_GIVEN,
            f"--stages synth ... {stage}: this learns the expert's logs, not those of the games "
            "that were won; put sft:thoughts before it",
        )
        won = stage == "synth" or (won and stage != "sft:thoughts")


def _check_run(config: Config) -> None:
    """What is run: stages, model and world."""
    world = bool(config.world)
    stages = stages_of(config)
    plays = any(stage.split(":")[0] in ("rl", "synth") for stage in stages)
    refuse(config.resume and config.dry_run, "--dry-run plans a new run: leave out --resume")
    refuse(
        "demos" in stages and (config.stages != ["demos"] or not world or len(config.seeds) > 1),
        "--stages demos writes a --world's expert logs: it stands alone, with one seed",
    )
    require_device(config.device, config.sampler)
    refuse(
        config.jobs > 1 and on_gpu(config.device, config.sampler),
        f"--jobs {config.jobs}: processes do not share a GPU or vLLM: leave it out, or add "
        "--device cpu --sampler transformers",
    )
    refuse(
        config.jobs > 1 and sys.platform == "win32",
        f"--jobs {config.jobs}: on Windows all arms run in one process; leave it out",
    )
    refuse(
        config.shard == "always" and config.lora,
        "--shard always with --lora: each process holds all adapters and their base; leave out one",
    )
    refuse(
        not config.think and stages & {"sft:thoughts", "sft:expert", "synth"},
        "--no-think: sft:thoughts, sft:expert and synth learn and keep turns that begin with a "
        "thought; choose other --arms",
    )
    _check_agent(config, stages)
    refuse(
        not (world or config.agent)
        and not (config.demos and config.held_out > 1 and config.model != "tiny"),
        "without a --world there must be --demos, --held-out 2 or more, and another --model than "
        "tiny, which reads worlds alone",
    )
    refuse(not world and not config.agent and plays, "rl and synth need a --world to play")
    together = config.engine.tensor_parallel
    there = started()
    refuse(
        there % together,
        f"--engine.tensor-parallel {together}: so many processes have an engine together, and "
        f"there are {there}: start {together} with torchrun, or a multiple of that",
    )


def _check_agent(config: Config, stages: set[str]) -> None:
    """An agent of the user's own plays in the place of a world."""
    if not config.agent:
        return
    own.require("--agent", config.agent, (), own.AGENT_TAKES)
    agent = f"--agent {config.agent}"
    refuse(
        (config.model == "tiny") != bool(config.world),
        f"{agent} plays in the place of a --world: leave that out; only with the embedded model, "
        "--world names the world that it has been raised on",
    )
    left = set() if "synth" in stages else READ_LEFT
    learns = sorted(stages & (READ_GIVEN | left))
    refuse(
        learns and not config.world and not config.demos,
        f"{agent}: the stage {', '.join(learns)} learns from logs, and an agent leaves none: give "
        "--demos, or use --stages rl",
    )
    refuse(
        config.history.edits(),
        f"{agent} decides itself what the model reads: leave out --history",
    )
    refuse(
        started() > 1,
        f"{agent} with torchrun: agents would play in each process: start one process",
    )


def _check_act_prm(config: Config) -> None:
    act_prm = config.act_prm
    refuse(
        act_prm.thoughts_from == "state" and act_prm.trained_on == "action_first",
        "--act-prm.trained-on action_first needs --act-prm.thoughts-from state_action",
    )
    refuse(
        act_prm.continues == "resample" and act_prm.advantage not in ("posterior", "none"),
        "--act-prm.continues resample weighs by survival: --act-prm.advantage posterior",
    )
    of_thoughts_alone = act_prm.reward == "exact_match" or own.reads_texts(act_prm.reward)
    refuse(
        act_prm.baseline == "no_thought" and (act_prm.continues != "best" or of_thoughts_alone),
        "--act-prm.baseline no_thought compares a thought with its step without a thought: it "
        "needs --act-prm.continues best, and a reward as --act-prm.reward action_prob",
    )


def _check_rl(config: Config) -> None:
    rl = config.rl
    several_steps = config.optim.passes * config.optim.minibatches > 1  # on each batch
    refuse(
        rl.group < 2 and (rl.groups != "all" or rl.backfill),
        "--rl.groups and --rl.backfill choose groups by their variance: --rl.group 2 or more",
    )
    refuse(
        rl.format_penalty > 0 and rl.advantage in ("posterior", "max_rl"),
        f"--rl.format-penalty with {rl.advantage}: its weights are shares of rewards above 0",
    )
    refuse(
        own.is_own(rl.reward) and stages_of(config) & {"rl:dense", "rl:sum"},
        f"--rl.reward {rl.reward} is of a whole episode, and rl:dense and rl:sum are paid at each "
        "turn: use rl",
    )
    refuse(
        rl.max_async_level > 0 and config.engine.sleep,
        "--engine.sleep with --rl.max-async-level: an engine that plays ahead never sleeps",
    )
    refuse(
        rl.kl_to == "sampler" and rl.correction != "none",
        "--rl.kl-to sampler with --rl.correction, which forgets what the sampler found: use one",
    )
    refuse(
        rl.kl_to == "sampler" and not several_steps and not rl.max_async_level,
        "--rl.kl-to sampler does nothing where the weights that sampled are those that learn: it "
        "needs --optim.passes or --optim.minibatches above 1, or a batch played ahead",
    )


def _check_text(config: Config) -> None:
    """The world `text` pays a reward that `rl` would never see: there success is the reference."""
    texts: list[str] = []
    with suppress(ValueError):  # where it is made, a bad entry of mixed is refused by its text
        texts = dict(worlds_in(config.world, config.world_args)).get("text", [])
    knobs = pairs(texts, str)
    reward = knobs.get("reward", "exact_match")
    stages = stages_of(config)
    unpaid = stages & {"rl", "rl:finetune"} and "rl:dense" not in stages and "enough" not in knobs
    unpaid = unpaid and config.rl.reward == "success"
    place = "by --world-args enough=0.5"
    if config.world == "mixed":
        place = "by enough=0.5 in its entry of worlds="
    refuse(
        unpaid and reward != "exact_match",
        f"rl is paid by success, and not by the reward {reward}: use the stage rl:dense (--arms "
        f"rl_dense), or say {place} which reward is a success",
    )


def idle_patience(config: Config) -> dict[str, str]:
    """The sections whose early stopping has nothing to go by, no held-out demos and no tasks that
    are played, and a sentence about each."""
    sentences = {}
    for name, stage in (("sft", config.sft), ("act_prm", config.act_prm), ("rl", config.rl)):
        measured, tasks = "success on --eval-tasks tasks", config.eval_tasks
        if name == "act_prm" and config.act_prm.best_by == "held_out_reward":
            measured, tasks = "reward on --held-out demos", config.held_out
        if stage.patience and trains(name, config) and not (config.eval_every and tasks):
            goes_by = f"{flag(name)}.patience goes by the {measured}, every --eval-every updates"
            sentences[name] = goes_by
    return sentences
