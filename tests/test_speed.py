"""How fast, and what share of the card: by other roads, and with stand-ins for a card."""

from types import SimpleNamespace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoModelForCausalLM, Qwen3Config

from benchmarks.actprm import grown
from minprm.constants import RL, Sampled
from minprm.data import Sample
from minprm.load.pretrained import adapted
from minprm.look.speed import flops, peak_of, speed, token_counts
from minprm.model.policy import Policy
from minprm.model.tree import layout
from shared.policies import policy


def branches() -> list[Sample]:
    state = Sample().extend([1, 2, 3])
    log = Sample(parent=state).extend([4, 5])
    return [Sample(parent=log).extend([6], 1.0), Sample(parent=log).extend([7, 8], 1.0),
            Sample(parent=state).extend([9, 9], 1.0).extend([9]),
            Sample(parent=state).extend([9], 1.0).extend([9, 9])]  # fmt: skip


def test_tokens_and_pairs_are_those_of_the_rows_that_are_read():
    rows = layout([branches()])
    tokens, pairs, scored = token_counts(branches())
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
    found = flops(Policy(model, None, 100), tokens=40, pairs=40 * 40, scored=40)
    assert found == pytest.approx(counter.get_total_flops(), rel=0.02)


def test_growth_counts_the_tokens_that_are_read():
    config = Qwen3Config(
        vocab_size=1000, hidden_size=16, intermediate_size=16, num_hidden_layers=1, head_dim=8,
        num_attention_heads=2, num_key_value_heads=2,
    )  # fmt: skip
    found = grown(Policy(AutoModelForCausalLM.from_config(config), None, 1000), steps=2, group=3)
    assert found["unique"] == 200 + 230 + 2 * 3 * 30
    assert found["unique"] <= found["tokens"] < found["unique"] + 64  # one row of whole blocks


def card(monkeypatch, name: str) -> list:
    """A stand-in for a card of this name. Returns what is reset."""
    calls = []
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: name)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 3e9)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", calls.append)
    return calls


def on_cuda(p: Policy, processes: int = 1) -> SimpleNamespace:
    """The policy, as one that lies on a card, or on one of each process."""
    model = SimpleNamespace(
        device=torch.device("cuda"), config=p.model.config, parameters=p.model.parameters,
        get_output_embeddings=p.model.get_output_embeddings,
        get_input_embeddings=p.model.get_input_embeddings,
    )  # fmt: skip
    shares = SimpleNamespace(count=processes)
    sizes = {"size": p.size, "attention_size": p.attention_size}
    return SimpleNamespace(model=model, **sizes, lora=False, shares=shares)


SECONDS = {"time/sample": 4.0, "time/update": 0.5, "policy/drawn_tokens": 12}


def test_speed_is_tokens_over_their_own_seconds(monkeypatch):
    p = policy()
    found = speed(p, branches(), Sampled(), 2, SECONDS)
    assert found == {"speed/tokens_per_second": 2 * 11 / 0.5, "speed/drawn_per_second": 3.0}
    ahead = speed(p, branches(), RL(max_async_level=1), 1, SECONDS)  # both at once: no such number
    logs = speed(p, branches(), Sampled(), 1, {"time/sample": 4.0, "time/update": 0.5})
    assert [*ahead] == [*logs] == ["speed/tokens_per_second"]


def test_on_a_card_its_share_and_its_memory_are_told(monkeypatch):
    resets = card(monkeypatch, "NVIDIA L4")
    p = policy()
    found = speed(on_cuda(p), branches(), Sampled(), 2, SECONDS)
    needed = 2 * flops(p, *token_counts(branches()))
    assert found["speed/mfu"] == pytest.approx(needed / 0.5 / 121e12)
    assert found["speed/peak_memory_gb"] == 3.0 and len(resets) == 1
    found = speed(on_cuda(p, processes=4), branches(), Sampled(), 2, SECONDS)
    assert found["speed/mfu"] == pytest.approx(needed / 0.5 / 121e12 / 4)
    card(monkeypatch, "Tesla T4")  # no bf16, so not in the table
    found = speed(on_cuda(p), branches(), Sampled(), 1, SECONDS)
    assert "speed/mfu" not in found and "speed/peak_memory_gb" in found


@pytest.mark.parametrize(("name", "peak"), [
    ("NVIDIA H100 80GB HBM3", 989), ("NVIDIA H100 PCIe", 756), ("NVIDIA A100-SXM4-80GB", 312),
    ("NVIDIA A10G", 70), ("NVIDIA A10", 125), ("NVIDIA L40S", 362), ("NVIDIA L4", 121),
    ("NVIDIA GeForce RTX 4090", 165), ("NVIDIA GeForce RTX 4090 D", 0), ("NVIDIA A1000", 0),
    ("NVIDIA GeForce RTX 4090 Laptop GPU", 0), ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", 0),
    ("NVIDIA GB10", 0), ("", 0),
])  # fmt: skip
def test_a_card_is_known_by_the_words_of_its_name(name, peak):
    assert peak_of(name) == peak * 1e12


def test_under_adapters_the_frozen_weights_need_no_gradient_of_their_own():
    pytest.importorskip("peft", reason='needs peft: pip install ".[lora]"')
    plain = policy()
    weights, head = plain.size, plain.model.get_output_embeddings().weight.numel()
    p = Policy(adapted(policy().model, 4, checkpointing=False), plain.tokenizer, 100)
    adapters = sum(x.numel() for x in p.model.parameters() if x.requires_grad)
    assert flops(plain, 100, 0, 10) == 6 * weights * 100 + 6 * head * 10
    assert flops(p, 100, 0, 10) == (4 * weights + 6 * adapters) * 100 + 4 * head * 10
