"""Any gymnasium environment with discrete actions.

The world teaches how little an adapter needs. An environment shows its state in numbers; a subclass
turns them into words (`described`). Where the environment has a table of transitions (`P`, as
gymnasium's toy texts do), the planner is value iteration.
"""

import re
from functools import cached_property
from typing import Any

from minprm.envs.base import SPLITS, Illegal, World, needs, tasks_split

STARTS = 100  # of an environment, to find out whether it has enough to hold some out


class Environment(World):
    """A world that shows what an environment of gymnasium's shows, and has no expert."""

    system = "You act in an environment. Answer with one of the named actions."
    env: Any  # its type says too little: gymnasium's own has no table of transitions

    def begin(self) -> str:
        from gymnasium.utils.seeding import np_random

        start = self._start(self.rng.randrange(2**31))
        # what the environment draws from now on is luck
        self.env.unwrapped.np_random, _ = np_random(self.noise.randrange(2**31))
        return start

    def _start(self, seed: int) -> str:
        """Starts the environment by a seed of its own and returns what is seen first."""
        self.observed, _ = self.env.reset(seed=seed)
        return self.described()

    def has_few_tasks(self) -> bool:
        """Does it begin in so few ways that none can be held out? FrozenLake-v1 has only one."""
        starts = {tasks_split(self._start(seed)) for seed in range(STARTS)}
        return len(starts) < len(SPLITS)

    def key(self) -> str:
        return str(self.observed)

    def described(self) -> str:
        """Returns the state as text: the environment's own drawing where it has one."""
        text = self.env.render() if self.env.render_mode == "ansi" else str(self.observed)
        # terminal colours mark where the agent is; brackets do so in plain text
        return re.sub(r"\x1b\[[0-9;]*m(.+?)\x1b\[0m", r"[\1]", text).strip()


class Gym(Environment):
    teaches = "the adapter: any gymnasium environment with discrete actions"

    def __init__(self, id: str = "FrozenLake-v1", turns: int = 100):
        needs("gymnasium", "gym")
        if not 1 <= turns <= 10_000:
            raise ValueError("turns from 1 to 10,000")
        self.env = _made(id)
        if not hasattr(self.env, "P") and type(self).expert is Gym.expert:
            raise ValueError(f"{id} has no table of transitions, so no planner to be its expert")
        self.turns = turns
        self.numbers = {str(number): number for number in range(int(self.env.action_space.n))}
        self.few_tasks = self.has_few_tasks()

    def act(self, action: str) -> tuple[str, float]:
        if action not in self.numbers:
            raise Illegal(f"illegal: answer one of {', '.join(self.numbers)}")
        self.observed, reward, self.done, _, _ = self.env.step(self.numbers[action])
        # The reward of the environment may be of any size. Here success earns 1 and all else 0.
        self.success = self.done and float(reward) > 0
        return self.described(), float(self.success)

    def actions(self) -> list[str]:
        return list(self.numbers)

    def expert(self) -> str:
        state = int(self.env.s)
        return max(self.numbers, key=lambda name: self._worth(self.values, state, name))

    @cached_property
    def values(self) -> list[float]:
        """Value iteration: the chance of success from each state, less a little for each step."""
        states = range(len(self.env.P))
        values = [0.0] * len(states)
        for _ in range(200):  # enough sweeps for any toy text
            better = []
            for state in states:
                better.append(max(self._worth(values, state, name) for name in self.numbers))
            values = better
        return values

    def _worth(self, values: list[float], state: int, name: str) -> float:
        """Returns what an action is worth: success, or 0.99 of the value of where it leads."""
        terms = []
        for chance, after, reward, end in self.env.P[state][self.numbers[name]]:
            worth = float(reward > 0) if end else 0.99 * values[after]
            terms.append(chance * worth)
        return sum(terms)


def _made(id: str) -> Any:
    """Returns the environment of this id. Raises ValueError where it cannot be a world."""
    import gymnasium

    if id not in gymnasium.registry:
        raise ValueError(f"{id} is no environment of gymnasium's")
    try:
        # An environment that can draw itself as text does so. The first copy is only asked that.
        modes = gymnasium.spec(id).make().metadata.get("render_modes", ())
        env = gymnasium.make(id, render_mode="ansi" if "ansi" in modes else None).unwrapped
    except (gymnasium.error.Error, ImportError) as error:
        raise ValueError(f"{id} cannot be made: {' '.join(str(error).split())}") from error
    if not hasattr(env.action_space, "n"):
        raise ValueError(f"{id}: its actions are not discrete")
    return env
