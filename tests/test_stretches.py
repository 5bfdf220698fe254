"""How the samples of an update are shared out among processes."""

import random
from itertools import combinations

import pytest

from minprm.data import Sample
from minprm.model.tree import numbered_paths
from minprm.several.owners import stretches


def walk(rng: random.Random) -> list[Sample]:
    """Two logs of three steps: a few thoughts after each, of different lengths."""
    samples = []
    for log in range(2):
        node = Sample()
        for step in range(3):
            node = Sample(parent=node).extend([100 * log + step] * rng.randint(5, 20))
            for k in range(rng.randint(1, 3)):
                thought = [300 + 10 * step + k] * rng.randint(1, 9)
                samples.append(Sample(parent=node).extend(thought, 1.0))
    rng.shuffle(samples)
    return samples


def tokens(samples: list[Sample], share: list[int]) -> int:
    """Those that are read where what Samples have in common is read once."""
    paths = numbered_paths([samples[i] for i in share])
    return sum(len(ids) for ids in {n: ids for path in paths for n, ids in path}.values())


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_no_other_cut_has_a_shorter_longest_stretch(n, seed):
    samples = walk(random.Random(seed))
    found = stretches(samples, n)
    assert sorted(i for share in found for i in share) == list(range(len(samples)))
    paths = numbered_paths(samples)
    order = sorted(range(len(samples)), key=lambda i: [number for number, _ in paths[i]])
    longest = []
    for cuts in combinations(range(1, len(order)), n - 1):
        ends = zip((0, *cuts), (*cuts, len(order)), strict=True)
        longest.append(max(tokens(samples, order[a:b]) for a, b in ends))
    assert max(tokens(samples, share) for share in found) == min(longest)


def test_there_are_as_many_stretches_as_processes_even_of_few_samples():
    assert stretches([], 2) == [[], []]
    one = Sample().extend([1, 2, 3], 1.0)
    assert stretches([one], 3) == [[0], [], []]


def test_equal_samples_are_read_by_one_process_or_rounding_would_tell_them_apart():
    """A group of equal thoughts has equal rewards, to the last bit."""
    state = Sample().extend([1, 2, 3])
    samples = [Sample(parent=state).extend([4, 5, 6], 0.0) for _ in range(6)]
    for n in (2, 8):
        assert sorted(stretches(samples, n)) == [*[[]] * (n - 1), [*range(6)]]
