"""Errand: a walk over waypoints in the dark. Only the first observation says where the walk starts.

The world teaches long state tracking: every action depends on the position and the heading, and
both must be carried over the whole episode. Unlike in cups, the actions change the world.
"""

import random
from itertools import product

from minprm.envs.base import Illegal, World

HEADINGS = "NESW"  # clockwise, so a turn to the right is one step on
MOVES = {"N": (0, 1), "E": (1, 0), "S": (0, -1), "W": (-1, 0)}
Cell = tuple[int, int]  # x to the east, y to the north
Pose = tuple[int, int, str]  # x, y, heading


class Errand(World):
    teaches = "where am I: position and heading carried over an episode in the dark"
    system = (
        "You walk in the dark on a grid of cells, x to the east, y to the north. Visit the cell "
        "that you are sent to. Answer `forward`, `left` (turn) or `right` (turn); you are told "
        "only whether you moved, bumped, turned, or found the cell, and where to go next."
    )
    # update: carry the believed pose on; jump: guess a pose; stale: forget to carry it on
    thought_mix = {"update": 0.8, "jump": 0.05, "stale": 0.05, "bare": 0.1}  # noqa: RUF012

    def __init__(self, waypoints: int = 1, size: int = 6, turns: int = 16):
        if not (1 <= waypoints <= 100 and 2 <= size <= 100 and 1 <= turns <= 1000):
            raise ValueError("waypoints from 1 to 100, size from 2 to 100, turns from 1 to 1000")
        self.waypoints = waypoints
        self.size = size
        self.turns = turns * waypoints
        cells = [f"{axis}{i}" for axis in "xy" for i in range(size)]
        events = ["start", "visit", ".", "moved", "bumped", "turned", "found", "illegal"]
        self.words = [*cells, *HEADINGS, *events, *self.actions(), "at", "to", "need", "bare"]

    def begin(self) -> str:
        self.pose = (*self._cell(self.rng), self.rng.choice(HEADINGS))
        path = [self.pose[:2]]
        while len(path) <= self.waypoints:
            cell = self._cell(self.rng)
            if cell != path[-1]:  # no waypoint is where the walk already is
                path.append(cell)
        self.goals = path[1:]
        self.index = 0  # which goal is the next
        self.last = ("", "")  # the last action and what was observed after it
        self.belief = None  # where the narrator thinks it is; it may be wrong
        return "start x{} y{} {} .".format(*self.pose) + self._visit()

    def act(self, action: str) -> tuple[str, float]:
        if action not in self.actions():
            self.last = (action, "illegal")
            raise Illegal("illegal")
        before = self.pose
        self.pose = _moved(self.pose, action, self.size)
        reward = 0.0
        # A goal counts when it is walked onto: a turn on the spot finds nothing.
        if action == "forward" and self.pose[:2] == self.goals[self.index]:
            observation = "found"
            reward = 1 / self.waypoints
            self.success = self.index == self.waypoints - 1
            if not self.success:
                self.index += 1
                observation += self._visit()
        elif self.pose == before:
            observation = "bumped"
        else:
            observation = "moved" if action == "forward" else "turned"
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
        if self.turn == 0:
            # The first thought is the hard one to learn. The narrator mostly names no start, so
            # that greedy thoughts of the base model fail too, and there is something to learn.
            (kind,) = rng.choices(("right", "misread", "bare"), (0.15, 0.25, 0.6))
        if kind == "bare":
            self.belief = None
            return "bare", rng.choice(self.actions())
        self.belief = self._believed(kind, rng)
        goal = self.goals[self.index]
        return _say(self.belief, goal), _act(self.belief, goal)

    def classify(self, thought: str) -> str:
        if thought == "bare":
            return "bare"
        goal = self.goals[self.index]
        if thought == _say(self.pose, goal):
            return "right"
        # a thought in the right form, but about another pose
        for pose in product(range(self.size), range(self.size), HEADINGS):
            if thought == _say(pose, goal):
                return "located"
        return "?"

    def _visit(self) -> str:
        return " visit x{} y{} .".format(*self.goals[self.index])

    def _cell(self, rng: random.Random) -> Cell:
        return rng.randrange(self.size), rng.randrange(self.size)

    def _believed(self, kind: str, rng: random.Random) -> Pose:
        """Returns where the narrator thinks it is, when it has a thought of this kind."""
        if kind == "right":
            return self.pose
        if kind == "misread":
            return self._misread(rng)
        if kind == "update" and self.belief:
            action, observation = self.last
            stopped = observation in ("bumped", "illegal")
            return self.belief if stopped else _moved(self.belief, action, self.size)
        if kind == "stale" and self.belief:
            return self.belief
        # A jump, or a narrator that never knew where it is: any pose will do.
        return *self._cell(rng), rng.choice(HEADINGS)

    def _misread(self, rng: random.Random) -> Pose:
        """Returns the true pose with one of its three parts changed."""
        x, y, heading = self.pose
        part = rng.choice(("x", "y", "heading"))
        if part == "x":
            return rng.choice([other for other in range(self.size) if other != x]), y, heading
        if part == "y":
            return x, rng.choice([other for other in range(self.size) if other != y]), heading
        return x, y, rng.choice([other for other in HEADINGS if other != heading])


def _moved(pose: Pose, action: str, size: int) -> Pose:
    """Returns the pose after an action. Walls stop the walk; what is no action does nothing."""
    x, y, heading = pose
    if action == "right":
        return x, y, HEADINGS[(HEADINGS.index(heading) + 1) % 4]
    if action == "left":
        return x, y, HEADINGS[(HEADINGS.index(heading) - 1) % 4]
    if action != "forward":
        return pose
    dx, dy = MOVES[heading]
    return min(max(x + dx, 0), size - 1), min(max(y + dy, 0), size - 1), heading


def _need(pose: Pose, goal: Cell) -> str:
    """Returns the direction to walk in: along x first, then along y; on the goal, straight on."""
    x, y, heading = pose
    # either order would do; one that is fixed leaves one right thought for each state
    if x != goal[0]:
        return "E" if goal[0] > x else "W"
    if y != goal[1]:
        return "N" if goal[1] > y else "S"
    return heading


def _act(pose: Pose, goal: Cell) -> str:
    """Returns the action that turns towards the direction needed, or walks in it."""
    # how often to turn right; three times is once to the left
    quarter_turns = (HEADINGS.index(_need(pose, goal)) - HEADINGS.index(pose[2])) % 4
    return ("forward", "right", "right", "left")[quarter_turns]


def _say(pose: Pose, goal: Cell) -> str:
    return "at x{} y{} {} to x{} y{} need {}".format(*pose, *goal, _need(pose, goal))
