"""Tiny chat models with the templates that TRL ships, and logs whose tool they call."""

import json
import math
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    PreTrainedTokenizerFast,
    Qwen3Config,
    Qwen3ForCausalLM,
)

trl = pytest.importorskip("trl", reason='needs trl: pip install ".[dev]"')
TEMPLATES = Path(trl.__file__).parent / "chat_templates"
QWEN = ["<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>"]
LLAMA = ["<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>",
         "<|python_tag|>"]  # fmt: skip
DEEPSEEK = ["<｜begin▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>", "<think>", "</think>",
            "<｜end▁of▁sentence｜>", *(f"<｜tool▁{t}｜>" for t in (
                "calls▁begin", "call▁begin", "sep", "call▁end", "calls▁end", "outputs▁begin",
                "output▁begin", "output▁end", "outputs▁end"))]  # fmt: skip
FAMILIES = {
    "qwen3": (QWEN, "<|im_end|>"),
    "qwen3_instruct_2507": (QWEN, "<|im_end|>"),
    "llama3_1": (LLAMA, "<|eot_id|>"),
    "deepseekv3": (DEEPSEEK, "<｜end▁of▁sentence｜>"),
}
TOOLS = [{"type": "function", "function": {
    "name": "visit", "description": "open a page",
    "parameters": {"type": "object", "properties": {"title": {"type": "string"}}}}}]  # fmt: skip
CALL = json.dumps({"name": "visit", "arguments": {"title": "Paris"}})


def tokenizer(name: str) -> PreTrainedTokenizerFast:
    """A byte-level BPE with the family's control tokens and template."""
    return bytes_with(*FAMILIES[name], (TEMPLATES / f"{name}.jinja").read_text())


def random_qwen3(words: PreTrainedTokenizerFast, width: int = 32, **shape) -> Qwen3ForCausalLM:
    """A Qwen3 of one layer for this tokenizer, with the weights of seed 0 and heads of width 32."""
    torch.manual_seed(0)
    known = {
        "vocab_size": len(words), "hidden_size": width, "intermediate_size": width,
        "num_hidden_layers": 1, "num_attention_heads": width // 32,
        "num_key_value_heads": width // 32, "head_dim": 32, "max_position_embeddings": 4096,
        "eos_token_id": words.eos_token_id, "bos_token_id": None, "pad_token_id": None,
    }  # fmt: skip
    return Qwen3ForCausalLM(Qwen3Config(**known | shape))


def bytes_with(controls: list[str], end: str, template: str | None) -> PreTrainedTokenizerFast:
    """A byte-level BPE with these control tokens, of which one ends a turn, and this template."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    letters = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, initial_alphabet=letters, show_progress=False)
    bpe.train_from_iterator(['visit the page and the name of it. \n\n "/ >/'] * 3, trainer)
    bos = controls[0] if controls else end
    made = PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token=end, bos_token=bos)
    made.add_tokens(controls, special_tokens=True)
    made.chat_template = template
    return made


PAGES = ["Paris", "Rome", "Oslo", "Bern", "Kiev", "Riga"]


def line(page: str, thought: str | None = None) -> dict:
    """A log of two steps: a tool call, and an answer in a second one."""
    calls = [("visit", {"title": page}), ("answer", {"text": f"{page} is big"})]
    messages = [{"role": "system", "content": "be brief"},
                {"role": "user", "content": f"how big is {page}?"}]  # fmt: skip
    for i, (name, arguments) in enumerate(calls):
        function = {"name": name, "arguments": json.dumps(arguments)}
        message = {"role": "assistant", "content": None, "tool_calls": [
            {"id": str(i), "type": "function", "function": function}]}  # fmt: skip
        if thought:
            message["reasoning_content"] = f"{thought} {name} {page}"
        messages.append(message)
        messages.append({"role": "tool", "content": f"{page} has 9 gates"})
    return {"messages": messages[:-1], "tools": TOOLS}


def chat_model(
    path: Path, often: str, odds: float = 0.5, template: str = "qwen3_instruct_2507"
) -> Path:
    """A tiny chat model of the Qwen3 family on disk, as a hub's would be. Each token that it writes
    is `often` with these odds to all other tokens together."""
    words = tokenizer(template)
    written = random_qwen3(
        words, max_position_embeddings=8192, tie_word_embeddings=False, initializer_range=0.1
    )
    with torch.no_grad():
        # one number is the same in every hidden state: a norm of 32 numbers makes it sqrt(32)
        written.model.embed_tokens.weight[:, 0] = 10.0
        written.lm_head.weight[:, 0] = 0.0
        bias = math.log(odds * len(words))
        written.lm_head.weight[words.convert_tokens_to_ids(often), 0] = bias / math.sqrt(32)
    written.save_pretrained(path)
    words.save_pretrained(path)
    return path


def one_call(i: int) -> dict:
    """A log of one call."""
    function = {"name": "visit", "arguments": json.dumps({"title": f"page {i}"})}
    call = {"id": "a1", "type": "function", "function": function}
    messages = [{"role": "user", "content": f"show page {i}"},
                {"role": "assistant", "content": None, "tool_calls": [call]}]  # fmt: skip
    return {"messages": messages, "tools": TOOLS}
