"""Where two pieces of a turn meet, the ids are those of the whole text."""

import pytest

from minprm.load.check import other_seams
from minprm.text.chat import Chat
from shared.splits import KINDS, splitting

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
