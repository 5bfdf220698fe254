"""Sampler and trainer are two programs, and their log-probs of one token differ.

`policy/gap_mean` says by how much. Where that matters (an engine in 16 bit, batches that older
weights have played), --*.correction takes ratios against the trainer's own log-probs, and weighs
each advantage by how much more likely the trainer finds the token than the sampler did.
"""

from dataclasses import replace

import torch

from minprm.algorithms import kl_k3
from minprm.data import Sample
from minprm.model.policy import Policy
from minprm.zoo import CORRECTIONS


def reweighted(
    policy: Policy, samples: list[Sample], name: str, temperature: float
) -> tuple[list[Sample], dict[str, float]]:
    """Returns (samples, stats) before an update.

    Old log-probs become the trainer's own; advantages are multiplied by the weight that the
    correction of that name gives, about p_trainer / p_sampler. The stats tell how far the two were
    apart, and which share of the samples was dropped. With "none" the samples stay as they are.
    """
    if name == "none":
        return samples, {}
    corrected = []
    gaps = []
    dropped = 0
    for sample, logp in zip(samples, policy.logprobs(samples, temperature), strict=True):
        old = torch.tensor(sample.logprobs)
        adv = torch.tensor(sample.advantages)
        trained = torch.tensor(sample.trained)
        drawn = ~old[trained].isnan()
        places = trained.nonzero()[:, 0][drawn]
        own = logp[drawn]
        weights = CORRECTIONS[name](own, old[places])
        gaps.append(own - old[places])
        if len(weights) and not weights.any():
            dropped += 1
        old[places] = own
        adv[places] = adv[places] * weights
        corrected.append(replace(sample, logprobs=old.tolist(), advantages=adv.tolist()))
    gap = torch.cat(gaps)
    return corrected, {
        "policy/gap_mean": gap.abs().mean().item(),
        "policy/gap_max": gap.abs().max().item(),
        "policy/mismatch_kl": kl_k3(torch.zeros(()), gap).mean().item(),
        "policy/dropped": dropped / len(samples),
    }
