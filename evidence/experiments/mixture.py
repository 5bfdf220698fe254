"""One base for several worlds, for several.py: what it reads, and how it is raised.

Every update holds episodes of each world, about as many tokens of one as of another. A base of one
world alone reads the same episodes of it, in as many updates, and none of the others; it has the
same size and the same table of words. An episode is random play with a narrator, as for the
embedded model. Three worlds are smaller than by default, to be raised in time.
"""

from dataclasses import replace
from pathlib import Path

from evidence.experiments.lessons import raised_on
from minprm.constants import Config, Tiny
from minprm.data import Sample
from minprm.envs import make_world
from minprm.envs.base import World
from minprm.load import tiny
from minprm.load.narration import Turn, narrated
from minprm.text.chat import Chat

# so many in an update of raising; a world with longer episodes has fewer
EPISODES = {"cups": 8, "errand": 6, "rooms": 4, "frozenlake": 5, "hanoi": 3}
# and so many logs in an update of Act-PRM: about 23 states
LOGS = {"cups": 8, "errand": 4, "rooms": 3, "frozenlake": 5, "hanoi": 2}
WORLDS = list(EPISODES)
ARGS = {"rooms": ["rooms=5"], "frozenlake": ["size=4", "path=4"], "hanoi": ["discs=4"]}
SIZE = Tiny(dim=112, updates=1000)  # 0.44 million parameters


def world(name: str) -> World:
    return make_world(Config(world=name, world_args=ARGS.get(name, [])))


def every_word() -> World:
    """No world, only the words of all."""
    words = World()
    words.words = sorted({word for name in WORLDS for word in world(name).words})
    return words


def episodes(names: list[str], seed: int, update: int) -> list[list[Turn]]:
    """What a base of these worlds reads in one update."""
    read = []
    for name in names:
        read += narrated(world(name), replace(SIZE, batch=EPISODES[name]), seed, update)
    return read


def raised(names: list[str], seed: int) -> Path:
    """Where the base of these worlds is. It is raised if it is not there."""

    def lessons(update: int, chat: Chat) -> list[Sample]:
        return [tiny.as_sample(e, chat) for e in episodes(names, seed, update)]

    return raised_on(f"mixture-{'-'.join(names)}-{seed}", every_word(), SIZE, seed, lessons)
