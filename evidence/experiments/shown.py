"""The best of some thoughts, drawn with the action shown or without: a stage for neighbours.py."""

import re
from dataclasses import replace

from loguru import logger

from minprm.look.record import classifier
from minprm.report.files import RUNS
from minprm.stages.act_prm import Thought, Walk, portions
from minprm.stages.relabel import Relabelled, relabelled, walked
from minprm.trainer import Run


def best_of(run: Run, stage_id: str, group: int, thoughts_from: str) -> None:
    """Writes the best of `group` thoughts of each step into the logs, as relabelling does."""
    cfg = replace(run.cfg.act_prm, group=group, thoughts_from=thoughts_from, baseline="none")
    good = []
    leading = []

    def choose(walk: Walk) -> Relabelled:
        for t, step in enumerate(walk.groups):
            found = goodness(run, walk, t, step.thoughts)
            good.extend(found)
            leading.extend(g for g, z in zip(found, step.thoughts, strict=True) if z.reward > 0.5)
        return relabelled(walk, run.agent, cfg)

    logs = []
    for first, demos in portions(run.train_demos):
        logs += walked(run, stage_id, first, demos, cfg, choose)
    told(stage_id, "of all thoughts", good)
    told(stage_id, "of those that lead to the action", leading)
    run.demos = [log.demo for log in logs if log.readable]


def goodness(run: Run, walk: Walk, t: int, thoughts: list[Thought]) -> list[bool]:
    """Does each thought follow the ball from where it is? The world says so, and nobody is paid."""
    kind = classifier(run.cfg, walk.demo, t)
    return [kind(run.agent.chat.text(z.ids)) == "faithful" for z in thoughts]


def told(stage_id: str, what: str, good: list[bool]) -> None:
    """Logs a share of good thoughts. Nothing is learned from it."""
    logger.info(f"{stage_id}: {what} good {sum(good) / max(len(good), 1):.4f} ({len(good)})")


def good_thoughts(run: str) -> dict[str, list[float]]:
    """The shares that were told in a run, one a seed."""
    log = (RUNS / run / "log.txt").read_text(encoding="utf-8")
    found = {}
    for what, share in re.findall(r"(\S+: of .*) good (\S+)", log):
        found.setdefault(what, []).append(float(share))
    return found
