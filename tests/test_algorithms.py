"""Each claim is worked out by another road: by hand, by a loop, by enumeration."""

import math
from itertools import pairwise, product
from typing import get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import tensor

from minprm import algorithms as alg
from minprm import constants, zoo
from minprm.algorithms import effective_sample_size, returns_to_go, systematic_resample
from minprm.commands.presets import PRESETS
from minprm.text.actions import copies, exact_match

CENTRED = ("max_rl", "mean", "mean_std", "rloo")


def test_every_choice_in_the_config_is_a_function_and_the_other_way_round():
    assert set(get_args(constants.Advantage)) == {*zoo.ADVANTAGES, "opo", "batch"}
    assert set(get_args(constants.Loss)) == set(zoo.LOSSES)
    assert set(get_args(constants.Aggregation)) == set(zoo.AGGREGATIONS)
    corrections = get_args(constants.Correction)
    assert set(corrections) == {*zoo.CORRECTIONS, "none"}
    assert set(get_args(constants.RL.__annotations__["groups"])) == {*zoo.GROUPS, "all"}
    assert set(get_args(constants.Preset)) == set(PRESETS)
    rewards = get_args(constants.Reward)
    assert set(rewards) == {*alg.REWARDS, "exact_match"}


def test_advantages_of_a_group_worked_out_by_hand():
    r = tensor([1.0, 0.0, 0.5, 0.5])  # mean .5, unbiased variance (.25 + .25) / 3
    std = math.sqrt(0.5 / 3)
    expected = {
        "none": [1, 0, 0.5, 0.5],
        "mean": [0.5, -0.5, 0, 0],
        "mean_std": [0.5 / (std + 1e-4), -0.5 / (std + 1e-4), 0, 0],
        "rloo": [1 - 1 / 3, 0 - 2 / 3, 0.5 - 1.5 / 3, 0.5 - 1.5 / 3],
        "asym_clip": [0.5 / (std + 1e-4), -1, 0, 0],
        "opo": [0.6, -0.4, 0.1, 0.1],  # lengths 1 3 2 4: (1 + 1 + 2) / 10
        "batch": [0.4, -0.6, -0.1, -0.1],  # beside a second group of one, 1: mean .6
        "posterior": [2, 0, 1, 1],
        "max_rl": [1, -1, 0, 0],
        "best": [1, 0, 0, 0],
        "top_k": [1, 0, 1, 0],
    }
    for name, values in expected.items():
        lengths = [tensor([1.0, 3.0, 2.0, 4.0]), tensor([5.0])]
        first, _ = zoo.advantages([r, tensor([1.0])], name, lengths)
        assert torch.allclose(first, tensor(values).float()), name


def test_the_smallest_groups_and_the_smallest_rewards_are_compared_like_all_others():
    assert alg.posterior(tensor([0.1, 0.3])).tolist() == pytest.approx([0.5, 1.5])
    assert effective_sample_size(tensor([0.2, 0.2])) == pytest.approx(2.0)
    half = 0.5 / (math.sqrt(0.5) + 1e-4)  # two rewards, 1 and 0: unbiased variance .5
    assert alg.mean_std(tensor([1.0, 0.0])).tolist() == pytest.approx([half, -half])
    assert zoo.rloo(tensor([1.0, 0.0])).tolist() == [1.0, -1.0]
    assert alg.token([1]) == zoo.sequence([1]) == zoo.constant([1]) == [1.0]


@pytest.mark.parametrize("name", CENTRED)
def test_a_group_of_one_and_a_group_without_variance_teach_nothing(name):
    assert zoo.ADVANTAGES[name](tensor([0.7])).tolist() == [0.0]
    assert zoo.ADVANTAGES[name](torch.full((4,), 0.7)).abs().max() < 1e-6


@pytest.mark.parametrize("name", ["mean_std", "asym_clip"])
@pytest.mark.parametrize(("reward", "size"), [(12345.678, 6), (100.1, 7), (1 / 3, 7)])
def test_what_rounding_leaves_of_equal_rewards_is_not_divided_by_almost_nothing(name, reward, size):
    assert zoo.ADVANTAGES[name](torch.full((size,), reward)).tolist() == [0.0] * size


def test_thoughts_that_earned_nothing_have_no_posterior_and_are_never_best():
    for name in ("posterior", "max_rl", "best", "top_k"):
        (a,) = zoo.advantages([torch.zeros(4)], name, [torch.ones(4)])
        assert a.tolist() == [0.0] * 4


@pytest.mark.parametrize(("name", "factor"), [("none", 1.0), ("rloo", 1.0), ("mean", 2 / 3)])
def test_the_policy_gradient_is_the_gradient_of_expected_reward(name, factor):
    """A three-armed softmax, all 27 groups of three enumerated. A mean that holds the sample itself
    shrinks the gradient by (G-1)/G; leaving it out does not."""
    theta = tensor([0.3, -0.2, 0.9], dtype=torch.float64, requires_grad=True)
    reward = tensor([1.0, 0.2, -0.5], dtype=torch.float64)
    l = theta.log_softmax(0)
    (true,) = torch.autograd.grad((l.exp() * reward).sum(), theta, retain_graph=True)
    estimate = torch.zeros(3, dtype=torch.float64)
    for group in product(range(3), repeat=3):
        arms = tensor(group)
        loss = alg.pg(l[arms], l[arms].detach(), zoo.ADVANTAGES[name](reward[arms])).mean()
        (gradient,) = torch.autograd.grad(loss, theta, retain_graph=True)
        estimate -= l[arms].sum().exp().detach() * gradient
    assert torch.allclose(estimate, factor * true, atol=1e-12)


def test_the_posterior_weights_climb_the_likelihood_of_the_action():
    """grad log sum_z p(z) p(a|z), by autograd, against a group in exact proportion to p(z)."""
    theta = tensor([0.0, math.log(2), math.log(5)], dtype=torch.float64, requires_grad=True)
    eta = tensor([0.1, -1.0, 0.7], dtype=torch.float64, requires_grad=True)  # p(a|z) = sigmoid
    log_z, log_a = theta.log_softmax(0), torch.nn.functional.logsigmoid(eta)
    evidence = (log_z.exp() * log_a.exp()).sum().log()
    true = torch.autograd.grad(evidence, (theta, eta), retain_graph=True)
    group = tensor([0] * 1 + [1] * 2 + [2] * 5)  # p(z) = 1/8, 2/8, 5/8
    w = alg.posterior(log_a[group].exp().detach())
    loss = (alg.pg(log_z[group], log_z[group], w) + alg.pg(log_a[group], log_a[group], w)).mean()
    for g, t in zip(torch.autograd.grad(loss, (theta, eta)), true, strict=True):
        assert torch.allclose(-g, t, atol=1e-12)


@pytest.mark.parametrize("b", [0.0, 0.2, 0.3, 0.9])
def test_with_a_baseline_they_climb_the_likelihood_in_which_no_thought_is_an_explanation(b):
    """grad log sum_z p(z) max(p(a|z), b), by autograd, against a group in exact proportion to p(z).
    The thoughts before and after b = .3 earn .25, .5 and .75."""
    theta = tensor([0.0, math.log(2), math.log(5)], dtype=torch.float64, requires_grad=True)
    log_z, r = theta.log_softmax(0), tensor([0.5, 0.25, 0.75], dtype=torch.float64)
    (true,) = torch.autograd.grad(
        (log_z.exp() * r.clamp(min=b)).sum().log(), theta, retain_graph=True
    )
    group = tensor([0] * 1 + [1] * 2 + [2] * 5)  # p(z) = 1/8, 2/8, 5/8
    w = alg.posterior(alg.gain(r[group], b), b)
    (found,) = torch.autograd.grad(alg.pg(log_z[group], log_z[group], w).mean(), theta)
    assert torch.allclose(-found, true, atol=1e-12)
    assert (true.abs().max() > 0.01) == (b < 0.75)  # what explains nothing teaches nothing


def test_on_policy_ppo_has_the_gradient_of_pg_whatever_its_value():
    torch.manual_seed(0)
    lengths, a = [1, 4, 2], alg.mean(tensor([1.0, 0.2, 0.6]))
    l = torch.randn(sum(lengths)).requires_grad_()
    per_token = torch.cat([x.expand(n) for x, n in zip(a, lengths, strict=True)])
    for name, value in (
        ("sequence", 0.0),
        ("token", -sum(n * x for n, x in zip(lengths, a.tolist(), strict=True)) / sum(lengths)),
    ):
        weights = zoo.AGGREGATIONS[name](lengths)
        w = torch.cat([torch.full((n,), x) for x, n in zip(weights, lengths, strict=True)])
        ppo, pg = ((w * f(l, l.detach(), per_token)).sum() for f in (alg.ppo_clip, alg.pg))
        assert ppo.item() == pytest.approx(value, abs=1e-6)
        gradients = [torch.autograd.grad(x, l, retain_graph=True)[0] for x in (ppo, pg)]
        assert torch.allclose(*gradients)


@pytest.mark.parametrize(
    ("ratio", "a", "value", "moves"),
    [
        (2.0, 1.0, -1.28, False),  # already more likely than asked for: cut at 1 + .28
        (0.5, 1.0, -0.5, True),
        (0.5, -1.0, 0.8, False),  # already less likely than asked for: cut at 1 - .2
        (2.0, -1.0, 2.0, True),
        (1.25, 1.0, -1.25, True),  # between 1.2 and 1.28: the upper side is the wider one
    ],
)
def test_ppo_clips_only_in_the_direction_that_leads_further_out(ratio, a, value, moves):
    l = tensor([math.log(ratio)], requires_grad=True)
    loss = alg.ppo_clip(l, tensor([0.0]), tensor([a]))
    loss.sum().backward()
    assert loss.item() == pytest.approx(value, rel=1e-5)
    assert bool(l.grad.abs() > 0) is moves


def test_importance_weighting_is_unbiased_off_policy_pg_is_not_and_cispo_is_by_its_cut():
    theta = tensor([0.3, -0.2, 0.9], dtype=torch.float64, requires_grad=True)
    behaviour = tensor([0.0, 1.0, -1.0], dtype=torch.float64).log_softmax(0)
    reward, l = tensor([1.0, 0.2, -0.5], dtype=torch.float64), theta.log_softmax(0)
    (true,) = torch.autograd.grad((l.exp() * reward).sum(), theta, retain_graph=True)

    def gradient(loss):
        mean = (behaviour.exp() * loss(l, behaviour, reward)).sum()
        return -torch.autograd.grad(mean, theta, retain_graph=True)[0]

    assert torch.allclose(gradient(zoo.importance), true)
    assert not torch.allclose(gradient(alg.pg), true, atol=0.05)
    # cispo is off by what it cuts from the ratios above c, and by nothing else
    c, rho = 1.2, (l - behaviour).exp().detach()
    cut = behaviour.exp() * (rho - rho.clamp(max=c)) * reward
    (bias,) = torch.autograd.grad((cut * l).sum(), theta, retain_graph=True)
    clipped = gradient(lambda l, old, a: zoo.cispo(l, old, a, c))
    assert torch.allclose(clipped + bias, true) and bias.abs().max() > 0.05


def test_k3_is_a_kl_also_away_from_zero():
    l, ref = tensor([0.7, 0.2, 0.1]).log(), tensor([0.1, 0.3, 0.6]).log()
    k3 = alg.kl_k3(l, ref)
    assert (k3 >= 0).all()
    assert (l.exp() * k3).sum().item() == pytest.approx(
        (l.exp() * (l - ref)).sum().item(), rel=1e-5
    )


@pytest.mark.parametrize("drawn_by", ["the policy", "older weights"])
def test_the_kl_as_a_loss_has_the_value_and_the_gradient_of_the_kl(drawn_by):
    """Four tokens, their expectation summed out: what an update minimises on average."""
    theta = tensor([0.3, -0.2, 0.9, 0.0], dtype=torch.float64, requires_grad=True)
    ref = tensor([1.0, 0.0, -1.0, 0.5], dtype=torch.float64).log_softmax(0)
    l = theta.log_softmax(0)
    old = l.detach()
    if drawn_by == "older weights":
        old = tensor([0.0, 1.0, -1.0, 0.2], dtype=torch.float64).log_softmax(0)
    kl = (l.exp() * (l - ref)).sum()
    mean = (old.exp() * zoo.kl_loss(l, old, ref)).sum()
    (true,) = torch.autograd.grad(kl, theta, retain_graph=True)
    (found,) = torch.autograd.grad(mean, theta, retain_graph=True)
    assert torch.allclose(mean, kl) and torch.allclose(found, true)
    # k3 alone has the value on policy, and the gradient of the KL the other way round
    k3 = (l.detach().exp() * alg.kl_k3(l, ref)).sum()
    other = (ref.exp() * (ref - l)).sum()
    (bare,) = torch.autograd.grad(k3, theta, retain_graph=True)
    (reverse,) = torch.autograd.grad(other, theta)
    assert torch.allclose(k3, kl) and torch.allclose(bare, reverse)
    assert not torch.allclose(bare, true, atol=0.05)


@pytest.mark.parametrize("length", [1, 3, 40])
def test_a_certain_model_earns_one_and_a_uniform_one_what_chance_is(length):
    vocabulary = 7
    uniform = torch.full((length,), -math.log(vocabulary))
    assert alg.action_prob(torch.zeros(length)) == alg.action_prob_mean(torch.zeros(length)) == 1.0
    assert alg.action_prob(uniform) == pytest.approx(vocabulary**-length, rel=1e-4)
    assert alg.action_prob_mean(uniform) == pytest.approx(1 / vocabulary, rel=1e-4)


def test_exact_match_forgives_spelling_and_not_arguments():
    call = '{"name": "go", "arguments": {"x": 1, "y": 2}}'
    assert exact_match('{"arguments":{"y":2,"x":1},  "name":"go"}', call) == 1.0
    assert exact_match('{"name": "go", "arguments": {"x": 1, "y": 3}}', call) == 0.0
    assert exact_match(" open\n c ", "open c") == 1.0
    assert exact_match("open d", "open c") == 0.0
    assert exact_match(None, "open c") == 0.0


def test_exact_match_forgives_spelling_in_what_is_said_and_in_each_call():
    said = 'On it,  {sir}.\n{"name": "go", "arguments": {"x": 1, "y": "a  b"}}'
    call = '{"arguments": {"y": "a  b", "x": 1}, "name": "go"}'
    assert exact_match(f"On it,\n{{sir}}.\n{call}", said) == 1.0
    assert exact_match(f"{call}\n{call}", f"{said.splitlines()[1]}\n{call}") == 1.0
    for other in (call, f"On it.\n{call}", f"{said}\n{call}", said.replace("a  b", "a b")):
        assert exact_match(other, said) == 0.0


def test_a_copy_is_the_action_or_its_argument_values_and_not_from_the_state():
    call = '{"name": "go", "arguments": {"room": "attic"}}'
    assert copies("the attic then", call, "you are in the hall")
    assert not copies("the attic then", call, "doors: attic cellar")
    for action in (f"On it.\n{call}", f"{call}\n{call}"):  # of what is said beside a call, nothing
        assert copies("the attic then", action, "you are in the hall")
    both = call + '\n{"name": "take", "arguments": {"what": "lamp"}}'
    assert not copies("the attic then", both, "") and copies("attic , then lamp", both, "")
    assert copies("I say it is  open .", "it is open", "")
    assert not copies("ball under c .", "open c", "ball under a .")
    assert not copies("reopen cc", "open c", "")
    assert copies("So (open c).", "open c", "a ball") and not copies("open c?", "open c", "open c!")
    assert not copies("", "", "a ball")  # a turn that cannot be read is no copy of anything
    wrap = '{"name": "wrap", "arguments": {"gift": true, "sizes": [1, 2], "card": null}}'
    assert copies("gift true , sizes [1, 2] , card null", wrap, "")  # as JSON spells them


# a run switches subnormal numbers off, so they are not drawn
@given(
    st.lists(st.floats(0, 1, allow_subnormal=False), min_size=1, max_size=12),
    st.floats(0, 0.999, allow_subnormal=False),
)
def test_particles_survive_floor_or_ceil_of_their_share_and_the_dead_stay_dead(weights, u):
    w = tensor(weights)
    ancestors = systematic_resample(w, u)
    assert len(ancestors) == len(w)
    if w.sum() <= 0:
        assert ancestors == list(range(len(w)))
        return
    for i, share in enumerate((len(w) * w.double() / w.double().sum()).tolist()):
        assert math.floor(share - 1e-6) <= ancestors.count(i) <= math.ceil(share + 1e-6)
        assert w[i] > 0 or i not in ancestors


def test_a_particle_begins_where_the_one_before_it_ends():
    assert systematic_resample(tensor([1.0, 1.0]), u=0.0) == [0, 1]
    assert systematic_resample(tensor([0.0, 1.0]), u=0.0) == [1, 1]


def test_effective_sample_size_counts_the_particles_that_carry_weight():
    assert effective_sample_size(tensor([1.0, 1.0, 0.0, 0.0])) == 2.0
    assert effective_sample_size(tensor([3.0, 0.0])) == 1.0
    assert effective_sample_size(torch.zeros(3)) == 0.0
    assert effective_sample_size(tensor([1e-24, 1e-24, 0.0])) == pytest.approx(2.0)


def test_resampled_lineages_are_the_exact_posterior_over_sequences():
    """A hidden Markov chain of two states and three steps: the share of surviving lineages against
    the posterior of all eight paths, enumerated. One-step posteriors would give another answer."""
    first, stay, steps, particles = 0.5, 0.9, 3, 4000
    likelihood = tensor([[0.5, 0.5], [0.5, 0.5], [0.9, 0.1]])  # only the last step tells
    exact = torch.zeros(2)  # posterior of the *first* state
    for path in product((0, 1), repeat=steps):
        p = first * math.prod(likelihood[t][z].item() for t, z in enumerate(path))
        p *= math.prod(stay if x == y else 1 - stay for x, y in pairwise(path))
        exact[path[0]] += p
    exact /= exact.sum()
    noise = torch.Generator().manual_seed(0)
    paths = (torch.rand(particles, 1, generator=noise) < first).long()
    for t in range(steps):
        if t:
            flip = (torch.rand(particles, generator=noise) >= stay).long()
            paths = torch.cat([paths, (paths[:, -1] ^ flip)[:, None]], 1)
        paths = paths[systematic_resample(likelihood[t][paths[:, -1]], u=0.37)]
    share = (paths[:, 0] == 0).float().mean()
    assert exact[0] > 0.75
    assert share.item() == pytest.approx(exact[0].item(), abs=0.03)


def test_returns_to_go_keep_the_zero_rewards_between():
    assert returns_to_go(tensor([0.0, 0.0, 1.0]), 0.5).tolist() == [0.25, 0.5, 1.0]


# l - old = log 2, -log 2, log 10 on three tokens, old = log .1, log .8, log .05; A = 1, then -1
GOLDEN = {
    "is": ([-2.0, -0.5, -10.0], [2.0, 0.5, 10.0]),
    "ppo_clip": ([-1.28, -0.5, -1.28], [2.0, 0.8, 10.0]),
    "dual_clip": ([-1.28, -0.5, -1.28], [2.0, 0.8, 3.0]),
    "masked_is": ([-2.0, -0.5, 0.0], [2.0, 0.5, 0.0]),
    "ipo": ([-2.0, 0.0, 0.0], [2.0, 0.0, 0.0]),  # moved .1, .4, .45
    # .1, -.4, .45 in the direction of the token; and a thousandth of (log rho)^2
    "dppo": (
        [-2 + 4.80453e-4, -0.5 + 4.80453e-4, 5.301898e-3],
        [2 + 4.80453e-4, 4.80453e-4, 10 + 5.301898e-3],
    ),
    "cispo": (
        [2.0 * math.log(5), 0.5 * math.log(2.5), 5.0 * math.log(2)],
        [-2.0 * math.log(5), -0.5 * math.log(2.5), -5.0 * math.log(2)],
    ),
    "sapo": (
        [-4 / (1 + math.exp(-x)) for x in (1.0, -0.5, 9.0)],
        [4 / 1.05 / (1 + math.exp(-1.05 * x)) for x in (1.0, -0.5, 9.0)],
    ),
    "gspo": ([-(1 + 4e-4)] * 3, [10 ** (1 / 3)] * 3),  # one ratio: the geometric mean, 10^(1/3)
}


@pytest.mark.parametrize("name", GOLDEN)
def test_losses_far_from_a_ratio_of_one_on_both_signs(name):
    old = tensor([0.1, 0.8, 0.05]).log()
    l = old + tensor([2.0, 0.5, 10.0]).log()
    for sign, expected in zip((1.0, -1.0), GOLDEN[name], strict=True):
        found = zoo.LOSSES[name](l, old, torch.full((3,), sign))
        assert torch.allclose(found, tensor(expected), atol=1e-5), (name, sign)


@pytest.mark.parametrize("name", [n for n in zoo.LOSSES if n not in ("pg", "cispo")])
def test_on_policy_every_loss_has_the_gradient_of_pg(name):
    old, a = tensor([-1.0, -2.0, -0.5]), tensor([0.7, -1.1, 0.2])
    l = old.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(zoo.LOSSES[name](l, old, a).sum(), l)
    assert torch.allclose(gradient, -a, atol=1e-6)


def test_bounds_lie_where_their_formula_says():
    rare = tensor([1.0] + [0.0] * 15)  # the standard deviation is .25, so the first lies 3.75 up
    assert alg.mean_std(rare)[0] > 3.7 and zoo.asym_clip(rare)[0] == 3.0
    old = tensor([-4.0, -4.0])
    l = old + tensor([7.9, 8.1]).log()
    assert zoo.masked_is(l, old, tensor([1.0, 1.0])).tolist() == pytest.approx([-7.9, 0.0])


def test_a_clipped_token_has_a_gradient_in_cispo_alone():
    old, a = tensor([-3.0]), tensor([1.0])
    for name, moves in (("cispo", True), ("ppo_clip", False), ("masked_is", False)):
        l = (old + 2.5).requires_grad_()
        (gradient,) = torch.autograd.grad(zoo.LOSSES[name](l, old, a).sum(), l)
        assert (gradient.abs().item() > 0) is moves


def test_corrections_bound_what_two_programs_disagree_about():
    own, m = tensor([-1.0, -1.0, -1.0]), tensor([-1.5, -3.0, -0.5])
    assert torch.allclose(zoo.truncate(own, m), tensor([math.exp(0.5), 2.0, math.exp(-0.5)]))
    assert zoo.mask(own, m).tolist() == [0.0] * 3  # e^2 is above 3: the sequence is dropped
    assert torch.allclose(zoo.mask(own, own - 0.1), torch.full((3,), math.exp(0.3)))


def test_constant_aggregation_pays_no_sequence_for_its_length():
    assert zoo.constant([2, 4, 1]) == [1 / 12] * 3
