"""Keys and values that are kept between the steps of a walk, so that each token is read once.

Act-PRM scores a log step by step, and what is scored at a step stands behind all that was read at
the steps before. Of those tokens a layer needs no more than their keys and values:

    step 0     s0 | z a | z' a'            s: state, z: thought, a: action
    step 1     s1 | z a | z' a'            behind s0 and z a, which are kept

A node is found again by the node above it and its ids, so it is no matter that `z a` was a thought
to be scored and is now part of the log. A token sees the same keys at the same positions as if all
were read from the start: its log-prob is the same, but for rounding.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence
from transformers import DynamicCache, PreTrainedConfig

from minprm.data import Sample
from minprm.model.packing import Members
from minprm.model.tree import Names, Row, Rows, ancestors_of, layout, row

MicroBatches = Callable[[list[Sample], bool], list[Members]]  # (Samples, may a mask be blocks)
Layer = tuple[Tensor, Tensor]  # keys and values of the pool: [N, heads, head_dim] each


class Part(NamedTuple):
    """One row of Samples: which of its nodes are kept, and which are read."""

    whole: Row
    kept: list[tuple[int, int]]  # of each token that is kept: its place in the pool, its node
    read: list[int]  # places in the row of the tokens that are read
    spans: list[tuple[int, int, int]]  # of each node that is read: name, first in `read`, size


class Kept:
    """What one model has read in a walk. At most `limit` tokens are kept; others are read again."""

    def __init__(self, limit: int):
        self.limit = limit
        self.begin()

    def begin(self) -> None:
        """Forgets everything: nothing depends on what was read before a walk."""
        self.stamp = -1  # of the weights that read it
        self.names = Names()  # a node's number is the same at all steps of the walk
        self.places: dict[int, range] = {}  # of a node's tokens in the pool
        self.layers: list[Layer] = []  # the pool
        self.parts: list[Part] = []  # the rows that are being read

    # --- before a call ---

    def turn_to(self, samples: list[Sample], stamp: int) -> None:
        """Forgets what these Samples do not continue; and all, if the weights have changed."""
        if stamp != self.stamp:
            self.begin()
            self.stamp = stamp
        self.names.known.clear()  # a Sample may have grown since the last step
        wanted = {name for sample in samples for name, _ in self.names.path(sample)}
        chosen = []
        places = {}
        for name, found in self.places.items():
            if name in wanted:
                places[name] = range(len(chosen), len(chosen) + len(found))
                chosen += found
        if len(places) < len(self.places):
            self.places = places
            self.layers = [(keys[chosen], values[chosen]) for keys, values in self.layers]

    def plan(self, samples: list[Sample], micro_batches: MicroBatches) -> list[Members]:
        """Which Samples are read together: their indices, by row and by micro-batch.

        What is left to read is planned for each trunk alone: a row that continued two trunks would
        look at both of them. A row joins the longer ones before it, unless more than half of it
        would be padding, or the batch with all that is kept for it would be more than `limit`.
        """
        rows = []
        for trunk, group in self._by_trunk(samples).items():
            blocks = trunk not in self.places  # behind what is kept the mask is dense
            for batch in micro_batches(list(group.values()), blocks):
                for numbers in batch:
                    members = [list(group)[k] for k in numbers]
                    rows.append((*self._size([samples[i] for i in members]), members))
        batches = []
        width = widest = 0  # of what is left to read in this batch, and of what is kept for it
        for new, kept, members in sorted(rows, reverse=True):
            widest = max(widest, kept)
            full = batches and (len(batches[-1]) + 1) * (width + widest) > self.limit
            if not batches or full or 2 * new < width:
                batches.append([])
                width = new
                widest = kept
            batches[-1].append(members)
        return batches

    def _by_trunk(self, samples: list[Sample]) -> dict[int, dict[int, Sample]]:
        """By the name of a node, the Samples that continue it: by index, and as if the node were
        one token."""
        groups = {}
        for i, sample in enumerate(samples):
            short = None
            path = self.names.path(sample)
            trunk, _ = path[0]  # where nothing is kept, it is the root
            for name, node in path:
                if name in self.places and node is not sample:
                    trunk = name
                    short = Sample(ids=[0])
                else:
                    short = Sample(ids=node.ids, parent=short)
            groups.setdefault(trunk, {})[i] = short
        return groups

    def _size(self, samples: list[Sample]) -> tuple[int, int]:
        """(tokens to read of a row of these Samples, tokens that are kept)."""
        sizes = {}
        for sample in samples:
            for name, node in self.names.path(sample):
                sizes[name] = len(node.ids)
        kept = sum(size for name, size in sizes.items() if name in self.places)
        return sum(sizes.values()) - kept, kept

    # --- before and after the model reads ---

    def layout(
        self,
        rows: list[list[Sample]],
        config: PreTrainedConfig,
        device: torch.device,
        blocks: bool,
    ) -> tuple[Rows, DynamicCache]:
        """(what is left to read of these rows, the cache that holds what stands before it).

        The attention mask is [B, 1, new, kept + new]: a token may see nodes of both parts.
        """
        cache = DynamicCache(config=config)
        self.parts = [self._part(samples) for samples in rows]
        if not any(part.kept for part in self.parts):
            return layout(rows, device, blocks), cache
        places = _padded([[place for place, _ in part.kept] for part in self.parts]).to(device)
        for number, (keys, values) in enumerate(self.layers):
            # [B, kept, heads, head_dim] -> [B, heads, kept, head_dim]
            cache.update(keys[places].transpose(1, 2), values[places].transpose(1, 2), number)
        return _behind(self.parts, device), cache

    def add(self, cache: DynamicCache) -> None:
        """Keeps what the model has just read, as long as there is room."""
        rows = []
        columns = []
        behind = max(len(part.kept) for part in self.parts)  # the columns of what was kept before
        total = sum(map(len, self.places.values()))
        for b, part in enumerate(self.parts):
            for name, first, size in part.spans:
                if name not in self.places and total + size <= self.limit:
                    self.places[name] = range(total, total + size)
                    total += size
                    rows += [b] * size
                    columns += range(behind + first, behind + first + size)
        # transformers' types do not say that a layer has keys once it has been read
        for number, layer in enumerate(cast(list[Any], cache.layers)):
            news = layer.keys[rows, :, columns], layer.values[rows, :, columns]
            if number == len(self.layers):
                self.layers.append(news)
            else:
                pairs = zip(self.layers[number], news, strict=True)
                self.layers[number] = cast(Layer, tuple(torch.cat(pair) for pair in pairs))

    def _part(self, samples: list[Sample]) -> Part:
        """Parts a row of these Samples in two."""
        part = Part(row(samples), [], [], [])
        # a log-prob is read at a hidden state, and these are not kept
        asked = {part.whole.nodes[place] for place in part.whole.scored + part.whole.before}
        first = 0
        for number, node in enumerate(part.whole.samples):
            name, _ = self.names.path(node)[-1]
            end = first + len(node.ids)
            if name in self.places and number not in asked:
                part.kept.extend((place, number) for place in self.places[name])
            else:
                part.spans.append((name, len(part.read), len(node.ids)))
                part.read.extend(range(first, end))
            first = end
        return part


def _behind(parts: list[Part], device: torch.device) -> Rows:
    """Lays out what is read behind what is kept."""
    ids = _padded([[part.whole.ids[place] for place in part.read] for part in parts])
    positions = _padded([[part.whole.positions[place] for place in part.read] for part in parts])
    new = ids.shape[1]
    scored = []
    before = []
    for b, part in enumerate(parts):
        column = {place: b * new + i for i, place in enumerate(part.read)}
        scored += [column[place] for place in part.whole.scored]
        before += [column[place] for place in part.whole.before]
    # one node more, which no other sees: that of the padding among what is kept
    ancestors = pad(ancestors_of([part.whole.above for part in parts]), (0, 1, 0, 1))
    nobody = ancestors.shape[1] - 1
    kept_nodes = _padded([[number for _, number in part.kept] for part in parts], nobody)
    read_nodes = _padded([[part.whole.nodes[place] for place in part.read] for part in parts])
    nodes = torch.cat([kept_nodes, read_nodes], 1)
    b = torch.arange(len(parts))[:, None, None]
    related = ancestors[b, read_nodes[:, :, None], nodes[:, None]]  # [B, new, kept + new]
    mask = related.tril(kept_nodes.shape[1])[:, None]
    tensors = ids, positions, mask, torch.tensor(scored), torch.tensor(before)
    return Rows(*(tensor.to(device) for tensor in tensors))


def _padded(lists: list[list[int]], filling: int = 0) -> Tensor:
    """[B, L]"""
    tensors = [torch.tensor(numbers, dtype=torch.long) for numbers in lists]
    return pad_sequence(tensors, batch_first=True, padding_value=filling)
