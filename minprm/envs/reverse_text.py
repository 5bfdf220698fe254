"""Write a text backwards, letter by letter.

What it teaches: what a tokenizer hides. The reward of a wrong answer is half the share of the
longest common subsequence, so that it grows with the answer and never reaches a right one's.
"""

from minprm.envs.base import World
from minprm.envs.words import FIVE


class ReverseText(World):
    teaches = "letters behind tokens; a graded reward that half-right answers cannot max out"
    system = "Answer with the given text written backwards, letter by letter, and nothing else."

    def __init__(self, words: int = 3):
        if words < 1:
            raise ValueError("words from 1")
        self.count = words

    def begin(self) -> str:
        self.text = " ".join(self.rng.choice(FIVE) for _ in range(self.count))
        return self.text

    def act(self, action: str) -> tuple[str, float]:
        self.success = action.strip() == self.expert()
        near = common(action[: 2 * len(self.text)], self.text[::-1]) / len(self.text)
        return f"Backwards it is: {self.expert()}", 1.0 if self.success else near / 2

    def actions(self) -> list[str]:
        words = self.text.split()
        return [self.text, " ".join(words[::-1]), " ".join(w[::-1] for w in words), words[0][::-1]]

    def expert(self) -> str:
        return self.text[::-1]


def common(a: str, b: str) -> int:
    """Length of the longest common subsequence, in time |a| |b|.

    >>> common("abcbdab", "bdcaba")
    4
    """
    row = [0] * (len(b) + 1)
    for x in a:
        last = 0
        for j, y in enumerate(b, start=1):
            last, row[j] = row[j], last + 1 if x == y else max(row[j], row[j - 1])
    return row[-1]
