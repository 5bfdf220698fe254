"""Do thoughts still depend on the state? A diagnosis of collapse, scored by the policy itself.

A policy can fail in two ways that the reward does not show. It may write the same thought again and
again for one state: its entropy falls. Or it may write many different thoughts, but the same ones
whatever the state is: its entropy stays, and the thoughts tell nothing of the state. RAGEN-2
(arXiv:2604.06268) calls the latter template collapse, and finds it by mutual information.

    H(Z|X)  =  - mean log p(z|x)                          how different thoughts of one state are
    I(X;Z)  =    mean log p(z|x) - log mean_x' p(z|x')    how well they tell their state from others

The means are over a few states x and thoughts z that were drawn for them; x' runs over all of these
states. A thought is counted with the token that ends it, so p(z|x) is a distribution and I is at
most log N for N states. Left out of the paper: its scores by token, its z-scores, later turns, and
the filter of prompts that it proposes (--rl.groups top_p is close to it).
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from minprm.data import Sample
from minprm.model.agent import Agent
from minprm.play import Episode
from minprm.text.chat import Chat

STATES = 8  # N at most: each thought is read after every state
THOUGHTS = 4  # of each state, at most


class Drawn(NamedTuple):
    """A thought as it was drawn, with the token that ended it."""

    state: tuple[int, ...]  # all that was read before it, the opening tag too
    ids: list[int]
    logprobs: list[float]


def collapse(agent: Agent, thoughts: list[Drawn]) -> dict[str, float]:
    """What the thoughts of a few different states say of collapse; {} for fewer than two states."""
    of_state: dict[tuple[int, ...], list[Drawn]] = {}
    for z in thoughts:
        if z.state in of_state or len(of_state) < STATES:
            of_state.setdefault(z.state, []).append(z)
    if len(of_state) < 2:
        return {}
    states = list(of_state)
    few = []
    for state in states:
        few += of_state[state][:THOUGHTS]
    samples = []  # each thought after each state
    for state in states:
        prefix = Sample().extend([*state])  # one prefix, which its thoughts share
        samples += [Sample(parent=prefix).extend(z.ids, 0.0, z.logprobs) for z in few]
    logps = [logp.sum() for logp in agent.policy.logprobs(samples, agent.temperature)]
    own = torch.tensor([states.index(z.state) for z in few])
    lengths = torch.tensor([len(z.ids) for z in few])
    return measures(torch.stack(logps).view(len(states), len(few)).T, own, lengths)


def measures(logp: Tensor, own: Tensor, lengths: Tensor) -> dict[str, float]:
    """The numbers of the table above, in nats.

    logp: of M thoughts after N states, [M, N]. own: which state each was drawn for, [M]. lengths:
    tokens of each, [M]. recognised: share of thoughts that are likelier after their own state than
    after any other; where several are equally likely, one of them is guessed.

    >>> always = torch.tensor([0.5, 0.5]).log().expand(2, 2)  # two thoughts, whatever the state is
    >>> measures(always, torch.tensor([0, 1]), torch.tensor([1, 1]))["collapse/information"]
    0.0
    """
    matched = logp.gather(1, own[:, None])[:, 0]
    anyhow = logp.logsumexp(1) - math.log(logp.shape[1])  # log mean_x' p(z|x')
    likeliest = logp == logp.max(1, keepdim=True).values
    right = likeliest.gather(1, own[:, None])[:, 0] / likeliest.sum(1)
    return {
        "collapse/entropy": -matched.mean().item(),
        "collapse/entropy_per_token": -matched.sum().item() / int(lengths.sum()),
        "collapse/information": (matched - anyhow).mean().item(),
        "collapse/recognised": right.mean().item(),
    }


def of_walk(groups: list, chat: Chat) -> list[Drawn]:
    """The thoughts of groups of Act-PRM, walked with --act-prm.continues best."""
    thoughts = []
    for group in groups:
        for z in group.thoughts:
            state = (*z.path.history.whole(), *chat.think)
            thoughts.append(Drawn(state, z.sampled, z.logprobs))
    return thoughts


def of_play(episodes: list[Episode], chat: Chat) -> list[Drawn]:
    """The closed thoughts of first turns."""
    thoughts = []
    for e in episodes:
        sample, begin, end = e.spans[0] if e.spans else (Sample(), 0, 0)
        thought, _ = chat.split(sample.ids[begin:end])
        opened = begin + len(chat.think)
        if thought is not None and sample.ids[begin:opened] == chat.think:
            closed = opened + len(thought) + 1
            state = Sample(parent=sample.parent).extend(sample.ids[:opened]).whole()
            ids, logprobs = sample.ids[opened:closed], sample.logprobs[opened:closed]
            thoughts.append(Drawn(tuple(state), ids, logprobs))
    return thoughts
