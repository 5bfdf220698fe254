"""The model that writes: a plain KV-cache loop over the very model that learns.

Ids in, ids and log-probs out. Nothing here knows of thoughts, worlds or losses.
"""

from dataclasses import dataclass

import torch
from transformers import DynamicCache, PreTrainedModel


@dataclass
class Completion:
    """What was drawn after a prompt, the stopping token included, and each token's log-prob."""

    ids: list[int]
    logprobs: list[float]


class Sampler:
    """Draws at logits / temperature from the whole vocabulary: what is drawn is what is scored."""

    def __init__(self, model: PreTrainedModel, rows: int = 512):
        self.model, self.rows = model, rows

    def generate(
        self,
        prompts: list[list[int]],
        n: int,
        max_tokens: int,
        stop: list[int],
        temperature: float,
        seed: int,
    ) -> list[list[Completion]]:
        """n completions a prompt, up to a token of `stop` or the limit. Temperature 0: greedy."""
        noise = torch.Generator().manual_seed(seed)
        per_batch, out = max(self.rows // n, 1), []
        for i in range(0, len(prompts), per_batch):
            flat = self._batch(prompts[i : i + per_batch], n, max_tokens, stop, temperature, noise)
            out += [flat[j : j + n] for j in range(0, len(flat), n)]
        return out

    @torch.no_grad()
    def _batch(self, prompts, n, max_tokens, stop, temperature, noise) -> list[Completion]:
        width = max(map(len, prompts))
        ids = torch.zeros(len(prompts), width, dtype=torch.long)  # [P, L], padded on the left
        mask = torch.zeros_like(ids)
        for b, prompt in enumerate(prompts):
            ids[b, width - len(prompt) :] = torch.tensor(prompt)
            mask[b, width - len(prompt) :] = 1
        cache = DynamicCache(config=self.model.config)
        logits = self._step(ids, mask, (mask.cumsum(1) - 1).clamp(min=0), cache)
        # the prompt is read once and its cache copied for each of the n completions
        cache.batch_repeat_interleave(n)
        logits, mask = logits.repeat_interleave(n, 0), mask.repeat_interleave(n, 0)
        done = torch.zeros(len(mask), dtype=torch.bool)
        stops, drawn, logprobs, lengths = torch.tensor(stop), [], [], torch.zeros(len(mask))
        for _ in range(max_tokens):
            l = (logits.float() / (temperature or 1.0)).log_softmax(-1)  # [P*n, V]
            p = l.exp()
            token = p.multinomial(1, generator=noise) if temperature else l.argmax(-1, True)
            drawn.append(token[:, 0])
            logprobs.append(l.gather(1, token)[:, 0])
            lengths += ~done
            done |= torch.isin(token[:, 0], stops)
            if done.all():
                break
            mask = torch.cat([mask, torch.ones(len(mask), 1, dtype=torch.long)], 1)
            logits = self._step(token, mask, mask.sum(1, keepdim=True) - 1, cache)
        cut = zip(torch.stack(drawn, 1).tolist(), torch.stack(logprobs, 1).tolist(),
                  lengths.int().tolist(), strict=True)  # fmt: skip
        return [Completion(ids[:k], logprobs[:k]) for ids, logprobs, k in cut]

    def _step(self, ids, mask, positions, cache) -> torch.Tensor:
        """Logits after the last token of each row.  [B, V]"""
        return self.model(
            input_ids=ids, attention_mask=mask, position_ids=positions,
            past_key_values=cache, use_cache=True, logits_to_keep=1,
        ).logits[:, -1]  # fmt: skip

    def sync(self) -> None:
        """Nothing to do: this loop reads the weights that were just trained."""
