"""Neighbours of Act-PRM that pay the tokens of a thought in another way: stages for neighbours.py.

Each is Act-PRM's own stage with one function of it replaced.
"""

import math
from unittest.mock import patch

from minprm.data import Sample
from minprm.model.agent import Agent
from minprm.stages import act_prm as stage
from minprm.trainer import Run

LEAST = 1e-6  # of a probability, so that its logarithm is finite
MOST = 5.0  # nats, of a token's advantage in self-distillation


def quiet(run: Run, stage_id: str, **changes) -> None:
    """Like Quiet-STaR (Zelikman et al. 2024, arXiv:2403.09629).

    A thought earns log p(a | s, z), minus the mean of its group, where that is above 0: thoughts
    below the mean are not pushed down, as in the paper. The expert's action is learned after every
    thought, whatever it earned.
    """

    def credit(groups: list, cfg) -> None:
        for group in groups:
            earned = [math.log(max(z.reward, LEAST)) for z in group.thoughts]
            for z, r in zip(group.thoughts, earned, strict=True):
                z.advantage = max(r - sum(earned) / len(earned), 0.0)
                z.action_weight = 1.0

    with patch.object(stage, "credit", credit):
        stage.act_prm(run, stage_id, baseline="none", **changes)


def distil(run: Run, stage_id: str, **changes) -> None:
    """On-policy self-distillation (Zhao et al. 2026, arXiv:2601.18734).

    The student draws thoughts from the state alone. The teacher is the base model, which reads the
    same tokens with the expert's action shown before them. A token's advantage is log p of the
    teacher minus log p of the student: the policy gradient of the reverse KL, token by token.
    """
    plain = stage.to_samples

    def to_samples(groups: list, chat, cfg, version: int) -> list[Sample]:
        samples = plain(groups, chat, cfg, version)
        thoughts = [(group, z) for group in groups for z in group.thoughts]
        said = taught(thoughts, run.agent)
        for (_, z), sample, teacher in zip(thoughts, samples, said, strict=True):
            begin = len(chat.think)
            for i, (t, s) in enumerate(zip(teacher, z.logprobs, strict=True)):
                sample.advantages[begin + i] = max(-MOST, min(MOST, t - s))
        return samples

    with patch.object(stage, "to_samples", to_samples):
        stage.act_prm(run, stage_id, baseline="none", trained_on="thought", **changes)


def taught(thoughts: list[tuple], agent: Agent) -> list[list[float]]:
    """log p of each thought's tokens by the base model that sees the action: (group, z) each."""
    samples = []
    for group, z in thoughts:
        seen = [*agent.chat.before_thought(group.action), *agent.chat.think]
        samples.append(Sample(parent=z.path.history).extend(seen).extend(z.sampled, 0.0))
    return [logp.tolist() for logp in agent.policy.logprobs(samples, base=True)]
