"""The model that learns: load, log-probs, one update, save.

One code path computes log-probs, for scoring and for training; tree.py lays Samples out in rows.
"""

import math
import shutil
from collections import defaultdict
from collections.abc import Callable
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import replace
from functools import cached_property, partial
from importlib.util import find_spec
from pathlib import Path

import torch
from loguru import logger
from torch import Tensor
from torch.optim import AdamW
from torch.utils.checkpoint import checkpoint
from transformers import AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import logging

from minprm.algorithms import AGGREGATIONS, CORRECTIONS, LOSSES, kl_k3, value_clip
from minprm.constants import Training, fail
from minprm.data import Sample
from minprm.model.tree import attend, layout, micro_batches, probe

CRITIC_LR = 10  # times the policy's: the head starts from nothing. RAGEN's ratio
CHUNK = 2**27  # logits computed at once: half a gigabyte in fp32


class Policy:
    """A causal language model with a value head, its optimizer, and the frozen model it was."""

    def __init__(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, micro_tokens: int
    ):
        self.model, self.tokenizer, self.micro_tokens = model, tokenizer, micro_tokens
        # the critic reads the policy's own trunk; where no advantage asks for it, nothing moves it
        width = model.get_input_embeddings().embedding_dim
        self.critic = torch.nn.Parameter(torch.zeros(width + 1, device=model.device))
        # adapters are in the model by now: an optimizer that is built before them trains nothing
        self.trained = {n: p for n, p in model.named_parameters() if p.requires_grad}
        self.trained["critic"] = self.critic
        self.initial = self.weights()
        self.begin()

    def weights(self) -> dict[str, Tensor]:
        """A copy of everything that is trained: all weights, or the adapters; and the critic."""
        return {name: p.detach().clone() for name, p in self.trained.items()}

    @torch.no_grad()
    def load(self, weights: dict[str, Tensor]) -> None:
        """Puts such a copy back."""
        for name, p in self.trained.items():
            p.copy_(weights[name])

    def restart(self) -> None:
        """Back to the base model's weights, with a new optimizer."""
        self.load(self.initial)
        self.begin()

    def begin(self) -> None:
        """A new optimizer at the present weights, from which movement is measured."""
        self.version, self.skipped = 0, 0
        self.start = self.weights()
        trunk = [p for p in self.trained.values() if p is not self.critic]
        groups = [{"params": trunk, "scale": 1}, {"params": [self.critic], "scale": CRITIC_LR}]
        self.optimizer = AdamW(groups, betas=(0.9, 0.95), weight_decay=0.0)

    @cached_property
    def frozen(self) -> PreTrainedModel:
        """The base model, where no adapter can be switched off to get it; made when asked for."""
        copy = deepcopy(self.model).requires_grad_(False)
        copy.load_state_dict(self.initial, strict=False)
        return copy

    @torch.no_grad()
    def logprobs(
        self, samples: list[Sample], temperature: float = 1.0, base: bool = False
    ) -> list[Tensor]:
        """log p of each Sample's masked tokens, in fp32, no gradient: one tensor [sum(mask)] each.

        Tokens that the sampler drew are scored at its temperature, all others at 1; `base`: under
        the frozen base model.
        """
        return self._each(samples, lambda rows: self._forward(rows, temperature, base)[0])

    @torch.no_grad()
    def values(self, samples: list[Sample]) -> list[Tensor]:
        """The critic's values before masked tokens, of Samples with `returns`: [sum(mask)] each."""
        return self._each(samples, lambda rows: self._forward(rows, 1.0)[2])

    def _each(self, samples: list[Sample], read: Callable) -> list[Tensor]:
        """What `read` finds at the masked tokens of a micro-batch, Sample by Sample."""
        out: list[Tensor] = [torch.empty(0)] * len(samples)
        for rows in self._micro_batches(samples):
            order = [i for row in rows for i in row]
            x = read([[samples[i] for i in row] for row in rows])
            for i, part in zip(order, x.split([sum(samples[i].mask) for i in order]), strict=True):
                out[i] = part
        return out

    def update(
        self, samples: list[Sample], cfg: Training, lr: float, temperature: float = 1.0
    ) -> dict[str, float]:
        """One optimizer step on all samples, however they are split into micro-batches.

        A non-finite loss or gradient skips the step; the fifth in a row raises FloatingPointError.
        """
        samples = [s for s in samples if any(s.mask)]
        # divide by the whole update's tokens, or the answer depends on how memory was split
        weights = AGGREGATIONS[cfg.aggregation]([sum(s.mask) for s in samples])
        stats: dict[str, float] = defaultdict(float)
        tokens, drawn = len(_masked(samples, "logprobs")), int(_drawn(samples).sum())
        self.model.train()  # gradient checkpointing is off in evaluation mode
        for rows in self._micro_batches(samples):
            w = [weights[i] for row in rows for i in row]
            part = [[samples[i] for i in row] for row in rows]
            loss = self._loss(part, w, cfg, temperature, stats, tokens, drawn)
            loss.backward()
            stats["loss/total"] += loss.item()
        self.model.eval()
        norm = torch.nn.utils.clip_grad_norm_(self.trained.values(), cfg.max_grad_norm).item()
        self._step(lr, math.isfinite(norm) and math.isfinite(stats["loss/total"]))
        return stats | {
            "policy/grad_norm": norm,
            "policy/lr": lr,
            "policy/skipped": self.skipped,
            "policy/moved": self.moved(),
        }

    def corrected(self, samples: list[Sample], name: str, temperature: float) -> tuple[list, dict]:
        """Samples whose old log-probs are this model's own, and whose advantages are weighed by
        how much the sampler's differ; and how much that was, with the share that was dropped."""
        if name == "none":
            return samples, {}
        out, gaps, dropped = [], [], 0.0
        for s, own in zip(samples, self.logprobs(samples, temperature), strict=True):
            old, a, read = map(torch.tensor, (s.logprobs, s.advantages, s.mask))
            drawn = ~old[read].isnan()
            at = read.nonzero()[:, 0][drawn]
            weights = CORRECTIONS[name](own[drawn], old[at])
            gaps.append(own[drawn] - old[at])
            dropped += len(weights) > 0 and not weights.any()
            old[at], a[at] = own[drawn], a[at] * weights
            out.append(replace(s, logprobs=old.tolist(), advantages=a.tolist()))
        gap = torch.cat(gaps)
        far, k3 = gap.abs(), kl_k3(torch.zeros(()), gap)
        stats = {"gap_mean": far.mean(), "gap_max": far.max(), "mismatch_kl": k3.mean()}
        found = {f"policy/{name}": x.item() for name, x in stats.items()}
        return out, found | {"policy/dropped": dropped / len(samples)}

    @property
    def lora(self) -> bool:
        return hasattr(self.model, "peft_config")

    def moved(self) -> float:
        """|theta - theta_0| / |theta_0| since the stage began: 0 means that nothing learns."""
        pairs = [(p.detach(), self.start[name]) for name, p in self.trained.items()]
        far = sum((p - q).square().sum() for p, q in pairs)
        return (far / sum(q.square().sum() for _, q in pairs)).sqrt().item()

    def save(self, path: Path) -> None:
        """A directory that `AutoModelForCausalLM.from_pretrained` loads, all of it or nothing."""
        half = path.with_name(f".{path.name}.tmp")
        shutil.rmtree(half, ignore_errors=True)
        self.model.save_pretrained(half)
        self.tokenizer.save_pretrained(half)
        shutil.rmtree(path, ignore_errors=True)
        half.rename(path)

    def _step(self, lr: float, finite: bool) -> None:
        if finite:
            for group in self.optimizer.param_groups:
                group["lr"] = lr * group["scale"]
            self.optimizer.step()
            self.version, self.skipped = self.version + 1, 0
        else:
            self.skipped += 1
        self.optimizer.zero_grad(set_to_none=True)
        if self.skipped >= 5:
            raise FloatingPointError(
                "five updates in a row had a loss or gradient that is not finite: lower --*.lr, or "
                "look for a reward that is inf or NaN in samples.jsonl"
            )

    def _loss(self, rows, weights, cfg, temperature, stats, tokens, drawn_tokens) -> Tensor:
        """Scalar loss of one micro-batch; adds its part of the update's means to `stats`."""
        samples = [s for row in rows for s in row]
        l, entropy, v = self._forward(rows, temperature, bonus=cfg.entropy > 0)  # [T], [T], [T]
        old, a = (_masked(samples, key) for key in ("logprobs", "advantages"))  # [T], [T]
        lengths = torch.tensor([sum(s.mask) for s in samples])
        w = torch.tensor(weights).repeat_interleave(lengths)  # [T]
        drawn = ~old.isnan()  # a ratio is taken only where the sampler drew the token
        per_token = -a * l
        sizes = [int(x.sum()) for x in drawn.split(lengths.tolist())]
        parts = zip(*(x[drawn].split(sizes) for x in (l, old, a)), strict=True)
        per_token[drawn] = torch.cat([LOSSES[cfg.loss](*part) for part in parts])
        if cfg.kl:
            kl = kl_k3(l, self._reference(rows, cfg, temperature, l, old))
            per_token = per_token + cfg.kl * kl
            stats["policy/kl"] += kl.sum().item() / tokens
        if samples[0].returns:
            before, target = (_masked(samples, key) for key in ("values", "returns"))
            surprise = value_clip(v, before, target)
            per_token = per_token + cfg.value_weight * surprise
            stats["critic/loss"] += surprise.sum().item() / tokens
        if cfg.entropy:
            per_token = per_token - cfg.entropy * entropy
        if drawn.any():
            gap = (l - old)[drawn].detach()
            mismatch = kl_k3(old[drawn], l[drawn].detach()).sum().item()
            stats["policy/mismatch_kl"] += mismatch / drawn_tokens
            stats["policy/gap_mean"] += gap.abs().sum().item() / drawn_tokens
            stats["policy/gap_max"] = max(stats["policy/gap_max"], gap.abs().max().item())
        stats["policy/entropy"] += entropy.sum().item() / tokens
        return (w * per_token).sum()

    def _reference(self, rows, cfg: Training, temperature: float, l: Tensor, old: Tensor) -> Tensor:
        """Log-probs of the model that the policy is held to: the base, or the one that sampled."""
        if cfg.kl_to == "sampler":
            return torch.where(old.isnan(), l.detach(), old)
        with torch.no_grad():
            return self._forward(rows, temperature, base=True)[0]

    def _forward(
        self, rows: list[list[Sample]], temperature: float, base: bool = False, bonus: bool = False
    ) -> tuple[Tensor, Tensor, Tensor]:
        """(log-probs, entropies, values) at all masked tokens, concatenated, on the CPU.  3 x [T]

        The vocabulary is projected only where a log-prob is read, in chunks that are computed anew
        for the gradient where they would not fit at once. Entropies have one if they are a bonus.
        """
        device = self.model.device
        ids, positions, sees, scored, before = layout(rows, device)
        # what the sampler drew is scored at its temperature, what an expert wrote at 1
        drawn = _drawn([s for row in rows for s in row]).to(device)
        heat = torch.where(drawn, temperature, 1.0)[:, None]  # [T, 1]
        with (
            self.model.disable_adapter() if base and self.lora else nullcontext(),
            torch.autocast(device.type, torch.bfloat16, device.type == "cuda"),
        ):
            model = self.frozen if base and not self.lora else self.model
            model = model.get_base_model() if self.lora else model
            attend(model, sees)
            hidden = model.base_model(
                input_ids=ids, position_ids=positions, attention_mask=sees, use_cache=False
            ).last_hidden_state  # [B, L, D]
            hidden, head = hidden.flatten(0, 1)[before], model.get_output_embeddings()  # [T, D]
            chunk = max(CHUNK // head.weight.shape[0], 1)
            said = ids.flatten()[scored]
            parts = zip(hidden.split(chunk), heat.split(chunk), said.split(chunk), strict=True)
            again = partial(checkpoint, _read, use_reentrant=False)
            read = _read if len(hidden) <= chunk else again
            scores = [read(head, bonus, *part) for part in parts]
        l, entropy = (torch.cat(x).cpu() for x in zip(*scores, strict=True))
        if not rows[0][0].returns:  # no critic: no copy of all hidden states in fp32 for it
            return l, entropy, torch.empty(0)
        return l, entropy, (hidden.float() @ self.critic[:-1] + self.critic[-1]).cpu()

    def _micro_batches(self, samples: list[Sample]) -> list[list[list[int]]]:
        """What is read together: the cost of a token is its weights', of a pair its attention's."""
        shape = self.model.config
        dim = getattr(shape, "head_dim", None) or shape.hidden_size // shape.num_attention_heads
        square = 2 * shape.num_hidden_layers * shape.num_attention_heads * dim
        return micro_batches(samples, self.micro_tokens, self.size, square, self.shares)

    @cached_property
    def size(self) -> int:
        """Weights that every token passes: all but the embedding."""
        table = self.model.get_input_embeddings().weight.numel()
        return sum(p.numel() for p in self.model.parameters()) - table

    @cached_property
    def shares(self) -> bool:
        """Does this model honour a tree's mask and positions? Asked once, of a small tree: linear
        attention and sliding windows do not, and then each Sample has a row of its own."""
        with torch.no_grad():
            gap = probe(lambda rows: self._forward(rows, 1.0)[0])
        exact = gap < (1e-3 if self.model.dtype == torch.float32 else 0.1)
        if not exact:
            logger.warning(f"a tree's log-probs are {gap:.3f} off: each sample gets its own row")
        return exact


def _read(head, bonus: bool, hidden: Tensor, heat: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    """(log-probs of ids, entropies) from the last hidden states, in fp32.  [t, D] -> [t], [t]"""
    all_l = (head(hidden).float() / heat).log_softmax(-1)  # [t, V]
    with torch.set_grad_enabled(bonus and torch.is_grad_enabled()):
        entropy = -(all_l.exp() * all_l).sum(-1)
    return all_l.gather(-1, ids[:, None])[:, 0], entropy


def _drawn(samples: list[Sample]) -> Tensor:
    """True for each masked token that the sampler drew.  [T]"""
    return ~_masked(samples, "logprobs").isnan()


def _masked(samples: list[Sample], key: str) -> Tensor:
    """One value a masked token.  [T]"""
    return torch.tensor(
        [x for s in samples for x, m in zip(getattr(s, key), s.mask, strict=True) if m]
    )


def schedule(cfg: Training, updates: int) -> Callable[[int], float]:
    """update -> learning rate: linear warm-up, then constant or linear decay towards zero."""

    def lr(update: int) -> float:
        warm = min(1.0, (update + 1) / max(cfg.warmup, 1))
        return cfg.lr * warm * (1 - update / updates if cfg.decay else 1.0)

    return lr


def pretrained(kind, path: str, **knobs):
    """`kind.from_pretrained`, whose many complaints become one sentence."""
    try:
        return kind.from_pretrained(path, **knobs)
    except (OSError, ValueError) as error:
        fail(f"{path} is no model that transformers loads: {str(error).splitlines()[0]}")


def load_model(path: str, lora: int = 0, checkpointing: bool = False) -> PreTrainedModel:
    """Any hub id or local path, on the GPU where there is one.

    All weights are trained in fp32 (under bf16 autocast on a GPU): AdamW at 1e-6 does not move
    bf16 weights. With adapters of rank `lora`, those are fp32 and the frozen base is bf16.
    """
    logging.disable_progress_bar()  # the only bars are ours
    model = pretrained(AutoModelForCausalLM, path, dtype=torch.bfloat16 if lora else torch.float32)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return adapted(model, lora, checkpointing).to(device)


def adapted(model: PreTrainedModel, lora: int, checkpointing: bool) -> PreTrainedModel:
    """With adapters of rank `lora` on every linear layer, and with gradient checkpointing."""
    if checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    if lora:
        if find_spec("peft") is None:
            fail('--lora needs peft: pip install -e ".[lora]"')
        from peft import LoraConfig, get_peft_model

        adapters = LoraConfig(r=lora, lora_alpha=2 * lora, target_modules="all-linear")
        model = get_peft_model(model, adapters)
    return model
