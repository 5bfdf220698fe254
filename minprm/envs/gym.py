"""Any gymnasium environment with discrete actions, and Taxi as the example of a subclass.

What it teaches: how little an adapter needs. An environment says in numbers what it shows; a
subclass turns that into words, names the actions, and says what success is. Where the environment
has a table of transitions (`P`, as gymnasium's toy texts), the planner is value iteration.
"""

import re
from functools import cached_property

from minprm.envs.base import Illegal, World, needs


class Gym(World):
    teaches = "the adapter: any gymnasium environment with discrete actions"
    system = "You act in an environment. Answer with one of the named actions."
    names: tuple[str, ...] = ()  # of the actions; none: their numbers

    def __init__(self, id: str = "FrozenLake-v1", turns: int = 100):
        needs("gymnasium", "gym")
        import gymnasium

        if id not in gymnasium.registry or turns < 1:
            raise ValueError(f"turns from 1; {id} has to be an environment of gymnasium's")
        ansi = "ansi" in gymnasium.spec(id).make().metadata.get("render_modes", ())
        self.env = gymnasium.make(id, render_mode="ansi" if ansi else None).unwrapped
        if not hasattr(self.env.action_space, "n"):
            raise ValueError(f"{id}: its actions are not discrete")
        count = int(self.env.action_space.n)
        self.id, self.turns = id, turns
        self.known = dict(zip(self.names or map(str, range(count)), range(count), strict=True))

    def begin(self) -> str:
        self.shown, _ = self.env.reset(seed=self.rng.randrange(2**31))
        return self.described()

    def act(self, action: str) -> tuple[str, float]:
        if action not in self.known:
            raise Illegal(f"illegal: answer one of {', '.join(self.known)}")
        self.shown, reward, self.done, _, _ = self.env.step(self.known[action])
        self.success = self.solved(float(reward), self.done)
        return self.described(), float(self.success)

    def actions(self) -> list[str]:
        return list(self.known)

    def expert(self) -> str:
        return max(self.known, key=lambda name: self._after(self.values, int(self.env.s), name))

    @cached_property
    def values(self) -> list[float]:
        """Chance of success from each state, a little less for each step that it takes."""
        if not hasattr(self.env, "P"):
            raise NotImplementedError(f"{self.id} has no table of transitions, so no planner")
        v = [0.0] * len(self.env.P)
        for _ in range(200):
            v = [max(self._after(v, state, name) for name in self.known) for state in range(len(v))]
        return v

    def _after(self, v: list[float], state: int, name: str) -> float:
        """What an action is worth: success, or 0.99 of where it leads."""
        ways = self.env.P[state][self.known[name]]
        ends = (p * (self.solved(r, end) if end else 0.99 * v[after]) for p, after, r, end in ways)
        return sum(ends)

    def key(self) -> str:
        return str(self.shown)

    def described(self) -> str:
        """The state in words: the environment's own text where it has one."""
        text = self.env.render() if self.env.render_mode == "ansi" else str(self.shown)
        return re.sub(r"\x1b\[[0-9;]*m(.+?)\x1b\[0m", r"[\1]", text).strip()

    def solved(self, reward: float, end: bool) -> bool:
        """Was this the step that solves the task?"""
        return end and reward > 0


class Taxi(Gym):
    teaches = "the adapter's example: a table of transitions, described in words"
    system = (
        "You drive a taxi on a grid of five rows and columns; | is a wall, : is none. Fetch the "
        "passenger and bring it to its destination. Answer south, north, east, west, pickup or "
        "dropoff.\n|R: | : :G|\n| : | : : |\n| : : : : |\n| | : | : |\n|Y| : |B: |"
    )
    names = ("south", "north", "east", "west", "pickup", "dropoff")
    stops = ("Red (row 0, column 0)", "Green (row 0, column 4)", "Yellow (row 4, column 0)",
             "Blue (row 4, column 3)", "in the taxi")  # fmt: skip

    def __init__(self, turns: int = 30):
        super().__init__("Taxi-v4", turns)

    def described(self) -> str:
        row, column, passenger, goal = self.env.decode(self.shown)
        where = f"The taxi is at row {row}, column {column}. "
        return where + f"Passenger: {self.stops[passenger]}. Destination: {self.stops[goal]}."

    def solved(self, reward: float, end: bool) -> bool:
        return reward == 20  # the passenger left at the destination
