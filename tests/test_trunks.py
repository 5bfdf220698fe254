"""What a walk keeps of long logs (trunks.py): the same numbers, from fewer tokens."""

from types import SimpleNamespace

import pytest
import torch

from minprm.constants import Sampled
from minprm.data import Sample
from minprm.model import policy as policy_module
from minprm.model import trunks as module
from minprm.model.tree import layout
from minprm.model.trunks import Trunks
from shared.policies import policy


def log(steps: int, state: int = 20, group: int = 3) -> list[list[Sample]]:
    """The thoughts of each step of a log, as a walk meets them."""
    trunk = Sample().extend([2] * state)
    by_step = []
    for t in range(steps):
        by_step.append([Sample(parent=trunk).extend([3 + n, t % 8 + 2], 0.0) for n in range(group)])
        trunk = Sample(parent=trunk).extend([*range(2, 2 + state % 11), t % 9 + 2])
    return by_step


@pytest.fixture
def read(monkeypatch):
    """A policy, and how many tokens it reads in each pass."""
    tokens = []

    def counted(*arguments):
        rows = layout(*arguments)
        tokens.append(rows.ids.numel())
        return rows

    monkeypatch.setattr(policy_module, "layout", counted)
    return SimpleNamespace(policy=policy(), tokens=tokens)


@pytest.mark.parametrize("base", [False, True])
def test_scores_are_those_of_the_policy_and_only_what_is_new_is_read(read, base):
    p, tokens = read.policy, read.tokens
    two = [log(6), log(5, state=31)]  # the second log begins with all that the first begins with
    samples = [sample for by_step in two for group in by_step for sample in group]
    p.update(samples, Sampled(), lr=1e-2)  # now the base is another model
    kept = Trunks(p, base, least=1)
    for t in range(6):
        groups = [by_step[t] for by_step in two if t < len(by_step)]
        samples = [sample for group in groups for sample in group]
        expected = p.logprobs(samples, base=base)
        tokens.clear()
        for ours, theirs in zip(kept.logprobs(samples), expected, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)
        turn = 20 if t == 0 else 12  # what is new of the trunk; a thought has two tokens
        assert len(tokens) == len(groups) and max(tokens) <= turn + 3 * 2 + 1
    # the same trunk once more, its end and what is below an empty Sample
    again = [two[0][5][0], Sample(parent=Sample(parent=two[0][5][0].parent)).extend([4, 5], 0.0)]
    tokens.clear()
    for ours, theirs in zip(kept.logprobs(again), p.logprobs(again, base=base), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)
    assert max(tokens[:2]) <= 1 + 2


def test_short_trunks_are_read_together_and_where_memory_ends_all_is_read_anew(read, monkeypatch):
    p, tokens = read.policy, read.tokens
    by_step = log(8)
    kept = Trunks(p, False, least=60)
    for group in by_step:
        kept.logprobs(group)
    longest = len(by_step[-1][0].parent.whole())
    assert [len(ids) for ids, _ in kept.kept] == [longest]  # the shorter ones have gone
    kept = Trunks(p, False, least=longest)
    for group in by_step[:-1]:
        kept.logprobs(group)
    assert not kept.kept
    monkeypatch.setattr(module, "_memory", lambda device: 0)
    kept = Trunks(p, False, least=60)
    tokens.clear()
    for group in by_step[-2:]:
        for ours, theirs in zip(kept.logprobs(group), p.logprobs(group), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)
    assert not kept.kept and max(tokens) > longest
