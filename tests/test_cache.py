"""The sampler's cache grows in place, and what is drawn is what transformers' cache would give."""

import pytest
import torch
from torch import Tensor
from transformers import DynamicCache, Gemma2Config, MistralConfig
from transformers.cache_utils import DynamicSlidingWindowLayer

from minprm.model import decode
from minprm.model import sampler as module
from minprm.model.cache import GrowingLayer, choose, held
from minprm.model.sampler import Sampler, bytes_of_row
from shared.policies import policy

PROMPTS = [[1, 2, 3, 4, 5, 6], [7], [8, 9, 1]]
SIZES = {"hidden_size": 8, "num_attention_heads": 2, "num_key_value_heads": 1,
         "num_hidden_layers": 2, "head_dim": 4, "sliding_window": 3}  # fmt: skip


@pytest.fixture
def caches(monkeypatch) -> list[DynamicCache]:
    """The cache of each choice of rows, as it is in the end."""
    found = []

    def watched(cache, *how):
        choose(cache, *how)
        found.append(cache)

    monkeypatch.setattr(decode, "choose", watched)
    return found


def storages(layers: list[tuple[Tensor, Tensor]]) -> set[int]:
    """Where the memory of these keys and values begins."""
    return {x.untyped_storage().data_ptr() for pair in layers for x in pair}


@pytest.mark.parametrize("stops", [[], [2, 7, 9]])  # with stops the batch becomes smaller
def test_what_is_drawn_is_to_the_digit_what_a_cache_that_is_copied_gives(monkeypatch, stops):
    p, prompts = policy(), [prompt for prompt in PROMPTS for _ in range(5)]
    in_place = Sampler(p.model).generate(prompts, 1, 12, stops, 1.0, seed=4)
    monkeypatch.setattr(decode, "choose", lambda cache, rows, *_: cache.reorder_cache(rows))
    assert Sampler(p.model).generate(prompts, 1, 12, stops, 1.0, seed=4) == in_place


@pytest.mark.parametrize("n", [1, 2])
def test_a_token_is_written_where_the_room_is_and_nothing_is_copied(caches, n):
    model = policy().model
    places = []
    model.register_forward_hook(
        lambda *_: places.append(storages(map(held, caches[0].layers)) if caches else None)
    )
    Sampler(model).generate([[1, 2, 3, 4, 5, 6, 7, 8], [9]], n, 8, [], 1.0, 0)
    assert places[0] is None and len(places) == 8  # the prompts, then seven tokens
    assert all(place == places[1] for place in places[2:])


def test_kept_prompts_share_no_memory_with_what_is_drawn_after_them(caches):
    """Also where each prompt has one completion, and no row would have to be copied."""
    writer = Sampler(policy().model)
    writer.generate(PROMPTS, 1, 8, [], 1.0, 0)
    (cache,) = caches
    kept = writer.last_call.layers
    assert storages(kept).isdisjoint(storages(map(held, cache.layers)))
    assert [keys.shape[2] for keys, _ in kept] == [6, 6]


@pytest.mark.parametrize("more", [[10, 11], []])
def test_the_prompts_of_the_last_call_are_let_go_when_they_are_read_on_from(more):
    """Or, where nothing goes on from them, before others are read."""
    writer = Sampler(policy().model)
    writer.generate(PROMPTS, 1, 8, [], 1.0, 0)
    last = writer.last_call
    goes_on = [prompt + more for prompt in PROMPTS] if more else [[4, 5]]
    before = [writer.last_call is last]
    writer.model.register_forward_hook(lambda *_: before.append(writer.last_call is last))
    writer.generate(goes_on, 1, 8, [], 1.0, 0)
    assert before[:2] == [True, False]
    assert len(last.layers) == (0 if more else 2)


@pytest.mark.parametrize("tokens", [1, 8])
def test_the_room_is_counted_before_it_is_taken(caches, tokens):
    """All but the last token drawn are read, so that one has no room. Where three completions stand
    together, they have one prompt."""
    p = policy()
    head = 4 * 4 * p.model.config.vocab_size
    for n in (1, 3):
        caches.clear()
        Sampler(p.model).generate([PROMPTS[0]], n, tokens, [], 1.0, 0)
        taken = sum(room.nbytes for layer in caches[0].layers for room in layer.rooms)
        token = bytes_of_row(p.model, 1) - head
        assert taken == (len(PROMPTS[0]) + n * (tokens - 1)) * token
        assert taken <= n * bytes_of_row(p.model, len(PROMPTS[0]) + tokens)


def test_a_batch_that_becomes_smaller_takes_room_for_what_is_left_only(caches):
    cache = DynamicCache()
    cache.update(torch.rand(4, 2, 6, 16), torch.rand(4, 2, 6, 16), 0)
    keys, values = held(cache.layers[0])
    choose(cache, torch.tensor([3, 1]), more=5)
    new = torch.rand(2, 2, 1, 16)
    cache.update(new, new, 0)
    choose(cache, torch.tensor([1]), more=2)
    assert [room.shape for room in cache.layers[0].rooms] == [(1, 2, 6 + 1 + 2, 16)] * 2
    for old, found in zip((keys, values), held(cache.layers[0]), strict=True):
        assert torch.equal(found, torch.cat([old[1:2], new[1:]], 2))


def test_layers_that_forget_stay_as_they_are():
    for config, kinds in (
        (MistralConfig(**SIZES), [DynamicSlidingWindowLayer, DynamicSlidingWindowLayer]),
        (Gemma2Config(**SIZES), [DynamicSlidingWindowLayer, GrowingLayer]),
    ):
        cache = DynamicCache(config=config)
        for number in range(2):
            cache.update(torch.rand(2, 1, 5, 4), torch.rand(2, 1, 5, 4), number)
        choose(cache, torch.tensor([1, 0, 0]), more=4)
        assert [type(layer) for layer in cache.layers] == kinds
        assert {len(held(layer)[0]) for layer in cache.layers} == {3}


def test_prompts_that_part_from_the_last_ones_go_on_from_a_long_beginning(monkeypatch):
    """As where a history leaves a thought out."""
    calls = [
        [[1, 2, 3, 4, 5, 6], [7, 8, 9, 1]],
        [[1, 2, 3, 4, 9, 9, 9], [7, 8, 9, 1, 2], [7, 8, 2, 2]],  # the last has a short beginning
        [[1, 2, 3, 4, 9, 3, 3, 3], [7, 8, 9, 1, 5], [7, 8, 2, 2, 6]],
    ]
    pad = module._left_padded
    news = []
    monkeypatch.setattr(module, "_left_padded", lambda rows: news.append(rows) or pad(rows))

    def written(long):
        monkeypatch.setattr(module, "LONG", long)
        writer = Sampler(policy().model)
        news.clear()
        groups = []
        for prompts in calls:
            groups += writer.generate(prompts, 2, 3, [], 1.0, 0)
        return groups, [[len(new) for new in batch] for batch in news]

    plain, read = written(10**6)
    assert read == [[6, 4], [7, 1, 4], [8, 5, 5]]  # at last all, as rows were padded too far
    shared, read = written(3)
    assert read == [[6, 4], [3, 1, 4], [3, 1, 1]]
    for one, other in zip(plain, shared, strict=True):
        for a, b in zip(one, other, strict=True):
            assert a.ids == b.ids and a.logprobs == pytest.approx(b.logprobs, abs=1e-5)
