"""Wordle over a short list of words: guess a hidden word from coloured letters.

What it teaches: to keep what all guesses so far allow, which is a set that no observation shows.
"""

import re
from collections import Counter

from minprm.envs.base import Illegal, World
from minprm.envs.words import FIVE


class Wordle(World):
    teaches = "what all guesses so far allow"
    system = (
        "Guess a hidden English word of five letters. After each guess: G, the letter is right; Y, "
        "it is elsewhere in the word; -, it is not (or no more of it). Answer with one word."
    )

    def __init__(self, guesses: int = 6):
        if guesses < 1:
            raise ValueError("guesses from 1")
        self.turns = guesses

    def begin(self) -> str:
        self.hidden = self.rng.choice(FIVE)
        self.marks: dict[str, str] = {}  # of each guess
        return f"Guess a word of five letters. You have {self.turns} guesses."

    def act(self, action: str) -> tuple[str, float]:
        if not re.fullmatch("[a-z]{5}", action):
            raise Illegal("illegal: answer with one word of five small letters")
        self.marks[action] = feedback(action, self.hidden)
        self.success = action == self.hidden
        return f"{action}\n{self.marks[action]}", float(self.success)

    def actions(self) -> list[str]:
        return FIVE

    def expert(self) -> str:
        """Of the words that are left, the one whose answer leaves fewest; "raise" to begin with."""
        if not self.marks:
            return "raise"
        left = [w for w in FIVE if all(feedback(g, w) == m for g, m in self.marks.items())]
        return min(left, key=lambda w: _expected(w, left))


def feedback(guess: str, hidden: str) -> str:
    """A letter is yellow as often as the word has it beyond the green ones.

    >>> feedback("sleep", "speed")
    'G-GGY'
    """
    spare = Counter(h for g, h in zip(guess, hidden, strict=True) if g != h)
    marks = ""
    for g, h in zip(guess, hidden, strict=True):
        yellow = g != h and spare[g] > 0
        spare[g] -= yellow
        marks += "G" if g == h else "Y" if yellow else "-"
    return marks


def _expected(guess: str, left: list[str]) -> int:
    """Sum of squares: how many words are left after this guess, on average, times a constant."""
    return sum(n * n for n in Counter(feedback(guess, word) for word in left).values())
