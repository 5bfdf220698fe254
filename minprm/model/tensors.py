"""The numbers of a policy, as files keep them: AdamW's moments, what is finite, a hash."""

import hashlib
from collections.abc import Mapping

import torch
from torch import Tensor

from minprm.model.policy import Policy


def moments(policy: Policy) -> dict[str, Tensor]:
    """AdamW's state as one flat dict, by "number of the parameter.name"."""
    numbers = {}
    for i, state in policy.optimizer.state_dict()["state"].items():
        for name, tensor in state.items():
            numbers[f"{i}.{name}"] = tensor
    return numbers


def moments_like(policy: Policy) -> dict[str, Tensor]:
    """A tensor of the shape of each that `moments` gives after an update."""
    shapes = {}
    for i, p in enumerate(_parameters(policy)):
        shapes |= {f"{i}.exp_avg": p, f"{i}.exp_avg_sq": p, f"{i}.step": torch.zeros(())}
    return shapes


def load_moments(policy: Policy, numbers: Mapping[str, Tensor]) -> None:
    """Puts such a dict into the optimizer. The rest of its state, its knobs, is as it was made.

    Raises ValueError or IndexError if the moments are those of other parameters.
    """
    parameters = _parameters(policy)
    state = policy.optimizer.state_dict()
    for key, tensor in numbers.items():
        i, name = key.split(".")
        if name != "step" and tensor.shape != parameters[int(i)].shape:
            raise ValueError(f"the moments of parameter {i} are of another model")
        # a tensor of a file may lie anywhere in memory, and then rounds differently, now and then
        state["state"].setdefault(int(i), {})[name] = tensor.clone()
    policy.optimizer.load_state_dict(state)


def _parameters(policy: Policy) -> list[Tensor]:
    """All that the optimizer moves, in the order of its numbers."""
    parameters = []
    for group in policy.optimizer.param_groups:
        parameters += group["params"]
    return parameters


def require_finite(weights: Mapping[str, Tensor]) -> None:
    """Raises FloatingPointError with the name of a tensor whose norm is NaN or infinite.

    So it is for a NaN or an infinity, and for numbers that no forward pass could square.
    """
    for name, tensor in weights.items():
        if not tensor.float().norm().isfinite():
            raise FloatingPointError(f"{name} is no longer finite, and is not saved: lower --*.lr")


def fingerprint_of_model(policy: Policy) -> str:
    """A hash of all weights, frozen ones too."""
    shares = policy.shares
    shares.let_go(policy.model)  # on a GPU the parts are in fp32, and what was put together is not
    digest = hashlib.sha256()
    for name, p in policy.model.named_parameters():
        piece = shares.in_one_piece(p.detach())
        if shares.first:
            digest.update(name.encode())
            piece = piece.to("cpu", copy=True)  # what numpy has seen, torch cannot free
            digest.update(piece.contiguous().flatten().view(torch.uint8).numpy().data)
    return shares.from_first(digest.hexdigest)
