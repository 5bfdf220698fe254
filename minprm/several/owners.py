"""Who does what: which process writes after which prompt, and which one reads which Samples.

Prompts are shared out in the same way for both samplers. Each process has written after its own
when it asks for what the others have written.
"""

from bisect import bisect_left
from collections import Counter

from minprm.data import Sample
from minprm.model.tree import numbered_paths
from minprm.several.processes import parted

# --- prompts ---


class Owners:
    """Whose each prompt is: of the writer that has read how it begins, and else of the one that has
    least to do."""

    def __init__(self, writers: int):
        self.writers = writers
        # of a walk: its first prompts, and whose they are
        self.writer_of: dict[tuple[int, ...], int] = {}

    def of(self, prompts: list[tuple[int, ...]]) -> list[int]:
        """The number of the writer after each prompt; equal ones have the same."""
        sizes = sorted(set(map(len, self.writer_of)), reverse=True)
        times = Counter(prompts)
        owners: dict[tuple[int, ...], int] = {}
        work = [0] * self.writers
        for prompt in times:
            begins = [prompt[:size] for size in sizes if prompt[:size] in self.writer_of]
            if begins:
                owners[prompt] = self.writer_of[begins[0]]
                work[owners[prompt]] += times[prompt]
        for prompt in [prompt for prompt in times if prompt not in owners]:
            owner = work.index(min(work))
            work[owner] += times[prompt]
            owners[prompt] = self.writer_of[prompt] = owner
        return [owners[prompt] for prompt in prompts]


# --- Samples ---


def stretches(samples: list[Sample], n: int) -> list[list[int]]:
    """Cuts Samples into n stretches, of which the longest has as few tokens as it can. Neighbours
    share most of theirs; those that two stretches share are read in both."""
    paths = numbered_paths(samples)
    numbers = [[number for number, _ in path] for path in paths]
    order = sorted(range(len(samples)), key=lambda i: numbers[i])

    def added(i: int, nodes: set[int]) -> int:
        """The tokens that Sample i adds to a stretch that holds these nodes."""
        size = 0
        for number, ids in paths[i]:
            if number not in nodes:
                size += len(ids)
        return size

    def cut(most: int) -> list[list[int]]:
        """Stretches of so many tokens at most, or of one Sample."""
        shares = []
        nodes: set[int] = set()
        left = 0
        for i in order:
            # equal ones stay together, or rounding would tell them apart
            if added(i, nodes) > max(left, 0):
                shares.append([])
                nodes = set()
                left = most
            left -= added(i, nodes)
            nodes.update(numbers[i])
            shares[-1].append(i)
        return shares

    tokens = sum(added(i, set()) for i in order)
    shares = cut(bisect_left(range(tokens), True, key=lambda most: len(cut(most)) <= n))
    shares += [[]] * (n - len(shares))  # for whom nothing is left
    return [sorted(share) for share in shares]


def require_same_update(mine: list[tuple[int, float]], others: list[tuple[int, float]]) -> None:
    """Exits where another process learned from other tokens or advantages."""
    same = len(mine) == len(others)
    for (ids, advantage), (other_ids, other) in zip(mine, others, strict=False):
        # two kinds of CPU may round otherwise
        same = same and ids == other_ids and not abs(advantage - other) > 1e-3
    if not same:
        parted("came to different advantages")
