"""A small random model of another one's kind: what costs time or memory is compared on it.

It has the configuration of the large model, with one layer of each kind, few heads, narrow layers
and few words. Its adapters are on the same weights. So it shows what is computed, and how, and
nothing of what was learned.
"""

from copy import deepcopy
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers.utils import logging

from minprm.load.pretrained import switch_off_noise
from minprm.model.adapters import as_model, has_adapters, under_adapters
from minprm.model.blocks import attend
from minprm.model.precision import make_head_fp32

WORDS = 128  # of its vocabulary
WIDTH = 32  # of what its layers have inside
LENGTH = 16  # tokens; stands for each length at which positions change
LARGEST = 5 * 10**7  # weights; where the architecture does not let itself be made narrower
LENGTHS = "original_max_position_embeddings"


def small_like(model: PreTrainedModel) -> PreTrainedModel:
    """The small model. Raises what the code of the architecture raises where it cannot be made."""
    plain = under_adapters(model)
    attend(plain, None)  # it begins with the kernel that the large one was loaded with
    before = logging.get_verbosity()
    logging.set_verbosity_error()  # of the numbers that are other ones now
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            small = type(plain)(narrow(plain))
            for weight in [*small.parameters(), *small.buffers()]:
                if weight.is_floating_point() and (weight.ndim > 1 or not weight.any()):
                    nn.init.normal_(weight, 0, 0.2)
            small.tie_weights()
            if has_adapters(model):
                small = with_adapters_of(model, small)
    finally:
        logging.set_verbosity(before)
    switch_off_noise(small)
    make_head_fp32(under_adapters(small))
    return small.eval()


def with_adapters_of(model: Any, small: PreTrainedModel) -> PreTrainedModel:
    """The small model with random adapters on the weights on which the large one has them."""
    from peft import get_peft_model

    config = deepcopy(model.peft_config["default"])
    config.init_lora_weights = False  # or they would add nothing
    return as_model(get_peft_model(small, config))


def narrow(model: PreTrainedModel) -> Any:
    """The configuration of the small model. Raises ValueError where it would not be small."""
    for config in (_with_few_heads(model), _with_few_layers(model)):
        try:
            with torch.device("meta"):
                made = type(model)(deepcopy(config))
        except (AssertionError, ArithmeticError, LookupError, RuntimeError, ValueError):
            continue
        if sum(weight.numel() for weight in made.parameters()) <= LARGEST:
            return config
    raise ValueError("the architecture has no small model")


def _with_few_heads(model: PreTrainedModel) -> Any:
    """As below, with the fewest heads that keep their width and what share keys and values."""
    config = _with_few_layers(model)
    text = config.get_text_config()
    heads = text.num_attention_heads
    width = getattr(text, "head_dim", None) or text.hidden_size // heads
    keys = getattr(text, "num_key_value_heads", None) or heads
    few = 1 if keys < heads else 2
    text.num_attention_heads = few * heads // keys
    if keys != heads or hasattr(text, "num_key_value_heads"):
        text.num_key_value_heads = few
    text.hidden_size = width * text.num_attention_heads
    return config


def _with_few_layers(model: PreTrainedModel) -> Any:
    """The model's configuration with one layer of each kind, narrow inside, and few words."""
    config = deepcopy(model.config)
    text = config.get_text_config()
    depth = text.num_hidden_layers
    few = _until_all_kinds(model, depth)
    for name, setting in list(vars(text).items()):
        if isinstance(setting, list) and len(setting) == depth:
            setattr(text, name, setting[:few])
        if "intermediate" in name and isinstance(setting, int):
            setattr(text, name, min(setting, WIDTH))
    text.num_hidden_layers = few
    text.vocab_size = min(text.vocab_size, WORDS)
    text.pad_token_id = None
    for section in sections(text):
        section[LENGTHS] = LENGTH
    return config


def _until_all_kinds(model: PreTrainedModel, depth: int) -> int:
    """How many of the first layers have all kinds of layers among them."""
    kinds = getattr(model.config.get_text_config(), "layer_types", None) or [""] * depth
    for layers in model.modules():
        if isinstance(layers, nn.ModuleList) and len(layers) == depth:
            first = {}
            for number, layer in enumerate(layers):
                parts = tuple(type(part) for part in layer.modules())
                first.setdefault((kinds[number], parts), number)
            return max(first.values()) + 1
    return depth


def sections(config: Any) -> list[dict]:
    """The parts of a configuration in which a length is at which positions change."""
    parts = [vars(config)]
    for part in parts:
        parts += [setting for setting in part.values() if isinstance(setting, dict)]
    return [part for part in parts if isinstance(part.get(LENGTHS), int)]
