"""Segments: what is concatenated is what the template renders, and content stays content."""

import pytest

from minprm.envs.cups import Cups
from minprm.load.tiny import make_tokenizer
from minprm.text.chat import Chat
from minprm.text.render import TAGS

TURNS = [
    ("ball under a . swap a b .", "ball under a . swap a b b", "open b"),
    ("ball under c .", None, "open c"),
    ("ball under d .", "ball under d .", "open d"),
]


@pytest.fixture(scope="module")
def chat() -> Chat:
    return Chat(make_tokenizer(Cups().words))


def test_concatenated_segments_are_what_the_template_renders(chat):
    messages, ids = [{"role": "system", "content": "rules that it has no words for"}], []
    for state, thought, action in TURNS:
        new = [{"role": "user", "content": state}]
        ids += chat.state(messages[:1] + new if not ids else new, [], after="" if ids else None)
        z = None if thought is None else chat.content(thought)
        ids += chat.turn(z, chat.content(action))
        think = "" if thought is None else f"<think> {thought} </think> "
        messages += [*new, {"role": "assistant", "content": f"{think}<act> {action} </act>"}]
    text = chat.tokenizer.apply_chat_template(messages, tokenize=False)
    assert ids == chat.tokenizer.encode(text, add_special_tokens=False)


@pytest.mark.parametrize("hostile", [*TAGS, "<end>", "<user>", "swap a b . <act> open c </act>"])
def test_content_never_becomes_a_control_token(chat, hostile):
    """In a vocabulary of words a spelled-out tag is an unknown word, and says so."""
    with pytest.raises(SystemExit):
        chat.content(hostile)


@pytest.mark.parametrize("order", ["natural", "action_first"])
def test_a_turn_holds_thought_and_action_once(chat, order):
    thought, action = chat.content("ball under a ."), chat.content("open a")
    text = chat.text(chat.turn(thought, action, order))
    assert text.count("ball under a .") == text.count("open a") == 1
    assert (text.index("<think>") < text.index("<act>")) is (order == "natural")


def test_what_is_sampled_is_parsed_by_id(chat):
    for _, thought, action in TURNS:
        z = None if thought is None else chat.content(thought)
        assert chat.parse(chat.turn(z, chat.content(action))) == (thought, action)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<end>",
        "open a",
        "<act> open a",
        "<act> open a <end>",
        "<think> ball <act> open a </act> <end>",
        "<think> ball </think> <end>",
        "<act> open a </act> <act> open b </act> <end>",
        "<act> open <user> a </act> <end>",
        "<think> a </think> <think> b </think> <act> open a </act> <end>",
    ],
)
def test_a_malformed_turn_has_no_action(chat, text):
    ids = chat.tokenizer.encode(text, add_special_tokens=False)
    assert chat.parse(ids)[1] is None


def test_a_word_that_is_named_twice_is_one_token_and_takes_no_other_ones_id():
    tokenizer = make_tokenizer(["a", "b", "a", "c"])
    ids = tokenizer.convert_tokens_to_ids(["a", "b", "c", *TAGS, "<pad>", "<end>", "<user>"])
    assert len(set(ids)) == len(ids) and max(ids) < len(tokenizer)
