"""--dry-run: what would be trained, whether it fits, and what the model would read.

Nothing is loaded but the configuration and the tokenizer, so it runs where the model would not. An
estimate, not a promise: fragmentation and the CUDA context (about 1 GB) come on top.
"""

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from minprm import play as rollout
from minprm.constants import Config
from minprm.data import Demo, read_demos
from minprm.envs import make_world
from minprm.model import tiny as babble
from minprm.model.policy import CHUNK, pretrained
from minprm.text.chat import Chat

GREY, GREEN, YELLOW, PLAIN = "\033[90m", "\033[32m", "\033[33m", "\033[0m"


def dry_run(cfg: Config) -> str:
    """The plan and the first sample, coloured: state grey, thought green, action yellow."""
    if cfg.model == "babble":
        world = make_world(cfg)
        model, tokenizer = babble.untrained(world, cfg.babble, seed=0)
    else:
        tokenizer = pretrained(AutoTokenizer, cfg.model)
        config = pretrained(AutoConfig, cfg.model)
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config)
    demo = (read_demos(cfg.demos) if cfg.demos else rollout.expert_demos(cfg, 0, 1))[0]
    lines = [f"{name:<42}{size / 2**30:>9.2f} GiB" for name, size in memory(model, cfg).items()]
    total, trained = count(model, cfg.lora)
    head = f"{cfg.model}: {total:,} parameters, {trained:,} of them trained"
    return "\n".join(
        [head, *lines, "", rendered(demo, Chat(tokenizer, cfg.layout, bool(demo.tools)))]
    )


def count(model: nn.Module, lora: int) -> tuple[int, int]:
    """(parameters in all, parameters that are trained)."""
    total = sum(p.numel() for p in model.parameters())
    if not lora:
        return total, total
    linear = {n: m for n, m in model.named_modules() if isinstance(m, nn.Linear)}
    inner = [m for n, m in linear.items() if n != "lm_head"]
    adapters = sum(lora * (m.in_features + m.out_features) for m in inner)
    return total + adapters, adapters


def memory(model, cfg: Config) -> dict[str, float]:
    """Bytes on the card while an update runs. Activations: 34 bytes a token, layer and unit of
    width in 16 bit, of which gradient checkpointing keeps 2 (arXiv:2205.05198)."""
    total, trained = count(model, cfg.lora)
    shape, tokens = model.config, cfg.micro_tokens
    kept = 2 if cfg.checkpointing else 34
    layers = kept * shape.num_hidden_layers + (34 if cfg.checkpointing else 0)
    stages, apart = (cfg.sft, cfg.act_prm, cfg.rl), cfg.sampler == "transformers"
    scorers = cfg.act_prm.scored_by == "base" or any(x.kl and x.kl_to == "base" for x in stages)
    plan = {
        "weights": total * (2 if cfg.lora else 4),
        "gradients and AdamW's two moments, fp32": trained * 12,
        "copies of what is trained (start, base)": trained * 8,
        "frozen base model": total * 4 if scorers and not cfg.lora else 0,
        "the sampler's own weights": total * 4 if apart and cfg.rl.max_async_level else 0,
        f"activations of {tokens:,} tokens": tokens * shape.hidden_size * layers,
        "logits of one chunk": 3 * 4 * min(CHUNK, tokens * shape.vocab_size),
    }
    if torch.cuda.is_available():
        card = torch.cuda.get_device_properties(0).total_memory
        plan["vLLM's share"] = 0 if cfg.sampler == "transformers" else cfg.engine.memory * card
        plan["= of the card's"] = card
    return plan | {"sum": sum(v for k, v in plan.items() if not k.startswith("="))}


def rendered(demo: Demo, chat: Chat) -> str:
    """A demo as the model reads it."""
    text = ""
    for i, step in enumerate(demo.steps):
        state = chat.state(step.state, demo.tools, first=i == 0)
        action = [*chat.action(step.action), *chat.act_end, *chat.end]
        thought, opening = [], chat.bare
        if step.thought is not None:
            thought = [*chat.think, *chat.thought(step.thought), *chat.think_end]
            opening = chat.act
        text += GREY + chat.text(state) + GREEN + chat.text(thought) + YELLOW
        text += chat.text(opening + action)
    return text + PLAIN
