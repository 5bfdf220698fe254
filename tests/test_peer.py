"""The same numbers in, the same loss and gradient out as TRL's GRPOTrainer, ratios far from 1.

The gradients are compared weight by weight. The KL is TRL's with its default, the ratio in front of
k3. Where a loss has one ratio for a sequence, TRL weighs the KL by that one and we by the token's,
so gspo is compared without a KL.
"""

import pytest
import torch

from minprm.constants import Optim, Sampled
from minprm.data import Sample
from shared.policies import policy

trl = pytest.importorskip("trl", reason='needs trl: pip install ".[dev]"')
datasets = pytest.importorskip("datasets", reason="trl brings it")
PROMPT, LENGTHS, ADVANTAGES = [7, 8, 9], [5, 2, 4], [1.5, -0.7, -1.2]


def moved_policy():
    """A policy that left its base, so that the KL is not zero."""
    p = policy()
    torch.manual_seed(1)
    with torch.no_grad():
        for weight in p.model.parameters():
            weight += 0.05 * torch.randn_like(weight)
    return p


def rows(p) -> list[Sample]:
    """Completions whose old log-probs lie up to e^±1 from the policy's."""
    torch.manual_seed(2)
    out = []
    for n, a in zip(LENGTHS, ADVANTAGES, strict=True):
        ids = torch.randint(3, 12, (n,)).tolist()
        prompt = Sample().extend(PROMPT)
        (l,) = p.logprobs([Sample(parent=prompt).extend(ids, a)])
        old = (l + torch.empty(n).uniform_(-1, 1)).tolist()
        out.append(Sample(parent=prompt).extend(ids, a, old))
    return out


def gradient_of_update(p, samples, cfg, optim, temperature) -> tuple[dict, list[torch.Tensor]]:
    """(what the update logs, the gradient of each weight as the optimizer gets it)."""
    found = []
    p.optimizer.step = lambda: found.extend(weight.grad.clone() for weight in p.model.parameters())
    return p.update(samples, cfg, 0.0, temperature, optim), found


def padded(lists: list[list]) -> torch.Tensor:
    width = max(map(len, lists))
    return torch.tensor([[*x, *[0] * (width - len(x))] for x in lists])


# what TRL calls it, and what it is called here
GSPO = {"loss_type": "grpo", "importance_sampling_level": "sequence", "epsilon": 3e-4,
        "epsilon_high": 4e-4}  # fmt: skip
LOSSES = [
    ({"loss_type": "grpo"}, "ppo_clip", "sequence"),
    ({"loss_type": "dapo"}, "ppo_clip", "token"),
    ({"loss_type": "dr_grpo", "max_completion_length": max(LENGTHS)}, "ppo_clip", "constant"),
    ({"loss_type": "dapo", "delta": 3.0}, "dual_clip", "token"),
    ({"loss_type": "cispo", "epsilon_high": 5.0}, "cispo", "token"),
    ({"loss_type": "sapo"}, "sapo", "sequence"),
]
WITH_KL = [(*loss, 0.3, temperature) for loss in LOSSES for temperature in (1.0, 0.7)]
WITHOUT = [(*loss, 0.0, 1.0) for loss in [*LOSSES, (GSPO, "gspo", "sequence")]]


@pytest.mark.parametrize(
    ("theirs", "loss_name", "aggregation", "kl", "temperature"), [*WITHOUT, *WITH_KL]
)
def test_losses_are_trls(tmp_path, theirs, loss_name, aggregation, kl, temperature):
    p = moved_policy()
    samples = rows(p)
    args = trl.GRPOConfig(
        output_dir=str(tmp_path), report_to="none", use_cpu=True, num_generations=3,
        per_device_train_batch_size=3, bf16=False, gradient_checkpointing=False,
        temperature=temperature, **{"epsilon": 0.2, "epsilon_high": 0.28, **theirs},
    )  # fmt: skip
    peer = trl.GRPOTrainer(
        p.model, lambda completions, **_: [0.0] * len(completions), args=args,
        train_dataset=datasets.Dataset.from_dict({"prompt": ["a"]}), processing_class=p.tokenizer,
    )  # fmt: skip
    peer.beta = kl  # set here, or TRL looks for a reference model on disk
    peer.model.eval()
    ids, old = padded([s.ids for s in samples]), padded([s.logprobs for s in samples])
    mask = padded([s.trained for s in samples]).long()
    prompt = torch.tensor([PROMPT] * len(samples))
    reference = p.logprobs(samples, temperature, base=True)
    inputs = {
        "prompt_ids": prompt, "prompt_mask": torch.ones_like(prompt),
        "completion_ids": ids, "completion_mask": mask, "old_per_token_logps": old,
        "advantages": torch.tensor(ADVANTAGES), "num_items_in_batch": mask.sum(),
        "ref_per_token_logps": padded([x.tolist() for x in reference]),
    }  # fmt: skip
    loss = peer._compute_loss(p.model, inputs)
    wanted = torch.autograd.grad(loss, p.model.parameters())
    cfg = Sampled(loss=loss_name, kl=kl)
    optim = Optim(aggregation=aggregation, max_grad_norm=1e9)
    stats, found = gradient_of_update(p, samples, cfg, optim, temperature)
    assert stats["loss/total"] == pytest.approx(loss.item(), rel=1e-5)
    scale = max(gradient.abs().max() for gradient in wanted)
    for ours, theirs in zip(found, wanted, strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-4, atol=1e-5 * scale)
