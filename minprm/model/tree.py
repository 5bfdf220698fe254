"""Prefix trees: Samples that begin alike share one row, and the model reads the beginning once.

Two thoughts `a` and `b` of one state `s` are branches of one trunk. Each is a Sample whose `parent`
is the state's Sample. A row holds all three ("nodes"), one after the other:

    the tree              s ----> a1 a2
                          s ------------> b1 b2

    ids                s1 s2 s3   a1 a2   b1 b2
    positions           0  1  2    3  4    3  4      both branches stand right behind the trunk

    what s3 sees        x  x  x    .  .    .  .
    what a2 sees        x  x  x    x  x    .  .
    what b1 sees        x  x  x    .  .    x  .      the trunk and itself, not its sibling

A token sees the nodes above its own, and its own node up to itself. Log-probs and gradients are
therefore those of one row for each path. The steps of a log nest in the same way: the log is the
trunk, and the thoughts of every step branch off it. G thoughts do not cost G states to read.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask

from minprm.data import Sample
from minprm.model.blocks import SIZES, block_mask, pair_count

CPU = torch.device("cpu")

Path = list[tuple[int, Sample]]  # a Sample's ancestors and itself, numbered


class Rows(NamedTuple):
    """A micro-batch as the model reads it: B rows, padded on the right to L tokens.

    T of these tokens are trained. A place counts through all rows, as in `ids.flatten()`.
    """

    ids: Tensor  # [B, L]
    positions: Tensor  # [B, L]
    attention_mask: Tensor | BlockMask | None  # [B, 1, L, L]; None: every token sees all before it
    scored: Tensor  # [T], places of the trained tokens, sample after sample
    before: Tensor  # [T], the places where these tokens are predicted


@dataclass
class Row:
    """One row. The first three lists are as long as the row."""

    ids: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    nodes: list[int] = field(default_factory=list)  # which node each token belongs to
    above: list[int] = field(default_factory=list)  # the parent of each node; a root is its own
    scored: list[int] = field(default_factory=list)
    before: list[int] = field(default_factory=list)


class Node(NamedTuple):
    """Where a node lies in its row. Its ancestors lie before it."""

    number: int
    first: int  # place of its first token
    before: int  # place of the last token above it, where its first token is predicted
    last: int  # place of its last token; `before` if it has no tokens
    position: int  # the position of a token that comes next


def layout(rows: list[list[Sample]], device: torch.device = CPU, blocks: bool = True) -> Rows:
    """Lays out each row's Samples with their ancestors, equal nodes once.

    blocks: may the mask be a list of blocks? It is one where that is cheaper than a dense mask.
    """
    packed = [row(samples) for samples in rows]
    length = max(len(r.ids) for r in packed)
    plain = all(_is_chain(r.above) for r in packed)
    visible = 0
    for r in packed:
        visible += sum(r.positions) + len(r.ids)  # a token sees itself and as many as stand above
    cheaper = pair_count(device, len(packed), length, visible) < len(packed) * length**2
    blocks = blocks and cheaper and not plain
    if blocks:
        length += -length % SIZES[device.type]  # whole blocks
    ids = torch.zeros(len(packed), length, dtype=torch.long)
    positions = torch.zeros_like(ids)
    nodes = torch.zeros_like(ids)
    scored = []
    before = []
    for b, r in enumerate(packed):
        size = len(r.ids)
        ids[b, :size] = torch.tensor(r.ids)
        positions[b, :size] = torch.tensor(r.positions)
        nodes[b, :size] = torch.tensor(r.nodes)
        scored += [b * length + place for place in r.scored]
        before += [b * length + place for place in r.before]
    mask = None
    if not plain:
        mask = attention_mask(
            nodes.to(device), ancestors_of([r.above for r in packed]).to(device), blocks
        )
    places = torch.tensor([scored, before], dtype=torch.long, device=device)
    return Rows(ids.to(device), positions.to(device), mask, *places)


def attention_mask(nodes: Tensor, ancestors: Tensor, blocks: bool) -> Tensor | BlockMask:
    """Which token sees which, from the node of each token and the ancestors of each node.
    [B, L], [B, N, N] -> [B, 1, L, L]"""

    def sees(b, head, query, key):
        return (query >= key) & ancestors[b, nodes[b, query], nodes[b, key]]

    if blocks:
        return block_mask(nodes, ancestors, sees)
    b = torch.arange(len(nodes), device=nodes.device)
    place = torch.arange(nodes.shape[1], device=nodes.device)
    return sees(b[:, None, None], 0, place[:, None], place)[:, None]


def row(samples: list[Sample]) -> Row:
    """Puts the nodes of these Samples in one row, ancestors first.

    >>> trunk = Sample().extend([1, 2])
    >>> r = row([Sample(parent=trunk).extend([3], 1.0), Sample(parent=trunk).extend([4], 1.0)])
    >>> r.ids, r.positions, r.above, r.before
    ([1, 2, 3, 4], [0, 1, 2, 2], [0, 0, 0], [1, 1])
    """
    r = Row()
    paths = numbered_paths(samples)
    placed: dict[int, Node] = {}
    # trunks first, and then what branches off: so the tokens that a branch sees lie together
    for path in [path[:-1] for path in paths] + paths:
        above = None
        for number, ancestor in path:
            if number not in placed:
                placed[number] = _append(r, ancestor, above)
            above = placed[number]
    for sample, path in zip(samples, paths, strict=True):
        number, _ = path[-1]
        node = placed[number]
        for i, trained in enumerate(sample.trained):
            if trained:
                r.scored.append(node.first + i)
                # the next place in the row may be a sibling's: a first token looks at its parent
                before = node.first + i - 1 if i > 0 else node.before
                if before < 0:
                    raise ValueError("a sample's first token is trained: nothing predicts it")
                r.before.append(before)
    return r


def numbered_paths(samples: list[Sample]) -> list[Path]:
    """The path of each Sample: its ancestors and itself, root first, each with its number.

    Nodes with equal ids below the same node have one number, whatever else their Samples hold: the
    model says the same of them. Two thoughts with the same words are read once.

    >>> state = Sample().extend([1])
    >>> twins = [Sample(parent=state).extend([2]), Sample(parent=state).extend([2])]
    >>> [[number for number, _ in path] for path in numbered_paths(twins)]
    [[0, 1], [0, 1]]
    """
    numbers: dict[tuple[int, tuple[int, ...]], int] = {}  # by the node above and the ids
    by_object: dict[int, int] = {}  # so that the ids of an ancestor are looked at once
    paths = []
    for sample in samples:
        path = []
        number = -1  # above a root
        for node in lineage(sample):
            if id(node) not in by_object:
                by_object[id(node)] = numbers.setdefault((number, tuple(node.ids)), len(numbers))
            number = by_object[id(node)]
            path.append((number, node))
        paths.append(path)
    return paths


def lineage(sample: Sample) -> list[Sample]:
    """The Sample and its ancestors, root first."""
    nodes = [sample]
    while nodes[-1].parent is not None:
        nodes.append(nodes[-1].parent)
    return nodes[::-1]


def _append(r: Row, sample: Sample, parent: Node | None) -> Node:
    """Appends a node to the row, with the ids of this Sample. Its parent is placed already."""
    number = len(r.above)
    first = len(r.ids)
    size = len(sample.ids)
    parent = parent or Node(number, first=0, before=-1, last=-1, position=0)  # above a root
    end = parent.position + size
    r.above.append(parent.number)
    r.ids.extend(sample.ids)
    r.nodes.extend([number] * size)
    r.positions.extend(range(parent.position, end))
    last = first + size - 1 if size > 0 else parent.last
    return Node(number, first, before=parent.last, last=last, position=end)


def _is_chain(above: list[int]) -> bool:
    """Does every node continue the one before it? Then plain causal attention is right."""
    return above == [max(number - 1, 0) for number in range(len(above))]


def ancestors_of(rows: list[list[int]]) -> Tensor:
    """[B, N, N], True where a row's second node is the first one or above it."""
    most = max(len(above) for above in rows)
    ancestors = torch.eye(most, dtype=torch.bool).repeat(len(rows), 1, 1)
    for b, above in enumerate(rows):
        for number, parent in enumerate(above):  # parents come first: their line is complete
            ancestors[b, number] |= ancestors[b, parent]
    return ancestors
