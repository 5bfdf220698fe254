"""Looks at a stage while it learns: how well it does on held-out tasks, and what its groups are.

A look draws noise of its own and moves no weight, so training is the same with it and without.
"""

import time
from collections.abc import Callable
from dataclasses import replace

from minprm.arms.checkpoint import keep_checkpoint
from minprm.arms.evaluation import evaluate, replay, summary
from minprm.look.collapse import collapse, of_play
from minprm.look.record import WatchedStates, WatchedTasks
from minprm.play import Episode
from minprm.run.randomness import noise_seed
from minprm.trainer import Run

SUCCESS = "eval/success"
# What is logged of a look, of all that an evaluation measures.
MEASURED = ("success", "likelihood", "turns", "valid", "effective", "thought_rate",
            "thought_length", "copy_rate")  # fmt: skip


class Looks:
    """What is measured and kept of one stage beside its training."""

    def __init__(
        self,
        run: Run,
        stage_id: str,
        updates: int,
        record: WatchedStates | WatchedTasks | None = None,
        held_out: Callable[[], dict[str, float]] | None = None,
    ):
        """record: what keeps groups to look at. held_out: what else held-out demos are asked."""
        self.run = run
        self.stage_id = stage_id
        self.updates = updates
        self.record = record
        self.held_out = held_out
        self.played: dict[str, float] = {}  # what the groups of this update say of collapse

    def before(self, update: int, *groups: list[list[Episode]]) -> None:
        """Called when the samples of an update are about to be made, or in RL when they are."""
        if self.record:
            self.record.before(update, *groups)
        # by the weights that move next: those that played, or one update newer where RL plays ahead
        if groups and self._is_due(update):
            agent = self.run.agent
            episodes = [e for group in groups[0] for e in group]
            self.played = collapse(agent, of_play(episodes, agent.chat))

    def after(self, update: int) -> dict[str, float]:
        """Called after an update, when nobody writes. Returns what was measured, if a look is
        due."""
        if self.record:
            self.record.after(update)
        every = self.run.cfg.keep_every
        if every and (update + 1) % every == 0:
            keep_checkpoint(self.run, self.stage_id, update + 1)
        if not self._is_due(update):
            return {}
        began = time.perf_counter()
        found = self.played | self.success()
        if self.held_out:
            found |= self.held_out()
        # what a stage does next may depend on them: all processes go by the same ones
        agreed = self.run.agent.policy.shares.agreed(found)
        return agreed | {"time/look": time.perf_counter() - began}

    def success(self) -> dict[str, float]:
        """How well the policy itself acts on validation tasks: the same ones at every look.

        Without a world it replays the held-out logs; success is then the share of steps matched.
        """
        run = self.run
        tasks = run.cfg.eval_tasks
        if not tasks:
            return {}
        noise = noise_seed(run.seed, "look", 0)
        if run.cfg.world:
            cfg = replace(run.cfg, split="validation", episodes=tasks)
            found = summary(evaluate(run.agent, cfg, noise))
        else:
            found = replay(run.agent, run.cfg, run.held_out[:tasks], noise)
        return {f"eval/{name}": found[name] for name in MEASURED if name in found}

    def _is_due(self, update: int) -> bool:
        """After the first update, where a curve begins; every --eval-every updates; at the end."""
        every = self.run.cfg.eval_every
        if not every:
            return False
        return update == 0 or (update + 1) % every == 0 or update + 1 == self.updates
