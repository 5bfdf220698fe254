"""Sokoban: push the box onto the target. A box can be pushed and never pulled.

What it teaches: planning ahead, since a push into a corner cannot be taken back. By default levels
need at least five moves: of unfiltered levels random play solves almost a fifth.
"""

from minprm.envs.base import Illegal, World

MOVES = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}
Cell = tuple[int, int]
State = tuple[Cell, frozenset[Cell]]  # the player and the boxes


class Sokoban(World):
    teaches = "planning: some pushes cannot be taken back"
    system = (
        "You push boxes in a store room: P is you, X a box, O a target, * a box on its target, "
        "S you on a target, # a wall, _ floor. Answer `up`, `down`, `left` or `right`. You can "
        "push one box and never pull. Every box must come to lie on a target."
    )

    def __init__(self, size: int = 6, boxes: int = 1, shortest: int = 5, walls: int = 4):
        """size: with the outer wall; shortest: moves of the best solution at least, 0 for any
        level; walls: inner walls."""
        room = (size - 2) ** 2 - walls
        if not 4 <= size <= 10 or not 1 <= boxes <= 3 or shortest < 0 or room < 2 * boxes + 4:
            raise ValueError("size 4 to 10, 1 to 3 boxes, few enough walls to leave room for them")
        self.size, self.boxes, self.shortest, self.walls = size, boxes, shortest, walls
        self.turns = 20 + 2 * shortest

    def begin(self) -> str:
        inner = [(x, y) for y in range(1, self.size - 1) for x in range(1, self.size - 1)]
        while True:
            self.rng.shuffle(inner)
            n, k = self.walls, self.boxes
            self.floor = frozenset(inner[n:])
            self.targets = frozenset(inner[n : n + k])
            self.state = inner[n + 2 * k], frozenset(inner[n + k : n + 2 * k])
            plan = self._plan(self.state)
            if plan and self.shortest <= len(plan) <= self.turns:
                self.plans = dict(plan)
                return self._view()

    def act(self, action: str) -> tuple[str, float]:
        if action not in MOVES:
            raise Illegal("illegal: answer up, down, left or right")
        self.state = self._next(self.state, action)
        self.success = self.state[1] == self.targets
        return self._view(), float(self.success)

    def actions(self) -> list[str]:
        return list(MOVES)

    def key(self) -> State:
        return self.state

    def expert(self) -> str:
        """The first move of a shortest solution; where none is left, any move."""
        if self.state not in self.plans:
            self.plans |= dict(self._plan(self.state)) or {self.state: "up"}
        return self.plans[self.state]

    def _plan(self, start: State) -> list[tuple[State, str]]:
        """A shortest solution as (state, move) pairs, breadth first; empty where there is none."""
        came: dict[State, tuple[State, str] | None] = {start: None}
        edge = [start]
        for state in edge:
            if state[1] == self.targets:
                plan = []
                while came[state]:
                    state, move = came[state]
                    plan.append((state, move))
                return plan
            for move in MOVES:
                after = self._next(state, move)
                if after not in came and not self._stuck(after[1]):
                    came[after] = state, move
                    edge.append(after)
        return []

    def _stuck(self, boxes: frozenset[Cell]) -> bool:
        """A box in a corner that is no target never moves again."""
        for x, y in boxes - self.targets:
            sideways = (x - 1, y) not in self.floor or (x + 1, y) not in self.floor
            if sideways and ((x, y - 1) not in self.floor or (x, y + 1) not in self.floor):
                return True
        return False

    def _next(self, state: State, move: str) -> State:
        ((x, y), boxes), (dx, dy) = state, MOVES[move]
        ahead, beyond = (x + dx, y + dy), (x + 2 * dx, y + 2 * dy)
        if ahead in boxes:
            if beyond not in self.floor or beyond in boxes:
                return state
            return ahead, boxes - {ahead} | {beyond}
        return (ahead, boxes) if ahead in self.floor else state

    def _view(self) -> str:
        player, boxes = self.state

        def sign(cell: Cell) -> str:
            if cell not in self.floor:
                return "#"
            here = "P" if cell == player else "X" if cell in boxes else "_"
            return {"P": "S", "X": "*", "_": "O"}[here] if cell in self.targets else here

        rows = ([sign((x, y)) for x in range(self.size)] for y in range(self.size))
        return "\n".join(" ".join(row) for row in rows)
