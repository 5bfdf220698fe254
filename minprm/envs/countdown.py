"""Countdown: reach a target from some numbers with + - * / and brackets, each number used once.

The world teaches search within one answer. Answers are read by a parser of its own, over exact
fractions and up to a fixed length. Python's `eval` never sees them, so no answer can hang the
world or run anything.
"""

import re
from collections import Counter
from fractions import Fraction
from itertools import permutations, product

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
        if not 2 <= numbers <= 6 or not 2 <= largest <= 100:
            raise ValueError("2 to 6 numbers, the largest from 2 to 100")
        self.count = numbers
        self.largest = largest

    def begin(self) -> str:
        # The target is the value of a random expression, so every task has a solution. Expressions
        # are drawn until that value is a whole number from 1 to 100.
        self.target = Fraction(0)
        while not (self.target.denominator == 1 and 1 <= self.target <= 100):
            self.numbers = [self.rng.randint(1, self.largest) for _ in range(self.count)]
            self.solution = self._expression()
            self.target = value(self.solution) or Fraction(0)  # it may divide by zero
        self.numbers.sort()  # the same numbers always read the same
        return f"Numbers: {' '.join(map(str, self.numbers))}. Target: {self.target}."

    def act(self, action: str) -> tuple[str, float]:
        total = value(action)
        if total is None:
            raise Illegal("illegal: answer with one expression of numbers, + - * / and brackets")
        used = [int(digits) for digits in re.findall("[0-9]+", action)]
        if Counter(used) != Counter(self.numbers):
            return f"Use exactly the numbers {' '.join(map(str, self.numbers))}.", 0.0
        self.success = total == self.target
        return f"That is {total}.", float(self.success)

    def actions(self) -> list[str]:
        # Random play writes no brackets, and from four numbers on keeps their order: the list of
        # all expressions would be too long.
        orders = permutations(self.numbers) if self.count < 4 else [self.numbers]
        expressions = []
        for order in orders:
            for signs in product("+-*/", repeat=self.count - 1):
                text = str(order[0])
                for sign, number in zip(signs, order[1:], strict=True):
                    text += f" {sign} {number}"
                expressions.append(text)
        return expressions

    def expert(self) -> str:
        return self.solution

    def _expression(self) -> str:
        """Joins all numbers to an expression, in random order and with random brackets."""
        terms = [str(number) for number in self.numbers]
        self.rng.shuffle(terms)
        while len(terms) > 1:
            i = self.rng.randrange(len(terms) - 1)
            sign = self.rng.choice("+-*/")
            terms[i : i + 2] = [f"({terms[i]} {sign} {terms[i + 1]})"]
        return terms[0][1:-1]  # without the outer brackets


def value(text: str) -> Fraction | None:
    """Returns the exact value of an expression; None if it is none, or divides by zero.

    >>> value("(3 + 5) * 2"), value("2 ** 9"), value("1 / 0")
    (Fraction(16, 1), None, None)
    """
    tokens = re.findall("[0-9]+|[-+*/()]", text)
    something_else = "".join(tokens) != re.sub(r"\s", "", text)
    if len(text) > LONGEST or something_else:
        return None
    try:
        total, tail = _sum(tokens)
    except (ValueError, ZeroDivisionError):
        return None
    return None if tail else total


# The parser: one function for each rule of the grammar. Each returns the value of what it has read
# from the start of the tokens, and the tokens that are left.


def _sum(tokens: list[str]) -> tuple[Fraction, list[str]]:
    """sum: product (("+" | "-") product)*"""
    total, tail = _product(tokens)
    while tail and tail[0] in "+-":
        sign = tail[0]
        term, tail = _product(tail[1:])
        total = total + term if sign == "+" else total - term
    return total, tail


def _product(tokens: list[str]) -> tuple[Fraction, list[str]]:
    """product: factor (("*" | "/") factor)*"""
    total, tail = _factor(tokens)
    while tail and tail[0] in "*/":
        sign = tail[0]
        factor, tail = _factor(tail[1:])
        total = total * factor if sign == "*" else total / factor
    return total, tail


def _factor(tokens: list[str]) -> tuple[Fraction, list[str]]:
    """factor: number | "(" sum ")" """
    if tokens and tokens[0] == "(":
        inner, tail = _sum(tokens[1:])
        if tail[:1] != [")"]:
            raise ValueError("a bracket is not closed")
        return inner, tail[1:]
    if not tokens or not tokens[0].isdigit():
        raise ValueError("a number is missing")
    return Fraction(int(tokens[0])), tokens[1:]
