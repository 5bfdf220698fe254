"""Towers of Hanoi from any legal start, one move a turn.

The world teaches a plan that is long and yet simple: its length is exponential in the number of
discs, and its next move is a short recursion.
"""

from functools import cache
from itertools import permutations

from minprm.envs.base import Illegal, World

PEGS = "ABC"
GOAL = 2  # all discs go to peg C
State = tuple[int, ...]  # the peg of each disc, smallest first


class Hanoi(World):
    teaches = "a recursive plan, one move a turn"
    system = (
        "Discs lie on pegs A, B and C, the largest at the bottom. Bring all discs to peg C. Answer "
        "`move X Y` to move the top disc of X onto Y; no disc may lie on a smaller one."
    )

    def __init__(self, discs: int = 5, slack: int = 8):
        """discs: there are 3^discs - 1 tasks. slack: turns beyond the 2^discs - 1 that the hardest
        start needs.
        """
        if not 1 <= discs <= 8 or not 0 <= slack <= 1000:
            raise ValueError("1 to 8 discs, slack from 0 to 1000")
        self.discs = discs
        self.turns = 2**discs - 1 + slack

    def begin(self) -> str:
        # Any assignment of discs to pegs is legal, as the order on a peg follows from the sizes.
        solved = (GOAL,) * self.discs
        self.state = solved
        while self.state == solved:
            self.state = tuple(self.rng.randrange(3) for _ in range(self.discs))
        return self._view()

    def act(self, action: str) -> tuple[str, float]:
        if action not in self.actions():
            raise Illegal("illegal: answer move X Y, X and Y two of A, B, C")
        _, source_name, target_name = action.split()
        source = PEGS.index(source_name)
        target = PEGS.index(target_name)
        if source not in self.state:
            raise Illegal(f"illegal: peg {source_name} is empty")
        disc = self.state.index(source)  # the smallest disc of a peg is on top
        if target in self.state[:disc]:
            raise Illegal("illegal: a smaller disc lies there")
        self.state = (*self.state[:disc], target, *self.state[disc + 1 :])
        self.success = set(self.state) == {GOAL}
        return self._view(), float(self.success)

    def actions(self) -> list[str]:
        return [f"move {source} {target}" for source, target in permutations(PEGS, 2)]

    def key(self) -> State:
        return self.state

    def expert(self) -> str:
        source, target = _move(self.state, GOAL)
        return f"move {PEGS[source]} {PEGS[target]}"

    def _view(self) -> str:
        pegs = []
        for peg, name in enumerate(PEGS):
            discs = [str(disc + 1) for disc in range(self.discs) if self.state[disc] == peg]
            pegs.append(f"{name}: {' '.join(discs) or 'empty'}")
        return "  ".join(pegs) + "  (top first)"


@cache  # a state comes back in many tasks
def _move(state: State, goal: int) -> tuple[int, int]:
    """Returns the first move that brings all discs to `goal`, as (from peg, to peg).

    The largest disc that is not there yet has to go there. First all smaller ones must leave both
    of its pegs, so they go to the third: the same task with fewer discs.
    """
    disc = max(each for each, peg in enumerate(state) if peg != goal)
    third = 3 - state[disc] - goal  # the three pegs sum to 0 + 1 + 2
    if any(peg != third for peg in state[:disc]):
        return _move(state[:disc], third)
    return state[disc], goal
