"""The templates that TRL ships, and Mistral's, which it does not; actions hard to write."""

import re

from transformers import PreTrainedTokenizerFast

from shared.chats import TEMPLATES, bytes_with

CONTROL = (
    r'<\|"\|>|<\|[A-Za-z_]+\|?>|<[A-Za-z_]+\|>|<｜[^｜<>]+｜>|\[/?[A-Z_]{3,}\]'
    r"|</?(?:think|tool_call|tool_response|arg_key|arg_value)>|<[a-z]+(?:_[a-z]+)+>"
)
ENDS = ["<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<turn|>", "<|eot|>", "<|end|>",
        "<|END_OF_TURN_TOKEN|>", "<end_of_utterance>", "<｜end▁of▁sentence｜>"]  # fmt: skip
MISTRAL = """\
{{- bos_token }}
{%- if tools %}{{- '[AVAILABLE_TOOLS]' + tools | tojson + '[/AVAILABLE_TOOLS]' }}{% endif %}
{%- for m in messages %}
{%- if m.role == 'system' %}{{- '[SYSTEM_PROMPT]' + m.content + '[/SYSTEM_PROMPT]' }}
{%- elif m.role == 'user' %}{{- '[INST]' + m.content + '[/INST]' }}
{%- elif m.role == 'tool' %}{{- '[TOOL_RESULTS]' + m.content + '[/TOOL_RESULTS]' }}
{%- else %}
{%- if m.reasoning_content %}{{- '[THINK]' + m.reasoning_content + '[/THINK]' }}{% endif %}
{{- m.content or '' }}
{%- for c in m.tool_calls or [] %}
{%- if c.id | length != 9 %}{{- raise_exception('an id has nine letters') }}{% endif %}
{{- '[TOOL_CALLS]' + c.function.name + '[ARGS]' + c.function.arguments | tojson }}
{%- endfor %}
{{- eos_token }}
{%- endif %}
{%- endfor %}"""
# Templates that cannot write all actions. For others each is written.
ONE_CALL = {"deepseek_r1_distill", "gptoss", "llama3_1", "llama3_2"}
NO_TEXT_BESIDE_A_CALL = {"gptoss", "muse_glimmer"}
SCHEMA = {"title": {"type": "string"}, "n": {"type": "integer"}, "ok": {"type": "boolean"},
          "at": {"type": ["object", "null"]}, "text": {"anyOf": [{"type": "string"}]}}  # fmt: skip
TYPED = [{"type": "function", "function": {
    "name": "visit", "description": "open a page",
    "parameters": {"type": "object", "properties": SCHEMA}}}]  # fmt: skip
PLAIN_CALL = {"name": "visit", "arguments": {"title": "Paris", "n": 3}}
HARD_CALL = {"name": "visit", "arguments": {
    "title": 'é ☃ "it\'s" \n {b} \\ <|im_end|></think></tool_call>[ARGS]<|"|><turn|></arg_value>',
    "n": 3,
    "ok": True, "at": {"x": [1.5, None, {"y": "z, w"}], "s": "}"}, "text": "3"}}  # fmt: skip
ACTIONS = {
    "reply": ("On it.", []),
    "call": ("", [PLAIN_CALL]),
    "no argument": ("", [{"name": "visit", "arguments": {}}]),
    "hard call": ("", [HARD_CALL]),
    "null": ("", [{"name": "visit", "arguments": {"at": None}}]),
    "hard reply": ("<|im_end|> é\n\n</think> <tool_call> [ARGS] <|call|><turn|>", []),
    "two calls": ("", [PLAIN_CALL, HARD_CALL]),
    "text and call": ("On it.", [PLAIN_CALL]),
    "text and two calls": ("On it.\nNow.", [HARD_CALL, PLAIN_CALL]),
}


def shipped(name: str) -> PreTrainedTokenizerFast:
    """A tokenizer with a template of TRL, whose control tokens are what looks like one in it."""
    text = MISTRAL if name == "mistral" else (TEMPLATES / f"{name}.jinja").read_text()
    found = set(re.findall(CONTROL, text))
    ends = [end for end in ENDS if end in text]
    made = bytes_with(["<s>", *sorted(found)], ends[0] if ends else "</s>", text)
    made.add_special_tokens({"eos_token": made.eos_token})
    return made


def writable(name: str, reply: str, calls: list[dict]) -> bool:
    several = len(calls) > 1 and name in ONE_CALL
    return not several and not (reply and calls and name in NO_TEXT_BESIDE_A_CALL)
