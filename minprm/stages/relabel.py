"""The stages that leave logs with thoughts: the best ones, and the controls beside them.

In act_prm.py this is `relabel`. What the next stage learns from is `run.demos`. The files
runs/<run>/relabelled-*.jsonl hold it for people and for other programs.
"""

import math
import random
from dataclasses import replace
from statistics import fmean

from loguru import logger

from minprm.constants import ActPRM, fail
from minprm.data import Demo
from minprm.run.randomness import noise_seed
from minprm.stages.act_prm import Thought, Walk, walk_logs
from minprm.text.chat import Chat
from minprm.text.logs import rewrite_demos
from minprm.trainer import Run


def relabel(run: Run, stage_id: str, matched: bool = False, **changes) -> None:
    """Writes the best of some thoughts for each step into the logs.

    matched: draws as many thoughts as Act-PRM does in all, training included. `changes` are knobs
    of ActPRM that a variant of the stage sets.
    """
    cfg = run.cfg.relabel
    act = replace(run.cfg.act_prm, **changes)
    group = cfg.group
    if matched:
        drawn_in_training = act.updates * act.batch * act.group
        group += math.ceil(drawn_in_training / len(run.train_demos))
    # thoughts come from the state alone, also where training showed them the action: nobody will
    # show the agent an action when it plays
    act = replace(act, group=group, thoughts_from="state")
    run.demos = []
    for i in range(0, len(run.train_demos), 32):  # so many logs at a time, for memory's sake
        seed = noise_seed(run.seed, stage_id, i)
        walks, _ = walk_logs(run.agent, run.train_demos[i : i + 32], act, seed)
        for walk in walks:
            for demo in relabelled(walk, run.agent.chat, act, cfg.keep):
                # one bad thought spoils an episode, so a demo is as good as its worst step
                if min(step.reward for step in demo.steps) >= cfg.min_reward:
                    run.demos.append(demo)
    if not run.demos:
        fail(
            f"{stage_id}: no demo reached --relabel.min-reward {cfg.min_reward}; begin a run with "
            "a lower one, or with more updates"
        )
    reward = fmean(step.reward for demo in run.demos for step in demo.steps)
    logger.info(f"{stage_id}: {len(run.demos)} demos, mean reward {reward:.3f}")
    rewrite_demos(run.demos, run.log.folder, f"relabelled-{stage_id}-{run.seed}")


def relabelled(walk: Walk, chat: Chat, cfg: ActPRM, keep: int) -> list[Demo]:
    """The `keep` best copies of a log.

    The j-th copy holds the j-th best thought of every step, or, where paths went on side by side,
    all thoughts of the j-th best path: a path is as good as its worst thought.
    """
    if cfg.continues == "best":
        # sorted() is stable: of equal rewards the thought that was drawn first comes first
        ranked = [sorted(g.thoughts, key=lambda z: -z.reward) for g in walk.groups]
        chosen = [[thoughts[j] for thoughts in ranked] for j in range(keep)]
    else:
        # paths that survived twice hold the very same thoughts, and count once
        distinct = {tuple(map(id, path.thoughts)): path.thoughts for path in walk.paths}
        chosen = sorted(distinct.values(), key=lambda thoughts: -min(z.reward for z in thoughts))
    return [write_thoughts(walk.demo, thoughts, chat) for thoughts in chosen[:keep]]


def write_thoughts(demo: Demo, thoughts: list[Thought], chat: Chat) -> Demo:
    """The log with these thoughts. One that is no text (cut, or with a control token) is empty."""
    texts = [chat.text(z.ids if z.usable else []) for z in thoughts]
    return demo.with_thoughts(texts, [z.reward for z in thoughts])


def sample(run: Run, stage_id: str) -> None:
    """One thought for each step, unselected: the control that shows what the format alone does."""
    one = replace(run.cfg.act_prm, group=1, continues="own", thoughts_from="state")
    walks, _ = walk_logs(run.agent, run.train_demos, one, noise_seed(run.seed, stage_id, 0))
    chat = run.agent.chat
    run.demos = [write_thoughts(walk.demo, walk.paths[0].thoughts, chat) for walk in walks]


def shuffle(run: Run, stage_id: str) -> None:
    """The right style on the wrong step: thoughts are permuted over the steps of all logs."""
    thoughts = []
    for demo in run.demos:
        thoughts += [step.thought for step in demo.steps]
    random.Random(f"{run.seed} {stage_id}").shuffle(thoughts)
    shuffled = []
    for demo in run.demos:
        first = thoughts[: len(demo.steps)]
        thoughts = thoughts[len(demo.steps) :]
        shuffled.append(demo.with_thoughts(first))
    run.demos = shuffled


def copy(run: Run, stage_id: str) -> None:
    """The thought is the action: the control that shows what more tokens alone do."""
    demos = []
    for demo in run.train_demos:
        demos.append(demo.with_thoughts([step.action for step in demo.steps]))
    run.demos = demos
