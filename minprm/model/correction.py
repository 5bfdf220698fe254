"""Sampler and trainer are two programs, and their log-probs of one token differ.

`policy/gap_mean` says by how much. Where that matters (an engine in 16 bit, batches that older
weights have played), --rl.correction takes ratios against the trainer's own log-probs, and weighs
each advantage by how much more likely the trainer finds the token than the sampler did.
"""

from dataclasses import replace

import torch

from minprm.algorithms import kl_k3
from minprm.constants import Engine, fail
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
        is_drawn = ~old[trained].isnan()
        places = trained.nonzero()[:, 0][is_drawn]
        own = logp[is_drawn]
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


def check_gap(stats: dict[str, float], cfg: Engine) -> None:
    """Exits where the model that wrote is not the one that learns, unless older weights were meant
    to write."""
    gap = stats.get("policy/gap_mean", 0.0)
    if gap > cfg.max_gap and not stats.get("policy/staleness", 0):
        fail(
            f"sampler and trainer differ by {gap:.3f} nats a token (above --engine.max-gap): "
            "stale weights, a temperature on one side only, or a precision too low; if vLLM "
            "writes, --sampler transformers shows which side is wrong"
        )
