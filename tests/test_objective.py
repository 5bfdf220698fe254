"""What an update minimises, worked out token by token: no model is needed."""

import math

import pytest
import torch
from torch import tensor

from minprm.constants import RL, Sampled, Training
from minprm.data import Sample
from minprm.model.objective import VALUE_WEIGHT, MicroBatch, make_batch, objective
from minprm.zoo import LOSSES

NAN = float("nan")
LOGP = [-0.5, -1.0, -2.0, -0.1, -3.0]
OLD = [-0.9, NAN, -1.5, -0.1, NAN]  # the second and the last were written by an expert
ADV = [1.0, 1.0, -0.5, 2.0, 0.3]
WEIGHTS = [0.1, 0.1, 0.3, 0.3, 0.3]  # two tokens of the first sample, three of the second
ENTROPY = [0.2, 0.4, 0.1, 0.3, 0.5]


def made(**extra) -> MicroBatch:
    rest = {name: tensor(numbers) for name, numbers in extra.items()}
    return MicroBatch(
        [2, 3], tensor(WEIGHTS), tensor(OLD), tensor(ADV), tokens=5, drawn_tokens=3, **rest
    )


def minimised(cfg: Training, values=(), **extra) -> tuple[float, dict, list[float]]:
    """(loss, stats, gradient at each token's log-prob)."""
    logp = tensor(LOGP, requires_grad=True)
    loss, stats = objective(logp, tensor(ENTROPY), tensor(values), made(**extra), cfg)
    (gradient,) = torch.autograd.grad(loss, logp)
    return loss.item(), stats, gradient.tolist()


def by_hand(terms: list[float]) -> float:
    return sum(w * term for w, term in zip(WEIGHTS, terms, strict=True))


def test_plain_policy_gradient_is_the_weighted_sum_of_minus_a_logp():
    loss, _, gradient = minimised(Sampled())
    assert loss == pytest.approx(by_hand([-a * l for a, l in zip(ADV, LOGP, strict=True)]))
    assert gradient == pytest.approx([-w * a for w, a in zip(WEIGHTS, ADV, strict=True)])


def test_a_ratio_is_taken_where_the_sampler_drew_and_nowhere_else():
    loss, _, _ = minimised(Sampled(loss="is"))
    terms = []
    for logp, old, adv in zip(LOGP, OLD, ADV, strict=True):
        terms.append(-adv * logp if math.isnan(old) else -adv * math.exp(logp - old))
    assert loss == pytest.approx(by_hand(terms))


def test_a_sequence_ratio_sees_its_own_sequence_alone():
    loss, _, _ = minimised(Sampled(loss="gspo"))
    one = LOSSES["gspo"](tensor(LOGP[:1]), tensor(OLD[:1]), tensor(ADV[:1])).tolist()
    two = LOSSES["gspo"](tensor(LOGP[2:4]), tensor(OLD[2:4]), tensor(ADV[2:4])).tolist()
    terms = [*one, -ADV[1] * LOGP[1], *two, -ADV[4] * LOGP[4]]
    assert loss == pytest.approx(by_hand(terms))


@pytest.mark.parametrize("to", ["base", "sampler"])
def test_the_kl_is_that_of_drawn_tokens_and_logged_as_their_mean(to):
    reference = OLD if to == "sampler" else [-0.4, -1.1, -2.5, -0.2, -2.0]
    extra = {"ref_logp": reference} if to == "base" else {}
    loss, stats, _ = minimised(RL(kl=0.7, kl_to=to), **extra)
    kl = []
    for logp, old, ref in zip(LOGP, OLD, reference, strict=True):
        k3 = math.exp(ref - logp) - (ref - logp) - 1
        kl.append(0.0 if math.isnan(old) else math.exp(logp - old) * k3)
    terms = [-a * l + 0.7 * k for a, l, k in zip(ADV, LOGP, kl, strict=True)]
    assert loss == pytest.approx(by_hand(terms))
    assert stats["policy/kl"] == pytest.approx(sum(kl) / 3)


@pytest.mark.parametrize(("old", "wanted"), [([NAN], 0.0), ([-1.0], math.e - 2)])
def test_the_kl_of_one_drawn_token_or_of_none(old, wanted):
    """k3 = e - 2 where the reference is one nat above, and rho is 1."""
    logp = tensor([-1.0])
    batch = MicroBatch(
        [1], tensor([1.0]), tensor(old), tensor([0.0]), tokens=1,
        drawn_tokens=sum(not math.isnan(x) for x in old), ref_logp=tensor([0.0]),
    )  # fmt: skip
    loss, stats = objective(logp, tensor([0.0]), tensor([]), batch, Sampled(kl=0.5))
    assert stats["policy/kl"] == pytest.approx(wanted)
    assert loss.item() == pytest.approx(0.5 * wanted)


def test_a_critic_adds_its_clipped_error():
    values, old, returns = [0.5, 0.0, 0.1, 1.0, 0.3], [0.0] * 5, [1.0, 0.0, 0.2, 0.0, 0.3]
    loss, stats, _ = minimised(RL(), values=values, critic=[old, returns])
    errors = []
    for v, before, target in zip(values, old, returns, strict=True):
        near = before + min(max(v - before, -0.2), 0.2)
        errors.append(max((v - target) ** 2, (near - target) ** 2) / 2)
    terms = [-a * l + VALUE_WEIGHT * e for a, l, e in zip(ADV, LOGP, errors, strict=True)]
    assert loss == pytest.approx(by_hand(terms))
    assert stats["critic/loss"] == pytest.approx(sum(errors) / 5)


def test_an_entropy_bonus_is_taken_off_and_the_gap_is_that_of_drawn_tokens():
    loss, stats, _ = minimised(RL(entropy=0.2))
    terms = [-a * l - 0.2 * h for a, l, h in zip(ADV, LOGP, ENTROPY, strict=True)]
    assert loss == pytest.approx(by_hand(terms))
    assert stats["policy/entropy"] == pytest.approx(sum(ENTROPY) / 5)
    gaps = [l - old for l, old in zip(LOGP, OLD, strict=True) if not math.isnan(old)]
    assert stats["policy/gap_mean"] == pytest.approx(sum(map(abs, gaps)) / 3)
    assert stats["policy/gap_max"] == pytest.approx(max(map(abs, gaps)))
    assert stats["policy/mismatch_kl"] == pytest.approx(
        sum(math.exp(gap) - gap - 1 for gap in gaps) / 3
    )


def test_samples_become_tensors_of_their_trained_tokens():
    one = Sample().extend([7, 8]).extend([9], 0.5, [-1.0]).extend([4], 0.25)
    two = Sample(parent=one).extend([5, 6], -1.0, [-2.0, -3.0])
    batch = make_batch([one, two], [0.1, 0.2], tokens=4, drawn_tokens=3)
    assert batch.lengths == [2, 2]
    assert batch.weights.tolist() == pytest.approx([0.1, 0.1, 0.2, 0.2])
    assert batch.adv.tolist() == [0.5, 0.25, -1.0, -1.0]
    assert batch.old_logp.isnan().tolist() == [False, True, False, False]
    assert batch.critic is None
    for s in (one, two):
        s.values = [float(i) for i in s.ids]
        s.returns = [float(-i) for i in s.ids]
    batch = make_batch([one, two], [0.1, 0.2], tokens=4, drawn_tokens=3)
    old_values, returns = batch.critic
    assert old_values.tolist() == [9.0, 4.0, 5.0, 6.0]
    assert returns.tolist() == [-9.0, -4.0, -5.0, -6.0]
