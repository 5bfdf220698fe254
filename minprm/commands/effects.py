"""Which knobs have an effect, and the refusal of those that are set and have none.

`READ_BY` names the stages that read a knob, and `needs` what else has to be so.
tests/test_effects.py runs small ladders and compares: what is read has to be allowed here, and the
rest refused.
"""

from dataclasses import asdict
from typing import NamedTuple

from minprm.commands.checks import flag, refuse, stages_of
from minprm.constants import ActPRM, Config, arms_of, flat
from minprm.load.names import uses_vllm
from minprm.own import reads_texts
from minprm.run.stage_ids import reads_instruction
from minprm.several.together import several
from minprm.stages import NAMES, READ_GIVEN, READ_LEFT
from minprm.text.instruction import NOTHING

SFT = "sft:actions sft:thoughts sft:expert"
ACT_PRM = "act_prm act_prm:resample"
RELABEL = "relabel relabel:matched relabel:resample"
RL = "rl rl:dense rl:finetune"
WITHOUT_MODEL = ("copy", "shuffle")  # stages that write thoughts and run no model
OURS = {*NAMES, "demos"}

# The stages that read a knob, or a whole section of knobs. The longer name counts.
READ_BY = {
    "sft": SFT,
    "act_prm": ACT_PRM,
    "relabel": RELABEL,
    "rl": RL,
    "rl.lr": "rl rl:dense",
    "rl.finetune_lr": "rl:finetune",
    # thoughts are rewarded alike where they are learned from and where they are written down
    "act_prm.reward": f"{ACT_PRM} {RELABEL}",
    "act_prm.reward_span": f"{ACT_PRM} {RELABEL}",
    "act_prm.scored_by": f"{ACT_PRM} {RELABEL}",
    "act_prm.length_penalty": f"{ACT_PRM} {RELABEL}",
    # relabel:matched counts the thoughts that Act-PRM would have drawn
    "act_prm.updates": f"{ACT_PRM} relabel:matched",
    "act_prm.batch": f"{ACT_PRM} relabel:matched",
    "act_prm.group": f"{ACT_PRM} relabel:matched",
    # the variants :resample set these four themselves
    "act_prm.continues": "act_prm relabel relabel:matched",
    "act_prm.baseline": "act_prm",
    "act_prm.advantage": "act_prm",
    "act_prm.trained_on": "act_prm",
    "watch": f"{ACT_PRM} {RL}",
    "temperature": f"{ACT_PRM} {RELABEL} {RL} sample synth",
    "checkpointing": f"{SFT} {ACT_PRM} {RL}",
    "save_every": f"{SFT} {ACT_PRM} {RL}",
    "keep_every": f"{SFT} {ACT_PRM} {RL}",
    "eval_every": f"{SFT} {ACT_PRM} {RL}",
    "eval_tasks": f"{SFT} {ACT_PRM} {RL}",
    "engine.sleep": f"{SFT} {ACT_PRM} {RL}",
}

# --stages demos plays the world's expert, and reads nothing else
READ_BY_DEMOS = (
    "preset", "config", "run", "dry_run", "resume", "stages", "seeds", "world", "world_args",
    "episodes",
)  # fmt: skip


class Need(NamedTuple):
    """What has to be so for a knob to have an effect."""

    met: object  # is it so
    what: str  # what has to be so
    knobs: str  # that need it; `tiny.` is a whole section


def needs(config: Config) -> list[Need]:
    """What the knobs of this configuration need."""
    return [
        *_of_run(config),
        *_of_looks(config),
        *_of_logs(config),
        *_of_act_prm(config.act_prm),
        *_of_rl(config),
    ]


def _of_run(config: Config) -> list[Need]:
    embedded = config.model == "tiny"
    vllm = uses_vllm(config.sampler)
    sampled = stages_of(config) & {*ACT_PRM.split(), *RL.split()}
    return [
        Need(not config.stages, "no --stages", "arms"),
        Need(config.world, "a --world", "world_args episodes split think"),
        Need(embedded, "the embedded model", "gate tiny."),
        Need(
            not embedded,
            "a --model",
            "lora checkpointing instruction few_shot sft.keep_instruction",
        ),
        Need(config.lora, "--lora above 0", "lora_alpha lora_targets"),
        Need(vllm, "the vLLM sampler", "engine.memory engine.sleep engine.tensor_parallel"),
        Need(vllm or sampled, "the vLLM sampler, or a stage act_prm or rl", "engine.max_gap"),
        Need(
            _writes_instructed(config),
            "an arm in which the model writes before SFT, or --sft.keep-instruction",
            "instruction few_shot",
        ),
        Need(
            config.few_shot or config.instruction not in NOTHING,
            "an --instruction, or --few-shot",
            "sft.keep_instruction",
        ),
        Need(config.history.last, "--history.last above 0", "history.first"),
        Need(config.jobs == 1 or len(arms_of(config)) > 1, "several --arms", "jobs"),
        Need(
            config.jobs == 1 or not several(),
            "a run without torchrun, whose processes share out each arm",
            "jobs",
        ),
        Need(several(), "torchrun with several processes", "shard"),
    ]


def _of_looks(config: Config) -> list[Need]:
    stages = stages_of(config)
    own = stages - OURS  # a stage of a user's own may look at anything
    plays = stages & {*RL.split()}  # what is played is looked at for signs of collapse
    walks = config.held_out and stages & {*ACT_PRM.split()}
    return [
        Need(config.eval_every, "--eval-every above 0", "eval_tasks"),
        Need(
            config.eval_tasks or plays or walks or own,
            "--eval-tasks above 0, or a stage act_prm with --held-out demos, or a stage rl",
            "eval_every",
        ),
        Need(config.act_prm.patience, "--act-prm.patience above 0", "act_prm.best_by"),
    ]


def _writes_instructed(config: Config) -> bool:
    """Does a model write anything after the instruction, in a stage or when it is evaluated?"""
    for stages in arms_of(config).values():
        if reads_instruction(stages, config):
            return True
        for i, stage in enumerate(stages):
            if stage not in WITHOUT_MODEL and reads_instruction(stages[: i + 1], config):
                return True
    return False


def _of_logs(config: Config) -> list[Need]:
    stages = stages_of(config)
    own = stages - OURS  # a stage of a user's own may read anything
    logs = stages & (READ_GIVEN | READ_LEFT) or own
    expert = logs and not config.demos
    learned = stages & {*ACT_PRM.split()} or own
    return [
        Need(logs or not config.world, "a stage that learns from logs", "demos"),
        Need(config.demos, "--demos", "content skip_bad"),
        Need(
            expert or "synth" in stages,
            "a stage that learns from logs of the world's expert, or synth",
            "num_demos",
        ),
        Need(
            learned or (logs and config.demos) or not config.world,
            "the stage act_prm, or --demos to take them from",
            "held_out",
        ),
        Need(
            False,  # of SFT never: nobody sampled the demos
            "tokens that the model sampled, and nobody sampled the demos",
            "sft.loss sft.kl sft.kl_to sft.kl_target sft.correction",
        ),
    ]


def _of_act_prm(act_prm: ActPRM) -> list[Need]:
    drawn = act_prm.thoughts_from == "state" or act_prm.trained_on in ("action_first", "both")
    return [
        Need(act_prm.kl, "--act-prm.kl above 0", "act_prm.kl_to act_prm.kl_target"),
        Need(act_prm.advantage == "top_k", "--act-prm.advantage top_k", "act_prm.top_k"),
        Need(
            act_prm.reward != "exact_match",
            "another --act-prm.reward than exact_match",
            "act_prm.reward_span act_prm.scored_by relabel.min_gain",
        ),
        Need(
            not reads_texts(act_prm.reward),
            "an --act-prm.reward that does not judge the thought itself",
            "relabel.min_gain",
        ),
        Need(
            drawn,
            "--act-prm.thoughts-from state, or --act-prm.trained-on action_first or both",
            "act_prm.loss act_prm.kl act_prm.correction",
        ),
    ]


def _of_rl(config: Config) -> list[Need]:
    rl = config.rl
    stages = stages_of(config)
    critic = rl.advantage in ("gae", "turn_gae")
    discounted = critic or "rl:dense" in stages or stages - OURS
    return [
        Need(rl.kl, "--rl.kl above 0", "rl.kl_to rl.kl_target"),
        Need(rl.advantage == "top_k", "--rl.advantage top_k", "rl.top_k"),
        Need(rl.groups == "top_p", "--rl.groups top_p", "rl.top_p"),
        Need(critic, "--rl.advantage gae or turn_gae", "rl.lam rl.value_weight"),
        Need(discounted, "--rl.advantage gae or turn_gae, or the stage rl:dense", "rl.gamma"),
        Need(config.save_every > 1, "--save-every above 1", "rl.max_async_level"),
    ]


def idle(config: Config) -> dict[str, str]:
    """The knobs that have no effect in this configuration, and what each would need."""
    stages = stages_of(config)
    lacking = unmet(needs(config))
    found = {}
    for knob, _ in flat(asdict(config)):
        section = knob.split(".")[0]
        need = lacking.get(knob, lacking.get(f"{section}."))
        readers = READ_BY.get(knob, READ_BY.get(section, "")).split()
        if readers and not stages & {*readers} and stages <= OURS:
            need = f"a stage that reads it: {', '.join(readers)}"
        if stages == {"demos"} and knob not in READ_BY_DEMOS:
            need = "another stage than demos"
        if need:
            found[knob] = need
    return found


def check_effects(config: Config, given: set[str], preset: Config) -> None:
    """Refuses the knobs in `given` that have no effect.

    A knob that is switched off, or back from the preset's value to the plain default, may be given
    anywhere: it asks for nothing.
    """
    asked, usual, plain = (dict(flat(asdict(each))) for each in (config, preset, Config()))
    for knob, need in idle(config).items():
        off = asked[knob] == plain[knob] and not plain[knob]
        back = asked[knob] == plain[knob] != usual[knob]
        refuse(knob in given and not (off or back), no_effect(knob, need))


def no_effect(knob: str, need: str) -> str:
    """The sentence for a knob that is refused."""
    return f"{flag(knob)} has no effect here: it needs {need}"


def unmet(needs: list[Need]) -> dict[str, str]:
    """The knobs whose need is not met, each with that need."""
    found = {}
    for need in needs:
        if not need.met:
            found |= dict.fromkeys(need.knobs.split(), need.what)
    return found
