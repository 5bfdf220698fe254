"""The model that learns: load, log-probs, one update, save.

One code path computes log-probs, for scoring and for training. How Samples are laid out in rows is
private to this file: here, one row a Sample, its ancestors in front of it.
"""

import math
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path

import torch
from torch import Tensor
from torch.optim import AdamW
from transformers import AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import logging

from minprm.algorithms import AGGREGATIONS, LOSSES, kl_k3
from minprm.constants import Training
from minprm.data import Sample


class Policy:
    """A causal language model, its optimizer, and the frozen model it started from."""

    def __init__(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, micro_tokens: int
    ):
        self.model, self.tokenizer, self.micro_tokens = model, tokenizer, micro_tokens
        self.base = deepcopy(model).requires_grad_(False)
        self.restart()

    def restart(self) -> None:
        """Back to the base model's weights, with a new optimizer."""
        self.model.load_state_dict(self.base.state_dict())
        self.begin()

    def begin(self) -> None:
        """A new optimizer at the present weights, from which movement is measured."""
        self.version, self.skipped = 0, 0
        self.start = [p.detach().clone() for p in self.model.parameters()]
        self.optimizer = AdamW(self.model.parameters(), betas=(0.9, 0.95), weight_decay=0.0)

    @torch.no_grad()
    def logprobs(
        self, samples: list[Sample], temperature: float = 1.0, base: bool = False
    ) -> list[Tensor]:
        """log p of each Sample's masked tokens, in fp32, no gradient: one tensor [sum(mask)] each.

        Tokens that the sampler drew are scored at its temperature, all others at 1; `base`: under
        the frozen base model.
        """
        out: list[Tensor] = [torch.empty(0)] * len(samples)
        for rows in self._micro_batches(samples):
            model, part = self.base if base else self.model, [samples[i] for i in rows]
            l, _ = self._forward(model, part, temperature)
            for i, x in zip(rows, l.split([sum(s.mask) for s in part]), strict=True):
                out[i] = x
        return out

    def update(
        self, samples: list[Sample], cfg: Training, lr: float, temperature: float = 1.0
    ) -> dict[str, float]:
        """One optimizer step on all samples, however they are split into micro-batches.

        A non-finite loss or gradient skips the step; the fifth in a row raises FloatingPointError.
        """
        samples = [s for s in samples if any(s.mask)]
        # divide by the tokens of the whole update, not of the micro-batch, or the answer depends on
        # how memory was split
        weights = AGGREGATIONS[cfg.aggregation]([sum(s.mask) for s in samples])
        stats: dict[str, float] = defaultdict(float)
        tokens, drawn = len(_masked(samples, "logprobs")), int(_drawn(samples).sum())
        for rows in self._micro_batches(samples):
            part, w = [samples[i] for i in rows], [weights[i] for i in rows]
            loss = self._loss(part, w, cfg, temperature, stats, tokens, drawn)
            loss.backward()
            stats["loss/total"] += loss.item()
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), cfg.max_grad_norm).item()
        self._step(lr, math.isfinite(norm) and math.isfinite(stats["loss/total"]))
        return stats | {
            "policy/grad_norm": norm,
            "policy/lr": lr,
            "policy/skipped": self.skipped,
            "policy/moved": self.moved(),
        }

    def moved(self) -> float:
        """|theta - theta_0| / |theta_0| since the stage began: 0 means that nothing learns."""
        pairs = [*zip(self.model.parameters(), self.start, strict=True)]
        far = sum((p.detach() - q).square().sum() for p, q in pairs)
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
                group["lr"] = lr
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

    def _loss(self, samples, weights, cfg, temperature, stats, tokens, drawn_tokens) -> Tensor:
        """Scalar loss of one micro-batch; adds its part of the update's means to `stats`."""
        l, entropy = self._forward(self.model, samples, temperature)  # [T], [T]
        old, a = (_masked(samples, key) for key in ("logprobs", "advantages"))  # [T], [T]
        lengths = torch.tensor([sum(s.mask) for s in samples])
        w = torch.tensor(weights).repeat_interleave(lengths)  # [T]
        drawn = _drawn(samples)  # a ratio is taken only where the sampler drew the token
        per_token = -a * l
        per_token[drawn] = LOSSES[cfg.loss](l[drawn], old[drawn], a[drawn])
        if cfg.kl:
            with torch.no_grad():
                ref, _ = self._forward(self.base, samples, temperature)
            kl = kl_k3(l, ref)
            per_token = per_token + cfg.kl * kl
            stats["policy/kl_base"] += kl.sum().item() / tokens
        if drawn.any():
            gap = (l - old)[drawn].detach()
            mismatch = kl_k3(old[drawn], l[drawn].detach()).sum().item()
            stats["policy/mismatch_kl"] += mismatch / drawn_tokens
            stats["policy/gap_mean"] += gap.abs().sum().item() / drawn_tokens
            stats["policy/gap_max"] = max(stats["policy/gap_max"], gap.abs().max().item())
        stats["policy/entropy"] += entropy.sum().item() / tokens
        return (w * per_token).sum()

    def _forward(self, model, samples: list[Sample], temperature: float) -> tuple[Tensor, Tensor]:
        """(log-probs, entropies) of all masked tokens, concatenated.  [T], [T]

        Rows are padded on the right, so causal attention never sees the padding and needs no mask.
        The vocabulary is projected only where a log-prob is read.
        """
        prefixes = [s.prefix() for s in samples]
        rows = [prefix + s.ids for prefix, s in zip(prefixes, samples, strict=True)]
        ids = torch.zeros(len(rows), max(map(len, rows)), dtype=torch.long)  # [B, L]
        read = torch.zeros_like(ids, dtype=torch.bool)  # [B, L], True where the token is scored
        for b, (row, prefix, s) in enumerate(zip(rows, prefixes, samples, strict=True)):
            ids[b, : len(row)] = torch.tensor(row)
            read[b, len(prefix) : len(row)] = torch.tensor(s.mask)
        hidden = model.base_model(input_ids=ids, use_cache=False).last_hidden_state  # [B, L, D]
        # a token is predicted by the position before it
        logits = model.get_output_embeddings()(hidden[:, :-1][read[:, 1:]]).float()  # [T, V]
        # what the sampler drew is scored at its temperature, what an expert wrote at 1
        logits = logits / torch.where(_drawn(samples), temperature, 1.0)[:, None]
        all_l = logits.log_softmax(-1)  # [T, V]
        l = all_l.gather(-1, ids[read][:, None])[:, 0]
        with torch.no_grad():
            entropy = -(all_l.exp() * all_l).sum(-1)
        return l, entropy

    def _micro_batches(self, samples: list[Sample]) -> Iterator[list[int]]:
        """Indices, longest rows first, in batches of at most `micro_tokens` padded tokens."""
        length = [len(s.prefix()) + len(s.ids) for s in samples]
        batch: list[int] = []
        for i in sorted(range(len(samples)), key=lambda i: -length[i]):
            if batch and (len(batch) + 1) * length[batch[0]] > self.micro_tokens:
                yield batch
                batch = []
            batch.append(i)
        if batch:
            yield batch


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


def load_model(path: str) -> PreTrainedModel:
    """Any hub id or local path, in fp32."""
    logging.disable_progress_bar()  # the only bars are ours
    return AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
