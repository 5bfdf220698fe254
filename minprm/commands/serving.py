"""How vLLM serves a chat model: its parsers for what the chat template writes, and what differs.

A parser takes the thought and the calls out of a text. Which one is right follows from the texts
that the template writes around them. Where no parser is known, a sentence says so: a wrong one
would lose calls without any error. The names are those of vLLM 0.32.
"""

import json
import re
from typing import NamedTuple

from transformers import PreTrainedTokenizerBase

from minprm.text.chat import Chat
from minprm.text.render import applied

# How a call to `lookup` begins, and the --tool-call-parser that reads it.
TOOL_PARSERS = (
    (r'<tool_call>\s*\{"name":', "hermes"),
    (r"<tool_call>\s*<function=lookup>", "qwen3_xml"),
    (r"<tool_call>lookup\s*<arg_key>", "glm45"),
    (r"<｜tool▁call▁begin｜>function<｜tool▁sep｜>lookup", "deepseek_v3"),
    (r"<｜tool▁call▁begin｜>lookup<｜tool▁sep｜>", "deepseek_v31"),
    (r"<\|tool_call>call:lookup\{", "gemma4"),
    (r"<\|tool_call_start\|>\[lookup\(", "lfm2"),
    (r"to=functions\.lookup<\|channel\|>", "openai"),
    (r"\[TOOL_CALLS\]", "mistral"),
    (r'\{"name": "lookup", "parameters":', "llama3_json"),
)
# The --reasoning-parser for thoughts in <think> ... </think>, by the parser of the calls. These
# keep a call that no thought comes before. Others read all of such a turn as a thought.
REASONING_PARSERS = {"hermes": "qwen3", "qwen3_xml": "qwen3", "glm45": "glm45"}
ANY_REASONING = "deepseek_r1"

_THOUGHT = "xMINPRMTx"
_PARAMETERS = {"type": "object", "properties": {"title": {"type": "string"}}}
TOOL = {
    "type": "function",
    "function": {"name": "lookup", "description": "x", "parameters": _PARAMETERS},
}
_USER = {"role": "user", "content": "xMINPRMUx"}
_ANSWER = {"role": "assistant", "content": "x", "reasoning": _THOUGHT,
           "reasoning_content": _THOUGHT}  # fmt: skip
_RESULT = {"role": "tool", "tool_call_id": "a1b2c3d4e", "name": "lookup", "content": "x"}


class Serving(NamedTuple):
    """What a server is told, and what its clients are told."""

    flags: list[str]  # of `vllm serve`
    notes: list[str]  # sentences about what no flag mends
    ends: list[int]  # the tokens that end a turn


def serving(
    tokenizer: PreTrainedTokenizerBase, asked: dict, tools: list[dict], thinks: bool
) -> Serving:
    """How a model with this tokenizer is served.

    asked: the knobs by which it was asked in training (arms/about.py). tools: the
    schemas of those that it may call. thinks: most of its turns begin with a thought.
    """
    chat = Chat(tokenizer, asked["layout"], tools)
    parser = tool_parser(tokenizer) if tools else None
    flags = []
    notes = []
    if thinks:
        flags, notes = _of_thoughts(chat, parser)
    if parser:
        flags += ["--enable-auto-tool-choice", "--tool-call-parser", parser]
    elif tools:
        notes.append(
            "We know no --tool-call-parser of vLLM for the calls of this chat template: they arrive"
            " as text in `content`."
        )
    elif chat.layout.act_end:
        notes.append(
            f"Its answers stand between {chat.layout.act.strip()} and {chat.layout.act_end}, which "
            "no parser of vLLM takes away."
        )
    more, said = _of_prompt(tokenizer, asked, thinks)
    notes += said + _of_history(tokenizer, asked, bool(tools), thinks)
    return Serving(flags + more, notes, chat.ends)


def tool_parser(tokenizer: PreTrainedTokenizerBase) -> str | None:
    """The --tool-call-parser for the calls that this template writes; None: we know none."""
    for call in _calls():
        text = _rendered(tokenizer, [_USER, call], [TOOL]) or ""
        turn = text.rpartition(_USER["content"])[2]  # without the list of tools
        for pattern, name in TOOL_PARSERS:
            if "lookup" in turn and re.search(pattern, turn):
                return name
    return None


def _of_thoughts(chat: Chat, parser: str | None) -> tuple[list[str], list[str]]:
    """The flags for a model that thinks, and what its clients have to know."""
    tags = (chat.layout.think.strip(), chat.layout.stop.strip())
    known = chat.tokenizer.get_vocab()
    if tags != ("<think>", "</think>") or not known.keys() >= {*tags}:
        return [], [
            "No --reasoning-parser of vLLM that we know reads its thoughts: they arrive in "
            "`content`, before the action."
        ]
    what = "An answer in plain text" if parser in REASONING_PARSERS else "An answer or a call"
    return ["--reasoning-parser", REASONING_PARSERS.get(parser or "", ANY_REASONING)], [
        f"A thought arrives in `reasoning`. {what} without a thought arrives there too, and "
        "`content` is null."
    ]


def _of_prompt(
    tokenizer: PreTrainedTokenizerBase, asked: dict, thinks: bool
) -> tuple[list[str], list[str]]:
    """What the end of the served prompt says about thinking, where the model learned otherwise."""
    plain, on, off = (
        _prompt(tokenizer, **knobs)
        for knobs in ({}, {"enable_thinking": True}, {"enable_thinking": False})
    )
    closed = re.search(r"<think>\s*</think>\s*$", plain)
    opened = re.search(r"<think>\s*$", plain)
    switch = "--default-chat-template-kwargs"
    if thinks and closed:
        if on != plain:
            return [switch, '{"enable_thinking": true}'], []
        return [], ["The chat template ends its prompt with an empty thought: it will not think."]
    if not thinks and (opened or not asked["think"]) and off != plain:
        return [switch, '{"enable_thinking": false}'], []
    if not thinks and opened:
        return [], [
            "The chat template opens a thought in its prompt, and it learned to act at once."
        ]
    return [], []


def _of_history(
    tokenizer: PreTrainedTokenizerBase, asked: dict, tools: bool, thinks: bool
) -> list[str]:
    """With which history it was trained, and which one it is served with."""
    history = asked["history"]
    notes = []
    if history["last"]:
        notes.append(
            f"It was trained to see the first {history['first']} and the newest {history['last']} "
            "observations alone: send the contents of all others as empty texts."
        )
    if not thinks:
        return notes
    if not history["thoughts"]:
        notes.append(
            "It was trained without its earlier thoughts in the history: do not send them back."
        )
    elif keeps_thoughts(tokenizer, [_ANSWER, _USER]):
        notes.append(
            "It was trained with its earlier thoughts in the history: send the `reasoning` of each "
            "answer back with it."
        )
    elif tools and any(keeps_thoughts(tokenizer, [call, _RESULT]) for call in _calls()):
        notes.append(
            "It was trained with all of its earlier thoughts in the history. Send the `reasoning` "
            "of each answer back with it; the chat template still drops those from before the "
            "newest user message."
        )
    else:
        notes.append(
            "It was trained with its earlier thoughts in the history, and the chat template drops "
            "them: served, it never sees them. Trained with --history.no-thoughts, it would be "
            "served as it was trained."
        )
    return notes


def keeps_thoughts(tokenizer: PreTrainedTokenizerBase, later: list[dict]) -> bool:
    """Does the template write the thought in these messages, which follow a user's?"""
    return _THOUGHT in (_rendered(tokenizer, [_USER, *later], [TOOL]) or "")


def _calls() -> list[dict]:
    """An answer that calls the tool: most templates take arguments as an object, some as text."""
    found = []
    for arguments in ({"title": "x"}, json.dumps({"title": "x"})):
        function = {"name": "lookup", "arguments": arguments}
        call = {"id": _RESULT["tool_call_id"], "type": "function", "function": function}
        found.append({**_ANSWER, "content": "", "tool_calls": [call]})
    return found


def _prompt(tokenizer: PreTrainedTokenizerBase, **knobs) -> str:
    return _rendered(tokenizer, [_USER], [], add_generation_prompt=True, **knobs) or ""


def _rendered(
    tokenizer: PreTrainedTokenizerBase, messages: list[dict], tools: list[dict], **knobs
) -> str | None:
    """The template's text; None where it cannot write such a conversation."""
    try:
        return applied(tokenizer, messages, tools, **knobs)
    except Exception:  # a template raises whatever its author liked
        return None
