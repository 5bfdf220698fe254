"""Countdown: reach a target from some numbers with + - * / and brackets, each number used once.

The world teaches search within one answer. Answers are read up to a fixed length, and worked out in
exact fractions from Python's syntax tree. Python's `eval` never sees them, so no answer can hang
the world or run anything.
"""

import ast
import operator
import re
from collections import Counter
from fractions import Fraction
from itertools import permutations, product

from minprm.envs.base import Illegal, World

LONGEST = 100  # characters of an answer
TRIES = 3
OPERATIONS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


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
    if len(text) > LONGEST or not re.fullmatch(r"[-+*/()0-9\s]*", text):
        return None
    text = re.sub(r"\b0+(?=[0-9])", "", text)  # 007 is a number too, and Python reads none
    try:
        return _value(ast.parse(" ".join(text.split()), mode="eval").body)
    except (SyntaxError, TypeError, ZeroDivisionError):
        return None


def _value(tree: ast.expr) -> Fraction:
    """Raises TypeError where the tree is more than numbers and + - * /."""
    match tree:
        case ast.Constant(value=int(number)):
            return Fraction(number)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATIONS:
            return OPERATIONS[type(op)](_value(left), _value(right))
    raise TypeError("no number, and none of + - * /")
