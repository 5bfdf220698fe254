"""Which steps of relabelled logs are learned, and which are only read."""

import pytest

from minprm.constants import Config, History, Relabel, Tiny
from minprm.envs.cups import Cups
from minprm.load import tiny
from minprm.model.agent import make_prompter
from minprm.play import expert_demos
from minprm.stages.relabel import Relabelled, good_steps
from minprm.stages.sft import to_samples

REWARDS = [[1.0, 0.2, 0.95], [0.1, 0.1, 0.9], [0.0, 0.5, 0.89]]


@pytest.fixture
def demos():
    """Logs of three steps, whose thoughts have earned these rewards."""
    logs = expert_demos(Config(), "train", seed=0, n=len(REWARDS))
    rated = []
    for demo, rewards in zip(logs, REWARDS, strict=True):
        rated.append(demo.with_thoughts([step.thought for step in demo.steps], rewards))
    return rated


def prompter(**knobs):
    _, tokenizer = tiny.untrained(Cups(), Tiny(dim=8), seed=0)
    return make_prompter(tokenizer, Config(instruction="none", **knobs), tools=[])


def marked(demos: list) -> list:
    cfg = Relabel(min_step_reward=0.9)
    return [log.demo for log in good_steps([Relabelled(d, True, []) for d in demos], cfg, "x")]


def test_a_log_without_a_good_step_is_left_out(demos):
    learned = [[step.learned for step in demo.steps] for demo in marked(demos)]
    assert learned == [[True, False, True], [False, False, True]]


def test_if_there_is_none_the_run_ends_in_a_sentence(demos, capsys):
    with pytest.raises(SystemExit):
        marked(demos[2:])
    assert "no step reached --relabel.min-step-reward 0.9, the best has" in capsys.readouterr().err


def test_a_step_with_a_bad_thought_is_read_and_not_learned(demos):
    agent = prompter()
    whole = [to_samples(demo, agent) for demo in demos]
    for (usual,), demo in zip(whole, marked(demos), strict=False):
        (sample,) = to_samples(demo, agent)
        assert sample.ids == usual.ids and all(usual.trained[i] for i in learned_at(sample))
        told = agent.chat.tokenizer.decode([sample.ids[i] for i in learned_at(sample)])
        good = [step for step in demo.steps if step.learned]
        assert told.count("</think>") == len(good)
        assert all(step.thought in told and step.action in told for step in good)


def test_so_it_is_where_each_step_is_a_sample_of_its_own(demos):
    agent = prompter(history=History(thoughts=False))
    whole = [to_samples(demo, agent) for demo in demos]
    for usual, demo in zip(whole, marked(demos), strict=False):
        kept = [each for each, step in zip(usual, demo.steps, strict=True) if step.learned]
        assert [x.whole() for x in to_samples(demo, agent)] == [x.whole() for x in kept]


def learned_at(sample) -> list[int]:
    return [i for i, on in enumerate(sample.trained) if on]
