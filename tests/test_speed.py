"""How fast an update was, by other roads, and with a stand-in for a card."""

from types import SimpleNamespace

import torch
from transformers import AutoModelForCausalLM, Qwen3Config

from benchmarks.actprm import grown
from minprm.constants import RL, Config, Optim, Sampled, Training
from minprm.look.metrics import speeds
from minprm.model.policy import Policy
from minprm.run.events import Updated
from shared.policies import branches, policy


def test_growth_counts_the_tokens_that_are_read():
    config = Qwen3Config(
        vocab_size=1000, hidden_size=16, intermediate_size=16, num_hidden_layers=1, head_dim=8,
        num_attention_heads=2, num_key_value_heads=2,
    )  # fmt: skip
    found = grown(Policy(AutoModelForCausalLM.from_config(config), None, 1000), steps=2, group=3)
    assert found["unique"] == 200 + 230 + 2 * 3 * 30
    assert found["unique"] <= found["tokens"] < found["unique"] + 64  # one row of whole blocks


def measured(p: Policy, cfg: Training, passes: int, stats: dict[str, float]) -> dict[str, float]:
    """What the listener adds to the numbers of an update on 11 tokens."""
    event = Updated("rl", 0, cfg, branches(), dict(stats))
    run = SimpleNamespace(agent=SimpleNamespace(policy=p), cfg=Config(optim=Optim(passes=passes)))
    speeds(run, event)
    return {name: event.stats[name] for name in event.stats.keys() - stats.keys()}


SECONDS = {"time/sample": 4.0, "time/update": 0.5, "policy/drawn_tokens": 12}


def test_speed_is_tokens_over_their_own_seconds():
    p = policy()
    found = measured(p, Sampled(), 2, SECONDS)
    assert found == {"speed/tokens_per_second": 2 * 11 / 0.5, "speed/drawn_per_second": 3.0}
    ahead = measured(p, RL(max_async_level=1), 1, SECONDS)  # both at once: no such number
    logs = measured(p, Sampled(), 1, {"time/sample": 4.0, "time/update": 0.5})
    assert [*ahead] == [*logs] == ["speed/tokens_per_second"]


def test_on_a_card_its_memory_is_told(monkeypatch):
    resets = []
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 3e9)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", resets.append)
    on_cuda = SimpleNamespace(model=SimpleNamespace(device=torch.device("cuda")))
    found = measured(on_cuda, Sampled(), 2, SECONDS)
    assert found["speed/peak_memory_gb"] == 3.0 and len(resets) == 1
