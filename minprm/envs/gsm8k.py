"""Word problems with a number as their answer: a user's GSM8K file, or problems made here.

What it teaches: arithmetic in steps, in one turn. A file is JSONL with "question" and "answer",
whose number stands after "####". Only the last number of an answer counts.
"""

import re
from functools import cache

from minprm.data import read_jsonl
from minprm.envs.base import Illegal, World, parts
from minprm.envs.words import NAMES

ITEMS = ("apples", "books", "candles", "coins", "eggs", "pens", "shells", "stamps")


class Gsm8k(World):
    teaches = "arithmetic in steps, in one turn"
    system = "Solve the problem. Answer with the number alone."

    def __init__(self, file: str = "", steps: int = 3):
        """file: JSONL of problems; its last tenth is for test, the tenth before for validation."""
        if not 1 <= steps <= 8:
            raise ValueError("1 to 8 steps")
        self.parts, self.steps = parts(read(file)) if file else [], steps

    def begin(self) -> str:
        given = self.parts and self.rng.choice(self.parts[self.seed // 10**9])
        question, self.work, self.answer = given or self._made()
        return question

    def act(self, action: str) -> tuple[str, float]:
        said = number(action)
        if said is None:
            raise Illegal("illegal: there is no number in the answer")
        self.success = said == self.answer
        return "", float(self.success)

    def actions(self) -> list[str]:
        return [str(n) for n in range(100)]

    def expert(self) -> str:
        return f"{self.answer:g}"

    def thought(self) -> str:
        return self.work

    def _made(self) -> tuple[str, str, float]:
        """A story of `steps` gains, losses and multiples, and the sums that solve it."""
        name, item = self.rng.choice(NAMES), self.rng.choice(ITEMS)
        n = self.rng.randint(5, 20)
        story, work = [f"{name} has {n} {item}."], []
        for _ in range(self.steps):
            k, kind = self.rng.randint(2, 9), self.rng.choice(["finds", "loses", "doubles"])
            if kind == "finds":
                told, after, sign = f"{name} finds {k} more.", n + k, f"+ {k}"
            elif kind == "loses" and n > k:
                told, after, sign = f"{name} gives {k} away.", n - k, f"- {k}"
            else:
                told, after, sign = "Then the number doubles.", 2 * n, "* 2"
            work.append(f"{n} {sign} = {after}.")
            story.append(told)
            n = after
        story.append(f"How many {item} does {name} have now?")
        return " ".join(story), " ".join(work), float(n)


@cache
def read(file: str) -> list[tuple[str, str, float]]:
    """(question, work, answer) of each line. Raises ValueError with what is wrong."""
    return read_jsonl(file, _problem)


def _problem(row: dict) -> tuple[str, str, float]:
    work, _, final = row["answer"].rpartition("####")
    if (answer := number(final)) is None:
        raise ValueError('needs "question" and "answer" with "#### number"')
    return row["question"], work.strip(), answer


def number(text: str) -> float | None:
    """The last number of a text: commas, currency and a full stop after it are no part of it.

    >>> number("so 12 + 3 is $1,234.50."), number("none")
    (1234.5, None)
    """
    found = re.findall(r"-?[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?|-?[0-9]+(?:\.[0-9]+)?", text)
    return float(found[-1].replace(",", "")) if found else None
