"""Lines of samples.jsonl: groups as people read them, and how likely each token was.

`Notes` holds the lines of one look. They are drawn up before an update; after it the same tokens
are read once more, by the weights that the update made. Which groups are noted: record.py.
"""

import math
from functools import lru_cache, partial
from itertools import chain

from transformers import PreTrainedTokenizerBase

from minprm.data import Sample, Step
from minprm.model.reading import Reading
from minprm.run.events import Noted
from minprm.text.render import decoded
from minprm.trainer import Run

# A line stays readable. What is longer is left out, or cut where that is said.
GROUP_TOKENS = 4096  # of a group whose tokens are all kept
PROMPT_TOKENS = 512  # of a prompt
STATE_LETTERS = 2000  # of a state that is shown whole
LIKELY = 6  # tokens that are named in the place of a token of the expert's action
# The role of a token, as one letter. The first two are not read: no loss is ever taken of them.
STATE, TAG, THOUGHT, STOP, ACTION, DRAWN = "stzead"
BROKEN = "\ufffd"  # what decoding writes for bytes that are no character


class Notes:
    """The lines of one look, and the tokens in them that are read before and after the update."""

    def __init__(self, run: Run, stage_id: str, update: int):
        self.run = run
        self.stage_id = stage_id
        self.update = update
        self.pieces = partial(token_texts, run.agent.chat.tokenizer)
        self.rows: list[dict] = []
        self.turns: list[tuple[dict, list[Sample]]] = []
        self.actions: list[tuple[dict, Sample]] = []

    def turn(
        self, ids: list[int], roles: str, advantages: list, sampled: list, samples: list[Sample]
    ) -> dict:
        """The entry `tokens` of a thought or an episode; all lists are as long as `ids`.

        samples: those whose trained tokens are the tokens of `ids` that are read, in their order.
        """
        tokens = {
            "text": self.pieces(ids),
            "role": roles,
            "advantage": [short(number) for number in advantages],
            "sampler": [short(number) for number in sampled],
            "before": None,
            "after": None,
            "entropy": None,
        }
        self.turns.append((tokens, samples))
        return tokens

    def action(self, ids: list[int], sample: Sample) -> dict:
        """The entry `action`: the expert's, token by token, which are the sample's trained ones."""
        action = {"text": self.pieces(ids), "logp": [], "likely": []}
        self.actions.append((action, sample))
        return action

    def read_before(self, by_base: bool = False) -> None:
        """Reads all tokens before the update. by_base: actions by the frozen base model."""
        for tokens, readings in self._read_turns():
            tokens["before"] = _placed(tokens["role"], [r.logp.tolist() for r in readings])
            tokens["entropy"] = _placed(tokens["role"], [r.entropy.tolist() for r in readings])
        samples = [sample for _, sample in self.actions]
        action_readings = self.run.agent.policy.readings(samples, base=by_base, likely=LIKELY)
        for (action, _), reading in zip(self.actions, action_readings, strict=True):
            action["logp"] = [short(logp) for logp in reading.logp.tolist()]
            for ids, logps in zip(reading.likely, reading.likely_logp, strict=True):
                probs = zip(self.pieces(ids.tolist()), logps.exp().tolist(), strict=True)
                action["likely"].append([[text, short(p)] for text, p in probs])

    def read_after(self) -> None:
        """Reads the tokens that are trained once more, after the update."""
        for tokens, readings in self._read_turns():
            tokens["after"] = _placed(tokens["role"], [r.logp.tolist() for r in readings])

    def tell(self) -> None:
        """Hands the lines on, to whoever writes them."""
        self.run.tell(Noted(self.stage_id, self.update, self.rows))

    def prompt(self, ids: list[int]) -> list[str] | None:
        """The token texts of what is read before a thought; None where it is too long."""
        return self.pieces(ids) if len(ids) <= PROMPT_TOKENS else None

    def _read_turns(self) -> list[tuple[dict, list[Reading]]]:
        """Each turn's tokens, with what the policy says of its samples now."""
        agent = self.run.agent
        all_samples = []
        for _, samples in self.turns:
            all_samples += samples
        readings = iter(agent.policy.readings(all_samples, agent.temperature))
        turns = []
        for tokens, samples in self.turns:
            turns.append((tokens, [next(readings) for _ in samples]))
        return turns


def with_tokens(sizes: list[int], rewards: list[float]) -> set[int]:
    """Which of a group keep their tokens: all; or the best, the median and the worst; or none.

    >>> with_tokens([9, 9, 9, 9, 9], [0.3, 0.1, 0.5, 0.2, 0.4]) == {0, 1, 2, 3, 4}
    True
    >>> with_tokens([1000, 1000, 1000, 1000, 1000], [0.3, 0.1, 0.5, 0.2, 0.4]) == {1, 0, 2}
    True
    """
    ranked = sorted(range(len(sizes)), key=lambda i: rewards[i])
    three = {ranked[0], ranked[len(ranked) // 2], ranked[-1]}
    for some in (set(ranked), three):
        if sum(sizes[i] for i in some) <= GROUP_TOKENS:
            return some
    return set()


def short(number: float | None) -> float | None:
    """Four digits, which are what a reader sees; None for NaN.

    >>> short(0.123456), short(float("nan"))
    (0.1235, None)
    """
    return None if number is None or math.isnan(number) else float(f"{number:.4g}")


def _placed(roles: str, parts: list[list[float]]) -> list[float | None]:
    """The numbers of all parts at the tokens that are read, None at the others."""
    numbers = chain.from_iterable(parts)
    return [None if role in (STATE, TAG) else short(next(numbers)) for role in roles]


# --- as texts for people: no model reads them ---


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


def token_texts(tokenizer: PreTrainedTokenizerBase, ids: list[int]) -> list[str]:
    """The texts of these tokens, one for each."""
    return [_token_text(tokenizer, i) for i in ids]


@lru_cache(maxsize=65536)
def _token_text(tokenizer: PreTrainedTokenizerBase, i: int) -> str:
    """Some tokens are a part of a character, so they have no text. Of these the vocabulary's own
    name is shown, a letter for each byte."""
    text = decoded(tokenizer, [i])
    if BROKEN not in text:
        return text
    (token,) = tokenizer.convert_ids_to_tokens([i])
    return token
