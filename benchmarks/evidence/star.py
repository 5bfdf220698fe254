"""STaR, a neighbour of Act-PRM that fine-tunes on what it keeps: a stage for neighbours.py."""

import math
from dataclasses import replace

from benchmarks.evidence.shown import goodness, told
from minprm.data import Sample
from minprm.run.randomness import noise_seed, pick
from minprm.stages.act_prm import portions, walk_logs
from minprm.trainer import SUCCESS, Batch, Run, loop


def star(run: Run, stage_id: str, group: int, shown: int) -> None:
    """One round of STaR (Zelikman et al. 2022, arXiv:2203.14465).

    For each step it draws `group` thoughts from the state alone, and `shown` with the action shown
    (rationalisation). It keeps the first after which the model writes the expert's action, those
    from the state alone first; the action is hidden when it writes. A fresh base is fine-tuned on
    what was kept: steps and not logs, because a log often has a step without a thought to keep.
    """
    samples = []
    good = []
    for first, demos in portions(run.train_demos):
        seed = noise_seed(run.seed, stage_id, first)
        for walk, t, z in kept(run, demos, seed, group, shown):
            turn = run.agent.chat.turn(z.ids, walk.groups[t].action)
            samples.append(Sample(parent=z.path.history).extend(turn, 1.0))
            good += goodness(run, walk, t, [z])
    steps = sum(len(demo.steps) for demo in run.train_demos)
    told(stage_id, f"of the thoughts kept for {steps} steps", good)
    cfg = run.cfg.sft
    size = cfg.batch * steps // len(run.train_demos)  # as many steps as SFT has in an update

    def batch(update: int) -> Batch:
        return pick(samples, size, run.seed, stage_id, update), {}

    run.agent.policy.restart()
    updates = math.ceil(cfg.epochs * len(samples) / size)
    loop(run, stage_id, cfg, updates, batch, SUCCESS)


def kept(run: Run, demos: list, seed: int, group: int, shown: int) -> list:
    """(walk, step, thought) for each step that has a thought to keep."""
    cfg = replace(run.cfg.act_prm, reward="exact_match", baseline="none", group=group)
    walks, _ = walk_logs(run.agent, demos, cfg, seed)
    if shown:
        hinted = replace(cfg, thoughts_from="state_action", group=shown)
        others, _ = walk_logs(run.agent, demos, hinted, seed + 1)
        for walk, other in zip(walks, others, strict=True):
            for step, same in zip(walk.groups, other.groups, strict=True):
                step.thoughts += same.thoughts
    found = []
    for walk in walks:
        for t, step in enumerate(walk.groups):
            found += [(walk, t, z) for z in step.thoughts if z.reward][:1]
    return found
