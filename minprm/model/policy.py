"""The model that learns: log-probs, one update, save.

One code path computes log-probs, for scoring thoughts and for training on them. How Samples are
laid out in rows is tree.py's affair, what is minimised is objective.py's. In act_prm.py this file
is `log_probs` and `update`.
"""

import math
import shutil
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import cached_property, partial
from pathlib import Path

import torch
from torch import Tensor
from torch.optim import AdamW
from transformers import DynamicCache, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import logging

from minprm.constants import RL, Optim, Training, fail, to_base
from minprm.data import Sample
from minprm.model.adapters import has_adapters, switched_off, under_adapters
from minprm.model.alone import ALONE, Alone
from minprm.model.blocks import attend, loaded_attention
from minprm.model.cache import keeps_all
from minprm.model.movement import Movement
from minprm.model.objective import at_trained, make_batch, objective
from minprm.model.packing import Members, micro_batches
from minprm.model.precision import autocast
from minprm.model.reading import Reading, scores
from minprm.model.tree import layout
from minprm.zoo import AGGREGATIONS

USUAL = Optim()
CRITIC_LR = 10  # times the policy's: the head starts from nothing. RAGEN's ratio

logging.disable_progress_bar()  # the only bars are ours, where models are saved (and in load.py)


class Policy:
    """A causal language model with a value head, its optimizer, and the frozen model it was."""

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        micro_tokens: int,
        shares: Alone = ALONE,
    ):
        """shares: how the work is shared with other processes, where there are some."""
        self.shares = shares
        self.model = model
        self.tokenizer = tokenizer
        self.micro_tokens = micro_tokens
        # are Samples with a common beginning read in one row? check.py asks the model whether it
        # honours a tree's mask and positions
        self.shares_prefixes = True
        # may Samples be read behind the keys and values of what they continue? (trunks.py)
        self.keeps_trunks = shares.count == 1 and keeps_all(model)
        # may attention leave out what nobody sees? On a CPU sdpa's arithmetic can. It keeps
        # queries, keys and values with checkpointing, too, about a sixth of all activations
        self.reads_blocks = model.device.type != "cpu" or loaded_attention(model) == "sdpa"
        # the critic reads the last layer; where no advantage asks for it, nothing moves it
        width = model.get_input_embeddings().get_parameter("weight").shape[1]
        self.critic = torch.nn.Parameter(torch.zeros(width + 1, device=model.device))
        # adapters are in the model by now: an optimizer that is built before them trains nothing
        self.parameters = {n: p for n, p in model.named_parameters() if p.requires_grad}
        if not self.parameters:
            fail(f"{model.name_or_path}: all of its weights are frozen, so nothing would learn")
        self.parameters["critic"] = self.critic
        self.initial = self.weights()
        self.begin()

    # --- weights ---

    def weights(self) -> dict[str, Tensor]:
        """A copy of everything that is trained: all weights, or the adapters; and the critic.

        It is on the CPU: the memory of a GPU is for what is read at every update.
        """
        return {n: tensor.to("cpu", copy=True) for n, tensor in self.tensors().items()}

    @torch.no_grad()
    def load(self, weights: Mapping[str, Tensor]) -> None:
        """Puts such a copy back."""
        self.shares.let_go(self.model)
        for name, tensor in self.tensors().items():
            tensor.copy_(self.shares.local(weights[name]))

    def tensors(self) -> dict[str, Tensor]:
        """The memory of everything that is trained, to be read and written."""
        return {name: self.shares.local(p.detach()) for name, p in self.parameters.items()}

    def restart(self) -> None:
        """Back to the base model's weights, with a new optimizer."""
        self.load(self.initial)
        self.begin()

    def begin(self) -> None:
        """A new optimizer at the present weights, from which movement is measured."""
        self.version = 0  # optimizer steps since then
        self.skipped = 0  # steps in a row that were not finite
        self.movement = Movement(self.shares.counted(self.parameters))
        weights = [p for p in self.parameters.values() if p is not self.critic]
        groups = [{"params": weights, "scale": 1}, {"params": [self.critic], "scale": CRITIC_LR}]
        # on a GPU torch would do all tensors at once, in a further copy of all weights
        self.optimizer = AdamW(groups, foreach=False)

    def moved(self) -> float:
        """|theta - theta_0| / |theta_0| since `begin`: 0 means that nothing learns."""
        moved, start = self.shares.total(self.movement.squares())
        return math.sqrt(moved / start)

    def save(self, path: Path) -> None:
        """A directory that `AutoModelForCausalLM.from_pretrained` loads."""
        state = self.shares.state(self.model)
        self.shares.from_first(partial(self._write, path, state))
        path.mkdir(parents=True, exist_ok=True)  # another process may have a folder of its own

    def _write(self, path: Path, state: dict[str, Tensor] | None) -> None:
        """All of that directory or nothing. state: the weights by name, where the model does not
        hold them in one piece."""
        half = path.with_name(f".{path.name}.tmp")
        shutil.rmtree(half, ignore_errors=True)
        self.model.save_pretrained(half, state_dict=state)
        self.tokenizer.save_pretrained(half)
        shutil.rmtree(path, ignore_errors=True)
        half.rename(path)

    # --- reading ---

    @torch.no_grad()
    def logprobs(
        self, samples: list[Sample], temperature: float = 1.0, base: bool = False
    ) -> list[Tensor]:
        """log p of each Sample's trained tokens, without a gradient: one fp32 tensor [n] a Sample.

        Tokens that the sampler drew are scored at its temperature, all others at 1. With `base` the
        frozen base model scores them.
        """
        return [reading.logp for reading in self.readings(samples, temperature, base)]

    @torch.no_grad()
    def values(self, samples: list[Sample]) -> list[Tensor]:
        """The critic's values before trained tokens, of Samples with `returns`: [n] a Sample."""
        return [reading.values for reading in self.readings(samples)]

    @torch.no_grad()
    def readings(
        self,
        samples: list[Sample],
        temperature: float = 1.0,
        base: bool = False,
        likely: int = 0,
    ) -> list[Reading]:
        """All that the model says of each Sample's trained tokens: one Reading a Sample.

        likely: how many of the likeliest tokens in the place of each are told.
        """
        readings = {}
        numbers = [i for i, sample in enumerate(samples) if any(sample.trained)]
        scored = [samples[i] for i in numbers]
        share = self.shares.to_read(scored)
        own = [scored[k] for k in share]
        forward = partial(self.read, [scored[:1]], temperature)
        for rows in self.shares.in_step(self.micro_batches(own), forward, [base]):
            # row after row, so the numbers come in the order of the rows and not of the samples
            order = []
            batch_rows = []
            for row in rows:
                order += [numbers[share[k]] for k in row]
                batch_rows.append([own[k] for k in row])
            sizes = [sum(samples[i].trained) for i in order]
            reading = self.read(batch_rows, temperature, base, likely=likely)
            readings |= zip(order, reading.split(sizes), strict=True)
        readings = self.shares.all(readings)
        nothing = Reading(*[torch.empty(0)] * len(Reading._fields))
        return [readings.get(i, nothing) for i in range(len(samples))]

    def read(
        self,
        rows: list[list[Sample]],
        temperature: float,
        base: bool = False,
        entropy_gradient: bool = False,
        likely: int = 0,
        cache: DynamicCache | None = None,
    ) -> Reading:
        """One forward pass over rows of Samples, for scoring as for training.

        cache: of the first tokens of the only row; then it holds those of the whole row.
        """
        device = self.model.device
        laid_out = layout(rows, device, self.reads_blocks, cache)
        # what the sampler drew is scored at its temperature, what an expert wrote at 1
        is_drawn = _drawn([sample for row in rows for sample in row]).to(device)
        temperatures = torch.where(is_drawn, temperature, 1.0)[:, None]  # [T, 1]
        with switched_off(self.model) if base else nullcontext(), autocast(self.model):
            model = under_adapters(self.model)
            if base and not has_adapters(self.model):
                model = self.frozen
            attend(model, laid_out.attention_mask)
            numbers, hidden = scores(model, laid_out, temperatures, entropy_gradient, likely)
        values = torch.empty(len(temperatures), 0)
        if rows[0][0].returns:  # no critic: no copy of all hidden states in fp32 for it
            values = (hidden.float() @ self.critic[:-1] + self.critic[-1]).cpu()
        return Reading(*numbers, values=values)

    @cached_property
    def frozen(self) -> PreTrainedModel:
        """The base model, where no adapter can be switched off to get it; made when asked for."""
        frozen = self.shares.copy_of(self.model).requires_grad_(False)
        for name, p in frozen.named_parameters():
            if name in self.initial:
                self.shares.local(p).copy_(self.initial[name])
        return frozen.eval()  # it may be asked for in the midst of an update

    def micro_batches(self, samples: list[Sample]) -> list[Members]:
        """Which Samples are read together: their indices, by row and by micro-batch."""
        # the cost of a token is that of its weights, the cost of a pair of tokens is attention's
        pair = 2 * self.attention_size
        device = self.model.device if self.reads_blocks else None
        return micro_batches(
            samples, self.micro_tokens, self.size, pair, self.shares_prefixes, device
        )

    @cached_property
    def attention_size(self) -> int:
        """Numbers in the queries of a token, in all layers. A recurrent model has none."""
        shape = self.model.config.get_text_config()
        heads = getattr(shape, "num_attention_heads", 0)
        width = getattr(shape, "head_dim", None) or shape.hidden_size // max(heads, 1)
        return shape.num_hidden_layers * heads * width

    @cached_property
    def size(self) -> int:
        """Weights that every token passes: all but the embedding."""
        table = self.model.get_input_embeddings().get_parameter("weight").numel()
        return sum(p.numel() for p in self.model.parameters()) - table

    # --- learning ---

    def update(
        self,
        samples: list[Sample],
        cfg: Training,
        lr: float,
        temperature: float = 1.0,
        optim: Optim = USUAL,
    ) -> dict[str, float]:
        """One optimizer step on all samples, however they are split into micro-batches.

        A non-finite loss or gradient skips the step; the fifth in a row raises FloatingPointError.
        Samples of which no token is trained raise ValueError.
        """
        samples = [sample for sample in samples if any(sample.trained)]
        if not samples:
            raise ValueError("an update of no tokens: not one token of its samples is trained")
        self.shares.let_go(self.model)
        # divide by the tokens of the whole update, not of the micro-batch, or the answer depends on
        # how memory was split
        lengths = [sum(sample.trained) for sample in samples]
        weights = AGGREGATIONS[optim.aggregation](lengths)
        drawn_tokens = int(_drawn(samples).sum())
        stats = {"loss/total": 0.0}
        share = self.shares.to_read(samples)
        own = [samples[i] for i in share]
        # 1. gradients of all micro-batches, added up
        self.model.train()  # gradient checkpointing is off in evaluation mode
        held = to_base(cfg)  # the base model holds the policy back
        bonus = isinstance(cfg, RL) and cfg.entropy > 0
        passes = [True, False] if held else [False]
        forward = partial(self.read, [samples[:1]], temperature)
        for rows in self.shares.in_step(self.micro_batches(own), forward, passes):
            order = [share[k] for row in rows for k in row]
            batch_rows = []
            for row in rows:
                batch_rows.append([own[k] for k in row])
            # what the samples say of their trained tokens, as tensors
            batch = make_batch(
                [samples[i] for i in order], [weights[i] for i in order], sum(lengths), drawn_tokens
            )
            # what the base model says of them
            if held:
                with torch.no_grad():
                    batch.ref_logp = self.read(batch_rows, temperature, base=True).logp
            # what the policy says of them now, with a gradient
            reading = self.read(batch_rows, temperature, entropy_gradient=bonus)
            loss, terms = objective(reading.logp, reading.entropy, reading.values, batch, cfg)
            loss.backward()
            add(stats, terms | {"loss/total": loss.item()})
        self.model.eval()
        # 2. one step of the optimizer, along a gradient that is not longer than max_grad_norm
        stats = self.shares.sum_up(samples, stats, self.parameters)
        norm = self.shares.clip(self.parameters, optim.max_grad_norm)
        self._step(lr, optim, math.isfinite(norm) and math.isfinite(stats["loss/total"]))
        return stats | {
            "policy/grad_norm": norm,
            "policy/lr": lr,
            "policy/skipped": self.skipped,
            "policy/moved": self.moved(),
        }

    def _step(self, lr: float, optim: Optim, finite: bool) -> None:
        if finite:
            for group in self.optimizer.param_groups:
                group["lr"] = lr * group["scale"]
                group["betas"] = (optim.beta1, optim.beta2)
                group["weight_decay"] = optim.weight_decay
            self.optimizer.step()
            self.version += 1
            self.skipped = 0
        else:
            self.skipped += 1
        self.optimizer.zero_grad(set_to_none=True)
        if self.skipped >= 5:
            raise FloatingPointError(
                "five updates in a row had a loss or gradient that is not finite: lower --*.lr, or "
                "look for a reward that is inf or NaN in samples.jsonl"
            )


def _drawn(samples: list[Sample]) -> Tensor:
    """True for each trained token that the sampler drew.  [T]"""
    return ~at_trained(samples, "logprobs").isnan()


def add(stats: dict[str, float], terms: dict[str, float]) -> None:
    """Adds what one micro-batch found; of the largest gap the larger one counts."""
    for name, number in terms.items():
        before = stats.get(name, 0.0)
        stats[name] = max(before, number) if name == "policy/gap_max" else before + number


def schedule(lr: float, updates: int, optim: Optim) -> Callable[[int], float]:
    """update -> learning rate: linear warm-up, then as `optim.decay` says."""
    warmup = min(optim.warmup, updates // 4)  # a short stage would never get out of a longer one

    def rate(update: int) -> float:
        if update < warmup:
            return lr * (update + 1) / warmup
        done = (update - warmup) / (updates - warmup)
        if optim.decay == "linear":
            return lr * (1 - done)
        if optim.decay == "cosine":
            return lr * (1 + math.cos(math.pi * done)) / 2
        return lr

    return rate
