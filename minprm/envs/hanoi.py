"""Towers of Hanoi from any legal start, one move a turn.

What it teaches: a plan whose length is exponential in the discs and whose next move is a short
recursion.
"""

from functools import cache

from minprm.envs.base import Illegal, World

State = tuple[int, ...]  # the peg of each disc, smallest first


class Hanoi(World):
    teaches = "a recursive plan, one move a turn"
    system = (
        "Discs lie on pegs A, B and C, the largest at the bottom. Bring all discs to peg C. Answer "
        "`move X Y` to move the top disc of X onto Y; no disc may lie on a smaller one."
    )

    def __init__(self, discs: int = 3, slack: int = 8):
        """slack: turns beyond the 2^discs - 1 that the hardest start needs."""
        if not 1 <= discs <= 8 or slack < 0:
            raise ValueError("1 to 8 discs, slack from 0")
        self.discs, self.turns = discs, 2**discs - 1 + slack

    def begin(self) -> str:
        self.state = (2,) * self.discs
        while self.state == (2,) * self.discs:
            self.state = tuple(self.rng.randrange(3) for _ in range(self.discs))
        return self._view()

    def act(self, action: str) -> tuple[str, float]:
        if action not in self.actions():
            raise Illegal("illegal: answer move X Y, X and Y two of A, B, C")
        source, target = ("ABC".index(peg) for peg in action.split()[1:])
        if source not in self.state:
            raise Illegal(f"illegal: peg {'ABC'[source]} is empty")
        disc = self.state.index(source)  # the smallest there is on top
        if target in self.state[:disc]:
            raise Illegal("illegal: a smaller disc lies there")
        self.state = (*self.state[:disc], target, *self.state[disc + 1 :])
        self.success = set(self.state) == {2}
        return self._view(), float(self.success)

    def actions(self) -> list[str]:
        return [f"move {a} {b}" for a in "ABC" for b in "ABC" if a != b]

    def key(self) -> State:
        return self.state

    def expert(self) -> str:
        return "move {} {}".format(*("ABC"[peg] for peg in _move(self.state, 2)))

    def _view(self) -> str:
        pegs = ([str(d + 1) for d in range(self.discs) if self.state[d] == p] for p in range(3))
        return (
            "  ".join(
                f"{name}: {' '.join(peg) or 'empty'}" for name, peg in zip("ABC", pegs, strict=True)
            )
            + "  (top first)"
        )


@cache
def _move(state: State, goal: int) -> tuple[int, int]:
    """First move that brings all discs to `goal`: the largest that is away must go there, so the
    smaller ones must first come to the third peg."""
    disc = max(d for d, peg in enumerate(state) if peg != goal)
    spare = 3 - state[disc] - goal
    if any(peg != spare for peg in state[:disc]):
        return _move(state[:disc], spare)
    return state[disc], goal
