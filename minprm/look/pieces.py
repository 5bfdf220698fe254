"""States and single tokens as texts for people who look at a run. No model reads them."""

from functools import lru_cache
from typing import TYPE_CHECKING

from minprm.data import Step
from minprm.text.render import decoded

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

STATE_LETTERS = 2000  # of a state that is shown whole
BROKEN = "\ufffd"  # what decoding writes for bytes that are no character


def state_text(step: Step) -> str:
    """What the step shows, without the rules, and cut where it is a long page. Where several
    messages came, each says who speaks."""
    messages = [message for message in step.state if message.get("role") != "system"]
    lines = []
    for message in messages:
        content = str(message.get("content") or "")
        lines.append(f"{message.get('role')}: {content}" if len(messages) > 1 else content)
    text = "\n".join(lines)
    if len(text) <= STATE_LETTERS:
        return text
    return f"{text[:STATE_LETTERS]} … (the first {STATE_LETTERS:,} of {len(text):,} letters)"


def token_texts(tokenizer: "PreTrainedTokenizerBase", ids: list[int]) -> list[str]:
    """The texts of these tokens, one for each."""
    return [_token_text(tokenizer, i) for i in ids]


@lru_cache(maxsize=65536)
def _token_text(tokenizer: "PreTrainedTokenizerBase", i: int) -> str:
    """Some tokens are a part of a character, so they have no text. Of these the vocabulary's own
    name is shown, a letter for each byte."""
    text = decoded(tokenizer, [i])
    if BROKEN not in text:
        return text
    (token,) = tokenizer.convert_ids_to_tokens([i])
    return token
