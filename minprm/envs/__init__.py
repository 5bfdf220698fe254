"""The worlds by name, in the order of docs/worlds.md. `base.py` is the protocol of all.

One more of ours is a file and a line of WORLDS. A world of the user's own, FILE.py:NAME (own.py),
a data set, reasoning_gym:NAME (reasoning.py), and an MCP server, mcp:COMMAND (mcp.py), need no line
here. A world is imported when it is asked for.
"""

import inspect
from importlib import import_module

from minprm.constants import Config, fail
from minprm.envs.base import SPLITS, World, task_seed
from minprm.own import is_own

WORLDS = {
    # what has to be tracked from turn to turn
    "cups": "minprm.envs.cups:Cups",
    "errand": "minprm.envs.errand:Errand",
    "rooms": "minprm.envs.rooms:Rooms",
    # what has to be planned
    "frozenlake": "minprm.envs.frozenlake:FrozenLake",
    "sokoban": "minprm.envs.sokoban:Sokoban",
    "hanoi": "minprm.envs.hanoi:Hanoi",
    # what has to be searched for
    "bandit": "minprm.envs.bandit:Bandit",
    "wordle": "minprm.envs.wordle:Wordle",
    "countdown": "minprm.envs.countdown:Countdown",
    "connections": "minprm.envs.connections:Connections",
    # texts and numbers, graded by a program
    "reverse_text": "minprm.envs.reverse_text:ReverseText",
    "alphabet_sort": "minprm.envs.alphabet_sort:AlphabetSort",
    "gsm8k": "minprm.envs.gsm8k:Gsm8k",
    "text": "minprm.envs.text:Text",
    # tools to read with
    "hotpot": "minprm.envs.hotpot:Hotpot",
    "search": "minprm.envs.search:Search",
    # several of these at once
    "mixed": "minprm.envs.mixed:Mixed",
    # environments of others; each needs an extra
    "babyai": "minprm.envs.babyai:BabyAI",
    "textworld": "minprm.envs.textworld:TextWorld",
    "gym": "minprm.envs.gym:Gym",
}


def pairs(texts: list[str], kind: type) -> dict:
    """`name=value` texts as a dict. Exits where one is no such text, or a name comes twice.

    >>> pairs(["rounds=1", "swaps=5"], int)
    {'rounds': 1, 'swaps': 5}
    """
    numbers = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if name in numbers:
            fail(f"{' '.join(texts)}: {name} is given twice")
        try:
            numbers[name] = kind(value)
        except ValueError:
            separator = ""
        if not separator:
            number = "" if kind is str else ", the value a number"
            fail(f"{text}: write name=value{number}")
    return numbers


def check_tasks(cfg: Config) -> None:
    """Exits where the configured world cannot be made, or has no task for one of the splits."""
    world = make_world(cfg)
    for split in SPLITS:
        world.reset(task_seed(split, 0))
    if is_own(cfg.world):
        import_module("minprm.envs.own").check_attributes(cfg.world, world)


def world_class(name: str) -> type[World]:
    """The world of this name: one of WORLDS, or FILE.py:NAME. Raises ValueError for any other."""
    if is_own(name):
        return import_module("minprm.envs.own").own_world(name)
    family, _, dataset = name.partition(":")
    if family == "reasoning_gym":
        return import_module("minprm.envs.reasoning").world_of(dataset)
    if family == "mcp":
        return import_module("minprm.envs.mcp").world_of(dataset)
    if name not in WORLDS:
        names = ", ".join([*WORLDS, "reasoning_gym:NAME", "mcp:COMMAND"])
        raise ValueError(
            f"{name}: no such world. Worlds: {names}, or FILE.py:NAME, one of your own"
        )
    module, _, attribute = WORLDS[name].partition(":")
    return getattr(import_module(module), attribute)


def tools_of_world(cfg: Config) -> list[dict]:
    """The tools of the configured world; none where an agent plays in its place, or nobody."""
    return make_world(cfg).tools if cfg.world and not cfg.agent else []


def make_world(cfg: Config) -> World:
    """Returns the configured world. Exits if its name is unknown, or its knobs make no world."""
    try:
        world = world_class(cfg.world)
    except ValueError as error:
        fail(f"--world {error}")
    # The knobs are the parameters of the world's __init__, whose annotations turn texts to values.
    parameters = inspect.signature(world, eval_str=True).parameters
    texts = pairs(cfg.world_args, str)
    for name in texts:
        if name not in parameters:
            knobs = " ".join(f"{knob}={parameters[knob].default}" for knob in parameters)
            knobs = f"Its knobs: {knobs}" if knobs else "It has none"
            fail(f"--world-args {name}: {cfg.world} has no such knob. {knobs}")
    try:
        knobs = {name: parameters[name].annotation(text) for name, text in texts.items()}
        return world(**knobs)
    except ValueError as error:
        flags = " ".join(["--world-args", *cfg.world_args] if texts else ["--world", cfg.world])
        fail(f"{flags}: {error}")
