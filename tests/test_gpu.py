"""benchmarks/gpu.py runs where there is no GPU, and counts what can be counted there."""

import sys
from math import isnan

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoModelForCausalLM, Qwen3Config

from benchmarks import gpu
from minprm.load.pretrained import adapted
from minprm.model import blocks
from minprm.model.policy import Policy
from minprm.model.tree import layout
from shared.policies import branches, policy

pytest.importorskip("peft", reason='needs peft: pip install ".[lora]"')
pytestmark = pytest.mark.extras


@pytest.mark.slow
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
    tokens, _, scored = gpu.token_counts(samples)
    assert gpu.flops(policy, tokens, 0, scored) == pytest.approx(products, rel=close)


def test_what_only_a_card_has_is_nan_where_the_card_is_not_known(monkeypatch):
    size, work = gpu.SMALL["small, all weights"], gpu.SMALL_WORK
    policy = gpu.policy_of(gpu.model_of(size).float(), size)
    monkeypatch.setattr(gpu, "CARD", "NVIDIA H200")
    found = gpu.updates(policy, size, work)
    needed = gpu.flops(policy, *gpu.token_counts(gpu.trees(work)))
    seconds = work.rows * (work.prompt + work.answer) / found["trees, tokens/s"]
    assert found["MFU of trees, %"] == pytest.approx(100 * needed / seconds / 989e12)
    monkeypatch.setattr(gpu, "CARD", "an unknown card")
    assert isnan(gpu.updates(policy, size, work)["MFU of trees, %"])
    assert isnan(gpu.sampling(policy, work)["step / limit"])


def test_tokens_and_pairs_are_those_of_the_rows_that_are_read():
    rows = layout([branches()])
    tokens, pairs, scored = gpu.token_counts(branches())
    assert tokens == rows.ids.numel() == 11
    assert pairs == rows.attention_mask.sum() and scored == len(rows.scored)


@pytest.mark.parametrize("tied", [True, False])
def test_the_arithmetic_is_that_which_torch_counts(tied):
    """A forward and a backward pass of one row; torch counts all pairs, also those behind."""
    config = Qwen3Config(
        vocab_size=300, hidden_size=64, intermediate_size=96, num_hidden_layers=3, head_dim=16,
        num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=tied,
    )  # fmt: skip
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    ids = torch.randint(300, (1, 40))
    with FlopCounterMode(display=False) as counter:
        model(input_ids=ids).logits.sum().backward()
    found = gpu.flops(Policy(model, None, 100), tokens=40, pairs=40 * 40, scored=40)
    assert found == pytest.approx(counter.get_total_flops(), rel=0.02)


@pytest.mark.parametrize(("name", "peak"), [
    ("NVIDIA H100 80GB HBM3", 989), ("NVIDIA H100 PCIe", 756), ("NVIDIA A100-SXM4-80GB", 312),
    ("NVIDIA A10G", 70), ("NVIDIA A10", 125), ("NVIDIA L40S", 362), ("NVIDIA L4", 121),
    ("NVIDIA GeForce RTX 4090", 165), ("NVIDIA GeForce RTX 4090 D", 0), ("NVIDIA A1000", 0),
    ("NVIDIA GeForce RTX 4090 Laptop GPU", 0), ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", 0),
    ("NVIDIA GB10", 0), ("", 0),
])  # fmt: skip
def test_a_card_is_known_by_the_words_of_its_name(name, peak):
    assert gpu.peak_of(name) == peak * 1e12


def test_under_adapters_the_frozen_weights_need_no_gradient_of_their_own():
    plain = policy()
    weights, head = plain.size, plain.model.get_output_embeddings().weight.numel()
    p = Policy(adapted(policy().model, 4, checkpointing=False), plain.tokenizer, 100)
    adapters = sum(x.numel() for x in p.model.parameters() if x.requires_grad)
    assert gpu.flops(plain, 100, 0, 10) == 6 * weights * 100 + 6 * head * 10
    assert gpu.flops(p, 100, 0, 10) == (4 * weights + 6 * adapters) * 100 + 4 * head * 10
