"""What a process does alone, and what several processes share.

`Alone` is one process: all work is its own, nobody has to agree, every weight is whole. Where
torchrun has started several, they are handed an object with the same verbs instead, which shares
the work out (several/shares.py). So whoever writes, reads, learns or saves asks the same questions
in both cases, and nothing here knows that there can be others.
"""

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from typing import Any, TypeVar

from torch import Tensor
from torch.nn import Parameter
from torch.nn.utils import clip_grad_norm_
from transformers import PreTrainedModel

from minprm.data import Sample

T = TypeVar("T")
Tensors = Mapping[str, Tensor]  # by the name of the weight


class Alone:
    """One process. In several all have to call these methods in the same order."""

    first = True  # does this process write the files
    count = 1  # processes

    # --- what all agree on ---

    def gathered(self, mine: T) -> list[T]:
        """What each process has, in the order of their numbers."""
        return [mine]

    def from_first(self, make: Callable[[], T]) -> T:
        """What the function returns in the first process, which alone calls it."""
        return make()

    def agreed(self, numbers: dict[str, float]) -> dict[str, float]:
        """The numbers of the first process. Exits where another one has others."""
        return numbers

    # --- shares of the work: writing, reading, learning ---

    def begin(self) -> None:
        """A new walk over logs or worlds: nobody has read anything of it."""

    def require_same(self, prompts: list[list[int]]) -> None:
        """Exits where another process was given other prompts."""

    def to_write(self, prompts: list[list[int]]) -> list[int]:
        """The numbers of those prompts after which this process writes."""
        return list(range(len(prompts)))

    def to_read(self, samples: list[Sample]) -> list[int]:
        """The numbers of those Samples that this process reads."""
        return list(range(len(samples)))

    def all(self, own: dict[int, T]) -> dict[int, T]:
        """What all processes have come to, by number, from what this one has come to."""
        return own

    def complete(self, prompts: list[list[int]], noise: Callable, write: Callable) -> list:
        """A completion of each prompt, by write(prompts, noise); see sampler.py."""
        return write(prompts, noise)

    def in_step(self, plan: list[T], forward: Callable, passes: list[bool]) -> Iterable[T]:
        """The micro-batches of a plan. For each of them the model is read once a pass."""
        return plan

    def sum_up(
        self, samples: list[Sample], stats: dict[str, float], parameters: Mapping[str, Parameter]
    ) -> dict[str, float]:
        """The sums of the statistics; gradients become their sums. Exits where another process
        learned from other samples than these."""
        return stats

    def clip(self, parameters: Mapping[str, Parameter], longest: float) -> float:
        """Clips the gradient of all parameters together. Returns its norm before that."""
        return clip_grad_norm_(parameters.values(), longest).item()

    # --- weights, of which each process may hold a part ---

    def put_together(self, model: PreTrainedModel) -> None:
        """Puts all weights together, so that this process may read as often as it likes."""

    def let_go(self, model: PreTrainedModel) -> None:
        """Lets go of all but this process's part, so that its tensors are the weights."""

    def local(self, tensor: Tensor) -> Tensor:
        """This process's part of a tensor."""
        return tensor

    def in_one_piece(self, tensor: Tensor) -> Tensor:
        """What the parts of all processes are together."""
        return tensor

    def collected(self, tensors: Tensors, like: Tensors) -> Tensors:
        """Tensors, or parts of those that are spread as in `like`, in one piece on the CPU of the
        first process; elsewhere {}."""
        return tensors

    def parts(self, load: Callable[[], Tensors], like: Tensors) -> Tensors:
        """The opposite: what each process has to have of the tensors that the first one reads."""
        return load()

    def state(self, model: PreTrainedModel) -> dict[str, Tensor] | None:
        """What a file holds of the model; None where the model itself has it in one piece."""
        return None

    def copy_of(self, model: PreTrainedModel) -> PreTrainedModel:
        """A second model with the same weights. Those that nobody trains are held once."""
        frozen = {id(p): p for p in model.parameters() if not p.requires_grad}
        return deepcopy(model, frozen)

    def kind_of(self, model: PreTrainedModel) -> type[PreTrainedModel]:
        """The model's class, as transformers has it."""
        return type(model)

    def counted(self, parameters: Tensors) -> dict[str, Tensor]:
        """The memory of these weights, each counted by one process only."""
        return {name: p.detach() for name, p in parameters.items()}

    def total(self, numbers: tuple[float, ...]) -> tuple[float, ...]:
        """The sum of each number over what the processes have counted."""
        return numbers

    # --- the end ---

    def at_end(self, end: Callable[[], Any]) -> None:
        """Calls this while all processes are still there."""


ALONE = Alone()
