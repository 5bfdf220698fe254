"""minprm export CHECKPOINT OUT [--merge]: a folder to serve, with a model card.

A checkpoint of all weights is written anew in --dtype. Adapters are copied as they are, beside the
name of their base, or with --merge added to the weights of that base. The tokenizer and its chat
template stay as they were. What `vllm serve` has to be told is printed, and stands in the card.
"""

import os
import re
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from safetensors import SafetensorError
from transformers import AutoTokenizer, PreTrainedTokenizerBase
from tyro.conf import Positional, arg

from minprm.commands.card import card
from minprm.commands.checks import refuse
from minprm.commands.cli import given_knobs, read_flags
from minprm.commands.serving import TOOL, Serving, serving, tool_parser
from minprm.commands.train import RUNS
from minprm.constants import fail
from minprm.ladder import read_ladder, require_row
from minprm.model.load import base_of, copy_adapters, load_merged, pretrained
from minprm.run.about import asked_of, read_about, write_about

RANKS = (8, 16, 32, 64, 128, 256, 320, 512)  # that vLLM makes room for


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
    base, rank = base_of(flags.checkpoint)
    tokenizer = pretrained(AutoTokenizer, flags.checkpoint)  # first: is there a checkpoint at all
    check(flags, given_knobs(argv), base, rank)
    about = read_about(flags.checkpoint)
    served = how_to_serve(tokenizer, about)
    merged = flags.merge or not rank
    line = command(flags.out, base, 0 if merged else rank, served)
    origin = base if rank else about.get("base", base)
    name = Path(flags.out).name
    text = card(name, origin, about, rows_of(about), line, served.notes, merged)
    try:
        write(flags, merged, tokenizer, served.ends, about, text)
    except (OSError, SafetensorError) as error:
        fail(f"{flags.out}: {error}; nothing is half written")
    print(line, *(f"- {note}" for note in served.notes), sep="\n")
    if flags.push:
        push(flags.out, flags.push)


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


def rows_of(about: dict) -> dict[str, dict]:
    """The rows of the ladder with this checkpoint's seed, or its own row; {} where none is known.

    The ladder is looked for in runs/, and counts where it holds the same row.
    """
    row = about.get("row")
    if not row:
        return {}
    try:
        require_row(row)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        fail(f"minprm.json holds a broken row ({error!r}): replace it by an empty one, {{}}")
    ladder = read_ladder(RUNS / about["run"] / "ladder.json")
    if row not in ladder.get(about["arm"], []):
        return {about["arm"]: row}
    order = ["random", *(arm for arm in ladder if arm not in ("random", "expert")), "expert"]
    found = {}
    for arm in order:
        same_seed = [other for other in ladder.get(arm, []) if other["seed"] == row["seed"]]
        if same_seed:
            found[arm] = same_seed[0]
    return found


def how_to_serve(tokenizer: PreTrainedTokenizerBase, about: dict) -> Serving:
    """How vLLM serves the checkpoint, by what its minprm.json says."""
    if not about:  # a foreign model's calls are read where its template writes some
        return serving(
            tokenizer, asked_of({}), [TOOL] if tool_parser(tokenizer) else [], thinks=True
        )
    # as it was measured: what acts at once would have its answers taken for thoughts
    thinks = about["asked"]["think"] and about["row"].get("thought_rate", 1.0) >= 0.5
    return serving(tokenizer, about["asked"], about["tools"], thinks)


def command(out: str, base: str, rank: int, served: Serving) -> str:
    """The line that serves the folder, which holds adapters of this rank; 0: a whole model."""
    words = ["vllm", "serve", out]
    if rank:
        room = next((size for size in RANKS if size >= rank), rank)
        words = ["vllm", "serve", base, "--enable-lora", "--max-lora-rank", str(room)]
        words += ["--lora-modules", f"{Path(out).absolute().name}={out}"]
    return shlex.join([*words, *served.flags])


def write(
    flags: Export,
    merged: bool,
    tokenizer: PreTrainedTokenizerBase,
    ends: list[int],
    about: dict,
    text: str,
) -> None:
    """Writes the whole folder, or nothing. `ends`: the tokens that end a turn."""
    out = Path(flags.out)
    half = out.with_name(f".{out.name}.tmp")
    shutil.rmtree(half, ignore_errors=True)
    half.mkdir(parents=True)
    try:
        if merged:
            model = load_merged(flags.checkpoint, flags.dtype)
            stop_at(model.generation_config, ends)
            model.save_pretrained(half)
        else:
            copy_adapters(flags.checkpoint, half)
        tokenizer.save_pretrained(half)
        if about:
            write_about(half, about)
        (half / "README.md").write_text(text, encoding="utf-8")
        os.rename(half, out)
    finally:
        shutil.rmtree(half, ignore_errors=True)


def stop_at(generation_config, ends: list[int]) -> None:
    """Puts the tokens that end a turn among those at which a server stops."""
    known = generation_config.eos_token_id
    others = known if isinstance(known, list) else [known]
    ends = [*ends, *(token for token in others if token not in (None, *ends))]
    generation_config.eos_token_id = ends if len(ends) > 1 else ends[0]


def push(folder: str, name: str) -> None:
    """Uploads the folder to a new private repository."""
    from huggingface_hub import HfApi

    try:
        api = HfApi()
        api.create_repo(name, private=True)
        api.upload_folder(repo_id=name, folder_path=folder)
    except Exception as error:  # of the network, of the hub, or of a name that it does not take
        reason = (str(error) or repr(error)).splitlines()[0]
        fail(f"--push {name}: {reason}; {folder} is written: hf upload {name} {folder}")
    print(f"pushed to the private repository {name}")
