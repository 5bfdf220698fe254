"""benchmarks/gpu.py runs where there is no GPU, and counts what can be counted there."""

import sys

import pytest
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import gpu
from minprm.model import blocks

pytest.importorskip("peft", reason='needs peft: pip install "minprm[lora]"')


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


@pytest.mark.parametrize(("name", "close"), [("small, all weights", 0.01), ("small, LoRA 4", 0.2)])
def test_mfu_counts_the_products_of_matrices_that_an_update_makes(name, close):
    """Adapters compute a little more: their own gradients, which count as if they stayed."""
    size, work = gpu.SMALL[name], gpu.SMALL_WORK
    size = gpu.Size(size.shape, size.vocabulary, size.lora, checkpointing=False)
    policy = gpu.policy_of(gpu.model_of(size).float(), size)
    policy.reads_blocks = False  # blocks are filled up with padding
    policy.micro_batches = lambda samples: [[list(range(len(samples)))]]  # no tree is cut
    with FlopCounterMode(display=False) as counter:
        policy.update(gpu.trees(work), gpu.config_of(size).act_prm, lr=0.0)
    counted = counter.get_flop_counts()["Global"]
    products = sum(n for op, n in counted.items() if "mm" in str(op))
    assert gpu.operations(policy, size, work) == pytest.approx(products, rel=close)


def test_speeds_are_those_of_a_known_card(monkeypatch):
    monkeypatch.setattr(gpu, "DEVICE", "cuda")
    monkeypatch.setattr(gpu.torch.cuda, "get_device_name", lambda: "NVIDIA H200")
    assert (gpu.of_card(0), gpu.of_card(1)) == (989e12, 4.8e12)
    monkeypatch.setattr(gpu.torch.cuda, "get_device_name", lambda: "an unknown card")
    assert gpu.of_card(0) != gpu.of_card(0), "nan, and so is what is divided by it"
