"""One step of writing: every completion reads the token that it drew last.

The completions of a prompt are branches of a tree, as thoughts are where they are learned from
(tree.py). `Together` keeps them in one row behind their prompt, whose keys are held once and read
once for all of them. Completions a and b of a prompt s:

    row              s1 s2 s3   a1 b1   a2 b2
    what a2 sees      x  x  x    x  .    x  .
    what b2 sees      x  x  x    .  x    .  x

`Apart` gives each completion a row of its own, as every model allows. Both have the same methods.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from transformers import DynamicCache

from minprm.model.cache import choose

# the model: (ids, mask, positions, cache, number of logits to keep) -> [B, keep, V]
Forward = Callable[[Tensor, Tensor, Tensor, DynamicCache, int], Tensor]


class Apart:
    """B completions, a row each: rows of a mask [P, L] and of its cache, room for `more` tokens."""

    outgrown = False

    def __init__(
        self,
        mask: Tensor,
        cache: DynamicCache,
        rows: Tensor,
        more: int,
        columns: Tensor | None = None,
    ):
        choose(cache, rows, more, columns)
        self.mask = mask[rows]
        self.cache = cache

    def step(self, forward: Forward, token: Tensor) -> Tensor:
        """The logits after one more token of each.  [B] -> [B, V]"""
        self.mask = torch.cat([self.mask, torch.ones_like(self.mask[:, :1])], 1)
        positions = self.mask.sum(1, keepdim=True) - 1
        return forward(token[:, None], self.mask, positions, self.cache, 1)[:, 0]

    def keep(self, places: Tensor, more: int) -> "Apart":
        """These completions alone, with room for `more` tokens."""
        return Apart(self.mask, self.cache, places, more)


class Together:
    """P rows of a mask [P, L] and of its cache, with `group` completions in each."""

    def __init__(self, mask: Tensor, cache: DynamicCache, rows: Tensor, group: int, more: int):
        choose(cache, rows, group * more)
        self.cache = cache
        self.prompts = mask[rows]
        self.group = group
        self.drawn = 0  # tokens of each completion that were read
        own = torch.eye(group, dtype=torch.bool, device=mask.device).repeat(1, more)
        masks = [self.prompts.bool()[:, None].expand(-1, group, -1), own.expand(len(rows), -1, -1)]
        self.mask = torch.cat(masks, 2)[:, None]  # [P, 1, group, L + group * more]

    @property
    def outgrown(self) -> bool:
        """Are the completions longer than the prompt? A row computes its products of all pairs,
        and those of two completions are for nothing."""
        return self.drawn > self.prompts.shape[1]

    def step(self, forward: Forward, token: Tensor) -> Tensor:
        """The logits after one more token of each.  [P * group] -> [P * group, V]"""
        ids = token.view(-1, self.group)
        positions = self.prompts.sum(1, keepdim=True) + self.drawn
        self.drawn += 1
        width = self.prompts.shape[1] + self.group * self.drawn
        mask = self.mask[..., :width]
        return forward(ids, mask, positions.expand_as(ids), self.cache, self.group).flatten(0, 1)

    def keep(self, places: Tensor, more: int) -> Apart:
        """These completions alone, each in a row of its own, with room for `more` tokens."""
        rows = places // self.group
        length = self.prompts.shape[1]
        before = torch.arange(length, device=places.device).expand(len(rows), -1)
        steps = torch.arange(self.drawn, device=places.device)
        own = length + self.group * steps + (places % self.group)[:, None]
        own_mask = self.prompts.new_ones(len(self.prompts), self.drawn)
        mask = torch.cat([self.prompts, own_mask], 1)
        return Apart(mask, self.cache, rows, more, torch.cat([before, own], 1))
