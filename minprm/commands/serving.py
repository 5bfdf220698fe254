"""How vLLM serves a checkpoint: the line that starts it, and what its clients have to know.

vLLM takes thoughts and calls out of a text with parsers, which it has for families of models. None
is chosen here: a wrong one would lose calls without any error.
"""

import json
import re
from pathlib import Path
from typing import NamedTuple

from transformers import AutoConfig, AutoTokenizer, GenerationConfig, PreTrainedTokenizerBase
from transformers.utils.hub import cached_file

from minprm.arms.about import asked_of, read_about
from minprm.constants import fail
from minprm.load.pretrained import base_of, pretrained
from minprm.logs.schemas import RECONSTRUCTED, is_reconstructed, tool_name
from minprm.text.chat import Chat
from minprm.text.render import QUESTION, Renderer

RANKS = (8, 16, 32, 64, 128, 256, 320, 512)  # of adapters, that vLLM makes room for
NOTES = [
    "Without another --host the server listens to this machine alone.",
    "A thought or a call arrives as text, unless you name vLLM's parsers for the base model: "
    "--reasoning-parser, and --tool-call-parser with --enable-auto-tool-choice.",
]


class Serving(NamedTuple):
    """What a server is told, and what its clients are told."""

    flags: list[str]  # of `vllm serve`
    notes: list[str]  # sentences for whoever starts it, and for the clients
    ends: list[int]  # the tokens that end a turn


def serve_command(checkpoint: str, place: tuple[str, int]) -> tuple[list[str], list[str]]:
    """(the words of `vllm serve` for a checkpoint, sentences for its clients)."""
    base, rank = base_of(checkpoint)
    tokenizer = pretrained(AutoTokenizer, checkpoint)
    served = how_to_serve(tokenizer, read_about(checkpoint))
    config = GenerationConfig.from_model_config(pretrained(AutoConfig, base))
    if cached_file(base, "generation_config.json", _raise_exceptions_for_missing_entries=False):
        config = pretrained(GenerationConfig, base)
    if {tokenizer.eos_token_id, *stops_of(config)}.isdisjoint(served.ends):
        merge = " --merge" if rank else ""
        fail(
            f"a server of {checkpoint} would not stop where a turn ends: minprm export "
            f"{checkpoint} OUT{merge} writes a folder that says so, and minprm serve OUT serves it"
        )
    return command(checkpoint, base, rank, served.flags, place), served.notes


def command(
    folder: str,
    base: str,
    rank: int,
    flags: list[str],
    place: tuple[str, int] = ("127.0.0.1", 8000),  # vLLM by itself listens to the whole network
) -> list[str]:
    """The words that serve the folder, which holds adapters of this rank; 0: a whole model."""
    words = ["vllm", "serve", folder]
    if rank:
        room = next((size for size in RANKS if size >= rank), rank)
        words = ["vllm", "serve", base, "--enable-lora", "--max-lora-rank", str(room)]
        words += ["--lora-modules", f"{Path(folder).absolute().name}={folder}"]
    host, port = place
    return [*words, "--host", host, "--port", str(port), *flags]


def how_to_serve(tokenizer: PreTrainedTokenizerBase, about: dict) -> Serving:
    """How vLLM serves a model with this tokenizer. about: what its minprm.json says, or {}."""
    if not tokenizer.chat_template:
        fail(
            f"{tokenizer.name_or_path}: its tokenizer has no chat template, which vLLM's server "
            "needs; --engine minprm gives it a plain one"
        )
    knobs = asked_of(about)
    # as it was measured: it may have learned to act at once
    thinks = knobs["think"] and about.get("row", {}).get("thought_rate", 1.0) >= 0.5
    flags = []
    notes = NOTES + notes_of(about, thinks)
    render = Renderer(tokenizer, bool(about.get("tools")))
    prompt = render([QUESTION], [], prompt=True)
    switched = render([QUESTION], [], prompt=True, enable_thinking=thinks)
    wrong = re.search(r"<think>\s*</think>\s*$" if thinks else r"<think>\s*$", prompt)
    if switched != prompt and (wrong or not knobs["think"]):
        flags = ["--default-chat-template-kwargs", json.dumps({"enable_thinking": thinks})]
    elif wrong:
        notes.append(
            "The prompt of the chat template ends with a thought that is empty or open, and no "
            "prompt of its training did."
        )
    return Serving(flags, notes, Chat(tokenizer, knobs["layout"], about.get("tools", ())).ends)


def notes_of(about: dict, thinks: bool) -> list[str]:
    """What clients have to know of a model with this minprm.json, or {}.

    thinks: do they see its thoughts, and send them back?
    """
    notes = []
    history = asked_of(about)["history"]
    if history["last"]:
        notes.append(
            f"It was trained to see the first and the newest {history['last']} observations alone: "
            "send the contents of all others as empty texts."
        )
    if thinks and history["thoughts"]:
        notes.append(
            "It was trained with its earlier thoughts: send the `reasoning` of each answer back "
            "with it. Some chat templates drop it all the same."
        )
    elif thinks:
        notes.append("It was trained without its earlier thoughts: do not send them back.")
    names = [tool_name(tool) for tool in about.get("tools", ()) if is_reconstructed(tool)]
    if names:
        notes.append(f"Of the tools {', '.join(names)}: {RECONSTRUCTED}.")
    count = about.get("logs", {}).get("secrets", 0)
    if count:
        notes.append(
            f"What looks like a key, a token or a card number stands {count:,} times in the logs "
            "that it learned from, and a model may repeat it: minprm logs names the places."
        )
    return notes


def stops_of(config: GenerationConfig) -> list[int]:
    """The tokens at which a server of the model stops."""
    stops = config.eos_token_id
    if stops is None:
        return []
    return stops if isinstance(stops, list) else [stops]
