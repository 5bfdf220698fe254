"""Keep a list of names sorted while names are added, over several turns.

The world teaches to carry an answer from turn to turn: each observation says only the new names.
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
        """names: how many are added in each round."""
        if rounds < 1 or names < 1 or rounds * names > len(NAMES):
            raise ValueError(f"rounds and names from 1, at most {len(NAMES)} names in all")
        self.turns = rounds
        self.names = names

    def begin(self) -> str:
        self.all_names = self.rng.sample(NAMES, self.turns * self.names)
        self.right = 0  # rounds that were answered right
        return "Names: " + ", ".join(self._told(1))

    def act(self, action: str) -> tuple[str, float]:
        # `turn` counts this turn already, so the names of the first `turn` rounds were told
        answer = [name.strip() for name in action.split(",")]
        right = answer == sorted(self._told(self.turn))
        self.right += right
        self.success = self.right == self.turns
        observation = "Right. " if right else "Wrong. "
        if self.turn < self.turns:
            observation += "More names: " + ", ".join(self._new())
        return observation, right / self.turns

    def actions(self) -> list[str]:
        # random play forgets the old names, or does not sort, or sorts backwards
        new = self._new()
        names_so_far = self._told(self.turn + 1)
        backwards = sorted(names_so_far)[::-1]
        return [", ".join(names) for names in (new, sorted(new), names_so_far, backwards)]

    def expert(self) -> str:
        return ", ".join(sorted(self._told(self.turn + 1)))

    def _told(self, rounds: int) -> list[str]:
        """Returns all names of the first rounds, in the order in which they were told."""
        return self.all_names[: rounds * self.names]

    def _new(self) -> list[str]:
        """Returns the names that were added last, and wait for an answer."""
        return self._told(self.turn + 1)[self.turn * self.names :]
