"""From a name to a model: hub ids and local paths, adapters, and who writes the tokens."""

from importlib.util import find_spec

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel
from transformers.utils import logging

from minprm.constants import Engine, fail
from minprm.model.sampler import Sampler


def pretrained(kind, path: str, **knobs):
    """`kind.from_pretrained(path)`. Whatever transformers complains of ends in one sentence."""
    try:
        return kind.from_pretrained(path, **knobs)
    except (OSError, ValueError) as error:
        fail(f"{path} is no model that transformers loads: {str(error).splitlines()[0]}")


def load_model(path: str, lora: int = 0, checkpointing: bool = False) -> PreTrainedModel:
    """The causal language model of a hub id or a local path, on the GPU where there is one.

    All weights are trained in fp32 (under bf16 autocast on a GPU), because AdamW at 1e-6 does not
    move bf16 weights. With adapters of rank `lora` those are fp32, and the frozen base is bf16.
    """
    logging.disable_progress_bar()  # the only bars are ours
    model = pretrained(AutoModelForCausalLM, path, dtype=torch.bfloat16 if lora else torch.float32)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return adapted(model, lora, checkpointing).to(device)


def adapted(model: PreTrainedModel, lora: int, checkpointing: bool) -> PreTrainedModel:
    """The model with adapters of rank `lora` on every linear layer; 0: without."""
    if checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    if lora:
        if find_spec("peft") is None:
            fail('--lora needs peft: pip install -e ".[lora]"')
        from peft import LoraConfig, get_peft_model

        adapters = LoraConfig(r=lora, lora_alpha=2 * lora, target_modules="all-linear")
        model = get_peft_model(model, adapters)
    return model


def make_sampler(
    model: PreTrainedModel, name: str, cfg: Engine, context: int, own_weights: bool = False
):
    """The sampler of that name; auto: vLLM where it is installed and a GPU is there."""
    installed = find_spec("vllm") is not None
    if name == "vllm" and not installed:
        fail('--sampler vllm: it is not installed; pip install -e ".[vllm]", or use transformers')
    if name == "vllm" or (name == "auto" and installed and torch.cuda.is_available()):
        from minprm.model.vllm import start

        return start(model, cfg, context)
    return Sampler(model, own_weights=own_weights)
