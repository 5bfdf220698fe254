"""Word problems whose answer is a number: a user's file, or problems that are made here.

The world teaches arithmetic in steps, in one turn. A file is GSM8K's ("question", and "answer" with
the number after "####") or MetaMathQA's ("query", and "response" with the number after "The answer
is:"). Only the last number of a model's answer counts.
"""

import re

from minprm.envs.base import Illegal, World
from minprm.envs.tasks import tasks_of
from minprm.envs.words import NAMES

ITEMS = ("apples", "books", "candles", "coins", "eggs", "pens", "shells", "stamps")


class Gsm8k(World):
    teaches = "arithmetic in steps, in one turn"
    system = "Solve the problem. Answer with the number alone."

    def __init__(self, file: str = "", steps: int = 3):
        """file: JSONL of problems. steps: of a problem that is made here."""
        if not 1 <= steps <= 8:
            raise ValueError("1 to 8 steps")
        self.problems = tasks_of(file, _problem) if file else ()
        self.steps = steps

    def begin(self) -> str:
        problem = self.rng.choice(self.problems) if self.problems else self._story()
        question, self.work, self.answer = problem
        return question

    def act(self, action: str) -> tuple[str, float]:
        answer = number(action)
        if answer is None:
            raise Illegal("illegal: there is no number in the answer")
        self.success = answer == self.answer
        return "", float(self.success)

    def actions(self) -> list[str]:
        return [str(guess) for guess in range(100)]  # most answers lie in this range

    def expert(self) -> str:
        return f"{self.answer:g}"

    def thought(self) -> str:
        return self.work

    def _story(self) -> tuple[str, str, float]:
        """Makes a story of gains, losses and doublings. Returns (question, work, answer)."""
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
        return " ".join(story), " ".join(work), float(count)


def _problem(row: dict) -> tuple[str, str, float]:
    """(question, work, answer) of a row."""
    if "query" in row:
        question, (work, mark, final) = row["query"], row["response"].rpartition("The answer is:")
    else:
        question, (work, mark, final) = row["question"], row["answer"].rpartition("####")
    answer = number(final)
    # a fraction, a pair, a formula: its last number would be taken for the answer
    alone = re.fullmatch(r"\s*[$€£]?-?[0-9][0-9,]*(\.[0-9]*)?\s*%?\.?\s*", final)
    if not mark or not alone or answer is None or not isinstance(question, str):
        raise ValueError(
            'needs "question" and "answer" with "#### number", or "query" and "response" with '
            '"The answer is: number"; leave out problems whose answer is no number alone'
        )
    return question, work.strip(), answer


def number(text: str) -> float | None:
    """Returns the last number of a text, without commas, currency or a full stop after it.

    >>> number("so 12 + 3 is $1,234.50."), number("none")
    (1234.5, None)
    """
    # first the numbers with commas between thousands, then those without
    numbers = re.findall(r"-?[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?|-?[0-9]+(?:\.[0-9]+)?", text)
    return float(numbers[-1].replace(",", "")) if numbers else None
