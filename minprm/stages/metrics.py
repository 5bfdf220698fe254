"""What is logged of the groups of an update. report/glossary.py says what each number means."""

import math
from collections.abc import Callable
from statistics import fmean

import torch

from minprm.algorithms import effective_sample_size
from minprm.arms.demos import portions
from minprm.constants import ActPRM
from minprm.look.collapse import collapse, of_walk
from minprm.play import Episode
from minprm.run.randomness import noise_seed
from minprm.text.actions import copies
from minprm.text.chat import Chat
from minprm.trainer import Run


def check_rewards(walks: list, t: int) -> None:
    """Raises FloatingPointError, with the place, where a thought of step t earned no number.

    NaN would be taken for the best, and end in the weights.
    """
    for walk in walks:
        for z in walk.groups[t].thoughts:
            if not math.isfinite(z.reward):
                raise FloatingPointError(
                    f"task {walk.demo.task}, step {t + 1}: a thought earned {z.reward}; look for "
                    "an expert's action without any token, or for weights that are not finite"
                )


def group_metrics(groups: list, chat: Chat) -> dict[str, float]:
    """Means over the groups of an update, and over their thoughts."""
    r = torch.tensor([[z.reward for z in group.thoughts] for group in groups])  # [groups, G]
    best = r.max(1).values
    lengths = []
    unclosed = []
    copied = []
    drawn = 0
    for group in groups:
        for z in group.thoughts:
            drawn += len(z.drawn)
            lengths.append(len(z.ids))
            unclosed.append(not z.closed)
            text = chat.text(z.ids)
            copied.append(copies(text, group.step.action, group.step.observation()))
    return {
        "reward/mean": r.mean().item(),
        "reward/best": best.mean().item(),
        "reward/std": r.std(1, correction=0).mean().item(),
        "reward/no_variance": (best == r.min(1).values).float().mean().item(),
        "reward/effective_sample_size": sum(map(effective_sample_size, r)) / len(r),
        "policy/thought_length": sum(lengths) / len(lengths),
        "policy/unclosed": sum(unclosed) / len(unclosed),
        "policy/copy_rate": sum(copied) / len(copied),
        "policy/drawn_tokens": drawn,
    }


def held_out_look(run: Run, cfg: ActPRM, walk_logs: Callable) -> dict[str, float]:
    """Thoughts about held-out logs: their reward, and whether they depend on their states.

    walk_logs: that of stages/act_prm.py.
    """
    rewards: list[list[float]] = []
    collapsed: dict[str, float] = {}
    for first, demos in portions(run.held_out):
        groups = walk_logs(run.agent, demos, cfg, noise_seed(run.seed, "held out", first))[1]
        for group in groups:
            rewards.append([z.reward for z in group.thoughts])
        if first == 0:  # a few states are asked, and these are the first
            collapsed = collapse(run.agent, of_walk(groups, run.agent.chat))
        del groups  # before the next portion is walked
    return {"eval/held_out_reward": torch.tensor(rewards).mean().item(), **collapsed}


def turn_metrics(episodes: list[Episode], chat: Chat) -> dict[str, float]:
    """The same of the turns that were played: a turn without a thought has one of length 0."""
    lengths = []
    unclosed = []
    copied = []
    thoughts = []
    legal = []
    effective = []
    drawn = 0
    for e in episodes:
        for step, info, (sample, begin, end) in zip(e.steps, e.infos, e.spans, strict=True):
            drawn += end - begin
            lengths.append(info["thought_tokens"])
            unclosed.append(sample.ids[end - 1] not in chat.ends)  # cut for its length
            copied.append(copies(step.thought or "", step.action, step.observation()))
            thoughts.append(bool(step.thought))
            legal.append(info["valid"])
            effective.append(info["effective"])
    return {
        "play/turns": fmean(len(e.steps) for e in episodes),
        "play/thought_rate": fmean(thoughts),
        "play/valid": fmean(legal),
        "play/effective": fmean(effective),
        "play/outgrown": fmean(e.outgrown for e in episodes),
        "policy/thought_length": fmean(lengths),
        "policy/unclosed": fmean(unclosed),
        "policy/copy_rate": fmean(copied),
        "policy/drawn_tokens": drawn,
    }
