"""Which numbers are in 16 bit: one answer for writing, for scoring and for learning.

On Nvidia's GPUs the layers compute in bf16, and on a CPU that multiplies bf16 those of large models
do. All others compute in the precision of their weights. The output layer computes in fp32.
A bf16 logit near 20 is up to .06 off, and so is the log-prob that comes out of it, whatever
precision the softmax has.
"""

from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel

from minprm.constants import fail
from minprm.model.blocks import attend

LARGE = 10**8  # weights; smaller layers gain little, and fp32 has the same numbers on more machines


def autocast(model: PreTrainedModel) -> torch.autocast:
    """The context in which this model is read, whoever reads it."""
    return torch.autocast(model.device.type, torch.bfloat16, enabled=in_bf16(model))


def in_bf16(model: PreTrainedModel) -> bool:
    """Do its layers compute in bf16?"""
    if model.device.type != "cpu":
        return model.device.type == "cuda"
    return cpu_has_bf16() and is_large(model)


def is_large(model: PreTrainedModel) -> bool:
    """Is bf16 faster on a CPU that multiplies it?"""
    return sum(weight.numel() for weight in model.parameters()) >= LARGE


@cache
def cpu_has_bf16() -> bool:
    """Has this processor instructions for bf16, and does torch have the library that uses them?"""
    able = getattr(torch.cpu, "get_capabilities", dict)()  # an older torch does not say
    has = able.get("avx512_bf16", False) or able.get("amx_bf16", False)
    return has and torch.backends.mkldnn.is_available()


@torch.no_grad()
def own_logprobs(model: PreTrainedModel, ids: list[int], n: int) -> Tensor:
    """Log-probs of the last n ids by the model's own forward, in the precision that all read with:
    what the trainer and the samplers are compared with.  [n], on the CPU"""
    row = torch.tensor([ids], device=model.device)
    attend(model, None)
    with autocast(model):
        logits = model(input_ids=row, use_cache=False, logits_to_keep=n + 1).logits
    all_logp = logits[0, -n - 1 : -1].float().log_softmax(-1)
    return all_logp.gather(1, row[0, -n:, None])[:, 0].cpu()


class FP32Head(nn.Linear):
    """An output layer that computes in fp32, also within `autocast` and with bf16 weights."""

    def forward(self, input: Tensor) -> Tensor:
        """[..., D] -> [..., V]"""
        bias = None if self.bias is None else self.bias.float()
        with torch.autocast(input.device.type, enabled=False):
            return functional.linear(input.float(), self.weight.float(), bias)


def output_layer(model: PreTrainedModel) -> Tensor:
    """The weights from which the model's logits come.  [V, D]"""
    layer = model.get_output_embeddings()
    if layer is None:
        fail(f"{model.name_or_path} has no output layer, so it writes nothing: use another --model")
    return layer.get_parameter("weight")


def make_head_fp32(model: PreTrainedModel) -> None:
    """Has the model's output layer compute in fp32. Its weights, tied or not, stay as they are."""
    head = model.get_output_embeddings()
    if type(head) is nn.Linear:
        head.__class__ = FP32Head
    if torch.cuda.is_available():
        torch.set_float32_matmul_precision("high")  # fp32 on tensor cores: 10 bits a factor, not 7
