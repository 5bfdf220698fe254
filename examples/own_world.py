"""Find a hidden number: each guess is answered with higher or lower."""

import re

from minprm.envs.base import Illegal, World


class Guess(World):
    teaches = "a range that only the history holds"
    system = "Find the hidden number. Answer with one number; you read `higher` or `lower`."

    def __init__(self, highest: int = 100, turns: int = 7):
        if not 10 <= highest <= 9999 or turns < 1:
            raise ValueError("highest from 10 to 9999, turns 1 or more")
        self.highest = highest
        self.turns = turns

    def begin(self) -> str:
        self.hidden = self.rng.randint(1, self.highest)
        self.low, self.high = 1, self.highest  # what is still possible
        return f"A number from 1 to {self.highest}."

    def task(self) -> str:
        return str(self.hidden)  # tasks begin alike: what is hidden makes the difference

    def act(self, action: str) -> tuple[str, float]:
        if not re.fullmatch("[0-9]{1,4}", action):
            raise Illegal("illegal: answer with one number")
        guess = int(action)
        if guess == self.hidden:
            self.success = True
            return "found", 1.0
        if guess < self.hidden:
            self.low = max(self.low, guess + 1)
            return "higher", 0.0
        self.high = min(self.high, guess - 1)
        return "lower", 0.0

    def actions(self) -> list[str]:
        return [str(number) for number in range(1, self.highest + 1)]

    def expert(self) -> str:
        return str((self.low + self.high) // 2)

    def thought(self) -> str:
        return f"It is from {self.low} to {self.high}, and the middle halves that."
