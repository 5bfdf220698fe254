"""Keep a list of names sorted while names are added, over several turns.

What it teaches: an answer that has to be carried from turn to turn, since only the new names are
said again.
"""

from minprm.envs.base import World
from minprm.envs.words import NAMES


class AlphabetSort(World):
    teaches = "a list that only the answers carry from turn to turn"
    system = (
        "You are told names, some each turn. Answer each time with all names so far in the order "
        "of the alphabet, separated by commas."
    )

    def __init__(self, rounds: int = 3, names: int = 4):
        if rounds < 1 or names < 1 or rounds * names > len(NAMES):
            raise ValueError(f"rounds and names from 1, at most {len(NAMES)} names in all")
        self.turns, self.names = rounds, names

    def begin(self) -> str:
        self.drawn = self.rng.sample(NAMES, self.turns * self.names)
        self.right = 0
        return self._told()

    def act(self, action: str) -> tuple[str, float]:
        answer = [name.strip() for name in action.split(",")]
        right = answer == self._sorted(self.turn)
        self.right += right
        self.success = self.right == self.turns
        told = self._told() if self.turn < self.turns else ""
        return ("Right. " if right else "Wrong. ") + told, right / self.turns

    def actions(self) -> list[str]:
        new = self.drawn[self.turn * self.names : (self.turn + 1) * self.names]
        told = self.drawn[: (self.turn + 1) * self.names]
        return [", ".join(names) for names in (new, sorted(new), told, sorted(told)[::-1])]

    def expert(self) -> str:
        return ", ".join(self._sorted(self.turn + 1))

    def _sorted(self, turn: int) -> list[str]:
        return sorted(self.drawn[: turn * self.names])

    def _told(self) -> str:
        new = self.drawn[self.turn * self.names : (self.turn + 1) * self.names]
        return ("Names: " if not self.turn else "More names: ") + ", ".join(new)
