"""reasoning-gym's data sets as worlds, --world reasoning_gym:NAME: one question, one answer.

Each is made by seed and graded by its own verifier, `score_answer`; an answer that scores 1.0 wins.
The expert gives the answer that the data set brings. Knobs are those fields of its configuration
that are a number or a text.

Some verifiers run an answer as a program (eval, sympy's parse_expr). What a model writes is run
there only where it is plain arithmetic; else it scores 0.
"""

import dataclasses
import inspect
import re
from functools import cache
from typing import Any, get_type_hints

from minprm import own
from minprm.envs.adapters import seeded
from minprm.envs.base import Illegal, World, needs

TRIED = 3  # tasks that the expert has to win before anybody plays
RUN_ANSWERS = {  # data sets of reasoning-gym 0.1.25 whose verifiers do so
    "binary_matrix", "countdown", "intermediate_integration", "n_queens",
    "polynomial_multiplication", "puzzle24", "simple_integration", "spiral_matrix",
    "string_insertion",
}  # fmt: skip
PLAIN = (
    r"\d+\.?\d*|\b(?:[A-Za-z]|sin|cos|tan|exp|log|sqrt)\b|[-+/()\s]|\*(?!\*)"
    r"|\*\*\s*-?\d{1,2}\b(?!\s*\*\*)"
)


@cache
def world_of(dataset: str) -> type[World]:
    """The world of this data set. Raises ValueError where there is none."""
    needs("reasoning_gym", "reasoning-gym")
    from reasoning_gym.factory import DATASETS

    if dataset not in DATASETS:
        names = ", ".join(sorted(DATASETS))
        raise ValueError(f"reasoning_gym:{dataset}: no such data set. Data sets: {names}")
    config = DATASETS[dataset][1]
    types = get_type_hints(config)
    knobs = []
    for field in dataclasses.fields(config):
        if types[field.name] in (int, float, str) and field.name not in ("seed", "size"):
            knob = {"default": field.default, "annotation": types[field.name]}
            knobs.append(inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, **knob))
    return type(
        dataset, (Reasoning,), {"dataset": dataset, "__signature__": inspect.Signature(knobs)}
    )


class Reasoning(World):
    teaches = "one of a hundred puzzles of reasoning-gym, made by seed and graded by a program"
    system = "Answer the question. Write nothing but the answer, in the form that is asked for."
    dataset = ""

    def __init__(self, **config: Any):
        self.config = config
        require_expert(self.dataset, tuple(config.items()))

    def begin(self) -> str:
        self.puzzles, self.puzzle = made(self.dataset, self.config, self.rng.randrange(2**31))
        return self.puzzle["question"]

    def act(self, action: str) -> tuple[str, float]:
        if not action.strip():  # a turn in which none could be read comes as an empty one
            raise Illegal("illegal: there is no answer")
        self.done = True
        reward = score(self.dataset, self.puzzles, self.puzzle, action)
        self.success = reward == 1
        return "", reward

    def actions(self) -> list[str]:
        return ["0", "1", "2", "yes", "no", "A"]

    def expert(self) -> str:
        return answer_of(self.puzzle)


def made(dataset: str, config: dict, seed: int) -> tuple[Any, dict]:
    """(the data set of one task, the task). Raises ValueError where the knobs make none."""
    from reasoning_gym import create_dataset

    try:
        with seeded(seed):  # two data sets draw from Python's global generator
            puzzles = create_dataset(dataset, size=1, seed=seed, **config)
            return puzzles, puzzles[0]
    except (AssertionError, ValueError, TypeError) as error:
        raise ValueError(f"{dataset} cannot be made: {own.in_a_line(error)}") from error


def answer_of(puzzle: dict) -> str:
    """What the data set itself answers, as it can stand in a log."""
    return str(puzzle["answer"]).strip()


def score(dataset: str, puzzles: Any, puzzle: dict, answer: str) -> float:
    """What the verifier says of an answer; 0 where it raises."""
    if dataset in RUN_ANSWERS and answer != answer_of(puzzle) and not is_plain(answer):
        return 0.0
    try:
        with own.limited(f"reasoning_gym:{dataset}: score_answer"):
            return float(puzzles.score_answer(answer, puzzle))
    except Exception:  # verifiers trip over answers that they did not expect
        return 0.0


def is_plain(answer: str) -> bool:
    """Is it numbers, letters, some functions and operators alone, without towers of powers?

    >>> is_plain("3*(x - 2)**2 + sin(x)"), is_plain("9**9**9"), is_plain("exit()")
    (True, False, False)
    """
    powers = len(re.findall(r"\)\s*\*\*", answer))
    return len(answer) < 1000 and powers < 3 and not re.sub(PLAIN, "", answer)


@cache
def require_expert(dataset: str, config: tuple) -> None:
    """Raises ValueError where the data set's own answers do not win."""
    for seed in range(TRIED):
        puzzles, puzzle = made(dataset, dict(config), seed)
        answer = answer_of(puzzle)
        reward = score(dataset, puzzles, puzzle, answer)
        if not answer or reward != 1:
            raise ValueError(
                f"its own answer {answer[:40]!r} scores {reward:g} and not 1, so it has no expert: "
                "choose another data set"
            )
