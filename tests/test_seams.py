"""Where two pieces of a turn meet, the ids are those of the whole text."""

from itertools import product
from types import SimpleNamespace

import pytest
from loguru import logger
from tokenizers import AddedToken

from minprm.load.check import check_seams, other_opening, other_seams
from minprm.text.actions import joined
from minprm.text.chat import Chat
from minprm.text.template import PLAIN
from shared.splits import KINDS, splitting
from shared.templates import TYPED, shipped

QUESTION = [{"role": "user", "content": "I bought 3 mugs."}]
THOUGHTS = ("3 x 4 = 12.", "12", "so", "a >")
ACTIONS = ("refund 12", "12", "<b>", '"so"', " x", "a.", "x>")


def as_one_text(chat: Chat, thought: str | None, action: str) -> str:
    """What the template and the layout write."""
    head = chat.tokenizer.apply_chat_template(QUESTION, tokenize=False, add_generation_prompt=True)
    layout = chat.layout
    opening = layout.act_without_thought
    if thought is not None:
        opening = layout.think + thought + layout.gap + layout.stop + layout.act
    return f"{head}{opening}{action}{layout.act_gap}{layout.act_end}<|im_end|>"


@pytest.mark.parametrize("layout", ["think", "tags"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_turn_in_pieces_has_the_ids_of_the_whole_text(kind, layout):
    chat = Chat(splitting(kind), layout)
    for action in ACTIONS:
        for thought in (None, *THOUGHTS):
            written = None if thought is None else chat.thought(thought)
            ids = chat.state(QUESTION, [], None) + chat.turn(written, chat.action(action))
            text = as_one_text(chat, thought, action)
            whole = chat.tokenizer.encode(text, add_special_tokens=False)
            assert ids == whole, (thought, action)
            turn = ids[len(chat.state(QUESTION, [], None)) :]
            assert chat.parse(turn)[1] == action.strip()


@pytest.mark.parametrize("kind", KINDS)
def test_what_stands_before_an_action_does_not_depend_on_how_it_begins(kind):
    chat = Chat(splitting(kind), "think")
    assert other_seams(chat) == []
    assert other_opening(chat) == ""


# Templates without control tokens around a message: texts of it and of the template touch.
SPELLED = {
    "a role and a colon": (
        "{% for m in messages %}{{ m.role + ': ' + m.content }}"
        "{{ eos_token if m.role == 'assistant' else ' ' }}{% endfor %}"
        "{% if add_generation_prompt %}assistant:{% endif %}"
    ),
    "brackets": (
        "{% for m in messages %}{{ '[INST] ' + m.content + ' [/INST]' if m.role == 'user' else "
        "m.content + eos_token }}{% endfor %}"
    ),
    "the plain one": PLAIN,
}


@pytest.mark.parametrize("template", SPELLED)
@pytest.mark.parametrize("kind", KINDS)
def test_where_nothing_but_text_stands_between_messages_the_ids_are_those_of_the_whole(
    kind, template
):
    words = splitting(kind)
    words.chat_template = SPELLED[template]
    chat = Chat(words, "think")
    assert other_opening(chat) == "" and other_seams(chat) == []
    for content in ("I bought 3 mugs.", '"no"', "a >\n", "12"):
        asked = [{"role": "user", "content": content}]
        text = words.apply_chat_template(asked, tokenize=False, add_generation_prompt=True)
        ids = chat.state(asked, [], None) + chat.turn(chat.thought("so"), chat.action("12"))
        text += chat.layout.think + "so\n</think>\n12<|im_end|>"
        assert ids == words.encode(text, add_special_tokens=False), content


def test_an_action_without_a_thought_is_tried_too():
    """The first template writes a space before each answer, which signs are joined with."""
    for template, others in (("a role and a colon", ["<", "a quotation mark"]), ("brackets", [])):
        words = splitting("GPT-2")
        words.chat_template = SPELLED[template]
        chat = Chat(words, "think")
        assert other_seams(chat, chat.layout.act_without_thought) == others


def test_an_action_behind_an_empty_thought_is_tried_too():
    """GPT-2 reads the two line breaks of Qwen3's template as two tokens, but before a space."""
    warned = []
    number = logger.add(warned.append, level="WARNING")
    model = SimpleNamespace(config=SimpleNamespace(name_or_path="a model", model_type="qwen3"))
    for kind, others in (("GPT-2", ["a letter", "a digit", "<", "a quotation mark"]), ("Qwen", [])):
        words = splitting(kind)
        words.chat_template = shipped("qwen3").chat_template
        chat = Chat(words, "think")
        assert other_seams(chat, chat.layout.act_without_thought) == []
        assert other_seams(chat, chat.layout.skip) == others
        warned.clear()
        check_seams(chat, model)
        assert any("behind an empty thought" in line for line in warned) == bool(others)
    logger.remove(number)


def test_a_prompt_whose_end_is_read_together_with_a_thought_s_opening_is_named():
    """GPT-2 reads two line breaks as two tokens, but as one at the end of a prompt."""
    chat = Chat(shipped("llama3"), "think")
    assert other_opening(chat) == "<think>\n"


def test_the_seams_of_replies_are_looked_at_where_there_are_tools():
    chat = Chat(shipped("qwen3"), "think", TYPED)
    assert other_seams(chat) == ["a letter", "a digit", "<", "a quotation mark"]


def test_a_seam_that_a_template_fixes_otherwise_is_named():
    """GPT-2 reads two line breaks as two tokens, but before a space."""
    words = splitting("GPT-2")
    words.chat_template = words.chat_template.replace(
        "message.content",
        "('<think>\\n' + message.reasoning_content + '\\n</think>\\n\\n' "
        "if message.reasoning_content else '') + message.content",
    )
    assert other_seams(Chat(words, "think")) == ["a letter", "a digit", "<", "a quotation mark"]


TRIMS = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content | trim }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@pytest.mark.parametrize("trims", [True, False])
def test_an_action_has_the_edge_spaces_that_its_template_writes(trims):
    tokenizer = splitting(KINDS[0])
    tokenizer.chat_template = TRIMS if trims else TRIMS.replace(" | trim", "")
    chat = Chat(tokenizer, "think")
    for action in ("refund 12", " refund 12", "refund 12 \n"):
        ids = chat.state(QUESTION, [], None) + chat.turn(None, chat.action(action))
        messages = [*QUESTION, {"role": "assistant", "content": action}]
        text = tokenizer.apply_chat_template(messages, tokenize=False).rstrip("\n")
        assert ids == tokenizer.encode(text, add_special_tokens=False)


@pytest.mark.parametrize("kind", KINDS)
def test_an_action_in_tags_ends_in_no_white_space(kind):
    """It is read without, and would be read together with the line break before the tag."""
    chat = Chat(splitting(kind), "tags")
    for action in ("refund 12 ", "refund 12\n", "refund 12 \n"):
        ids = chat.state(QUESTION, [], None) + chat.turn(None, chat.action(action))
        text = as_one_text(chat, None, "refund 12")
        assert ids == chat.tokenizer.encode(text, add_special_tokens=False)


@pytest.mark.parametrize("kind", KINDS)
def test_a_later_state_has_the_ids_of_the_whole_text_behind_the_end_of_a_turn(kind):
    chat = Chat(splitting(kind), "think")
    replies = "12", "refund 12"
    messages = []
    ids = []
    for number, reply in enumerate(replies):
        ids += chat.state(QUESTION, [], replies[number - 1] if number else None)
        ids += chat.turn(None, chat.action(reply))
        messages += [*QUESTION, {"role": "assistant", "content": reply}]
    text = chat.tokenizer.apply_chat_template(messages, tokenize=False).rstrip("\n")
    assert ids == chat.tokenizer.encode(text, add_special_tokens=False)
    spelled = [{"role": "user", "content": "<|im_end|>"}]  # tokenised piece by piece
    later = chat.state(spelled, [], "12")
    begun = chat.tokenizer.encode("<|im_end|>\n<|im_start|>", add_special_tokens=False)[1:]
    assert later[: len(begun)] == begun


def test_a_token_that_takes_white_space_with_it_takes_it_from_the_next_state():
    words = splitting(KINDS[0])
    words.add_tokens([AddedToken("<|end|>", rstrip=True, special=True)], special_tokens=True)
    words.chat_template = words.chat_template.replace("<|im_end|>", "<|end|>")
    chat = Chat(words, "think")
    messages = [*QUESTION, {"role": "assistant", "content": "12"}]
    ids = chat.state(QUESTION, [], None) + chat.turn(None, chat.action("12"))
    ids += chat.state(QUESTION, [], "12")
    text = words.apply_chat_template(
        [*messages, *QUESTION], tokenize=False, add_generation_prompt=True
    )
    assert ids == words.encode(text, add_special_tokens=False)


EDGES = [TRIMS, *(TRIMS.replace("| trim", trims) for trims in (
    "", ".lstrip()", ".rstrip()", ".strip('\\n')", ".rstrip(' ')", "| trim + '\\t'"
))]  # fmt: skip


@pytest.mark.parametrize("template", [*EDGES, "llama3_1", "gemma3"])
def test_what_is_seen_has_the_edge_spaces_that_its_template_writes(template):
    if template.startswith("{"):
        words = splitting(KINDS[0])
        words.chat_template = template
    else:
        words = shipped(template)
    chat = Chat(words, "think")
    contents = " a.txt\n", "$ ls\na.txt\n\n", "\t12"
    for content, other in product(contents, contents):
        rules = {"role": "system", "content": other}
        asked = {"role": "user", "content": content}
        reply = {"role": "assistant", "content": "12"}
        for messages in ([asked], [rules, asked]):
            assert chat.state(messages, [], None) == whole(words, messages)
            later = chat.state([asked], [], "12")
            assert later == whole(words, [*messages, reply, asked])[-len(later) :]


def whole(words, messages: list[dict]) -> list[int]:
    """Ids of a prompt as one text."""
    text = words.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    return words.encode(text, add_special_tokens=False)


def test_what_a_tool_answers_has_the_edge_spaces_that_its_template_writes_in_json():
    words = shipped("llama3_1")
    chat = Chat(words, "think", TYPED)
    call = joined("", [{"name": "visit", "arguments": {}}])
    ids = chat.state([{"role": "tool", "content": " a\n"}], TYPED, call)
    assert r'" a\n"' in chat.text(ids)


@pytest.mark.parametrize("name", ["llama3_1", "qwen3_6", "qwen3"])
def test_a_reply_of_who_has_tools_has_the_edge_spaces_that_its_template_writes(name):
    words = shipped(name)
    chat = Chat(words, "think", TYPED)
    reply = "    return 1"
    messages = [*QUESTION, {"role": "assistant", "content": reply}]
    text = words.apply_chat_template(messages, tokenize=False)
    trims = reply not in text
    kept = reply.strip() if trims else reply
    assert kept in text and chat.text(chat.action(reply)).startswith(kept)
    assert trims == (name != "qwen3")


@pytest.mark.parametrize("name", ["qwen3", "qwen3_5_think", "nemotron_3_nano"])
def test_an_empty_thought_has_the_ids_of_the_prompt_of_who_may_not_think(name):
    words = shipped(name)
    chat = Chat(words, "think")
    text = words.apply_chat_template(
        QUESTION, tokenize=False, add_generation_prompt=True, enable_thinking=False
    )
    prompt = chat.state(QUESTION, [], None) + chat.skip
    assert prompt == words.encode(text, add_special_tokens=False)


def test_an_empty_thought_has_the_line_break_that_its_template_writes_in_a_turn():
    words = shipped("glm4moe")
    chat = Chat(words, "think")
    messages = [*QUESTION, {"role": "assistant", "content": "refund 12"}]
    text = words.apply_chat_template(messages, tokenize=False)
    ids = chat.state(QUESTION, [], None) + chat.skip + chat.content("refund 12")
    assert ids == words.encode(text, add_special_tokens=False)


@pytest.mark.parametrize("tools", [[], TYPED], ids=["plain", "tools"])
@pytest.mark.parametrize("name", ["qwen3", "glm4moe", "gptoss", "mistral", "nemotron_3_nano"])
def test_a_turn_with_an_empty_thought_is_read_whoever_wrote_it(name, tools):
    chat = Chat(shipped(name), "think", tools)
    action = chat.action("refund 12")
    bare = chat.turn(None, action)
    empty = chat.turn([], action)
    assert chat.parse(empty) == ("", "refund 12")
    assert chat.opening_of(empty) == chat.opening([]) and chat.without_thought(empty) == bare
    if chat.skip:
        skipped = chat.closed(chat.skip, action)
        assert chat.parse(skipped) == ("", "refund 12")
        assert chat.opening_of(skipped) == chat.skip and chat.without_thought(skipped) == bare
    thinks = chat.turn(chat.thought("so"), action)
    assert chat.opening_of(thinks) == chat.opening(chat.thought("so"))


@pytest.mark.parametrize("layout", ["think", "tags"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_line_break_before_the_end_of_a_turn_is_read_with_what_it_follows(kind, layout):
    """A full stop and a line break are one token of some."""
    words = splitting(kind)
    words.chat_template = words.chat_template.replace("+ '<|im_end|>", "+ '\\n<|im_end|>")
    chat = Chat(words, layout)
    for action in ("a.", "x>", "12"):
        for thought in (None, "so."):
            written = None if thought is None else chat.thought(thought)
            turn = chat.turn(written, chat.action(action))
            text = as_one_text(chat, thought, action).replace("<|im_end|>", "\n<|im_end|>")
            text = text.replace("\n\n<|im_end|>", "\n<|im_end|>")
            text = text.replace("mugs.\n<", "mugs.<").replace("mugs.\n\n", "mugs.\n")
            ids = chat.state(QUESTION, [], None) + turn
            assert ids[-12:] == words.encode(text, add_special_tokens=False)[-12:], (
                thought,
                action,
            )
            assert chat.parse(turn)[1] == action


def test_the_seam_before_a_call_is_looked_at():
    """MiniMax 2 begins a call with a line break, and its prompt ends in one."""
    words = shipped("qwen3_instruct_2507")
    chat = Chat(words, "think", TYPED)
    assert "a call" not in other_seams(chat, chat.layout.act_without_thought)
    words = splitting("Llama 3")
    words.add_tokens(["<call>"], special_tokens=True)
    words.chat_template = words.chat_template.replace(
        "message.content",
        "(message.content or '') + ('\\n<call>' + (message.tool_calls[0].function | tojson)"
        " if message.tool_calls else '')",
    )
    chat = Chat(words, "think", TYPED)
    assert other_seams(chat, chat.layout.act_without_thought) == ["a call"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_stands_behind_a_control_token_of_a_call_has_the_ids_of_the_whole_text(kind):
    """Some tokenizers begin a text with a space behind each control token."""
    words = splitting(kind)
    words.add_tokens(["<call>", "</call>"], special_tokens=True)
    words.chat_template = words.chat_template.replace(
        "message.content",
        "(message.content or '') + ('<call>' + (message.tool_calls[0].function | tojson)"
        " + '</call>' if message.tool_calls else '')",
    )
    chat = Chat(words, "think", TYPED)
    function = {"name": "visit", "arguments": {"title": "Paris"}}
    for reply in ("", "So."):
        message = {"role": "assistant", "content": reply, "tool_calls": [{"function": function}]}
        text = words.apply_chat_template([*QUESTION, message], tokenize=False)
        action = joined(reply, [function])
        turn = chat.turn(None, chat.action(action))
        ids = chat.state(QUESTION, [], None) + turn
        assert words.encode(text, add_special_tokens=False)[: len(ids)] == ids
        assert chat.parse(turn) == (None, action)
