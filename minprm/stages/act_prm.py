"""Act-PRM: sample thoughts for logged steps, score each by the expert's action, credit them.

Everything is batched over demos x G. Ids that were sampled are kept as they were drawn.
"""

import math
import random
from collections import Counter
from dataclasses import dataclass, field

import torch
from torch import Tensor

from minprm import algorithms
from minprm.constants import ActPRM, History
from minprm.data import Demo, Sample, Step, chain
from minprm.model.policy import Policy
from minprm.model.sampler import Sampler
from minprm.stages.rl import returns_to_go
from minprm.text.chat import Chat, Turn


@dataclass(eq=False)
class Thought:
    """A sampled thought: all ids before the closing tag, untrimmed; `closed`: it was drawn."""

    path: "Path"  # what came before
    ids: list[int]
    logprobs: list[float]  # of ids, and of the closing tag where it was drawn
    closed: bool
    readable: bool  # closed, and text alone: what is not earns nothing and is left out of the path
    reward: float = 0.0
    credit: float = 0.0  # what the advantage is computed from: the reward, or what became of it
    advantage: float = 0.0


@dataclass(eq=False)
class Path:
    """A logged episode up to now, as it will be deployed, with the thoughts chosen for it."""

    turns: list[Turn] = field(default_factory=list)
    thoughts: list[Thought] = field(default_factory=list)
    history: Sample = field(default_factory=Sample)  # what the next thought reads


@dataclass(eq=False)
class Group:
    """G thoughts of one logged step."""

    demo: int
    step: Step
    action: list[int]
    thoughts: list[Thought]


def think(
    demos: list[Demo], chat: Chat, sampler: Sampler, policy: Policy, cfg: ActPRM, shown: History,
    max_tokens: int, temperature: float, seed: int,
) -> tuple[list[Group], list[list[Path]]]:  # fmt: skip
    """Walks the logs, G thoughts a step, each scored by the expert's action.

    Returns the groups, with credit, and for each demo its paths: one for `best`, G for the others.
    """
    sampler.begin()
    width = 1 if cfg.continues == "best" else cfg.group
    paths = [[Path()] * width for _ in demos]
    groups, known, rng = [], {}, random.Random(seed)
    for t in range(max(len(demo.steps) for demo in demos)):
        live = [d for d, demo in enumerate(demos) if t < len(demo.steps)]
        states: dict[int, tuple[list[int], ...]] = {}
        actions = {d: chat.action(demos[d].steps[t].action) for d in live}
        for d in live:
            states[d] = chat.asked(demos[d].steps[t].state, demos[d].tools, t == 0)
            for path in paths[d]:
                past = chat.history(path.turns, shown)
                path.history = chain([*past, states[d][0]], known)
        flat = [path for d in live for path in paths[d]]
        hints = [actions[d] for d in live for _ in paths[d]]
        prompts = [_prompt(path, a, chat, cfg) for path, a in zip(flat, hints, strict=True)]
        drawn = sampler.generate(
            prompts, cfg.group // width, max_tokens, chat.stop, temperature, seed + t
        )
        thoughts = [_thought(p, c, chat) for p, cs in zip(flat, drawn, strict=True) for c in cs]
        new = []
        for i, d in enumerate(live):
            members = thoughts[i * cfg.group : (i + 1) * cfg.group]
            new.append(Group(d, demos[d].steps[t], actions[d], members))
        _score(new, chat, sampler, policy, cfg, seed + t)
        for group in new:
            asked = states[group.demo]
            paths[group.demo] = _advance(paths[group.demo], group, asked, chat, cfg, rng.random())
        groups += new
    _credit(groups, paths, cfg)
    return groups, paths


def _prompt(path: Path, action: list[int], chat: Chat, cfg: ActPRM) -> list[int]:
    shown = cfg.thoughts_from == "state_action"
    hint = [*chat.bare, *action, *chat.act_end] if shown else []
    return path.history.whole() + hint + chat.think


def _thought(path: Path, completion, chat: Chat) -> Thought:
    closed = completion.ids[-1:] == chat.stop
    ids = completion.ids[:-1] if closed else completion.ids
    return Thought(path, ids, completion.logprobs, closed, closed and chat.clean(ids))


def _score(groups: list[Group], chat, sampler, policy, cfg: ActPRM, seed: int) -> None:
    """Writes r(z). What is not readable keeps its 0."""
    rows = [(g, z) for g in groups for z in g.thoughts if z.readable]
    if not rows:
        return
    if cfg.reward == "exact_match":
        turns = [chat.opening(z.ids) for _, z in rows]
        prompts = [z.path.history.whole() + t for (_, z), t in zip(rows, turns, strict=True)]
        limit = max(len(g.action) for g in groups) + len(chat.act_end + chat.end)
        drawn = sampler.generate(prompts, 1, limit, chat.end[-1:], 1.0, seed)
        texts = [chat.parse(t + c.ids)[1] for t, (c,) in zip(turns, drawn, strict=True)]
        found = zip(texts, (g.step.action for g, _ in rows), strict=True)
        rewards = [algorithms.exact_match(text, action) for text, action in found]
    else:
        samples = [_scored(g, z, chat, cfg) for g, z in rows]
        l = policy.logprobs(samples, base=cfg.scored_by == "base")
        rewards = [algorithms.REWARDS[cfg.reward](x) for x in l]
    for (_, z), r in zip(rows, rewards, strict=True):
        z.reward = r * math.exp(-cfg.length_penalty * len(z.ids))


def _scored(group: Group, z: Thought, chat: Chat, cfg: ActPRM) -> Sample:
    """The expert's action after this thought; the mask is the span that the reward reads."""
    tags = 0.0 if cfg.reward_span == "turn" else None
    sample = Sample(parent=z.path.history).extend([*chat.think, *z.ids, *chat.think_end])
    sample.extend(chat.act, tags).extend(group.action, 0.0)
    return sample.extend(chat.act_end + chat.end, tags)


def _advance(paths, group: Group, asked, chat: Chat, cfg: ActPRM, u: float) -> list[Path]:
    """What the next step sees: the best thought, each path its own, or survivors."""
    r = torch.tensor([z.reward for z in group.thoughts])
    if cfg.continues == "best":
        return [_committed(paths[0], group.thoughts[int(r.argmax())], group, asked, chat)]
    pairs = zip(paths, group.thoughts, strict=True)
    made = [_committed(p, z, group, asked, chat) for p, z in pairs]
    if cfg.continues == "own":
        return made
    return [made[i] for i in systematic_resample(r, u)]


def _committed(path: Path, z: Thought, group: Group, asked, chat: Chat) -> Path:
    """The path one turn longer."""
    ids = z.ids if z.readable else None
    turn = Turn(*asked, chat.turn(ids, group.action), chat.turn(None, group.action))
    return Path([*path.turns, turn], [*path.thoughts, z], path.history)


def _credit(groups: list[Group], paths: list[list[Path]], cfg: ActPRM) -> None:
    """best: the reward itself. own: rewards to go. resample: how many of the last particles descend
    from this thought, so that `posterior` becomes the smoothed posterior over sequences."""
    survivors = Counter(id(z) for many in paths for path in many for z in path.thoughts)
    for z in (z for group in groups for z in group.thoughts):
        z.credit = z.reward if cfg.continues == "best" else float(survivors[id(z)])
    if cfg.continues == "own":
        for path in (path for many in paths for path in many):
            rewards = torch.tensor([z.reward for z in path.thoughts])
            togo = returns_to_go(rewards, gamma=1.0)
            for z, r in zip(path.thoughts, togo.tolist(), strict=True):
                z.credit = r


def systematic_resample(w: Tensor, u: float) -> list[int]:
    """Ancestors of G particles, in proportion to w, from one uniform u in [0, 1).  [G] -> indices

    Particle i survives floor or ceil of G w_i / sum(w) times: the least noise of the usual schemes
    (Douc et al., arXiv:cs/0507025). Where every weight is 0 nobody dies.

    >>> systematic_resample(torch.tensor([0.1, 0.8, 0.1, 0.0]), u=0.9)
    [1, 1, 1, 2]
    """
    if w.sum() <= 0:
        return list(range(len(w)))
    edges = (w.double() / w.double().sum()).cumsum(0)
    points = (torch.arange(len(w), dtype=torch.float64) + u) / len(w)
    last = int(w.nonzero().max())  # rounding must not resurrect a particle of weight 0
    return torch.searchsorted(edges, points, right=True).clamp(max=last).tolist()


def effective_sample_size(w: Tensor) -> float:
    """(sum w)^2 / sum w^2: how many particles carry the weight; 0 if none.  [G] -> scalar"""
    return (w.sum() ** 2 / w.square().sum()).item() if w.sum() > 0 else 0.0


def credited(groups: list[Group], chat: Chat, cfg: ActPRM, version: int) -> list[Sample]:
    """Samples of all groups. Rewards stay rewards; samples carry advantages.

    A baseline may be subtracted on the thought's tokens, which were sampled (a score function), and
    not on the expert's action, which was not: that always carries the posterior weight.
    """
    orders = {"action_first": ["action_first"], "both": ["natural", "action_first"]}
    credits = [torch.tensor([z.credit for z in group.thoughts]) for group in groups]
    lengths = [torch.tensor([float(len(z.ids)) for z in group.thoughts]) for group in groups]
    weights = algorithms.advantages(credits, cfg.advantage, cfg.top_k, lengths)
    samples = []
    for group, r, many in zip(groups, credits, weights, strict=True):
        rows = zip(group.thoughts, many.tolist(), algorithms.posterior(r).tolist(), strict=True)
        for z, z.advantage, w in rows:
            for order in orders.get(cfg.trained_on, ["natural"]):
                samples.append(_trained(group, z, z.advantage, w, order, chat, cfg, version))
    return samples


def _trained(group, z: Thought, a: float, w: float, order: str, chat, cfg, version) -> Sample:
    """One thought as a Sample. Only in the order in which it was drawn does it have a ratio."""
    natural = order == "natural"
    drawn = z.logprobs if natural == (cfg.thoughts_from == "state") else None
    acted = w if cfg.trained_on != "thought" and z.closed else None
    rest = chat.think_end[1:]  # of a spelled tag, what follows the token that was drawn
    act = [*(rest + chat.act if natural else chat.bare), *group.action, *chat.act_end]
    sample = Sample(version=version, parent=z.path.history)
    if not natural:
        sample.extend(act, acted)
    sample.extend(chat.think).extend(z.ids + chat.stop * z.closed, a, drawn)
    if acted is not None:
        sample.extend((act if natural else rest) + chat.end, acted)
    return sample


def relabelled(
    demo: Demo, groups: list[Group], paths: list[Path], chat: Chat, continues: str, keep: int
) -> list[Demo]:
    """The `keep` best copies: j-th best thought of every step, or the best whole lineages."""
    if continues == "best":
        ranked = [sorted(g.thoughts, key=lambda z: -z.reward) for g in groups]
        return [written(demo, [r[j] for r in ranked], chat) for j in range(keep)]
    lineages = {tuple(map(id, p.thoughts)): p.thoughts for p in paths}.values()
    best = sorted(lineages, key=lambda zs: -min(z.reward for z in zs))
    return [written(demo, thoughts, chat) for thoughts in best[:keep]]


def written(demo: Demo, thoughts: list[Thought], chat: Chat) -> Demo:
    """The log with these thoughts. One that is no text (cut, or with a control token) is empty."""
    texts = [chat.text(z.ids if z.readable else []) for z in thoughts]
    return demo.with_thoughts(texts, [z.reward for z in thoughts])


def shown(groups: list[Group], chat: Chat) -> list[dict]:
    """Whole groups, for people to read."""
    return [
        {"state": g.step.observation(), "action": g.step.action,
         "group": [{"thought": chat.text(z.ids), "reward": z.reward, "advantage": z.advantage}
                   for z in g.thoughts]}
        for g in groups
    ]  # fmt: skip


def group_metrics(groups: list[Group], chat: Chat) -> dict[str, float]:
    """What to watch while thoughts are learned; README says what each looks like when broken."""
    r = torch.tensor([[z.reward for z in g.thoughts] for g in groups])  # [groups, G]
    pairs = [(g, z) for g in groups for z in g.thoughts]
    copied = [
        algorithms.copies(chat.text(z.ids), g.step.action, g.step.observation()) for g, z in pairs
    ]
    return {
        "reward/mean": r.mean().item(),
        "reward/best": r.max(1).values.mean().item(),
        "reward/std": r.std(1, correction=0).mean().item(),
        "reward/no_variance": (r.max(1).values == r.min(1).values).float().mean().item(),
        "reward/effective_sample_size": sum(map(effective_sample_size, r)) / len(r),
        "policy/thought_length": sum(len(z.ids) for _, z in pairs) / len(pairs),
        "policy/unclosed": sum(not z.closed for _, z in pairs) / len(pairs),
        "policy/copy_rate": sum(copied) / len(copied),
    }
