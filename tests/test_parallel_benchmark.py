"""benchmarks/parallel.py, small: two processes send what benchmarks/traffic.py says on paper."""

import pytest

from benchmarks.parallel import PHASES, SMALL, launched
from benchmarks.peers import GROUP, PROMPTS
from evidence.tables import TABLES

pytestmark = pytest.mark.slow  # they start processes
(SIZE,) = SMALL.sizes.values()
PARTS = SIZE.layers + 1  # of the weights, for FSDP: a layer each, and what is around them


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
        assert calls["allgather_base"] == 2 * PARTS * batches
        assert calls["reduce_scatter_base"] == PARTS * batches
        assert calls["allgather"] == 8
        assert sizes["allgather_base"] == 2 * half and sizes["reduce_scatter_base"] == half


def test_writing_and_scoring_send_a_few_bytes_a_token(found):
    row = found["small"]["writing"]
    calls, sizes = sent(row["whole"])
    completions = SIZE.prompts * SIZE.group
    assert calls == {"allgather": 6}
    assert sizes["allgather"] < 12 * completions * SIZE.new / 2 + 100 * completions
    calls, sizes = sent(row["spread"])
    assert calls == {"allgather": 6, "allgather_base": PARTS}
    calls, sizes = sent(found["small"]["scoring"]["whole"])
    assert calls == {"allgather": 2}
    assert sizes["allgather"] < 8 * completions * SIZE.new / 2 + 200 * completions / 2


def test_both_processes_read_a_share(found):
    for phase in PHASES:
        one, _ = found["small"][phase]["alone"]["tokens"]
        for weights in ("whole", "spread"):
            shares = found["small"][phase][weights]["tokens"]
            assert max(shares) < 0.7 * one and sum(shares) > 0.9 * one


def test_two_processes_find_trls_gradient_norms_and_the_tables_are_made(found):
    pytest.importorskip("trl")
    rows = {**found, "beside TRL": {str(n): launched(n, "beside_trl", small=True) for n in (1, 2)}}
    one, two = rows["beside TRL"].values()
    assert one["TRL"]["tokens"] == two["TRL"]["tokens"] == PROMPTS * GROUP * 24
    line = TABLES["parallel:trl"](rows).splitlines()[2]
    ratio = one["TRL"]["seconds"] / two["TRL"]["seconds"]
    assert line.startswith("| TRL | 768 | 768 |") and line.endswith(f"| {ratio:.2f}x |")
    update = found["small"]["update"]
    line = TABLES["parallel"](rows).splitlines()[4]
    assert line.startswith(f"| small | update | {update['alone']['seconds']:.2f} |")
    assert f"| {update['whole']['ratio']:.2f}x [" in line
    sent = [
        line for line in TABLES["parallel:sent"](rows).splitlines() if "| update | whole" in line
    ]
    assert sent[0].startswith("| small | update | whole | 5 | 0.12 | 1.0")
    tokens = found["small"]["update"]["whole"]["tokens"]
    assert f"| {tokens[0]} + {tokens[1]} |" in TABLES["parallel:waiting"](rows)
