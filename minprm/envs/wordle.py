"""Wordle over a short list of words: guess a hidden word from coloured letters.

The world teaches to keep in mind what all guesses so far allow: a set of words that no observation
shows.
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
        if not 1 <= guesses <= 100:
            raise ValueError("1 to 100 guesses")
        self.turns = guesses

    def begin(self) -> str:
        self.hidden = self.rng.choice(FIVE)
        self.marks: dict[str, str] = {}  # the answer to each guess so far
        return f"Guess a word of five letters. You have {self.turns} guesses."

    def task(self) -> str:
        return self.hidden  # all tasks begin alike

    def act(self, action: str) -> tuple[str, float]:
        if not re.fullmatch("[a-z]{5}", action):
            raise Illegal("illegal: answer with one word of five small letters")
        self.marks[action] = feedback(action, self.hidden)
        self.success = action == self.hidden
        return f"{action}\n{self.marks[action]}", float(self.success)

    def actions(self) -> list[str]:
        return list(FIVE)  # any five letters are legal, but only these words can be hidden

    def expert(self) -> str:
        """Returns the possible word whose answer will leave the fewest, on average."""
        if not self.marks:
            return "raise"  # the best first guess, which takes a while to find
        possible = []  # words that, hidden, would have given the answers that were seen
        for word in FIVE:
            if all(feedback(guess, word) == marks for guess, marks in self.marks.items()):
                possible.append(word)
        return min(possible, key=lambda word: _words_left(word, possible))


def feedback(guess: str, hidden: str) -> str:
    """Returns a mark for each letter: G green, Y yellow, - grey.

    A letter is yellow only as often as the hidden word has it beyond its green ones.

    >>> feedback("sleep", "speed")
    'G-GGY'
    """
    pairs = list(zip(guess, hidden, strict=True))
    # letters of the hidden word that no green mark accounts for
    spare = Counter(right for letter, right in pairs if letter != right)
    marks = ""
    for letter, right in pairs:
        if letter == right:
            marks += "G"
        elif spare[letter] > 0:
            spare[letter] -= 1
            marks += "Y"
        else:
            marks += "-"
    return marks


def _words_left(guess: str, possible: list[str]) -> int:
    """Returns how many words the guess leaves on average, times the number of possible words.

    Words with the same answer cannot be told apart. A hidden word out of such a set of n leaves n,
    and there are n of those: the sum of n * n over the sets.
    """
    sizes = Counter(feedback(guess, word) for word in possible).values()
    return sum(size * size for size in sizes)
