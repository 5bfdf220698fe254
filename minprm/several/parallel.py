"""Several processes, one a GPU (torchrun): one program, whose heavy work is shared out.

Every process runs the whole program, from the same seeds and on the same numbers. In three places
each does a share of the work, and all get what any of them has found:

    writing     a process writes the completions of its share of the prompts
    reading     it reads its share of the samples
    learning    it adds up the gradients of its share; the sum moves the weights of all

So rewards, advantages, choices and metrics are the same numbers in all processes, and no other file
has to know of them. A Sample's weight is its share of the whole update already (zoo.AGGREGATIONS),
so gradients are summed and not averaged.

Adapters and small models are whole in every process. Of a larger model that trains all its weights
each process holds a part (spread.py).
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.nn.utils import get_total_norm
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from minprm.constants import Training
from minprm.data import Sample
from minprm.model.packing import Members
from minprm.model.policy import Policy, add
from minprm.model.reading import Reading
from minprm.model.sampler import Completion, Noise, Sampler, Write
from minprm.several.processes import count, gathered, rank, sum_up
from minprm.several.shares import Shares, require_same, stretches
from minprm.several.spread import (
    frozen_copy,
    hand_out,
    in_one_piece,
    local,
    reshard,
    state_in_one_piece,
    unshard,
)


class ParallelPolicy(Policy):
    """A Policy whose samples are shared out, and whose weights may be."""

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        micro_tokens: int,
        spread_on: torch.device | None = None,
    ):
        """spread_on: the device on which each process gets a part of the weights, those of the
        model of the first process; the others may have theirs on `meta`. None: all have all."""
        self.is_spread = spread_on is not None
        if spread_on is None:
            for p in model.parameters():
                if p.requires_grad:
                    dist.broadcast(p.detach(), 0)  # they might differ by rounding
        else:
            hand_out(model, spread_on)
        super().__init__(model, tokenizer, micro_tokens)

    def tensors(self) -> dict[str, Tensor]:
        return {name: local(p.detach()) for name, p in self.parameters.items()}

    def load(self, weights: Mapping[str, Tensor]) -> None:
        reshard(self.model)
        super().load({name: local(tensor) for name, tensor in weights.items()})

    def moved(self) -> float:
        if not self.is_spread:
            return super().moved()
        found = gathered(self.movement.squares())
        moved, start = (sum(numbers) for numbers in zip(*found, strict=True))
        return (moved / start) ** 0.5

    def begin(self) -> None:
        super().begin()
        if self.is_spread and rank():
            self.movement.forget("critic")  # it is whole everywhere, and counts once

    def save(self, path: Path) -> None:
        reshard(self.model)
        state = state_in_one_piece(self.model) if self.is_spread else None
        if rank() == 0:
            self.write(path, state)
        gathered(None)  # the others may share the folder: they look when it is written
        path.mkdir(parents=True, exist_ok=True)

    # --- shares ---

    def micro_batches(self, samples: list[Sample]) -> list[Members]:
        """Those of this process's share."""
        mine = stretches(samples, count())[rank()]
        plan = super().micro_batches([samples[i] for i in mine])
        return [[[mine[k] for k in row] for row in rows] for rows in plan]

    def in_step(
        self, plan: list[Members], samples: list[Sample], passes: list[bool]
    ) -> Iterator[Members]:
        """The micro-batches; and then, where all processes put weights together for each pass, as
        many empty passes as others need more."""
        most = max(gathered(len(plan))) if self.is_spread else len(plan)
        yield from plan
        for _ in range(most - len(plan)):
            for base in passes:
                with torch.set_grad_enabled(torch.is_grad_enabled() and not base):
                    nothing = 0 * self.read([samples[:1]], 1.0, base).logp.sum()
                if nothing.requires_grad:
                    nothing.backward()

    def from_all(self, found: dict[int, Reading]) -> dict[int, Reading]:
        # a pickled tensor takes all of the memory that it is a part of, a pickled array does not
        mine = {i: [tensor.numpy() for tensor in reading] for i, reading in found.items()}
        readings = {}
        for each in gathered(mine):
            for i, arrays in each.items():
                readings[i] = Reading(*map(torch.from_numpy, arrays))
        return readings

    # --- learning ---

    def update(
        self, samples: list[Sample], cfg: Training, lr: float, temperature: float = 1.0
    ) -> dict[str, float]:
        self.learned = [(hash(tuple(sample.ids)), sum(sample.advantages)) for sample in samples]
        reshard(self.model)
        return super().update(samples, cfg, lr, temperature)

    def clipped(self, stats: dict[str, float], most: float) -> tuple[dict[str, float], float]:
        total: dict[str, float] = {}
        for learned, each in gathered((self.learned, stats)):
            require_same(self.learned, learned)
            add(total, each)
        grads = self._gradients()
        parts = [grad for grad in grads if isinstance(grad, DTensor)]  # FSDP has summed them
        others = [grad for grad in grads if not isinstance(grad, DTensor)]
        if others:
            sum_up(others)
        if not self.is_spread:
            return super().clipped(total, most)
        # torch does not clip both kinds in one call
        norms = [in_one_piece(get_total_norm(kind)) for kind in (parts, others) if kind]
        norm = torch.stack(norms).norm().item()
        for grad in grads:
            local(grad).mul_(min(1.0, most / (norm + 1e-6)))
        return total, norm

    def _gradients(self) -> list[Tensor]:
        """Those of all parameters that have one in any process."""
        mine = {name for name, p in self.parameters.items() if p.grad is not None}
        everywhere = set().union(*gathered(mine))
        grads = []
        for name, p in self.parameters.items():
            if name in everywhere:
                if p.grad is None:  # nothing in this process's share
                    p.grad = torch.zeros_like(p)
                grads.append(p.grad)
        return grads

    @cached_property
    def frozen(self) -> PreTrainedModel:
        return frozen_copy(self.model, self.initial) if self.is_spread else super().frozen


class ParallelSampler(Sampler):
    """A Sampler that writes a share of the completions. The others come from the other processes,
    drawn by the noise that a single process would have used."""

    def __init__(self, model: PreTrainedModel, own_weights: bool = False):
        self.shares = Shares()
        super().__init__(model, own_weights)

    def begin(self) -> None:
        super().begin()
        self.shares.begin()

    def generate(self, prompts: list[list[int]], *what, **knobs) -> list[list[Completion]]:
        self.shares.require_same(prompts)
        unshard(self.model)
        return super().generate(prompts, *what, **knobs)

    def sleep(self) -> None:
        super().sleep()
        reshard(self.model)

    def rows_at_once(self, tokens: int) -> int:
        return min(gathered(super().rows_at_once(tokens), self.shares.group))

    def written(self, prompts: list[list[int]], noise: Noise, write: Write) -> list[Completion]:
        mine = self.shares.mine(prompts)
        used = 0

        def own_noise() -> Tensor:
            nonlocal used
            used += 1
            return noise()[mine]

        found = {}
        if mine:
            drawn = write([prompts[i] for i in mine], own_noise)
            found = dict(zip(mine, drawn, strict=True))
        completions = self.shares.of_all(found)
        # the noise goes on where the longest completion of all has ended
        for _ in range(max(len(c.ids) for c in completions) - used):
            noise()
        return completions
