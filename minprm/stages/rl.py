"""RL's rewards become advantages: episodes compared within a group, or with what a critic expected.

Rewards stay in the steps; advantages land on the tokens of a turn. What a world showed between two
turns was not sampled: it has no advantage, and no value is passed along it.
"""

import random
from collections.abc import Callable
from dataclasses import replace
from statistics import fmean

import torch
from torch import Tensor

from minprm.algorithms import GROUPS, advantages, ema
from minprm.constants import RL
from minprm.data import Sample
from minprm.envs.base import task_seed
from minprm.model.policy import Policy
from minprm.play import Episode

Group = list[Episode]  # of one task


def returns_to_go(r: Tensor, gamma: float) -> Tensor:
    """R_t = r_t + gamma R_{t+1}, over the steps of one episode.  [T] -> [T]

    >>> returns_to_go(torch.tensor([1.0, 0.0, 1.0]), gamma=0.5)
    tensor([1.2500, 0.5000, 1.0000])
    """
    out = torch.zeros_like(r)
    for t in reversed(range(len(r))):
        out[t] = r[t] + (gamma * out[t + 1] if t + 1 < len(r) else 0.0)
    return out


def gae(r: Tensor, v: Tensor, gamma: float, lam: float) -> Tensor:
    """A_t = delta_t + gamma lam A_{t+1}, delta_t = r_t + gamma v_{t+1} - v_t, v = 0 after the end.
    [T], [T] -> [T]   arXiv:1506.02438 eq. 16

    lam 1: what came minus what was expected. lam 0: one step, then trust the critic. There is no
    bootstrap: an episode that ran out of turns or of context has lost, it was not cut short.

    >>> gae(torch.tensor([0.0, 1.0]), torch.tensor([0.5, 0.5]), gamma=1.0, lam=1.0)
    tensor([0.5000, 0.5000])
    """
    delta = r + gamma * torch.cat([v[1:], torch.zeros(1)]) - v
    return returns_to_go(delta, gamma * lam)


def turn_gae(r: Tensor, v: Tensor, lengths: list[int], gamma: float, lam: float) -> Tensor:
    """GAE over turns, discounted, then over the tokens of each turn, undiscounted, whose last one
    earns the turn's return.  [turns], [T] -> [T]   RAGEN's bi-level GAE, arXiv:2504.20073

    A turn's value is that of its first token, before any of it was written (RAGEN's code reads its
    last). It ends where `lengths` says, also where its reward is 0; nothing leaks from one turn's
    tokens into another's.

    >>> turn_gae(torch.tensor([0.0, 1.0]), torch.zeros(4), [1, 3], gamma=0.5, lam=1.0)
    tensor([0.5000, 1.0000, 1.0000, 1.0000])
    """
    parts = v.split(lengths)
    start = torch.stack([part[0] for part in parts])
    earned = gae(r, start, gamma, lam) + start  # a turn's return
    turns = zip(_at_ends(earned, lengths).split(lengths), parts, strict=True)
    return torch.cat([gae(r, v, 1.0, lam) for r, v in turns])


def explained_variance(v: Tensor, target: Tensor) -> float:
    """1 - Var(R - v) / Var(R): 1 for a perfect critic, 0 for a constant one, or if R is constant.

    >>> explained_variance(torch.zeros(2), torch.tensor([0.0, 1.0]))
    0.0
    """
    spread = target.var(correction=0)
    return (1 - (target - v).var(correction=0) / spread).item() if spread > 0 else 0.0


def credit(
    groups: list[Group], cfg: RL, dense: bool, policy: Policy, baseline: float = 0.0
) -> tuple[list[Sample], dict[str, float]]:
    """(samples of an update with their advantages, what to log)."""
    std = torch.tensor([spread(group) for group in groups])
    stats = {
        "reward/paid": fmean(sum(e.rewards) for group in groups for e in group),
        "reward/std": std.mean().item(),
        "reward/no_variance": (std == 0).float().mean().item(),
    }
    if cfg.advantage in ("gae", "turn_gae"):
        stats |= _criticised(groups, cfg, policy)
    else:
        stats |= compared(groups, cfg, dense, baseline)
    weights = [1.0] * len(groups)
    if cfg.groups != "all":
        weights = GROUPS[cfg.groups](std, cfg.top_p).tolist()
    samples = []
    for group, w in zip(groups, weights, strict=True):
        for s in (s for e in group if w for s in e.samples):
            samples.append(replace(s, advantages=[w * a for a in s.advantages]))
    stats["reward/kept"] = sum(w > 0 for w in weights) / len(groups)
    oldest = min((s.version for s in samples), default=policy.version)
    return samples, stats | {"policy/staleness": (policy.version - oldest) / cfg.passes}


def paid(e: Episode, cfg: RL, dense: bool) -> list[float]:
    """Of each turn: the world's reward, or success at the last; one that broke the format pays."""
    r = [s.reward for s in e.steps]
    if not dense:
        r = [0.0] * (len(r) - 1) + [float(e.world.success)] * bool(r)
    return [x - cfg.format_penalty * (not i["formatted"]) for x, i in zip(r, e.infos, strict=True)]


def spread(group: Group) -> float:
    """Standard deviation of what the episodes of a group earned; exactly 0 where that is equal."""
    r = torch.tensor([float(sum(e.rewards)) for e in group])
    return r.std(correction=0).item() if r.max() > r.min() else 0.0


def gathered(
    play: Callable[[list[int], int], Group], cfg: RL, dense: bool, rng: random.Random
) -> tuple[list[Group], Group]:
    """(G episodes of each of an update's tasks, all that was played for them), with rewards.

    With `backfill` groups without variance, which teach nothing, are replaced by those of other
    tasks, in up to four rounds (DAPO's dynamic sampling, arXiv:2503.14476).
    """
    groups, played = [], []
    for again in range(4 if cfg.backfill else 1):
        groups = [g for g in groups if spread(g) > 0]
        seeds = [task_seed("train", rng.randrange(10**9)) for _ in range(cfg.batch - len(groups))]
        new = play([seed for seed in seeds for _ in range(cfg.group)], again) if seeds else []
        for e in new:
            e.rewards = paid(e, cfg, dense)
        groups += [new[i : i + cfg.group] for i in range(0, len(new), cfg.group)]
        played += new
    return groups, played


def compared(groups: list[Group], cfg: RL, dense: bool, baseline: float) -> dict[str, float]:
    """Writes advantages by comparing rewards within each group. Returns `ema`'s next baseline.

    Sparse: the episode's reward, on all its turns. Dense: each turn's return to go, compared with
    the same turn of the others that got so far.
    """
    rows: list[list[tuple[float, Episode, list[int]]]] = []  # (reward, whose, which turns)
    for group in groups:
        if not dense:
            rows.append([(float(sum(e.rewards)), e, [*range(len(e.steps))]) for e in group])
            continue
        togo = [returns_to_go(torch.tensor(e.rewards), cfg.gamma) for e in group]
        for t in range(max(map(len, togo))):
            there = zip(group, togo, strict=True)
            rows.append([(r[t].item(), e, [t]) for e, r in there if t < len(r)])
    r = [torch.tensor([r for r, _, _ in row]) for row in rows]
    lengths = [torch.tensor([float(e.tokens(turns)) for _, e, turns in row]) for row in rows]
    if cfg.advantage == "ema":
        all_a, baseline = ema(r, baseline)
    else:
        all_a = advantages(r, cfg.advantage, cfg.top_k, lengths)
    for row, a in zip(rows, all_a, strict=True):
        for (_, e, turns), value in zip(row, a.tolist(), strict=True):
            for t in turns:
                e.credit(t, value)
    return {"reward/baseline": baseline} if cfg.advantage == "ema" else {}


def _criticised(groups: list[Group], cfg: RL, policy: Policy) -> dict[str, float]:
    """Writes advantages, values and returns, token by token, by the critic as it is now."""
    episodes = [e for group in groups for e in group if e.spans]
    samples, seen = [s for e in episodes for s in e.samples], []
    for s in samples:
        s.values, s.returns = [0.0] * len(s.ids), [0.0] * len(s.ids)
    read = iter(policy.values(samples))
    for e in episodes:
        v = torch.cat([next(read) for _ in e.samples])  # [T]: what was sampled, turn after turn
        r, lengths = torch.tensor(e.rewards), [end - begin for _, begin, end in e.spans]
        if cfg.advantage == "turn_gae":
            a = turn_gae(r, v, lengths, cfg.gamma, cfg.lam)
        else:
            a = gae(_at_ends(r, lengths), v, cfg.gamma, cfg.lam)
        seen.append((v, a + v))
        parts = zip(e.spans, *(x.split(lengths) for x in (a, v, a + v)), strict=True)
        for (s, begin, end), *abc in parts:
            here = slice(begin, end)
            s.advantages[here], s.values[here], s.returns[here] = (x.tolist() for x in abc)
    v, target = (torch.cat(x) for x in zip(*seen, strict=True))
    return {"critic/explained_variance": explained_variance(v, target)}


def _at_ends(r: Tensor, lengths: list[int]) -> Tensor:
    """Rewards on the last token of each turn, 0 elsewhere.  [turns] -> [T]"""
    out = torch.zeros(sum(lengths))
    out[torch.tensor(lengths).cumsum(0) - 1] = r
    return out
