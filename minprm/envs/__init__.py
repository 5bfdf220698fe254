"""Worlds by name. `base.py` is the protocol that all follow."""

import inspect

from minprm.constants import Config, fail, pairs
from minprm.envs.alphabet_sort import AlphabetSort
from minprm.envs.babyai import BabyAI
from minprm.envs.bandit import Bandit
from minprm.envs.base import World
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
from minprm.envs.textworld import TextWorld
from minprm.envs.wordle import Wordle

WORLDS = {
    "cups": Cups,
    "errand": Errand,
    "rooms": Rooms,
    "frozenlake": FrozenLake,
    "sokoban": Sokoban,
    "hanoi": Hanoi,
    "bandit": Bandit,
    "wordle": Wordle,
    "countdown": Countdown,
    "connections": Connections,
    "reverse_text": ReverseText,
    "alphabet_sort": AlphabetSort,
    "gsm8k": Gsm8k,
    "numbers": Numbers,
    "dates": Dates,
    "hotpot": Hotpot,
    "search": Search,
    "babyai": BabyAI,
    "textworld": TextWorld,
    "gym": Gym,
    "taxi": Taxi,
}


def make_world(cfg: Config) -> World:
    """The configured world. Exits where there is none of that name, or its knobs make none."""
    if cfg.world not in WORLDS:
        fail(f"--world {cfg.world}: no such world. Worlds: {', '.join(WORLDS)}")
    knobs = inspect.signature(WORLDS[cfg.world]).parameters
    texts = pairs(cfg.world_args, str)
    for name in texts:
        if name not in knobs:
            known = " ".join(f"{k}={p.default}" for k, p in knobs.items())
            fail(f"--world-args {name}: {cfg.world} has no such knob. Its knobs: {known}")
    try:
        return WORLDS[cfg.world](**{k: knobs[k].annotation(v) for k, v in texts.items()})
    except ValueError as error:
        fail(f"--world-args {' '.join(cfg.world_args)}: {error}")
