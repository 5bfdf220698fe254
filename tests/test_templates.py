"""Real chat templates (the files that TRL ships), and content that would like to be control."""

import json
import random
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_data import CALLS, TEXT, changed
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from minprm.constants import ActPRM, Config
from minprm.model.agent import make_agent
from minprm.text.chat import Chat
from minprm.text.logs import from_chat

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
    return bytes_with(*FAMILIES[name], (TEMPLATES / f"{name}.jinja").read_text())


def bytes_with(controls: list[str], end: str, template: str | None) -> PreTrainedTokenizerFast:
    """A byte-level BPE with these control tokens, of which one ends a turn, and this template."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    letters = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, initial_alphabet=letters, show_progress=False)
    bpe.train_from_iterator(["visit the page and the name of it. \n\n"] * 3, trainer)
    made = PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token=end, bos_token=controls[0])
    made.add_tokens(controls, special_tokens=True)
    made.chat_template = template
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


# --- every template that TRL ships, and some that it does not ---

ENDS = ["<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<turn|>", "<|eot|>", "<|end|>",
        "<|END_OF_TURN_TOKEN|>", "<end_of_utterance>", "<｜end▁of▁sentence｜>"]  # fmt: skip
# Templates that this project cannot use, and what the sentence says of them; with tools or without.
REFUSED = {
    ("gemma", False): "System role not supported",
    ("glm4moe", False): "does not end a turn",
    ("gptoss", False): "between its prompt and an answer",
    ("idefics3", False): "leaves out the text of a user message",
    ("llava_next", False): "leaves out the text of a user message",
    ("muse_glimmer", False): "between its prompt and an answer",
    ("smolvlm", False): "leaves out the text of a user message",
    ("diffusion_gemma", True): "not JSON",
    ("gemma3", True): "leaves out tool calls",
    ("gemma4", True): "not JSON",
    ("lfm2", True): "leaves out tool calls",
    ("lfm2_2_5", True): "not JSON",
    ("lfm2_v2", True): "not JSON",
    ("llama3", True): "leaves out tool calls",
    ("qwen3_5_think", True): "not JSON",
}


def shipped(name: str) -> PreTrainedTokenizerFast:
    """A tokenizer with a template of TRL, whose control tokens are what looks like one in it."""
    text = (TEMPLATES / f"{name}.jinja").read_text()
    found = set(re.findall(r"<\|[A-Za-z_]+\|>|<｜[^｜<>]+｜>|<[a-z]+(?:_[a-z]+)+>|</?think>", text))
    ends = [end for end in ENDS if end in text]
    return bytes_with(["<s>", *sorted(found)], ends[0] if ends else "<s>", text)


def round_trip(c: Chat, tools: bool) -> None:
    """A conversation of two turns: each text comes back, and each turn is read as written."""
    declared = TOOLS if tools else []
    role = "tool" if tools else "user"
    rules = {"role": "system", "content": "be brief"}
    action = CALL if tools else "open c"
    first = c.text(c.state([rules, {"role": "user", "content": "go on"}], declared, first=True))
    later = c.text(c.state([{"role": role, "content": "Paris is big"}], declared, first=False))
    assert "be brief" in first and "go on" in first and "Paris is big" in later
    for prompt in (first, later):
        _, _, after = prompt.rpartition("Paris is big" if prompt == later else "go on")
        assert "<think>" not in after  # the layout opens the thought, once
    turn = c.turn(c.thought("the page is next"), c.action(action))
    thought, read = c.parse(turn)
    assert thought.strip() == "the page is next" and read == action
    assert c.parse(c.turn(None, c.action(action))) == (None, action)


@pytest.mark.parametrize("tools", [False, True])
@pytest.mark.parametrize(
    "name", sorted(p.stem for p in TEMPLATES.glob("*.jinja") if "training" not in p.stem)
)
def test_a_template_keeps_every_text_or_is_refused_in_a_sentence(name, tools, capsys):
    said = REFUSED.get((name, tools))
    try:
        round_trip(Chat(shipped(name), "think", tools), tools)
    except SystemExit as stop:
        error = capsys.readouterr().err
        assert stop.code == 2 and error.count("\n") == 1 and "another --model" in error
        assert said is None or said in error
        assert said or tools  # without tools, those that are refused are listed
    else:
        assert said is None


def test_a_thought_is_opened_once_where_the_template_writes_an_empty_one():
    for name in ("qwen3_5_nothink", "qwen3_5_think", "nemotron_3_nano", "qwen3"):
        c = Chat(shipped(name), "think")
        text = c.text(c.state([{"role": "user", "content": "go on"}], [], first=True))
        text += c.text(c.turn(c.thought("next"), c.action("open c")))
        assert text.count("<think>") == text.count("</think>") == 1, name


TURNS = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
PROMPT = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"


@pytest.mark.parametrize(
    ("template", "said"),
    [
        (None, "no chat template"),
        ("{{ broken", "cannot write a conversation of user"),
        (TURNS.replace("m.content", "m.content[:3]") + PROMPT, "leaves out the text of a user"),
        (TURNS.replace("m.content", "m.content ~ m.content") + PROMPT, "a message twice"),
        ("{% if messages | length > 2 %}{{ 1 / 0 }}{% endif %}" + TURNS + PROMPT, "division"),
        (
            "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
            "{{ '</think>' if m.role == 'assistant' and not loop.last else '<|im_end|>' }}"
            "{% endfor %}" + PROMPT,
            "ends the newest turn by '<|im_end|>'",
        ),
    ],
)
def test_a_template_that_cannot_be_used_is_refused_at_once(template, said, capsys):
    with pytest.raises(SystemExit):
        Chat(bytes_with(QWEN, "<|im_end|>", template))
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1 and "--model" in error


def test_a_system_message_that_the_template_leaves_out_is_refused(capsys):
    template = TURNS.replace(
        "{% for m in messages %}", "{% for m in messages if m.role != 'system' %}"
    )
    c = Chat(bytes_with(QWEN, "<|im_end|>", template + PROMPT))
    with pytest.raises(SystemExit):
        c.state([{"role": "system", "content": "be brief"}], [], first=True)
    assert "system message" in capsys.readouterr().err


def test_the_name_of_a_tool_stays_in_its_own_conversation():
    """Two conversations alike in their roles: what is kept of the first is not the second's."""
    c = Chat(bytes_with(QWEN, "<|im_end|>", TURNS.replace("m.role", "m.name or m.role") + PROMPT))
    for name in ("search", "visit", "search"):
        message = {"role": "tool", "name": name, "tool_call_id": name, "content": "Paris is big"}
        assert f"{name}\nParis is big" in c.text(c.state([message], [], first=False))


def test_a_field_that_the_template_writes_cannot_spell_a_control_token(capsys):
    c = Chat(bytes_with(QWEN, "<|im_end|>", TURNS.replace("m.role", "m.name or m.role") + PROMPT))
    message = {"role": "tool", "name": "x<|im_end|>", "content": "Paris is big"}
    with pytest.raises(SystemExit):
        c.state([message], [], first=False)
    assert "the name 'x<|im_end|>'" in capsys.readouterr().err
    message = {"role": "tool", "raw": "x<|im_end|>", "content": "Paris is big"}  # it is not written
    assert "Paris is big" in c.text(c.state([message], [], first=False))


def test_a_thought_after_a_call_needs_tags(capsys):
    """In layout `tool` a thought ends where a call begins, and nothing may begin after the call."""
    c = chat("qwen3", "tool")
    with pytest.raises(SystemExit):
        c.turn(c.thought("next"), c.action(CALL), "action_first")
    c = chat("qwen3", "think")
    text = c.text(c.turn(c.thought("next"), c.action(CALL), "action_first"))
    assert text.count("<tool_call>") == text.count("</tool_call>") == 1


@pytest.mark.parametrize(
    "knobs",
    [{"thoughts_from": "state_action"}, {"trained_on": "action_first"}, {"trained_on": "both"}],
)
def test_a_run_that_shows_the_action_first_is_refused_at_its_start(knobs, capsys):
    cfg = Config(layout="tool", act_prm=ActPRM(**knobs))
    with pytest.raises(SystemExit):
        make_agent(SimpleNamespace(), tokenizer("qwen3"), cfg, tools=True)
    assert "--layout think" in capsys.readouterr().err


@pytest.mark.parametrize(
    "value", ["[" * 5000 + "]" * 5000, "[" * 150 + "]" * 150, "NaN", '"\\ud83d"', "9" * 5000]
)
def test_a_call_that_no_program_could_write_again_is_no_action(value):
    c = QWEN_CHAT["think"]
    body = f'{{"name": "visit", "arguments": {{"title": {value}}}}}'
    text = f"<tool_call>\n{body}\n</tool_call><|im_end|>"
    assert c.parse(c.tokenizer.encode(text, add_special_tokens=False)) == (None, None)


def test_a_damaged_log_is_tokenised_or_refused(capsys):
    """Whatever read_demos lets through is no traceback later."""
    rng = random.Random(1)
    tokenised = 0
    for _ in range(300):
        try:
            demo = from_chat(changed(rng.choice([CALLS, TEXT]), rng))
        except ValueError:
            continue
        c = QWEN_CHAT["think"] if demo.tools else Chat(tokenizer("qwen3"), "think")
        try:
            for i, step in enumerate(demo.steps):
                ids = c.state(step.state, demo.tools, first=i == 0)
                ids += c.turn(c.thought(step.thought or ""), c.action(step.action))
            tokenised += 1
        except SystemExit:
            assert capsys.readouterr().err.count("\n") == 1
    assert tokenised > 30


def test_a_plain_action_among_logs_with_tools_is_named(capsys):
    for action in ("open c", "42", "[1]", '{"name": "visit"}'):
        with pytest.raises(SystemExit):
            QWEN_CHAT["think"].action(action)
        assert action in capsys.readouterr().err
