"""How fast a run is, and what share of the card's arithmetic it uses.

Tokens of an update are those that its Samples hold: a prefix that several of them share counts
once, and each pass over them counts anew. Two numbers come from one clock reading each: tokens that
the sampler drew over the seconds of sampling, and tokens that were learned from over the seconds of
the update.

MFU, the model FLOPs utilisation of PaLM (arXiv:2204.02311, appendix B): the arithmetic that the
update of a model cannot do without, over what the card, or those of all processes, could do in the
same time.

    a weight           2 FLOPs a token in the forward pass, 2 backward to the activations, and 2 to
                       its own gradient where it is trained: 6 N in all, 4 N under adapters
    the output layer   the same, at the tokens whose log-prob is read
    attention          12 FLOPs for each pair of tokens of which one sees the other, a layer and a
                       unit of all heads' width

Not counted: the optimizer, what gradient checkpointing computes again, a reference model, and all
that the sampler does. Of a mixture of experts all experts are counted, which is too many.
"""

import re

import torch

from minprm.constants import Training
from minprm.data import Sample
from minprm.model.policy import Policy
from minprm.model.precision import output_layer
from minprm.model.tree import numbered_paths
from minprm.run.events import Event, Updated
from minprm.trainer import Run

# Peak FLOPs a second in bf16 with fp32 sums and without sparsity, in 10^12: NVIDIA's data sheets.
# A card is known by the words in its name; of several that fit, the first.
PEAK = {
    "B200": 2250, "H200": 989, "H100 PCIe": 756, "H100 NVL": 835, "H100": 989, "A100": 312,
    "L40S": 362, "L40": 181, "L4": 121, "A10G": 70, "A10": 125, "RTX 4090": 165, "RTX 3090": 71,
}  # fmt: skip
SLOWER = {"Laptop", "MIG", "D"}  # words for less of a card than the table says


def speeds(run: Run, event: Event) -> None:
    """The listener: adds these numbers to what is logged of an update."""
    if isinstance(event, Updated):
        event.stats |= speed(
            run.agent.policy, event.samples, event.cfg, run.cfg.optim.passes, event.stats
        )


def speed(
    policy: Policy, samples: list[Sample], cfg: Training, passes: int, stats: dict[str, float]
) -> dict[str, float]:
    """What to log of one update. stats: what is logged of it already, with the seconds."""
    tokens, pairs, scored = token_counts(samples)
    seconds = stats["time/update"]
    numbers = {"speed/tokens_per_second": passes * tokens / seconds}
    ahead = getattr(cfg, "max_async_level", 0)  # then the next batch is drawn meanwhile
    if "policy/drawn_tokens" in stats and not ahead:
        numbers["speed/drawn_per_second"] = stats["policy/drawn_tokens"] / stats["time/sample"]
    device = policy.model.device
    if device.type == "cuda":
        needed = passes * flops(policy, tokens, pairs, scored)
        peak = policy.shares.count * peak_of(torch.cuda.get_device_name(device))
        if peak:
            numbers["speed/mfu"] = needed / seconds / peak
        numbers["speed/peak_memory_gb"] = torch.cuda.max_memory_allocated(device) / 1e9
        torch.cuda.reset_peak_memory_stats(device)  # the next one is that of the next update
    return numbers


def token_counts(samples: list[Sample]) -> tuple[int, int, int]:
    """(tokens, pairs of tokens of which one sees the other, tokens whose log-prob is read).

    >>> state = Sample().extend([1, 2])
    >>> token_counts([Sample(parent=state).extend([3], 1.0), Sample(parent=state).extend([4], 1.0)])
    (4, 9, 2)
    """
    tokens = 0
    pairs = 0
    scored = 0
    counted = set()
    for sample, path in zip(samples, numbered_paths(samples), strict=True):
        above = 0
        for number, node in path:
            n = len(node.ids)
            if number not in counted:
                counted.add(number)
                tokens += n
                pairs += n * above + n * (n + 1) // 2  # each token sees itself too
            above += n
        scored += sum(sample.trained)
    return tokens, pairs, scored


def flops(policy: Policy, tokens: int, pairs: int, scored: int) -> float:
    """The arithmetic of one pass, forward and backward; see the table above."""
    model = policy.model
    head = output_layer(model)
    tied = head is model.get_input_embeddings().get_parameter("weight")
    layers = policy.size - (0 if tied else head.numel())  # weights that every token passes
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    if not policy.lora:  # all are trained, and the output layer is counted by itself
        trained = layers
    attention = 12 * policy.attention_size
    output = (4 if policy.lora else 6) * head.numel()
    return (4 * layers + 2 * trained) * tokens + output * scored + attention * pairs


def peak_of(name: str) -> float:
    """FLOPs a second that the card of this name could do; 0.0 where it is not in the table.

    >>> peak_of("NVIDIA H100 80GB HBM3") == 989e12, peak_of("NVIDIA H100 PCIe") == 756e12
    (True, True)
    >>> peak_of("NVIDIA GeForce RTX 4090 Laptop GPU"), peak_of("Tesla T4")
    (0.0, 0.0)
    """
    words = set(re.split(r"[\s-]+", name))
    for card, peak in PEAK.items():
        if words.issuperset(card.split()) and not words & SLOWER:
            return peak * 1e12
    return 0.0
