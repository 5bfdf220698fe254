"""A model that peft has put adapters on: the one under them, and the one without what they add.

Such a model is no PreTrainedModel by its class, but hands on whatever it is asked to the one that
is under its adapters. So it is called one everywhere else.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

from transformers import PreTrainedModel


def has_adapters(model: PreTrainedModel) -> bool:
    return hasattr(model, "peft_config")


def under_adapters(model: PreTrainedModel) -> PreTrainedModel:
    """The model itself, or the one that is under its adapters."""
    return cast(Any, model).get_base_model() if has_adapters(model) else model


def switched_off(model: PreTrainedModel) -> AbstractContextManager:
    """The context in which its adapters, if it has any, add nothing."""
    return cast(Any, model).disable_adapter() if has_adapters(model) else nullcontext()
