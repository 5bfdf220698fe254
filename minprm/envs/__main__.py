"""python -m minprm.envs NAME plays a world by hand; --audit [NAME ...] measures worlds again."""

import argparse

from minprm.constants import Config, fail
from minprm.envs import WORLDS, make_world
from minprm.envs.audit import audit, table
from minprm.envs.base import World, call, task_seed


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m minprm.envs", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"worlds: {', '.join(WORLDS)}")
    parser.add_argument("--audit", action="store_true", help="random and expert play, to a file")
    parser.add_argument("--seed", type=int, default=0, help="the task, of the training split")
    parser.add_argument("--world-args", nargs="*", default=[], help="knobs, e.g. rounds=1")
    flags = parser.parse_args()
    for name in flags.names:
        if name not in WORLDS:
            fail(f"{name}: no such world. Worlds: {', '.join(WORLDS)}")
    if flags.audit:
        print(table(audit(flags.names or list(WORLDS))))
    elif len(flags.names) == 1:
        play(make_world(Config(world=flags.names[0], world_args=flags.world_args)), flags.seed)
    else:
        fail("name one world to play, or --audit")


def play(world: World, seed: int) -> None:
    """A person acts. `?` shows the expert's action; an empty line ends the game."""
    print(world.system, "`?` shows the expert's action, an empty line ends.", sep="\n")
    observation, done = world.reset(task_seed("train", seed)), False
    while not done:
        print(f"\n{observation}")
        for tool in (t["function"] for t in world.tools):
            print(f"  {tool['name']} {' '.join(tool['parameters']['properties'])}")
        try:
            typed = input("> ").strip()
        except EOFError:
            typed = ""
        if not typed:
            return
        if typed == "?":
            print(world.thought() or "", world.expert())
            continue
        observation, reward, done, _ = world.step(typed_action(world, typed))
    print(f"\n{observation}\n{'won' if world.success else 'lost'}, last reward {reward:g}")


def typed_action(world: World, typed: str) -> str:
    """What was typed as an action; for tools the first word is the name, the rest its arguments,
    divided by commas where there are several."""
    if not world.tools or typed.startswith("{"):
        return typed
    name, _, rest = typed.partition(" ")
    known = {t["function"]["name"]: t["function"]["parameters"]["properties"] for t in world.tools}
    names = list(known.get(name, {}))
    values = [value.strip() for value in rest.split(",", len(names) - 1)] if names else []
    return call(name, **dict(zip(names, values, strict=False)))


if __name__ == "__main__":
    main()
