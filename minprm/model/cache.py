"""Keys and values of what was read; those of the sampler have room for what is drawn.

transformers' layer joins old and new keys in a new tensor, so each token costs a copy of all that
was read before it: on a CPU half of the time of a step. Here a new token is written behind the old.
Layers that forget (a sliding window) or that keep one state (a recurrent layer) stay as they are.
"""

from inspect import signature
from typing import Any, cast

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

from minprm.model.blocks import rounded


class GrowingLayer(DynamicLayer):
    """Some rows of another layer's keys and values, copied, with room for `more` tokens."""

    def __init__(self, layer: DynamicLayer, rows: Tensor, more: int, columns: Tensor | None):
        super().__init__()
        # transformers holds fp32 under autocast, too, which would be rounded again at every token
        keys, values = (_chosen(rounded(old), rows, columns) for old in held(layer))
        self.lazy_initialization(keys, values)
        self.rooms = (_with_room(keys, more), _with_room(values, more))
        self._show(keys.shape[2])

    def update(
        self, key_states: Tensor, value_states: Tensor, *args, **kwargs
    ) -> tuple[Tensor, Tensor]:
        """Writes what is new behind what is there.
        [B, heads, new, D] -> [B, heads, old + new, D], for keys and for values"""
        old = self.get_seq_length()
        end = old + key_states.shape[2]
        for room, new in zip(self.rooms, (key_states, value_states), strict=True):
            room[:, :, old:end] = new  # raises where no room is left
        self._show(end)
        return held(self)

    def _show(self, end: int) -> None:
        """The keys and values are those of the first `end` tokens."""
        self.keys, self.values = (room[:, :, :end] for room in self.rooms)


def _chosen(old: Tensor, rows: Tensor, columns: Tensor | None) -> Tensor:
    """[P, heads, L, D], [B], [B, C] -> [B, heads, C, D]; without columns all of them"""
    if columns is None:
        return old[rows]
    return old[rows[:, None], :, columns].transpose(1, 2)


def _with_room(old: Tensor, more: int) -> Tensor:
    """[B, heads, L, D] -> [B, heads, L + more, D], not filled behind L"""
    batch, heads, length, dim = old.shape
    room = old.new_empty(batch, heads, length + more, dim)
    room[:, :, :length] = old
    return room


def choose(cache: DynamicCache, rows: Tensor, more: int, columns: Tensor | None = None) -> None:
    """Rows of the cache, in this order, become the cache, with room for `more` tokens.

    With columns [B, C], each row keeps these of its tokens; then all layers have to keep all. Rows
    are copied: whoever holds the keys and values from before, holds them unchanged.
    """
    for number, layer in enumerate(cache.layers):
        if isinstance(layer, GrowingLayer) or type(layer) is DynamicLayer:
            cache.layers[number] = GrowingLayer(layer, rows, more, columns)
        else:
            layer.reorder_cache(cast(torch.LongTensor, rows))


def held(layer: Any) -> tuple[Tensor, Tensor]:
    """Keys and values of a layer that was read; transformers' types do not say that it has them."""
    return layer.keys, layer.values


def cache_name(model: PreTrainedModel) -> str:
    """What the forward of a model, which lies under no adapters, calls its cache.

    transformers 5.24 gave all of them one name; a model with code of its own may keep an older one.
    """
    parameters = signature(type(model).forward).parameters
    for name in ("cache", "cache_params"):
        if name in parameters:
            return name
    return "past_key_values"


def keeps_all(model: PreTrainedModel) -> bool:
    """Does every layer keep the keys and values of all tokens?

    A sliding window forgets them, and linear attention has one state instead. What such a layer
    holds belongs to the end of what it has read, and not to a prompt that was continued since.
    """
    return all(type(layer) is DynamicLayer for layer in DynamicCache(config=model.config).layers)
