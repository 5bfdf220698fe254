"""What more logs cost: memory is that of one portion of them, and each log is rendered once."""

import gc
from types import SimpleNamespace

import pytest

from minprm.constants import ActPRM, Config, Relabel
from minprm.data import Sample
from minprm.demos import SIDE_BY_SIDE, WITH_ONE_THOUGHT
from minprm.envs.base import task_seed
from minprm.envs.cups import Cups
from minprm.evaluation import answers, replay, replay_summary
from minprm.play import expert_demo
from minprm.stages import act_prm, relabel
from minprm.stages.metrics import held_out_look
from shared.policies import agent, policy

LOGS = 2 * WITH_ONE_THOUGHT + 2
CFG = Config(
    world="", thought_tokens=2, action_tokens=3, act_prm=ActPRM(group=2), relabel=Relabel(group=2)
)


def run_of(logs: int) -> SimpleNamespace:
    """As much of a run as walking its logs takes."""
    demos = [expert_demo(Cups(rounds=1, swaps=1), task_seed("train", i)) for i in range(logs)]
    asked = agent(policy(), CFG)
    return SimpleNamespace(cfg=CFG, seed=0, agent=asked, train_demos=demos, held_out=demos)


def count(kind: type) -> int:
    """How many of them are alive."""
    return sum(type(thing) is kind for thing in gc.get_objects())


def looked_at(run) -> None:
    held_out_look(run, CFG.act_prm, act_prm.walk_logs)


def relabelled(run) -> None:
    relabel.relabel(run, "relabel")


def sampled(run) -> None:
    relabel.sample(run, "sample")


@pytest.mark.parametrize(
    ("walk", "portion"),
    [(looked_at, SIDE_BY_SIDE), (relabelled, SIDE_BY_SIDE), (sampled, WITH_ONE_THOUGHT)],
)
def test_the_groups_of_one_portion_are_in_memory_however_many_logs_there_are(
    monkeypatch, tmp_path, walk, portion
):
    alive = []
    think = act_prm.think

    def counted(groups, *rest):
        alive.append(count(act_prm.Group))
        think(groups, *rest)

    monkeypatch.setattr(act_prm, "think", counted)
    run = run_of(LOGS)
    run.log = SimpleNamespace(folder=tmp_path)
    walk(run)
    assert len(alive) == -(-LOGS // portion)  # each log has one step
    # a group of the portion before may still have a name
    assert portion <= max(alive) <= portion + 1


def test_a_replay_holds_the_histories_of_one_portion(monkeypatch):
    run = run_of(LOGS)
    alive = []
    generate = run.agent.sampler.generate
    others = count(Sample)

    def counted(prompts, *rest):
        alive.append(count(Sample))
        return generate(prompts, *rest)

    monkeypatch.setattr(run.agent.sampler, "generate", counted)
    found = answers(run.agent, CFG, run.train_demos, noise=0)
    assert len(alive) == 3 and max(alive) == others + WITH_ONE_THOUGHT  # one state for each log
    assert [answer.log for answer in found] == list(range(LOGS))


def test_logs_of_later_portions_are_replayed_and_scored_like_the_first():
    run = run_of(WITH_ONE_THOUGHT + 2)
    few = run.train_demos[-2:]
    later = answers(run.agent, CFG, run.train_demos, noise=0)[-2:]
    alone = answers(run.agent, CFG, few, noise=0)
    assert [answer.ids for answer in later] == [answer.ids for answer in alone]
    for one, other in zip(later, alone, strict=True):
        assert one.likelihood == pytest.approx(other.likelihood, rel=1e-5)
    assert replay(run.agent, CFG, few, noise=0) == replay_summary(few, alone)
