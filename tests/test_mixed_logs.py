"""Logs of replies and calls, all the way: trained on, sampled, parsed, scored and matched."""

from dataclasses import replace

import pytest
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from minprm.arms.evaluation import answer_logs, replay, replay_summary
from minprm.constants import SFT, ActPRM, Config
from minprm.data import Demo, Sample, Step
from minprm.model.agent import make_agent
from minprm.model.policy import Policy
from minprm.model.sampler import Completion, Sampler
from minprm.stages.act_prm import walk_logs
from minprm.stages.sft import to_samples
from minprm.text.actions import joined
from shared.templates import TYPED, shipped

VISIT = {"name": "visit", "arguments": {"title": "Paris", "n": 3}}
STEPS = [
    Step([{"role": "user", "content": "how big?"}], "look", joined("", [VISIT])),
    Step([{"role": "tool", "content": '9 "gates"'}], "good", "It has 9 gates."),
    Step([{"role": "user", "content": "and Rome?"}], "more", joined("", [VISIT, VISIT])),
]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gemma4", "glm4moe", "mistral"])
def test_a_model_that_has_learned_a_log_of_replies_and_calls_writes_it(name):
    """The end of a turn, the answer by its call's name and the types of values are all in it."""
    words = shipped(name)
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=len(words), hidden_size=64, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=2, head_dim=32, tie_word_embeddings=True,
    )  # fmt: skip
    policy = Policy(Qwen3ForCausalLM(config), words, 10_000)
    cfg = Config(thought_tokens=8, action_tokens=250, eval_temperature=0.0)
    agent = make_agent(policy, Sampler(policy.model), cfg, TYPED)
    demo = Demo("t", [], TYPED, STEPS)
    before = replay(agent, cfg, [demo], noise=0)
    samples = to_samples(demo, agent)
    for update in range(80):
        policy.update(samples, SFT(), lr=5e-3 * min(1, (80 - update) / 40))
    agent.sync()
    row = replay(agent, cfg, [demo], noise=0)
    assert before["success"] == 0.0 and row["success"] == row["thought_rate"] == 1.0
    assert row["likelihood"] > 0.5
    _, groups = walk_logs(agent, [demo], ActPRM(group=2), seed=0)
    assert all(z.reward > 0.5 for group in groups for z in group.thoughts if z.usable)
    assert any(z.usable for group in groups for z in group.thoughts)


@pytest.mark.parametrize("name", ["qwen3", "mistral"])
def test_who_may_not_think_is_replayed_behind_the_opening_that_was_learned(name):
    words = shipped(name)
    config = Qwen3Config(
        vocab_size=len(words), hidden_size=16, intermediate_size=16, num_hidden_layers=1,
        num_attention_heads=1, num_key_value_heads=1, head_dim=16,
    )  # fmt: skip
    policy = Policy(Qwen3ForCausalLM(config), words, 10_000)
    cfg = Config(think=False, action_tokens=250)
    demo = Demo("t", [], TYPED, [replace(step, thought=None) for step in STEPS])
    prompts = []

    class Writes(Sampler):
        def generate(self, asked, n, max_tokens, stop, temperature, seed):
            prompts.extend(asked)
            chat = agent.chat
            ids = chat.closed([], chat.action(demo.steps[len(prompts) - 1].action))
            return [[Completion(ids, [0.0] * len(ids))]]

    agent = make_agent(policy, Writes(policy.model), cfg, TYPED)
    answers = answer_logs(agent, cfg, [demo], noise=0)
    assert [answer.thought for answer in answers] == [None] * 3
    row = replay_summary([demo], answers)
    assert row["success"] == 1.0 and row["unreadable"] == row["thought_rate"] == 0.0
    (learned,) = to_samples(demo, agent)
    opening = agent.opening(None)
    likelihoods = []
    for prompt, step in zip(prompts, demo.steps, strict=True):
        assert prompt == learned.ids[: len(prompt)]
        assert prompt[len(prompt) - len(opening) :] == opening
        scored = Sample().extend(prompt).extend(agent.chat.action(step.action), 0.0)
        likelihoods.append(policy.logprobs([scored])[0].sum().exp().item())
    assert row["likelihood"] == pytest.approx(sum(likelihoods) / 3, rel=1e-4)
