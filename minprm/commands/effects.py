"""Which knobs have an effect, and the refusal of those that are set and have none.

What a knob needs, and which stages read it, stands beside it in constants.py. tests/test_effects.py
runs small ladders and compares: what is read has to be allowed here, and the rest refused.
"""

from dataclasses import asdict
from fnmatch import filter as matching

from minprm.commands.checks import idle_patience, refuse, stages_of
from minprm.commands.knobs import flag, knobs
from minprm.constants import DRAWN, INSTRUCTED, LOOKS, SCORED, Config, Needs, ReadBy, arms_of, flat
from minprm.load.names import holds_adapters, uses_vllm
from minprm.own import reads_texts
from minprm.run.stage_ids import kind, reads_instruction
from minprm.several.together import several
from minprm.stages import NAMES, READ_GIVEN, READ_LEFT
from minprm.text.instruction import NOTHING

WITHOUT_MODEL = ("copy", "shuffle")  # stages that write thoughts and run no model
OURS = {*NAMES, "demos"}
# --stages demos plays the world's expert, and reads nothing else
READ_BY_DEMOS = (
    "preset", "config", "run", "dry_run", "resume", "stages", "seeds", "world", "world_args",
    "episodes",
)  # fmt: skip


def idle(config: Config) -> dict[str, str]:
    """The knobs that have no effect in this configuration, and what each would need."""
    settings = dict(flat(asdict(config)))
    sentences = conditions(config)
    stages = stages_of(config)
    lacking = {}
    for knob in knobs(config):
        for note in knob.notes:
            if isinstance(note, Needs):
                met, need = _need(note, knob.name, settings, sentences)
                if not met:
                    lacking[knob.name] = need
        readers = _readers(knob.notes)
        if readers and not stages & readers and stages <= OURS:
            lacking[knob.name] = f"a stage that reads it: {', '.join(sorted(readers))}"
        if stages == {"demos"} and knob.name not in READ_BY_DEMOS:
            lacking[knob.name] = "another stage than demos"
    return lacking


def _readers(notes: list) -> set[str]:
    """The stages that read a knob. Its own note comes last, and counts before its section's."""
    patterns = [note.stages for note in notes if isinstance(note, ReadBy)]
    readers = set()
    for pattern in patterns[-1] if patterns else ():
        readers.update(matching(NAMES, pattern))
    return readers


def _need(note: Needs, knob: str, settings: dict, sentences: dict) -> tuple[bool, str]:
    """(is it met, the need in words)"""
    if note.name in sentences:
        return bool(sentences[note.name]), note.name
    beside = f"{knob.rpartition('.')[0]}.{note.name}"  # in the same section
    other = beside if beside in settings else note.name
    if note.setting:
        return settings[other] in note.setting.split(" or "), f"{flag(other)} {note.setting}"
    is_number = type(settings[other]) in (int, float)
    return bool(settings[other]), f"{flag(other)} above 0" if is_number else flag(other)


def conditions(config: Config) -> dict[str, object]:
    """Is it so? Of each sentence that stands in the place of a knob beside a knob."""
    act_prm = config.act_prm
    stages = stages_of(config)
    kinds = {kind(stage) for stage in stages}
    own = stages - OURS  # a stage of a user's own may read or look at anything
    logs = stages & (READ_GIVEN | READ_LEFT) or own
    # what is played is looked at for signs of collapse
    walked = config.held_out and "act_prm" in kinds
    looks = config.eval_tasks or "rl" in kinds or walked or own
    held_out = "act_prm" in kinds or own or (logs and config.demos) or not config.world
    vllm = uses_vllm(config.sampler)
    language = config.model != "tiny"
    instructed = config.few_shot or config.instruction not in NOTHING
    one_each = len(arms_of(config)) > 1 and not several()
    drawn = act_prm.thoughts_from == "state" or act_prm.trained_on in ("action_first", "both")
    discounted = config.rl.advantage in ("gae", "turn_gae") or "rl:dense" in stages or own
    return {
        "no --stages": not config.stages,
        "a --model": language,
        "a --model with --instruction or --few-shot": language and instructed,
        INSTRUCTED.name: language and _writes_instructed(config),
        "--world or --agent": config.world or config.agent,
        "--demos or --few-shot": config.demos or (language and config.few_shot),
        # of a model that has adapters, the loading says why they have no effect
        "--lora above 0": config.lora or holds_adapters(config.model),
        "the vLLM sampler": vllm,
        "the vLLM sampler, or a stage act_prm or rl": vllm or kinds & {"act_prm", "rl"},
        "several --arms, and no torchrun that shares out each arm": one_each or config.jobs == 1,
        "torchrun with several processes": several(),
        LOOKS.name: looks,
        "a stage that learns from logs": logs or not (config.world or config.agent),
        "logs of the world's expert": (logs and not config.demos) or "synth" in stages,
        "the stage act_prm, or --demos": held_out,
        SCORED.name: act_prm.reward != "exact_match",
        "an --act-prm.reward that reads no thought": not reads_texts(act_prm.reward),
        DRAWN.name: drawn,
        "--rl.advantage gae or turn_gae, or the stage rl:dense": discounted,
        "--save-every above 1": config.save_every > 1,
    }


def _writes_instructed(config: Config) -> bool:
    """Does a model write anything after the instruction? If any does, then the first of an arm."""
    for stages in arms_of(config).values():
        with_model = [stage for stage in stages if stage not in WITHOUT_MODEL]
        if reads_instruction(with_model[:1], config):
            return True
    return False


def check_effects(config: Config, given: set[str], preset: Config) -> None:
    """Refuses the knobs in `given` that have no effect, all in one answer.

    A knob that is switched off, or back from the preset's value to the plain default, may be given
    anywhere: it asks for nothing.
    """
    for section, goes_by in idle_patience(config).items():
        refuse(f"{section}.patience" in given, f"{goes_by}: neither may be 0")
    settings, usual, plain = (dict(flat(asdict(x))) for x in (config, preset, Config()))
    sentences = []
    for knob, need in idle(config).items():
        off = settings[knob] == plain[knob] and not plain[knob]
        back = settings[knob] == plain[knob] != usual[knob]
        if knob in given and not (off or back):
            if knob == "num_demos" and config.demos:
                need += f". Of --demos all logs are read; head -n {config.num_demos} takes so many"
                need += " lines of a file"
            sentences.append(no_effect(knob, need))
    refuse(sentences, "; ".join(sentences))


def no_effect(knob: str, need: str) -> str:
    """The sentence for a knob that is refused."""
    return f"{flag(knob)} has no effect here: it needs {need}"
