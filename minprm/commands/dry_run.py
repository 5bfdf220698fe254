"""--dry-run: what would be trained, whether it fits, and what the model would read.

Nothing is loaded but the configuration and the tokenizer, so it runs where the model would not. It
is an estimate, not a promise: fragmentation and the CUDA context (about 1 GB) come on top.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

from minprm.commands.logs import summary
from minprm.constants import Config, reads_base
from minprm.data import Demo
from minprm.envs import make_world
from minprm.model import tiny
from minprm.model.load import (
    base_of,
    layers_with_adapters,
    linear_layers,
    pretrained,
    require_layers,
    targets_of,
    uses_vllm,
)
from minprm.model.policy import CHUNK
from minprm.play import expert_demos
from minprm.text.chat import Chat
from minprm.text.instruction import shown
from minprm.text.logs import read_demos
from minprm.text.printable import printable

GREY, GREEN, YELLOW, PLAIN = "\033[90m", "\033[32m", "\033[33m", "\033[0m"


def dry_run(cfg: Config) -> str:
    """The plan and the first sample, coloured: state grey, thought green, action yellow."""
    if cfg.model == "tiny":
        model, tokenizer = tiny.untrained(make_world(cfg), cfg.tiny, seed=0)
    else:
        tokenizer = pretrained(AutoTokenizer, cfg.model)
        base, rank = base_of(cfg.model)
        if rank:
            cfg = replace(cfg, lora=rank, lora_targets=targets_of(cfg.model))
        config = pretrained(AutoConfig, base)
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config)
        if not rank:
            require_layers(model, cfg.lora_targets)
    if cfg.demos:
        demos, report = read_demos(cfg.demos, cfg.content, cfg.skip_bad)
    else:
        demos = expert_demos(cfg, "train", seed=0, n=1)
    total, trained = count(model, cfg.lora, cfg.lora_targets)
    lines = [f"{cfg.model}: {total:,} parameters, {trained:,} of them trained"]
    card = 0
    if torch.cuda.is_available():
        card = torch.cuda.get_device_properties(0).total_memory
    for name, size in memory(model, cfg, card).items():
        lines.append(f"{name:<42}{size / 2**30:>9.2f} GiB")
    chat = Chat(tokenizer, cfg.layout, any(demo.tools for demo in demos))
    lines += shown(cfg, chat)
    if cfg.demos:
        lines += ["", summary(demos, report, cfg, chat)]
    return "\n".join([*lines, "", rendered(demos[0], chat)])


def count(model: PreTrainedModel, lora: int, targets: str | Sequence[str] = ()) -> tuple[int, int]:
    """(parameters in all, parameters that are trained)."""
    total = sum(p.numel() for p in model.parameters())
    if not lora:
        return total, total
    adapters = 0
    for layer in layers_with_adapters(model, targets):
        adapters += lora * sum(layer.weight.shape)  # inputs and outputs, in whatever order
    return total + adapters, adapters


def memory(model, cfg: Config, card: float = 0) -> dict[str, float]:
    """Bytes on the card while an update runs, and their sum. `card`: all that it has, where known.

    Copies that are only put back (the weights at the start of a stage, the best ones) are on the
    CPU. Masks of long rows are lists of blocks, too small to count.
    """
    total, trained = count(model, cfg.lora, cfg.lora_targets)
    shape = model.config
    tokens = cfg.micro_tokens
    weights = total * 4
    copied = sum(layer.weight.numel() for layer in linear_layers(model).values())
    head = 0  # it is fp32 as it is
    if cfg.lora:
        weights = (total - trained) * 2 + trained * 4
        copied = trained
        head = shape.vocab_size * shape.hidden_size * 4
    own_weights = not uses_vllm(cfg.sampler) and cfg.rl.max_async_level
    plan = {
        "weights": weights,
        "gradients and AdamW's two moments, fp32": trained * 12,
        "autocast's copies of weights, bf16": copied * 2,
        "frozen base model": weights if reads_base(cfg) and not cfg.lora else 0,
        "the sampler's own weights": weights if own_weights else 0,
        f"activations of {tokens:,} tokens": tokens * shape.hidden_size * kept_bytes(model, cfg),
        "logits of one chunk, and the head in fp32": 4 * 4 * min(CHUNK, tokens * shape.vocab_size)
        + head,
    }
    if card:
        awake = uses_vllm(cfg.sampler) and not cfg.engine.sleep
        plan["vLLM's share"] = cfg.engine.memory * card if awake else 0
    plan["sum"] = sum(plan.values())
    if card:
        plan["of the card's"] = card
    return plan


def kept_bytes(model, cfg: Config) -> int:
    """What is kept for the gradient: bytes a token and unit of width, over all layers.

    Measured on layers of Qwen3 0.6B and 4B under autocast, as the tensors that autograd saves: 80
    bytes a layer, 68 on a bf16 base. Gradient checkpointing keeps the input of each layer, in the
    precision of the weights, and one layer in full.
    """
    layers = model.config.num_hidden_layers
    layer, between = (68, 2) if cfg.lora else (80, 4)
    return layers * between + layer if cfg.checkpointing else layers * layer


def rendered(demo: Demo, chat: Chat) -> str:
    """A demo as the model reads it."""
    text = ""
    for i, step in enumerate(demo.steps):
        state = chat.text(chat.state(step.state, demo.tools, first=i == 0))
        text += GREY + printable(state) + GREEN
        opening = chat.act_without_thought
        if step.thought is not None:
            thought = chat.text([*chat.think, *chat.thought(step.thought), *chat.think_end])
            text += printable(thought)
            opening = chat.act
        action = [*opening, *chat.action(step.action), *chat.act_end, *chat.end]
        text += YELLOW + printable(chat.text(action))
    return text + PLAIN
