"""minprm export CHECKPOINT OUT [--merge]: a folder to serve, with a model card.

A checkpoint of all weights is written anew in --dtype. Adapters are copied as they are, beside the
name of their base, or with --merge added to the weights of that base. The tokenizer and its chat
template stay as they were. What `vllm serve` has to be told is printed, and stands in the card.
"""

import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Literal

from safetensors import SafetensorError
from tyro.conf import Positional, arg

from minprm.arms.about import EXAMPLES, file_of, published, read_about, write_about
from minprm.commands.checks import refuse
from minprm.commands.cli import given_knobs, read_flags
from minprm.constants import fail
from minprm.load.names import require_model
from minprm.printable import printable, say

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass
class Export:
    """Writes a checkpoint as a folder that vLLM and transformers load, with a model card."""

    # directory of a run, or hub id
    checkpoint: Annotated[str, Positional, arg(metavar="CHECKPOINT")]
    out: Annotated[str, Positional, arg(metavar="OUT")]  # new folder
    merge: bool = False  # add the adapters to their base, so that it takes one model to serve
    dtype: Literal["bf16", "fp16", "fp32"] = "bf16"  # of the weights; it was trained in fp32


def main(argv: list[str]) -> None:
    """The command."""
    knobs = given_knobs(argv, {"push": "export, then hf upload OWNER/NAME OUT --private"})
    flags = read_flags(Export, argv, "minprm export")
    require_model(flags.checkpoint)
    # torch and transformers: what is refused above did not wait for them
    from transformers import AutoTokenizer

    from minprm.commands.card import card
    from minprm.commands.serving import command, how_to_serve
    from minprm.load.pretrained import base_of, pretrained

    base, rank = base_of(flags.checkpoint)
    tokenizer = pretrained(AutoTokenizer, flags.checkpoint)  # first: is there a checkpoint at all
    check(flags, knobs, rank)
    if flags.merge:
        rank = 0
    about = published(read_about(flags.checkpoint))
    served = how_to_serve(tokenizer, about)
    # the card is for others, to whom a folder of this disk is a name
    base_name = Path(base).name if Path(base).is_dir() else base
    if base == flags.checkpoint:  # all weights were trained
        base_name = about.get("base", base_name)
    name = Path(flags.out).name
    line = shlex.join(command(name, base_name, rank, served.flags))
    dtype = "fp32" if rank else flags.dtype  # adapters are as they were trained
    text = card(name, base_name, rank, dtype, about, line, served.notes)
    write(flags, rank, tokenizer, served.ends, about, text)
    lines = [shlex.join(command(flags.out, base, rank, served.flags))]
    lines += [f"- {note}" for note in served.notes]
    print(printable("\n".join(lines)))
    if rank and Path(base).is_dir():
        say(f"adapter_config.json names {base}, a folder of yours: mend that before you publish it")


def check(flags: Export, knobs: set[str], rank: int) -> None:
    """Refuses what cannot be meant, before the model is loaded. rank: of its adapters, or 0."""
    out = Path(flags.out)
    refuse(out.exists() or out.is_symlink(), f"{out} exists: name a new folder")
    refuse(
        flags.merge and not rank,
        f"--merge: {flags.checkpoint} holds no adapters, so leave it out",
    )
    refuse(
        "dtype" in knobs and rank and not flags.merge,
        "--dtype has no effect on adapters, which are copied as they are: it needs --merge",
    )


def write(
    flags: Export,
    rank: int,
    tokenizer: "PreTrainedTokenizerBase",
    ends: list[int],
    about: dict,
    text: str,
) -> None:
    """Writes the whole folder, or nothing. rank: of the adapters in it; 0: a whole model.
    ends: the tokens that end a turn. text: the card."""
    from minprm.commands.serving import stops_of
    from minprm.load.pretrained import copy_adapters, load_merged

    out = Path(flags.out)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".", dir=out.parent) as beside:
            half = Path(beside, out.name)
            half.mkdir()
            if rank:
                copy_adapters(flags.checkpoint, half)
            else:
                model = load_merged(flags.checkpoint, flags.dtype)
                config = model.generation_config
                config.eos_token_id = [*dict.fromkeys([*ends, *stops_of(config)])]
                model.save_pretrained(half)
            tokenizer.save_pretrained(half)
            if about:
                write_about(half, about)
            examples = file_of(flags.checkpoint, EXAMPLES)
            if examples:  # which the model is shown before each conversation
                shutil.copy(examples, half)
            (half / "README.md").write_text(text, encoding="utf-8")
            half.rename(out)
    except (OSError, SafetensorError) as error:
        fail(f"{out}: {error}; nothing is half written")
