"""benchmarks/parallel.py, small: two processes send what benchmarks/traffic.py says on paper."""

import pytest

from benchmarks import parallel
from benchmarks.parallel import SMALL, launched
from docs.tables import TABLES

pytestmark = pytest.mark.slow  # they start processes
(SIZE,) = SMALL.sizes.values()
GROUPS = SIZE.layers + 1  # FSDP's: a layer each, and what is around them


@pytest.fixture(autouse=True)
def one_thread(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="module")
def found():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        return launched(2, "own", small=True)


def sent(row: dict) -> tuple[dict, dict]:
    """(calls by kind, bytes by kind)"""
    numbers = row["sent"].items()
    return {k: one["calls"] for k, one in numbers}, {k: one["bytes"] for k, one in numbers}


def test_an_update_sends_the_gradients_once_where_weights_are_whole(found):
    calls, sizes = sent(found["small"]["update"]["whole"])
    assert calls == {"allgather": 4, "allreduce": 1}
    assert sizes["allreduce"] == found["small"]["bytes"]  # 2 (N-1)/N of them
    assert sizes["allgather"] < 2000


def test_an_update_of_spread_weights_sends_them_three_times_a_micro_batch(found):
    row = found["small"]["update"]["spread"]
    more = found["small"]["smaller"]
    assert more["micro_batches"] > 1
    for batches, one in ((1, row), (more["micro_batches"], more)):
        calls, sizes = sent(one)
        half = batches * found["small"]["bytes"] / 2
        assert calls["allgather_base"] == 2 * GROUPS * batches
        assert calls["reduce_scatter_base"] == GROUPS * batches
        assert calls["allgather"] == 8
        assert sizes["allgather_base"] == 2 * half and sizes["reduce_scatter_base"] == half


def test_writing_and_scoring_send_a_few_bytes_a_token(found):
    row = found["small"]["writing"]
    calls, sizes = sent(row["whole"])
    completions = SIZE.prompts * SIZE.group
    assert calls == {"allgather": 6}
    assert sizes["allgather"] < 12 * completions * SIZE.new / 2 + 100 * completions
    calls, sizes = sent(row["spread"])
    assert calls == {"allgather": 6, "allgather_base": GROUPS}
    calls, sizes = sent(found["small"]["scoring"]["whole"])
    assert calls == {"allgather": 2}
    assert sizes["allgather"] < 8 * completions * SIZE.new / 2 + 300 * completions


def test_both_processes_read_a_share(found):
    for phase in parallel.PHASES:
        one, _ = found["small"][phase]["alone"]["tokens"]
        for weights in ("whole", "spread"):
            shares = found["small"][phase][weights]["tokens"]
            assert max(shares) < 0.7 * one and sum(shares) > 0.9 * one


def test_two_processes_find_trls_gradient_norms_and_all_tables_are_made(found):
    pytest.importorskip("trl")
    rows = {**found, "beside TRL": {str(n): launched(n, "beside_trl", small=True) for n in (1, 2)}}
    for name in ("parallel", "parallel:sent", "parallel:waiting", "parallel:trl"):
        assert "x" in TABLES[name](rows) or "%" in TABLES[name](rows)
