"""Looks at a stage while it learns: how well it does on held-out tasks, and whether it collapses.

A look draws noise of its own and moves no weight, so training is the same with it and without.
"""

import time
from dataclasses import replace

import torch
from loguru import logger

from minprm.arms.about import save_checkpoint
from minprm.arms.evaluation import evaluate, replay, summary
from minprm.constants import ActPRM
from minprm.load.threads import give_back_memory
from minprm.look.collapse import collapse, of_play, of_walk
from minprm.run.events import Began, Event, Played, Updated
from minprm.run.randomness import noise_seed
from minprm.run.stage_ids import stage_name
from minprm.stages.act_prm import portions, walk_logs
from minprm.trainer import Run

# What is logged of a look, of all that an evaluation measures.
MEASURED = ("success", "reward", "likelihood", "turns", "valid", "effective", "thought_rate",
            "thought_length", "copy_rate", "text/distinct_2")  # fmt: skip


class Looks:
    """The listener: where a look is due, it adds what it measures to the numbers of an update."""

    def __init__(self):
        self.updates = 0  # of the stage that runs
        self.played: dict[str, float] = {}  # what the episodes of this update say of collapse

    def __call__(self, run: Run, event: Event) -> None:
        match event:
            case Began():
                self.updates = event.updates
                self.played = {}
            case Played() if self._is_due(run, event.update):
                # by the weights that move next: those that played, or one update newer where RL
                # plays ahead
                episodes = []
                for group in event.groups:
                    episodes += group
                self.played = collapse(run.agent, of_play(episodes, run.agent.chat))
            case Updated() if self._is_due(run, event.update):
                began = time.perf_counter()
                give_back_memory()
                measured = self.played | success(run)
                if isinstance(event.cfg, ActPRM) and run.held_out:
                    measured |= held_out_reward(run, event.cfg)
                give_back_memory()
                # what a stage does next may depend on them: all processes go by the same ones
                event.stats |= run.agent.policy.shares.agreed(measured)
                event.stats["time/look"] = time.perf_counter() - began

    def _is_due(self, run: Run, update: int) -> bool:
        """After the first update, where a curve begins; every --eval-every updates; at the end."""
        every = run.cfg.eval_every
        if not every:
            return False
        return update == 0 or (update + 1) % every == 0 or update + 1 == self.updates


def success(run: Run) -> dict[str, float]:
    """How well the policy itself acts on validation tasks: the same ones at every look.

    Without a world it replays the held-out logs; success is then the share of steps matched.
    """
    tasks = run.cfg.eval_tasks
    if not tasks:
        return {}
    noise = noise_seed(run.seed, "look", 0)
    if run.cfg.world or run.cfg.agent:
        cfg = replace(run.cfg, split="validation", episodes=tasks)
        measured = summary(evaluate(run.agent, cfg, noise))
    else:
        measured = replay(run.agent, run.cfg, run.held_out[:tasks], noise)
    by_world = [name for name in measured if name.startswith("success/")]  # in `mixed`
    names = [name for name in MEASURED if name in measured] + by_world
    return {f"eval/{name}": measured[name] for name in names}


def held_out_reward(run: Run, cfg: ActPRM) -> dict[str, float]:
    """The reward of thoughts about held-out logs, and whether they depend on their states.

    A thought drawn with the action in view can earn its reward by naming it. The reward to believe
    is that of thoughts from the state alone, on tasks that are not trained on.
    """
    plain = replace(cfg, thoughts_from="state", continues="best", baseline="none")
    rewards: list[list[float]] = []
    collapsed: dict[str, float] = {}
    for first, demos in portions(run.held_out):
        _, groups = walk_logs(run.agent, demos, plain, noise_seed(run.seed, "held out", first))
        for group in groups:
            rewards.append([z.reward for z in group.thoughts])
        if first == 0:  # a few states are asked, and these are the first
            run.agent.sampler.begin()  # lets go of what it has read
            give_back_memory()
            collapsed = collapse(run.agent, of_walk(groups, run.agent.chat))
        del groups, _  # before the next portion is walked
    return {"eval/held_out_reward": torch.tensor(rewards).mean().item(), **collapsed}


def keep_checkpoints(run: Run, event: Event) -> None:
    """The listener of --keep-every: checkpoints/<run>/kept/<stage>-<seed>/<update>.

    A run that is killed and goes on from an older snapshot writes the same model again.
    """
    every = run.cfg.keep_every
    if isinstance(event, Began) and event.updates < every:
        logger.warning(
            f"{event.stage_id}: --keep-every {every} keeps none of its {event.updates} updates"
        )
    if not isinstance(event, Updated) or not every or (event.update + 1) % every:
        return
    updates = event.update + 1
    stage_id = event.stage_id
    checkpoints = run.snapshots.folder.parent / "kept"
    folder = checkpoints / stage_name(stage_id, run.seed) / str(updates)
    save_checkpoint(run, folder, f"{stage_id} after {updates} updates", stage_id.split("+"))
