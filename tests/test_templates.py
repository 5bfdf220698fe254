"""Real chat templates (the files that TRL ships), and content that would like to be control."""

import json
import random
import re
from dataclasses import replace
from functools import lru_cache, partial
from itertools import product
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loguru import logger
from tokenizers import AddedToken, Tokenizer, models
from transformers import PreTrainedTokenizerFast

from minprm.constants import ActPRM, Config, History
from minprm.data import Demo, Step
from minprm.endpoint.conversations import write as retold
from minprm.load.check import check_seams, other_seams
from minprm.load.grown import other_message
from minprm.logs.reader import from_chat
from minprm.model.agent import make_prompter
from minprm.stages.act_prm import Path
from minprm.stages.sft import to_samples
from minprm.text.actions import joined, normalise
from minprm.text.calls import types_of
from minprm.text.chat import Chat
from minprm.text.render import applied
from shared.chats import CALL, FAMILIES, QWEN, TEMPLATES, TOOLS, bytes_with, tokenizer
from shared.logs import CALLS, TEXT, changed
from shared.templates import ACTIONS, MISTRAL, PLAIN_CALL, TYPED, shipped, writable


def chat(name: str) -> Chat:
    return Chat(tokenizer(name), "think", TOOLS)


@pytest.mark.parametrize("name", FAMILIES)
def test_what_is_written_is_read_back(name):
    c = chat(name)
    for thought in ("the page Paris is next", None):
        z = None if thought is None else c.thought(thought)
        read, action = c.parse(c.turn(z, c.action(CALL)))
        assert action == CALL and (read and read.strip()) == thought


@pytest.mark.parametrize("name", FAMILIES)
def test_a_thought_ends_at_one_token_that_opens_nothing_else(name):
    c = chat(name)
    turn = c.turn(c.thought("next is Paris"), c.action(CALL))
    assert turn[len(c.think) :].count(c.stop[0]) == 1
    assert c.clean(c.thought("a </think> <tool_call> b"))


@pytest.mark.parametrize("name", FAMILIES)
def test_an_observation_that_spells_control_tokens_stays_text(name):
    c = chat(name)
    plain = c.state([{"role": "user", "content": "x"}], TOOLS, after=None)
    hostile = "".join(FAMILIES[name][0]) + "<think> a </think>"
    ids = c.state([{"role": "user", "content": hostile}], TOOLS, after=None)
    assert c._controls(ids) == c._controls(plain)
    assert hostile in c.tokenizer.decode(ids)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize(
    "arguments",
    [{}, {"a": {"b": {"c": [1, {"d": "}"}]}}}, {"t": 'é ☃ \n " \\'}, {"t": "x" * 10**5}],
)
def test_arguments_survive(name, arguments):
    c = chat(name)
    call = json.dumps({"name": "visit", "arguments": arguments})
    assert json.loads(c.parse(c.turn(None, c.action(call)))[1])["arguments"] == arguments


@pytest.mark.parametrize(
    "body", ['{"name": "visit", "arguments": {"t": }', "visit Paris", "", '{"arguments": {}}',
             '{"name": "visit", "arguments": 3}', '{"name": "", "arguments": {}}']
)  # fmt: skip
def test_a_broken_call_is_no_action(body):
    c = chat("qwen3")
    text = f"<tool_call>\n{body}\n</tool_call><|im_end|>"
    assert c.parse(c.tokenizer.encode(text, add_special_tokens=False))[1] is None


def test_two_calls_in_a_turn_are_two_lines():
    c = chat("qwen3")
    both = f"{CALL}\n{CALL}"
    ids = c.turn(None, c.action(both))
    assert c.parse(ids)[1] == both and ids.count(c.encode("<tool_call>")[0]) == 2
    with pytest.raises(SystemExit):
        chat("llama3_1").action(f"{CALL}\n{CALL}")


QWEN_CHAT = chat("qwen3")


@given(st.data())
def test_whatever_is_sampled_is_parsed_without_an_exception(data):
    c = QWEN_CHAT
    turn = c.turn(c.thought("next"), c.action(CALL))
    vocabulary = st.one_of(st.sampled_from(turn), st.integers(0, len(c.tokenizer) - 1))
    ids = data.draw(st.lists(vocabulary, max_size=40))
    thought, action = c.parse(ids)
    assert thought is None or isinstance(thought, str)
    if action is not None:
        assert ids[-1] == c.end[-1]
        c.action(action)  # it can stand in a history


@pytest.mark.slow
@given(st.text(max_size=200), st.text(min_size=1, max_size=20))
def test_any_text_goes_through_thought_and_arguments(thought, value):
    c = QWEN_CHAT
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
    with pytest.raises(SystemExit):
        Chat(tokenizer("llama3_1"), "tags", TOOLS)
    assert "use --layout think" in capsys.readouterr().err


# --- every template that TRL ships, and Mistral's, which it does not ---

NAMES = sorted(p.stem for p in TEMPLATES.glob("*.jinja") if "training" not in p.stem)
WITH_CALLS = [n for n in NAMES if "tool_calls" in (TEMPLATES / f"{n}.jinja").read_text()]
# Templates that this project cannot use, and what the sentence says of them; with tools or without.
LOSSY = "in a format that is not read"  # a text with a quotation mark comes out as another text
REFUSED = {
    ("gemma", False): "System role not supported",
    ("idefics3", False): "leaves out the text of a user message",
    ("llava_next", False): "leaves out the text of a user message",
    ("smolvlm", False): "leaves out the text of a user message",
    ("gemma3", True): "leaves out tool calls",
    ("lfm2_2_5", True): LOSSY,
    ("lfm2_2_5_v2", True): LOSSY,
    ("lfm2_2_5_vl", True): LOSSY,
    ("lfm2_v2", True): LOSSY,
    ("llama3", True): "leaves out tool calls",
}
CARRIED = [*(n for n in WITH_CALLS if (n, True) not in REFUSED), "mistral"]


@lru_cache
def carried(name: str) -> Chat:
    return Chat(shipped(name), "auto", TYPED)


@pytest.mark.parametrize("kind", ACTIONS)
@pytest.mark.parametrize("name", CARRIED)
def test_replies_and_calls_are_read_as_they_were_written(name, kind, capsys):
    c = carried(name)
    action = joined(*ACTIONS[kind])
    if not writable(name, *ACTIONS[kind]):
        with pytest.raises(SystemExit):
            c.action(action)
        error = capsys.readouterr().err
        assert error.count("\n") == 1 and ("split the turn" in error or "--content" in error)
        return
    for thought in ("so Paris is next", None):
        turn = c.turn(None if thought is None else c.thought(thought), c.action(action))
        z, read = c.parse(turn)
        assert (z and z.strip()) == thought and normalise(read) == normalise(action)
        assert turn[-1] in c.ends and turn[-1] not in turn[:-1]
        assert c.without_thought(turn) == c.turn(None, c.action(action))
        assert c.parse(turn[:-1])[1] is None  # it was cut for its length
        # what the two kinds of action differ in belongs to the action
        assert turn[: len(turn) - len(c.action(action) + c.end)] == c.opening(
            None if thought is None else c.thought(thought)
        )


@pytest.mark.parametrize("name", CARRIED)
def test_an_action_is_tokenised_as_the_model_would_write_it(name):
    c = carried(name)
    call = {"name": "visit", "arguments": {"title": "/Paris"}}  # "/ is one token
    for reply, calls in (("On it.", []), ("", [call]), ("On it.", [call])):
        if writable(name, reply, calls):
            ids = c.action(joined(reply, calls))
            assert ids == c.tokenizer.encode(c.text(ids), add_special_tokens=False)


# What differs from the template's own rendering of a conversation, and why.
HISTORY = "thoughts of earlier turns stay in the history"
BESIDE = "the template drops text beside a call, or writes it behind the call"
ALONE = "the template writes thoughts beside calls alone"
RETURN = "the history keeps the end that was sampled; " + HISTORY
DIFFERENCES = {}
for family in ("qwen3", "qwen3_5_nothink", "qwen3_5_think", "qwen3_6", "nemotron_3_5_lightning",
               "nemotron_3_nano", "nemotron_3_super", "nemotron_3_ultra", "glm4moe",
               "diffusion_gemma", "gemma4_v5"):  # fmt: skip
    DIFFERENCES[family, "reply"] = ("later", HISTORY)
for family in ("gemma4", "gemma4_v3", "gemma4_v4"):
    DIFFERENCES[family, "reply"] = ("newest", ALONE)
for family in ("deepseek_r1_distill", "llama3_1", "llama3_2", "diffusion_gemma", "gemma4",
               "gemma4_v2", "gemma4_v3", "gemma4_v4", "gemma4_v5"):  # fmt: skip
    DIFFERENCES[family, "text and call"] = ("newest", BESIDE)
DIFFERENCES["gptoss", "reply"] = ("later", RETURN)


def messages_of(name: str, reply: str, calls: list[dict]) -> tuple[dict, list[dict]]:
    """The action as a chat message with a thought, and what comes after it."""
    message = {"role": "assistant", "content": reply}
    if calls and name == "deepseek_r1_distill":
        message["content"] = reply or None
    if calls:
        message["tool_calls"] = made = []
        for i, call in enumerate(calls):
            text = json.dumps(call["arguments"])
            function = {**call, "arguments": text} if "deepseek" in name else call
            made.append({"id": f"call0000{i}", "type": "function", "function": function})
    if not calls:
        return message, [{"role": "user", "content": "go on"}]
    return message, [
        {"role": "tool", "name": "visit", "tool_call_id": f"call0000{i}", "content": f'"{i}" big'}
        for i in range(len(calls))
    ]


@pytest.mark.parametrize("kind", ["reply", "call", "two calls", "text and call"])
@pytest.mark.parametrize("name", CARRIED)
def test_segments_are_what_the_template_renders_or_the_difference_is_listed(name, kind):
    reply, calls = ACTIONS[kind]
    calls = [PLAIN_CALL] * len(calls)
    if not writable(name, reply, calls):
        return
    c = carried(name)
    message, later = messages_of(name, reply, calls)
    asked = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "go on"}]
    thought = None
    if c.template.turns.newest.key:  # the template has a place for thoughts
        message[c.template.turns.newest.key] = "so Paris is next"
        thought = c.thought("so Paris is next")
    action = joined(reply, calls)
    ids = c.state(asked, TOOLS, after=None) + c.turn(thought, c.action(action))
    render = partial(applied, c.tokenizer, tools=TOOLS)
    newest = render([*asked, message])
    # GLM's turns end by the token that begins the next message
    text = c.text(ids[:-1]) if name == "glm4moe" else c.text(ids)
    found = "" if newest.startswith(text) else "newest"
    if not found:
        whole = render([*asked, message, *later], add_generation_prompt=True)
        ids += c.state(later, TOOLS, after=action)
        found = "" if c.template.turns.newest.bare(whole) == c.text(ids) else "later"
    assert found == DIFFERENCES.get((name, kind), ("", ""))[0]


def round_trip(c: Chat, tools: list[dict]) -> None:
    """A conversation of two turns: each text comes back, and each turn is read as written."""
    role = "tool" if tools else "user"
    rules = {"role": "system", "content": "be brief"}
    action = CALL if tools else "open c"
    first = c.text(c.state([rules, {"role": "user", "content": "go on"}], tools, after=None))
    later = c.text(c.state([{"role": role, "content": "Paris is big"}], tools, after=action))
    assert "be brief" in first and "go on" in first and "Paris is big" in later
    for prompt in (first, later):
        _, _, after = prompt.rpartition("Paris is big" if prompt == later else "go on")
        assert "<think>" not in after  # the layout opens the thought, once
    turn = c.turn(c.thought("the page is next"), c.action(action))
    thought, read = c.parse(turn)
    assert thought.strip() == "the page is next" and read == action
    assert c.parse(c.turn(None, c.action(action))) == (None, action)


@pytest.mark.parametrize("tools", [[], TOOLS], ids=["plain", "tools"])
@pytest.mark.parametrize("name", NAMES)
def test_a_template_keeps_every_text_or_is_refused_in_a_sentence(name, tools, capsys):
    said = REFUSED.get((name, bool(tools)))
    try:
        round_trip(Chat(shipped(name), "think", tools), tools)
    except SystemExit as stop:
        error = capsys.readouterr().err
        assert stop.code == 2 and error.count("\n") == 1 and "another --model" in error
        assert said is None or said in error
        assert said or name not in WITH_CALLS  # those that are refused are listed
    else:
        assert said is None


def test_most_templates_with_tools_are_carried():
    assert len(WITH_CALLS) == 29 and len(set(CARRIED) & set(WITH_CALLS)) == 25
    print(", ".join(CARRIED))


def test_a_thought_is_opened_once_where_the_template_writes_an_empty_one():
    for name in ("qwen3_5_nothink", "qwen3_5_think", "nemotron_3_nano", "qwen3"):
        c = Chat(shipped(name), "think")
        text = c.text(c.state([{"role": "user", "content": "go on"}], [], after=None))
        text += c.text(c.turn(c.thought("next"), c.action("open c")))
        assert text.count("<think>") == text.count("</think>") == 1, name


TURNS = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
PROMPT = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"


@pytest.mark.parametrize(
    ("template", "said"),
    [
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


@pytest.mark.parametrize("name", ["qwen3", "qwen3_5_think", "llama3_1", "gemma4", "cohere"])
@pytest.mark.parametrize("tools", [[], TOOLS], ids=["plain", "tools"])
def test_a_template_that_ignores_that_a_prompt_is_asked_for_opens_the_answer_in_it(name, tools):
    """What it writes before an answer alone would else stand between a thought and its action."""
    if tools and name not in CARRIED:
        return
    ids = []
    for prompts in (True, False):
        words = shipped(name)
        if not prompts:
            words.chat_template = words.chat_template.replace("add_generation_prompt", "false")
        c = Chat(words, "think", tools)
        thinks = c.turn(c.thought("next"), c.action("On it."))
        asked = [{"role": "user", "content": "go on"}]
        begun = c.state(asked, tools, after=None)
        ids.append([begun, thinks, c.state(asked, tools, after="On it."), c.skip, c.ends])
        assert c.parse(thinks) == ("next" + c.layout.gap, "On it.")
    assert ids[0] == ids[1]


def test_a_template_whose_questions_open_the_answer_has_nothing_put_into_its_prompt():
    """Llama 2's and Mistral's: of the space before an answer the answer begins."""
    brackets = (
        "{% for m in messages %}{{ '[INST] ' + m.content + ' [/INST]' if m.role == 'user' else "
        "' ' + m.content + '<|im_end|>' }}{% endfor %}"
    )
    c = Chat(bytes_with(QWEN, "<|im_end|>", brackets), "think")
    asked = [{"role": "user", "content": "go on"}]
    prompt = "[INST] go on [/INST]"
    assert c.text(c.state(asked, [], after=None)) == c.text(c.state(asked, [], after="x")) == prompt
    assert c.text(c.turn(None, c.action("open c"))) == " open c<|im_end|>"


def test_a_space_before_an_answer_is_no_part_of_the_prompt():
    c = Chat(bytes_with(QWEN, "<|im_end|>", TURNS.replace("\n{{", ": {{")), "think")
    asked = [{"role": "user", "content": "go on"}]
    text = c.text(c.state(asked, [], after=None) + c.turn(c.thought("x"), c.action("open c")))
    assert text.endswith("<|im_start|>assistant: <think>\nx\n</think>\nopen c<|im_end|>")


def test_a_template_that_never_ends_is_refused(capsys, monkeypatch):
    monkeypatch.setattr("minprm.own.LIMIT", 0.2)
    endless = "{% for i in range(9999) %}" * 9 + "{% endfor %}" * 9
    with pytest.raises(SystemExit):
        Chat(bytes_with(QWEN, "<|im_end|>", endless))
    assert capsys.readouterr().err.endswith("did not end within 0.2 seconds\n")


def test_a_system_message_that_the_template_leaves_out_is_refused(capsys):
    template = TURNS.replace(
        "{% for m in messages %}", "{% for m in messages if m.role != 'system' %}"
    )
    c = Chat(bytes_with(QWEN, "<|im_end|>", template + PROMPT))
    with pytest.raises(SystemExit):
        c.state([{"role": "system", "content": "be brief"}], [], after=None)
    assert "system message" in capsys.readouterr().err


def test_the_name_of_a_tool_stays_in_its_own_conversation():
    """Two conversations alike in their roles: what is kept of the first is not the second's."""
    c = Chat(bytes_with(QWEN, "<|im_end|>", TURNS.replace("m.role", "m.name or m.role") + PROMPT))
    for name in ("search", "visit", "search"):
        message = {"role": "tool", "name": name, "tool_call_id": name, "content": "Paris is big"}
        assert f"{name}\nParis is big" in c.text(c.state([message], [], after=""))


def test_a_field_that_the_template_writes_cannot_spell_a_control_token(capsys):
    c = Chat(bytes_with(QWEN, "<|im_end|>", TURNS.replace("m.role", "m.name or m.role") + PROMPT))
    message = {"role": "tool", "name": "x<|im_end|>", "content": "Paris is big"}
    with pytest.raises(SystemExit):
        c.state([message], [], after="")
    assert "the name 'x<|im_end|>'" in capsys.readouterr().err
    message = {"role": "tool", "raw": "x<|im_end|>", "content": "Paris is big"}  # it is not written
    assert "Paris is big" in c.text(c.state([message], [], after=""))


def test_a_name_in_a_call_cannot_spell_a_control_token(capsys):
    for call in (
        {"name": "<|im_end|>f", "arguments": {}},
        {"name": "f", "arguments": {QWEN[1]: 1}},
    ):
        with pytest.raises(SystemExit):
            chat("qwen3").action(joined("", [call]))
        error = capsys.readouterr().err
        assert error.count("\n") == 1 and "rename it in the logs, or use another --model" in error


def test_a_thought_may_stand_after_a_call():
    c = chat("qwen3")
    text = c.text(c.turn(c.thought("next"), c.action(CALL), "action_first"))
    assert text.count("<tool_call>") == text.count("</tool_call>") == 1


@pytest.mark.parametrize(
    "knobs",
    [{"thoughts_from": "state_action"}, {"trained_on": "action_first"}, {"trained_on": "both"}],
)
def test_a_run_that_shows_the_action_first_is_refused_at_its_start(knobs, capsys):
    make_prompter(tokenizer("qwen3"), Config(act_prm=ActPRM(**knobs)), TOOLS)
    with pytest.raises(SystemExit):
        make_prompter(carried("gemma4").tokenizer, Config(act_prm=ActPRM(**knobs)), TOOLS)
    assert "ends replies and calls alike" in capsys.readouterr().err


@pytest.mark.parametrize(
    "value", ["[" * 5000 + "]" * 5000, "[" * 150 + "]" * 150, "NaN", '"\\ud83d"', "9" * 5000]
)
def test_a_call_that_no_program_could_write_again_is_no_action(value):
    c = QWEN_CHAT
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
        c = QWEN_CHAT if demo.tools else Chat(tokenizer("qwen3"), "think")
        try:
            for i, step in enumerate(demo.steps):
                ids = c.state(step.state, demo.tools, demo.action_before(i))
                ids += c.turn(c.thought(step.thought or ""), c.action(step.action))
            tokenised += 1
        except SystemExit:
            assert capsys.readouterr().err.count("\n") == 1
    assert tokenised > 30


# --- what a template says in its own way ---


def test_turns_end_as_the_template_ends_replies_and_calls():
    reply = ("<|return|>", "<turn|>", "<|user|>", "<|im_end|>")
    call = ("<|call|>", "<|tool_response>", "<|observation|>", "<|im_end|>")
    for name, said, called in zip(
        ("gptoss", "gemma4", "glm4moe", "qwen3_6"), reply, call, strict=True
    ):
        c = carried(name)
        assert c.text(c.turn(None, c.action("On it."))).endswith(said)
        assert c.text(c.turn(None, c.action(CALL))).endswith(called)
        assert {c.text([i]) for i in c.ends} == {said, called}
        assert c.text(c.close) == said  # also of a turn that was cut
        assert c.parse([*c.action(CALL)[:-1], *c.close])[1] is None or said == called


def test_an_answer_is_written_by_the_name_of_its_call():
    """In any order of the answers, where they are named; in the order of the calls, where not."""
    c = carried("gemma4")
    after = joined("", [{**PLAIN_CALL, "name": name} for name in ("search", "visit")])
    answer = {"role": "tool", "content": "Paris is big"}
    for names, expected in ((("visit", "search"), ("visit", "search")),
                            ((None, None), ("search", "visit"))):  # fmt: skip
        messages = [{**answer, "name": name} if name else answer for name in names]
        text = c.text(c.state(messages, TYPED, after))
        assert re.findall(r"response:(\w+)", text) == list(expected)
    assert "response" not in c.text(c.state([{"role": "user", "content": "x"}], TYPED, "On it."))


def test_without_tools_an_action_that_spells_a_call_is_a_text():
    for name in ("gemma4", "llama3", "gptoss"):
        c = Chat(shipped(name))
        turn = c.turn(None, c.action(CALL))
        assert c.parse(turn) == (None, CALL) and c.text(turn).count(CALL) == 1
        later = [{"role": "user", "content": "go on"}]
        assert c.state(later, [], after=CALL) == c.state(later, [], after="open c")


def test_a_text_that_the_template_writes_inside_json_is_escaped():
    c = carried("llama3_1")
    text = c.text(c.state([{"role": "tool", "content": 'a "b"\n\\ é'}], TYPED, CALL))
    assert json.dumps('a "b"\n\\ é', ensure_ascii=False) in text


def test_a_value_without_quotation_marks_has_the_type_of_its_schema():
    schema = {"s": {"type": "string"}, "i": {"type": "integer"}, "b": {"type": "boolean"},
              "u": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "any": {}}  # fmt: skip
    parameters = {"type": "object", "properties": schema}
    tools = [{"type": "function", "function": {"name": "go", "parameters": parameters}}]
    c = Chat(shipped("qwen3_5_think"), "auto", tools)
    read = {"s": "3", "i": 3, "b": True, "u": None, "any": [1], "unknown": "x y"}
    action = joined("", [{"name": "go", "arguments": read}])
    assert "True" in c.text(c.action(action))  # as Python writes it
    assert json.loads(c.parse(c.turn(None, c.action(action)))[1])["arguments"] == read


@pytest.mark.parametrize(
    "properties",
    [
        {"s": {"anyOf": {"type": "string"}}}, {"s": {"anyOf": True}}, {"s": {"enum": 5}}, ["s"],
        {"s": {"type": 5}}, {"s": {"type": [{"a": 1}]}}, {"s": {"$ref": 5}}, {"s": "string"},
    ],
)  # fmt: skip
def test_a_schema_that_is_none_is_no_reason_to_fail(properties):
    parameters = {"type": "object", "properties": properties}
    tools = [{"type": "function", "function": {"name": "go", "parameters": parameters}}]
    c = Chat(shipped("qwen3_6"), "auto", tools)
    action = joined("", [{"name": "go", "arguments": {"s": "x"}}])
    assert c.parse(c.turn(None, c.action(action)))[1] == action


def test_schemas_that_name_each_other_are_looked_up_once():
    every = [{"$ref": f"#/$defs/{i}"} for i in range(300)]
    defs = {str(i): {"anyOf": every} for i in range(299)} | {"299": {"type": "string"}}
    parameters = {"properties": {"s": {"anyOf": every}}, "$defs": defs}
    assert types_of([{"function": {"name": "go", "parameters": parameters}}]) == {
        "go": {"s": {"string"}}
    }


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/Code"}, {"allOf": [{"$ref": "#/$defs/Code"}]}, {"const": "1"},
        {"anyOf": [{"$ref": "#/$defs/Code"}, {"type": "null"}]}, {"oneOf": [{"enum": ["1"]}]},
    ],
)  # fmt: skip
def test_a_text_of_digits_is_a_text_where_the_schema_says_so_elsewhere(schema):
    """As pydantic writes an enum; a template without quotation marks leaves the type to it."""
    defs = {"Code": {"enum": ["1", "2"]}, "Loop": {"$ref": "#/$defs/Loop"}}
    properties = {"code": schema, "loop": {"$ref": "#/$defs/Loop"}, "gone": {"$ref": "#/$defs/No"}}
    parameters = {"type": "object", "properties": properties, "$defs": defs}
    tools = [{"type": "function", "function": {"name": "go", "parameters": parameters}}]
    c = Chat(shipped("qwen3_6"), "auto", tools)
    action = joined("", [{"name": "go", "arguments": {"code": "1", "loop": 2, "gone": 3}}])
    assert c.parse(c.turn(None, c.action(action)))[1] == action


def test_half_a_character_in_a_text_is_named(capsys):
    with pytest.raises(SystemExit):
        QWEN_CHAT.content("cut off \ud83d")
    assert "holds half a character" in capsys.readouterr().err


def test_an_action_that_is_read_as_another_one_is_told_once():
    warned = []
    number = logger.add(warned.append, level="WARNING")
    for name in ("qwen3_6", "qwen3"):  # JSON has quotation marks
        c = Chat(shipped(name), "auto", TYPED)
        for arguments in ({"title": "3", "n": 3}, {"n": "3"}, {"n": "4"}):
            c.action(joined("", [{"name": "visit", "arguments": arguments}]))
    logger.remove(number)
    assert len(warned) == 1 and '"n": "3"' in warned[0] and '"n": 3' in warned[0]


@pytest.mark.parametrize("name", ["qwen3_6", "gptoss", "gemma4", "glm4moe", "mistral", "llama3_1"])
@pytest.mark.parametrize("kind", ["reply", "call", "text and call"])
@settings(max_examples=15)
@given(st.data())
def test_whatever_is_sampled_is_parsed_in_every_format(name, kind, data):
    c = carried(name)
    if not writable(name, *ACTIONS[kind]):
        return
    ids = c.turn(c.thought("next"), c.action(joined(*ACTIONS[kind])))
    vocabulary = st.one_of(st.sampled_from(ids), st.integers(0, len(c.tokenizer) - 1))
    changes = st.tuples(st.integers(0, len(ids) - 1), st.lists(vocabulary, max_size=3))
    for at, new in data.draw(st.lists(changes, max_size=3)):
        ids[at : at + 1] = new
    _, action = c.parse(ids)
    if action is not None:
        assert ids[-1] in c.ends and action.strip()
        c.action(action)  # it can stand in a history


@pytest.mark.parametrize("text", ["", " \n", '{"name": "visit", "arguments": {}}'])
def test_a_reply_that_is_empty_or_spells_a_call_is_no_action(text):
    c = carried("qwen3")
    assert c.parse([*c.content(text), *c.end]) == (None, None)


def test_a_reply_that_begins_as_a_call_is_a_broken_call():
    """Also where no control token opens calls, or the model spells the token in letters."""
    for name, text in (
        ("llama3_1", '{"name": "visit", "parameters": {"title": "Par'),
        ("qwen3", f"<tool_call>\n{CALL}\n</tool_call>"),
    ):
        c = carried(name)
        assert c.parse([*c.content(text), *c.end]) == (None, None)
        assert c.parse([*c.content(f"Look: {text}"), *c.end])[1] == f"Look: {text}"


def test_a_thought_after_the_end_of_a_turn_is_refused(capsys):
    with pytest.raises(SystemExit):
        carried("gemma4").before_thought([])
    assert "ends replies and calls alike" in capsys.readouterr().err


def test_content_never_becomes_a_control_token_that_is_not_marked_as_special():
    """Qwen's <think> and <tool_call> are added tokens that are not special."""
    made = bytes_with(["<|im_end|>"], "<|im_end|>", TURNS + PROMPT)
    tags = ["<think>", "</think>", "</think></think>"]
    made.add_tokens([AddedToken(tag, special=False) for tag in tags])
    c = Chat(made)
    text = "a</think> <<think></think></think>b</think><|im_end|>"
    assert c.clean(c.content(text)) and c.text(c.content(text)) == text
    assert c.content("plain <b>") == made.encode("plain <b>", add_special_tokens=False)


def test_a_token_for_a_line_break_or_a_word_of_html_is_no_control_token():
    """Gemma has such tokens among those that were added, and so may stand in thoughts."""
    made = shipped("gemma4")
    made.add_tokens([AddedToken(token, special=False) for token in ("\n", "\n\n", "<b>")])
    c = Chat(made, "auto", TYPED)
    text = "a\n\n<b>b"
    assert c.content(text) == made.encode(text, add_special_tokens=False)
    assert len(c.content(text)) == 4 and c.clean(c.thought(text))
    turn = c.turn(c.thought(text), c.action(joined(text, [PLAIN_CALL])))
    assert c.text(c.think).endswith("thought\n")
    assert c.parse(turn)[0] == f"{text}\n"
    assert normalise(c.parse(turn)[1]) == normalise(joined(text, [PLAIN_CALL]))


def test_a_template_that_writes_ids_of_calls_is_refused(capsys):
    with pytest.raises(SystemExit):
        made = shipped("mistral")
        made.chat_template = MISTRAL.replace("'[ARGS]'", "'[CALL_ID]' + c.id + '[ARGS]'")
        Chat(made, "auto", TYPED)
    assert "writes ids of calls" in capsys.readouterr().err


def test_a_base_model_gets_a_plain_template_and_keeps_it():
    made = bytes_with([], "<end>", None)
    made.add_special_tokens({"eos_token": "<end>"})
    warned = []
    number = logger.add(warned.append, level="WARNING")
    for _ in range(2):
        c = Chat(made, "auto", TYPED)
    logger.remove(number)
    assert len(warned) == 1 and "no chat template" in warned[0] and made.chat_template
    assert set(made.get_added_vocab()) == {"<end>"}
    round_trip(c, TOOLS)
    round_trip(Chat(made), [])
    asked = [{"role": "user", "content": "go on"}]
    assert c.text(c.state(asked, [], after=None)) == "user:\ngo on\n\nassistant:\n"
    assert c.text(c.state(asked, [], after="x")) == "\n\nuser:\ngo on\n\nassistant:\n"
    begins = bytes_with(["<s>"], "<end>", None)  # some models have to see where a text begins
    assert Chat(begins).state(asked, [], after=None)[0] == begins.bos_token_id
    for action in (joined(*ACTIONS[kind]) for kind in ACTIONS):
        read = c.parse(c.turn(c.thought("hm"), c.action(action)))[1]
        assert normalise(read) == normalise(action)


def test_a_base_model_whose_texts_have_no_end_is_refused(capsys):
    made = bytes_with([], "<end>", None)
    made.eos_token = None
    with pytest.raises(SystemExit):
        Chat(made)
    assert "no token that ends a text" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["qwen3", "qwen3_6", "gptoss", "gemma4", "glm4moe", "mistral"])
def test_a_log_of_replies_and_calls_is_trained_on_in_order(name):
    steps = [
        Step([{"role": "user", "content": "Where is the Louvre?"}], "look it up", CALL),
        Step([{"role": "tool", "content": "Paris"}], "that is it", "In Paris."),
        Step([{"role": "user", "content": "And Big Ben?"}], None, "In London."),
    ]
    chat = carried(name)
    cfg = Config(model="some", instruction="none")
    agent = replace(make_prompter(chat.tokenizer, cfg, TYPED), chat=chat)
    (sample,) = to_samples(Demo("t", [], TYPED, steps), agent)
    text = chat.text([i for i, t in zip(sample.ids, sample.trained, strict=True) if t])
    expected = ["look it up", "visit", "Paris", "that is it", "In Paris.", "In London."]
    assert re.findall("|".join(map(re.escape, expected)), text) == expected
    assert "Louvre" not in text and "Big Ben" not in text


def test_a_schema_that_spells_a_control_token_is_refused(capsys):
    c = carried("qwen3")
    for place in ("name", "description"):
        function = {**TOOLS[0]["function"], place: 'a "b"<|im_end|>'}
        with pytest.raises(SystemExit):
            c.state([{"role": "user", "content": "x"}], [{"function": function}], after=None)
        assert "spells the control token <|im_end|>" in capsys.readouterr().err
    made = shipped("qwen3")
    made.add_tokens([AddedToken("<b>"), AddedToken("<think>")])
    for text, allowed in (("in HTML, as <b>", True), ("in <think>", False)):
        function = {**TOOLS[0]["function"], "description": text}
        state = partial(Chat(made, "think", TOOLS).state, [{"role": "user", "content": "x"}])
        if allowed:
            state([{"function": function}], None)
            continue
        with pytest.raises(SystemExit):
            state([{"function": function}], None)


def test_white_space_that_was_added_to_a_vocabulary_is_text():
    """Phi-2 and GPT-NeoX have tokens for runs of white space, which are not in their merges."""
    made = bytes_with(["<|im_start|>", "<|im_end|>"], "<|im_end|>", TURNS + PROMPT)
    made.add_tokens([AddedToken(run, normalized=False) for run in ("\n\n", "  ", "▁▁")])
    c = Chat(made, "think")
    ids = made.encode("a\n\nb  c", add_special_tokens=False)
    assert c.clean(ids) and c.content("a\n\nb  c") == ids
    assert c.parse(c.turn(ids, ids)) == ("a\n\nb  c", "a\n\nb  c")


@pytest.mark.parametrize("tools", [[], TYPED], ids=["plain", "tools"])
def test_a_thought_in_spelled_tags_ends_where_the_whole_tag_stands(tools):
    c = Chat(shipped("llama3_1"), "think", tools)
    assert len(c.think_end) > 1
    begun = c.text(c.think_end[:1])  # what also begins other tags
    thought = c.thought(f"a {begun}b> c")
    assert c.stop[0] in thought
    turn = c.turn(thought, c.action("On it."))
    assert c.parse(turn) == (f"a {begun}b> c\n", "On it.")
    assert c.without_thought(turn) == c.turn(None, c.action("On it."))
    # one that never ends is no action, nor is one that is written in other tokens
    assert c.parse([*c.think, *thought, *c.action("On it."), *c.end]) == (None, None)
    letters = [i for letter in "<think>a</think>On it." for i in c.content(letter)]
    assert c.parse([*letters, *c.end]) == (None, None)


@pytest.mark.parametrize("tools", [[], TYPED], ids=["plain", "tools"])
def test_a_second_thought_is_no_action(tools):
    for name in ("llama3_1", "qwen3"):
        c = Chat(shipped(name), "think", tools)
        for second in (c.turn(c.thought("y"), c.action("On it.")), [*c.think, *c.end]):
            turn = [*c.opening(c.thought("x")), *second]
            assert c.parse(turn) == ("x\n", None)


@pytest.mark.parametrize("tools", [[], TYPED], ids=["plain", "tools"])
def test_a_turn_that_ends_behind_its_thought_has_no_action(tools):
    for layout in ("think",) if tools else ("think", "tags"):
        c = Chat(shipped("llama3_1"), layout, tools)
        for space in ("", " \n"):
            ids = c.content(space)
            assert c.parse(c.closed(c.opening(c.thought("x")), ids)) == ("x\n", None)
            assert c.parse(c.closed(c.opening(None), ids)) == (None, None)


def test_a_logged_reply_that_is_read_as_a_call_is_told():
    warned = []
    number = logger.add(warned.append, level="WARNING")
    c = Chat(shipped("llama3_1"), "think", TYPED)
    c.action("On it.")
    assert not warned
    c.action('Look: {"name": "visit", "parameters": {}}')
    logger.remove(number)
    assert len(warned) == 1 and "in fields of their own" in warned[0]


def test_of_several_templates_the_one_for_these_turns_is_run():
    plain = TURNS + PROMPT
    one = bytes_with(["<|im_start|>", "<|im_end|>", "<tool_call>"], "<|im_end|>", plain)
    qwen = shipped("qwen3")
    both = shipped("qwen3")
    both.chat_template = {"default": plain, "tool_use": qwen.chat_template}
    action = joined("", [PLAIN_CALL])
    assert Chat(both, "think", TYPED).action(action) == Chat(qwen, "think", TYPED).action(action)
    assert Chat(both, "think").layout == Chat(one, "think").layout
    # a token of the template that is not marked as special is a control token in either
    added = bytes_with(["<|im_start|>", "<|im_end|>"], "<|im_end|>", plain + "{# [CALL] #}")
    added.add_tokens(["[CALL]"])
    named = bytes_with(["<|im_start|>", "<|im_end|>"], "<|im_end|>", plain)
    named.add_tokens(["[CALL]"])
    named.chat_template = {"default": added.chat_template}
    assert Chat(named).content("a [CALL] b") == Chat(added).content("a [CALL] b")
    assert named.convert_tokens_to_ids("[CALL]") not in Chat(named).content("a [CALL] b")


def test_several_templates_without_one_for_these_turns_are_refused(capsys):
    made = bytes_with(["<|im_start|>", "<|im_end|>"], "<|im_end|>", TURNS + PROMPT)
    made.chat_template = {"tool_use": TURNS + PROMPT}
    with pytest.raises(SystemExit):
        Chat(made, "think")
    assert "use another --model" in capsys.readouterr().err


def test_a_vocabulary_that_drops_what_it_cannot_say_is_refused(capsys):
    letters = {letter: i for i, letter in enumerate("abcdefghijklmnopqrstuvwxyz \n")}
    model = models.BPE(letters, [])
    made = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(model), eos_token="<|im_end|>")
    made.add_tokens(["<|im_end|>", "<|im_start|>"], special_tokens=True)
    made.chat_template = TURNS + PROMPT
    with pytest.raises(SystemExit):
        Chat(made, "think")
    assert "cannot say '<think>" in capsys.readouterr().err


# --- what other templates were found to do ---

SIGNS = ["<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>",
         "<arg>", "</arg>", "<value>", "</value>"]  # fmt: skip
FIELDS = (
    "<tool_call>{{ c.function.name }}{% for k, v in c.function.arguments.items() %}<arg>{{ k }}"
    "</arg><value>{{ v }}</value>{% endfor %}</tool_call>"
)
JSON = "<tool_call>{{ c.function | tojson }}</tool_call>"
ONE_BY_ONE = "{% for c in m.tool_calls or [] %}CALL{% endfor %}"


def calling(call: str, calls: str = ONE_BY_ONE, turns: str = TURNS, prompt: str = PROMPT):
    """A tokenizer whose template writes a call so, behind the content of a message."""
    written = calls.replace("CALL", call)
    text = turns.replace("{{ m.content }}", "{{ m.content or '' }}" + written) + prompt
    return bytes_with(SIGNS, "<|im_end|>", text)


def whole(words: PreTrainedTokenizerFast, messages: list[dict], tools=(), **knobs) -> list[int]:
    return words.encode(applied(words, messages, tools, **knobs), add_special_tokens=False)


@pytest.mark.parametrize(
    "calls",
    [ONE_BY_ONE, "{% if m.tool_calls %}[{% for c in m.tool_calls %}CALL{% endfor %}]{% endif %}"],
)
@pytest.mark.parametrize(
    "call",
    [
        FIELDS,  # a tag stands behind the name at once: another one, where there are no arguments
        FIELDS.replace("<tool_call>", "CALL ").replace("</tool_call>", "\n</end>\n"),
        JSON,
    ],
)
def test_calls_are_read_however_they_are_put_together(call, calls):
    words = calling(call, calls)
    c = Chat(words, "think", TYPED)
    empty = {"name": "visit", "arguments": {}}
    for reply, made in product(("", "On it."), ([PLAIN_CALL], [empty], [PLAIN_CALL, empty])):
        action = joined(reply, made)
        turn = c.turn(c.thought("next"), c.action(action))
        assert normalise(c.parse(turn)[1]) == normalise(action)
        functions = [{"type": "function", "function": one} for one in made]
        message = {"role": "assistant", "content": reply, "tool_calls": functions}
        asked = {"role": "user", "content": "x"}
        ids = c.state([asked], [], None) + c.turn(None, c.action(action))
        assert whole(words, [asked, message])[: len(ids)] == ids


def test_an_object_that_is_written_as_python_writes_it_is_read(capsys):
    c = Chat(calling(FIELDS), "think", TYPED)
    for at in ({"x": [1.5, None, True, {"y": "z, w"}], "s": "}"}, {}):
        action = joined("", [{"name": "visit", "arguments": {"at": at, "title": str(at)}}])
        read = json.loads(c.parse(c.turn(None, c.action(action)))[1])
        assert read["arguments"] == {"at": at, "title": str(at)}
    # a text stays one where its schema allows no such object
    schema = {"title": {"type": ["string", "array"]}}
    tools = [
        {"type": "function", "function": {"name": "visit", "parameters": {"properties": schema}}}
    ]
    title = joined("", [{"name": "visit", "arguments": {"title": "{'y': 1}"}}])
    other = Chat(calling(FIELDS), "think", tools)
    assert other.parse(other.turn(None, other.action(title)))[1] == title
    # Python chooses the quotation marks of a text by what it holds
    with pytest.raises(SystemExit):
        c.action(joined("", [{"name": "visit", "arguments": {"at": {"y": "it's"}}}]))
    assert "as Python does" in capsys.readouterr().err
    c.action(joined("", [{"name": "visit", "arguments": {"title": "it's"}}]))


def test_a_name_with_a_line_break_is_no_name():
    """Text beside a call, where the template has no place for it."""
    c = Chat(calling("{{ c.function.name }}\n{{ c.function.arguments | tojson }}"), "think", TYPED)
    call = 'visit\n{"title": "Paris"}'
    read = json.loads(c.parse([*c.content(call), *c.end])[1])
    assert read == {"name": "visit", "arguments": {"title": "Paris"}}
    text = f"On it.\n{call}"
    assert c.parse([*c.content(text), *c.end])[1] == text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        # a number in the second call: it is written, and not read
        (calling(FIELDS.replace("name }}", "name }}:{{ loop.index }}")), "tool call a turn"),
        # a text that is written by what it holds
        (
            calling(FIELDS.replace("{{ v }}", "{{ '[[' ~ v ~ ']]' if '<' in v ~ '' else v }}")),
            "such as <",
        ),
        # an answer that names its call by its id
        (calling(JSON, turns=TURNS.replace("{{ m.role", "{{ m.tool_call_id or m.role")), "ids of"),
        # each of four ways to write a call raises an error
        (calling("{{ c.function.arguments.items() }}{{ c.id.x.y }}"), "has no attribute 'x'"),
    ],
)
def test_what_cannot_be_written_or_read_of_calls_is_said(words, said, capsys):
    with pytest.raises(SystemExit):
        c = Chat(words, "think", TYPED)
        c.action(joined("", [PLAIN_CALL] * 2))
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1 and "--model" in error


def test_a_template_that_cannot_do_without_tools_is_given_one(capsys):
    """Some models have a template for turns with tools, and another one for those without."""
    names = "{% for t in tools %}{{ t.function.name }}{% endfor %}"
    words = calling(JSON, turns=names + TURNS)
    c = Chat(words, "think", TYPED)
    asked = [{"role": "user", "content": "x"}]
    assert c.state(asked, TYPED, None) == whole(words, asked, TYPED, add_generation_prompt=True)
    assert c.parse(c.turn(None, c.action(joined("", [PLAIN_CALL]))))[1]
    assert other_seams(c) == [] and other_message(c) == ""
    with pytest.raises(SystemExit):  # a conversation is given none that it does not have
        c.state(asked, [], None)
    assert "without tools" in capsys.readouterr().err


@pytest.mark.parametrize("tools", [[], TYPED], ids=["plain", "tools"])
def test_an_empty_thought_that_no_field_fills_is_skipped(tools):
    """Exaone 4 and DeepSeek 3.1: who thinks writes the thought in the content."""
    empty = "{{ '<think></think>' if m.role == 'assistant' }}"
    words = calling(JSON, turns=TURNS.replace("{{ m.content", empty + "{{ m.content"))
    c = Chat(words, "think", tools)
    asked, reply = {"role": "user", "content": "x"}, {"role": "assistant", "content": "In Paris."}
    ids = c.state([asked], [], None) + c.closed(c.skip, c.action("In Paris."))
    assert whole(words, [asked, reply])[: len(ids)] == ids
    assert c.parse(ids[len(c.state([asked], [], None)) :]) == ("", "In Paris.")


def test_a_thought_that_a_template_opens_and_does_not_end_is_opened_once():
    """Nemotron Nano 2: the content is to hold the thought."""
    opens = "{{ '<think>\n' if m.role == 'assistant' and loop.last }}"
    prompt = PROMPT.replace("{% endif", "<think>\n{% endif")
    words = calling(
        JSON, turns=TURNS.replace("{{ m.content", opens + "{{ m.content"), prompt=prompt
    )
    c = Chat(words, "think")
    asked = {"role": "user", "content": "x"}
    ids = c.state([asked], [], None) + c.turn(c.thought("so"), c.action("In Paris."))
    content = {"role": "assistant", "content": "so\n</think>\nIn Paris."}
    assert whole(words, [asked, content])[: len(ids)] == ids
    ids = c.state([asked], [], None) + c.turn(None, c.action("In Paris."))
    ids += c.state([asked], [], "In Paris.")
    messages = [asked, {**content, "content": "In Paris."}, asked]
    assert whole(words, messages, add_generation_prompt=True)[: len(ids)] == ids


def test_a_system_message_that_moves_is_refused_where_a_question_follows(capsys):
    """Mistral's stands before the newest question."""
    moves = (
        "{% for m in messages if m.role != 'system' %}<|im_start|>{{ m.role }}\n{{"
        " messages[0].content ~ '\n\n' if loop.last and messages[0].role == 'system' }}"
        "{{ m.content }}<|im_end|>\n{% endfor %}"
    )
    c = Chat(calling(JSON, turns=moves), "think")
    assert "behind a system message" in other_message(c)  # that it was tried at load is no reason
    rules, asked = {"role": "system", "content": "be brief"}, {"role": "user", "content": "x"}
    c.state([asked], [], None)
    c.state([asked], [], "In Paris.")
    c.state([rules, asked], [], None)  # it may be all
    with pytest.raises(SystemExit):
        c.state([{**asked, "content": "y"}], [], "In Paris.")
    error = capsys.readouterr().err
    assert "system, user in another way once it goes on" in error and error.count("\n") == 1


def test_an_empty_message_is_left_out_where_its_template_leaves_it_out():
    some = TURNS.replace("in messages", "in messages if m.content")
    words = calling(JSON, turns=some)
    c = Chat(words, "think")
    asked = {"role": "user", "content": "go on"}
    for content in ("", "\n"):
        messages = [{"role": "system", "content": content}, asked]
        expected = whole(words, messages, add_generation_prompt=True)
        assert c.state(messages, [], None) == expected


@pytest.mark.parametrize(("layout", "tools"), [("think", []), ("tags", []), ("think", TYPED)])
def test_words_between_a_reply_and_its_end_are_no_part_of_the_reply(layout, tools):
    ends = "{{ ' ###' if m.role == 'assistant' }}<|im_end|>"
    c = Chat(calling(JSON, turns=TURNS.replace("<|im_end|>", ends)), layout, tools)
    for thought in (None, "so"):
        turn = c.turn(None if thought is None else c.thought(thought), c.action("In Paris."))
        assert c.text(turn).endswith(" ###<|im_end|>") and c.parse(turn)[1] == "In Paris."


def test_no_token_behind_the_next_question_ends_a_turn(capsys):
    spelled = "{% for m in messages %}{{ 'Q: ' + m.content + '<|im_start|>' if m.role == 'user' else m.content + '\n' }}{% endfor %}"  # noqa: E501
    with pytest.raises(SystemExit):
        Chat(bytes_with(SIGNS, "<|im_end|>", spelled), "think")
    assert "does not end a turn with a control token" in capsys.readouterr().err


@pytest.mark.parametrize(("thought", "keeps"), [(None, True), (None, False), ("so", False)])
@pytest.mark.parametrize(
    "name",
    ["glm4moe", "nemotron_3_nano", "nemotron_3_super", "nemotron_3_ultra", "qwen3", "mistral"],
)
def test_an_earlier_turn_without_a_thought_is_what_the_template_writes(name, thought, keeps):
    """GLM's and Nemotron's write an empty one there; a line break behind it before calls alone."""
    if thought and name in ("nemotron_3_nano", "nemotron_3_super", "mistral"):
        return  # a thought that these drop leaves a line break; Mistral's drops none
    chat = carried(name)
    cfg = Config(model="some", instruction="none", history=History(thoughts=keeps))
    agent = replace(make_prompter(chat.tokenizer, cfg, TYPED), chat=chat)
    asked = {"role": "user", "content": "x"}
    answer = {"role": "tool", "name": "visit", "tool_call_id": "call00000", "content": "big"}
    function = {"id": "call00000", "type": "function", "function": PLAIN_CALL}
    messages, steps = [], []
    for seen, reply, calls in (
        (asked, "On it.", []),
        (asked, "", [PLAIN_CALL]),
        (answer, "So.", [PLAIN_CALL]),
        (answer, "In Paris.", []),
        (asked, "Done.", []),
    ):
        steps.append(Step([seen], thought, joined(reply, calls)))
        made = {"tool_calls": [function]} if calls else {}
        said = {"role": "assistant", "content": reply, "reasoning_content": thought or "", **made}
        messages += [seen, said]
    samples = to_samples(Demo("t", [], TYPED, steps), agent)
    text = applied(chat.tokenizer, messages[:-1], TYPED, add_generation_prompt=True)
    ids = chat.encode(chat.template.turns.newest.bare(text), begins=True)
    assert samples[-1].whole()[: len(ids)] == ids
    assert retold(agent, steps, TYPED, None) == ids  # a history that an agent brings


@pytest.mark.parametrize("name", ["glm4moe", "nemotron_3_nano"])
def test_a_thought_that_is_left_out_of_a_drawn_turn_leaves_what_the_template_writes(name):
    chat = carried(name)
    for kind in ("reply", "call", "text and call"):
        action = joined(*ACTIONS[kind])
        alone = chat.closed(chat.opening(None, action), chat.action(action))
        drawn = chat.turn(chat.thought("so"), chat.action(action))
        skipped = chat.closed(chat.skip, chat.action(action))
        assert chat.without_thought(drawn, action) == alone
        assert chat.without_thought(skipped, action) == skipped  # as it was drawn
        assert normalise(chat.parse(alone)[1]) == normalise(action)
        group = SimpleNamespace(
            step=Step([], None, action), action=chat.action(action), state_ids=([], [])
        )
        for usable, full in ((True, drawn), (False, alone)):
            z = SimpleNamespace(ids=chat.thought("so"), usable=usable)
            (turn,) = Path().longer(z, group, chat).turns
            assert (turn.full, turn.without_thought) == (full, alone)


# Templates that write a later message in another way than a first one; a history has the first way.
# DeepSeek's opens its calls once in a conversation, DiffusionGemma's no turn behind an answer.
LATER = {name: "the second call" for name in ("deepseek_r1_distill", "deepseekv3")}
LATER["diffusion_gemma"] = "the second call"


@pytest.mark.parametrize("name", CARRIED)
def test_a_history_that_grows_is_what_the_template_writes_or_it_is_said(name):
    assert other_message(carried(name)) == LATER.get(name, "")
    assert other_message(Chat(shipped(name), "think")) == ""


@pytest.mark.parametrize(
    ("message", "said"),
    [
        # Cohere's counts the calls of a conversation
        ("{{ m.content }}{% if m.tool_calls %}{{ loop.index }}CALL{% endif %}", "the second call"),
        # Apertus's does not end a turn before an answer
        (
            "{{ '<|im_end|>' if m.role == 'user' and not loop.first }}"
            "{{ '<|im_start|>' ~ m.role if m.role != 'tool' }}\n{{ m.content }}"
            "{% if m.tool_calls %}CALL{% endif %}",
            "the prompt of the second call",
        ),
        # Bielik's is one message off behind a system message
        (
            "{{ '!' if m.role == 'tool' and messages[0].role == 'system' }}"
            "{{ m.content }}{% if m.tool_calls %}CALL{% endif %}",
            "the prompt of the second call behind a system message",
        ),
    ],
)
def test_a_message_that_is_written_otherwise_later_is_named(message, said):
    call = message.replace("CALL", JSON.replace("c.f", "m.tool_calls[0].f"))
    turns = TURNS.replace("{{ m.content }}", call)
    if "im_start" in message:
        turns = "{% for m in messages %}" + call + "{% endfor %}"
    c = Chat(bytes_with(SIGNS, "<|im_end|>", turns + PROMPT), "think", TYPED)
    assert other_message(c) == said
    warned = []
    number = logger.add(warned.append, level="WARNING")
    config = SimpleNamespace(name_or_path="a model", model_type="qwen3")
    check_seams(c, SimpleNamespace(config=config))
    logger.remove(number)
    assert sum(f"writes {said} in another way" in line for line in warned) == 1


def test_a_call_may_end_by_itself_where_a_reply_ends_only_before_a_question():
    """Hunyuan 3: whoever writes a call stops there, and not behind what an answer opens with."""
    ends = "{{ '<|im_end|>' if m.tool_calls or (m.role == 'assistant' and not loop.last) }}"
    turns = TURNS.replace("<|im_end|>\n", ends)
    c = Chat(calling(JSON, turns=turns), "think", TYPED)
    action = joined("", [PLAIN_CALL])
    turn = c.turn(None, c.action(action))
    assert c.text(turn).endswith("</tool_call><|im_end|>") and c.parse(turn) == (None, action)
    assert c.ends == c.end and other_message(c) == ""
