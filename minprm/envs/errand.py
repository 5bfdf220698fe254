"""Errand: a walk in the dark over waypoints. After the first observation nothing shows the place.

What it teaches: every action depends on position and heading, which must be tracked over the whole
episode; and here, unlike in cups, actions change the world.
"""

import random

from minprm.envs.base import Illegal, World

HEADINGS = "NESW"
MOVES = {"N": (0, 1), "E": (1, 0), "S": (0, -1), "W": (-1, 0)}
Pose = tuple[int, int, str]  # x, y, heading


class Errand(World):
    teaches = "where am I: position and heading carried over an episode in the dark"
    system = (
        "You walk in the dark on a grid of cells, x to the east, y to the north. Visit the cell "
        "that you are sent to. Answer `forward`, `left` (turn) or `right` (turn); you are told "
        "only whether you moved, bumped, turned, or found the cell, and where to go next."
    )
    thought_mix = {"update": 0.8, "jump": 0.05, "stale": 0.05, "bare": 0.1}  # noqa: RUF012

    def __init__(self, waypoints: int = 1, size: int = 6, turns: int = 16):
        if waypoints < 1 or size < 2 or turns < 1:
            raise ValueError("waypoints and turns from 1, size from 2")
        self.waypoints, self.size, self.turns = waypoints, size, turns * waypoints
        cells = [f"{axis}{i}" for axis in "xy" for i in range(size)]
        seen = ["start", "visit", ".", "moved", "bumped", "turned", "found", "illegal"]
        self.words = [*cells, *HEADINGS, *seen, *self.actions(), "at", "to", "need", "bare"]

    def begin(self) -> str:
        self.index = 0
        self.pose = (*self._cell(), self.rng.choice(HEADINGS))
        path = [self.pose[:2]]
        while len(path) <= self.waypoints:
            if (cell := self._cell()) != path[-1]:
                path.append(cell)
        self.goals = path[1:]
        self.last = ("", "")  # action and observation
        self.belief = None  # the narrator's pose
        return "start x{} y{} {} .".format(*self.pose) + self._visit()

    def act(self, action: str) -> tuple[str, float]:
        if action not in self.actions():
            self.last = (action, "illegal")
            raise Illegal("illegal")
        before, self.pose = self.pose, _moved(self.pose, action, self.size)
        observation, reward = "turned" if action != "forward" else "moved", 0.0
        if self.pose == before:
            observation = "bumped"
        if self.pose[:2] == self.goals[self.index] and action == "forward":
            observation, reward = "found", 1 / self.waypoints
            self.success = self.index == self.waypoints - 1
            if not self.success:
                self.index += 1
                observation += self._visit()
        self.last = (action, observation)
        return observation, reward

    def key(self) -> Pose:
        return self.pose

    def actions(self) -> list[str]:
        return ["forward", "left", "right"]

    def expert(self) -> str:
        return _act(self.pose, self.goals[self.index])

    def thought(self) -> str:
        return _say(self.pose, self.goals[self.index])

    def narrate(self, kind: str, rng: random.Random) -> tuple[str, str]:
        if not self.turn:  # mostly no start is named, so that greedy thoughts of the base fail too
            (kind,) = rng.choices(("right", "misread", "bare"), (0.15, 0.25, 0.6))
        if kind == "bare":
            self.belief = None
            return "bare", rng.choice(self.actions())
        if kind == "update" and self.belief:
            self.belief = _moved(self.belief, self.last[0], self.size, bumped=self._bumped())
        elif kind in ("right", "misread"):
            self.belief = self.pose if kind == "right" else self._misread(rng)
        elif kind != "stale" or not self.belief:  # who has lost the place guesses it
            cell = rng.randrange(self.size), rng.randrange(self.size)
            self.belief = (*cell, rng.choice(HEADINGS))
        goal = self.goals[self.index]
        return _say(self.belief, goal), _act(self.belief, goal)

    def classify(self, thought: str) -> str:
        if thought == "bare":
            return "bare"
        goal = self.goals[self.index]
        poses = ((x, y, h) for x in range(self.size) for y in range(self.size) for h in HEADINGS)
        if thought == _say(self.pose, goal):
            return "right"
        return "located" if thought in {_say(pose, goal) for pose in poses} else "?"

    def _visit(self) -> str:
        return " visit x{} y{} .".format(*self.goals[self.index])

    def _misread(self, rng: random.Random) -> Pose:
        """The pose with one of its three parts changed."""
        x, y, heading = self.pose
        parts = (
            [(i, y, heading) for i in range(self.size) if i != x],
            [(x, i, heading) for i in range(self.size) if i != y],
            [(x, y, h) for h in HEADINGS if h != heading],
        )
        return rng.choice(rng.choice(parts))

    def _bumped(self) -> bool:
        return self.last[1] in ("bumped", "illegal")

    def _cell(self) -> tuple[int, int]:
        return self.rng.randrange(self.size), self.rng.randrange(self.size)


def _moved(pose: Pose, action: str, size: int, bumped: bool = False) -> Pose:
    """The pose after an action; walls stop, and so does anything that is no action."""
    x, y, heading = pose
    if action in ("left", "right"):
        turn = 1 if action == "right" else -1
        return x, y, HEADINGS[(HEADINGS.index(heading) + turn) % 4]
    if action != "forward" or bumped:
        return pose
    dx, dy = MOVES[heading]
    return min(max(x + dx, 0), size - 1), min(max(y + dy, 0), size - 1), heading


def _need(pose: Pose, goal: tuple[int, int]) -> str:
    """The direction wanted: along x first, then along y; on the goal, straight on."""
    x, y, heading = pose
    if x != goal[0]:
        return "E" if goal[0] > x else "W"
    return ("N" if goal[1] > y else "S") if y != goal[1] else heading


def _act(pose: Pose, goal: tuple[int, int]) -> str:
    turn = (HEADINGS.index(_need(pose, goal)) - HEADINGS.index(pose[2])) % 4
    return ("forward", "right", "right", "left")[turn]


def _say(pose: Pose, goal: tuple[int, int]) -> str:
    return "at x{} y{} {} to x{} y{} need {}".format(*pose, *goal, _need(pose, goal))
