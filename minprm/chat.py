"""Messages -> token segments and back: where a thought or an action starts and ends.

A template is rendered once with placeholders, its text split there; from then on segments are
concatenated. Template text is tokenised with special tokens, content without: an observation that
spells a control token stays text. History is appended to, never rendered again.

A turn is  state | <think> thought </think> | <act> action </act> | end.
Left out here: layouts whose tags are not single tokens, and native tool calls.
"""

import re

from transformers import PreTrainedTokenizerBase

from minprm.constants import fail

TAGS = ("<think>", "</think>", "<act>", "</act>")
ORDERS = ("natural", "action_first")
_MARK = "xMINPRM{}x"


class Chat:
    """Segments of one template. Exits where the tokenizer lacks a tag or an end of turn."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase):
        self.tokenizer = tokenizer
        known = tokenizer.get_vocab()
        for tag in TAGS:
            if tag not in known:
                fail(f"the tokenizer has no token {tag}: its chat layout is not supported")
        self.think, self.think_end, self.act, self.act_end = ([known[tag]] for tag in TAGS)
        self.special = set(tokenizer.all_special_ids) | {known[tag] for tag in TAGS}
        _, after = self._split([{"role": "user"}, {"role": "assistant"}], [], False)[-2:]
        if tokenizer.eos_token not in after:
            fail(f"the chat template does not end a turn with {tokenizer.eos_token}")
        self._end_text = after[: after.index(tokenizer.eos_token) + len(tokenizer.eos_token)]
        self.end = self._template(self._end_text)
        self._pieces: dict = {}

    def state(self, messages: list[dict], tools: list[dict], first: bool) -> list[int]:
        """Ids from the end of the last turn to where the assistant writes; `first`: no turn yet."""
        key = (first, tuple(m["role"] for m in messages), repr(tools))
        if key not in self._pieces:
            self._pieces[key] = self._state_pieces(messages, tools, first)
        ids = []
        for piece in self._pieces[key]:
            ids += self.content(messages[piece]["content"]) if isinstance(piece, int) else piece
        return ids

    def content(self, text: str) -> list[int]:
        """Ids of text that is nobody's template. Exits on a word that the vocabulary lacks."""
        try:
            return self.tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True)
        except Exception as error:  # tokenizers raises nothing narrower
            fail(f"{text!r} holds a word that the model's vocabulary lacks ({error})")

    def turn(
        self, thought: list[int] | None, action: list[int], order: str = "natural"
    ) -> list[int]:
        """Ids of one assistant turn; `order` is one of ORDERS. No thought, no tags."""
        think = [] if thought is None else [*self.think, *thought, *self.think_end]
        act = [*self.act, *action, *self.act_end]
        return (think + act if order == "natural" else act + think) + self.end

    def parse(self, ids: list[int]) -> tuple[str | None, str | None]:
        """(thought, action) of a sampled turn, found by id. A malformed turn has action None."""
        thought = None
        if ids[:1] == self.think and self.think_end[0] in ids:
            close = ids.index(self.think_end[0])
            thought, ids = ids[1:close], ids[close + 1 :]
        action = ids[1 : -1 - len(self.end)]
        if ids != [*self.act, *action, *self.act_end, *self.end] or not self.clean(action):
            return self.text(thought), None
        return self.text(thought), self.text(action)

    def clean(self, ids: list[int]) -> bool:
        """True where no control token is among the ids."""
        return self.special.isdisjoint(ids)

    def text(self, ids: list[int] | None) -> str | None:
        """For worlds and people, never for the loss."""
        return None if ids is None else self.tokenizer.decode(ids)

    def _template(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False)

    def _split(self, messages: list[dict], tools: list[dict], prompt: bool) -> list[str]:
        marked = [{**m, "content": _MARK.format(i)} for i, m in enumerate(messages)]
        text = self.tokenizer.apply_chat_template(
            marked, tools=tools or None, add_generation_prompt=prompt, tokenize=False
        )
        return re.split(_MARK.format(r"(\d+)"), text)

    def _state_pieces(self, messages, tools, first) -> list[list[int] | int]:
        before = [] if first else [{"role": "user"}, {"role": "assistant"}]
        parts = self._split([*before, *messages], tools, True)
        if not first:  # drop the turn before, and the end that it already holds
            parts = parts[parts.index("1") + 1 :]
            parts[0] = parts[0].removeprefix(self._end_text)
        skip = len(before)
        return [int(p) - skip if i % 2 else self._template(p) for i, p in enumerate(parts)]
