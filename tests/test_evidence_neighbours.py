"""The neighbours of Act-PRM in benchmarks/evidence: what they keep, and how they pay tokens."""

import pytest
import torch

from benchmarks.evidence import distil, neighbours, star
from minprm.arms.ladder import start
from minprm.constants import ARMS
from minprm.run.stage_ids import ids_of
from minprm.stages import STAGES, act_prm
from shared.stages import CFG, Lines


@pytest.fixture
def run(checkpoints):
    return start(CFG, 0, Lines(), checkpoints)


def test_every_arm_is_made_of_stages_that_there_are():
    arms = ARMS | dict(neighbours.WAYS.values())
    for arm in neighbours.NAMES:
        assert set(arms[arm]) <= set(STAGES | neighbours.OURS)
        assert len(set(ids_of(arms[arm]))) == len(arms[arm])


def test_star_keeps_a_thought_after_which_the_action_was_written(run):
    kept = star.kept(run, run.train_demos, 0, group=4, shown=4)
    assert all(z.reward == 1.0 for _, _, z in kept)
    steps = [(id(walk), t) for walk, t, _ in kept]
    assert len(set(steps)) == len(steps)


def test_the_teacher_reads_the_thought_with_the_action_before_it(run):
    chat = run.agent.chat
    _, groups = act_prm.walk_logs(run.agent, run.train_demos[:1], run.cfg.act_prm, 0)
    thoughts = [(groups[0], z) for z in groups[0].thoughts]
    found = distil.taught(thoughts, run.agent)[0]
    group, z = thoughts[0]
    ids = [*z.path.history.whole(), *chat.before_thought(group.action), *chat.think, *z.sampled]
    with torch.no_grad():
        logits = run.agent.policy.model(torch.tensor([ids])).logits[0].log_softmax(-1)
    said = logits[-len(z.sampled) - 1 : -1].gather(1, torch.tensor(z.sampled)[:, None])[:, 0]
    assert found == pytest.approx(said.tolist(), abs=1e-4)
