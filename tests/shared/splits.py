"""Tokenizers that split text as those of the large families do, trained on a few lines."""

import json

from tokenizers import (
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)
from transformers import PreTrainedTokenizerFast

# https://github.com/meta-llama/llama3, llama/tokenizer.py; Qwen's has single digits
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN = LLAMA3.replace("{1,3}", "")
CHATML = """\
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}"""
# What tokenizers like to make one token of: line breaks behind and before signs.
TEXTS = [
    "<think>\n3 x 4 = 12.\n</think>\n\nrefund 12\n</think>\nrefund 12 > 'so' a>\n</think>\n\n7 \n\n"
    ' "\n\n \n <b>\n<b> x\n x >\n"a" ><b>\n>\n. .\n ) )\n I bought 3 mugs 12 34 567\n\n\nso "x'
] * 3
KINDS = ("GPT-2", "Llama 3", "Qwen", "Gemma", "SentencePiece", "SentencePiece, a space anywhere",
         "Llama 2")  # fmt: skip


def splitting(kind: str) -> PreTrainedTokenizerFast:
    """A tokenizer that splits like this kind, with a ChatML template that has no thoughts."""
    if kind in ("GPT-2", "Llama 3", "Qwen"):
        pattern = {"Llama 3": LLAMA3, "Qwen": QWEN}.get(kind)
        made = byte_level(pattern)
    else:
        made = sentence_piece(kind)
    words = PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<|im_end|>")
    words.add_tokens(["<|im_end|>", "<|im_start|>"], special_tokens=True)
    words.chat_template = CHATML
    return words


def byte_level(pattern: str | None) -> Tokenizer:
    """GPT-2's own pattern where none is given."""
    made = Tokenizer(models.BPE())
    steps: list = [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern is None)]
    if pattern:
        steps.insert(0, pre_tokenizers.Split(Regex(pattern), "isolated"))
    made.pre_tokenizer = pre_tokenizers.Sequence(steps)
    made.decoder = decoders.ByteLevel()
    letters = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        TEXTS,
        trainers.BpeTrainer(
            vocab_size=2000, initial_alphabet=letters, min_frequency=1, show_progress=False
        ),
    )
    return made


def sentence_piece(kind: str) -> Tokenizer:
    """Spaces are a sign of their own, and all but Gemma's put one before whatever they encode."""
    made = Tokenizer(models.BPE(byte_fallback=True))
    spaces: list = [normalizers.Replace(" ", "▁")]
    if kind in ("SentencePiece, a space anywhere", "Llama 2"):  # behind each control token too
        spaces.insert(0, normalizers.Prepend("▁"))
    if kind == "SentencePiece":
        made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    else:
        made.normalizer = normalizers.Sequence(spaces)
    steps: list = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    if kind == "Llama 2":  # whose texts do not show the first space
        steps.append(decoders.Strip(" ", 1, 0))
    made.decoder = decoders.Sequence(steps)
    all_bytes = [f"<0x{i:02X}>" for i in range(256)]
    made.train_from_iterator(
        [line for text in TEXTS for line in text.split("\n")],
        trainers.BpeTrainer(
            vocab_size=600, special_tokens=all_bytes, min_frequency=1, show_progress=False
        ),
    )
    parts = json.loads(made.to_str())
    parts["added_tokens"] = []  # bytes are no control tokens
    return Tokenizer.from_str(json.dumps(parts))
