"""Several processes, one a GPU (torchrun): one program, whose heavy work is shared out.

Every process runs the whole program, from the same seeds and on the same numbers. In three places
each does a share of the work, and all get what any of them has found:

    writing     a process writes the completions of its share of the prompts
    reading     it reads its share of the samples
    learning    it adds up the gradients of its share; the sum moves the weights of all

So rewards, advantages, choices and metrics are the same numbers in all processes. Whoever writes,
reads or learns is handed `Shares` in the place of `Alone` (model/alone.py) and knows no more. A
Sample's weight is its share of the whole update already (zoo.AGGREGATIONS), so gradients are summed
and not averaged.

Adapters and small models are whole in every process. Of a larger model that trains all its weights
each process holds a part (spread.py).
"""

import copyreg
from collections.abc import Callable, Iterator, Mapping
from threading import current_thread, main_thread
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.nn import Parameter
from torch.nn.utils import get_total_norm
from transformers import PreTrainedModel

from minprm.data import Sample
from minprm.model.alone import Alone, Tensors
from minprm.model.policy import add
from minprm.model.reading import Reading
from minprm.model.sampler import Completion, Noise, Write
from minprm.several import processes, spread
from minprm.several.owners import Owners, require_same_update, stretches
from minprm.several.processes import count, gathered, group_of_its_own, parted, rank, sum_up

T = TypeVar("T")


class Shares(Alone):
    """The work of a policy and of its sampler, shared out. All processes have to ask the same, in
    the same order."""

    def __init__(self, team: int = 1):
        """team: how many processes, one after the other, write together (one vLLM engine)."""
        self.team = team
        self.is_spread = False
        self.first = rank() == 0
        self.count = count()
        self.beside = group_of_its_own()  # a thread may write while another one learns
        self.begin()

    def hand_out(self, model: PreTrainedModel, spread_on: torch.device | None = None) -> None:
        """Gives all processes the weights of the first one.

        spread_on: the device on which each gets a part of them; the others may have theirs on
        `meta`. None: all have all.
        """
        self.is_spread = spread_on is not None
        if spread_on is None:
            for p in model.parameters():
                if p.requires_grad:
                    dist.broadcast(p.detach(), 0)  # they might differ by rounding
        else:
            spread.hand_out(model, spread_on)

    # --- what all agree on ---

    @property
    def group(self) -> Any:
        """The processes as the thread that asks has them. The main thread asks all in one order, so
        that processes find out where they no longer do the same."""
        return None if current_thread() is main_thread() else self.beside

    def gathered(self, mine: T) -> list[T]:
        return gathered(mine, self.group)

    def from_first(self, make: Callable[[], T]) -> T:
        return processes.from_first(make)

    def agreed(self, numbers: dict[str, float]) -> dict[str, float]:
        return processes.agreed(numbers)

    # --- writing ---

    def begin(self) -> None:
        self.owners = Owners(count() // self.team)

    def require_same(self, prompts: list[list[int]]) -> None:
        hashes = self.gathered(hash(tuple(map(tuple, prompts))))
        if len({*hashes}) > 1:
            parted("were asked to continue different prompts")

    def to_write(self, prompts: list[list[int]]) -> list[int]:
        owners = self.owners.of([tuple(prompt) for prompt in prompts])
        return [i for i, owner in enumerate(owners) if owner == rank() // self.team]

    def complete(self, prompts: list[list[int]], noise: Noise, write: Write) -> list[Completion]:
        """The others' completions come from them, drawn by the noise that a single process would
        have used."""
        mine = self.to_write(prompts)
        used = 0

        def own_noise() -> Tensor:
            nonlocal used
            used += 1
            return noise()[mine]

        own = {}
        if mine:
            own_completions = write([prompts[i] for i in mine], own_noise)
            own = dict(zip(mine, own_completions, strict=True))
        completions = list(self.all(own).values())
        # the noise goes on where the longest completion of all has ended
        for _ in range(max(len(c.ids) for c in completions) - used):
            noise()
        return completions

    # --- reading ---

    def to_read(self, samples: list[Sample]) -> list[int]:
        return stretches(samples, count())[rank()]

    def in_step(self, plan: list[T], forward: Callable, passes: list[bool]) -> Iterator[T]:
        """The micro-batches; and then, where all processes put weights together for each pass, as
        many passes for nothing as others need more."""
        most = max(self.gathered(len(plan))) if self.is_spread else len(plan)
        yield from plan
        for _ in range(most - len(plan)):
            for base in passes:
                with torch.set_grad_enabled(torch.is_grad_enabled() and not base):
                    nothing = 0 * forward(base).logp.sum()
                if nothing.requires_grad:
                    nothing.backward()

    def all(self, own: dict[int, T]) -> dict[int, T]:
        merged: dict[int, T] = {}
        for part in self.gathered(own):
            for i, outcome in part.items():
                merged.setdefault(i, outcome)  # the others of a team have written the same
        return dict(sorted(merged.items()))

    # --- learning ---

    def sum_up(
        self, samples: list[Sample], stats: dict[str, float], parameters: Mapping[str, Parameter]
    ) -> dict[str, float]:
        learned = [(hash(tuple(sample.ids)), sum(sample.advantages)) for sample in samples]
        total: dict[str, float] = {}
        for others, part in self.gathered((learned, stats)):
            require_same_update(learned, others)
            add(total, part)
        self._fill_gaps(parameters)
        _, apart = _gradients(parameters)
        if apart:
            sum_up(apart)
        return total

    def _fill_gaps(self, parameters: Mapping[str, Parameter]) -> None:
        """Makes a gradient of zeros for what has one in another process alone."""
        mine = {name for name, p in parameters.items() if p.grad is not None}
        for name in set().union(*self.gathered(mine)) - mine:
            parameters[name].grad = torch.zeros_like(parameters[name])

    def clip(self, parameters: Mapping[str, Parameter], longest: float) -> float:
        if not self.is_spread:
            return super().clip(parameters, longest)
        # torch does not clip both kinds in one call
        both = _gradients(parameters)
        norms = [self.in_one_piece(get_total_norm(kind)) for kind in both if kind]
        norm = torch.stack(norms).norm().item()
        for kind in both:
            for grad in kind:
                self.local(grad).mul_(min(1.0, longest / (norm + 1e-6)))
        return norm

    # --- weights, of which each process may hold a part ---

    def put_together(self, model: PreTrainedModel) -> None:
        spread.unshard(model)

    def let_go(self, model: PreTrainedModel) -> None:
        spread.reshard(model)

    def local(self, tensor: Tensor) -> Tensor:
        return spread.local(tensor)

    def in_one_piece(self, tensor: Tensor) -> Tensor:
        return spread.in_one_piece(tensor)

    def collected(self, tensors: Tensors, like: Tensors) -> Tensors:
        return spread.collected(
            {n: spread.as_part(tensor, like[n]) for n, tensor in tensors.items()}
        )

    def parts(self, load: Callable[[], Tensors], like: Tensors) -> Tensors:
        return spread.parts(load() if self.first else {}, like)

    def state(self, model: PreTrainedModel) -> dict[str, Tensor] | None:
        self.let_go(model)
        return spread.state_in_one_piece(model) if self.is_spread else None

    def copy_of(self, model: PreTrainedModel) -> PreTrainedModel:
        return spread.copy_of(model) if self.is_spread else super().copy_of(model)

    def kind_of(self, model: PreTrainedModel) -> type[PreTrainedModel]:
        return spread.kind_of(model)

    def counted(self, parameters: Tensors) -> dict[str, Tensor]:
        """What is not spread is whole everywhere, and counts once."""
        counted = {}
        for name, p in parameters.items():
            if self.first or not self.is_spread or isinstance(p, DTensor):
                counted[name] = self.local(p.detach())
        return counted

    def total(self, numbers: tuple[float, ...]) -> tuple[float, ...]:
        if not self.is_spread:  # each process has counted all
            return numbers
        return tuple(map(sum, zip(*self.gathered(numbers), strict=True)))

    # --- the end ---

    def at_end(self, end: Callable[[], Any]) -> None:
        if end not in processes.ENDINGS:
            processes.ENDINGS.append(end)


def _gradients(parameters: Mapping[str, Parameter]) -> tuple[list[Tensor], list[Tensor]]:
    """(those of spread weights, which FSDP has summed; the others)."""
    parts = []
    others = []
    for p in parameters.values():
        if p.grad is not None:
            (parts if isinstance(p.grad, DTensor) else others).append(p.grad)
    return parts, others


def _as_arrays(reading: Reading) -> tuple[Callable, tuple]:
    """How a Reading is sent: a pickled tensor takes all of the memory that it is a part of, a
    pickled array does not."""
    return _from_arrays, tuple(tensor.numpy() for tensor in reading)


def _from_arrays(*arrays: Any) -> Reading:
    return Reading(*map(torch.from_numpy, arrays))


copyreg.pickle(Reading, _as_arrays)
