"""benchmarks/gpu.py runs where there is no GPU, and counts what can be counted there."""

import sys
from math import isnan

import pytest
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import gpu
from minprm.look import speed
from minprm.model import blocks

pytest.importorskip("peft", reason='needs peft: pip install ".[lora]"')


def test_the_benchmark_runs_small_and_leaves_the_limits_of_blocks_as_they_were(monkeypatch, capsys):
    if gpu.DEVICE != "cpu":
        pytest.skip("there is a GPU: python -m benchmarks.gpu --small")
    limits = dict(blocks.LONG)
    monkeypatch.setattr(sys, "argv", ["gpu", "--small"])
    gpu.main()
    lines = capsys.readouterr().out
    assert lines.count("trees, tokens/s") == len(gpu.SMALL)
    assert lines.count("dense / blocks at 256") == 1
    assert limits == blocks.LONG


@pytest.mark.parametrize(("name", "close"), [("small, all weights", 0.01), ("small, LoRA 4", 0.1)])
def test_mfu_counts_the_products_of_matrices_that_an_update_makes(name, close):
    """Under adapters the first layer needs no gradient of its inputs, which counts all the same."""
    size, work = gpu.SMALL[name], gpu.SMALL_WORK
    size = gpu.Size(size.shape, size.vocabulary, size.lora, checkpointing=False)
    policy = gpu.policy_of(gpu.model_of(size).float(), size)
    policy.reads_blocks = False  # blocks are filled up with padding
    policy.micro_batches = lambda samples: [[list(range(len(samples)))]]  # no tree is cut
    samples = gpu.trees(work)
    with FlopCounterMode(display=False) as counter:
        policy.update(samples, gpu.config_of(size).act_prm, lr=0.0)
    counted = counter.get_flop_counts()["Global"]
    products = sum(n for op, n in counted.items() if "mm" in str(op))
    tokens, _, scored = speed.token_counts(samples)
    assert speed.flops(policy, tokens, 0, scored) == pytest.approx(products, rel=close)


def test_what_only_a_card_has_is_nan_where_the_card_is_not_known(monkeypatch):
    size, work = gpu.SMALL["small, all weights"], gpu.SMALL_WORK
    policy = gpu.policy_of(gpu.model_of(size).float(), size)
    monkeypatch.setattr(gpu, "CARD", "NVIDIA H200")
    found = gpu.updates(policy, size, work)
    needed = speed.flops(policy, *speed.token_counts(gpu.trees(work)))
    seconds = work.rows * (work.prompt + work.answer) / found["trees, tokens/s"]
    assert found["MFU of trees, %"] == pytest.approx(100 * needed / seconds / 989e12)
    monkeypatch.setattr(gpu, "CARD", "an unknown card")
    assert isnan(gpu.updates(policy, size, work)["MFU of trees, %"])
    assert isnan(gpu.sampling(policy, work)["step / limit"])
