"""--dry-run: the numbers of models that everybody knows, and what the first sample looks like."""

import json
from dataclasses import replace

import pytest
import torch
from test_logs import line, model  # noqa: F401  (a fixture)
from transformers import Qwen3Config, Qwen3ForCausalLM

from minprm.commands.cli import parse
from minprm.commands.dry_run import GREEN, GREY, YELLOW, count, dry_run, kept_bytes, memory
from minprm.commands.presets import PRESETS
from minprm.constants import ActPRM, Config

TOKENS = 48
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


def test_a_4b_model_fits_80_gb_with_adapters_and_not_without():
    plan = {}
    for lora in (0, 32):
        cfg = Config(lora=lora, checkpointing=True, sampler="vllm")
        plan[lora] = memory(shape("4B"), cfg, card=80 * 2**30)
    total, trained = count(shape("4B"), lora=32)
    assert plan[32]["weights"] == 2 * (total - trained) + 4 * trained  # bf16 base, fp32 adapters
    assert plan[0]["gradients and AdamW's two moments, fp32"] == pytest.approx(
        12 * 4.02e9, rel=0.01
    )
    assert plan[32]["sum"] < 79 * 2**30 < plan[0]["sum"]
    assert plan[32]["sum"] - plan[32]["vLLM's share"] < 24 * 2**30


def test_the_preset_for_24_gb_fits_such_a_card_by_its_own_plan():
    """Cards of 24 GB (A10G, L4) give out 22.5 GiB; 1 of them is the CUDA context's."""
    cfg, card = replace(PRESETS["qwen3-0.6b"], sampler="vllm"), 22.5 * 2**30
    plan = memory(shape("0.6B"), cfg, card)
    assert plan["vLLM's share"] == cfg.engine.memory * card
    assert plan["sum"] < card - 2**30 < memory(shape("4B"), cfg, card)["sum"]


def test_the_plan_counts_autocasts_copies_and_no_copy_that_is_on_the_cpu():
    """A bf16 copy of every weight in a linear layer but the head: 28 layers of 0.6B."""
    plan = memory(shape("0.6B"), Config())
    attention = 1024 * (2 * 16 + 2 * 8) * 128
    layer = attention + 3 * 1024 * 3072
    assert plan["autocast's copies of weights, bf16"] == 2 * 28 * layer
    assert not any("start" in name for name in plan)
    assert (
        memory(shape("0.6B"), Config(act_prm=ActPRM(scored_by="base")))["frozen base model"]
        == 4 * 596_049_920
    )


def test_activations_are_those_that_autograd_saves():
    """One layer of the plan's kind, counted for real; the second layer is what a layer adds."""
    saved = {}
    for layers in (1, 2):
        config = Qwen3Config(**QWEN3 | {"vocab_size": 100}, **SHAPES["0.6B"])
        config.num_hidden_layers = layers
        sizes = {}

        def note(tensor, sizes=sizes):
            if TOKENS in tensor.shape:  # not a weight, nor autocast's copy of one
                sizes[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        hooks = torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor)
        with hooks, torch.autocast("cpu", torch.bfloat16):
            kept = Qwen3ForCausalLM(config).model(torch.arange(TOKENS)[None], use_cache=False)
        saved[layers] = sum(sizes.values())
        del kept
    layer = (saved[2] - saved[1]) / TOKENS / 1024
    assert layer == pytest.approx(kept_bytes(Qwen3ForCausalLM(config), Config()) / 2, rel=0.01)


def test_the_first_sample_is_shown_in_three_colours(tmp_path, model):  # noqa: F811
    logs = tmp_path / "logs.jsonl"
    logs.write_text(json.dumps(line("Paris", "look at")) + "\n")
    flags = f"--preset logs --demos {logs} --model {model} --lora 0 --dry-run"
    text = dry_run(parse(flags.split()))
    assert "parameters" in text and "GiB" in text
    assert f"{GREEN}look at visit Paris\n" in text and YELLOW in text and GREY in text
    before, after = text.split(f"{GREEN}look at visit Paris")
    assert "how big is Paris?" in before and '"title": "Paris"' in after
