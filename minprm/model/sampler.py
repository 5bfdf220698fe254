"""The sampler: the model that writes. Token ids go in; token ids and their log-probs come out.

`Sampler` is a plain loop over the very model that learns. `vllm.VLLM` has the same four methods and
runs a faster engine. Nothing here knows of thoughts, worlds or losses.
"""

import math
from bisect import bisect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import DynamicCache, PreTrainedModel

from minprm.model.adapters import under_adapters
from minprm.model.alone import ALONE, Alone
from minprm.model.blocks import attend
from minprm.model.cache import cache_name, held, keeps_all
from minprm.model.decode import Apart, Together
from minprm.model.precision import autocast

ALIKE = 32  # tokens that all prompts begin with: from here on they are read once for all
LONG = 512  # tokens of a beginning that is kept by itself, by those who score it too (trunks.py)
ROWS = 512  # completions that are written at once, at most
COLDEST = 1e-6  # at a lower temperature logits would overflow
CPU_MEMORY = 2**33  # bytes that are taken for free where there is no GPU to ask


@dataclass
class Completion:
    """The tokens that were drawn after a prompt, and the log-prob of each.

    Where a stop token ended the completion, it is the last of the ids. A log-prob that is not
    finite raises FloatingPointError: further on, NaN means that nobody drew the token.
    """

    ids: list[int]
    logprobs: list[float]

    def __post_init__(self):
        if not all(math.isfinite(logp) for logp in self.logprobs):
            raise FloatingPointError(
                "the sampler wrote a token whose log-prob is not finite: weights or activations "
                "overflow; lower --*.lr, or begin with other weights"
            )


Noise = Callable[[], Tensor]  # a number in [0, 1) for each completion of a batch
Write = Callable[[list[list[int]], Noise], list[Completion]]


class LastCall(NamedTuple):
    """The P different prompts of the last call, and what the model has computed on them."""

    stamp: int  # of the weights that read them
    rows: dict[tuple[int, ...], int]  # the row of each prompt in the tensors
    mask: Tensor  # [P, L], 0 at the padding
    layers: list[tuple[Tensor, Tensor]]  # keys and values, [P, heads, L, head_dim] each


class Sampler:
    """Draws tokens from softmax(logits / temperature) over the whole vocabulary.

    There is no top-k and no top-p, so what is drawn has exactly the log-prob that is trained on.
    """

    def __init__(self, model: PreTrainedModel, own_weights: bool = False, shares: Alone = ALONE):
        """With own_weights it writes by a copy of the weights, which is as old as the last sync.
        shares: as of a Policy."""
        self.shares = shares
        self.learner = model
        self.model = shares.copy_of(model) if own_weights else model
        self.cache_name = cache_name(under_adapters(self.model))
        self.last_call: LastCall | None = None
        # may prompts be read on from those of the last call, and may the completions of a prompt
        # stand in one row behind it? check.py asks the model whether that is right
        self.reuses_cache = keeps_all(model)
        self.branches = self.reuses_cache

    def begin(self) -> None:
        """Starts a new walk over logs or worlds: nothing depends on what was read before it."""
        self.last_call = None
        self.shares.begin()

    def generate(
        self,
        prompts: list[list[int]],
        n: int,
        max_tokens: int,
        stop: list[int],
        temperature: float,
        seed: int | list[int],
    ) -> list[list[Completion]]:
        """n completions for each prompt.

        A completion ends with the first token of `stop`, or after max_tokens. Temperature 0 takes
        the likeliest token at each place. seed: of all noise; or one for each prompt, whose noise
        then does not depend on the prompts beside it.
        """
        self.shares.require_same(prompts)
        self.shares.put_together(self.model)
        device = self.model.device
        noise_of = _noise(seed, n, device)
        prompts_of_all = []
        for prompt in prompts:
            prompts_of_all += [prompt] * n
        longest = max(map(len, prompts), default=0)
        # Completions of a prompt share a copy of it until half of them have stopped (decode.py).
        shared = n > 1 and self.branches
        rows = self._rows_at_once(longest // 2 if shared else longest, max_tokens)
        if n <= rows:
            group = n
            rows -= rows % n  # the completions of a prompt stay together, so it is read once
        else:
            group = 1
            rows = self._rows_at_once(longest, max_tokens)
        write = partial(
            self.write, group=group, max_tokens=max_tokens, stop=stop, temperature=temperature
        )
        completions = []
        with autocast(self.model):
            for first in range(0, len(prompts_of_all), rows):
                if first:
                    self.last_call = None  # of other prompts; its memory is free for these
                batch = prompts_of_all[first : first + rows]
                noise = partial(noise_of, first, len(batch))
                completions += self.shares.complete(batch, noise, write)
        return [completions[i : i + n] for i in range(0, len(completions), n)]

    def _rows_at_once(self, prompt: int, more: int) -> int:
        """How many completions all processes can write at once, of `more` tokens each. prompt: the
        tokens of prompts that are held for each."""
        return min(self.shares.gathered(rows_at_once(self.model, prompt + more)))

    def sleep(self) -> None:
        """Frees the memory of what was read, for the update that follows."""
        self.begin()
        self.shares.let_go(self.model)

    @torch.no_grad()
    def sync(self) -> None:
        """Copies the learner's weights, where the sampler has weights of its own."""
        if self.model is self.learner:
            return
        pairs = zip(self.model.parameters(), self.learner.parameters(), strict=True)
        for own, learned in pairs:
            own.copy_(learned)

    # --- one batch, token by token ---

    @torch.no_grad()
    def write(
        self,
        prompts: list[list[int]],
        noise: Noise,
        group: int,
        max_tokens: int,
        stop: list[int],
        temperature: float,
    ) -> list[Completion]:
        """One completion for each prompt; each `group` prompts in a row are equal.

        noise: gives a number for every completion, also for those that have left the batch. So
        what a completion draws does not depend on when others stop.
        """
        logits, batch = self._prefill(prompts, group, max_tokens - 1)  # the last token is not read
        total = len(prompts)
        device = logits.device
        stops = torch.tensor(stop, device=device)
        ids = torch.zeros(total, max_tokens, dtype=torch.long, device=device)
        logprobs = torch.zeros(total, max_tokens, device=device)
        lengths = torch.full((total,), max_tokens, device=device)  # shorter, once a stop is drawn
        rows = torch.arange(total, device=device)  # the completions that are in the batch
        for t in range(max_tokens):
            token, logp = draw(logits, noise()[rows], temperature)
            ids[rows, t] = token
            logprobs[rows, t] = logp
            # a row that has stopped may stay in the batch; only its first stop counts
            stopped = torch.isin(token, stops) & (lengths[rows] == max_tokens)
            lengths[rows[stopped]] = t + 1
            running = (lengths[rows] == max_tokens).nonzero()[:, 0]
            if len(running) == 0 or t + 1 == max_tokens:
                break
            # making a batch smaller copies its cache, so wait until half of it has stopped
            if 2 * len(running) <= len(rows) or batch.outgrown:
                rows = rows[running]
                token = token[running]
                batch = batch.keep(running, max_tokens - t - 1)
            logits = batch.step(self._forward, token)
        completions = []
        columns = (ids.tolist(), logprobs.tolist(), lengths.tolist())
        for tokens, logps, length in zip(*columns, strict=True):
            completions.append(Completion(tokens[:length], logps[:length]))
        return completions

    def _forward(
        self, ids: Tensor, mask: Tensor, positions: Tensor, cache: DynamicCache, keep: int
    ) -> Tensor:
        """Reads ids behind what the cache holds. The logits after the last `keep` of them.
        [B, new], [B, old + new] or [B, 1, new, old + new], [B, new] -> [B, keep, V]"""
        attend(self.model, None)
        output = self.model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions,
            use_cache=True,
            logits_to_keep=keep,
            **{self.cache_name: cache},
        )
        return output.logits

    # --- prompts: nothing is read twice ---

    def _prefill(
        self, prompts: list[list[int]], group: int, more: int
    ) -> tuple[Tensor, Apart | Together]:
        """(logits after each prompt [B, V], the batch, with room for `more` tokens of each).

        Equal prompts are read once. Where a prompt continues one of the last call, or a long
        beginning of one, only what is new of it is read: the turns of an episode cost what they
        add.
        """
        row_of: dict[tuple[int, ...], int] = {}
        for prompt in prompts:
            row_of.setdefault(tuple(prompt), len(row_of))
        unique = list(row_of)
        stamp = sum(weight._version for weight in self.model.parameters())  # any write raises it
        sizes, mask, cache = self._resume(unique, stamp)
        news = [prompt[size:] for prompt, size in zip(unique, sizes, strict=True)]
        ids, new_mask = _left_padded(news)
        device = mask.device
        mask = torch.cat([mask, new_mask.to(device)], 1)
        positions = (mask.cumsum(1) - 1).clamp(min=0)[:, -ids.shape[1] :]  # padding does not count
        logits = self._forward(ids.to(device), mask, positions, cache, 1)[:, 0]
        if self.reuses_cache:
            self.last_call = LastCall(stamp, row_of, mask, [held(layer) for layer in cache.layers])
        which = torch.tensor([row_of[tuple(prompt)] for prompt in prompts], device=device)
        if group > 1 and self.branches and self.reuses_cache:
            return logits[which], Together(mask, cache, which[::group], group, more)
        return logits[which], Apart(mask, cache, which, more)

    def _resume(
        self, prompts: list[tuple[int, ...]], stamp: int
    ) -> tuple[list[int], Tensor, DynamicCache]:
        """(how many tokens of each prompt are read already, their mask, their cache). Lets go of
        the last call."""
        cached = self._cached(prompts, stamp)
        last = self.last_call
        self.last_call = None
        sizes = [size for _, size in cached]
        if last is None or not any(sizes):
            del last  # or its memory would not be free yet
            return self._begin_alike(prompts)
        rows, kept = torch.tensor(cached, device=last.mask.device).T
        mask = last.mask[rows]
        mask = mask * (mask.cumsum(1) <= kept[:, None])  # hides what does not go on
        cache = DynamicCache(config=self.model.config)
        for number in range(len(last.layers)):
            keys, values = last.layers.pop(0)  # and they are free as soon as they are copied
            cache.update(keys[rows], values[rows], number)
        return sizes, mask, cache

    def _cached(self, prompts: list[tuple[int, ...]], stamp: int) -> list[tuple[int, int]]:
        """(the row of the last call that a prompt goes on from, how many of its tokens were read
        there), for each prompt. Zeros where reading on from there is wrong, or not worth it."""
        nothing = [(0, 0)] * len(prompts)
        last = self.last_call
        if last is None or last.stamp != stamp:  # its keys and values are outdated
            return nothing
        ordered = sorted(last.rows)
        sizes = sorted(set(map(len, ordered)), reverse=True)
        cached = [_goes_on_from(prompt, sizes, ordered, last.rows) for prompt in prompts]
        longest = max(map(len, prompts))
        width = max(len(prompt) - n for prompt, (_, n) in zip(prompts, cached, strict=True))
        # each prompt that is all new makes every row as much wider, by padding: after two of those
        # all is read anew, or the cache would grow by a whole prompt at every step
        if last.mask.shape[1] + width > 2 * longest:
            return nothing
        return cached

    def _begin_alike(
        self, prompts: list[tuple[int, ...]]
    ) -> tuple[list[int], Tensor, DynamicCache]:
        """The same as `_resume` where nothing is cached: reads once what all prompts begin with."""
        count = len(prompts)
        device = self.model.device
        cache = DynamicCache(config=self.model.config)
        shared = _alike(prompts)
        if count == 1 or shared < ALIKE or not self.reuses_cache:
            return [0] * count, torch.zeros(count, 0, dtype=torch.long, device=device), cache
        ids = torch.tensor([prompts[0][:shared]], device=device)
        mask = torch.ones_like(ids)
        once = DynamicCache(config=self.model.config)
        self._forward(ids, mask, mask.cumsum(1) - 1, once, 1)
        for number, layer in enumerate(once.layers):
            keys, values = held(layer)
            cache.update(keys.expand(count, -1, -1, -1), values.expand(count, -1, -1, -1), number)
        return [shared] * count, mask.expand(count, -1), cache


def rows_at_once(model: PreTrainedModel, tokens: int) -> int:
    """How many completions, of `tokens` with their prompts, fit into memory at once.

    It is a power of two: a rerun finds a little more or less memory free, and has to draw the same.
    """
    # half of what is free, because the prompts that were read last are kept beside the batch
    fitting = free_memory(model.device) // 2 // bytes_of_row(model, tokens)
    rows = ROWS
    while rows > max(fitting, 1):
        rows //= 2
    return rows


def bytes_of_row(model: PreTrainedModel, tokens: int) -> int:
    """Keys and values of one completion with its prompt, and its logits, of which `draw` makes
    four tensors in fp32."""
    shape = model.config.get_text_config()
    queries = getattr(shape, "num_attention_heads", 1)  # a recurrent model has none, and no keys
    heads = getattr(shape, "num_key_value_heads", None) or queries
    dim = getattr(shape, "head_dim", None) or shape.hidden_size // queries
    # under autocast prompts stay in the precision of the weights; the batch is rounded
    pair = 2 * heads * dim * model.dtype.itemsize
    return shape.num_hidden_layers * pair * tokens + 4 * 4 * shape.vocab_size


def free_memory(device: torch.device) -> int:
    """Bytes that a batch could take."""
    if device.type != "cuda":
        return CPU_MEMORY
    free, _ = torch.cuda.mem_get_info(device)
    # what torch holds and does not use is free as well
    return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)


def draw(logits: Tensor, uniform: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """(tokens, their log-probs), by inverting the distribution.  [B, V], [B] -> [B], [B]

    The token is drawn at which the cumulative probability passes a number that is uniform in
    [0, 1). At temperature 0, or near it, it is the likeliest token, with its log-prob at
    temperature 1.

    >>> draw(torch.tensor([[0.0, 0.0], [0.0, 0.0]]), torch.tensor([0.4, 0.6]), 1.0)
    (tensor([0, 1]), tensor([-0.6931, -0.6931]))
    """
    if temperature < COLDEST:
        all_logp = logits.float().log_softmax(-1)
        token = all_logp.argmax(-1)
    else:
        all_logp = (logits.float() / temperature).log_softmax(-1)
        cumulative = all_logp.exp().cumsum(-1)
        # the sum of all probabilities is not exactly 1
        threshold = (uniform * cumulative[:, -1])[:, None]
        token = torch.searchsorted(cumulative, threshold, right=True)[:, 0]
        token = token.clamp(max=logits.shape[1] - 1)  # NaN passes no number; Completion refuses it
    return token, all_logp.gather(1, token[:, None])[:, 0]


def _noise(seed: int | list[int], n: int, device: torch.device) -> Callable[[int, int], Tensor]:
    """The function of (number of the first row, rows) that gives each row its next number."""
    if isinstance(seed, int):
        generator = torch.Generator(device).manual_seed(seed)
        return lambda _, rows: torch.rand(rows, generator=generator, device=device)
    generators = []  # on the CPU, from which all numbers of a batch come in one piece
    for of_prompt in seed:
        generators += [torch.Generator().manual_seed(of_prompt)] * n

    def own(first: int, rows: int) -> Tensor:
        numbers = [torch.rand(1, generator=g) for g in generators[first : first + rows]]
        return torch.cat(numbers).to(device)

    return own


def _alike(prompts: list[tuple[int, ...]]) -> int:
    """How many tokens all prompts begin with; the last of each is not counted."""
    first, last = min(prompts), max(prompts)
    size = 0
    for one, other in zip(first, last, strict=False):
        if one != other:
            break
        size += 1
    return min(size, min(len(prompt) for prompt in prompts) - 1)


def _goes_on_from(
    prompt: tuple[int, ...],
    sizes: list[int],
    ordered: list[tuple[int, ...]],
    rows: dict[tuple[int, ...], int],
) -> tuple[int, int]:
    """(the row of the cached prompt that this one goes on from, how many tokens both begin with):
    of the longest that it has as its beginning, or of one that has a longer and LONG beginning in
    common with it. sizes: of the cached ones, falling; ordered: they, as tuples compare.

    >>> _goes_on_from((1, 2, 3), [2, 1], [(1,), (1, 2)], {(1, 2): 0, (1,): 1})
    (0, 2)
    """
    row = most = 0
    for size in sizes:
        if size < len(prompt) and prompt[:size] in rows:
            row, most = rows[prompt[:size]], size
            break
    if len(prompt) <= LONG:
        return row, most
    place = bisect(ordered, prompt)
    for neighbour in ordered[max(place - 1, 0) : place + 1]:  # one of the two begins most alike
        size = _alike([prompt, neighbour])
        if size >= LONG and size > most:
            row, most = rows[neighbour], size
    return row, most


def _left_padded(prompts: list[tuple[int, ...]]) -> tuple[Tensor, Tensor]:
    """(ids, mask), 0 at the padding. All prompts end in the last column.  [P, L], [P, L]"""
    rows = list(map(torch.tensor, prompts))
    ones = list(map(torch.ones_like, rows))
    ids = pad_sequence(rows, batch_first=True, padding_side="left")
    return ids, pad_sequence(ones, batch_first=True, padding_side="left")
