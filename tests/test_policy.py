"""The learner and the writer: one log-prob, one update, whatever the rows are."""

import math
from dataclasses import replace

import pytest
import torch
from transformers import AutoModelForCausalLM

from minprm.constants import RL, Engine, Optim, Sampled
from minprm.data import NAN, Sample
from minprm.model.correction import check_gap, reweighted
from minprm.model.policy import schedule
from minprm.model.reading import Targets, project
from minprm.model.sampler import Sampler
from minprm.text.chat import Chat
from minprm.trainer import minibatches
from shared.policies import SAMPLES, policy, sample, weights

LR = 1e-2
UNCLIPPED = Optim(max_grad_norm=1e9)


def test_log_probs_are_those_of_a_full_softmax_one_position_earlier():
    p = policy()
    for s, l in zip(SAMPLES, p.logprobs(SAMPLES), strict=True):
        full = p.model(torch.tensor([s.ids])).logits[0].log_softmax(-1)
        expected = [full[i - 1, s.ids[i]] for i in range(len(s.ids)) if s.trained[i]]
        assert torch.allclose(l, torch.stack(expected), atol=1e-5)


def test_a_parent_is_the_same_as_its_ids_in_front():
    p, whole = policy(), [3, 1, 4, 1, 5]
    branch = sample(whole[3:], parent=sample(whole[1:3], parent=Sample().extend(whole[:1])))
    flat = sample(whole, [False] * 3 + [True] * 2)
    assert torch.allclose(*(p.logprobs([s])[0] for s in (branch, flat)), atol=1e-6)


@pytest.mark.parametrize("temperature", [1.0, 0.5, 1.7])
def test_what_the_sampler_wrote_is_scored_as_it_was_drawn(temperature):
    """Prompts of different lengths, so that left padding would show."""
    p, prompts = policy(), [[1, 2, 3, 4, 5, 6], [7], [8, 9, 1]]
    drawn = Sampler(p.model).generate(prompts, 4, 8, [2], temperature, seed=0)
    for prompt, group in zip(prompts, drawn, strict=True):
        for c in group:
            s = sample(c.ids, old=0.0, parent=Sample().extend(prompt))
            (l,) = p.logprobs([s], temperature)
            assert torch.allclose(l, torch.tensor(c.logprobs), atol=1e-4)
            assert 2 not in c.ids[:-1] and (c.ids[-1] == 2 or len(c.ids) == 8)


def test_an_experts_tokens_are_scored_at_temperature_one():
    (cold,), (warm,) = (policy().logprobs([SAMPLES[1]], t) for t in (1.0, 0.5))
    assert torch.equal(cold, warm)


def test_greedy_is_the_argmax_and_a_seed_is_repeatable():
    p = policy()
    draw = lambda t, seed: Sampler(p.model).generate([[1, 2]], 2, 6, [], t, seed)  # noqa: E731
    assert draw(0.0, 0)[0][0].ids == draw(0.0, 1)[0][1].ids
    assert draw(1.0, 3) == draw(1.0, 3) != draw(1.0, 4)
    assert draw(1e-42, 0) == draw(0.0, 0)  # so cold that logits would overflow


def test_what_a_row_writes_does_not_depend_on_when_others_stop():
    p, prompts = policy(), [[1, 2, 3], [4], [1, 2, 3], [5, 6]]
    free = Sampler(p.model).generate(prompts, 3, 12, [], 1.0, seed=4)
    ended = Sampler(p.model).generate(prompts, 3, 12, [2, 7, 9], 1.0, seed=4)
    lengths = set()
    for a, b in zip(*([c for group in x for c in group] for x in (free, ended)), strict=True):
        stop = [i for i, token in enumerate(a.ids) if token in (2, 7, 9)][:1]
        n = stop[0] + 1 if stop else 12
        lengths.add(n)
        assert b.ids == a.ids[:n] and b.logprobs == pytest.approx(a.logprobs[:n], abs=1e-5)
    assert len(lengths) > 4


def test_a_prompt_that_goes_on_is_read_from_where_it_ended_until_a_weight_changes():
    p = policy()
    sampler, read = Sampler(p.model), []
    step = sampler._forward
    sampler._forward = lambda ids, *rest: (read.append(ids.shape), step(ids, *rest))[1]
    first = [[1, 2, 3, 4, 5, 6, 7], [4, 5, 6]]
    longer = [[*first[0], 8, 9], [*first[1], 3, 2, 1], [9, 9, 9, 9], [*first[0], 5]]
    for changed in (False, True):
        sampler.generate(first, 2, 3, [], 1.0, seed=0)
        if changed:
            p.update([sample([1, 2, 3], [False, True, True])], Sampled(), lr=1e-2)
        read.clear()
        again = sampler.generate(longer[:2] + longer[3:], 2, 6, [], 1.0, seed=1)
        fresh = Sampler(p.model).generate(longer[:2] + longer[3:], 2, 6, [], 1.0, seed=1)
        for a, b in zip(*([c for g in x for c in g] for x in (again, fresh)), strict=True):
            assert a.ids == b.ids and a.logprobs == pytest.approx(b.logprobs, abs=1e-5)
        assert read[0] == (3, 9 if changed else 3)
    mixed = sampler.generate(longer, 1, 6, [], 1.0, seed=2)  # one of them is new
    fresh = Sampler(p.model).generate(longer, 1, 6, [], 1.0, seed=2)
    assert [g[0].ids for g in mixed] == [g[0].ids for g in fresh]


def test_tokens_are_drawn_as_often_as_they_are_likely():
    p = policy()
    drawn = Sampler(p.model).generate([[1, 2]], 4_000, 1, [], 0.7, seed=0)[0]
    likely = (p.model(torch.tensor([[1, 2]])).logits[0, -1] / 0.7).softmax(-1)
    seen = torch.bincount(torch.tensor([c.ids[0] for c in drawn]), minlength=len(likely)) / 4_000
    assert (seen - likely).abs().max() < 4 * 0.5 / 4_000**0.5


@pytest.mark.parametrize("aggregation", ["token", "sequence"])
@pytest.mark.parametrize("loss", ["pg", "ppo_clip"])
def test_an_update_does_not_depend_on_the_micro_batch(aggregation, loss):
    cfg, optim = Sampled(loss=loss), Optim(aggregation=aggregation)
    many, one = policy(micro_tokens=8), policy()
    stats = [p.update(SAMPLES, cfg, LR, optim=optim) for p in (many, one)]
    assert stats[0]["loss/total"] == pytest.approx(stats[1]["loss/total"], abs=1e-5)
    assert stats[0]["policy/grad_norm"] == pytest.approx(stats[1]["policy/grad_norm"], rel=1e-4)
    assert torch.allclose(weights(many), weights(one), atol=1e-4)


def test_policy_gradient_with_advantage_one_is_sft():
    p = policy()
    s = SAMPLES[2]
    s = replace(s, advantages=[1.0] * len(s.ids))
    stats = p.update([s], Sampled(), lr=0.0)
    labels = torch.tensor([[i if m else -100 for i, m in zip(s.ids, s.trained, strict=True)]])
    loss = p.model(torch.tensor([s.ids]), labels=labels).loss
    assert stats["loss/total"] == pytest.approx(loss.item(), rel=1e-5)
    loss.backward()
    norm = math.sqrt(sum(x.grad.square().sum().item() for x in p.model.parameters()))
    assert stats["policy/grad_norm"] == pytest.approx(norm, rel=1e-4)


def test_tokens_outside_the_mask_have_no_gradient():
    p, s = policy(), SAMPLES[0]
    loud = replace(
        s, advantages=[a if m else 1e9 for a, m in zip(s.advantages, s.trained, strict=True)]
    )
    norms = [p.update([x], Sampled(), lr=0.0)["policy/grad_norm"] for x in (s, loud)]
    assert norms[0] == norms[1] > 0


def test_a_ratio_is_taken_only_where_the_sampler_drew():
    """Off policy by one nat on drawn tokens: mismatch is e - 1 - 1 there, nothing elsewhere."""
    p, s = policy(), SAMPLES[1]
    (l,) = p.logprobs([replace(s, logprobs=[NAN, 0.0, 0.0])])
    drawn = replace(s, logprobs=[NAN, l[0].item() - 1, NAN])
    stats = p.update([drawn], Sampled(loss="is"), lr=0.0)
    assert stats["policy/mismatch_kl"] == pytest.approx(math.e - 2, rel=1e-4)
    assert stats["loss/total"] == pytest.approx((math.e * 1 + l[1].item()) / 2, rel=1e-4)


def test_kl_to_the_base_model_is_zero_at_the_start_and_positive_after():
    """At any temperature: both are read at the one that the tokens were drawn at."""
    p, cfg = policy(), Sampled(kl=0.1)
    drawn = [replace(s, logprobs=[-2.0] * len(s.ids)) for s in SAMPLES]
    assert p.update(drawn, cfg, LR, temperature=0.5)["policy/kl"] == pytest.approx(0.0, abs=1e-6)
    assert p.update(drawn, cfg, LR, temperature=0.5)["policy/kl"] > 1e-4


def test_the_frozen_model_is_in_evaluation_mode_also_when_an_update_asks_for_it():
    p = policy()
    p.update(SAMPLES, Sampled(kl=0.1), LR)
    assert "frozen" in vars(p) and not any(m.training for m in p.frozen.modules())


def test_what_is_not_finite_is_skipped_counted_and_in_the_end_refused():
    p = policy()
    before, bad = weights(p), [replace(SAMPLES[0], advantages=[math.inf] * 5)]
    for count in range(1, 5):
        assert p.update(bad, Sampled(), LR)["policy/skipped"] == count
    assert torch.equal(weights(p), before)
    assert p.update(SAMPLES, Sampled(), LR)["policy/skipped"] == 0
    for _ in range(4):
        p.update(bad, Sampled(), LR)
    with pytest.raises(FloatingPointError, match="five updates in a row"):
        p.update(bad, Sampled(), LR)


def test_weights_move_and_restart_brings_the_base_back():
    p = policy()
    before = weights(p)
    assert p.update(SAMPLES, Sampled(), LR)["policy/moved"] > 1e-3
    p.restart()
    assert torch.equal(weights(p), before) and p.moved() == 0


def test_movement_is_measured_by_some_weights_of_a_large_tensor(monkeypatch):
    """Eleven of each, at least, and never more than 32: what is kept does not grow."""
    monkeypatch.setattr("minprm.model.movement.MEASURED", 16)
    p = policy()
    before = weights(p)
    estimate = p.update(SAMPLES, Sampled(), LR)["policy/moved"]
    exact = ((weights(p) - before).norm() / before.norm()).item()
    assert estimate == pytest.approx(exact, rel=0.1)
    assert max(len(start) for start in p.movement.start.values()) <= 32
    assert all(
        len(start) >= min(11, p.parameters[name].numel())
        for name, start in p.movement.start.items()
    )


def test_a_checkpoint_loads_with_transformers_and_leaves_no_half(tmp_path):
    p = policy()
    p.save(tmp_path / "arm-0")
    p.update(SAMPLES, Sampled(), LR)
    p.save(tmp_path / "arm-0")
    loaded, ids = AutoModelForCausalLM.from_pretrained(tmp_path / "arm-0"), torch.tensor([[1, 2]])
    assert torch.equal(loaded(ids).logits, p.model(ids).logits)
    assert [x.name for x in tmp_path.iterdir()] == ["arm-0"]


def test_the_end_of_a_turn_is_among_the_tokens_that_sft_learns():
    chat = Chat(policy().tokenizer)
    assert chat.turn(None, chat.content("open a"))[-1:] == chat.end
    assert chat.end != [chat.tokenizer.pad_token_id]


def test_minibatches_keep_groups_whole_and_leave_out_what_is_not_trained():
    states = [Sample().extend([i]) for i in range(3)]
    samples = []
    for state in states:
        later = Sample(parent=state).extend([4])
        samples += [Sample(parent=later).extend([5], 1.0), Sample(parent=state).extend([6], 1.0)]
    read = Sample(parent=states[0]).extend([8])
    assert minibatches([*samples, read], 2) == [samples[:4], samples[4:]]
    assert minibatches(samples, 9) == [samples[:2], samples[2:4], samples[4:]]
    assert minibatches([*samples, read], 1) == [[*samples, read]]


def test_schedule_warms_up_and_decays():
    lr = schedule(1.0, 16, Optim(warmup=4, decay="linear"))
    # the whole rate is reached; from there it falls in twelve equal steps
    assert [lr(0), lr(3), lr(4), lr(15)] == pytest.approx([0.25, 1.0, 1.0, 1 / 12])
    cosine = schedule(1.0, 16, Optim(warmup=4, decay="cosine"))
    assert [cosine(3), cosine(4), cosine(10)] == pytest.approx([1.0, 1.0, 0.5])
    constant = schedule(1.0, 16, Optim(warmup=4))
    assert [constant(0), constant(3), constant(15)] == [0.25, 1.0, 1.0]


@pytest.mark.parametrize(
    ("updates", "rates"), [(1, [1.0]), (3, [1.0, 2 / 3, 1 / 3]), (4, [1.0, 1.0, 2 / 3, 1 / 3])]
)
def test_a_short_stage_warms_up_for_a_quarter_of_it_at_most(updates, rates):
    lr = schedule(1.0, updates, Optim(warmup=5, decay="linear"))
    assert [lr(update) for update in range(updates)] == pytest.approx(rates)


def test_the_gap_between_writer_and_learner_is_measured_and_a_wide_one_stops_the_run(capsys):
    p, bare = policy(), sample([9, 2, 6], [False, True, True])
    (l,) = p.logprobs([bare])
    old = [NAN, l[0].item() + 0.3, l[1].item() - 0.1]
    stats = p.update([replace(bare, logprobs=old)], Sampled(), lr=0.0)
    assert stats["policy/gap_mean"] == pytest.approx(0.2, abs=1e-5)
    assert stats["policy/gap_max"] == pytest.approx(0.3, abs=1e-5)
    check_gap({"policy/gap_mean": 0.05}, Engine())
    check_gap({"policy/gap_mean": 0.5, "policy/staleness": 1}, Engine())  # older, as it is meant
    with pytest.raises(SystemExit):
        check_gap(stats, Engine())
    assert "stale weights" in capsys.readouterr().err


def test_an_entropy_bonus_raises_entropy_and_no_bonus_leaves_it_out_of_the_gradient():
    norms = {}
    for bonus in (0.0, 0.5):
        p, cfg = policy(), RL(entropy=bonus)
        flat = [sample([1, 2, 3, 4], [False, True, True, True], advantage=0.0)]
        before = p.update(flat, cfg, LR, optim=UNCLIPPED)
        after = p.update(flat, cfg, lr=0.0)["policy/entropy"]
        norms[bonus] = before["policy/grad_norm"]
        assert (after > before["policy/entropy"]) is (bonus > 0)
    assert norms[0.0] == 0.0 < norms[0.5]


def test_a_correction_takes_ratios_from_the_trainer_and_weighs_what_never_agreed():
    p = policy()
    s = sample([1, 2, 3, 4], [False, True, True, True], old=-9.0, advantage=1.0)
    s.logprobs[2] = NAN  # written by an expert
    (own,) = p.logprobs([s], 1.0)
    (c,), found = reweighted(p, [s], "truncate", 1.0)
    assert c.logprobs[1] == pytest.approx(own[0].item()) and math.isnan(c.logprobs[2])
    assert c.advantages == [1.0, 2.0, 1.0, 2.0]  # e^(own + 9) is above 2
    (dropped,), counted = reweighted(p, [s], "mask", 1.0)
    assert dropped.advantages == [1.0, 0.0, 1.0, 0.0]
    assert (found["policy/dropped"], counted["policy/dropped"]) == (0.0, 1.0)
    # ratios do not show the gap any more, but it is measured
    gap = own[[0, 2]] + 9.0
    assert found["policy/gap_max"] == pytest.approx(gap.max().item())
    k3 = (gap.exp() - gap - 1).mean().item()
    assert found["policy/mismatch_kl"] == pytest.approx(k3, rel=1e-4)
    assert reweighted(p, [s], "none", 1.0) == ([s], {}) and s.advantages == [1.0] * 4


def test_passes_on_one_batch_move_ratios_from_one():
    p, s = policy(), sample([1, 2, 3, 4], [False, True, True, True])
    (l,) = p.logprobs([s])
    s.logprobs[1:] = l.tolist()
    cfg = Sampled(loss="ppo_clip")
    gaps = [p.update([s], cfg, LR, optim=UNCLIPPED)["policy/gap_mean"] for _ in range(3)]
    assert gaps[0] < 1e-5 < min(gaps[1:])


def test_a_token_that_cannot_come_adds_nothing_to_the_entropy_and_its_gradient():
    logits = torch.tensor([[0.0, 1.0, -torch.inf]])
    hidden = torch.zeros(1, 3, requires_grad=True)
    targets = Targets(hidden, torch.ones(1, 1), which=torch.tensor([0]), ids=torch.tensor([1]))
    logp, entropy, *_ = project(lambda x: x + logits, targets, 1, entropy_gradient=True, likely=0)
    (logp - 0.01 * entropy).sum().backward()
    assert entropy.item() == pytest.approx(torch.distributions.Categorical(logits=logits).entropy())
    assert hidden.grad.isfinite().all()
