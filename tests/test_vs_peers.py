"""The comparison with TRL, small: checked before it is timed, tokens counted on both sides."""

from dataclasses import replace

import pytest

from benchmarks import peers

vs_trl = pytest.importorskip("benchmarks.vs_trl", reason="needs trl", exc_type=ImportError)
SMALL = peers.Regime(shortest_prompt=20, longest_prompt=20, longest=4, average=100)


@pytest.mark.slow
def test_a_comparison_finds_equal_gradients_and_counts_what_each_side_reads(capsys):
    work = replace(vs_trl.small(SMALL), checked=2, timed=1)
    rows = vs_trl.compare("small", work, {"step, minprm": vs_trl.plain_stepper(work)})
    assert capsys.readouterr().out.count("the same gradient norms") == 3
    assert list(rows) == ["update, TRL", "update, minprm", "step, TRL", "step, minprm"]
    assert 32 * 20 < rows["update, TRL"]["read"] <= 32 * 24
    assert 4 * 20 < rows["update, minprm"]["read"] <= 4 * 20 + 32 * 4 + 40  # and some padding
    ratio = rows["update, TRL"]["median"] / rows["update, minprm"]["median"]
    assert rows["update, minprm"]["ratio"] == pytest.approx(ratio)


def test_unequal_gradients_end_a_comparison():
    peers.require_same([1.0, 2.0], [1.0, 2.001], "grpo")
    with pytest.raises(SystemExit, match="update 1"):
        peers.require_same([1.0, 2.0], [1.0, 2.01], "grpo")
