"""Prefix trees: Samples that share a beginning are read in one row, the beginning once.

A row holds nodes, each a Sample's own ids. A token sees its node up to itself and all of the nodes
above, and stands where it would stand in a row of its own: exact, for values and for gradients. G
thoughts of one state, T steps of one log: tokens grow with what differs, not with T or G times it.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask
from transformers import PreTrainedModel

from minprm.data import Sample

CPU = torch.device("cpu")


class Rows(NamedTuple):
    """A micro-batch as the model reads it. Padded on the right."""

    ids: Tensor  # [B, L]
    positions: Tensor  # [B, L]
    sees: Tensor | BlockMask | None  # [B, 1, L, L], who sees whom; None: plain causal
    scored: Tensor  # [T], the masked tokens' places in the flattened ids, sample after sample
    before: Tensor  # [T], the places that predict them


class Row(NamedTuple):
    """One row, token by token."""

    ids: list[int]
    positions: list[int]
    nodes: list[int]  # which node each token is of
    above: list[int]  # of each node, the one that it continues; a root continues itself
    scored: list[int]
    before: list[int]


def layout(rows: list[list[Sample]], device: torch.device = CPU) -> Rows:
    """Lays out each row's Samples with their ancestors, each node once."""
    made = [row(samples) for samples in rows]
    longest = max(len(r.ids) for r in made)
    ids, positions, nodes = torch.zeros(3, len(rows), longest, dtype=torch.long)
    for b, r in enumerate(made):
        n = len(r.ids)
        ids[b, :n], positions[b, :n], nodes[b, :n] = torch.tensor([r.ids, r.positions, r.nodes])
    sees = None
    if any(r.above != [max(n - 1, 0) for n in range(len(r.above))] for r in made):
        sees = attention(nodes.to(device), _above([r.above for r in made]).to(device))
    flat = [[b * longest + i for b, r in enumerate(made) for i in getattr(r, key)]
            for key in ("scored", "before")]  # fmt: skip
    rest = (ids, positions, *torch.tensor(flat, dtype=torch.long))
    ids, positions, scored, before = (x.to(device) for x in rest)
    return Rows(ids, positions, sees, scored, before)


def attention(nodes: Tensor, above: Tensor) -> Tensor | BlockMask:
    """Which token sees which, from each token's node and each node's ancestors.
    [B, L], [B, N, N] -> [B, 1, L, L]

    Dense on a CPU and for short rows. For long rows on a GPU the blocks in which any pair is
    visible: the others are not computed (FlexAttention, arXiv:2412.05496).
    """
    batch, length = nodes.shape
    device = nodes.device

    def sees(b, head, q, k):
        return (q >= k) & above[b, nodes[b, q], nodes[b, k]]

    if skips(device, length):
        return create_block_mask(sees, batch, None, length, length, device=device)
    b, q, k = (torch.arange(n, device=device) for n in (batch, length, length))
    return sees(b[:, None, None], 0, q[:, None], k)[:, None]


def skips(device: torch.device, length: int) -> bool:
    """Are blocks skipped in rows of this length? The length was not measured on a GPU."""
    return device.type == "cuda" and length >= 1024


def attend(model: PreTrainedModel, sees: Tensor | BlockMask | None) -> None:
    """Has the model read the mask that comes next. It stays so until told otherwise: a layer whose
    activations are computed anew for the gradient has to attend as it did before."""
    now = model.config._attn_implementation
    wanted = "flex_attention" if isinstance(sees, BlockMask) else "sdpa"
    if "flex_attention" in (now, wanted) and now != wanted:
        model.set_attn_implementation(wanted)


def row(samples: list[Sample]) -> Row:
    """The nodes of these Samples, ancestors first.

    >>> trunk = Sample().extend([1, 2])
    >>> r = row([Sample(parent=trunk).extend([3], 1.0), Sample(parent=trunk).extend([4], 1.0)])
    >>> r.ids, r.positions, r.above, r.before
    ([1, 2, 3, 4], [0, 1, 2, 2], [0, 0, 0], [1, 1])
    """
    r = Row([], [], [], [], [], [])
    ends: dict[int, tuple[int, int, int]] = {}  # node -> number, last place, next position
    starts: dict[int, tuple[int, int]] = {}  # node -> first place, place before it
    for sample in samples:
        for node in lineage(sample):
            if id(node) in ends:
                continue
            number, first, size = len(r.above), len(r.ids), len(node.ids)
            up, last, position = ends.get(id(node.parent), (number, -1, 0))
            r.above.append(up)
            r.ids.extend(node.ids)
            r.nodes.extend([number] * size)
            r.positions.extend(range(position, position + size))
            starts[id(node)] = first, last
            ends[id(node)] = number, first + size - 1 if size else last, position + size
        first, last = starts[id(sample)]
        for i in (i for i, m in enumerate(sample.mask) if m):
            r.scored.append(first + i)
            r.before.append(first + i - 1 if i else last)
    return r


def lineage(sample: Sample) -> list[Sample]:
    """The nodes of its path, root first."""
    nodes = [sample]
    while nodes[-1].parent is not None:
        nodes.append(nodes[-1].parent)
    return nodes[::-1]


def micro_batches(
    samples: list[Sample], tokens: int, linear: float, square: float, share: bool
) -> list[list[list[int]]]:
    """Indices of Samples by row, rows by micro-batch of at most `tokens` padded tokens.

    A longer row shares more and attends to more: of some row lengths the one is taken that costs
    least, a row of L tokens being `linear` L + `square` L^2. Without `share` each Sample has a row.
    """
    paths = [[(id(node), len(node.ids)) for node in lineage(s)] for s in samples]
    longest = max(sum(n for _, n in path) for path in paths)
    limits = [0]
    while share and longest * 2 ** (len(limits) - 1) <= tokens:
        limits.append(longest * 2 ** (len(limits) - 1))
    plans = [list(_batches(filled(paths, limit), tokens)) for limit in limits]

    def cost(plan: list[list[tuple[int, list[int]]]]) -> float:
        pairs = square / 2 if plan is plans[0] else square  # causal attention skips half of them
        padded = [(len(batch), batch[0][0]) for batch in plan]
        return sum(b * n * (linear + pairs * n) for b, n in padded)

    best = min(plans, key=cost)
    return [[members for _, members in batch] for batch in best]


def filled(paths: list[list[tuple[int, int]]], limit: int) -> list[tuple[int, list[int]]]:
    """(tokens, indices) of each row, longest first. A tree that outgrows `limit` goes on in another
    row, with its trunk again; short trees share rows, first fit. 0: each Sample has its own."""
    if not limit:
        alone = [(sum(n for _, n in path), [i]) for i, path in enumerate(paths)]
        return sorted(alone, key=lambda r: -r[0])
    trees: dict[int, list[tuple[int, set[int], list[int]]]] = {}  # root -> tokens, nodes, indices
    for i, path in enumerate(paths):
        parts = trees.setdefault(path[0][0], [(0, set(), [])])
        size, nodes, members = parts.pop()
        more = sum(n for node, n in path if node not in nodes)
        if members and size + more > limit:
            parts.append((size, nodes, members))
            size, nodes, members, more = 0, set(), [], sum(n for _, n in path)
        nodes.update(node for node, _ in path)
        members.append(i)
        parts.append((size + more, nodes, members))
    parts = [(size, members) for many in trees.values() for size, _, members in many]
    parts.sort(key=lambda part: -part[0])
    rows: list[tuple[int, list[int]]] = []
    for size, members in parts:
        for k, (length, there) in enumerate(rows):
            if length + size <= rows[0][0]:
                rows[k] = length + size, there + members
                break
        else:
            rows.append((size, members))
    return sorted(rows, key=lambda r: -r[0])


def probe(read: Callable[[list[list[Sample]]], Tensor]) -> float:
    """How far a small tree's log-probs in one row are from those in separate rows; nats."""
    trunk = Sample().extend([1, 2, 3, 4])
    limbs = [Sample(parent=trunk).extend([i, 6], 0.0) for i in (4, 5)]
    samples = limbs + [Sample(parent=limbs[0]).extend([i, 7], 0.0) for i in (1, 2)]
    return (read([samples]) - read([[s] for s in samples])).abs().max().item()


def _batches(rows: list[tuple[int, list[int]]], tokens: int) -> Iterator[list]:
    batch: list[tuple[int, list[int]]] = []
    for r in rows:
        if batch and (len(batch) + 1) * batch[0][0] > tokens:
            yield batch
            batch = []
        batch.append(r)
    if batch:
        yield batch


def _above(rows: list[list[int]]) -> Tensor:
    """[B, N, N], True where a row's second node is the first one or above it."""
    most = max(map(len, rows))
    seen = torch.eye(most, dtype=torch.bool).repeat(len(rows), 1, 1)
    for b, above in enumerate(rows):
        for n, up in enumerate(above):
            seen[b, n] |= seen[b, up]
    return seen
