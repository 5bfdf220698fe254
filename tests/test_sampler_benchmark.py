"""benchmarks/sampler.py on a tiny size: who is timed has drawn as much as the others."""

import pytest

from benchmarks import sampler as benchmark
from benchmarks.sampler import Size, measure, told
from evidence.tables import sampler as table
from minprm.model import precision

TINY = Size(1, 8, 4, 2, 20, prompts=2, group=3, shortest=3, longest=5, new=4)


@pytest.fixture(autouse=True)
def no_engine(monkeypatch):
    """As where vLLM is not installed. What the program sets for itself is set back."""
    monkeypatch.setattr(benchmark, "find_spec", lambda name: None)
    monkeypatch.setattr(precision, "in_bf16", precision.in_bf16)


def test_each_writer_draws_the_same_number_of_tokens_and_an_absent_one_is_told():
    rows = measure(TINY, rounds=1)
    assert list(rows) == ["plain sampler", "generate", "vLLM"] and rows["vLLM"] is None
    own, other = rows["plain sampler"]["median"], rows["generate"]["median"]
    assert rows["generate"]["ratio"] == own / other
    assert "not installed" in told("tiny", "vLLM", None)
    line = table({"tiny": rows}).splitlines()[-1]
    assert line == f"| tiny | {own:,.0f} | {other:,.0f} ({own / other:.2f}x) | not installed |"


def test_a_writer_that_stops_early_is_refused(monkeypatch):
    monkeypatch.setattr(benchmark, "generate", lambda model, size: lambda seed: size.drawn - 1)
    with pytest.raises(SystemExit, match="generate drew 23 tokens, not 24"):
        measure(TINY, rounds=1)


def test_prompts_are_padded_on_the_left():
    ids, mask = benchmark.left_padded([[1, 2, 3], [4]])
    assert ids.tolist() == [[1, 2, 3], [0, 0, 4]] and mask.tolist() == [[1, 1, 1], [0, 0, 1]]
