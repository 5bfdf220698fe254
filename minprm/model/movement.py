"""How far weights have moved from where a stage began: 0 means that nothing learns."""

from collections.abc import Mapping

import torch
from torch import Tensor

# Of a tensor so many weights, or two thirds to twice as many, stand for all of them.
MEASURED = 2**16


class Movement:
    """The movement of these parameters from now on.

    Of a large tensor only some weights are looked at: to keep all of them beside the model would
    take its memory once more, and from the CPU they would have to come at every update.
    """

    def __init__(self, parameters: Mapping[str, Tensor]):
        self.parameters = parameters
        # of a tensor that is spread over processes this one may have nothing
        self.start = {}
        for name, p in parameters.items():
            if p.numel():
                self.start[name] = _measured(p).clone()

    @torch.no_grad()
    def squares(self) -> tuple[float, float]:
        """|theta - theta_0|^2 and |theta_0|^2"""
        moved = 0.0
        origin = 0.0
        for name, start in self.start.items():
            p = self.parameters[name]
            each_stands_for = p.numel() / start.numel()
            moved = moved + each_stands_for * (_measured(p) - start).square().sum()
            origin = origin + each_stands_for * start.square().sum()
        return float(moved), float(origin)


def _measured(p: Tensor) -> Tensor:
    """Weights from all over a tensor: all of a small one.  [n]"""
    step = (p.numel() // MEASURED) | 1  # odd, or it might meet the same few columns in every row
    return p.detach().flatten()[::step]
