"""Countdown: reach a target from some numbers with + - * / and brackets, each number once.

What it teaches: search within one answer. Answers are read by a parser of its own, never `eval`,
over exact fractions and a bounded length: no answer can hang it or run anything.
"""

import re
from collections import Counter
from fractions import Fraction
from itertools import permutations, product, zip_longest

from minprm.envs.base import Illegal, World

LONGEST = 100  # characters of an answer
TRIES = 3


class Countdown(World):
    teaches = "search in one answer, checked by a parser"
    system = (
        "Write an expression with + - * / and brackets that uses each of the given numbers exactly "
        f"once and equals the target, such as (3 + 5) * 2. You have {TRIES} tries."
    )
    turns = TRIES

    def __init__(self, numbers: int = 3, largest: int = 20):
        if not 2 <= numbers <= 6 or largest < 2:
            raise ValueError("2 to 6 numbers, the largest at least 2")
        self.count, self.largest = numbers, largest

    def begin(self) -> str:
        self.target = Fraction(0)
        while not (self.target.denominator == 1 and 1 <= self.target <= 100):
            self.numbers = [self.rng.randint(1, self.largest) for _ in range(self.count)]
            self.solution = self._made()
            self.target = value(self.solution) or Fraction(0)
        self.numbers.sort()
        return f"Numbers: {' '.join(map(str, self.numbers))}. Target: {self.target}."

    def act(self, action: str) -> tuple[str, float]:
        result = value(action)
        if result is None:
            raise Illegal("illegal: answer with one expression of numbers, + - * / and brackets")
        if Counter(map(int, re.findall("[0-9]+", action))) != Counter(self.numbers):
            return f"Use exactly the numbers {' '.join(map(str, self.numbers))}.", 0.0
        self.success = result == self.target
        return f"That is {result}.", float(self.success)

    def actions(self) -> list[str]:
        orders = (
            permutations(map(str, self.numbers)) if self.count < 4 else [map(str, self.numbers)]
        )
        signs = list(product("+-*/", repeat=self.count - 1))
        return [
            " ".join(x for pair in zip_longest(order, mix) for x in pair if x)
            for order in map(list, orders) for mix in signs
        ]  # fmt: skip

    def expert(self) -> str:
        return self.solution

    def _made(self) -> str:
        """An expression of all numbers, in random order and with random brackets."""
        parts = [str(n) for n in self.numbers]
        self.rng.shuffle(parts)
        while len(parts) > 1:
            i = self.rng.randrange(len(parts) - 1)
            left, right = parts[i : i + 2]
            parts[i : i + 2] = [f"({left} {self.rng.choice('+-*/')} {right})"]
        return parts[0][1:-1]


def value(text: str) -> Fraction | None:
    """The exact value of an expression; None where it is none, or divides by zero.

    >>> value("(3 + 5) * 2"), value("2 ** 9"), value("1 / 0")
    (Fraction(16, 1), None, None)
    """
    tokens = re.findall("[0-9]+|[-+*/()]", text)
    if len(text) > LONGEST or "".join(tokens) != re.sub(r"\s", "", text):
        return None
    try:
        result, rest = _sum(tokens)
    except (ValueError, ZeroDivisionError):
        return None
    return None if rest else result


def _sum(tokens: list[str]) -> tuple[Fraction, list[str]]:
    """sum: product (("+" | "-") product)*.  What it read, and what is left."""
    total, tokens = _product(tokens)
    while tokens and tokens[0] in "+-":
        term, rest = _product(tokens[1:])
        total, tokens = total + term if tokens[0] == "+" else total - term, rest
    return total, tokens


def _product(tokens: list[str]) -> tuple[Fraction, list[str]]:
    """product: factor (("*" | "/") factor)*."""
    total, tokens = _factor(tokens)
    while tokens and tokens[0] in "*/":
        factor, rest = _factor(tokens[1:])
        total, tokens = total * factor if tokens[0] == "*" else total / factor, rest
    return total, tokens


def _factor(tokens: list[str]) -> tuple[Fraction, list[str]]:
    """factor: number | "(" sum ")"."""
    if tokens and tokens[0] == "(":
        inner, rest = _sum(tokens[1:])
        if rest[:1] != [")"]:
            raise ValueError("a bracket is not closed")
        return inner, rest[1:]
    if not tokens or not tokens[0].isdigit():
        raise ValueError("a number is missing")
    return Fraction(int(tokens[0])), tokens[1:]
