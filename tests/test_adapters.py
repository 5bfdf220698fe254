"""Models and adapters that are not plain: mixtures of experts, other adapters, sizes, positions.

Each is a tiny random model. What an engine is sent is put into a plain model, which has to be the
policy; tests/test_vllm.py asks the engine itself.
"""

import json
import re
from pathlib import Path

import pytest
import torch
import transformers
from transformers import AutoModelForCausalLM

from minprm.constants import SFT, Config, Sampled, Tiny
from minprm.data import Sample
from minprm.envs.cups import Cups
from minprm.load import pretrained
from minprm.load.check import check
from minprm.load.pretrained import load_merged, load_model
from minprm.load.tiny import untrained
from minprm.load.vllm import weight_names, weights
from minprm.model.policy import Policy
from minprm.model.precision import own_logprobs
from shared.policies import agent

peft = pytest.importorskip("peft", reason='needs peft: pip install ".[lora]"')
pytestmark = pytest.mark.extras

SIZES = {
    "vocab_size": 96, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
ROUTED = {
    "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "n_group": 1,
    "topk_group": 1, "first_k_dense_replace": 1, "n_shared_experts": 1,
}  # fmt: skip
MIXTURES = {
    "Qwen3Moe": EXPERTS | {"head_dim": 8},
    "Qwen2Moe": EXPERTS | {"shared_expert_intermediate_size": 16},
    "Mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2},
    "Olmoe": {"num_experts": 4, "num_experts_per_tok": 2},
    "Glm4Moe": ROUTED | {"head_dim": 8},
    "DeepseekV3": ROUTED | {
        "num_key_value_heads": 4, "kv_lora_rank": 16, "q_lora_rank": 16, "qk_rope_head_dim": 8,
        "qk_nope_head_dim": 8, "v_head_dim": 8,
    },
    "GraniteMoe": {"num_local_experts": 4, "num_experts_per_tok": 2},
    "GptOss": {"head_dim": 8, "num_local_experts": 4, "num_experts_per_tok": 2},
}  # fmt: skip
IDS = [5, 17, 3, 44, 90, 8, 61, 30, 12, 77, 2, 9]
LONGROPE = {
    "rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0] * 4,
    "long_factor": [1.5, 4.0, 16.0, 40.0], "original_max_position_embeddings": 64,
}  # fmt: skip


def saved(name: str, folder: Path, **sizes) -> str:
    """A checkpoint of this architecture; its buffers too are no zeros."""
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**SIZES | MIXTURES.get(name, {}) | sizes)
    model = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                weight.normal_(0, 0.3)
        for key, buffer in model.named_buffers():
            if "correction" in key:
                buffer.normal_(0, 1)
    model.save_pretrained(folder)
    untrained(Cups(), Tiny(dim=32), 0)[1].save_pretrained(folder)
    return str(folder)


def learner(path: str, **knobs) -> Policy:
    return Policy(load_model(path, **knobs), untrained(Cups(), Tiny(dim=32), 0)[1], 10_000)


def sample() -> Sample:
    return Sample().extend(IDS[:6]).extend(IDS[6:], 1.0)


def checked(p: Policy, context: int = 100) -> None:
    check(agent(p, Config(context=context, sampler="transformers")))


def refused(capsys, call, *arguments, **knobs) -> str:
    with pytest.raises(SystemExit) as stop:
        call(*arguments, **knobs)
    assert stop.value.code == 2
    return capsys.readouterr().err.splitlines()[-1]  # what was logged before it stands there, too


# --- mixtures of experts ---


@pytest.mark.parametrize("name", MIXTURES)
def test_what_an_engine_is_sent_of_a_mixture_is_the_policy_and_its_checkpoint_goes_on(
    name, tmp_path
):
    p = learner(saved(name, tmp_path / "base"), lora=4)
    for _ in range(3):
        p.update([sample()], SFT(), 5e-2)
    (learned,) = p.logprobs([sample()])
    plain = AutoModelForCausalLM.from_pretrained(tmp_path / "base", dtype=torch.float32)
    sent = {key: weight.float() for key, weight in weights(p.model)}
    assert sorted(sent) == sorted(weight_names(plain))
    plain.load_state_dict(sent, strict=False)
    assert (own_logprobs(plain, IDS, 6) - learned).abs().mean() < 0.1
    p.save(tmp_path / "arm")
    again = learner(str(tmp_path / "arm"))
    assert torch.equal(again.logprobs([sample()])[0], learned)
    assert again.update([sample()], Sampled(), 1e-2)["policy/moved"] > 0
    merged = load_merged(str(tmp_path / "arm"), "fp32")
    assert (own_logprobs(merged, IDS, 6) - learned).abs().mean() < 0.1


@pytest.mark.parametrize("name", ["Glm4Moe", "DeepseekV3"])
def test_numbers_that_are_buffers_are_sent(name, tmp_path):
    model = load_model(saved(name, tmp_path))
    sent = {key for key, _ in weights(model)}
    assert sent == {*model.state_dict()} and any("e_score_correction" in key for key in sent)


@pytest.mark.parametrize("name", ["GptOss", "GraniteMoe"])
def test_weights_without_adapters_are_said(name, tmp_path, said):
    load_model(saved(name, tmp_path), lora=4)
    (line,) = [line for line in said if "no adapters on" in line]
    assert "experts.gate_up_proj" in line and "router.weight" in line


def test_nothing_is_said_where_all_layers_have_adapters(tmp_path, said):
    for name in ("Qwen3Moe", "Llama"):
        load_model(saved(name, tmp_path / name), lora=4)
    load_model(saved("GptOss", tmp_path / "named"), lora=4, targets=["q_proj"])
    assert not [line for line in said if "no adapters on" in line]


@pytest.mark.parametrize(("name", "lora"), [("Mixtral", 0), ("Mixtral", 4), ("Phimoe", 0)])
def test_two_readings_of_a_model_whose_routers_are_noisy_are_equal(name, lora, tmp_path):
    noise = {"router_jitter_noise": 0.05}
    if name == "Phimoe":
        noise |= {"input_jitter_noise": 0.05, "num_local_experts": 4}
    p = learner(saved(name, tmp_path, **noise), lora=lora)
    checked(p)
    p.model.train()
    first, second = (p.read([[sample()]], 1.0).logp for _ in range(2))
    assert torch.equal(first, second)
    if not lora:  # and what they choose in evaluation stays as it is
        plain = AutoModelForCausalLM.from_pretrained(tmp_path).eval()
        assert torch.equal(own_logprobs(plain, IDS, 6), own_logprobs(p.model.eval(), IDS, 6))


def test_noise_that_was_left_on_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(pretrained, "switch_off_noise", lambda model: None)
    p = learner(saved("Mixtral", tmp_path, router_jitter_noise=1e-6))
    assert "two readings of the same weights differ" in refused(capsys, checked, p)


def test_logits_of_routers_are_switched_off(tmp_path):
    checked(learner(saved("Mixtral", tmp_path, output_router_logits=True)))


def test_the_page_has_a_row_for_each_mixture_that_was_tried():
    page = (Path(__file__).parents[1] / "docs/models.md").read_text(encoding="utf-8")
    table = page.partition("| mixture |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| (\w+) \|", table, re.MULTILINE) == list(MIXTURES)


# --- adapters of other kinds ---


def with_config(folder: Path, **fields) -> str:
    """A folder that says that it holds these adapters."""
    folder.mkdir()
    plain = {"base_model_name_or_path": "base", "peft_type": "LORA", "r": 4, "bias": "none"}
    (folder / "adapter_config.json").write_text(json.dumps(plain | fields))
    return str(folder)


@pytest.mark.parametrize(("fields", "name"), [
    ({"peft_type": "OFT", "r": 0}, "OFT"),
    ({"peft_type": "VERA"}, "VERA"),
    ({"peft_type": "ADALORA"}, "ADALORA"),
    ({"peft_type": "IA3"}, "IA3"),
    ({"alora_invocation_tokens": [7]}, "alora_invocation_tokens"),
    ({"use_dora": True}, "use_dora"),
    ({"bias": "all"}, "bias"),
])  # fmt: skip
def test_adapters_that_are_no_plain_lora_are_refused_by_name(fields, name, tmp_path, capsys):
    path = with_config(tmp_path / "adapters", **fields)
    error = refused(capsys, load_model, path)
    assert "more than plain LoRA" in error and f"({name})" in error


@pytest.mark.parametrize("target", ["embed_tokens", "lm_head"])
@pytest.mark.parametrize("tied", [True, False])
def test_adapters_on_the_embedding_of_a_tied_model_are_refused(target, tied, tmp_path, capsys):
    base = saved("Qwen3", tmp_path / "base", head_dim=8, tie_word_embeddings=tied)
    config = peft.LoraConfig(r=4, target_modules=[target, "q_proj"], init_lora_weights=False)
    peft.get_peft_model(AutoModelForCausalLM.from_pretrained(base), config).save_pretrained(
        tmp_path / "adapters"
    )
    path = str(tmp_path / "adapters")
    if tied:
        for load in (load_model, lambda path: load_merged(path, "fp32")):
            assert "both are one weight" in refused(capsys, load, path)
    else:
        model = load_model(path).float()
        merged = load_merged(path, "fp32")
        assert torch.allclose(own_logprobs(merged, IDS, 6), own_logprobs(model, IDS, 6), atol=0.05)


# --- sizes and lengths ---


def test_a_tokenizer_with_more_tokens_than_the_model_has_rows_is_refused(tmp_path, capsys):
    p = learner(saved("Llama", tmp_path, vocab_size=15))
    error = refused(capsys, checked, p)
    assert f"{len(p.tokenizer)} tokens" in error and "rows for 15" in error


def test_a_thought_with_ids_that_have_no_text_is_not_clean(tmp_path, said):
    p = learner(saved("Llama", tmp_path, vocab_size=96))
    who = agent(p, Config(context=100, sampler="transformers"))
    check(who)
    tokens = len(p.tokenizer)
    assert any(f"96 rows and its tokenizer {tokens} tokens" in line for line in said)
    assert who.chat.clean([0, 3]) and not who.chat.clean([0, 3, tokens])


@pytest.mark.parametrize("name", ["Llama", "GPT2"])
def test_a_context_beyond_the_positions_is_refused(name, tmp_path, capsys):
    p = learner(saved(name, tmp_path, max_position_embeddings=64, n_positions=64, n_layer=2))
    checked(p, context=64)
    error = refused(capsys, checked, p, context=400)
    assert "--context 400" in error and "64 positions; use --context 64" in error


def test_positions_that_change_with_the_longest_row_limit_the_context(tmp_path, capsys):
    sizes = {"rope_parameters": LONGROPE, "original_max_position_embeddings": 64}
    p = learner(saved("Phi3", tmp_path, **sizes))
    checked(p, context=64)
    assert "use --context 64" in refused(capsys, checked, p, context=100)
    yarn = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 8.0}
    yarn |= {"original_max_position_embeddings": 64}
    checked(learner(saved("Llama", tmp_path / "yarn", rope_parameters=yarn)), context=100)
