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

What begins alike need not be one Sample. Two thoughts with the same first words have these words in
one node, whose branches are what follows: the model says the same of both. So have two logs under
the same rules. Samples say how each sequence goes on from another; nodes are what is read.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask
from transformers import DynamicCache

from minprm.data import Sample
from minprm.model.blocks import SIZES, block_mask, pair_count

CPU = torch.device("cpu")

Path = list[tuple[int, list[int]]]  # the nodes of a Sample, from the root on: their numbers and ids


class Rows(NamedTuple):
    """A micro-batch as the model reads it: B rows, padded on the right to L tokens.

    T of these tokens are trained. A place counts through all rows, as in `ids.flatten()`.
    """

    ids: Tensor  # [B, L]
    positions: Tensor  # [B, L]
    attention_mask: Tensor | BlockMask | None  # [B, 1, L, C + L]; None: causal
    scored: Tensor  # [T], places of the trained tokens, sample after sample
    before: Tensor  # [T], the places where these tokens are predicted
    cache: DynamicCache | None  # of the C tokens before the row, which then is the only one


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
    position: int  # the position of a token that comes next


def layout(
    rows: list[list[Sample]],
    device: torch.device = CPU,
    blocks: bool = True,
    cache: DynamicCache | None = None,
) -> Rows:
    """Lays out each row's Samples with their ancestors, equal nodes once.

    blocks: may the mask be a list of blocks? It is one where that is cheaper than a dense mask.
    cache: of the first tokens of the only row, of which the Rows have the others.
    """
    cached = cache.get_seq_length() if cache else 0
    packed = [row(samples) for samples in rows]
    length = max(len(r.ids) for r in packed)
    plain = all(_is_chain(r.above) for r in packed)
    visible = 0
    for r in packed:
        visible += sum(r.positions) + len(r.ids)  # a token sees itself and as many as stand above
    cheaper = pair_count(device, len(packed), length, visible) < len(packed) * length**2
    blocks = blocks and cheaper and not plain and not cached
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
    if cached or not plain:
        ancestors = ancestors_of([r.above for r in packed]).to(device)
        mask = attention_mask(nodes.to(device), ancestors, blocks, cached)
    places = torch.tensor([scored, before], dtype=torch.long, device=device) - cached
    new = slice(cached, None)
    ids, positions = ids[:, new].to(device), positions[:, new].to(device)
    return Rows(ids, positions, mask, places[0], places[1], cache)


def attention_mask(
    nodes: Tensor, ancestors: Tensor, blocks: bool, cached: int = 0
) -> Tensor | BlockMask:
    """Which token sees which, from the node of each token and the ancestors of each node.
    [B, L], [B, N, N] -> [B, 1, L - cached, L]"""

    def sees(b, head, query, key):
        return (query >= key) & ancestors[b, nodes[b, query], nodes[b, key]]

    if blocks:
        return block_mask(nodes, ancestors, sees)
    b = torch.arange(len(nodes), device=nodes.device)
    place = torch.arange(nodes.shape[1], device=nodes.device)
    return sees(b[:, None, None], 0, place[cached:, None], place)[:, None]


def row(samples: list[Sample]) -> Row:
    """Puts the nodes of these Samples in one row, ancestors first.

    >>> trunk = Sample().extend([1, 2])
    >>> r = row([Sample(parent=trunk).extend([3], 1.0), Sample(parent=trunk).extend([4], 1.0)])
    >>> r.ids, r.positions, r.above, r.before
    ([1, 2, 3, 4], [0, 1, 2, 2], [0, 0, 0], [1, 1])
    """
    r = Row()
    # trunks first, and then what branches off: so the tokens that a branch sees lie together
    trunks = [sample.parent for sample in samples if sample.parent]
    paths = numbered_paths([*trunks, *samples])
    placed: dict[int, Node] = {}
    for path in paths:
        above = None
        for number, ids in path:
            if number not in placed:
                placed[number] = _append(r, ids, above)
            above = placed[number]
    for sample, path in zip(samples, paths[len(trunks) :], strict=True):
        places = []
        for number, ids in path:
            first = placed[number].first
            places += range(first, first + len(ids))
        own = len(places) - len(sample.ids)
        for i, trained in enumerate(sample.trained, own):
            if trained:
                if i == 0:
                    raise ValueError("a sample's first token is trained: nothing predicts it")
                r.scored.append(places[i])
                r.before.append(places[i - 1])  # in the row a sibling's may be the one before
    return r


def numbered_paths(samples: list[Sample]) -> list[Path]:
    """The nodes of each Sample. A node ends where sequences part, and where a Sample ends.

    Nodes with one number have the same ids, and the same above them: the model says the same of
    them, whatever else their Samples hold.

    >>> state = Sample().extend([1])
    >>> thoughts = [Sample(parent=state).extend([2, 3, n]) for n in (4, 5)]
    >>> numbered_paths(thoughts)
    [[(0, [1]), (1, [2, 3]), (3, [4])], [(0, [1]), (1, [2, 3]), (4, [5])]]
    """
    root = -1  # above every first token
    tokens: dict[tuple[int, int], int] = {}  # the number of a token, by that above it and its id
    own: dict[int, list[int]] = {}  # the numbers of the tokens of each Sample, by the object
    last: dict[int, int] = {}  # of the token that a Sample ends with, its parent's if it has none
    for sample in samples:
        above = root
        for member in lineage(sample):
            if id(member) not in own:
                own[id(member)] = []
                for token in member.ids:
                    above = tokens.setdefault((above, token), len(tokens))
                    own[id(member)].append(above)
                last[id(member)] = above
            above = last[id(member)]
    followers = Counter(above for above, _ in tokens)
    ends = {root, *last.values()}
    begins = set()  # the tokens with which a node begins
    for (above, _), number in tokens.items():
        if above in ends or followers[above] > 1:
            begins.add(number)
    nodes: dict[int, Path] = {}  # of each Sample without its ancestors
    paths = []
    for sample in samples:
        path = []
        for member in lineage(sample):
            if id(member) not in nodes:
                nodes[id(member)] = _cut(member.ids, own[id(member)], begins)
            path += nodes[id(member)]
        paths.append(path)
    return paths


def _cut(ids: list[int], numbers: list[int], begins: set[int]) -> Path:
    """These ids as nodes, from the numbers of their tokens."""
    path: Path = []
    for token, number in zip(ids, numbers, strict=True):
        if number in begins:
            path.append((number, []))
        path[-1][1].append(token)
    return path


def lineage(sample: Sample) -> list[Sample]:
    """The Sample and its ancestors, root first."""
    nodes = [sample]
    while nodes[-1].parent is not None:
        nodes.append(nodes[-1].parent)
    return nodes[::-1]


def _append(r: Row, ids: list[int], parent: Node | None) -> Node:
    """Appends a node with these ids to the row. Its parent is placed already."""
    number = len(r.above)
    first = len(r.ids)
    begin = parent.position if parent else 0
    end = begin + len(ids)
    r.above.append(parent.number if parent else number)
    r.ids.extend(ids)
    r.nodes.extend([number] * len(ids))
    r.positions.extend(range(begin, end))
    return Node(number, first, end)


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
