"""The worlds by name, in the order of docs/worlds.md. `base.py` is the protocol of all.

A world of your own is one more file, one import and one line of WORLDS.
"""

import inspect

from minprm.constants import Config, fail, pairs
from minprm.envs.alphabet_sort import AlphabetSort
from minprm.envs.babyai import BabyAI
from minprm.envs.bandit import Bandit
from minprm.envs.base import SPLITS, World, task_seed
from minprm.envs.connections import Connections
from minprm.envs.countdown import Countdown
from minprm.envs.cups import Cups
from minprm.envs.dates import Dates
from minprm.envs.errand import Errand
from minprm.envs.frozenlake import FrozenLake
from minprm.envs.gsm8k import Gsm8k
from minprm.envs.gym import Gym, Taxi
from minprm.envs.hanoi import Hanoi
from minprm.envs.hotpot import Hotpot
from minprm.envs.numbers import Numbers
from minprm.envs.reverse_text import ReverseText
from minprm.envs.rooms import Rooms
from minprm.envs.search import Search
from minprm.envs.sokoban import Sokoban
from minprm.envs.text import Text
from minprm.envs.textworld import TextWorld
from minprm.envs.wordle import Wordle

WORLDS = {
    # what has to be tracked from turn to turn
    "cups": Cups,
    "errand": Errand,
    "rooms": Rooms,
    # what has to be planned
    "frozenlake": FrozenLake,
    "sokoban": Sokoban,
    "hanoi": Hanoi,
    # what has to be searched for
    "bandit": Bandit,
    "wordle": Wordle,
    "countdown": Countdown,
    "connections": Connections,
    # texts and numbers, graded by a program
    "reverse_text": ReverseText,
    "alphabet_sort": AlphabetSort,
    "gsm8k": Gsm8k,
    "numbers": Numbers,
    "dates": Dates,
    "text": Text,
    # tools to read with
    "hotpot": Hotpot,
    "search": Search,
    # environments of others; each needs an extra
    "babyai": BabyAI,
    "textworld": TextWorld,
    "gym": Gym,
    "taxi": Taxi,
}


def check_tasks(cfg: Config) -> None:
    """Exits where the configured world cannot be made, or has no task for one of the splits."""
    world = make_world(cfg)
    for split in SPLITS:
        world.reset(task_seed(split, 0))


def make_world(cfg: Config) -> World:
    """Returns the configured world. Exits if its name is unknown, or its knobs make no world."""
    if cfg.world not in WORLDS:
        fail(f"--world {cfg.world}: no such world. Worlds: {', '.join(WORLDS)}")
    world = WORLDS[cfg.world]
    # The knobs are the parameters of the world's __init__, whose annotations turn texts to values.
    known = inspect.signature(world).parameters
    texts = pairs(cfg.world_args, str)
    for name in texts:
        if name not in known:
            knobs = " ".join(f"{knob}={known[knob].default}" for knob in known)
            fail(f"--world-args {name}: {cfg.world} has no such knob. Its knobs: {knobs}")
    try:
        knobs = {name: known[name].annotation(text) for name, text in texts.items()}
        return world(**knobs)
    except ValueError as error:
        fail(f"--world-args {' '.join(cfg.world_args)}: {error}")
