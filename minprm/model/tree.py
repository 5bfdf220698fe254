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

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask
from torch.nn.functional import one_hot
from transformers import PreTrainedModel

from minprm.data import Sample

CPU = torch.device("cpu")
BLOCK = 128  # tokens on each side of a block that attention may skip
KERNELS = 64  # compiled for blocks, at most: with and without gradients, for one row and for many

Path = list[tuple[int, Sample]]  # a Sample's ancestors and itself, numbered
Lineage = list[tuple[int, int]]  # the same: (number, how many tokens)
Packed = tuple[int, list[int]]  # a row before it is laid out: (tokens, indices of its Samples)


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


def layout(rows: list[list[Sample]], device: torch.device = CPU) -> Rows:
    """Lays out each row's Samples with their ancestors, equal nodes once."""
    made = [row(samples) for samples in rows]
    length = max(len(r.ids) for r in made)
    plain = all(_is_chain(r.above) for r in made)
    if not plain and skips(device, length):
        length += -length % BLOCK  # whole blocks
    ids = torch.zeros(len(made), length, dtype=torch.long)
    positions = torch.zeros_like(ids)
    nodes = torch.zeros_like(ids)
    scored = []
    before = []
    for b, r in enumerate(made):
        size = len(r.ids)
        ids[b, :size] = torch.tensor(r.ids)
        positions[b, :size] = torch.tensor(r.positions)
        nodes[b, :size] = torch.tensor(r.nodes)
        scored += [b * length + place for place in r.scored]
        before += [b * length + place for place in r.before]
    attention_mask = None
    if not plain:
        ancestors = _ancestors([r.above for r in made])
        attention_mask = attention(nodes.to(device), ancestors.to(device))
    places = torch.tensor([scored, before], dtype=torch.long, device=device)
    return Rows(ids.to(device), positions.to(device), attention_mask, *places)


def row(samples: list[Sample]) -> Row:
    """Puts the nodes of these Samples in one row, ancestors first.

    >>> trunk = Sample().extend([1, 2])
    >>> r = row([Sample(parent=trunk).extend([3], 1.0), Sample(parent=trunk).extend([4], 1.0)])
    >>> r.ids, r.positions, r.above, r.before
    ([1, 2, 3, 4], [0, 1, 2, 2], [0, 0, 0], [1, 1])
    """
    r = Row()
    placed: list[Node] = []
    for sample, path in zip(samples, named(samples), strict=True):
        node = None
        for number, each in path:
            if number == len(placed):  # numbers come in the order in which nodes are met
                placed.append(_append(r, each.ids, node))
            node = placed[number]
        assert node is not None  # a path ends with the Sample
        for i, trained in enumerate(sample.trained):
            if trained:
                r.scored.append(node.first + i)
                # the next place in the row may be a sibling's: a first token looks at its parent
                before = node.first + i - 1 if i > 0 else node.before
                if before < 0:
                    raise ValueError("a sample's first token is trained: nothing predicts it")
                r.before.append(before)
    return r


def named(samples: list[Sample]) -> list[Path]:
    """The path of each Sample: its ancestors and itself, root first, each with a number.

    Nodes with equal ids below the same node have one number, whatever else their Samples hold: the
    model says the same of them. Two thoughts with the same words are read once.

    >>> state = Sample().extend([1])
    >>> twins = [Sample(parent=state).extend([2]), Sample(parent=state).extend([2])]
    >>> [[number for number, _ in path] for path in named(twins)]
    [[0, 1], [0, 1]]
    """
    numbers: dict[tuple[int, tuple[int, ...]], int] = {}  # by the node above and the ids
    known: dict[int, int] = {}  # by object, so that the ids of an ancestor are looked at once
    paths = []
    for sample in samples:
        path = []
        number = -1  # above a root
        for node in lineage(sample):
            if id(node) not in known:
                known[id(node)] = numbers.setdefault((number, tuple(node.ids)), len(numbers))
            number = known[id(node)]
            path.append((number, node))
        paths.append(path)
    return paths


def lineage(sample: Sample) -> list[Sample]:
    """The Sample and its ancestors, root first."""
    nodes = [sample]
    while nodes[-1].parent is not None:
        nodes.append(nodes[-1].parent)
    return nodes[::-1]


def _append(r: Row, ids: list[int], parent: Node | None) -> Node:
    """Appends the ids of a node to the row. Its parent is placed already."""
    number = len(r.above)
    first = len(r.ids)
    size = len(ids)
    parent = parent or Node(number, first=0, before=-1, last=-1, position=0)  # above a root
    end = parent.position + size
    r.above.append(parent.number)
    r.ids.extend(ids)
    r.nodes.extend([number] * size)
    r.positions.extend(range(parent.position, end))
    last = first + size - 1 if size > 0 else parent.last
    return Node(number, first, before=parent.last, last=last, position=end)


def _is_chain(above: list[int]) -> bool:
    """Does every node continue the one before it? Then plain causal attention is right."""
    return above == [max(number - 1, 0) for number in range(len(above))]


def _ancestors(rows: list[list[int]]) -> Tensor:
    """[B, N, N], True where a row's second node is the first one or above it."""
    most = max(len(above) for above in rows)
    ancestors = torch.eye(most, dtype=torch.bool).repeat(len(rows), 1, 1)
    for b, above in enumerate(rows):
        for number, parent in enumerate(above):  # parents come first: their line is complete
            ancestors[b, number] |= ancestors[b, parent]
    return ancestors


def attention(nodes: Tensor, ancestors: Tensor) -> Tensor | BlockMask:
    """Which token sees which, from the node of each token and the ancestors of each node.
    [B, L], [B, N, N] -> [B, 1, L, L]

    On a CPU and for short rows the mask is a tensor. For long rows on a GPU it is a list of blocks:
    blocks in which no token sees another are not computed (FlexAttention, arXiv:2412.05496).
    """
    batch, length = nodes.shape
    device = nodes.device

    def sees(b, head, query, key):
        return (query >= key) & ancestors[b, nodes[b, query], nodes[b, key]]

    if skips(device, length):
        return _blocks(nodes, ancestors, sees)
    b = torch.arange(batch, device=device)
    place = torch.arange(length, device=device)
    return sees(b[:, None, None], 0, place[:, None], place)[:, None]


def _blocks(nodes: Tensor, ancestors: Tensor, sees: Callable) -> BlockMask:
    """The blocks of a mask, from the nodes that lie in each.  [B, L], [B, N, N]

    `create_block_mask` finds the same blocks, but looks at all L^2 pairs of tokens.
    """
    in_block = one_hot(nodes.unflatten(1, (-1, BLOCK)), len(ancestors[0])).amax(2).float()
    related = in_block @ ancestors.float() @ in_block.mT  # [B, blocks, blocks] pairs of nodes
    foreign = in_block @ (~ancestors).float() @ in_block.mT
    until = torch.ones_like(related, dtype=torch.bool).tril()
    whole = until.tril(-1) & (foreign == 0)  # each token of the one block sees each of the other
    partly = until & (related > 0) & ~whole
    lists = []
    for found in (partly, whole):
        found = found[:, None].int()
        order = found.argsort(dim=-1, descending=True, stable=True).int()
        lists += [found.sum(-1, dtype=torch.int32), order]
    length = nodes.shape[1]
    return BlockMask.from_kv_blocks(
        *lists, BLOCK_SIZE=BLOCK, mask_mod=sees, seq_lengths=(length, length)
    )


def skips(device: torch.device, length: int) -> bool:
    """Are blocks skipped in rows of this length? The length was not measured on a GPU."""
    return device.type == "cuda" and length >= 1024


def attend(model: PreTrainedModel, attention_mask: Tensor | BlockMask | None) -> None:
    """Selects the attention kernel that can read this mask.

    For blocks that is flex_attention, else the kernel that the model was loaded with. It stays
    selected until the next call: a layer whose activations are computed again for the gradient has
    to attend as it did before.
    """
    current = model.config._attn_implementation
    loaded = getattr(model, "loaded_attention", None)
    if isinstance(attention_mask, BlockMask):
        # beyond its limit torch runs the kernel uncompiled, and then all scores lie in memory
        torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, KERNELS)
        if current != "flex_attention":
            # torch's types allow a module tensors and modules alone
            model.loaded_attention = current  # pyright: ignore[reportArgumentType]
            model.set_attn_implementation("flex_attention")
    elif current == "flex_attention" and loaded:
        model.set_attn_implementation(loaded)


# --- which Samples are read together ---


def micro_batches(
    samples: list[Sample], tokens: int, linear: float, square: float, share: bool
) -> list[list[list[int]]]:
    """Indices of Samples by row, rows by micro-batch of at most `tokens` padded tokens.

    A longer row shares more and attends to more: a row of L tokens costs `linear` L + `square` L^2.
    Several limits for the length of a row are tried, and the cheapest plan is taken. Without
    `share` each Sample has a row of its own.
    """
    if not samples:
        return []
    paths = []
    for path in named(samples):
        paths.append([(number, len(node.ids)) for number, node in path])
    limits = [0]
    limit = max(_tokens(path) for path in paths)
    while share and 0 < limit <= tokens:
        limits.append(limit)
        limit *= 2
    plans = [_batches(filled(paths, limit), tokens) for limit in limits]
    costs = [_cost(plan, linear, square) for plan in plans]
    # rows of one Sample each are plainly causal, and the kernel skips half of the pairs
    costs[0] = _cost(plans[0], linear, square / 2)
    cheapest = plans[costs.index(min(costs))]
    batches = []
    for batch in cheapest:
        batches.append([members for _, members in batch])
    return batches


def filled(paths: list[Lineage], limit: int) -> list[Packed]:
    """(tokens, indices of Samples) of each row, longest first. Limit 0: one Sample in each row.

    A tree that outgrows the limit is continued in another row, where its trunk is read again. Short
    trees are put together in the first row that has room, but no row outgrows the longest tree.
    """
    if limit == 0:
        return _longest_first([(_tokens(path), [i]) for i, path in enumerate(paths)])
    rows: list[Packed] = []
    for tokens, members in _longest_first(_cut(paths, limit)):
        for k, (filling, others) in enumerate(rows):
            longest, _ = rows[0]
            if filling + tokens <= longest:
                rows[k] = (filling + tokens, others + members)
                break
        else:  # no row had room
            rows.append((tokens, members))
    return _longest_first(rows)


def _tokens(path: Lineage) -> int:
    return sum(size for _, size in path)


def _longest_first(rows: list[Packed]) -> list[Packed]:
    return sorted(rows, key=lambda packed: -packed[0])


def _cut(paths: list[Lineage], limit: int) -> list[Packed]:
    """Cuts each tree into parts of at most `limit` tokens; one path is never cut.

    Paths are taken depth first: neighbours share most, so a part reads little again.
    """
    trees = {}  # root -> the parts of its tree: ({node: tokens}, indices of Samples)
    for i, path in sorted(enumerate(paths), key=lambda numbered: numbered[1]):
        root, _ = path[0]
        parts = trees.setdefault(root, [({}, [])])
        nodes, members = parts[-1]
        if members and sum((nodes | dict(path)).values()) > limit:
            nodes = {}
            members = []
            parts.append((nodes, members))
        nodes.update(path)
        members.append(i)
    return [(sum(nodes.values()), members) for nodes, members in itertools.chain(*trees.values())]


def _batches(rows: list[Packed], tokens: int) -> list[list[Packed]]:
    """Rows by micro-batch. They come longest first, so the first row of a batch is its width."""
    batches: list[list[Packed]] = []
    width = 0
    for packed in rows:
        if not batches or (len(batches[-1]) + 1) * width > tokens:
            batches.append([])
            width, _ = packed
        batches[-1].append(packed)
    return batches


def _cost(plan: list[list[Packed]], linear: float, square: float) -> float:
    """What a plan costs, padding included."""
    shapes = [(len(batch), batch[0][0]) for batch in plan]  # the first row is the longest
    return sum(rows * width * (linear + square * width) for rows, width in shapes)
