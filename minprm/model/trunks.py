"""What was read of a long log is kept while it is scored, so each step reads what it adds.

A log is scored step by step (stages/act_prm.py), and the thoughts of a step stand behind all that
came before them: their trunk. Without this file each step reads its whole trunk again, so the
tokens that are read grow with the square of a log's steps. With it they grow with the steps.

The keys and values of a trunk are kept until the walk through the logs ends; no weight changes
before that. Short trunks are read together, many in one pass, as in training.
"""

import torch
from torch import Tensor
from transformers import DynamicCache

from minprm.data import Sample
from minprm.model.blocks import rounded
from minprm.model.cache import held
from minprm.model.policy import Policy
from minprm.model.precision import autocast
from minprm.model.sampler import CPU_MEMORY, LONG

SHARE = 4  # at most a quarter of the memory is kept

Layers = list[tuple[Tensor, Tensor]]  # keys and values, [1, heads, tokens, head_dim] each


class Trunks:
    """Scores Samples as `Policy.logprobs` does, for as long as no weight changes."""

    def __init__(self, policy: Policy, base: bool, least: int = LONG):
        """base: the frozen base model scores. least: tokens of the shortest trunk that is kept."""
        self.policy = policy
        self.base = base
        self.least = least
        self.kept: list[tuple[Tensor, Layers]] = []  # the ids of each trunk, and what was read

    @torch.no_grad()
    def logprobs(self, samples: list[Sample]) -> list[Tensor]:
        """log p of each Sample's trained tokens: one fp32 tensor [n] a Sample."""
        if not self.policy.keeps_trunks:
            return self.policy.logprobs(samples, base=self.base)
        groups: dict[Sample | None, list[int]] = {}  # indices of Samples, by their trunk
        for i, sample in enumerate(samples):
            groups.setdefault(sample.parent, []).append(i)
        short = []  # indices of those that are read together
        logps = {}
        for trunk, numbers in groups.items():
            ids = trunk.whole() if trunk else []
            if len(ids) < self.least:
                short += numbers
                continue
            scored = self._behind(torch.tensor(ids), [samples[i] for i in numbers])
            logps |= zip(numbers, scored, strict=True)
        short.sort()
        scored = self.policy.logprobs([samples[i] for i in short], base=self.base)
        logps |= zip(short, scored, strict=True)
        return [logps[i] for i in range(len(samples))]

    def _behind(self, ids: Tensor, group: list[Sample]) -> list[Tensor]:
        """The log-probs of Samples that have one trunk, with these ids."""
        cache = self._resumed(ids)
        reading = self.policy.read([group], 1.0, self.base, cache=cache)
        self._keep(ids, cache)
        return [*reading.logp.split([sum(sample.trained) for sample in group])]

    def _resumed(self, ids: Tensor) -> DynamicCache:
        """A cache that holds what was read already of a trunk, by its own log or by another one
        that begins with the same tokens."""
        cache = DynamicCache(config=self.policy.model.config)
        tokens = 0
        longest: Layers = []
        for trunk, layers in self.kept:
            shared = _alike(trunk, ids)
            if shared > tokens:
                tokens, longest = shared, layers
        tokens = min(tokens, len(ids) - 1)  # the last one is read again: it predicts what follows
        for number, (keys, values) in enumerate(longest):
            cache.update(keys[:, :, :tokens], values[:, :, :tokens], number)
        return cache

    def _keep(self, ids: Tensor, cache: DynamicCache) -> None:
        """Keeps what the cache holds of the trunk, in the place of a beginning of it that was kept.
        Without memory for the longer one the shorter one stays."""
        layers = []
        with autocast(self.policy.model):
            for layer in cache.layers:  # as attention reads them, without the thoughts behind
                keys, values = (rounded(x[:, :, : len(ids)]).clone() for x in held(layer))
                layers.append((keys, values))
        trunks = [(t, others) for t, others in self.kept if _alike(t, ids) < len(t)]
        trunks.append((ids, layers))
        size = sum(_bytes(layers) for _, layers in trunks)
        if size <= _memory(self.policy.model.device) // SHARE:
            self.kept = trunks


def _alike(one: Tensor, other: Tensor) -> int:
    """With how many equal ids they begin."""
    length = min(len(one), len(other))
    differ = (one[:length] != other[:length]).nonzero()
    return int(differ[0]) if len(differ) else length


def _bytes(layers: Layers) -> int:
    return sum(keys.nbytes + values.nbytes for keys, values in layers)


def _memory(device: torch.device) -> int:
    """All of a GPU's, or a fixed number, free or not: a rerun must keep the same."""
    if device.type != "cuda":
        return CPU_MEMORY
    return torch.cuda.get_device_properties(device).total_memory
