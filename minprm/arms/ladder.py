"""Who trains what, in which order: the stages by name, arms of stages, and the ladder of all arms.

Every arm starts from the same base model and the same demos. A stage goes on with the policy that
the stage before it left, but SFT begins with the base model again. The demos that a stage left are
what sft:thoughts and shuffle read. Arms that begin alike share their beginnings: a stage is known
by its stage_id, which is all stages up to it, joined by "+".
"""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from loguru import logger

from minprm import own
from minprm.arms.about import require_row, save_checkpoint, write_about
from minprm.arms.demos import (
    examples_of,
    fitting_demos,
    logs_of,
    measured,
    require_other_tasks,
    split,
    tools_of,
)
from minprm.arms.episodes import keep_episodes, of_logs, of_world
from minprm.arms.evaluation import (
    answer_logs,
    evaluate,
    reference_rows,
    references,
    replay_summary,
    summary,
)
from minprm.constants import Config, Refused, arms_of, fail, flat
from minprm.endpoint.agents import play_of, require_room
from minprm.envs.mixed import worlds_in
from minprm.load.base import base_policy
from minprm.load.check import check
from minprm.load.pretrained import make_sampler
from minprm.logs.schemas import spelled_otherwise, tool_name
from minprm.look.failure import Hopeless
from minprm.look.log import Log, to_json, write_atomically
from minprm.look.looks import Looks, keep_checkpoints
from minprm.look.metrics import metrics, speeds
from minprm.look.record import Recorder
from minprm.model.agent import make_agent
from minprm.model.tensors import fingerprint_of_model
from minprm.play import tasks_of
from minprm.run.events import Ended
from minprm.run.prefetch import Prefetch
from minprm.run.randomness import noise_seed
from minprm.run.snapshots import Snapshots, fingerprint_of_demos
from minprm.run.stage_ids import ids_of, kind, last_stage, reads_instruction, stage_ids
from minprm.several.jobs import processes, side_by_side
from minprm.several.together import several
from minprm.stages import NAMES, RESAMPLE, STAGES
from minprm.stages.act_prm import act_prm
from minprm.stages.relabel import copy, relabel, sample, shuffle
from minprm.stages.rl import rl, synth
from minprm.stages.sft import sft
from minprm.text.actions import all_tools
from minprm.trainer import Listener, Run

# Each stage is a function of (run, stage_id). What stands after the colon is a variant.
STAGES |= {
    "act_prm": act_prm,
    "act_prm:resample": partial(act_prm, **RESAMPLE),
    "relabel": relabel,
    "relabel:matched": partial(relabel, matched=True),
    "relabel:resample": partial(relabel, **RESAMPLE),
    "sample": sample,
    "shuffle": shuffle,
    "copy": copy,
    "sft:actions": partial(sft, learns="actions"),
    "sft:thoughts": partial(sft, learns="thoughts"),
    "sft:expert": partial(sft, learns="expert"),
    "rl": rl,
    "rl:dense": partial(rl, dense=True),
    "rl:sum": partial(rl, summed=True),
    "rl:finetune": partial(rl, finetune=True),
    "synth": synth,
}


# Knobs that no stage's result depends on. All others stand in each snapshot.
WHAT_TO_RUN = (
    "preset", "config", "run", "dry_run", "resume", "arms", "stages", "seeds", "watch",
    "keep_every", "jobs", "shard",
)  # fmt: skip
TRIED = 20  # tasks of which one at least has to fit the context
Outcome = tuple[dict, list[dict]]  # of an arm: its row of the ladder, and the episodes to keep


def ladder(
    cfg: Config, log: Log, checkpoints: Path, on_save: Callable[[], None] = lambda: None
) -> dict[str, list[dict]]:
    """Runs every arm of every seed that ladder.json does not hold yet. Returns all its rows.

    on_save is called after each snapshot.
    """
    # ladder.json is written after every arm, so a killed run loses one arm at most
    path = log.folder / "ladder.json"
    rows = read_ladder(path)
    for seed in cfg.seeds:
        missing = [arm for arm in arms_of(cfg) if not _has(rows, arm, seed)]
        if not missing and all(_has(rows, name, seed) for name in references(cfg)):
            continue  # all of this seed is done
        run = None  # lets go of the model of the seed before: there may be no room for two
        run = start(cfg, seed, log, checkpoints, on_save)
        _require_same(rows, run, path)
        log.open(cfg)  # what can be refused is refused by now
        for arm, (row, episodes) in _outcomes(run, missing, log, checkpoints, on_save):
            if not row:
                logger.warning(f"seed {seed}  {arm}: stopped; the run goes on without it")
                continue
            keep_episodes(log.folder, arm, seed, episodes)
            rows.setdefault(arm, []).append(row)
            rows = _in_order(rows, cfg)
            log.row(row, arm)
            write_atomically(path, to_json(rows, indent=1))
            lost = f", {row['unreadable']:.0%} of turns unreadable" if row["unreadable"] else ""
            logger.info(f"seed {seed}  {arm}: success {row['success']:.3f}{lost}")
        # no score in a world stands without random play and the expert beside it
        for name, row in reference_rows(cfg, seed).items():
            if not _has(rows, name, seed):
                rows.setdefault(name, []).append(row)
                log.row(row, name)
        rows = _in_order(rows, cfg)
        write_atomically(path, to_json(rows, indent=1))
    return rows


def _in_order(rows: dict[str, list[dict]], cfg: Config) -> dict[str, list[dict]]:
    """The rows in the order of the table, whichever arm ended first."""
    return {arm: rows[arm] for arm in ["random", *arms_of(cfg), "expert"] if arm in rows}


def _outcomes(
    run: Run, arms: list[str], log: Log, checkpoints: Path, on_save: Callable[[], None]
) -> Iterator[tuple[str, Outcome]]:
    """What each of these arms came to: one after the other, or in the order in which --jobs end."""
    jobs = processes(run.cfg, len(arms))
    stopped: set[str] = set()  # stages that could not go on, and those behind them
    outcomes: Iterator = ((arm, _outcome(run, arm, checkpoints, stopped)) for arm in arms)
    if jobs > 1:
        logger.info(f"seed {run.seed}: {len(arms)} arms in {jobs} processes")
        todo = {arm: _unfinished(run, arms_of(run.cfg)[arm]) for arm in arms}
        work = partial(_in_worker, run.cfg, run.seed, checkpoints, stopped)
        outcomes = side_by_side(work, todo, jobs, log.folder)
    for arm, (row, episodes) in outcomes:
        if jobs > 1:
            on_save()
        if not row:
            stopped |= _unfinished(run, arms_of(run.cfg)[arm])
        yield arm, (row, episodes)


def _outcome(run: Run, arm: str, checkpoints: Path, stopped: set[str]) -> Outcome:
    """What an arm came to. Its row is empty where a stage of it has said why it cannot go on."""
    stages = arms_of(run.cfg)[arm]
    if not stopped.isdisjoint(ids_of(stages)):
        return {}, []
    try:
        return run_arm(run, arm, stages, checkpoints / run.cfg.run)
    except Refused:
        if len(arms_of(run.cfg)) == 1 or several():  # of several processes all have to go on
            raise
    run.prefetch.drop()
    run.tell(Ended(arm))
    return {}, []


def _unfinished(run: Run, stages: list[str]) -> set[str]:
    """The stages of an arm that are still to be made."""
    unfinished = set()
    for stage_id in ids_of(stages):
        if not run.snapshots.state(stage_id).get("done"):
            unfinished.add(stage_id)
    return unfinished


def _in_worker(
    cfg: Config, seed: int, checkpoints: Path, stopped: set[str], log: Log
) -> Callable[[str], Outcome]:
    """What runs an arm in another process: it starts the seed there, from the same base model."""
    run = start(cfg, seed, log, checkpoints)
    return lambda arm: _outcome(run, arm, checkpoints, stopped)


def run_arm(run: Run, name: str, stages: list[str], checkpoints: Path) -> Outcome:
    """Runs the stages, saves the model, plays the evaluation tasks."""
    # every arm starts from the base model and the logs of actions, whatever ran before it
    policy = run.agent.policy
    policy.restart()
    run.demos = run.train_demos
    run.arm = name
    first = name == next(iter(arms_of(run.cfg))) and run.seed == run.cfg.seeds[0]
    if first and run.cfg.agent and run.cfg.demos:
        compare_tools(run)
    seconds = 0.0
    for stage_id in ids_of(stages):
        seconds += run_stage(run, stage_id)
    run.agent.reads_instruction = reads_instruction(stages, run.cfg)
    folder = checkpoints / f"{name}-{run.seed}"
    description = save_checkpoint(run, folder, name, stages)
    run.sync()
    # the same tasks and the same noise for all arms: what differs is what was learned
    noise = noise_seed(run.seed, "evaluate", 0)
    if run.cfg.world or run.cfg.agent:
        episodes = evaluate(run.agent, run.cfg, noise)
        row = {"episodes": len(episodes), **summary(episodes)}
        records = of_world(episodes, run.cfg, run.agent.chat, noise)
    else:
        log_answers = answer_logs(run.agent, run.cfg, run.test, noise)
        row = replay_summary(run.test, log_answers)
        records = of_logs(log_answers, run.test, run.agent.chat)
    run.tell(Ended(f"evaluate {name}"))
    made_by = run.snapshots.fingerprint()
    row = {"seed": run.seed, **row, "seconds": round(seconds, 1), "made_by": made_by}
    write_about(folder, {**description, "row": row})
    return row, records


def compare_tools(run: Run) -> None:
    """Warns before training where the agent sends other tools than the logs hold. What it sends is
    seen in an episode that it plays."""
    run.sync()
    noise = noise_seed(run.seed, "tools", 0)
    (e,) = run.play(run.agent, tasks_of("train", run.seed, 1), noise)
    learned, sent = all_tools(run.train_demos), e.world.tools
    differences = []
    for tool, how in spelled_otherwise(learned, sent).items():
        differences.append(f"the tool {tool[:60]} that it sends {how}")
    for tool in sorted({*map(tool_name, learned)} - {*map(tool_name, sent)}):
        differences.append(f"the tool {tool[:60]} of the logs is not sent")
    if e.steps and differences:
        logger.warning(
            f"--agent {run.cfg.agent} has other tools than --demos, and the model may not call them"
            f": {'; '.join(differences)}. Use logs of this agent (--stages synth, minprm record)"
        )


def run_stage(run: Run, stage_id: str) -> float:
    """Runs the last stage of the id, or loads its result if it ran before.

    Returns the seconds that it took, then or now.
    """
    saved = run.snapshots.state(stage_id)
    if saved.get("done"):  # by an arm that began alike, or before this process was started
        run.snapshots.load(stage_id, run.agent.policy)
        run.demos = run.snapshots.demos(stage_id)
        return saved["seconds"]
    began = time.perf_counter() - saved.get("seconds", 0.0)
    run.sync()  # the policy may have restarted
    stages = stage_id.split("+")
    name = stages[-1]
    run.agent.reads_instruction = reads_instruction(stages, run.cfg)
    try:
        STAGES[name](run, stage_id)
        seconds = time.perf_counter() - began
        # what the next stage starts from: the weights, and the demos that this one left
        run.snapshots.finish(stage_id, run.agent.policy, run.demos, seconds)
    except FloatingPointError as error:
        knobs = name.split(":")[0].replace("_", "-")
        fail(f"{stage_id}, seed {run.seed}: {error}".replace("--*", f"--{knobs}"))
    run.tell(Ended(stage_id))
    logger.info(f"seed {run.seed}  {stage_id}  {seconds:.1f} s")
    return seconds


def start(
    cfg: Config, seed: int, log: Log, checkpoints: Path, on_save: Callable[[], None] = lambda: None
) -> Run:
    """The run of one seed before its first stage: base model, demos, agent.

    Nothing is written but the embedded model, which other runs use too.
    """
    demos, _ = logs_of(cfg, seed)
    examples = examples_of(cfg)
    require_other_tasks(demos, examples, cfg)
    split(demos, cfg)  # what is refused is refused before the model is loaded
    began = time.perf_counter()
    policy = base_policy(cfg, seed, checkpoints)
    logger.info(f"seed {seed}: base model ready in {time.perf_counter() - began:.1f} s")
    # it may play on while the policy learns, in RL or in a stage of the user's own
    plays = any(kind(name) == "rl" or last_stage(name) not in NAMES for name in stage_ids(cfg))
    own_weights = plays and cfg.rl.max_async_level > 0
    sampler = make_sampler(policy.model, cfg, own_weights, policy.shares)
    agent = make_agent(policy, sampler, cfg, tools_of(demos, cfg), examples)
    check(agent)
    if cfg.world and not cfg.agent:  # not after hours of training
        reading = [reads_instruction(stages, cfg) for stages in arms_of(cfg).values()]
        reader = replace(agent, reads_instruction=any(reading))
        require_room(cfg, reader, tasks_of("train", seed, TRIED))
    # a task is on one side only, with all of its demos
    train_demos, held_out, test = split(fitting_demos(measured(demos, agent.chat), agent, cfg), cfg)
    made_by = {name: setting for name, setting in flat(asdict(cfg)) if name not in WHAT_TO_RUN}
    named = [cfg.agent, cfg.act_prm.reward, cfg.act_prm.advantage]
    named += [cfg.rl.reward, cfg.rl.advantage]
    for name, knobs in worlds_in(cfg.world, cfg.world_args):
        named += [name, *(knob.partition("=")[2] for knob in knobs)]
    made_by |= own.fingerprints(named)
    made_by["what the model is told"] = agent.instruction.text
    made_by["the examples"] = fingerprint_of_demos([*agent.instruction.examples])
    made_by["the base model"] = fingerprint_of_model(policy)
    made_by["the demos"] = fingerprint_of_demos([*train_demos, *held_out, *test])
    return Run(
        cfg=cfg,
        seed=seed,
        agent=agent,
        train_demos=train_demos,
        held_out=held_out,
        test=test,
        listeners=listeners(log),
        snapshots=Snapshots(
            checkpoints / cfg.run / "stages", seed, made_by, on_save, policy.shares
        ),
        prefetch=Prefetch(cfg.rl.max_async_level),
        play=play_of(cfg),
        demos=train_demos,
    )


def listeners(log: Log) -> list[Listener]:
    """Who listens to a run. What one adds to the numbers of an update, the next one reads; the log
    comes last and writes them down."""
    return [metrics, Hopeless(), Recorder(), keep_checkpoints, Looks(), speeds, log]


def read_ladder(path: Path) -> dict[str, list[dict]]:
    """The rows of each arm that ladder.json holds, or none. Exits where it is broken."""
    if not path.exists():
        return {}
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        for of_arm in rows.values():
            for row in of_arm:
                require_row(row)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        fail(f"{path} is broken ({error!r}): remove it, and its arms are evaluated again")
    return rows


def _require_same(rows: dict, run: Run, path: Path) -> None:
    """Exits where rows of this seed were made by other knobs, another base model or other demos."""
    ours = run.snapshots.fingerprint()
    for arm, of_arm in rows.items():
        for row in of_arm:
            if row["seed"] == run.seed and row.get("made_by", ours) != ours:
                fail(
                    f"{path}: {arm} of seed {run.seed} began with "
                    "another base model, other demos or other knobs; start the run anew, under "
                    "another name"
                )


def _has(rows: dict, arm: str, seed: int) -> bool:
    return any(row["seed"] == seed for row in rows.get(arm, []))
