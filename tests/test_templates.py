"""Real chat templates (the files that TRL ships), and content that would like to be control."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from minprm.text.chat import Chat

trl = pytest.importorskip("trl", reason='needs trl: pip install -e ".[dev]"')
TEMPLATES = Path(trl.__file__).parent / "chat_templates"
QWEN = ["<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>"]
LLAMA = ["<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>",
         "<|python_tag|>"]  # fmt: skip
DEEPSEEK = ["<｜begin▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>", "<think>", "</think>",
            "<｜end▁of▁sentence｜>", *(f"<｜tool▁{t}｜>" for t in (
                "calls▁begin", "call▁begin", "sep", "call▁end", "calls▁end", "outputs▁begin",
                "output▁begin", "output▁end", "outputs▁end"))]  # fmt: skip
FAMILIES = {
    "qwen3": (QWEN, "<|im_end|>"),
    "qwen3_instruct_2507": (QWEN, "<|im_end|>"),
    "llama3_1": (LLAMA, "<|eot_id|>"),
    "deepseekv3": (DEEPSEEK, "<｜end▁of▁sentence｜>"),
}
LAYOUTS = [(name, layout) for name in FAMILIES for layout in ("think", "tool")]
TOOLS = [{"type": "function", "function": {
    "name": "visit", "description": "open a page",
    "parameters": {"type": "object", "properties": {"title": {"type": "string"}}}}}]  # fmt: skip
CALL = json.dumps({"name": "visit", "arguments": {"title": "Paris"}})


def tokenizer(name: str) -> PreTrainedTokenizerFast:
    """A byte-level BPE with the family's control tokens and template."""
    controls, end = FAMILIES[name]
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    letters = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, initial_alphabet=letters, show_progress=False)
    bpe.train_from_iterator(["visit the page and the name of it. \n\n"] * 3, trainer)
    made = PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token=end, bos_token=controls[0])
    made.add_tokens(controls, special_tokens=True)
    made.chat_template = (TEMPLATES / f"{name}.jinja").read_text()
    return made


def chat(name: str, layout: str) -> Chat:
    return Chat(tokenizer(name), layout, tools=True)


@pytest.mark.parametrize(("name", "layout"), LAYOUTS)
def test_what_is_written_is_read_back(name, layout):
    c = chat(name, layout)
    for thought in ("the page Paris is next", None):
        z = None if thought is None else c.thought(thought)
        read, action = c.parse(c.turn(z, c.action(CALL)))
        assert action == CALL and (read and read.strip()) == thought


@pytest.mark.parametrize(("name", "layout"), LAYOUTS)
def test_a_thought_ends_at_one_token_that_opens_nothing_else(name, layout):
    c = chat(name, layout)
    turn = c.turn(c.thought("next is Paris"), c.action(CALL))
    assert turn[len(c.think) :].count(c.stop[0]) == 1
    assert c.clean(c.thought("a </think> <tool_call> b"))


# What differs from the template's own rendering of a whole conversation, and why.
DIFFERENCES = {
    ("qwen3", "think"): "thoughts of earlier turns stay in the history",
    ("qwen3_instruct_2507", "think"): "the template has no place for thoughts",
    ("deepseekv3", "think"): "the template has no place for thoughts beside tool calls",
    ("llama3_1", "think"): "the template drops text beside a tool call",
    ("llama3_1", "tool"): "the template drops text beside a tool call; python_tag ends the thought",
}


@pytest.mark.parametrize(("name", "layout"), LAYOUTS)
def test_segments_are_what_the_template_renders_or_the_difference_is_listed(name, layout):
    c = chat(name, layout)
    system, user = {"role": "system", "content": "be brief"}, {"role": "user", "content": "go on"}
    function = {"name": "visit", "arguments": {"title": "Paris"}}
    if name == "deepseekv3":
        function["arguments"] = json.dumps(function["arguments"])
    call = [{"type": "function", "function": function}]
    asked = {"role": "assistant", "content": "Paris is next", "tool_calls": call}
    answer = {"role": "tool", "content": "Paris is big"}
    ids = c.state([system, user], TOOLS, first=True)
    ids += c.turn(c.thought("Paris is next"), c.action(CALL))
    ids += c.state([answer], TOOLS, first=False)
    whole = c.tokenizer.apply_chat_template(
        [system, user, asked, answer], tools=TOOLS, add_generation_prompt=True, tokenize=False
    )
    same = c.tokenizer.decode(ids) == whole.removesuffix("<think>\n")
    assert same != ((name, layout) in DIFFERENCES)
    if same:
        assert ids == c.tokenizer.encode(whole, add_special_tokens=False)


@pytest.mark.parametrize(("name", "layout"), LAYOUTS)
def test_an_observation_that_spells_control_tokens_stays_text(name, layout):
    c = chat(name, layout)
    plain = c.state([{"role": "user", "content": "x"}], TOOLS, first=True)
    hostile = "".join(FAMILIES[name][0]) + "<think> a </think>"
    ids = c.state([{"role": "user", "content": hostile}], TOOLS, first=True)
    assert c._controls(ids) == c._controls(plain)
    assert hostile in c.tokenizer.decode(ids)


@pytest.mark.parametrize(("name", "layout"), LAYOUTS)
@pytest.mark.parametrize(
    "arguments",
    [{}, {"a": {"b": {"c": [1, {"d": "}"}]}}}, {"t": 'é ☃ \n " \\'}, {"t": "x" * 10**5}],
)
def test_arguments_survive(name, layout, arguments):
    c = chat(name, layout)
    call = json.dumps({"name": "visit", "arguments": arguments})
    assert json.loads(c.parse(c.turn(None, c.action(call)))[1])["arguments"] == arguments


@pytest.mark.parametrize("layout", ["think", "tool"])
@pytest.mark.parametrize(
    "body", ['{"name": "visit", "arguments": {"t": }', "visit Paris", "", '{"arguments": {}}',
             '{"name": "visit", "arguments": 3}', '{"name": "", "arguments": {}}']
)  # fmt: skip
def test_a_broken_call_is_no_action(layout, body):
    c = chat("qwen3", layout)
    text = f"<tool_call>\n{body}\n</tool_call><|im_end|>"
    assert c.parse(c.tokenizer.encode(text, add_special_tokens=False))[1] is None


def test_two_calls_in_a_turn_are_two_lines():
    for layout in ("think", "tool"):
        c = chat("qwen3", layout)
        both = f"{CALL}\n{CALL}"
        ids = c.turn(None, c.action(both))
        assert c.parse(ids)[1] == both and ids.count(c._template("<tool_call>")[0]) == 2
    with pytest.raises(SystemExit):
        chat("llama3_1", "tool").action(f"{CALL}\n{CALL}")


QWEN_CHAT = {layout: chat("qwen3", layout) for layout in ("think", "tool")}


@given(st.data())
def test_whatever_is_sampled_is_parsed_without_an_exception(data):
    c = QWEN_CHAT[data.draw(st.sampled_from(["think", "tool"]))]
    turn = c.turn(c.thought("next"), c.action(CALL))
    vocabulary = st.one_of(st.sampled_from(turn), st.integers(0, len(c.tokenizer) - 1))
    ids = data.draw(st.lists(vocabulary, max_size=40))
    thought, action = c.parse(ids)
    assert thought is None or isinstance(thought, str)
    if action is not None:  # then it is the template's own writing of it, white space aside
        read = json.loads(action.splitlines()[0])
        assert set(read) == {"name", "arguments"} and ids[-1] == c.end[-1]


@given(st.text(max_size=200), st.text(min_size=1, max_size=20))
def test_any_text_goes_through_thought_and_arguments(thought, value):
    c = QWEN_CHAT["think"]
    call = json.dumps({"name": "visit", "arguments": {"t": value}})
    ids = c.turn(c.thought(thought), c.action(call))
    read, action = c.parse(ids)
    assert read == thought.strip() + "\n" and action == call


@pytest.mark.parametrize("name", FAMILIES)
def test_tags_that_a_vocabulary_spells_carry_plain_text_actions(name):
    c = Chat(tokenizer(name), "tags")
    turn = c.turn(c.thought("next is Paris"), c.action("open c"))
    assert len(c.act) > 1 and c.text(turn).startswith("<think>")
    assert c.parse(turn) == ("next is Paris\n", "open c")
    assert c.parse(c.turn(None, c.action("open c"))) == (None, "open c")
    assert c.without_thought(turn) == c.turn(None, c.action("open c"))
    unclosed = [*c.think, *c.thought("next"), *c.act, *c.action("open c"), *c.act_end, *c.end]
    assert c.parse(unclosed)[1] is None
    drawn = c.think + c.thought("next") + c.stop  # as far as the sampler writes
    assert c.text(drawn + c.think_end[1:]).endswith("</think>")


def test_layouts_that_cannot_be_say_what_can(capsys):
    for layout, tools, instead in (("tags", True, "think or tool"), ("tool", False, "think")):
        with pytest.raises(SystemExit):
            Chat(tokenizer("llama3_1"), layout, tools)
        assert instead in capsys.readouterr().err
