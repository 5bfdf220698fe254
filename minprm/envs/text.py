"""Prompts with references, and a reward on the text of an answer.

The world of single-turn generation, as RL4LMs has it (arXiv:2210.01241). A user brings the prompts,
JSONL of {"prompt", "reference"}, and chooses the reward: a metric of metrics.py, or a function of
their own. Without a file the tasks are to count. The reward is paid as it is: it may be any finite
number, where those of metrics.py go from 0 to 1. No answer earns 0.

A task is solved by its reference, which an answer of free text seldom is. So RL on a reward is the
stage `rl:dense`, which is paid by it; `rl` is paid by success.
"""

import math
import random
from functools import cache
from typing import NamedTuple

from minprm.envs.base import Illegal, World, needs
from minprm.envs.metrics import LIBRARIES, METRICS, Metric, diversity, exact_match
from minprm.envs.tasks import tasks_of
from minprm.own import as_number, function, takes

SHAPE = (
    'a row is {"prompt": a text, "reference": a text or a list of texts}, with {"system": a text} '
    "if it has one"
)


class Pair(NamedTuple):
    """A task: what is asked, and texts that answer it."""

    prompt: str
    references: list[str]  # one at least
    system: str = ""


class Text(World):
    teaches = "your own prompts and references, with a reward on the text of the answer"
    words = ["count", "from", "to", *map(str, range(1, 60))]  # noqa: RUF012

    def __init__(self, reward: str = "exact_match", file: str = "", enough: float = math.inf):
        """reward: a name of METRICS, or FILE.py:NAME. enough: a reward that is a success, too."""
        if math.isnan(enough):
            raise ValueError("enough is a number: a reward that is a success")
        self.reward = reward
        self.metric = metric(reward)
        self.file = file
        self.pairs = tasks_of(file, _pair) if file else ()
        self.enough = enough

    def begin(self) -> str:
        pair = self.rng.choice(self.pairs) if self.pairs else counting(self.rng)
        self.system = pair.system
        self.references = pair.references
        return pair.prompt

    def act(self, action: str) -> tuple[str, float]:
        if not action.strip():  # a turn in which none could be read comes as an empty one
            raise Illegal("illegal: there is no answer")
        reward = self.metric(action, self.references)
        self.success = exact_match(action, self.references) == 1 or reward >= self.enough
        return "", reward

    def actions(self) -> list[str]:
        if self.pairs:  # what other prompts are answered with
            return [pair.references[0] for pair in self.pairs]
        return ["1 2", "9 8 7", self.references[0].rpartition(" ")[0]]

    def expert(self) -> str:
        return self.references[0]

    def summary(self, actions: list[str]) -> dict[str, float]:
        return {f"text/{name}": number for name, number in diversity(actions).items()}


def counting(rng: random.Random) -> Pair:
    """The task of those who bring no file."""
    first = rng.randint(1, 40)
    wanted = range(first, first + rng.randint(4, 12))
    prompt = f"count from {first} to {wanted[-1]}"
    return Pair(prompt, [" ".join(map(str, wanted))], "Answer with the numbers alone.")


# --- a user's file ---


def _pair(row: dict) -> Pair:
    if not isinstance(row, dict):
        raise ValueError(SHAPE)
    references = row.get("reference")
    if isinstance(references, str):
        references = [references]
    if not isinstance(references, list) or not references:
        raise ValueError(f'"reference" is no text, and no list of texts: {SHAPE}')
    for text in (row.get("prompt"), *references):
        if not isinstance(text, str) or not text.strip():
            raise ValueError(f"the prompt and each reference are texts that are not empty: {SHAPE}")
    system = row.get("system")
    if system is None:  # a table cannot leave it out of one row
        system = ""
    if not isinstance(system, str):
        raise ValueError(f'"system" is no text: {SHAPE}')
    return Pair(row["prompt"], references, system)


# --- a user's reward ---


@cache
def metric(name: str) -> Metric:
    """The metric of this name, or a user's reward(answer, reference) in FILE.py:NAME, of which the
    best of several references counts.

    Raises ValueError where there is none, or where it takes other arguments. A call exits where it
    returns no finite number.
    """
    if name in LIBRARIES:
        needs(LIBRARIES[name], "text")
    reward = function(name, METRICS)
    if name in METRICS:
        return reward
    if not takes(reward, 2):
        raise ValueError(f"{name}: it has to take (answer, reference)")

    def best(answer: str, references: list[str]) -> float:
        return max(as_number(name, reward(answer, reference)) for reference in references)

    return best
