"""Which demos a run learns from, is stopped early by, and is scored on where there is no world.

They are read from --demos or left by the expert, put on sides by task, and cut to --context. The
logs of --few-shot, which the model is shown as turns, are read here too.
"""

from typing import TYPE_CHECKING, NamedTuple

from loguru import logger

from minprm.constants import Config, arms_of, fail, refusal
from minprm.data import Demo, Step
from minprm.envs import tools_of_world, world_class
from minprm.logs.books import AS_THEY_ARE, Reading, reading_of
from minprm.logs.files import Problem, files_of
from minprm.logs.reader import Report, read_demos, split_tasks
from minprm.play import expert_demos
from minprm.stages import READ_GIVEN, READ_LEFT
from minprm.text.actions import all_tools
from minprm.text.chat import Chat

# Stages that leave a thought at every step of the demos.
WRITERS = ("relabel", "sample", "copy", "synth")

if TYPE_CHECKING:
    from minprm.model.agent import Prompter


def logs_of(cfg: Config, seed: int) -> tuple[list[Demo], Report | None]:
    """The demos of --demos, and what there is to say of them; or those that the world's expert
    leaves, and None."""
    report = None
    demos = []
    if cfg.demos:
        demos, report = read_demos(cfg.demos, reading_of(cfg), cfg.skip_bad)
        if report.in_a_line():
            logger.info(f"--demos {cfg.demos}: {report.in_a_line()}")
    elif cfg.world and (
        world_class(cfg.world).has("expert") or any(map(_reads_logs, arms_of(cfg).values()))
    ):
        demos = expert_demos(cfg, "train", seed, cfg.num_demos)
        # split_tasks takes the last; the tasks of "seed 0" are those of --split validation
        demos += expert_demos(cfg, "validation", seed + 1, cfg.held_out)
    thoughts = [step.thought for demo in demos for step in demo.steps]
    for arm, stages in arms_of(cfg).items():
        if None in thoughts and _reads_thoughts(stages):
            fail(f"--arms {arm}: a step has no thought; this arm needs demos that have them all")
    return demos, report


def _reads_logs(stages: list[str]) -> bool:
    """Does an arm read the logs that the run was given?"""
    won = False  # has synth put games that were won in their place?
    for stage in stages:
        if stage in READ_GIVEN or (stage in READ_LEFT and not won):
            return True
        won = won or stage == "synth"
    return False


def _reads_thoughts(stages: list[str]) -> bool:
    """Does an arm learn the thoughts that the demos came with?"""
    replaced = False
    for stage in stages:
        if stage == "sft:expert" or (stage == "sft:thoughts" and not replaced):
            return True
        replaced = replaced or stage.split(":")[0] in WRITERS
    return False


def tools_of(demos: list[Demo], cfg: Config) -> list[dict]:
    """The tools of the logs; where there are none, those of the world that is played."""
    return all_tools(demos) if demos else tools_of_world(cfg)


def require_logs(path: str) -> None:
    """Exits where no file is meant by this path. What is in the files is looked into later."""
    try:
        files_of(path)
    except Problem as problem:
        fail(str(problem))


def few_shot(file: str, reading: Reading = AS_THEY_ARE, skip_bad: bool = False) -> list[Demo]:
    """The logs of a --few-shot file, read as those of --demos are, or else as they stand."""
    reading = reading._replace(keep=())
    shown: list[Demo] = []
    as_demos = refusal(_add_with_thoughts, shown, file, reading, skip_bad)
    as_it_stands = as_demos
    if as_demos and reading != AS_THEY_ARE:
        as_it_stands = refusal(_add_with_thoughts, shown, file, AS_THEY_ARE, skip_bad)
    if not as_it_stands:
        return shown
    if as_it_stands == as_demos:
        fail(f"--few-shot {as_demos}")
    fail(f"--few-shot {file}, read as --demos is: {as_demos}; as it stands: {as_it_stands}")


def _add_with_thoughts(shown: list[Demo], file: str, reading: Reading, skip_bad: bool) -> None:
    """Adds the logs of a file, read in this way. Exits where a step has no thought."""
    demos, _ = read_demos(file, reading, skip_bad)
    for number, demo in enumerate(demos, start=1):
        if any(not (step.thought or "").strip() for step in demo.steps):
            fail(
                f"{file}: a turn of log {number} has no thought, and that is what the examples are"
                " to show: write one into its reasoning_content"
            )
    shown += demos


def examples_of(cfg: Config) -> list[Demo]:
    """What `make_prompter` shows a model of --few-shot; the embedded one could not read it."""
    if cfg.model == "tiny" or not cfg.few_shot:
        return []
    return few_shot(cfg.few_shot, reading_of(cfg), cfg.skip_bad)


def require_other_tasks(demos: list[Demo], examples: list[Demo], cfg: Config) -> None:
    """Exits where a log is also an example of --few-shot: it would read its own actions."""
    tasks = {demo.task for demo in examples}
    for demo in demos:
        if demo.task in tasks:
            fail(
                f"--few-shot {cfg.few_shot}: the task {demo.task[:40]!r} is also in the demos, and"
                " they would read their own actions there: take it out of one of the two"
            )


def split(demos: list[Demo], cfg: Config) -> tuple[list[Demo], list[Demo], list[Demo]]:
    """(training, validation, test). A task is in one of them only, with all of its demos.

    Validation is for the held-out reward, by which training stops early. Test is for the score
    where there is no world: half of the tasks that are held out, which no choice was made by.
    """
    if not demos:  # a world without an expert or a user's own agent, and stages that play
        return [], [], []
    train, held_out = split_tasks(demos, cfg.held_out)
    if cfg.world or cfg.agent:
        return train, held_out, []
    tasks = len({demo.task for demo in held_out})
    if tasks < 2:
        fail(
            f"--held-out {cfg.held_out} is too few: without a --world it takes two tasks or more, "
            "one to stop early by and one for the score, and logs of another to learn from"
        )
    validation, test = split_tasks(held_out, tasks // 2)
    return train, validation, test


class Measured(NamedTuple):
    """A log, and how long the model's chat template makes it. Each log is rendered once, because
    that takes most of the time in which a run starts."""

    demo: Demo
    states: list[int]  # tokens of each step's state, without an instruction
    actions: list[int]  # tokens of each step's action
    problem: str  # the first message that the template cannot write, and why; "": it can write all


def measured(demos: list[Demo], chat: Chat) -> list[Measured]:
    """All these logs, as far as the template can write each of them."""
    return [_measured(demo, chat) for demo in demos]


def _measured(demo: Demo, chat: Chat) -> Measured:
    log = Measured(demo, [], [], "")

    def render(i: int, step: Step) -> None:
        log.states.append(len(chat.state(step.state, demo.tools, demo.action_before(i))))
        log.actions.append(len(chat.action(step.action)))

    number = 0
    for i, step in enumerate(demo.steps):
        number += len(step.state)
        why = refusal(render, i, step)
        if why:
            why = why.partition(" (the action ")[0]
            return log._replace(problem=f"message {number} (assistant): {why}")
        number += 1
    return log


def leave_out_unwritable(logs: list[Measured], report: Report) -> list[Measured]:
    """The logs that the chat template can write. The others become problems of the report."""
    writable = []
    for log, place in zip(logs, report.places, strict=True):
        if log.problem:
            report.problems.append(Problem(place, log.problem))
        else:
            writable.append(log)
    return writable


def fitting_demos(logs: list[Measured], agent: "Prompter", cfg: Config) -> list[Demo]:
    """The demos up to where they outgrow the context; those that do so at once are left out.

    Exits at one that the chat template cannot write; with --skip-bad such demos are left out.
    """
    logs = _writable(logs, cfg)
    fit = []
    cut = 0
    own = any(map(_reads_thoughts, arms_of(cfg).values()))
    for log in logs:
        demo = _until_it_fits(log, agent, cfg, own)
        cut += len(demo.steps) < len(log.demo.steps)
        if demo.steps:
            fit.append(demo)
    if cut:
        logger.warning(
            f"{cut} of {len(logs)} logs are cut where they would outgrow --context {cfg.context}, "
            f"with thoughts as long as --thought-tokens {cfg.thought_tokens} allows"
        )
    tags = len(agent.chat.act) + len(agent.chat.act_end)
    too_long = sum(max(log.actions) + tags > cfg.action_tokens for log in logs)
    if too_long:
        logger.warning(
            f"{too_long} of {len(logs)} logs have an action that is longer than --action-tokens "
            f"{cfg.action_tokens}, its tags included: allow longer ones, or the model's are cut"
        )
    if logs and not fit:
        fail(
            f"--context {cfg.context} does not hold the first step of any of these "
            f"{len(logs)} logs: choose a longer one, or fewer --thought-tokens"
            + (", or fewer examples (--few-shot)" if cfg.few_shot else "")
        )
    return fit


def _writable(logs: list[Measured], cfg: Config) -> list[Measured]:
    """The logs that the chat template can write."""
    writable = [log for log in logs if not log.problem]
    bad = [log for log in logs if log.problem]
    if bad and not cfg.skip_bad:
        way_on = "--skip-bad leaves such logs out"
        if cfg.model != "tiny":
            way_on = f"minprm logs {cfg.demos} --model {cfg.model} lists them, {way_on}"
        told = f"the log of task {bad[0].demo.task[:40]!r}, {bad[0].problem}"
        fail(f"{told} ({way_on})" if cfg.demos else told)
    if bad:
        logger.warning(
            f"{len(bad)} of {len(logs)} logs, which the template cannot write, are left out"
        )
    if bad and not writable:
        why = bad[-1].problem
        fail(f"the chat template of {cfg.model} can write none of {len(logs)} logs: {why}")
    return writable


def _until_it_fits(log: Measured, agent: "Prompter", cfg: Config, own: bool) -> Demo:
    """The log up to where it would outgrow the context, if each thought were as long as it may; or
    as it is, where an arm learns the log's own (`own`) and that is longer."""
    demo = log.demo
    around = len(agent.chat.turn([], []))
    first = demo.steps[0].state
    length = len(agent.state_ids(first, demo.tools, None)[0]) - log.states[0]
    for i, (state, action) in enumerate(zip(log.states, log.actions, strict=True)):
        longest = cfg.thought_tokens
        thought = demo.steps[i].thought
        if own and thought:
            longest = max(longest, len(agent.chat.thought(thought)))
        length += state + around + action + longest
        if length > cfg.context:
            return demo.until(i)
    return demo
