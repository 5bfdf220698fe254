"""python -m minprm.envs NAME plays a world by hand.

NAME is a world of ours, or FILE.py:NAME, one of your own.
"""

import argparse
import sys

from minprm.constants import Config, fail
from minprm.envs import WORLDS, make_world, world_class
from minprm.envs.base import World, call, parameters_of, rules_of, task_seed
from minprm.printable import printable


def main() -> None:
    if "--audit" in sys.argv:
        fail("--audit has gone: python -m evidence.audit, in a checkout of minprm")
    parser = argparse.ArgumentParser(prog="python -m minprm.envs", description=__doc__)
    parser.add_argument("name", help=f"the world: {', '.join(WORLDS)}")
    parser.add_argument("--seed", type=int, default=0, help="the task, of the training split")
    parser.add_argument("--world-args", nargs="*", default=[], help="knobs, e.g. rounds=1")
    flags = parser.parse_args()
    if not 0 <= flags.seed < 10**9:
        fail("--seed is from 0 to 999999999")
    try:
        world_class(flags.name)
    except ValueError as error:
        fail(str(error))
    world = make_world(Config(world=flags.name, world_args=flags.world_args))
    play(world, flags.seed)


def play(world: World, seed: int) -> None:
    """Lets a person act. `?` shows the expert's action, if there is an expert."""
    observation = world.reset(task_seed("train", seed))
    print(printable(rules_of(world)))  # after the reset: in some worlds a task has rules of its own
    has_expert = world.has("expert")
    if has_expert:
        print("`?` shows the expert's action, an empty line ends.")
    else:
        print("An empty line ends.")
    done = False
    reward = 0.0
    while not done:
        print(f"\n{printable(observation)}")
        for name, parameters in parameters_of(world.tools).items():
            print(printable(f"  {name} {' '.join(parameters)}"))
        try:
            typed = input("> ").strip()
        except EOFError:  # the input was a file or a pipe, and it is over
            return
        if not typed:
            return
        if typed == "?" and has_expert:
            print(printable(f"{world.thought() or ''} {world.expert()}"))
        else:
            observation, reward, done, _ = world.step(typed_action(world, typed))
    outcome = "won" if world.success else "lost"
    print(f"\n{printable(observation)}\n{outcome}, last reward {reward:g}")


def typed_action(world: World, typed: str) -> str:
    """Returns the action that a person has typed.

    In a world with tools, the first word is the tool's name and the rest its arguments, separated
    by commas; an answer in words stands in quotation marks.
    """
    if world.tools and typed.startswith('"'):
        return typed.strip('"')
    if not world.tools or typed.startswith("{"):
        return typed
    name, _, line = typed.partition(" ")
    parameters = list(parameters_of(world.tools).get(name, {}))
    if not parameters:
        return call(name)  # an unknown name too: the world answers that there is no such tool
    # the last argument keeps its commas, so that a text can be typed as it is
    arguments = [argument.strip() for argument in line.split(",", len(parameters) - 1)]
    return call(name, **dict(zip(parameters, arguments, strict=False)))


if __name__ == "__main__":
    main()
