"""Sokoban: push the box onto the target. A box can be pushed and never pulled.

The world teaches planning ahead, since a push into a corner cannot be taken back. By default a
level needs at least five moves: random play solves almost a fifth of the levels without that limit.
"""

from math import comb

from minprm.constants import fail
from minprm.envs.base import Illegal, World

DEALS = 1_000  # levels that are dealt before none is found to suit
STATES = 200_000  # of player and boxes, that a plan may look at

MOVES = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}
Cell = tuple[int, int]  # column, row
State = tuple[Cell, frozenset[Cell]]  # the player and the boxes


class Sokoban(World):
    teaches = "planning: some pushes cannot be taken back"
    system = (
        "You push boxes in a store room: P is you, X a box, O a target, * a box on its target, "
        "S you on a target, # a wall, _ floor. Answer `up`, `down`, `left` or `right`. You can "
        "push one box and never pull. Every box must come to lie on a target."
    )

    words = [  # noqa: RUF012
        "#", "_", "P", "X", "O", "*", "S", *MOVES, "illegal:", "answer", "up,", "down,", "or",
    ]  # fmt: skip

    def __init__(self, size: int = 6, boxes: int = 1, shortest: int = 5, walls: int = 4):
        """Makes levels of size x size cells, the outer wall included.

        shortest: the best solution has at least so many moves; 0 allows any level.
        walls: number of inner walls.
        """
        room = (size - 2) ** 2 - walls
        if not (4 <= size <= 10 and 1 <= boxes <= 3 and 0 <= shortest <= 100 and walls >= 0):
            raise ValueError("size 4 to 10, 1 to 3 boxes, shortest from 0 to 100, walls from 0")
        if room < 2 * boxes + 4:
            raise ValueError(f"{walls} walls leave too little room for boxes, targets and player")
        if room * comb(room, boxes) > STATES:
            raise ValueError("so many boxes take minutes to plan for in so large a room")
        self.size = size
        self.boxes = boxes
        self.shortest = shortest
        self.walls = walls
        self.turns = 20 + 2 * shortest

    def begin(self) -> str:
        inner = [(x, y) for y in range(1, self.size - 1) for x in range(1, self.size - 1)]
        # Deal shuffled cells out as walls, targets, boxes and player, until the level suits.
        for _ in range(DEALS):
            self.rng.shuffle(inner)
            floor = inner[self.walls :]
            self.floor = frozenset(floor)
            self.targets = frozenset(floor[: self.boxes])
            boxes = frozenset(floor[self.boxes : 2 * self.boxes])
            player = floor[2 * self.boxes]
            self.state = player, boxes
            plan = self._plan(self.state)
            # an empty plan says that the level has no solution
            if plan and self.shortest <= len(plan) <= self.turns:
                self.plans = plan  # the expert's move in each state on the way
                return self._view()
        fail(f"sokoban: none of {DEALS:,} levels takes {self.shortest} moves: a smaller shortest")

    def act(self, action: str) -> tuple[str, float]:
        if action not in MOVES:
            raise Illegal("illegal: answer up, down, left or right")
        self.state = self._next(self.state, action)
        _, boxes = self.state
        self.success = boxes == self.targets
        return self._view(), float(self.success)

    def actions(self) -> list[str]:
        return list(MOVES)

    def key(self) -> State:
        return self.state

    def expert(self) -> str:
        """Returns the first move of a shortest solution, or any move where there is none left."""
        if self.state not in self.plans:
            # The agent left the plan. The new one is kept, so that each state is planned once.
            self.plans.update(self._plan(self.state) or {self.state: "up"})
        return self.plans[self.state]

    def _plan(self, start: State) -> dict[State, str]:
        """Returns the move in each state of a shortest solution; empty where there is none."""
        came: dict[State, tuple[State, str] | None] = {start: None}  # from where, by which move
        queue = [start]
        for state in queue:  # breadth first: the loop sees what is appended meanwhile
            _, boxes = state
            if boxes == self.targets:
                plan = {}
                while step := came[state]:  # back to where the search began
                    state, move = step
                    plan[state] = move
                return plan
            for move in MOVES:
                after = self._next(state, move)
                if after not in came and not self._stuck(after[1]):
                    came[after] = state, move
                    queue.append(after)
        return {}

    def _stuck(self, boxes: frozenset[Cell]) -> bool:
        """Is a box in a corner that is no target? Then it never moves again."""
        for x, y in boxes - self.targets:
            # a wall to the left or right, and one above or below
            sideways = (x - 1, y) not in self.floor or (x + 1, y) not in self.floor
            upright = (x, y - 1) not in self.floor or (x, y + 1) not in self.floor
            if sideways and upright:
                return True
        return False

    def _next(self, state: State, move: str) -> State:
        (x, y), boxes = state
        dx, dy = MOVES[move]
        ahead = (x + dx, y + dy)
        beyond = (x + 2 * dx, y + 2 * dy)
        if ahead not in self.floor:
            return state
        if ahead not in boxes:
            return ahead, boxes
        if beyond not in self.floor or beyond in boxes:
            return state  # the box does not give way
        return ahead, boxes - {ahead} | {beyond}

    def _view(self) -> str:
        rows = []
        for y in range(self.size):
            rows.append(" ".join(self._sign((x, y)) for x in range(self.size)))
        return "\n".join(rows)

    def _sign(self, cell: Cell) -> str:
        player, boxes = self.state
        target = cell in self.targets
        if cell not in self.floor:
            return "#"
        if cell == player:
            return "S" if target else "P"
        if cell in boxes:
            return "*" if target else "X"
        return "O" if target else "_"
