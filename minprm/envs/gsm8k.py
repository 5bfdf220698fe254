"""Word problems whose answer is a number: a user's file, or problems that are made here.

The world teaches arithmetic in steps, in one turn. A file is GSM8K's ("question", and "answer" with
the number after "####") or MetaMathQA's ("query", and "response" with the number after "The answer
is:"). Only the last number of a model's answer counts.

MetaMathQA asks one problem in several wordings. They are one task, named by "original_question".
"""

import re
from functools import cache
from typing import NamedTuple

from loguru import logger

from minprm.envs.base import Illegal, World
from minprm.envs.tasks import check_splits
from minprm.envs.words import NAMES
from minprm.logs.reader import read_rows

ITEMS = ("apples", "books", "candles", "coins", "eggs", "pens", "shells", "stamps")
SHAPE = (
    'needs "question" and "answer", a text that ends in "#### number", or "query" and "response", '
    'a text that ends in "The answer is: number"'
)


class Problem(NamedTuple):
    task: str  # the same in all wordings of a problem
    question: str
    work: str
    answer: float


class Gsm8k(World):
    teaches = "arithmetic in steps, in one turn"
    system = "Solve the problem. Answer with the number alone."

    def __init__(self, file: str = "", steps: int = 3):
        """file: JSONL of problems. steps: of a problem that is made here."""
        if not 1 <= steps <= 8:
            raise ValueError("1 to 8 steps")
        self.problems = _problems(file) if file else ()
        self.steps = steps

    def begin(self) -> str:
        self.problem = self.rng.choice(self.problems) if self.problems else self._story()
        return self.problem.question

    def task(self) -> str:
        return self.problem.task

    def act(self, action: str) -> tuple[str, float]:
        answer = number(action)
        if answer is None:
            raise Illegal("illegal: there is no number in the answer")
        self.success = answer == self.problem.answer
        return "", float(self.success)

    def actions(self) -> list[str]:
        return [str(guess) for guess in range(100)]  # most answers lie in this range

    def expert(self) -> str:
        return f"{self.problem.answer:.15g}"

    def thought(self) -> str:
        return self.problem.work

    def _story(self) -> Problem:
        """Makes a story of gains, losses and doublings."""
        name = self.rng.choice(NAMES)
        things = self.rng.choice(ITEMS)
        count = self.rng.randint(5, 20)
        story = [f"{name} has {count} {things}."]
        work = []  # the sums that solve it, one a step
        for _ in range(self.steps):
            change = self.rng.randint(2, 9)
            event = self.rng.choice(["finds", "loses", "doubles"])
            if event == "finds":
                story.append(f"{name} finds {change} more.")
                work.append(f"{count} + {change} = {count + change}.")
                count += change
            elif event == "loses" and count > change:  # nobody gives away more than all
                story.append(f"{name} gives {change} away.")
                work.append(f"{count} - {change} = {count - change}.")
                count -= change
            else:
                story.append("Then the number doubles.")
                work.append(f"{count} * 2 = {2 * count}.")
                count *= 2
        story.append(f"How many {things} does {name} have now?")
        question = " ".join(story)
        return Problem(question, question, " ".join(work), float(count))


@cache
def _problems(file: str) -> list[Problem]:
    """The problems of a file. Those whose answer is no number are left out, which a line tells."""
    rows = read_rows(file, _problem)
    problems = [row for row in rows if row]
    if rows and not problems:
        raise ValueError(f"{file}: no answer in it is a number alone; it {SHAPE}")
    if len(problems) < len(rows):
        left_out = f"{len(rows) - len(problems):,} of {len(rows):,} problems are left out"
        logger.info(f"{file}: {left_out}, whose answer is no number alone")
    check_splits([problem.task for problem in problems], file)
    return problems


def _problem(row: dict) -> Problem | None:
    """The problem of a row; None where its answer is no number alone."""
    match row:
        case {"query": str(question), "response": str(text)}:
            work, mark, final = text.rpartition("The answer is:")
        case {"question": str(question), "answer": str(text)}:
            work, mark, final = text.rpartition("####")
        case _:
            raise ValueError(SHAPE)
    answer = number(final)
    # a fraction, a pair, a formula: its last number would be taken for the answer
    alone = re.fullmatch(r"\s*[$€£]?-?[0-9][0-9,]*(\.[0-9]*)?\s*%?\.?\s*", final)
    if not mark or not alone or answer is None:
        return None
    original = row.get("original_question")
    task = original if isinstance(original, str) else question
    return Problem(task, question, work.strip(), answer)


def number(text: str) -> float | None:
    """Returns the last number of a text, without commas, currency or a full stop after it.

    >>> number("so 12 + 3 is $1,234.50."), number("none")
    (1234.5, None)
    """
    # first the numbers with commas between thousands, then those without
    numbers = re.findall(r"-?[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?|-?[0-9]+(?:\.[0-9]+)?", text)
    return float(numbers[-1].replace(",", "")) if numbers else None
