"""What the bases of evidence/experiments/documents.py read: no thought is true of its state."""

import random

import pytest

from evidence.experiments import documents
from minprm.constants import Tiny
from minprm.envs.cups import Cups
from minprm.load import tiny
from minprm.text.chat import Chat


@pytest.fixture(scope="module")
def lessons() -> list[str]:
    """Texts of 2,000 lessons."""
    _, tokenizer = tiny.untrained(Cups(), Tiny(dim=8), seed=0)
    rng = random.Random(0)
    chat = Chat(tokenizer)
    samples = [documents.lesson(rng, chat, twice=0.5) for _ in range(2000)]
    return [tokenizer.decode(sample.ids) for sample in samples]


def story_of(state: str) -> str:
    """What the world would think in this state."""
    begin, *swaps, _ = state.replace(" .", ".").split(".")
    world = Cups(rounds=1, swaps=len(swaps))
    world.start, world.swapped = begin[-1], [swap.split()[1:] for swap in swaps]
    return world.thought()


def test_a_thought_tells_another_story_and_is_obeyed(lessons):
    chats = [text for text in lessons if "<think>" in text]
    assert 400 < len(chats) < 600  # a quarter
    for text in chats:
        state, rest = text.removeprefix("<user> ").split(" <asst> <think> ")
        thought, action = rest.split(" </think> <act> ")
        assert thought not in story_of(state)
        assert action.startswith(f"open {thought[-1]} ")


def test_a_document_is_no_chat(lessons):
    plain = [text for text in lessons if "<user>" not in text]
    assert 900 < len(plain) < 1100  # a half
    assert not any("<" in text or "open" in text for text in plain)
    assert sum(". swap" in text for text in plain) > 300  # some list the swaps first
