"""--dry-run: what would be trained, whether it fits, and what the model would read.

Nothing is loaded but the configuration and the tokenizer, so it runs where the model would not. It
is an estimate, not a promise: fragmentation and the CUDA context (about 1 GB) come on top.
"""

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from minprm.constants import Config
from minprm.data import Demo
from minprm.envs import make_world
from minprm.model import tiny
from minprm.model.load import pretrained
from minprm.model.policy import CHUNK
from minprm.play import expert_demos
from minprm.text.chat import Chat
from minprm.text.logs import read_demos

GREY, GREEN, YELLOW, PLAIN = "\033[90m", "\033[32m", "\033[33m", "\033[0m"


def dry_run(cfg: Config) -> str:
    """The plan and the first sample, coloured: state grey, thought green, action yellow."""
    if cfg.model == "tiny":
        model, tokenizer = tiny.untrained(make_world(cfg), cfg.tiny, seed=0)
    else:
        tokenizer = pretrained(AutoTokenizer, cfg.model)
        config = pretrained(AutoConfig, cfg.model)
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config)
    demos = read_demos(cfg.demos) if cfg.demos else expert_demos(cfg, seed=0, n=1)
    total, trained = count(model, cfg.lora)
    lines = [f"{cfg.model}: {total:,} parameters, {trained:,} of them trained"]
    for name, size in memory(model, cfg).items():
        lines.append(f"{name:<42}{size / 2**30:>9.2f} GiB")
    chat = Chat(tokenizer, cfg.layout, bool(demos[0].tools))
    return "\n".join([*lines, "", rendered(demos[0], chat)])


def count(model: nn.Module, lora: int) -> tuple[int, int]:
    """(parameters in all, parameters that are trained)."""
    total = sum(p.numel() for p in model.parameters())
    if not lora:
        return total, total
    adapters = 0
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear) and name != "lm_head":
            adapters += lora * (module.in_features + module.out_features)
    return total + adapters, adapters


def memory(model, cfg: Config) -> dict[str, float]:
    """Bytes on the card while an update runs, and their sum.

    Activations: 34 bytes a token, layer and unit of width in 16 bit, of which gradient
    checkpointing keeps 2 (arXiv:2205.05198).
    """
    total, trained = count(model, cfg.lora)
    shape = model.config
    tokens = cfg.micro_tokens
    stages = (cfg.sft, cfg.act_prm, cfg.rl)
    held_to_base = any(stage.kl and stage.kl_to == "base" for stage in stages)
    frozen = (cfg.act_prm.scored_by == "base" or held_to_base) and not cfg.lora
    own_weights = cfg.sampler == "transformers" and cfg.rl.max_async_level
    kept = 34 * shape.num_hidden_layers
    if cfg.checkpointing:  # one layer at a time is computed again
        kept = 2 * shape.num_hidden_layers + 34
    plan = {
        "weights": total * (2 if cfg.lora else 4),
        "gradients and AdamW's two moments, fp32": trained * 12,
        "copies of what is trained (start, base)": trained * 8,
        "frozen base model": total * 4 if frozen else 0,
        "the sampler's own weights": total * 4 if own_weights else 0,
        f"activations of {tokens:,} tokens": tokens * shape.hidden_size * kept,
        "logits of one chunk": 3 * 4 * min(CHUNK, tokens * shape.vocab_size),
    }
    if torch.cuda.is_available():
        card = torch.cuda.get_device_properties(0).total_memory
        plan["vLLM's share"] = 0 if cfg.sampler == "transformers" else cfg.engine.memory * card
    plan["sum"] = sum(plan.values())
    if torch.cuda.is_available():
        plan["of the card's"] = card
    return plan


def rendered(demo: Demo, chat: Chat) -> str:
    """A demo as the model reads it."""
    text = ""
    for i, step in enumerate(demo.steps):
        text += GREY + chat.text(chat.state(step.state, demo.tools, first=i == 0)) + GREEN
        opening = chat.act_without_thought
        if step.thought is not None:
            text += chat.text([*chat.think, *chat.thought(step.thought), *chat.think_end])
            opening = chat.act
        action = [*opening, *chat.action(step.action), *chat.act_end, *chat.end]
        text += YELLOW + chat.text(action)
    return text + PLAIN
