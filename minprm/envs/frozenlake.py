"""Frozen lake: walk over ice to the goal, not into a hole; the whole lake is in view.

What it teaches: nothing about memory, and that is its use. Everything is in the observation, so it
shows what a thought adds where none is needed; with `slip` the ice adds chance, and the exact value
of the best play stands beside every score.
"""

import random
import re

from minprm.envs.base import Illegal, World

MOVES = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}
SIDES = dict.fromkeys(("up", "down"), ("left", "right"))
SIDES |= dict.fromkeys(("left", "right"), ("up", "down"))
Cell = tuple[int, int]


class FrozenLake(World):
    teaches = "a grid in full view: is a thought needed at all?"
    system = (
        "You walk on a frozen lake: P is you, _ is ice, O is a hole, G is the goal. Answer `up`, "
        "`down`, `left` or `right`. Reach G and do not step into a hole."
    )

    thought_mix = {"right": 0.3, "wrong": 0.4, "bare": 0.3}  # noqa: RUF012

    def __init__(self, size: int = 6, ice: float = 0.75, path: int = 5, slip: float = 0.0):
        """ice: share of cells that hold; path: shortest way at least; slip: chance that a step
        goes to either side instead (gymnasium's slippery lake: 2/3)."""
        if size < 3 or not 0.5 <= ice <= 1 or not 1 <= path <= 2 * size - 2 or not 0 <= slip <= 1:
            raise ValueError(
                "size from 3, ice from .5 to 1, path from 1 to 2 size - 2, slip 0 to 1"
            )
        self.size, self.ice, self.path, self.slip = size, ice, path, slip
        self.turns = 4 * size
        ways = [f"{way}{end}" for way in MOVES for end in ("", ".")]
        spoken = "illegal: answer up, down, left or P _ O G X column row to so bare"
        self.words = sorted({*ways, *spoken.split(), *map(str, range(size))})

    def begin(self) -> str:
        cells = [(x, y) for y in range(self.size) for x in range(self.size)]
        while True:
            self.holes = frozenset(c for c in cells if self.rng.random() > self.ice)
            free = [c for c in cells if c not in self.holes]
            self.place, self.goal = self.rng.sample(free, 2)
            if self.path <= self._distance().get(self.place, 0):
                break
        self.values: dict[tuple[Cell, int], float] = {}
        return self._view()

    def act(self, action: str) -> tuple[str, float]:
        if action not in MOVES:
            raise Illegal("illegal: answer up, down, left or right")
        if self.rng.random() < self.slip:
            action = self.rng.choice(SIDES[action])
        self.place = self._next(self.place, action)
        self.success = self.place == self.goal
        self.done = self.place in self.holes
        return self._view(), float(self.success)

    def actions(self) -> list[str]:
        return list(MOVES)

    def key(self) -> Cell:
        return self.place

    def expert(self) -> str:
        left = self.turns - self.turn
        return max(MOVES, key=lambda a: (self._after(self.place, a, left), -self._far(a)))

    def thought(self) -> str:
        return self._said(self.place, self.goal, self.expert())

    def narrate(self, kind: str, rng: random.Random) -> tuple[str, str]:
        if kind == "right":
            return self.thought(), self.expert()
        action, cells = rng.choice(self.actions()), range(self.size)
        wrong = [(rng.choice(cells), rng.choice(cells)) for _ in "ab"]
        return "bare" if kind == "bare" else self._said(*wrong, action), action

    def classify(self, thought: str) -> str:
        if thought in ("bare", self.thought()):
            return "bare" if thought == "bare" else "right"
        n = "[0-9]+"
        form = self._said((n, n), (n, n), f"({'|'.join(MOVES)})")
        return "wrong" if re.fullmatch(form, thought) else "?"

    def _said(self, place: Cell, goal: Cell, action: str) -> str:
        """A thought: where I am, where the goal is, and so what to do."""
        return "column {} row {} to column {} row {} so {}.".format(*place, *goal, action)

    def optimum(self) -> float:
        """The exact chance of success of the best play from here, in the turns that are left."""
        return self._value(self.place, self.turns - self.turn)

    def _value(self, cell: Cell, left: int) -> float:
        """Finite-horizon dynamic programming: V_0 = 0, V_n(s) = max_a E V_{n-1}(s')."""
        if cell == self.goal or cell in self.holes or not left:
            return float(cell == self.goal)
        if (cell, left) not in self.values:
            best = max(self._after(cell, action, left) for action in MOVES)
            self.values[cell, left] = best
        return self.values[cell, left]

    def _after(self, cell: Cell, action: str, left: int) -> float:
        """E V_{n-1}(s') of one action."""
        ends = [self._value(self._next(cell, a), left - 1) for a in (action, *SIDES[action])]
        return (1 - self.slip) * ends[0] + self.slip * sum(ends[1:]) / 2

    def _far(self, action: str) -> int:
        return self._steps.get(self._next(self.place, action), self.size**2)

    def _distance(self) -> dict[Cell, int]:
        """Steps to the goal from every cell from which it is reached: breadth first, from it."""
        self._steps, edge = {self.goal: 0}, [self.goal]
        for cell in edge:
            for action in MOVES:
                near = self._next(cell, action)
                if near not in self.holes and near not in self._steps:
                    self._steps[near] = self._steps[cell] + 1
                    edge.append(near)
        return self._steps

    def _next(self, cell: Cell, action: str) -> Cell:
        (x, y), (dx, dy) = cell, MOVES[action]
        return min(max(x + dx, 0), self.size - 1), min(max(y + dy, 0), self.size - 1)

    def _view(self) -> str:
        def sign(cell: Cell) -> str:
            if cell == self.place:
                return "X" if cell in self.holes else "P"
            return "O" if cell in self.holes else "G" if cell == self.goal else "_"

        rows = ([sign((x, y)) for x in range(self.size)] for y in range(self.size))
        return "\n".join(" ".join(row) for row in rows)
