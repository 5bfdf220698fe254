"""Weights that are spread over several processes, of which each holds a part of every tensor.

That is FSDP (arXiv:2304.11277): a layer is put together when it is read, and let go behind it.
"""

from collections.abc import Mapping
from copy import deepcopy

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from transformers import PreTrainedModel

from minprm.model.blocks import attend
from minprm.model.precision import make_head_fp32
from minprm.several.processes import count, from_first, rank

# --- tensors ---


def local(tensor: Tensor) -> Tensor:
    """The part of it that is in this process; all of it, where it is not spread."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def in_one_piece(tensor: Tensor) -> Tensor:
    """The tensor itself, or what all processes' parts are together. All have to ask."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def as_part(tensor: Tensor, like: Tensor) -> Tensor:
    """What is this process's part of a tensor that is spread like `like`, as such; else itself."""
    if not isinstance(like, DTensor) or isinstance(tensor, DTensor):
        return tensor
    part = tensor.to(like.device)
    return DTensor.from_local(
        part, like.device_mesh, like.placements, shape=like.shape, stride=like.stride()
    )


def collected(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Each of these tensors in one piece, on the CPU of the first process; elsewhere {}."""
    pieces = {}
    for name, tensor in tensors.items():
        piece = in_one_piece(tensor.detach())
        if rank() == 0:
            pieces[name] = piece.cpu() if isinstance(tensor, DTensor) else piece
    return pieces


def parts(tensors: Mapping[str, Tensor], like: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The opposite: what each process has to have of the whole tensors in the first one."""
    pieces = {}
    for name in from_first(lambda: list(tensors)):
        p = like[name]
        piece = torch.empty(p.shape, dtype=p.dtype, device=p.device)
        if rank() == 0:
            piece.copy_(tensors[name])
        if isinstance(p, DTensor):
            pieces[name] = distribute_tensor(piece, p.device_mesh, p.placements)
        else:
            dist.broadcast(piece, 0)
            pieces[name] = piece
    return pieces


# --- models ---


def hand_out(model: PreTrainedModel, device: torch.device) -> None:
    """Spreads the model of the first process over all."""
    full = model.state_dict() if rank() == 0 else {}
    buffers = [buffer.clone() for buffer in model.buffers()]
    model.to("meta")  # pyright: ignore[reportArgumentType]
    model.tie_weights()
    spread(model, device)
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    set_model_state_dict(model, full, options=options)
    for own, original in zip(model.buffers(), buffers, strict=True):
        if rank() == 0:
            own.copy_(original)
        dist.broadcast(own, 0)


def spread(model: PreTrainedModel, device: torch.device) -> None:
    """Spreads the weights of a model on `meta`, layer by layer. What they are comes later."""
    mesh = init_device_mesh(device.type, (count(),))  # torch would take a GPU where there is one
    precision = MixedPrecisionPolicy()
    if device.type == "cuda":  # layers compute in bf16, and their gradients are summed in fp32
        precision = MixedPrecisionPolicy(torch.bfloat16, torch.float32, cast_forward_inputs=False)
    kinds = {*(model._no_split_modules or [])}  # of the parts that are each put together at once
    for module in [*model.modules()]:
        if type(module).__name__ in kinds:
            fully_shard(module, mesh=mesh, mp_policy=precision)
    # by default what is outside of the layers would stay in one piece, a reference's for good
    fully_shard(model, mesh=mesh, reshard_after_forward=True)
    for module in fsdp_modules(model):
        module.set_gradient_divide_factor(1.0)  # a sum, and no mean
        module.set_force_sum_reduction_for_comms(True)  # gloo has no other
    model.to_empty(device=device)


def copy_of(model: PreTrainedModel) -> PreTrainedModel:
    """A model that is spread like this one, with its weights."""
    reshard(model)
    attend(model, None)  # the copy begins with the kernel that the model was loaded with
    with torch.device("meta"):
        copied = kind_of(model)(deepcopy(model.config))
    make_head_fp32(copied)
    spread(copied, model.device)
    with torch.no_grad():
        for own, original in zip(copied.parameters(), model.parameters(), strict=True):
            local(own).copy_(local(original))
        for own, original in zip(copied.buffers(), model.buffers(), strict=True):
            own.copy_(original)
    return copied


def state_in_one_piece(model: PreTrainedModel) -> dict[str, Tensor]:
    """What a file of transformers holds of the model, on the CPU of the first process."""
    # of tied weights the first name alone
    once = {name for name, _ in [*model.named_parameters(), *model.named_buffers()]}
    return collected({name: t for name, t in model.state_dict().items() if name in once})


def fsdp_modules(model: PreTrainedModel) -> list[FSDPModule]:
    return [module for module in model.modules() if isinstance(module, FSDPModule)]


def kind_of(model: PreTrainedModel) -> type[PreTrainedModel]:
    """The model's class. Of a model that it spreads torch makes the class of a new name."""
    return type(model).__mro__[2] if isinstance(model, FSDPModule) else type(model)


def unshard(model: PreTrainedModel) -> None:
    """Puts all weights together in every process, so that each may read as often as it likes."""
    for module in fsdp_modules(model):
        module.set_reshard_after_forward(False, recurse=False)
        module.unshard()


def reshard(model: PreTrainedModel) -> None:
    """Lets go of all but this process's part."""
    for module in fsdp_modules(model):
        module.set_reshard_after_forward(True, recurse=False)
        module.reshard()
