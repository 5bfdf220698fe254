"""Frozen lake: walk over ice to the goal and not into a hole. The whole lake is in view.

The world teaches nothing about memory, and that is its use: everything is in the observation, so it
shows what a thought adds where none is needed. With `slip` the ice adds chance. The exact value of
the best play is then known too (`optimum`), and stands beside every score.
"""

import random
import re
from itertools import product
from math import ceil

from minprm.constants import fail
from minprm.envs.base import Illegal, World

# a thought: where I am, where the goal is, and so what to do
THOUGHT = "column {} row {} to column {} row {} so {}."
LAKES = 10_000  # lakes that are drawn before none is found to suit
MOVES = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}
SIDES = {  # where a slip may lead instead
    "up": ("left", "right"),
    "down": ("left", "right"),
    "left": ("up", "down"),
    "right": ("up", "down"),
}
Cell = tuple[int, int]  # column, row


class FrozenLake(World):
    teaches = "a grid in full view: is a thought needed at all?"
    system = (
        "You walk on a frozen lake: P is you, _ is ice, O is a hole, G is the goal. Answer `up`, "
        "`down`, `left` or `right`. Reach G and do not step into a hole."
    )
    thought_mix = {"right": 0.3, "wrong": 0.4, "bare": 0.3}  # noqa: RUF012

    def __init__(
        self,
        size: int = 6,
        ice: float = 0.75,
        path: int = 5,
        slip: float = 0.0,
        actions_per_turn: int = 1,
    ):
        """Makes lakes of size x size cells.

        ice: share of the cells that hold. path: the shortest way has at least so many steps.
        slip: chance that a step goes to either side instead (gymnasium's slippery lake: 2/3).
        actions_per_turn: steps that a turn may hold; an episode has as many steps as with one,
        rounded up to whole turns.
        """
        possible = 3 <= size <= 20 and 1 <= path <= 2 * size - 2
        if not possible or not 0.5 <= ice <= 1 or not 0 <= slip <= 1:
            raise ValueError(
                "size from 3 to 20, ice from .5 to 1, path from 1 to 2 size - 2, slip from 0 to 1"
            )
        if not 1 <= actions_per_turn <= (1 if slip else 5):
            raise ValueError("actions_per_turn from 1 to 5, and 1 on ice that slips")
        self.size = size
        self.ice = ice
        self.path = path
        self.slip = slip
        self.actions_per_turn = actions_per_turn
        # the shortest way is seldom longer than 2 size - 2
        self.turns = ceil(4 * size / actions_per_turn)
        # The vocabulary is that of the observations and of the thoughts, one token a word.
        spoken = "illegal: answer up, down, left or P _ O G X column row to so bare"
        sentence_ends = [f"{way}." for way in MOVES]
        if actions_per_turn > 1:
            spoken += " left, right,"
        self.words = sorted({*MOVES, *sentence_ends, *spoken.split(), *map(str, range(size))})

    def begin(self) -> str:
        cells = [(x, y) for y in range(self.size) for x in range(self.size)]
        # Draw lakes until one has a way to the goal that is long enough.
        for _ in range(LAKES):
            self.holes = frozenset(cell for cell in cells if self.rng.random() > self.ice)
            free = [cell for cell in cells if cell not in self.holes]
            if len(free) < 2:
                continue
            self.place, self.goal = self.rng.sample(free, 2)  # never the same cell
            self.steps = self._steps_to_goal()
            if self.steps.get(self.place, 0) >= self.path:
                self.values: dict[tuple[Cell, int], float] = {}  # of (cell, turns left)
                return self._view()
        fail(f"frozenlake: none of {LAKES:,} lakes has a way of {self.path} steps: a smaller path")

    def act(self, action: str) -> tuple[str, float]:
        if action not in MOVES:
            raise Illegal("illegal: answer up, down, left or right")
        if self.noise.random() < self.slip:
            action = self.noise.choice(SIDES[action])
        self.place = self._next(self.place, action)
        self.success = self.place == self.goal
        self.done = self.place in self.holes  # lost
        return self._view(), float(self.success)

    def actions(self) -> list[str]:
        turns = []
        for steps in range(1, self.actions_per_turn + 1):
            turns += [", ".join(turn) for turn in product(MOVES, repeat=steps)]
        return turns

    def key(self) -> Cell:
        return self.place

    def expert(self) -> str:
        moves = []
        cell = self.place
        left = (self.turns - self.turn) * self.actions_per_turn
        for ahead in range(self.actions_per_turn):
            moves.append(self._best(cell, left - ahead))
            cell = self._next(cell, moves[-1])
            if cell == self.goal:
                break
        return ", ".join(moves)

    def _best(self, cell: Cell, left: int) -> str:
        """Returns the best action in this cell, with so many steps left."""

        def worth(action: str) -> tuple[float, int]:
            # On ice that does not slip many moves still reach the goal: the shortest way decides.
            steps = self.steps.get(self._next(cell, action), self.size**2)
            return self._after(cell, action, left), -steps

        return max(MOVES, key=worth)

    def thought(self) -> str:
        return THOUGHT.format(*self.place, *self.goal, self.expert())

    def narrate(self, kind: str, rng: random.Random) -> tuple[str, str]:
        if kind == "right":
            return self.thought(), self.expert()
        # A wrong thought is drawn, and so is the action: the one does not explain the other.
        action = rng.choice(self.actions())
        place = (rng.choice(range(self.size)), rng.choice(range(self.size)))
        goal = (rng.choice(range(self.size)), rng.choice(range(self.size)))
        if kind == "bare":
            return "bare", action
        return THOUGHT.format(*place, *goal, action), action

    def classify(self, thought: str) -> str:
        if thought == "bare":
            return "bare"
        if thought == self.thought():
            return "right"
        # any cells and any action in the form of a thought
        number = "[0-9]+"
        form = THOUGHT.format(number, number, number, number, f"({'|'.join(self.actions())})")
        return "wrong" if re.fullmatch(form, thought) else "?"

    def optimum(self) -> float:
        """Returns the exact chance of success of the best play from here, in the steps left."""
        return self._value(self.place, (self.turns - self.turn) * self.actions_per_turn)

    def _value(self, cell: Cell, left: int) -> float:
        """Finite-horizon dynamic programming: V_0 = 0, V_n(s) = max_a E V_{n-1}(s')."""
        if cell == self.goal or cell in self.holes or left == 0:
            return float(cell == self.goal)
        if (cell, left) not in self.values:
            best = max(self._after(cell, action, left) for action in MOVES)
            self.values[cell, left] = best
        return self.values[cell, left]

    def _after(self, cell: Cell, action: str, left: int) -> float:
        """E V_{n-1}(s') of one action: it goes straight, or slips to one of two sides."""
        ahead = self._value(self._next(cell, action), left - 1)
        aside = [self._value(self._next(cell, side), left - 1) for side in SIDES[action]]
        return (1 - self.slip) * ahead + self.slip * sum(aside) / 2

    def _steps_to_goal(self) -> dict[Cell, int]:
        """Counts the steps to the goal from every cell that can reach it, breadth first."""
        steps = {self.goal: 0}
        queue = [self.goal]
        for cell in queue:  # the loop sees what is appended meanwhile
            for action in MOVES:
                near = self._next(cell, action)
                if near not in self.holes and near not in steps:
                    steps[near] = steps[cell] + 1
                    queue.append(near)
        return steps

    def _next(self, cell: Cell, action: str) -> Cell:
        x, y = cell
        dx, dy = MOVES[action]
        # the shore stops a step
        return min(max(x + dx, 0), self.size - 1), min(max(y + dy, 0), self.size - 1)

    def _view(self) -> str:
        rows = []
        for y in range(self.size):
            rows.append(" ".join(self._sign((x, y)) for x in range(self.size)))
        return "\n".join(rows)

    def _sign(self, cell: Cell) -> str:
        hole = cell in self.holes
        if cell == self.place:
            return "X" if hole else "P"
        if cell == self.goal:
            return "G"
        return "O" if hole else "_"
