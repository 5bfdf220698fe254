"""How many tokens are read for each that has to be: the benchmark counts what it says."""

import pytest

from benchmarks import tokens
from benchmarks.tokens import Made, Phase


def test_a_path_that_several_sequences_begin_with_is_distinct_once():
    phase = Phase()
    assert [phase.note(ids) for ids in ([1, 2, 3], [1, 2, 4], [2], [1, 2])] == [3, 1, 1, 0]


@pytest.mark.slow
def test_training_reads_not_much_more_than_has_to_be_read():
    for continues in ("best", "own", "resample"):
        made = Made(steps=5, observation=20, action=3, thought=8, longest=24)
        rows = tokens.of_made(made, updates=1, batch=2, group=4, continues=continues)
        row = rows["training"]
        assert row["distinct"] > 0
        assert 1 <= row["quotient"] <= 1.6, (continues, row)
