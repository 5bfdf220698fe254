"""Another project's hand-written renderers, one a family of models: they read what is written here,
and write the same.

`renderers` (Prime Intellect) has code for each format of calls, where this project runs the model's
own template. Where both agree, neither has made the other's mistakes.
"""

import pytest

from minprm.text.actions import joined
from minprm.text.chat import Chat
from shared.templates import ACTIONS, PLAIN_CALL, TYPED, shipped, writable

configs = pytest.importorskip("renderers.configs", reason='needs renderers: pip install ".[dev]"')
base = pytest.importorskip("renderers.base")

FAMILIES = {
    "qwen3": "Qwen3",
    "qwen3_vl": "Qwen3VL",
    "qwen3_5_think": "Qwen35",
    "qwen3_6": "Qwen36",
    "qwen3_8": "Qwen38",
    "glm4moe": "GLM45",
    "nemotron_3_nano": "Nemotron3",
    "nemotron_3_super": "Nemotron3",
    "nemotron_3_ultra": "Nemotron3Ultra",
    "gemma4_v5": "Gemma4",
    "llama3_2": "Llama3",
    "deepseekv3": "DeepSeekV3",
}
# Tokens that a renderer looks up, although no tool call needs them.
NEEDED = """<|endoftext|> <tool_response> </tool_response> <|im_start|> <|im_end|> <think> </think>
<tool_call> </tool_call> <|vision_start|> <|vision_end|> <|image_pad|> <|video_pad|> [gMASK] <sop>
<|system|> <|user|> <|assistant|> <|observation|> <arg_key> </arg_key> <arg_value> </arg_value>
<|image> <image|> <|image|> <|audio> <audio|> <|audio|> <|video|> <|tool_response> <tool_response|>
<|think|> <|end_of_text|> <|begin_of_text|> <|eom_id|> <|python_tag|> <bos> <eos>
<｜begin▁of▁sentence｜> <｜end▁of▁sentence｜>""".split()
HARD = {"title": 'é ☃ "it\'s" \n {b} \\ <|im_end|></think>', "n": 3, "at": {"x": [1.5, None, "y"]}}
KINDS = {
    **{kind: ACTIONS[kind] for kind in ("reply", "call", "text and call")},
    "two calls": ("", [PLAIN_CALL, {"name": "visit", "arguments": HARD}]),
}
NO_THOUGHTS = {"qwen3_vl", "llama3_2", "deepseekv3"}  # neither they nor the templates write any
DIFFERENCES = {
    ("gemma4_v5", "text and call"): "they write the text behind the call",
    ("llama3_2", "text and call"): "they drop the text",
    ("deepseekv3", "two calls"): "the template has a line break between calls, and they have none",
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FAMILIES)
def test_a_hand_written_renderer_reads_and_writes_the_same_turn(name, kind):
    reply, calls = KINDS[kind]
    if not writable(name, reply, calls):
        return
    tokenizer = shipped(name)
    missing = [token for token in NEEDED if token not in tokenizer.get_vocab()]
    tokenizer.add_tokens(missing, special_tokens=True)
    theirs = base.create_renderer(tokenizer, getattr(configs, f"{FAMILIES[name]}RendererConfig")())
    ours = Chat(tokenizer, "think", TYPED)
    thought = None if name in NO_THOUGHTS else "so Paris is next"
    thought_ids = None if thought is None else ours.thought(thought)
    turn = ours.turn(thought_ids, ours.action(joined(reply, calls)))

    message = {"role": "assistant", "content": reply, "reasoning_content": thought}
    made = [{"id": "call00000", "type": "function", "function": call} for call in calls]
    message |= {"tool_calls": made} if calls else {}
    asked = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "go on"}]
    ids = list(theirs.render([*asked, message], tools=TYPED).token_ids)
    text = tokenizer.decode(ids).rpartition("go on")[2].rstrip()
    prompt = tokenizer.decode(ours.state(asked, TYPED, after=None)).rpartition("go on")[2]
    # GLM's turns end by the token that begins the next message, which they leave to that message
    same = text in (prompt + ours.text(turn), prompt + ours.text(turn[:-1]))
    assert same != ((name, kind) in DIFFERENCES)

    parsed = theirs.parse_response(turn, tools=TYPED)
    read = [{"name": call.name, "arguments": call.arguments} for call in parsed.tool_calls or []]
    if same:
        assert (parsed.content.strip(), read) == (reply, calls)
        assert (parsed.reasoning_content or "").strip() == (thought or "")
