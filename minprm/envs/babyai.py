"""BabyAI (minigrid) in words: go to, pick up, put next to, unlock, in a room seen from inside.

The world teaches a mission in language, and a view that turns with the agent. The levels are by
Chevalier-Boisvert et al., arXiv:1810.08272; they are described as BabyAI-Text does it (Carta et
al., arXiv:2302.02662).
"""

import contextlib
import io
from itertools import count
from typing import Any

from minprm.constants import fail
from minprm.envs.base import World, call, called, needs, tool

# minigrid has no MixedTrainLocal of BabyAI any more; these four levels are close to it
MIXTURE = ("GoToLocal", "PickupLoc", "PutNextLocal", "UnlockLocal")
ACTIONS = {
    "left": "turn left",
    "right": "turn right",
    "forward": "take one step forward",
    "pickup": "pick up what is in front",
    "drop": "drop what is carried in front",
    "toggle": "open or close what is in front",
}


class BabyAI(World):
    teaches = "a mission in language and a view that turns with the agent"
    system = "You act in a room of which you see what is in front of you. Reach the goal."
    tools = [tool(name, text) for name, text in ACTIONS.items()]  # noqa: RUF012

    def __init__(self, level: str = "", turns: int = 20):
        """level: any of minigrid's BabyAI levels, such as GoToLocal; none: a mixture of four."""
        needs("minigrid", "babyai")
        with contextlib.redirect_stdout(io.StringIO()):  # pygame greets
            import gymnasium
            import minigrid  # noqa: F401  registers the levels
        levels = []
        for name in gymnasium.registry:
            if name.startswith("BabyAI-"):
                levels.append(name.removeprefix("BabyAI-")[:-3])  # without the version, -v0
        if (level and level not in levels) or turns < 1:
            raise ValueError(f"turns from 1; levels: {', '.join(levels)}")
        levels = [level] if level else MIXTURE
        self.names = [f"BabyAI-{name}-v0" for name in levels]
        self.turns = turns

    def begin(self) -> str:
        # Draw missions until the bot solves one in time.
        for _ in range(100):
            name = self.rng.choice(self.names)
            seed = self.rng.randrange(2**31)
            if self._begin_mission(name, seed):
                return f"Goal: {self.env.mission}.\n{self._view()}"
        fail(f"the bot needs more than {self.turns} turns: --world-args turns={2 * self.turns}")

    def _begin_mission(self, name: str, seed: int) -> bool:
        """Starts a mission if the bot can solve it in `turns`: plays it once, then starts anew."""
        import gymnasium

        # the world counts turns itself, so the environment's own limit is out of the way
        self.env: Any = gymnasium.make(name, max_steps=10**6).unwrapped  # minigrid's, with a grid
        self._restart(seed)
        for _ in range(self.turns):
            reward, done = self._move(self.suggested)  # a trial run by the expert
            if done:
                self._restart(seed)
                return reward > 0
        return False

    def _restart(self, seed: int) -> None:
        with contextlib.redirect_stdout(io.StringIO()):  # layouts that it rejects are printed
            self.env.reset(seed=seed)
        self.bot = _bot(self.env)
        self._plan(None)

    def act(self, action: str) -> tuple[str, float]:
        reward, self.done = self._move(action)
        self.success = reward > 0
        return self._view(), float(self.success)

    def _move(self, action: str) -> tuple[float, bool]:
        """Makes a move and plans the next. Returns the environment's (reward, done)."""
        name, _ = called(action, self.tools)
        move = getattr(self.env.actions, name)
        _, reward, done, _, _ = self.env.step(move)
        if not done:
            self._plan(move)
        return reward, done

    def actions(self) -> list[str]:
        return [call(name) for name in ACTIONS]

    def expert(self) -> str:
        return self.suggested

    def key(self) -> tuple:
        env = self.env
        ahead = env.grid.get(*env.front_pos)
        thing_ahead = ahead.encode() if ahead else None  # a door's state is part of its code
        # `id` tells which thing is carried: two things may look the same
        return *env.agent_pos, env.agent_dir, id(env.carrying), thing_ahead

    def _plan(self, taken) -> None:
        """Plans the expert's next action, after the move that was taken.

        The bot plans in every state, since it has to know what became of its plan. Where it gives
        up, off its own path, a new bot looks. Where that one gives up too, the expert turns left.
        """
        self.suggested = call("left")
        for plan in (lambda: self.bot.replan(taken), self._plan_afresh):
            try:
                name = plan().name
            except Exception:  # the bot asserts what it likes of states that it did not plan
                continue
            self.suggested = call(name if name in ACTIONS else "left")
            return

    def _plan_afresh(self):
        self.bot = _bot(self.env)
        return self.bot.replan()

    def _view(self) -> str:
        """Says what is carried, where the walls are, and which things are in view."""
        # The agent stands in the middle of the lowest row of what it sees, and looks up.
        grid, in_view = self.env.gen_obs_grid()
        x, y = grid.width // 2, grid.height - 1
        lines = []
        carried = self.env.carrying
        if carried:
            lines.append(f"You carry a {carried.color} {carried.type}.")
        lines += _walls(grid, in_view, x, y)
        lines += _things(grid, in_view, x, y)
        return "\n".join(lines) or "You see nothing."


def _walls(grid, in_view, x0: int, y0: int) -> list[str]:
    """Says how far the walls are, ahead and to both sides, where nothing stands before them."""
    lines = []
    for side, (dx, dy) in {"forward": (0, -1), "left": (-1, 0), "right": (1, 0)}.items():
        for steps in count(1):
            x, y = x0 + steps * dx, y0 + steps * dy
            inside = 0 <= x < grid.width and y >= 0
            if not inside or not in_view[x, y]:
                break
            thing = grid.get(x, y)
            if thing is not None:  # a thing hides the wall behind it
                if thing.type == "wall":
                    lines.append(f"You see a wall {_steps(steps, side)}.")
                break
    return lines


def _things(grid, in_view, x0: int, y0: int) -> list[str]:
    """Says where the things in view are, seen from the agent at (x0, y0)."""
    lines = []
    for x in range(grid.width):
        for y in range(grid.height):
            thing = grid.get(x, y)
            if thing is None or not in_view[x, y] or (x, y) == (x0, y0):
                continue
            if thing.type not in ("wall", "floor"):  # walls were told as distances
                lines.append(f"You see a {_named(thing)} {_place(x - x0, y0 - y)}.")
    return lines


def _named(thing) -> str:
    name = f"{thing.color} {thing.type}"
    if thing.type != "door":
        return name
    if thing.is_open:
        return f"open {name}"
    return f"locked {name}" if thing.is_locked else f"closed {name}"


def _place(right: int, forward: int) -> str:
    """Says where something is: `2 steps left and 1 step forward`; a distance of 0 is left out."""
    distances = []
    if right != 0:
        distances.append(_steps(abs(right), "left" if right < 0 else "right"))
    if forward != 0:
        distances.append(_steps(forward, "forward"))
    return " and ".join(distances)


def _steps(number: int, side: str) -> str:
    return f"1 step {side}" if number == 1 else f"{number} steps {side}"


# --- the bot, which is the expert ---


class _Stack(list):
    """The bot's subgoals, with a limit: in some missions minigrid's bot plans without end."""

    grown = 0  # appended so far

    def append(self, entry) -> None:
        if len(self) > 50 or self.grown > 500:
            raise RecursionError("the bot plans in circles")
        self.grown += 1
        super().append(entry)


def _bot(env: Any) -> Any:
    from minigrid.utils.baby_ai_bot import BabyAIBot

    bot = BabyAIBot(env)
    bot.stack = _Stack(bot.stack)
    return bot
