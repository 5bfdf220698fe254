"""A tiny policy over the words of cups, and samples for it to learn from."""

import pytest
import torch

from minprm.constants import Config, Tiny
from minprm.data import NAN, Sample
from minprm.envs.cups import Cups
from minprm.load import tiny
from minprm.load.pretrained import make_sampler
from minprm.model.agent import Agent, make_agent
from minprm.model.policy import Policy


def policy(micro_tokens: int = 10_000) -> Policy:
    with pytest.MonkeyPatch.context() as monkeypatch:
        for name, size in (("HEADS", 2), ("HEAD_DIM", 16), ("FFN", 32)):
            monkeypatch.setattr(tiny, name, size)
        return Policy(*tiny.untrained(Cups(), Tiny(dim=32), 0), micro_tokens)


def agent(p: Policy, cfg: Config) -> Agent:
    """The policy as an agent that is asked as `cfg` says."""
    return make_agent(p, make_sampler(p.model, cfg), cfg, tools=[])


def sample(ids, mask=None, old=NAN, advantage=1.0, parent=None) -> Sample:
    n = len(ids)
    return Sample(list(ids), mask or [True] * n, [old] * n, [advantage] * n, parent=parent)


SAMPLES = [
    sample([3, 1, 4, 1, 5], [False, True, True, False, True], advantage=0.5),
    sample([9, 2, 6], [False, True, True], advantage=-1.0),
    sample([5, 3, 5, 8, 9, 7, 9], [False] + [True] * 6, advantage=2.0),
]


def weights(p: Policy) -> torch.Tensor:
    return torch.cat([x.detach().flatten() for x in p.model.parameters()])


def branches() -> list[Sample]:
    """Four Samples, of 11 tokens where those that they share count once."""
    state = Sample().extend([1, 2, 3])
    log = Sample(parent=state).extend([4, 5])
    return [Sample(parent=log).extend([6], 1.0), Sample(parent=log).extend([7, 8], 1.0),
            Sample(parent=state).extend([9, 9], 1.0).extend([9]),
            Sample(parent=state).extend([9], 1.0).extend([9, 9])]  # fmt: skip
