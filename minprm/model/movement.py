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
        self.start = {name: _spread(p).clone() for name, p in parameters.items()}

    def forget(self, names: list[str]) -> None:
        """These parameters no longer count."""
        for name in names:
            self.start.pop(name, None)

    @torch.no_grad()
    def squares(self) -> tuple[float, float]:
        """|theta - theta_0|^2 and |theta_0|^2"""
        moved = 0.0
        whole = 0.0
        for name, start in self.start.items():
            p = self.parameters[name]
            each_stands_for = p.numel() / start.numel()
            moved = moved + each_stands_for * (_spread(p) - start).square().sum()
            whole = whole + each_stands_for * start.square().sum()
        return float(moved), float(whole)


def _spread(p: Tensor) -> Tensor:
    """Weights from all over a tensor: all of a small one.  [n]"""
    step = (p.numel() // MEASURED) | 1  # odd, or it might meet the same few columns in every row
    return p.detach().flatten()[::step]
