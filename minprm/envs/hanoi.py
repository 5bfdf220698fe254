"""Towers of Hanoi from any legal start, one move a turn.

The world teaches a plan that is long and yet simple: its length is exponential in the number of
discs, and its next move is a short recursion.
"""

import random
import re
from functools import cache
from itertools import permutations

from minprm.envs.base import Illegal, World

PEGS = "ABC"
GOAL = 2  # all discs go to peg C
State = tuple[int, ...]  # the peg of each disc, smallest first
Move = tuple[int, int, int]  # disc, from peg, to peg


class Hanoi(World):
    teaches = "a recursive plan, one move a turn"
    system = (
        "Discs lie on pegs A, B and C, the largest at the bottom. Bring all discs to peg C. Answer "
        "`move X Y` to move the top disc of X onto Y; no disc may lie on a smaller one."
    )
    thought_mix = {"right": 0.3, "wrong": 0.4, "bare": 0.3}  # noqa: RUF012

    def __init__(self, discs: int = 5, slack: int = 8):
        """discs: there are 3^discs - 1 tasks. slack: turns beyond the 2^discs - 1 that the hardest
        start needs.
        """
        if not 1 <= discs <= 8 or not 0 <= slack <= 1000:
            raise ValueError("1 to 8 discs, slack from 0 to 1000")
        self.discs = discs
        self.solved = (GOAL,) * discs
        self.slack = slack
        self.turns = 2**discs - 1 + slack
        # The vocabulary is that of the observations and of the thoughts, one token a word.
        spoken = (
            "A: B: C: empty (top first) illegal: answer move X Y, X and Y two of A, B, C peg A B "
            "is a smaller disc lies there to so bare"
        )
        self.words = sorted({*spoken.split(), *(str(disc + 1) for disc in range(discs))})

    def begin(self) -> str:
        self.state = self.solved
        while self.state == self.solved:
            self.state = _any_state(self.discs, self.rng)
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
        self.success = self.state == self.solved
        return self._view(), float(self.success)

    def actions(self) -> list[str]:
        return [f"move {source} {target}" for source, target in permutations(PEGS, 2)]

    def key(self) -> State:
        return self.state

    def expert(self) -> str:
        return _said(_plan(self.state, GOAL)[-1])

    def thought(self) -> str:
        return _reasons(self.state)

    def narrate(self, kind: str, rng: random.Random) -> tuple[str, str]:
        if kind == "right":
            return self.thought(), self.expert()
        if kind == "bare":
            return "bare", rng.choice(self.actions())
        # the right thought of some other state, and the action that it ends on
        state = self.solved
        while state in (self.solved, self.state):
            state = _any_state(self.discs, rng)
        return _reasons(state), _said(_plan(state, GOAL)[-1])

    def classify(self, thought: str) -> str:
        if thought == "bare":
            return "bare"
        if thought == self.thought():
            return "right"
        form = "([0-9]+ to [ABC] so )+move [ABC] [ABC]"
        return "wrong" if re.fullmatch(form, thought) else "?"

    def _view(self) -> str:
        pegs = []
        for peg, name in enumerate(PEGS):
            discs = [str(disc + 1) for disc in range(self.discs) if self.state[disc] == peg]
            pegs.append(f"{name}: {' '.join(discs) or 'empty'}")
        return "  ".join(pegs) + "  (top first)"


def _any_state(discs: int, rng: random.Random) -> State:
    """Any assignment of discs to pegs is legal, as the order on a peg follows from the sizes."""
    return tuple(rng.randrange(3) for _ in range(discs))


@cache  # a state comes back in many tasks
def _plan(state: State, goal: int) -> list[Move]:
    """Returns what has to move so that all discs come to `goal`: last what moves first.

    The largest disc that is not there yet has to go there. First all smaller ones must leave both
    of its pegs, so they go to the third: the same task with fewer discs.
    """
    disc = max(disc for disc, peg in enumerate(state) if peg != goal)
    move = (disc, state[disc], goal)
    third = 3 - state[disc] - goal  # the three pegs sum to 0 + 1 + 2
    if all(peg == third for peg in state[:disc]):
        return [move]
    return [move, *_plan(state[:disc], third)]


def _said(move: Move) -> str:
    _, source, target = move
    return f"move {PEGS[source]} {PEGS[target]}"


def _reasons(state: State) -> str:
    """Returns a thought: `4 to C so 3 to B so move A B`. It ends with what moves first."""
    plan = _plan(state, GOAL)
    wants = [f"{disc + 1} to {PEGS[target]}" for disc, _, target in plan]
    return " so ".join([*wants, _said(plan[-1])])
