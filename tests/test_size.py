"""What larger models need: adapters, precisions that learn, gradients that are computed anew."""

import pytest
import torch
from transformers import AutoModelForCausalLM

from minprm.constants import Optim, Sampled
from minprm.data import Sample
from minprm.load.pretrained import load_model
from minprm.model import reading as module
from minprm.model.policy import Policy
from shared.policies import SAMPLES, policy, sample, weights


@pytest.fixture
def saved(tmp_path):
    p = policy()
    p.save(tmp_path / "model")
    return p, tmp_path / "model"


def test_bf16_weights_do_not_move_at_1e_6_and_fp32_weights_do(saved):
    cfg = Sampled()
    moved = {}
    for dtype in (torch.bfloat16, torch.float32):
        model = AutoModelForCausalLM.from_pretrained(saved[1], dtype=dtype)
        p = Policy(model, saved[0].tokenizer, 10_000)
        before = weights(p)
        p.update(SAMPLES, cfg, lr=1e-6)
        moved[dtype] = (weights(p) != before).float().mean().item()
    assert moved[torch.bfloat16] < 0.1 < 0.9 < moved[torch.float32]


@pytest.mark.extras
def test_adapters_are_fp32_on_a_bf16_base_and_only_they_are_trained(saved):
    pytest.importorskip("peft", reason='needs peft: pip install ".[lora]"')
    p = Policy(load_model(saved[1], lora=4), saved[0].tokenizer, 10_000)
    assert {x.dtype for x in p.parameters.values()} == {torch.float32}
    assert all("lora_" in name or name == "critic" for name in p.parameters)
    frozen = {n: x.clone() for n, x in p.model.named_parameters() if not x.requires_grad}
    assert {x.dtype for x in frozen.values()} == {torch.bfloat16}
    before = p.logprobs(SAMPLES)
    stats = p.update(SAMPLES, Sampled(), lr=1e-2)
    assert stats["policy/moved"] > 0
    after, base = p.logprobs(SAMPLES), p.logprobs(SAMPLES, base=True)
    assert not torch.allclose(torch.cat(after), torch.cat(before))
    assert torch.equal(torch.cat(base), torch.cat(before))  # the adapter off is the base
    assert all(torch.equal(x, frozen[n]) for n, x in p.model.named_parameters() if n in frozen)
    p.restart()
    assert torch.equal(torch.cat(p.logprobs(SAMPLES)), torch.cat(before))


def test_chunks_and_checkpoints_change_neither_values_nor_gradients(saved, monkeypatch):
    def updated(checkpointing, chunk):
        monkeypatch.setattr(module, "CHUNK", chunk)
        model = load_model(saved[1], checkpointing=checkpointing)
        p = Policy(model, saved[0].tokenizer, 10_000)
        stats = p.update(SAMPLES, Sampled(), 1e-3, optim=Optim(max_grad_norm=1e9))
        return stats["loss/total"], stats["policy/grad_norm"], weights(p)

    plain, careful = updated(False, 2**27), updated(True, 40)
    assert careful[0] == pytest.approx(plain[0], rel=1e-5)
    assert careful[1] == pytest.approx(plain[1], rel=1e-5)
    assert torch.allclose(careful[2], plain[2], atol=1e-5)


def test_tokens_that_are_predicted_at_one_place_share_a_distribution(monkeypatch):
    """After a state: two thoughts that were drawn at temperature .5, begin alike and part, and an
    expert's action, which is scored at 1."""
    state = Sample().extend([1, 2, 3])
    samples = [sample([4, 5, 6], old=-1.0, advantage=0.5, parent=state),
               sample([4, 7], old=-1.0, advantage=-1.0, parent=state),
               sample([4, 6], advantage=2.0, parent=state)]  # fmt: skip

    def updated(read, chunk):
        monkeypatch.setattr(module, "READ", read)
        monkeypatch.setattr(module, "CHUNK", chunk)
        p = policy()
        rows = []
        head = p.model.get_output_embeddings()
        head.register_forward_pre_hook(lambda _, given: rows.append(given[0].numel() // 32))
        readings = p.readings(samples, temperature=0.5, likely=2)
        stats = p.update(samples, Sampled(), 1e-3, 0.5, optim=Optim(max_grad_norm=1e9))
        return readings, stats["policy/grad_norm"], weights(p), rows

    plain, shared, chunked = updated(2**25, 2**27), updated(0, 2**27), updated(0, 1)
    # after the state at either temperature, after the first word at either, after the second
    assert plain[3] == [7, 7] and shared[3] == [1] * 5 + [5] and set(chunked[3]) == {1}
    for other in (shared, chunked):
        for one, same in zip(plain[0], other[0], strict=True):
            for a, b in zip(one, same, strict=True):
                assert torch.allclose(a.float(), b.float(), atol=1e-5)
        assert other[1] == pytest.approx(plain[1], rel=1e-5)
        assert torch.allclose(other[2], plain[2], atol=1e-5)
