"""minprm export CHECKPOINT OUT [--merge]: a folder to serve, with a model card.

A checkpoint of all weights is written anew in --dtype. Adapters are copied as they are, beside the
name of their base, or with --merge added to the weights of that base. The tokenizer and its chat
template stay as they were. What `vllm serve` has to be told is printed, and stands in the card.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from safetensors import SafetensorError
from tyro.conf import Positional, arg

from minprm.arms.about import read_about
from minprm.commands.card import card
from minprm.commands.checks import refuse
from minprm.commands.cli import given_knobs, read_flags
from minprm.constants import fail
from minprm.load.names import require_model


@dataclass
class Export:
    """Writes a checkpoint as a folder that vLLM and transformers load, with a model card."""

    # directory of a run, or hub id
    checkpoint: Annotated[str, Positional, arg(metavar="CHECKPOINT")]
    out: Annotated[str, Positional, arg(metavar="OUT")]  # new folder
    merge: bool = False  # add the adapters to their base, so that it takes one model to serve
    dtype: Literal["bf16", "fp16", "fp32"] = "bf16"  # of the weights; it was trained in fp32
    push: str = ""  # OWNER/NAME of a new private repository on the Hugging Face hub


def main(argv: list[str]) -> None:
    """The command."""
    flags = read_flags(Export, argv, "minprm export")
    given = given_knobs(argv)
    require_model(flags.checkpoint)
    # torch and transformers: what is refused above did not wait for them
    from transformers import AutoTokenizer

    from minprm.commands import folder
    from minprm.load.pretrained import base_of, pretrained

    base, rank = base_of(flags.checkpoint)
    tokenizer = pretrained(AutoTokenizer, flags.checkpoint)  # first: is there a checkpoint at all
    check(flags, given, base, rank)
    about = read_about(flags.checkpoint)
    served = folder.how_to_serve(tokenizer, about)
    merged = flags.merge or not rank
    dtype = flags.dtype if merged else None
    line = folder.command(flags.out, base, 0 if merged else rank, served)
    origin = base if rank else about.get("base", base)
    name = Path(flags.out).name
    text = card(name, origin, about, folder.rows_of(about), line, served.notes, merged)
    try:
        folder.write(flags.checkpoint, Path(flags.out), dtype, tokenizer, served.ends, about, text)
    except (OSError, SafetensorError) as error:
        fail(f"{flags.out}: {error}; nothing is half written")
    print(line, *(f"- {note}" for note in served.notes), sep="\n")
    if flags.push:
        folder.push(flags.out, flags.push)


def check(flags: Export, given: set[str], base: str, rank: int) -> None:
    """Refuses what cannot be meant, before the model is loaded."""
    out = Path(flags.out)
    refuse(out.exists() or out.is_symlink(), f"{out} exists: name a new folder")
    refuse(
        flags.merge and not rank,
        f"--merge: {flags.checkpoint} holds no adapters, so leave it out",
    )
    apart = rank and not flags.merge
    refuse(
        apart and "dtype" in given,
        "--dtype has no effect on adapters, which are copied as they are: it needs --merge",
    )
    refuse(
        flags.push and not re.fullmatch(r"[\w.-]+/[\w.-]+", flags.push),
        f"--push {flags.push}: write OWNER/NAME",
    )
    refuse(
        apart and Path(base).is_absolute() and not Path(base).is_dir(),
        f"{base} is gone, and the adapters of {flags.checkpoint} are nothing without it",
    )
    refuse(
        apart and flags.push and Path(base).is_dir(),
        f"--push: {base}, the base of these adapters, lies on this disk alone: add --merge",
    )
