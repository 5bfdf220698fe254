"""--dry-run: the numbers of models that everybody knows, and what the first sample looks like."""

import json

import pytest
import torch
from test_logs import line, model  # noqa: F401  (a fixture)
from transformers import Qwen3Config, Qwen3ForCausalLM

from minprm.commands.cli import parse
from minprm.commands.dry_run import GREEN, GREY, YELLOW, count, dry_run, memory
from minprm.constants import Config

QWEN3 = dict(vocab_size=151_936, head_dim=128, num_key_value_heads=8, tie_word_embeddings=True)
SHAPES = {
    "0.6B": dict(hidden_size=1024, intermediate_size=3072, num_hidden_layers=28,
                 num_attention_heads=16),
    "4B": dict(hidden_size=2560, intermediate_size=9728, num_hidden_layers=36,
               num_attention_heads=32),
}  # fmt: skip


def shape(name: str) -> Qwen3ForCausalLM:
    with torch.device("meta"):
        return Qwen3ForCausalLM(Qwen3Config(**QWEN3, **SHAPES[name]))


def test_parameters_are_those_of_the_model_cards():
    assert count(shape("0.6B"), lora=0) == (596_049_920, 596_049_920)
    assert count(shape("4B"), lora=0)[0] == 4_022_468_096


def test_adapters_are_counted_as_peft_makes_them():
    peft = pytest.importorskip("peft", reason='needs peft: pip install -e ".[lora]"')
    made = peft.get_peft_model(shape("0.6B"), peft.LoraConfig(r=8, target_modules="all-linear"))
    trained = sum(p.numel() for p in made.parameters() if p.requires_grad)
    assert count(shape("0.6B"), lora=8)[1] == trained


def test_memory_of_a_4b_model_fits_with_adapters_and_not_without():
    plan = {lora: memory(shape("4B"), Config(lora=lora, checkpointing=True)) for lora in (0, 32)}
    assert plan[32]["weights"] == pytest.approx(2 * 4.02e9, rel=0.03)
    assert plan[0]["gradients and AdamW's two moments, fp32"] == pytest.approx(
        12 * 4.02e9, rel=0.01
    )
    assert plan[32]["sum"] < 24 * 2**30 < 80 * 2**30 < plan[0]["sum"]


def test_the_first_sample_is_shown_in_three_colours(tmp_path, model):  # noqa: F811
    logs = tmp_path / "logs.jsonl"
    logs.write_text(json.dumps(line("Paris", "look at")) + "\n")
    flags = f"--preset logs --demos {logs} --model {model} --lora 0 --dry-run"
    text = dry_run(parse(flags.split()))
    assert "parameters" in text and "GiB" in text
    assert f"{GREEN}look at visit Paris\n" in text and YELLOW in text and GREY in text
    before, after = text.split(f"{GREEN}look at visit Paris")
    assert "how big is Paris?" in before and '"title": "Paris"' in after
