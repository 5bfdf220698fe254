"""Several worlds in one run: each task is one of a world that is drawn by its weight.

    --world mixed --world-args "worlds=cups*3 rounds=1, sokoban size=6"
    three tasks of cups to one of sokoban, each world with knobs of its own

A value with a space or a comma stands in quotes: worlds=hotpot file='my file.jsonl', cups

The seed of a task decides on its world too. An evaluation tells success world by world.
"""

import random
import shlex
from functools import cache

from minprm.constants import Config, fail
from minprm.envs import check_tasks, make_world, pairs
from minprm.envs.base import World

DEFAULT = "cups, errand"


class Mixed(World):
    teaches = "several worlds at once, drawn by weight"

    def __init__(self, worlds: str = DEFAULT):
        """worlds: `NAME*WEIGHT knob=value ...` of each, with commas between them; the weight is 1
        where none is given."""
        self.worlds: dict[str, World] = {}
        self.weights: list[float] = []
        for name, weight, knobs in entries(worlds):
            if name in self.worlds:
                raise ValueError(f"{name} is named twice: give it one weight")
            self.worlds[name] = _made(name, knobs)
            for method in ("actions", "expert"):
                if not self.worlds[name].has(method):
                    raise ValueError(f"{name} has no {method}, which mixed needs of each world")
            self.weights.append(weight)
        every = self.worlds.values()
        # all that a task may need, until one is drawn
        self.tools = [tool for world in every for tool in world.tools]
        self.waits = any(world.waits for world in every)
        self.at_once = min((world.at_once for world in every if world.at_once), default=0)
        self.few_tasks = any(world.few_tasks for world in every)
        owners: dict[str, str] = {}  # of each tool
        for part, world in self.worlds.items():
            for tool in world.tools:
                name = tool["function"]["name"]
                if name in owners:
                    raise ValueError(
                        f"{owners[name]} and {part} both have a tool {name}: leave one of them out"
                    )
                owners[name] = part

    def reset(self, seed: int, noise: int = 0) -> str:
        draw = random.Random(f"{seed} world")
        (self.part,) = draw.choices([*self.worlds], self.weights)
        self.world = self.worlds[self.part]
        first = self.world.reset(seed, noise)
        self.seed = seed
        self.system, self.tools, self.turns = self.world.system, self.world.tools, self.world.turns
        self.actions_per_turn = self.world.actions_per_turn
        self.content = self.task()
        self.success = self.done = False
        return first

    def step(self, action: str) -> tuple[str, float, bool, dict]:
        observation, reward, self.done, info = self.world.step(action)
        self.success = self.world.success
        self.turn = self.world.turn
        return observation, reward, self.done, info

    def task(self) -> str:
        return f"{self.part} {self.world.content}"

    def actions(self) -> list[str]:
        return self.world.actions()

    def expert(self) -> str:
        return self.world.expert()

    def thought(self) -> str | None:
        return self.world.thought()

    def close(self) -> None:
        self.world.close()


def entries(worlds: str) -> list[tuple[str, float, list[str]]]:
    """(name, weight, knobs) of each world. Raises ValueError where one has no name or no weight.

    >>> entries("cups*3 rounds=1, hotpot file='my file.jsonl'")
    [('cups', 3.0, ['rounds=1']), ('hotpot', 1.0, ['file=my file.jsonl'])]
    """
    lexer = shlex.shlex(worlds, posix=True, punctuation_chars=",")
    lexer.whitespace_split = True
    lexer.commenters = lexer.escape = ""  # a # and a Windows path's \ stand for themselves
    words_of: list[list[str]] = [[]]  # of each entry
    try:
        for word in lexer:
            if set(word) == {","}:
                words_of += [[] for _ in word]  # two commas are one word
            else:
                words_of[-1].append(word)
    except ValueError as error:
        raise ValueError('a quote is left open; a value with \' in it stands in ""') from error
    return [_read(words) for words in words_of]


def worlds_in(world: str, knobs: list[str]) -> list[tuple[str, list[str]]]:
    """(name, knobs) of the world, or of each world in it where it is `mixed`.

    >>> worlds_in("mixed", ["worlds=cups*3 rounds=1, errand"])
    [('cups', ['rounds=1']), ('errand', [])]
    """
    if world != "mixed":
        return [(world, knobs)]
    inside = entries(pairs(knobs, str).get("worlds", DEFAULT))
    return [(name, its_knobs) for name, _, its_knobs in inside]


def _read(words: list[str]) -> tuple[str, float, list[str]]:
    """The same of one entry, which is cut into words."""
    entry = " ".join(words) or "an empty entry"
    head, *knobs = words or [""]
    name, _, weight = head.partition("*")
    if name == "mixed":
        fail("--world-args worlds: mixed cannot hold itself")
    if name.startswith("mcp:"):
        fail(
            "--world-args worlds: mixed needs an expert of each world, and an MCP server has none: "
            "play it alone, by --world"
        )
    try:
        share = float(weight or 1)
    except ValueError:
        share = 0.0
    if not name or not 0 < share < float("inf"):
        raise ValueError(f"{entry}: write NAME*WEIGHT knob=value ...")
    if not all("=" in knob for knob in knobs):
        raise ValueError(
            f"{entry}: write NAME*WEIGHT knob=value ..., without a space before the weight, and "
            "with quotes around a value that has a space: file='my file.jsonl'"
        )
    return name, share, knobs


def _made(name: str, knobs: list[str]) -> World:
    _check(name, *knobs)
    return make_world(Config(world=name, world_args=knobs))


@cache
def _check(name: str, *knobs: str) -> None:
    """Exits where one of the worlds could not be played alone. Asked once in a process."""
    check_tasks(Config(world=name, world_args=[*knobs]))
