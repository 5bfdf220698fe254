"""Worlds as the tests make and play them, and actions that no world expects."""

import random
from importlib.util import find_spec

import pytest

from minprm.envs import WORLDS, world_class
from minprm.envs.base import World, called, tool

EXTRAS = {"babyai": "minigrid", "textworld": "textworld", "search": "bm25s", "gym": "gymnasium"}
SEEDS = {"textworld": 3}  # games take seconds to make
HOSTILE = ["", "nonsense", "open", "x" * 100_000, "<end> </act>", "ünï\0code", "forward forward",
           "9" * 5_000, "(" * 5_000, "[" * 100_000, '{"name": "answer", "arguments": 3}',
           '{"name": [], "arguments": {}}', '{"name": "visit", "arguments": {"title": []}}',
           '{"name": "search", "arguments": {"query": ""}}', "1 / 0", "null", "१२३"]  # fmt: skip


def make(name: str, **knobs):
    """The world, or a skip that names the extra."""
    if name in EXTRAS and find_spec(EXTRAS[name]) is None:
        pytest.skip(f'needs {EXTRAS[name]}: pip install "minprm[{name}]"')
    return world_class(name)(**knobs)


def play(world, seed: int, choose) -> tuple[float, list[str]]:
    """The return of one episode, and everything that was observed."""
    seen, total, done = [world.reset(seed)], 0.0, False
    while not done:
        observation, reward, done, info = world.step(choose(world))
        assert isinstance(observation, str) and set(info) == {"valid", "effective"}
        total += reward
        seen.append(observation)
    return total, seen


def observations(name: str) -> str:
    """Three episodes at random, as text."""
    world, out = world_class(name)(), []
    for seed in range(1 if name == "textworld" else 3):
        rng = random.Random(seed)
        out += play(world, seed, lambda w, rng=rng: rng.choice(w.actions()))[1]
    return repr(out)


def installed() -> list[str]:
    return [name for name in WORLDS if name not in EXTRAS or find_spec(EXTRAS[name])]


class Doors(World):
    """Opened by a tool; an episode may also say something."""

    system = "Find the right door."
    tools = [tool("open", "open a door", door="its name")]  # noqa: RUF012
    turns = 3

    def begin(self) -> str:
        return f"door {self.rng.randrange(10**6)} or b?"

    def act(self, action: str) -> tuple[str, float]:
        _, arguments = called(action, self.tools)
        self.success = arguments["door"] == "b"
        return f"{arguments['door']} is open", float(self.success)
