"""Rooms: a text adventure in a house. One room is seen at a time; find the key, open the chest.

The world teaches memory: the map is in no observation, so it has to be remembered. The expert knows
no more than it has seen. It takes the shortest known way to what it needs, or else to the nearest
room that it has not seen, so each of its actions can be explained from the episode so far.
"""

import random
from itertools import product

from minprm.envs.base import Illegal, World

MOVES = {"north": (0, -1), "east": (1, 0), "south": (0, 1), "west": (-1, 0)}
BACK = {"north": "south", "south": "north", "east": "west", "west": "east"}
COLOURS = "red blue green white black brown pink grey gold orange purple silver".split()
Cell = tuple[int, int]  # a room is known by its place on a grid


class Rooms(World):
    teaches = "a map that only memory holds"
    system = (
        "A house has a locked chest in one room and its key in another, and you see one room at a "
        "time. Answer `go north` (east, south, west), `take key` or `open chest`. Open the chest."
    )
    thought_mix = {"right": 0.3, "wrong": 0.4, "bare": 0.3}  # noqa: RUF012

    def __init__(self, rooms: int = 8):
        if not 3 <= rooms <= len(COLOURS):
            raise ValueError(f"rooms from 3 to {len(COLOURS)}")
        self.rooms = rooms
        self.turns = 4 * rooms  # enough to see every room, and to come back with the key
        # One token a word, and "key" with a full stop is a word of its own.
        ways = [f"{way}{end}" for way in MOVES for end in ("", ".", ",")]
        spoken = (
            "You are in the room. A key lies here. locked chest stands You carry can: go take "
            "open key, chest, key. chest. is open. illegal: you cannot do that The here, room, "
            "not seen yet, so bare"
        )
        self.words = sorted({*COLOURS, *ways, *spoken.split()})

    def begin(self) -> str:
        self.doors: dict[Cell, set[str]] = {(0, 0): set()}
        while len(self.doors) < self.rooms:
            cell = self.rng.choice(sorted(self.doors))
            way = self.rng.choice(list(MOVES))
            beyond = _next(cell, way)
            if beyond not in self.doors:  # the rooms are a tree: one way from each to each
                self.doors[beyond] = {BACK[way]}
                self.doors[cell].add(way)
        cells = sorted(self.doors)
        names = self.rng.sample(COLOURS, self.rooms)
        self.names = dict(zip(cells, names, strict=True))
        # three different rooms: nothing is found at once
        self.key_room, self.chest_room, self.place = self.rng.sample(cells, 3)
        self.held = False  # the key is carried
        self.seen = {self.place}
        return self._view()

    def task(self) -> str:
        # Seen from where it begins and without colours, so that a test house is no training house
        # in another paint.
        x0, y0 = self.place
        plan = []
        for (x, y), ways in self.doors.items():
            things = self.key_room == (x, y), self.chest_room == (x, y)
            plan.append((x - x0, y - y0, sorted(ways), things))
        return str(sorted(plan))

    def act(self, action: str) -> tuple[str, float]:
        if action not in self.actions():
            raise Illegal("illegal: you cannot do that here. " + self._view())
        if action == "open chest":
            self.success = True
            return "The chest is open.", 1.0
        if action == "take key":
            self.held = True
            return self._view(), 0.0
        self.place = _next(self.place, action.removeprefix("go "))
        self.seen.add(self.place)
        return self._view(), 0.0

    def actions(self) -> list[str]:
        # only what is possible here; the observation lists the same
        able = [f"go {way}" for way in self._ways(self.place)]
        if self.place == self.key_room and not self.held:
            able.append("take key")
        if self.place == self.chest_room and self.held:
            able.append("open chest")
        return able

    def expert(self) -> str:
        need = self.chest_room if self.held else self.key_room
        if self.place == need:
            return "open chest" if self.held else "take key"
        # Who does not know yet where the thing is looks into the nearest new room.
        goals = {need} if need in self.seen else set(self.doors) - self.seen
        return f"go {self._first_step(goals)}"

    def key(self) -> tuple[Cell, bool]:
        return self.place, self.held

    def thought(self) -> str:
        if self.held:
            return self._said("chest", self.chest_room, self.expert())
        return self._said("key", self.key_room, self.expert())

    def narrate(self, kind: str, rng: random.Random) -> tuple[str, str]:
        if kind == "right":
            return self.thought(), self.expert()
        action = rng.choice(self.actions())
        if kind == "bare":
            return "bare", action
        thing = rng.choice(["key", "chest"])
        room = rng.choice(sorted(self.doors))
        return self._said(thing, room, action), action

    def classify(self, thought: str) -> str:
        if thought == "bare":
            return "bare"
        if thought == self.thought():
            return "right"
        # a thought in the right form, but about another thing, room or action
        for thing, room, action in product(("key", "chest"), self.doors, self.actions()):
            if thought == self._said(thing, room, action):
                return "wrong"
        return "?"

    def _said(self, thing: str, room: Cell, action: str) -> str:
        """Returns a thought: where a thing is, and so what to do."""
        if room == self.place:
            where = "here"
        elif room in self.seen:
            where = f"in the {self.names[room]} room"
        else:
            where = "not seen yet"
        return f"The {thing} is {where}, so {action}."

    def _ways(self, cell: Cell) -> list[str]:
        """Returns the directions that a room has doors in, in the order of MOVES."""
        return [way for way in MOVES if way in self.doors[cell]]

    def _first_step(self, goals: set[Cell]) -> str:
        """Returns the first step of the shortest way to a goal, through rooms that were seen."""
        queue = [(self.place, "")]  # a room, and the first step of the way to it
        reached = {self.place}
        for cell, first in queue:  # breadth first: the loop sees what is appended meanwhile
            for way in self._ways(cell):
                beyond = _next(cell, way)
                if beyond in goals:
                    return first or way
                if beyond in self.seen and beyond not in reached:
                    reached.add(beyond)
                    queue.append((beyond, first or way))
        raise AssertionError("a tree of rooms has a way to each")

    def _view(self) -> str:
        here = ""
        if self.held:
            here += " You carry the key."
        if self.place == self.key_room and not self.held:
            here += " A key lies here."
        if self.place == self.chest_room:
            here += " A locked chest stands here."
        name = self.names[self.place]
        return f"You are in the {name} room.{here} You can: {', '.join(self.actions())}."


def _next(cell: Cell, way: str) -> Cell:
    x, y = cell
    dx, dy = MOVES[way]
    return x + dx, y + dy
