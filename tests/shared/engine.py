"""What tests of the real engine measure with: how far what it draws is from what is trained on."""

import torch

from minprm.constants import Engine
from minprm.data import Sample
from minprm.model.policy import Policy

LONG = [3, 4, 5, 6, 7] * 60  # longer than a block of the prefix cache
PROMPTS = [LONG, [7], [8, 9, 1], [*LONG, 8, 9]]
FP32 = Engine(max_gap=1e-3)  # on a CPU both are fp32, so they agree much better than on a GPU


def perturb(p: Policy) -> None:
    with torch.no_grad():
        for weight in p.model.parameters():
            weight += 0.05 * torch.randn_like(weight)


def gap(p: Policy, sampler, temperature: float = 0.7) -> float:
    """max |log-prob of sampler - log-prob of trainer| over everything drawn."""
    drawn = sampler.generate(PROMPTS, 3, 12, [2], temperature, seed=0)
    pairs = [(prompt, c) for prompt, group in zip(PROMPTS, drawn, strict=True) for c in group]
    rows = [Sample(parent=Sample().extend(x)).extend(c.ids, 0.0, c.logprobs) for x, c in pairs]
    scored = p.logprobs(rows, temperature)
    return max(
        (l - torch.tensor(c.logprobs)).abs().max().item()
        for l, (_, c) in zip(scored, pairs, strict=True)
    )
