"""The numbers of a policy, as a snapshot keeps them: AdamW's moments, what is finite, a hash."""

import hashlib

import torch
from torch import Tensor

from minprm.model.policy import Policy


def moments(policy: Policy) -> dict[str, Tensor]:
    """AdamW's state as one flat dict, by "number of the parameter.name"."""
    found = {}
    for i, state in policy.optimizer.state_dict()["state"].items():
        for name, tensor in state.items():
            found[f"{i}.{name}"] = tensor
    return found


def load_moments(policy: Policy, found: dict[str, Tensor]) -> None:
    """Puts such a dict into the optimizer. The rest of its state, its knobs, is as it was made."""
    state = policy.optimizer.state_dict()
    for key, tensor in found.items():
        i, name = key.split(".")
        # a tensor of a file may lie anywhere in memory, and then rounds differently, now and then
        state["state"].setdefault(int(i), {})[name] = tensor.clone()
    policy.optimizer.load_state_dict(state)


def require_finite(weights: dict[str, Tensor]) -> None:
    """Raises FloatingPointError with the name of a tensor that holds NaN or an infinity."""
    for name, tensor in weights.items():
        if not tensor.isfinite().all():
            raise FloatingPointError(f"{name} is no longer finite, and is not saved: lower --*.lr")


def fingerprint_of_model(policy: Policy) -> str:
    """A hash of all weights, frozen ones too."""
    digest = hashlib.sha256()
    for name, p in policy.model.named_parameters():
        digest.update(name.encode())
        digest.update(p.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()
