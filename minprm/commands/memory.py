"""What a process holds while it trains, and what several send each other: bytes, counted from the
shape of the model.

Of one process and of several (several/shares.py). Fragmentation comes on top of memory.
"""

from collections.abc import Sequence

from transformers import PreTrainedModel

from minprm.constants import Config, reads_base
from minprm.load.base import is_spread, sharing
from minprm.load.names import uses_vllm
from minprm.load.pretrained import device_of, layers_with_adapters, linear_layers
from minprm.model.reading import CHUNK
from minprm.several.spread import layers_of


def count(model: PreTrainedModel, lora: int, targets: str | Sequence[str] = ()) -> tuple[int, int]:
    """(parameters in all, parameters that are trained)."""
    total = sum(p.numel() for p in model.parameters())
    if not lora:
        return total, total
    adapters = 0
    for layer in layers_with_adapters(model, targets):
        inputs_and_outputs = layer.get_parameter("weight").shape  # in whatever order
        adapters += lora * sum(inputs_and_outputs)
    return total + adapters, adapters


def memory(model: PreTrainedModel, cfg: Config, card: float = 0) -> dict[str, float]:
    """Bytes on the card of a process while it trains, and their sum. `card`: all that it has, where
    known. What is called "or" is there in the place of activations, logits and layers.

    Copies that are only put back (the weights at the start of a stage, the best ones) are on the
    CPU. Masks of long rows are lists of blocks, too small to count.
    """
    total, trained = count(model, cfg.lora, cfg.lora_targets)
    shape = model.config.get_text_config()
    tokens = cfg.micro_tokens
    spread = is_spread(cfg)
    vllm = uses_vllm(cfg.sampler)
    part = 1 / sharing(cfg) if spread else 1
    weights = total * 4
    copied = sum(layer.get_parameter("weight").numel() for layer in linear_layers(model).values())
    head = 0  # it is fp32 as it is
    if cfg.lora:
        weights = (total - trained) * 2 + trained * 4
        copied = trained
        head = shape.vocab_size * shape.hidden_size * 4
    own_weights = not vllm and cfg.rl.max_async_level
    plan = {
        "weights": weights * part,
        "gradients and AdamW's two moments, fp32": trained * 12 * part,
        "autocast's copies of weights, bf16": 0 if spread else copied * 2,
        "frozen base model": weights * part if reads_base(cfg) and not cfg.lora else 0,
        "the sampler's own weights": weights if own_weights else 0,
    }
    share = cfg.engine.memory * card if vllm else 0
    if card:
        plan["vLLM's share"] = 0 if cfg.engine.sleep else share
    learning = {
        f"activations of {tokens:,} tokens": tokens * shape.hidden_size * kept_bytes(model, cfg),
        "logits of one chunk, and the head in fp32": 4 * 4 * min(CHUNK, tokens * shape.vocab_size)
        + head,
    }
    instead = {}
    if share and cfg.engine.sleep:
        instead["or, while it writes: vLLM's share"] = share
    if spread:
        learning["layers that are put together"] = of_a_pass(model, cfg)
        if not vllm:
            instead["or, while the sampler writes: all weights"] = put_together(model, cfg)
    elif sharing(cfg) > 1:
        instead["or, while they are summed: all gradients"] = trained * 4
    most = max(sum(learning.values()), *instead.values(), 0)
    plan |= learning | instead | {"sum": sum(plan.values()) + most}
    if card:
        plan["of the card's"] = card
    return plan


def engine_lacks(model: PreTrainedModel, cfg: Config, card: float) -> str:
    """Why vLLM could not load its weights, in bf16, into its share of the card; else empty."""
    share = cfg.engine.memory * card
    weights = sum(p.numel() for p in model.parameters()) * 2 / cfg.engine.tensor_parallel
    if not card or not uses_vllm(cfg.sampler) or weights < share:
        return ""
    return (
        f"vLLM's weights alone are {weights / 2**30:.2f} GiB, and its share is "
        f"{share / 2**30:.2f} GiB: more --engine.memory is needed, or several processes with more "
        "--engine.tensor-parallel"
    )


def kept_bytes(model: PreTrainedModel, cfg: Config) -> int:
    """What is kept for the gradient: bytes a token and unit of width, over all layers.

    Measured on layers of Qwen3 0.6B and 4B under autocast, as the tensors that autograd saves: 80
    bytes a layer, 68 on a bf16 base. Gradient checkpointing keeps the input of each layer, in the
    precision of the weights, and one layer in full.
    """
    layers = model.config.get_text_config().num_hidden_layers
    layer, between = (68, 2) if cfg.lora else (80, 4)
    return layers * between + layer if cfg.checkpointing else layers * layer


# --- several processes ---


def in_layers(model: PreTrainedModel) -> tuple[int, int, int]:
    """Parameters of the largest layer, of all layers, and outside of layers."""
    sizes = [sum(p.numel() for p in layer.parameters()) for layer in layers_of(model)]
    total = sum(p.numel() for p in model.parameters())
    return max(sizes, default=0), sum(sizes), total - sum(sizes)


def put_together(model: PreTrainedModel, cfg: Config) -> int:
    """Bytes of all weights as they are put together: layers as they compute, the rest in fp32."""
    _, layers, rest = in_layers(model)
    return _width(cfg) * layers + 4 * rest


def of_a_pass(model: PreTrainedModel, cfg: Config) -> int:
    """Bytes of what is put together of spread weights during a pass: a layer and the next one; the
    gradients of a layer, once more in fp32 to be summed; and what is outside of layers, in fp32,
    with its gradients twice."""
    layer, _, rest = in_layers(model)
    return 2 * _width(cfg) * layer + (_width(cfg) + 4) * layer + 3 * 4 * rest


def sent(model: PreTrainedModel, cfg: Config) -> dict[str, float]:
    """Bytes that each of several processes sends to the next one (a ring), and when.

    For each token that is drawn come 12 bytes on top, and for each that is scored 8
    (benchmarks/parallel.py).
    """
    total, trained = count(model, cfg.lora, cfg.lora_targets)
    others = 1 - 1 / sharing(cfg)
    if not is_spread(cfg):
        return {"sent for an update": 2 * others * 4 * trained}
    # each layer is put together twice, forward and backward; then its gradients are summed
    found = {
        "sent for a micro-batch of an update": others * (2 * put_together(model, cfg) + 4 * total)
    }
    if uses_vllm(cfg.sampler):
        return found | {"sent to give vLLM new weights": others * 4 * total}
    return found | {"sent to put all weights together": others * put_together(model, cfg)}


def on_the_cpu(model: PreTrainedModel, cfg: Config) -> dict[str, float]:
    """Bytes of the machine's own memory: of each process, and of the first one."""
    total, trained = count(model, cfg.lora, cfg.lora_targets)
    patient = cfg.sft.patience or cfg.act_prm.patience or cfg.rl.patience
    copies = 4 * trained * (2 if patient else 1)  # to go back to; of the best weights too
    if not is_spread(cfg):
        return {"on the CPU, of each process": copies}
    # whole tensors: weights, two moments, and the best weights
    snapshot = 4 * total * (4 if patient else 3)
    return {
        "on the CPU, of each process": copies / sharing(cfg),
        "and of the first one, for a snapshot": snapshot,
    }


def _width(cfg: Config) -> int:
    """Bytes of a weight in a layer that is put together: bf16 on a GPU, else fp32."""
    return 2 if cfg.processes or device_of(cfg.device).type == "cuda" else 4
