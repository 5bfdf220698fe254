"""Entropy and information of thoughts: exact where all thoughts can be counted."""

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from minprm.constants import ActPRM
from minprm.envs import make_world
from minprm.envs.base import task_seed
from minprm.envs.cups import Cups
from minprm.look.collapse import STATES, THOUGHTS, Drawn, collapse, measures, of_play, of_walk
from minprm.model.precision import own_logprobs
from minprm.play import expert_demo, play
from minprm.stages.act_prm import walk_logs
from shared.policies import agent, policy
from shared.stages import CUPS

STOP = 0
# p(z | x) in quarters: of four thoughts that are drawn, each comes as often as it should
TABLE = {
    (7,): {(1, STOP): 2, (2, STOP): 1, (1, 2, STOP): 1},
    (8,): {(1, STOP): 1, (3, STOP): 3},
    (9, 9): {(1, 2, STOP): 4},
}


def in_proportion(table: dict) -> list[Drawn]:
    found = []
    for state, quarters in table.items():
        for z, times in quarters.items():
            found += [Drawn(state, list(z), [0.0] * len(z))] * times
    return found


def reader(table: dict) -> SimpleNamespace:
    """An agent whose policy is the table. A thought it does not hold is all but impossible."""

    def logprobs(samples, temperature):
        assert temperature == 0.7
        found = []
        for sample in samples:
            p = table[tuple(sample.parent.ids)].get(tuple(sample.ids), 0) / 4
            found.append(torch.tensor([math.log(p or 1e-30)] + [0.0] * (len(sample.ids) - 1)))
        return found

    return SimpleNamespace(policy=SimpleNamespace(logprobs=logprobs), temperature=0.7)


def test_entropy_and_information_are_those_of_the_joint_distribution():
    found = collapse(reader(TABLE), in_proportion(TABLE))
    joint = {}  # p(x, z), states equally likely
    for state, quarters in TABLE.items():
        for z, times in quarters.items():
            joint[state, z] = times / 4 / len(TABLE)
    p_z = {}
    for (_, z), p in joint.items():
        p_z[z] = p_z.get(z, 0.0) + p
    entropy = -sum(p * math.log(p * len(TABLE)) for p in joint.values())
    information = sum(p * math.log(p * len(TABLE) / p_z[z]) for (_, z), p in joint.items())
    assert found["collapse/entropy"] == pytest.approx(entropy)
    assert found["collapse/information"] == pytest.approx(information)
    assert 0 < information < math.log(3)
    tokens = sum(p * len(z) for (_, z), p in joint.items())
    assert found["collapse/entropy_per_token"] == pytest.approx(entropy / tokens)
    # (1) is likeliest after 7, where it was drawn twice of three times; (1, 2) after 9 9, 4 of 5
    assert found["collapse/recognised"] == pytest.approx((2 + 1 + 3 + 4) / 12)


def test_a_template_has_entropy_and_no_information():
    same = {state: {(1, STOP): 2, (2, STOP): 2} for state in [(7,), (8,)]}
    found = collapse(reader(same), in_proportion(same))
    assert found["collapse/entropy"] == pytest.approx(math.log(2))
    assert found["collapse/information"] == pytest.approx(0.0, abs=1e-6)
    assert found["collapse/recognised"] == 0.5  # one of two states, by chance
    told = {(7,): {(1, STOP): 4}, (8,): {(2, STOP): 4}}
    found = collapse(reader(told), in_proportion(told))
    assert found["collapse/entropy"] == 0.0 and found["collapse/recognised"] == 1.0
    assert found["collapse/information"] == pytest.approx(math.log(2))


def test_information_is_never_above_the_logarithm_of_the_states():
    noise = torch.Generator().manual_seed(0)
    for n in (2, 5, 8):
        logp = 30 * torch.randn(40, n, generator=noise)
        own = torch.randint(n, (40,), generator=noise)
        found = measures(logp, own, torch.ones(40))
        assert found["collapse/information"] <= math.log(n)
        best = measures(logp, logp.argmax(1), torch.ones(40))["collapse/information"]
        assert 0 < best <= math.log(n) + 1e-6


def test_its_cost_is_bounded_and_one_state_says_nothing():
    read = []
    one = {STOP: 0}

    def logprobs(samples, temperature):
        read.extend(samples)
        return [torch.zeros(1)] * len(samples)

    asked = SimpleNamespace(policy=SimpleNamespace(logprobs=logprobs), temperature=1.0)
    assert collapse(asked, [Drawn((1,), [STOP], [0.0])] * 9) == {} and not read
    many = [Drawn((state,), [STOP], [0.0]) for state in range(20) for _ in range(9)]
    assert collapse(asked, many) and len(read) == STATES * THOUGHTS * STATES
    assert len({id(sample.parent) for sample in read}) == STATES and one


@pytest.fixture(scope="module")
def walker():
    return agent(policy(), replace(CUPS, temperature=0.8))


def test_a_thought_is_read_after_the_very_prompt_that_it_was_drawn_after(walker):
    demos = [expert_demo(Cups(rounds=3, swaps=1), task_seed("train", i)) for i in range(3)]
    _, groups = walk_logs(walker, demos, ActPRM(group=4), seed=0)
    thoughts = of_walk(groups, walker.chat)
    assert len(thoughts) == 4 * len(groups)
    firsts = thoughts[:12]  # three states: the first step of each log
    found = collapse(walker, firsts)
    sampled = [sum(z.logprobs) for z in firsts]
    assert found["collapse/entropy"] == pytest.approx(-sum(sampled) / 12, rel=1e-4)
    # and information by plain forward passes over whole rows
    states = list(dict.fromkeys(z.state for z in firsts))
    total = 0.0
    for z, own in zip(firsts, sampled, strict=True):
        after = [read(walker, state, z.ids) for state in states]
        total += own - torch.stack(after).logsumexp(0).item() + math.log(3)
    assert found["collapse/information"] == pytest.approx(total / 12, rel=1e-3, abs=1e-5)


def read(walker, state: tuple, ids: list[int]) -> torch.Tensor:
    """log p of a thought by the model's own forward, at a temperature of 0.8."""
    row = torch.tensor([[*state, *ids]])
    logits = walker.policy.model(input_ids=row, use_cache=False).logits[0, len(state) - 1 : -1]
    return (logits.float() / 0.8).log_softmax(-1).gather(1, row[0, len(state) :, None]).sum()


def test_of_episodes_the_first_thoughts_count(monkeypatch):
    cold = agent(policy(), replace(CUPS, temperature=1.0))
    seeds = [task_seed("train", i) for i in (0, 0, 1)]
    chat = cold.chat
    generate = cold.sampler.generate

    def thinking(prompts, n, limit, *rest):
        """Begins each turn with a closed thought of two words; how likely it is, is read."""
        drawn = generate(prompts, n, limit, *rest)
        for prompt, (completion,) in zip(prompts, drawn, strict=True):
            ids = [*chat.think, *chat.content("ball under"), *chat.think_end, *completion.ids[:1]]
            completion.ids = ids
            logps = own_logprobs(cold.policy.model, [*prompt, *ids], len(ids))
            completion.logprobs = logps.tolist()
        return drawn

    monkeypatch.setattr(cold.sampler, "generate", thinking)
    episodes = play(cold, lambda: make_world(CUPS), seeds, noise=0)
    thoughts = of_play(episodes, chat)
    assert [z.ids for z in thoughts] == [[*chat.content("ball under"), *chat.stop]] * 3
    assert thoughts[0].state == thoughts[1].state != thoughts[2].state
    for z, e in zip(thoughts, episodes, strict=True):
        first, _, _ = e.spans[0]
        assert [*z.state, *z.ids] == first.whole()[: len(z.state) + len(z.ids)]
        assert z.state[-len(chat.think) :] == tuple(chat.think)
    found = collapse(cold, thoughts)
    expected = -sum(sum(z.logprobs) for z in thoughts) / 3
    assert found["collapse/entropy"] == pytest.approx(expected, rel=1e-4)
