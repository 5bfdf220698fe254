"""Who trains what, in which order: the stages by name, arms of stages, and the ladder of all arms.

Every arm starts from the same base model and the same demos. A stage takes the policy and the demos
that the stage before it left, and leaves its own. Arms that begin alike share their beginnings: a
stage is known by its stage_id, which is all stages up to it, joined by "+".
"""

import json
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from loguru import logger
from transformers import AutoTokenizer

from minprm.constants import Config, arms_of, fail, reads_base
from minprm.data import Demo
from minprm.envs import make_world
from minprm.evaluation import evaluate, reference_rows, replay, summary
from minprm.model import tiny
from minprm.model.agent import make_agent
from minprm.model.check import check
from minprm.model.load import base_of, load_model, pretrained
from minprm.model.policy import Policy
from minprm.play import expert_demos
from minprm.run.log import Log, write_atomically
from minprm.run.prefetch import Prefetch
from minprm.run.randomness import noise_seed
from minprm.run.snapshots import Snapshots
from minprm.stages.act_prm import RESAMPLE, act_prm
from minprm.stages.relabel import copy, relabel, sample, shuffle
from minprm.stages.rl import rl, synth
from minprm.stages.sft import sft
from minprm.text.chat import Chat
from minprm.text.logs import read_demos, split_tasks
from minprm.trainer import Run

# Each stage is a function of (run, stage_id). What stands after the colon is a variant.
STAGES: dict[str, Callable[[Run, str], None]] = {
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
    "rl:finetune": partial(rl, finetune=True),
    "synth": synth,
}


def ladder(
    cfg: Config, log: Log, checkpoints: Path, on_save: Callable[[], None] = lambda: None
) -> dict[str, list[dict]]:
    """Runs every arm of every seed that ladder.json does not hold yet. Returns all its rows.

    on_save is called after each snapshot.
    """
    # ladder.json is written after every arm, so a killed run loses one arm at most
    path = log.folder / "ladder.json"
    rows = json.loads(path.read_text()) if path.exists() else {}
    for seed in cfg.seeds:
        missing = [arm for arm in arms_of(cfg) if not _has(rows, arm, seed)]
        if not missing and (_has(rows, "expert", seed) or not cfg.world):
            continue  # all of this seed is done
        run = start(cfg, seed, log, checkpoints, on_save)
        stop_on_ctrl_c(run)
        for arm in missing:
            row = run_arm(run, arm, arms_of(cfg)[arm], checkpoints / cfg.run)
            rows.setdefault(arm, []).append(row)
            write_atomically(path, json.dumps(rows, indent=1))
            logger.info(f"seed {seed}  {arm}: success {row['success']:.3f}")
        if cfg.world:  # no score stands without random play and the expert beside it
            for name, row in reference_rows(cfg, seed).items():
                rows.setdefault(name, []).append(row)
        write_atomically(path, json.dumps(rows, indent=1))
    return {arm: rows[arm] for arm in ["random", *arms_of(cfg), "expert"] if arm in rows}


def run_arm(run: Run, name: str, stages: list[str], checkpoints: Path) -> dict:
    """Runs the stages, saves the model, plays the evaluation tasks. Returns a row of the ladder."""
    # every arm starts from the base model and the logs of actions, whatever ran before it
    policy = run.agent.policy
    policy.restart()
    run.demos = run.train_demos
    seconds = 0.0
    for i in range(len(stages)):
        seconds += run_stage(run, "+".join(stages[: i + 1]))
    policy.save(checkpoints / f"{name}-{run.seed}")
    run.sync()
    # the same tasks and the same noise for all arms: what differs is what was learned
    noise = noise_seed(run.seed, "evaluate", 0)
    if run.cfg.world:
        episodes = evaluate(run.agent, run.cfg, noise)
        row = {"episodes": len(episodes), **summary(episodes)}
    else:
        row = replay(run.agent, run.cfg, run.held_out, noise)
    return {"seed": run.seed, **row, "seconds": round(seconds, 1)}


def run_stage(run: Run, stage_id: str) -> float:
    """Runs the last stage of the id, or loads its result if it ran before.

    Returns the seconds that it took, then or now.
    """
    saved = run.snapshots.load(stage_id)
    if saved.get("done"):  # by an arm that began alike, or before this process was started
        run.agent.policy.load(saved["model"])
        run.demos = saved["demos"]
        return saved["seconds"]
    began = time.perf_counter() - saved.get("seconds", 0.0)
    run.log.rewind(run.seed, stage_id, saved.get("update", 0))
    run.sync()  # the policy may have restarted
    stage = STAGES[stage_id.split("+")[-1]]
    stage(run, stage_id)
    seconds = time.perf_counter() - began
    # what the next stage starts from: the weights, and the demos that this one left
    weights = run.agent.policy.weights()
    run.snapshots.save(stage_id, done=True, seconds=seconds, demos=run.demos, model=weights)
    logger.info(f"seed {run.seed}  {stage_id}  {seconds:.1f} s")
    return seconds


def start(
    cfg: Config, seed: int, log: Log, checkpoints: Path, on_save: Callable[[], None] = lambda: None
) -> Run:
    """The run of one seed before its first stage: base model, demos, agent."""
    began = time.perf_counter()
    policy = base_policy(cfg, seed, checkpoints)
    logger.info(f"seed {seed}: base model ready in {time.perf_counter() - began:.1f} s")
    demos = demos_of(cfg, seed)
    agent = make_agent(
        policy.model,
        policy.tokenizer,
        cfg,
        tools=any(demo.tools for demo in demos),
        policy=policy,
        own_weights=cfg.rl.max_async_level > 0,
    )
    check(agent)
    # a task is on one side only, with all of its demos
    train_demos, held_out = split_tasks(_fitting_demos(demos, agent.chat, cfg), cfg.held_out)
    return Run(
        cfg=cfg,
        seed=seed,
        agent=agent,
        train_demos=train_demos,
        held_out=held_out,
        log=log,
        snapshots=Snapshots(checkpoints / cfg.run / "stages", seed, on_save),
        prefetch=Prefetch(cfg.rl.max_async_level),
        demos=train_demos,
    )


def base_policy(cfg: Config, seed: int, checkpoints: Path) -> Policy:
    """The model that every arm starts from: the embedded one of this seed, or --model."""
    if cfg.model != "tiny":
        _, rank = base_of(cfg.model)
        if rank and reads_base(cfg):  # it would be read with the adapters off, not as they begin
            fail(
                f"--model {cfg.model} holds adapters: the model under them is not what this run "
                "starts from; use --*.kl-to sampler and --act-prm.scored-by policy"
            )
        tokenizer = pretrained(AutoTokenizer, cfg.model)
        model = load_model(cfg.model, cfg.lora, cfg.checkpointing, seed)
        return Policy(model, tokenizer, cfg.micro_tokens)
    world = make_world(cfg)
    policy = tiny.raised(world, cfg.tiny, seed, cfg.micro_tokens, checkpoints)
    # a base without the world's skills would make every number that follows meaningless
    skills = tiny.gate(policy, world, cfg.thought_tokens)
    tiny.check_gate(skills, stop=cfg.gate)
    return policy


def demos_of(cfg: Config, seed: int) -> list[Demo]:
    """The demos of --demos, or those that the world's expert leaves."""
    if cfg.demos:
        demos = read_demos(cfg.demos)
    else:
        demos = expert_demos(cfg, seed, cfg.num_demos + cfg.held_out)
    if cfg.actions_only:
        demos = [demo.without_thoughts() for demo in demos]
    return demos


def _fitting_demos(demos: list[Demo], chat: Chat, cfg: Config) -> list[Demo]:
    """The demos up to where they outgrow the context; those that do so at once are left out."""
    fit = [_until_it_fits(demo, chat, cfg) for demo in demos]
    cut = sum(len(short.steps) < len(demo.steps) for demo, short in zip(demos, fit, strict=True))
    if cut:
        logger.warning(f"{cut} of {len(demos)} logs are cut where they outgrow --context")
    fit = [demo for demo in fit if demo.steps]
    if not fit:
        fail(f"--context {cfg.context} does not hold the first step of any log")
    return fit


def _until_it_fits(demo: Demo, chat: Chat, cfg: Config) -> Demo:
    """The log up to where it would outgrow the context, if each thought were as long as it may."""
    length = 0
    for i, step in enumerate(demo.steps):
        ids = chat.state(step.state, demo.tools, first=i == 0)
        ids += chat.turn([], chat.action(step.action))
        length += len(ids) + cfg.thought_tokens
        if length > cfg.context:
            return demo.until(i)
    return demo


def stop_on_ctrl_c(run: Run) -> None:
    """Ctrl-C ends the update in progress and saves the stage. A second one ends at once."""

    def handler(*_):
        run.stopping = True
        logger.info("stopping after this update, or where batches are played ahead a later one")
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    signal.signal(signal.SIGINT, handler)


def _has(rows: dict, arm: str, seed: int) -> bool:
    return any(row["seed"] == seed for row in rows.get(arm, []))
