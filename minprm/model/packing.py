"""Which Samples are read together: Samples in rows, and rows in micro-batches.

A long row shares more of what its Samples begin with (tree.py), and holds more pairs of tokens for
attention to look at. A micro-batch holds as many rows as fit into memory at once, each as wide as
the longest of them.
"""

from collections.abc import Container
from typing import NamedTuple

import torch

from minprm.data import Sample
from minprm.model.blocks import pair_count
from minprm.model.tree import numbered_paths

Members = list[list[int]]  # of a micro-batch: indices of its Samples, by row
Lineage = list[tuple[int, int]]  # a path: (number of a node, how many tokens)


class RowPlan(NamedTuple):
    """A row before it is laid out, or a part of it."""

    tokens: int
    visible: int  # pairs of tokens of which one sees the other
    members: list[int]  # indices of its Samples


def micro_batches(
    samples: list[Sample],
    tokens: int,
    linear: float,
    square: float,
    share: bool,
    device: torch.device | None = None,
) -> list[Members]:
    """Indices of Samples by row, rows by micro-batch of at most `tokens` padded tokens.

    A Sample is never cut. Where the longest one leaves little of `tokens`, a row may have half as
    many tokens more than it: else each thought would read a long log for itself.

    Several plans are made, and the cheapest is taken. A token costs `linear`, and a pair of tokens
    that attention looks at costs `square`. A longer row shares more and looks at more pairs, but
    for those that blocks leave out; without a `device` there are no blocks. Without `share` each
    Sample has a row of its own.
    """
    if not samples:
        return []
    paths = []
    for path in numbered_paths(samples):
        sizes = [(number, len(ids)) for number, ids in path]
        paths.append(sizes or [(-1, 0)])  # a Sample without tokens
    alone = filled(paths, 0)
    plans = [alone]
    limit = alone[0].tokens
    if share and limit > 0:
        tokens = max(tokens, limit * 3 // 2)
        plans.append(filled(paths, tokens, room=tokens))  # long rows, in which nothing is padded
        while limit <= tokens:
            plans.append(filled(paths, limit))
            limit *= 2
    batched = [_batches(plan, tokens) for plan in plans]
    costs = [_cost(plan, linear, square, device) for plan in batched]
    # rows of one Sample each are plainly causal, and the kernel skips half of the pairs
    costs[0] = _cost(batched[0], linear, square / 2, None)
    cheapest = batched[costs.index(min(costs))]
    return [[row.members for row in batch] for batch in cheapest]


def filled(paths: list[Lineage], limit: int, room: int = 0) -> list[RowPlan]:
    """The rows, longest first. Limit 0: one Sample in each row.

    A tree that outgrows the limit is continued in another row, where its trunk is read again. Short
    trees are put together in the first row that has room: for `room` tokens, and in any case for as
    many as the longest tree has.
    """
    if limit == 0:
        return _longest_first([_part(path, i) for i, path in enumerate(paths)])
    rows: list[RowPlan] = []
    for part in _longest_first(_cut(paths, limit)):
        room = max(room, part.tokens)
        for k, row in enumerate(rows):
            if row.tokens + part.tokens <= room:
                rows[k] = _joined(row, part)
                break
        else:  # no row had room
            rows.append(part)
    return _longest_first(rows)


def _longest_first(rows: list[RowPlan]) -> list[RowPlan]:
    return sorted(rows, key=lambda row: -row.tokens)


def _cut(paths: list[Lineage], limit: int) -> list[RowPlan]:
    """Cuts each tree into parts of at most `limit` tokens; one path is never cut.

    Paths are taken depth first: neighbours share most, so a part reads little again.
    """
    parts: list[RowPlan] = []
    nodes: set[int] = set()  # of the last part
    for i, path in sorted(enumerate(paths), key=lambda numbered: numbered[1]):
        root, _ = path[0]
        more = _part(path, i, nodes)
        if root in nodes and parts[-1].tokens + more.tokens <= limit:
            parts[-1] = _joined(parts[-1], more)
        else:
            nodes = set()
            parts.append(_part(path, i))
        nodes |= {number for number, _ in path}
    return parts


def _part(path: Lineage, i: int, nodes: Container[int] = ()) -> RowPlan:
    """What the i-th Sample adds to a row that holds these nodes already."""
    tokens = 0
    visible = 0
    above = 0
    for number, size in path:
        if number not in nodes:
            tokens += size
            visible += size * above + size * (size + 1) // 2  # each token sees itself too
        above += size
    return RowPlan(tokens, visible, [i])


def _joined(one: RowPlan, other: RowPlan) -> RowPlan:
    return RowPlan(
        one.tokens + other.tokens, one.visible + other.visible, one.members + other.members
    )


def _batches(rows: list[RowPlan], tokens: int) -> list[list[RowPlan]]:
    """Rows by micro-batch. They come longest first, so the first row of a batch is its width."""
    batches: list[list[RowPlan]] = []
    width = 0
    for row in rows:
        if not batches or (len(batches[-1]) + 1) * width > tokens:
            batches.append([])
            width = row.tokens
        batches[-1].append(row)
    return batches


def _cost(
    plan: list[list[RowPlan]], linear: float, square: float, device: torch.device | None
) -> float:
    """What a plan costs, padding included."""
    cost = 0.0
    for batch in plan:
        width = batch[0].tokens  # the first row is the longest
        visible = sum(row.visible for row in batch)
        looked_at = pair_count(device, len(batch), width, visible)
        cost += linear * len(batch) * width + square * looked_at
    return cost
