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
    for the gradient where they would not fit into memory at once.
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
    hidden = output.last_hidden_state.flatten(0, 1)[rows.before]  # [B, L, D] -> [T, D]
    target_ids = rows.ids.flatten()[rows.scored]  # [T]
    most = CHUNK if torch.is_grad_enabled() else READ
    size = max(most // output_layer(model).shape[0], 1)
    chunks = [x.split(size) for x in (hidden, temperatures, target_ids)]
    numbers = project(partial(_logits, model, output), chunks, entropy_gradient, likely)
    return numbers, hidden


def project(
    logits: Callable[[Tensor], Tensor],
    chunks: list[tuple[Tensor, ...]],
    entropy_gradient: bool,
    likely: int,
) -> list[Tensor]:
    """The first four fields of a Reading, chunk by chunk.  chunks of [T, D], [T, 1], [T]

    More than one chunk is computed again for the gradient: all at once would not fit into memory.
    """
    chunk_scores = partial(_score_chunk, logits, entropy_gradient, likely)
    if len(chunks[0]) > 1:
        chunk_scores = partial(checkpoint, chunk_scores, use_reentrant=False)
    parts = [chunk_scores(*chunk) for chunk in zip(*chunks, strict=True)]
    return [torch.cat(part).cpu() for part in zip(*parts, strict=True)]


def _score_chunk(
    logits: Callable[[Tensor], Tensor],
    entropy_gradient: bool,
    likely: int,
    hidden: Tensor,
    temperature: Tensor,
    target_ids: Tensor,
) -> tuple[Tensor, ...]:
    """The same of one chunk, in fp32.  [t, D], [t, 1], [t] -> [t], [t], [t, k], [t, k]"""
    all_logp = (logits(hidden).float() / temperature).log_softmax(-1)  # [t, V]
    with torch.set_grad_enabled(entropy_gradient and torch.is_grad_enabled()):
        # a token that cannot come adds 0, and not 0 times its log-prob, -inf
        entropy = -(all_logp.exp() * all_logp.clamp(min=LEAST)).sum(-1)
    logp = all_logp.gather(-1, target_ids[:, None])[:, 0]
    top = all_logp.detach().topk(min(likely, all_logp.shape[-1]))
    return logp, entropy, top.indices, top.values


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
