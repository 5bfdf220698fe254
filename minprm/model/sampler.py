"""The model that writes: a plain KV-cache loop over the very model that learns, or vLLM.

Ids in, ids and log-probs out. Nothing here knows of thoughts, worlds or losses.
"""

import os
import tempfile
import zlib
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import torch
from transformers import DynamicCache, PreTrainedModel

from minprm.constants import Engine, fail
from minprm.model.tree import attend


@dataclass
class Completion:
    """What was drawn after a prompt, the stopping token included, and each token's log-prob."""

    ids: list[int]
    logprobs: list[float]


class Sampler:
    """Draws at logits / temperature from the whole vocabulary: what is drawn is what is scored."""

    def __init__(self, model: PreTrainedModel, rows: int = 512, apart: bool = False):
        """apart: writes by a copy of the weights, as old as the last sync."""
        self.trained, self.rows = model, rows
        self.model = deepcopy(model) if apart else model
        self.kept: tuple | None = None  # what the last call read: the next one may go on from it

    def begin(self) -> None:
        """A new walk over logs or worlds: what is drawn does not depend on the walk before."""
        self.kept = None

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
        noise = torch.Generator(self.model.device).manual_seed(seed)
        per_batch, out = max(self.rows // n, 1), []
        for i in range(0, len(prompts), per_batch):
            flat = self._batch(prompts[i : i + per_batch], n, max_tokens, stop, temperature, noise)
            out += [flat[j : j + n] for j in range(0, len(flat), n)]
        return out

    @torch.no_grad()
    def _batch(self, prompts, n, max_tokens, stop, temperature, noise) -> list[Completion]:
        logits, mask, cache = self._read([prompt for prompt in prompts for _ in range(n)])
        total, device = len(prompts) * n, mask.device
        rows = torch.arange(total, device=device)  # those that are still in the batch
        ids = torch.zeros(total, max_tokens, dtype=torch.long, device=device)
        logprobs = torch.zeros(total, max_tokens, device=device)
        lengths = torch.full((total,), max_tokens, device=device)
        stops = torch.tensor(stop, device=device)
        for t in range(max_tokens):
            l = (logits.float() / (temperature or 1.0)).log_softmax(-1)  # [rows, V]
            # one number a row, also for rows that have left: noise does not depend on who stops
            u = torch.rand(total, generator=noise, device=device)[rows]
            token = _drawn(l, u) if temperature else l.argmax(-1)
            ids[rows, t], logprobs[rows, t] = token, l.gather(1, token[:, None])[:, 0]
            ended = torch.isin(token, stops) & (lengths[rows] == max_tokens)
            lengths[rows[ended]] = t + 1
            live = (lengths[rows] == max_tokens).nonzero()[:, 0]
            if not len(live) or t + 1 == max_tokens:
                break
            if 2 * len(live) <= len(rows):  # what is finished leaves the batch
                rows, token, mask = rows[live], token[live], mask[live]
                cache.batch_select_indices(live)
            mask = torch.cat([mask, torch.ones_like(mask[:, :1])], 1)
            logits = self._step(token[:, None], mask, mask.sum(1, keepdim=True) - 1, cache)
        cut = zip(ids.tolist(), logprobs.tolist(), lengths.tolist(), strict=True)
        return [Completion(ids[:k], logprobs[:k]) for ids, logprobs, k in cut]

    def _read(self, prompts: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor, DynamicCache]:
        """(logits after each prompt, mask, cache). Equal prompts are read once, and of a prompt
        that goes on where one of the last call ended only what is new."""
        unique = {tuple(prompt): i for i, prompt in enumerate(dict.fromkeys(map(tuple, prompts)))}
        stamp = sum(w._version for w in self.model.parameters())  # any write to them raises it
        known, mask, cache = self._begun(list(unique), stamp)
        width, device = max(len(p) - n for p, n in zip(unique, known, strict=True)), mask.device
        ids = torch.zeros(len(unique), width, dtype=torch.long)  # [P, L], padded on the left
        new = torch.zeros_like(ids)
        for b, (prompt, n) in enumerate(zip(unique, known, strict=True)):
            ids[b, width - len(prompt) + n :] = torch.tensor(prompt[n:])
            new[b, width - len(prompt) + n :] = 1
        mask = torch.cat([mask, new.to(device)], 1)
        positions = (mask.cumsum(1) - 1).clamp(min=0)[:, -width:]
        logits = self._step(ids.to(device), mask, positions, cache)
        self.kept = stamp, unique, mask, [(layer.keys, layer.values) for layer in cache.layers]
        which = torch.tensor([unique[tuple(prompt)] for prompt in prompts], device=device)
        cache.batch_select_indices(which)
        return logits[which], mask[which], cache

    def _begun(
        self, prompts: list[tuple], stamp: int
    ) -> tuple[list[int], torch.Tensor, DynamicCache]:
        """How much of each prompt the last call read, mask and cache of that; kept only while no
        weight was written to."""
        cache, old = DynamicCache(config=self.model.config), {}
        if self.kept and self.kept[0] == stamp:
            _, old, mask, layers = self.kept
        sizes = sorted({len(prompt) for prompt in old}, reverse=True)
        known = [next((n for n in sizes if n < len(p) and p[:n] in old), 0) for p in prompts]
        if not any(known):
            return (
                known,
                torch.zeros(len(prompts), 0, dtype=torch.long, device=self.model.device),
                cache,
            )
        rows = torch.tensor([old.get(p[:n], 0) for p, n in zip(prompts, known, strict=True)])
        rows, found = rows.to(mask.device), torch.tensor(known, device=mask.device) > 0
        for i, (keys, values) in enumerate(layers):
            cache.update(keys[rows], values[rows], i)
        return known, mask[rows] * found[:, None], cache

    def _step(self, ids, mask, positions, cache) -> torch.Tensor:
        """Logits after the last token of each row.  [B, V]"""
        attend(self.model, None)
        return self.model(
            input_ids=ids, attention_mask=mask, position_ids=positions,
            past_key_values=cache, use_cache=True, logits_to_keep=1,
        ).logits[:, -1]  # fmt: skip

    def sleep(self) -> None:
        """Gives the memory of what was read to the update."""
        self.begin()

    @torch.no_grad()
    def sync(self) -> None:
        """Copies the trained weights where it has its own; else it reads them anyway."""
        if self.model is not self.trained:
            pairs = zip(self.model.parameters(), self.trained.parameters(), strict=True)
            for copy, weight in pairs:
                copy.copy_(weight)


class VLLM:
    """vLLM in this process, behind the same two methods. Nothing else in minprm imports it.

    The engine is started from the configuration alone, with weights of no meaning: the first sync
    brings the real ones, by the only path that there is. Its noise depends on how requests are
    batched on a GPU, so a bit-equal rerun is promised for `Sampler` alone.
    """

    def __init__(self, model: PreTrainedModel, cfg: Engine, context: int):
        self.model, self.cfg = model, cfg
        plain = model.get_base_model() if hasattr(model, "peft_config") else model
        plain.config.architectures = [type(plain).__name__]
        config = plain.config.to_json_string(use_diff=False)
        self.llm = _engine(config, cfg.memory, context, cfg.sleep)
        self.sync()

    def begin(self) -> None:
        """Nothing to do: its prefix cache is dropped with the weights that it is of."""

    def generate(
        self,
        prompts: list[list[int]],
        n: int,
        max_tokens: int,
        stop: list[int],
        temperature: float,
        seed: int,
    ) -> list[list[Completion]]:
        """As `Sampler.generate`. Prompts share what they have in common by the prefix cache."""
        from vllm import SamplingParams

        # equal prompts with equal seeds give equal samples, and a request's n take seed, seed + 1 …
        seeds = [zlib.crc32(f"{seed} {i}".encode()) for i in range(len(prompts))]
        drawn = dict(n=n, max_tokens=max_tokens, temperature=temperature, top_p=1.0, top_k=-1)
        ends = dict(stop_token_ids=stop, ignore_eos=True, logprobs=0, detokenize=False)
        params = [SamplingParams(**drawn, **ends, seed=s) for s in seeds]
        requests = [{"prompt_token_ids": prompt} for prompt in prompts]
        answers = self.llm.generate(requests, params, use_tqdm=False)
        return [[_completion(c) for c in answer.outputs] for answer in answers]

    def sleep(self) -> None:
        """Gives the engine's memory to the update; `sync` wakes it."""
        if self.cfg.sleep:
            self.llm.sleep(level=2)
            assert self.llm.llm_engine.is_sleeping()

    def sync(self) -> None:
        """Copies the trained weights into the engine, and forgets what it cached of the old ones.

        Raises whatever fails: an engine with stale weights writes without a word of warning.
        """
        if self.cfg.sleep and self.llm.llm_engine.is_sleeping():
            self.llm.wake_up(tags=["weights"])
        kwargs = {"weights_iterator": weights(self.model)}
        self.llm.collective_rpc("reload_weights", kwargs=kwargs)
        if self.model.config.tie_word_embeddings and not torch.cuda.is_available():
            self.llm.apply_model(_repack_head)
        if self.cfg.sleep and self.llm.llm_engine.is_sleeping():
            self.llm.wake_up(tags=["kv_cache"])
            assert not self.llm.llm_engine.is_sleeping()
        if not self.llm.reset_prefix_cache():
            raise RuntimeError("vLLM kept its prefix cache: log-probs would be of old weights")


@cache
def _engine(config: str, memory: float, context: int, sleep: bool):
    """One engine a process and shape of model: its memory is not given back."""
    os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")  # weights change hands in memory
    from vllm import LLM

    room = {"gpu_memory_utilization": memory, "dtype": "bfloat16"}
    if not torch.cuda.is_available():
        room = {"kv_cache_memory_bytes": 2**28, "dtype": "float32", "enforce_eager": True}
        room["enable_chunked_prefill"] = False  # on a CPU it breaks requests that have a seed
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(config)
        return LLM(
            model=folder, load_format="dummy", skip_tokenizer_init=True, max_model_len=context,
            logprobs_mode="processed_logprobs",  # at the temperature that was sampled at
            enable_sleep_mode=sleep, disable_log_stats=True, **room,
        )  # fmt: skip


@torch.no_grad()
def weights(model: PreTrainedModel) -> Iterator[tuple[str, torch.Tensor]]:
    """(name, weight) as the base model has them; adapters are merged on the way, in fp32.

    Chosen over vLLM's own adapters, whose kernels cost at every token (benchmarks/sync.py): one
    path for all models.
    """
    modules = dict(model.named_modules())
    for name, weight in [*model.named_parameters()]:
        if ".lora_" in name:
            continue
        module = modules[name.rpartition(".")[0].removesuffix(".base_layer")]
        if hasattr(module, "get_delta_weight") and name.endswith("base_layer.weight"):
            weight = weight.float() + module.get_delta_weight("default").float()
        yield name.removeprefix("base_model.model.").replace(".base_layer", ""), weight


def _completion(output) -> Completion:
    ids = list(output.token_ids)
    rows = zip(output.logprobs, ids, strict=True)
    return Completion(ids, [row[i].logprob for row, i in rows])


def _repack_head(model) -> None:
    """On a CPU a tied head keeps a packed copy of the embedding: make it anew."""
    model.lm_head.quant_method.process_weights_after_loading(model.lm_head)


def _drawn(l: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
    """The token at which the cumulative probability passes u.  [B, V], [B] -> [B]"""
    total = l.exp().cumsum(-1)
    return torch.searchsorted(total, (u * total[:, -1])[:, None], right=True)[:, 0]


def make_sampler(
    model: PreTrainedModel, name: str, cfg: Engine, context: int, apart: bool = False
) -> Sampler | VLLM:
    """The sampler of that name; auto: vLLM where it is installed and a GPU is there."""
    installed = find_spec("vllm") is not None
    if name == "vllm" and not installed:
        fail('--sampler vllm: it is not installed; pip install -e ".[vllm]", or use transformers')
    if name == "vllm" or (name == "auto" and installed and torch.cuda.is_available()):
        return VLLM(model, cfg, context)
    return Sampler(model, apart=apart)
