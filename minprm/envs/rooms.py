"""Rooms: a text adventure in a house of which one room is seen at a time. Key, locked chest.

What it teaches: the map is in no observation, it has to be remembered. The expert knows no more
than it has seen: it goes the shortest known way to what it needs, else to the nearest door that it
has not used, so each of its actions can be explained from the episode so far.
"""

import random
from collections.abc import Callable

from minprm.envs.base import Illegal, World

MOVES = {"north": (0, -1), "east": (1, 0), "south": (0, 1), "west": (-1, 0)}
COLOURS = "red blue green white black brown pink grey gold orange purple silver".split()
Cell = tuple[int, int]


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
        self.rooms, self.turns = rooms, 4 * rooms
        ways = [f"{way}{end}" for way in MOVES for end in ("", ".", ",")]
        spoken = "You are in the room. A key lies here. locked chest stands You carry can: go take "
        spoken += (
            "open key, chest, key. chest. is open. illegal: you cannot do that The here, room, "
        )
        spoken += "not seen yet, so bare"
        self.words = sorted({*COLOURS, *ways, *spoken.split()})

    def begin(self) -> str:
        self.doors: dict[Cell, set[str]] = {(0, 0): set()}
        while len(self.doors) < self.rooms:
            cell, way = self.rng.choice(sorted(self.doors)), self.rng.choice(list(MOVES))
            beyond = _next(cell, way)
            if beyond not in self.doors:  # a tree of rooms: one way from each to each
                self.doors[beyond] = {_back(way)}
                self.doors[cell].add(way)
        cells = sorted(self.doors)
        names = self.rng.sample(COLOURS, self.rooms)
        self.names = dict(zip(cells, names, strict=True))
        self.key_room, self.chest_room, self.place = self.rng.sample(cells, 3)
        self.held, self.seen = False, {self.place}
        return self._view()

    def act(self, action: str) -> tuple[str, float]:
        if action not in self.actions():
            raise Illegal("illegal: you cannot do that here. " + self._view())
        if action == "open chest":
            self.success = True
            return "The chest is open.", 1.0
        if action == "take key":
            self.held = True
            return self._view(), 0.0
        self.place = _next(self.place, action.split()[1])
        self.seen.add(self.place)
        return self._view(), 0.0

    def actions(self) -> list[str]:
        able = [f"go {way}" for way in MOVES if way in self.doors[self.place]]
        if self.place == self.key_room and not self.held:
            able.append("take key")
        if self.place == self.chest_room and self.held:
            able.append("open chest")
        return able

    def expert(self) -> str:
        need = self.chest_room if self.held else self.key_room
        if self.place == need:
            return "open chest" if self.held else "take key"
        return "go " + self._way(lambda c: c == need if need in self.seen else c not in self.seen)

    def key(self) -> tuple[Cell, bool]:
        return self.place, self.held

    def thought(self) -> str:
        room = self.chest_room if self.held else self.key_room
        return self._said("chest" if self.held else "key", room, self.expert())

    def narrate(self, kind: str, rng: random.Random) -> tuple[str, str]:
        action = self.expert() if kind == "right" else rng.choice(self.actions())
        if kind == "bare":
            return "bare", action
        if kind == "right":
            return self.thought(), action
        return self._said(
            rng.choice(["key", "chest"]), rng.choice(sorted(self.doors)), action
        ), action

    def classify(self, thought: str) -> str:
        if thought in ("bare", self.thought()):
            return "bare" if thought == "bare" else "right"
        said = {self._said(thing, room, action) for thing in ("key", "chest")
                for room in self.doors for action in self.actions()}  # fmt: skip
        return "wrong" if thought in said else "?"

    def _said(self, thing: str, room: Cell, action: str) -> str:
        """A thought: where a thing is, and so what to do."""
        where = f"in the {self.names[room]} room" if room in self.seen else "not seen yet"
        where = "here" if room == self.place else where
        return f"The {thing} is {where}, so {action}."

    def _way(self, wanted: Callable[[Cell], bool]) -> str:
        """First step of the shortest way over rooms that were seen: breadth first."""
        edge: list[tuple[Cell, str]] = [(self.place, "")]
        known = {self.place}
        for cell, first in edge:
            for way in (way for way in MOVES if way in self.doors[cell]):
                beyond = _next(cell, way)
                if wanted(beyond):
                    return first or way
                if beyond in self.seen and beyond not in known:
                    known.add(beyond)
                    edge.append((beyond, first or way))
        raise AssertionError("a tree of rooms has a way to each")

    def _view(self) -> str:
        here = " You carry the key." if self.held else ""
        if self.place == self.key_room and not self.held:
            here += " A key lies here."
        if self.place == self.chest_room:
            here += " A locked chest stands here."
        name = self.names[self.place]
        return f"You are in the {name} room.{here} You can: {', '.join(self.actions())}."


def _next(cell: Cell, way: str) -> Cell:
    return cell[0] + MOVES[way][0], cell[1] + MOVES[way][1]


def _back(way: str) -> str:
    return {"north": "south", "south": "north", "east": "west", "west": "east"}[way]
