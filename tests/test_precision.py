"""Memory and precision of the plain sampler: what fits is written, and scored as it was written.

bf16 is for a GPU and for large models; here it is switched on for a small one, which rounds in the
same places.
"""

import random
from types import SimpleNamespace

import pytest
import torch
from torch.nn import functional

from minprm.data import Sample
from minprm.load.pretrained import load_model
from minprm.model import precision
from minprm.model import sampler as module
from minprm.model.cache import GrowingLayer
from minprm.model.policy import Policy
from minprm.model.sampler import ROWS, Sampler, bytes_of_row, rows_at_once
from shared.policies import policy, sample

PROMPTS = [[3, 4, 5, 6], [7], [8, 9, 1]]


def everywhere(model) -> bool:
    """Stands for `in_bf16`."""
    return True


@pytest.fixture
def loaded(tmp_path) -> Policy:
    """A model as it comes from disk, with logits that are far from 0."""
    p = policy()
    with torch.no_grad():
        for weight in p.model.parameters():
            weight.mul_(3.0)
    p.save(tmp_path / "model")
    return Policy(load_model(tmp_path / "model"), p.tokenizer, 10_000)


def gap(p: Policy, prompts=PROMPTS, n: int = 4) -> float:
    """max |log-prob of the sampler - log-prob of the trainer| over everything drawn."""
    groups = Sampler(p.model).generate(prompts, n, 8, [], 1.0, 0)
    widest = 0.0
    for prompt, group in zip(prompts, groups, strict=True):
        for c in group:
            rest = sample(c.ids, old=0.0, parent=sample(prompt, [False] * len(prompt)))
            (logp,) = p.logprobs([rest])
            widest = max(widest, (logp - torch.tensor(c.logprobs)).abs().max().item())
    return widest


def test_what_is_written_in_bf16_is_scored_in_bf16(loaded, monkeypatch):
    exact = Sampler(loaded.model).generate(PROMPTS, 4, 8, [], 1.0, 0)
    with monkeypatch.context() as patch:
        patch.setattr(precision, "in_bf16", everywhere)
        assert Sampler(loaded.model).generate(PROMPTS, 4, 8, [], 1.0, 0) != exact
    # a sum that differs in its last bit may round to the next number of bf16, on some processors
    written, rounding = gaps(loaded, monkeypatch, together=False)
    assert written < rounding / 4


def gaps(p: Policy, monkeypatch, together: bool) -> tuple[float, float]:
    """Mean distance of the trainer in bf16 from the sampler in bf16, and from itself in fp32."""
    rng = random.Random(0)
    prompts = [rng.choices(range(2, 16), k=12 - short) for short in range(4)]
    writer = Sampler(p.model)
    writer.reuses_cache = together
    samples = []
    with monkeypatch.context() as patch:
        patch.setattr(precision, "in_bf16", everywhere)
        for prompt, group in zip(prompts, writer.generate(prompts, 8, 12, [], 1.0, 0), strict=True):
            state = sample(prompt, [False] * len(prompt))
            samples += [Sample(parent=state).extend(c.ids, 0.0, c.logprobs) for c in group]
        scored = torch.cat(p.logprobs(samples))
    written = torch.tensor([logp for each in samples for logp in each.logprobs])
    exact = torch.cat(p.logprobs(samples))
    return (scored - written).abs().mean().item(), (scored - exact).abs().mean().item()


def test_in_bf16_completions_that_stand_together_are_as_near_to_the_trainer_as_those_apart(
    loaded, monkeypatch
):
    """Their sums have another order than the trainer's, either way; on average that is little
    beside what bf16 takes from both."""
    together, rounding = gaps(loaded, monkeypatch, together=True)
    apart, _ = gaps(loaded, monkeypatch, together=False)
    assert together < rounding / 4 and together < 2 * apart


@pytest.mark.parametrize("able", [True, False])
def test_a_large_model_computes_in_bf16_where_the_processor_does(monkeypatch, able):
    monkeypatch.setattr(precision, "cpu_has_bf16", lambda: able)
    weights = torch.empty(precision.LARGE, device="meta")
    on_cpu, on_gpu = (
        SimpleNamespace(device=torch.device(kind), parameters=lambda: [weights])
        for kind in ("cpu", "cuda")
    )
    assert precision.in_bf16(on_cpu) == able and precision.in_bf16(on_gpu)
    assert not precision.in_bf16(policy().model)


def test_what_was_read_is_held_in_the_precision_of_attention(loaded, monkeypatch):
    """transformers holds keys in fp32 under autocast: they were rounded anew at every token."""
    held = set()
    update = GrowingLayer.update

    def watched(layer, *states, **options):
        held.add(layer.keys.dtype)
        return update(layer, *states, **options)

    monkeypatch.setattr(GrowingLayer, "update", watched)
    for wanted in (torch.float32, torch.bfloat16):
        held.clear()
        Sampler(loaded.model).generate(PROMPTS, 4, 8, [], 1.0, 0)
        assert held == {wanted}
        monkeypatch.setattr(precision, "in_bf16", everywhere)


def test_the_output_layer_computes_in_fp32(loaded, monkeypatch):
    monkeypatch.setattr(precision, "in_bf16", everywhere)
    head = loaded.model.get_output_embeddings()
    hidden = torch.randn(5, head.in_features)
    with precision.autocast(loaded.model):
        logits = head(hidden)
        rounded = functional.linear(hidden, head.weight)
    assert logits.dtype == torch.float32 and rounded.dtype == torch.bfloat16
    assert torch.equal(logits, functional.linear(hidden, head.weight))
    head.to(torch.bfloat16)
    assert torch.equal(head(hidden.bfloat16()), hidden.bfloat16().float() @ head.weight.float().T)


def test_a_row_is_as_large_as_what_the_model_keeps_of_it():
    p = policy()
    writer = Sampler(p.model)
    writer.generate([[1, 2, 3, 4, 5]], 1, 1, [], 1.0, 0)
    kept = sum(keys.nbytes + values.nbytes for keys, values in writer.last_call.layers)
    logits = 4 * 4 * p.model.config.vocab_size
    assert bytes_of_row(p.model, tokens=5) == kept + logits


def test_rows_are_a_power_of_two_that_fits_half_of_what_is_free(monkeypatch):
    model = policy().model
    row = bytes_of_row(model, tokens=100)
    for free, rows in ((1e15, ROWS), (2 * 100 * row, 64), (2 * 64 * row, 64), (2 * row, 1), (0, 1)):
        monkeypatch.setattr(module, "free_memory", lambda device, free=free: int(free))
        assert rows_at_once(model, tokens=100) == rows


@pytest.mark.parametrize("rows", [1, 4, 8])
def test_no_more_rows_are_written_at_once_than_fit(monkeypatch, rows):
    """Of three prompts with three completions each; with 4 and 8 no group is torn apart. Those of a
    group share a prompt, so each counts half of one."""
    p = policy()
    row = bytes_of_row(p.model, tokens=(4 if rows == 1 else 2) + 8)
    monkeypatch.setattr(module, "free_memory", lambda device: 2 * rows * row)
    writer, sizes, held = Sampler(p.model), [], []
    write = writer.write

    def watched(prompts, noise, **how):
        sizes.append(len(prompts))
        held.append(writer.last_call)
        return write(prompts, noise, **how)

    writer.write = watched
    groups = writer.generate(PROMPTS, 3, 8, [], 1.0, 0)
    assert sizes == {1: [1] * 9, 4: [3, 3, 3], 8: [6, 3]}[rows]
    assert held == [None] * len(sizes)  # the memory of the rows before is free
    assert [len(group) for group in groups] == [3, 3, 3]
    assert gap(p) < 1e-4
    assert len({tuple(c.ids) for group in groups for c in group}) == 9  # each with its own noise
