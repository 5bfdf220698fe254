"""Act-PRM on a tiny model that is hardly trained: what is scored, credited and trained."""

import math
import threading
from dataclasses import replace
from functools import partial
from itertools import pairwise

import pytest
import torch

from minprm.algorithms import REWARDS, posterior
from minprm.arms.evaluation import summary
from minprm.commands.cli import parse
from minprm.constants import RL, ActPRM, Config, History
from minprm.data import Sample, chain
from minprm.envs import cups
from minprm.envs.cups import Cups
from minprm.model.precision import own_logprobs
from minprm.model.tree import lineage, row
from minprm.model.trunks import Trunks
from minprm.stages import act_prm
from minprm.stages.act_prm import credit, outcomes, to_samples, walk_logs
from minprm.stages.rl import compare, paid
from minprm.text.chat import Chat, Turn
from shared.policies import agent
from shared.stages import CUPS, played


def walk(parts, **knobs):
    """(configuration, all groups, the walks), with outcomes but without advantages."""
    p, _, demos = parts
    cfg = ActPRM(group=6, **knobs)
    walks, groups = walk_logs(agent(p, Config(thought_tokens=12)), demos, cfg, seed=3)
    outcomes(walks, cfg)
    return cfg, groups, walks


def flat(segments: list[list[int]]) -> list[int]:
    return [i for ids in segments for i in ids]


@pytest.mark.parametrize("continues", ["best", "own", "resample"])
@pytest.mark.parametrize("baseline", ["none", "no_thought"])
def test_thoughts_earn_the_same_where_trunks_are_kept(parts, continues, baseline, monkeypatch):
    _, groups, _ = walk(parts, continues=continues, baseline=baseline)
    monkeypatch.setattr(act_prm, "Trunks", partial(Trunks, least=1))
    _, again, _ = walk(parts, continues=continues, baseline=baseline)
    for group, other in zip(groups, again, strict=True):
        assert group.chance == pytest.approx(other.chance, rel=1e-4)
        for z, same in zip(group.thoughts, other.thoughts, strict=True):
            assert z.ids == same.ids and z.reward == pytest.approx(same.reward, rel=1e-4)


def give(groups, rewards):
    for g in groups:
        for z, r in zip(g.thoughts, rewards, strict=True):
            z.outcome = r


def test_the_reward_is_the_probability_of_the_experts_action_after_the_thought(parts):
    p, chat, _ = parts
    _, groups, _ = walk(parts)
    closed = [(g, z) for g in groups for z in g.thoughts if z.closed and chat.clean(z.ids)]
    assert closed
    for g, z in closed[:5]:
        prefix = [*z.path.history.whole(), *chat.think, *z.ids, *chat.think_end, *chat.act]
        logits = p.model(torch.tensor([prefix + g.action])).logits[0].log_softmax(-1)
        l = [logits[len(prefix) + k - 1, a].item() for k, a in enumerate(g.action)]
        assert z.reward == pytest.approx(math.exp(sum(l)), rel=1e-4)


def test_a_thought_that_never_closed_earns_nothing(parts):
    _, groups, _ = walk(parts)
    cut = [z for g in groups for z in g.thoughts if not z.closed]
    assert cut and all(z.reward == 0 for z in cut)


def test_best_commits_the_best_thought_and_its_ids_as_drawn(parts):
    _, chat, demos = parts
    _, _, walks = walk(parts, continues="best")
    for demo, one in zip(demos, walks, strict=True):
        assert len(one.groups) == len(demo.steps)
        for g, later in pairwise(one.groups):
            best = max(g.thoughts, key=lambda z: z.reward)
            ids = best.ids if best.closed and chat.clean(best.ids) else None
            start = g.thoughts[0].path.history.whole() + chat.turn(ids, g.action)
            assert later.thoughts[0].path.history.whole()[: len(start)] == start
        assert len(one.paths) == 1


def test_own_credits_each_step_with_its_rewards_to_go(parts):
    _, _, walks = walk(parts, continues="own")
    for path in walks[0].paths:
        rewards = [z.reward for z in path.thoughts]
        for t, z in enumerate(path.thoughts):
            if z.usable:
                assert z.outcome == pytest.approx(sum(rewards[t:]), rel=1e-5)


def test_resample_credits_a_thought_with_its_surviving_descendants(parts):
    cfg, _, walks = walk(parts, continues="resample")
    for one, g in [(log, g) for log in walks for g in log.groups]:
        survivors = [z.outcome for z in g.thoughts]
        for z in g.thoughts:
            if z.reward:
                assert z.outcome == sum(z in path.thoughts for path in one.paths)
        if any(z.reward for z in g.thoughts):
            assert sum(survivors) == cfg.group  # so that posterior gives the counts themselves
            assert posterior(torch.tensor(survivors)).tolist() == pytest.approx(survivors)


@pytest.mark.parametrize("continues", ["best", "own", "resample"])
@pytest.mark.parametrize("advantage", ["posterior", "none", "mean", "best"])
def test_an_unusable_thought_gains_nothing_whatever_follows(parts, continues, advantage):
    """Histories leave it out, so what follows is not its doing. The last step of the second log is
    one that no thought predicts."""
    cfg, groups, walks = walk(parts, continues=continues, advantage=advantage)
    for z in walks[1].groups[-1].thoughts:
        z.reward = 0.0
    outcomes(walks, cfg)
    credit(groups, cfg)
    unusable = [z for g in groups for z in g.thoughts if not z.usable]
    followed = [z for path in walks[0].paths for z in path.thoughts[:-1] if not z.usable]
    assert any(z.closed for z in unusable) and (followed or continues == "best")
    for z in unusable:
        assert (z.outcome, z.action_weight) == (0.0, 0.0) and z.advantage <= 0
    for z in walks[1].groups[-1].thoughts:
        assert (z.outcome, z.advantage, z.action_weight) == (0.0, 0.0, 0.0)


def test_with_the_baseline_a_thought_weighs_what_it_adds(parts):
    """The baseline is p(action | state) itself, after the history that the thought has read."""
    p, chat, _ = parts
    cfg, groups, walks = walk(parts, baseline="no_thought", advantage="posterior")
    for g in groups:
        bare = g.paths[0].history.whole() + chat.opening(None)
        logp = own_logprobs(p.model, bare + g.action, len(g.action))
        assert g.chance == pytest.approx(logp.sum().exp().item(), rel=1e-4)
    outcomes(walks, cfg)
    credit(groups, cfg)
    for g in groups:
        floored = [max(z.reward, g.chance) for z in g.thoughts]
        for z, r in zip(g.thoughts, floored, strict=True):
            wanted = (r - g.chance) / (sum(floored) / len(floored))
            assert (z.advantage, z.action_weight) == pytest.approx((wanted, wanted), abs=1e-5)
    assert any(z.advantage == 0 < z.reward for g in groups for z in g.thoughts)
    give(groups, [0.1] * cfg.group)
    for g in groups:
        g.chance = 0.2
    credit(groups, cfg)
    assert {z.advantage for g in groups for z in g.thoughts} == {0.0}  # restating teaches nothing


@pytest.mark.parametrize("advantage", ["best", "top_k"])
def test_in_hard_em_thought_and_action_have_one_weight(parts, advantage):
    cfg, groups, _ = walk(parts, advantage=advantage)
    give(groups, [1.0, 0.5, 0.0, 0.0, 0.25, 0.25])
    credit(groups, cfg)
    wanted = [1.0, float(advantage == "top_k"), 0.0, 0.0, 0.0, 0.0]
    for g in groups:
        assert [z.advantage for z in g.thoughts] == wanted
        assert [z.action_weight for z in g.thoughts] == wanted


def test_where_nothing_is_earned_the_next_step_reads_a_thought_that_can_be_read(parts):
    _, groups, walks = walk(parts, reward="exact_match")
    mixed = [g for g in groups if len({z.usable for z in g.thoughts}) == 2]
    assert any(max(z.reward for z in g.thoughts) == 0 for g in mixed)
    for one in walks:
        (path,) = one.paths
        for g, z in zip(one.groups, path.thoughts, strict=True):
            assert z.usable or g not in mixed


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_a_reward_that_is_no_number_stops_the_walk_at_its_place(parts, monkeypatch, wrong):
    monkeypatch.setitem(REWARDS, "action_prob", lambda logp: wrong)
    with pytest.raises(FloatingPointError, match=rf"task Cups-\d+, step \d: .* earned {wrong}"):
        walk(parts)


def test_an_action_without_tokens_stops_the_walk_at_its_place(parts):
    p, _, demos = parts
    empty = replace(demos[0], steps=[demos[0].steps[0], replace(demos[0].steps[1], action=" ")])
    cfg = ActPRM(group=24, reward="action_prob_mean")
    with pytest.raises(FloatingPointError, match=r"step 2: .* without any token"):
        walk_logs(agent(p, Config(thought_tokens=12)), [empty], cfg, seed=3)


def test_an_action_that_scores_a_thought_is_drawn_with_noise_of_its_own(parts):
    """A reward of 1 or 0 averages to p(a | z) only if it does not know how z was drawn."""
    one = agent(parts[0], Config(thought_tokens=12))
    seeds = {"thought": set(), "action": set()}
    generate = one.sampler.generate

    def noted(prompts, n, limit, stop, temperature, seed):
        seeds["thought" if stop[:1] == one.chat.stop else "action"].add(seed)
        return generate(prompts, n, limit, stop, temperature, seed)

    one.sampler.generate = noted
    walk_logs(one, parts[2], ActPRM(group=6, reward="exact_match"), seed=3)
    assert len(seeds["thought"]) == 3 and seeds["action"]
    assert seeds["thought"].isdisjoint(seeds["action"])


def test_thought_tokens_carry_the_advantage_and_the_experts_action_the_posterior(parts):
    _, chat, _ = parts
    cfg, groups, _ = walk(parts, trained_on="thought_action")
    rewards = [1.0, 0.5, 0.0, 0.0, 0.25, 0.25]
    give(groups, rewards)
    credit(groups, cfg)
    thoughts = [z for g in groups for z in g.thoughts]
    samples = to_samples(groups, chat, cfg, 7)
    for z, s, r in zip(thoughts, samples, rewards * len(groups), strict=True):
        n = len(z.ids) + z.closed
        assert s.ids[1 : 1 + len(z.ids)] == z.ids and s.version == 7
        assert s.trained == [False] + [True] * (len(s.ids) - 1)  # the opening tag was forced
        assert s.advantages[1 : 1 + n] == pytest.approx([r - 2 / 6] * n, abs=1e-6)
        assert s.logprobs[1 : 1 + n] == z.logprobs
        assert s.advantages[1 + n :] == pytest.approx([6 * r / 2] * (len(s.ids) - 1 - n))
        assert all(map(math.isnan, s.logprobs[1 + n :]))
        assert (len(s.ids) > 1 + n) is z.closed


@pytest.mark.parametrize(
    ("trained_on", "per_thought", "actions"),
    [("thought", 1, 0), ("thought_action", 1, 1), ("action_first", 1, 1), ("both", 2, 2)],
)
def test_what_is_trained(parts, trained_on, per_thought, actions):
    _, chat, _ = parts
    cfg, groups, _ = walk(parts, thoughts_from="state_action", trained_on=trained_on)
    credit(groups, cfg)
    samples = to_samples(groups, chat, cfg, 0)
    assert len(samples) == per_thought * 6 * len(groups)
    z, group = next((z, g) for g in groups for z in g.thoughts if z.closed)
    mine = [s for s in samples if s.parent is z.path.history and z.ids in parts_of(s)]
    trained = [[i for i, m in zip(s.ids, s.trained, strict=True) if m] for s in mine[:per_thought]]
    found = sum(t[k : k + 2] == group.action for t in trained for k in range(len(t)))
    assert found == actions
    for s in samples:  # only the order in which the thought was drawn has a ratio
        assert all(map(math.isnan, s.logprobs)) == (s.ids[:1] == chat.think)


@pytest.mark.parametrize("trained_on", ["thought", "thought_action", "action_first", "both"])
def test_a_loss_needs_a_thought_drawn_after_the_prompt_it_is_trained_after(
    parts, trained_on, capsys
):
    """Nothing that is trained has a log-prob of the sampler: then a loss has no ratio to take."""
    _, chat, _ = parts
    cfg, groups, _ = walk(parts, thoughts_from="state_action", trained_on=trained_on)
    credit(groups, cfg)
    samples = to_samples(groups, chat, cfg, 0)
    flags = f"--act-prm.thoughts-from state_action --act-prm.trained-on {trained_on}".split()
    flags += ["--act-prm.loss", "ppo_clip"]
    if all(math.isnan(logprob) for sample in samples for logprob in sample.logprobs):
        with pytest.raises(SystemExit):
            parse(flags)
        assert "no effect" in capsys.readouterr().err
    else:
        parse(flags)


def parts_of(s):
    return [s.ids[i:j] for i in range(len(s.ids)) for j in range(i, len(s.ids) + 1)]


def test_a_mean_by_length_counts_all_tokens_that_are_learned_and_so_the_end_of_a_thought(parts):
    """Thoughts that are empty are as long as each other, and not without any length."""
    cfg, groups, _ = walk(parts, advantage="opo")
    for g in groups:
        for z in g.thoughts:
            z.sampled, z.ids, z.outcome = z.sampled[-1:], [], 0.5
    credit(groups, cfg)
    assert {z.advantage for g in groups for z in g.thoughts} == {0.0}


def test_a_group_without_reward_teaches_nothing(parts):
    _, chat, _ = parts
    cfg, groups, _ = walk(parts)
    give(groups, [0.0] * 6)
    credit(groups, cfg)
    assert all(a == 0 for s in to_samples(groups, chat, cfg, 0) for a in s.advantages)


def test_the_frozen_base_scores_as_the_policy_did_before_it_moved(parts):
    p = parts[0]
    _, before, _ = walk(parts)
    _, frozen, _ = walk(parts, scored_by="base")
    rewards = [[z.reward for g in many for z in g.thoughts] for many in (before, frozen)]
    assert rewards[0] == pytest.approx(rewards[1], rel=1e-5)
    sample = Sample().extend([1]).extend([2], 0.0)
    assert torch.equal(*(p.logprobs([sample], base=base)[0] for base in (False, True)))


def test_exact_match_is_one_where_the_model_writes_the_experts_action(parts):
    _, groups, _ = walk(parts, reward="exact_match")
    assert {z.reward for g in groups for z in g.thoughts} <= {0.0, 1.0}


def test_episodes_keep_what_was_drawn_and_train_only_that(parts):
    p = parts[0]
    for e in played(p, CUPS, [5, 5, 6, 6]):
        (sample,) = e.samples
        drawn = [not math.isnan(x) for x in sample.logprobs]
        assert drawn == sample.trained
        assert sum(end - begin for _, begin, end in e.spans) == sum(sample.trained)
        (l,) = p.logprobs([sample])
        old = torch.tensor([x for x, m in zip(sample.logprobs, sample.trained, strict=True) if m])
        assert torch.allclose(l, old, atol=1e-4)
        assert len(e.steps) == len(e.spans) == 3


def test_members_of_a_group_share_the_task_and_not_the_noise(parts):
    one, two = played(parts[0], CUPS, [5, 5])
    assert one.steps[0].state == two.steps[0].state
    assert one.samples[0].ids != two.samples[0].ids


def test_episode_credit_sparse_and_dense_worked_out_by_hand(parts):
    two_rounds = replace(CUPS, world_args=["rounds=2", "swaps=1"])
    group = played(parts[0], two_rounds, [5, 5])
    for e, rewards in zip(group, ([0.5, 0.5], [0.5, 0.0]), strict=True):
        for step, r in zip(e.steps, rewards, strict=True):
            step.reward = r
        e.world.success = sum(rewards) == 1
    on = lambda e, t: set(e.spans[t][0].advantages[slice(*e.spans[t][1:])])  # noqa: E731
    for e in group:
        e.rewards = paid(e, RL(), False)
    compare([group], RL(advantage="mean"), False, 0.0)
    assert [on(group[0], t) for t in (0, 1)] == [{0.5}, {0.5}]
    assert [on(group[1], t) for t in (0, 1)] == [{-0.5}, {-0.5}]
    for e in group:
        e.rewards = paid(e, RL(), True)
    compare([group], RL(advantage="mean", gamma=1.0), True, 0.0)
    assert [on(group[0], t) for t in (0, 1)] == [{0.25}, {0.25}]  # to go: 1, .5 and .5, 0
    compare([group], RL(advantage="mean", gamma=0.0), True, 0.0)
    assert [on(group[0], t) for t in (0, 1)] == [{0.0}, {0.25}]
    assert [[s.reward for s in e.steps] for e in group] == [[0.5, 0.5], [0.5, 0.0]]


def test_an_episode_that_outgrows_the_context_ends_there_and_is_counted(parts):
    p, chat, _ = parts
    first = len(
        chat.state([{"role": "user", "content": Cups(rounds=3, swaps=1).reset(5)}], [], None)
    )
    limit = CUPS.thought_tokens + CUPS.action_tokens + 3
    (e,) = played(p, replace(CUPS, context=first + limit), [5])
    assert len(e.steps) == 1 and e.outgrown and e.done and not e.world.success
    assert summary([e])["outgrown"] == 1.0
    (e,) = played(p, CUPS, [5])
    assert len(e.steps) == 3 and not e.outgrown


def test_a_history_hides_what_was_observed_and_drops_what_was_thought(parts):
    p, chat, _ = parts
    history = History(thoughts=False, last=1)
    (e,) = played(p, replace(CUPS, history=history), [5])
    assert len(e.samples) == 3 and sum(any(s.trained) for s in e.samples) == 3
    last = flat(chat.history(e.turns, history))
    first, middle, newest = e.turns
    assert last == first.state + first.without_thought + middle.hidden + middle.without_thought + (
        newest.state + newest.without_thought
    )
    assert len(middle.hidden) < len(middle.state)
    assert flat(chat.history(e.turns, History())) == [i for t in e.turns for i in t.state + t.full]
    for sample, (_, begin, _) in zip(e.samples, e.spans, strict=True):
        assert sample.trained.index(True) == begin  # each turn is trained in its own sample
    one, two = (lineage(sample) for sample in e.samples[1:])
    assert [a is b for a, b in zip(one, two, strict=False)] == [True, True, True, False]
    assert len(row(e.samples[1:]).ids) < sum(len(s.whole()) for s in e.samples[1:])


@pytest.mark.parametrize("history", [History(), History(thoughts=False), History(last=1)])
def test_episodes_of_one_task_are_a_group_whatever_their_histories_leave_out(parts, history):
    episodes = played(parts[0], replace(CUPS, history=history), [5, 5, 6])
    samples = [sample for e in episodes for sample in e.samples]
    assert len({id(lineage(sample)[0]) for sample in samples}) == 2


@pytest.mark.parametrize("history", [History(), History(thoughts=False), History(last=1)])
def test_act_prm_reads_the_history_that_will_be_deployed(parts, history):
    p, chat, demos = parts
    asked = agent(p, Config(thought_tokens=8, history=history))
    _, groups = walk_logs(asked, demos[:1], ActPRM(group=2), seed=3)
    last = groups[-1].thoughts[0].path
    state = chat.state(demos[0].steps[2].state, [], after="")
    assert last.history.whole() == flat(chat.history(last.turns, history)) + state
    before = lineage(groups[1].thoughts[0].path.history)  # state, answer, state
    shared = [a is b for a, b in zip(before, lineage(last.history), strict=False)]
    assert shared == [True, True, True]  # what goes on is shared, also where thoughts are dropped
    if not history.thoughts:
        silent = [i for t in last.turns for i in t.state + t.without_thought]
        assert last.history.whole() == silent + state and chat.think[0] not in silent


def test_a_hidden_observation_ends_what_is_shared_there_and_not_before():
    turns = [Turn([10 * i, 10 * i + 1], [10 * i], [10 * i + 2], [10 * i + 2]) for i in range(4)]
    history, known = History(last=1), {}
    chains = [lineage(chain(Chat.history(turns[:t], history), known)) for t in (1, 2, 3, 4)]
    common = [sum(a is b for a, b in zip(x, y, strict=False)) for x, y in pairwise(chains)]
    assert common == [2, 2, 4]  # the newest turn is hidden when the next comes, the others stay
    assert chains[3][-4].ids == [20] and chains[3][-2].ids == [30, 31]
    assert flat([n.ids for n in chains[2]]) == [0, 1, 2, 10, 12, 20, 21, 22]


def test_worlds_that_wait_are_stepped_side_by_side(parts, monkeypatch):
    meet = threading.Barrier(4, timeout=20)  # passes only when four steps run at once

    class Slow(Cups):
        waits = True

        def act(self, action):
            meet.wait()
            return super().act(action)

    monkeypatch.setattr(cups, "Cups", Slow)
    waited = played(parts[0], CUPS, [1, 2, 3, 4])
    monkeypatch.setattr(cups, "Cups", Cups)
    alone = played(parts[0], CUPS, [1, 2, 3, 4])
    assert [e.samples[0].ids for e in waited] == [e.samples[0].ids for e in alone]
    assert all(len(e.steps) == 3 for e in waited)
