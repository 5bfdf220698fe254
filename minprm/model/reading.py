"""What the model says of tokens: one forward pass, from rows of ids to log-probs.

Rows know the places at which tokens are predicted (tree.py); here their distributions are computed,
and what is kept of each. A distribution is as long as the vocabulary, so not one is kept whole.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import Module
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel
from transformers.utils.generic import ModelOutput

from minprm.model.cache import cache_name
from minprm.model.precision import output_layer
from minprm.model.tree import Rows

LEAST = torch.finfo(torch.float32).min  # stands for a log-prob of -inf
CHUNK = 2**27  # logits computed at once for a gradient: half a gigabyte in fp32
# the same where there is none: then no chunk is computed again, however many there are
READ = 2**25


class Reading(NamedTuple):
    """What the model says of the trained tokens of some Samples, concatenated, on the CPU."""

    logp: Tensor  # [T]
    entropy: Tensor  # [T], of the distribution that the token was predicted from
    likely: Tensor  # [T, k], the k likeliest tokens of that distribution, likeliest first
    likely_logp: Tensor  # [T, k], their log-probs
    values: Tensor  # [T], the critic's before the token; [T, 0] for Samples without returns

    def split(self, sizes: list[int]) -> "list[Reading]":
        """One Reading for each Sample, from the number of trained tokens of each."""
        columns = [tensor.split(sizes) for tensor in self]
        return [Reading(*parts) for parts in zip(*columns, strict=True)]


class Targets(NamedTuple):
    """T trained tokens, and the U distributions that predict them."""

    hidden: Tensor  # [U, D], from which the vocabulary is projected
    temperatures: Tensor  # [U, 1]
    which: Tensor  # [T], the number of each token's distribution
    ids: Tensor  # [T]

    def chunks(self, size: int) -> "Iterator[tuple[Tensor, Targets]]":
        """The distributions, `size` at a time: the numbers of their tokens, and these."""
        for first in range(0, max(len(self.hidden), 1), size):
            rows = slice(first, first + size)
            tokens = (self.which // size == first // size).nonzero()[:, 0]
            which = self.which[tokens] - first
            chunk = Targets(self.hidden[rows], self.temperatures[rows], which, self.ids[tokens])
            yield tokens, chunk


def scores(model: PreTrainedModel, *arguments: Any) -> tuple[list[Tensor], Tensor]:
    """`of_rows` in the place of the model's forward: its hooks see a pass begin and end."""
    with replaced(model, partial(of_rows, model)):
        return model(*arguments)


def of_rows(
    model: PreTrainedModel,
    rows: Rows,
    temperatures: Tensor,
    entropy_gradient: bool,
    likely: int,
) -> tuple[list[Tensor], Tensor]:
    """One forward pass: (the first four fields of a Reading; the hidden states from which they
    come, [T, D]).  temperatures: [T, 1]

    The vocabulary is projected only where a log-prob is read, in chunks, which are computed again
    for the gradient where they would not fit into memory at once. Tokens that are predicted at one
    place come from one distribution; where distributions are large, each is computed once.
    """
    before: dict[str, Any] = {"use_cache": False}
    if rows.cache is not None:
        before = {"use_cache": True, cache_name(model): rows.cache}
    output = model.base_model(
        input_ids=rows.ids,
        position_ids=rows.positions,
        attention_mask=rows.attention_mask,
        **before,
    )
    states = output.last_hidden_state.flatten(0, 1)  # [B, L, D] -> [B * L, D]
    hidden = states[rows.before]  # [T, D]
    own = torch.arange(len(hidden), device=hidden.device)
    targets = Targets(hidden, temperatures, own, rows.ids.flatten()[rows.scored])
    vocabulary = output_layer(model).shape[0]
    if len(hidden) * vocabulary > READ:
        targets = distinct(targets, states, rows.before)
    size = max((CHUNK if torch.is_grad_enabled() else READ) // vocabulary, 1)
    numbers = project(partial(_logits, model, output), targets, size, entropy_gradient, likely)
    return numbers, hidden


def distinct(targets: Targets, states: Tensor, before: Tensor) -> Targets:
    """The same, with one distribution for the tokens of one place and one temperature.
    states, [B * L, D]: of all places;  before, [T]: where the tokens are predicted"""
    sources = torch.cat([before[:, None].float(), targets.temperatures], 1)
    sources, which = sources.unique(dim=0, return_inverse=True)  # [U, 2], [T]
    return Targets(states[sources[:, 0].long()], sources[:, 1:], which, targets.ids)


def project(
    logits: Callable[[Tensor], Tensor],
    targets: Targets,
    size: int,
    entropy_gradient: bool,
    likely: int,
) -> list[Tensor]:
    """The first four fields of a Reading, from `size` distributions at a time.

    More than one chunk is computed again for the gradient: all at once would not fit into memory.
    """
    chunk_scores = partial(_score_chunk, logits, entropy_gradient, likely)
    if len(targets.hidden) > size:
        chunk_scores = partial(checkpoint, chunk_scores, use_reentrant=False)
    parts = []
    numbers = []
    for tokens, chunk in targets.chunks(size):
        parts.append(chunk_scores(*chunk))
        numbers.append(tokens)
    order = torch.cat(numbers).argsort()
    return [torch.cat(part)[order].cpu() for part in zip(*parts, strict=True)]


def _score_chunk(
    logits: Callable[[Tensor], Tensor],
    entropy_gradient: bool,
    likely: int,
    hidden: Tensor,
    temperatures: Tensor,
    which: Tensor,
    ids: Tensor,
) -> tuple[Tensor, ...]:
    """The same of one chunk, in fp32.  [t], [t], [t, k], [t, k]"""
    all_logp = (logits(hidden).float() / temperatures).log_softmax(-1)  # [u, V]
    with torch.set_grad_enabled(entropy_gradient and torch.is_grad_enabled()):
        # a token that cannot come adds 0, and not 0 times its log-prob, -inf
        entropy = -(all_logp.exp() * all_logp.clamp(min=LEAST)).sum(-1)
    # from the flat tensor: on a CPU its gradient is summed in one order, with all threads
    logp = all_logp.flatten().gather(0, which * all_logp.shape[1] + ids)
    top = all_logp.detach().topk(min(likely, all_logp.shape[1]))
    return logp, entropy[which], top.indices[which], top.values[which]


def _logits(model: PreTrainedModel, output: ModelOutput, hidden: Tensor) -> Tensor:
    """The model's own logits of these hidden states.  [t, D] -> [t, V]

    Runs the model's `forward` with layers that return at once what they have given: `output`. What
    follows the layers differs between models (soft caps, scales), and their own code knows it. A
    thread that plays ahead has a model of its own, so nobody else meets these layers.
    """
    layers_output = copy(output)
    layers_output.last_hidden_state = hidden[None]
    with replaced(model.base_model, lambda *args, **knobs: layers_output):
        # its class's own: a forward that somebody put on the object may belong to a copy of it
        return type(model).forward(model, use_cache=False).logits[0]


@contextmanager
def replaced(module: Module, forward: Callable) -> Iterator[None]:
    """Inside, a call of the module calls this function."""
    before = vars(module).get("forward")  # that somebody put there
    module.forward = forward
    try:
        yield
    finally:
        del module.forward
        if before:
            module.forward = before
