"""Mixtures of experts, written by the real engine: in a process of their own, because an engine
prepares its process for experts only if the first model that it loads has some."""

import os

import pytest
import torch
import transformers
from transformers import AutoModelForCausalLM

from minprm.load import vllm as module
from minprm.load.pretrained import adapted
from minprm.model.policy import Policy
from shared.engine import FP32, gap, perturb
from shared.serving import FAST

os.environ |= FAST
pytest.importorskip("vllm", reason='needs vllm: pip install ".[vllm]"')

SIZES = {
    "vocab_size": 96, "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 32, "pad_token_id": 0,
}  # fmt: skip
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
ROUTED = {
    "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "n_group": 1,
    "topk_group": 1, "first_k_dense_replace": 1, "n_shared_experts": 1,
}  # fmt: skip
MIXTURES = {
    "Qwen3Moe": EXPERTS,
    "Mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2},
    "Olmoe": {"num_experts": 4, "num_experts_per_tok": 2},
    "Glm4Moe": ROUTED,
    "GraniteMoe": {"num_local_experts": 4, "num_experts_per_tok": 2},
}  # fmt: skip
REFUSED = {
    "DeepseekV3": ROUTED | {
        "kv_lora_rank": 512, "q_lora_rank": 32, "qk_rope_head_dim": 64, "qk_nope_head_dim": 32,
        "v_head_dim": 32, "head_dim": 64,
    },
    "GptOss": {"num_local_experts": 4, "num_experts_per_tok": 2},
}  # fmt: skip


def mixture(name: str, lora: int) -> Policy:
    """A random mixture of experts in fp32; its buffers too are no zeros."""
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**SIZES | (MIXTURES | REFUSED)[name])
    model = AutoModelForCausalLM.from_config(config)
    for weight in model.parameters():
        if weight.ndim > 1:
            weight.data.normal_(0, 0.2)
    for key, buffer in model.named_buffers():
        if "correction" in key:
            buffer.normal_(0, 0.3)
    return Policy(adapted(model, lora, checkpointing=False), None, 10_000)


@pytest.mark.parametrize("name", MIXTURES)
def test_the_engine_writes_what_a_mixture_of_experts_would_also_after_updates(name):
    pytest.importorskip("peft", reason='needs peft: pip install ".[lora]"')
    for lora in (0, 4):
        p = mixture(name, lora)
        sampler = module.start_engine(p.model, FP32, 512)
        for _ in range(2):
            assert gap(p, sampler) < 1e-3
            perturb(p)
            sampler.sync()


@pytest.mark.parametrize("name", REFUSED)
def test_a_mixture_that_the_engine_computes_otherwise_is_refused_by_name(name):
    p = mixture(name, 0)
    with pytest.raises(RuntimeError, match=p.model.config.model_type):
        module.start_engine(p.model, FP32, 512).begin()
