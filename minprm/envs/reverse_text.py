"""Write a text backwards, letter by letter.

The world teaches what a tokenizer hides: letters. A wrong answer is paid half the share of the
longest common subsequence. That reward grows as the answer gets better, and it stays below the
reward of a right answer.
"""

from minprm.envs.base import World
from minprm.envs.words import FIVE


class ReverseText(World):
    teaches = "letters behind tokens; a graded reward that half-right answers cannot max out"
    system = "Answer with the given text written backwards, letter by letter, and nothing else."

    def __init__(self, words: int = 3):
        if not 1 <= words <= 100:
            raise ValueError("1 to 100 words")
        self.count = words

    def begin(self) -> str:
        self.text = " ".join(self.rng.choice(FIVE) for _ in range(self.count))
        return self.text

    def act(self, action: str) -> tuple[str, float]:
        backwards = self.expert()
        self.success = action.strip() == backwards
        # Only the start of an answer is compared, or a very long one would take very long.
        near = common(action[: 2 * len(self.text)], backwards) / len(self.text)
        return f"Backwards it is: {backwards}", 1.0 if self.success else near / 2

    def actions(self) -> list[str]:
        words = self.text.split()
        # mistakes that are easy to make
        words_in_reverse = " ".join(words[::-1])
        letters_in_reverse = " ".join(word[::-1] for word in words)
        return [self.text, words_in_reverse, letters_in_reverse, words[0][::-1]]

    def expert(self) -> str:
        return self.text[::-1]


def common(one: str, other: str) -> int:
    """Returns the length of the longest common subsequence, in time |one| |other|.

    >>> common("abcbdab", "bdcaba")
    4
    """
    # above[j]: the length for what was read of `one` so far and the first j letters of `other`
    above = [0] * (len(other) + 1)
    for letter in one:
        row = [0]
        for j, match in enumerate(other):
            longest = above[j] + 1 if letter == match else max(above[j + 1], row[j])
            row.append(longest)
        above = row
    return above[-1]
