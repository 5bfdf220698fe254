"""BabyAI (minigrid) in words: go to, pick up, put next to, unlock, in a room seen from inside.

What it teaches: a mission in language and a view that turns with the agent. Levels by Chevalier-
Boisvert et al., arXiv:1810.08272, described as BabyAI-Text does (Carta et al., arXiv:2302.02662).
"""

import contextlib
import io

from minprm.constants import fail
from minprm.envs.base import World, call, called, needs, tool

MIXTURE = ("GoToLocal", "PickupLoc", "PutNextLocal", "UnlockLocal")
ACTIONS = {
    "left": "turn left", "right": "turn right", "forward": "take one step forward",
    "pickup": "pick up what is in front", "drop": "drop what is carried in front",
    "toggle": "open or close what is in front",
}  # fmt: skip


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
        names = [f"BabyAI-{name}-v0" for name in ([level] if level else MIXTURE)]
        known = [name[7:-3] for name in gymnasium.registry if name.startswith("BabyAI-")]
        if (level and level not in known) or turns < 1:
            raise ValueError(f"turns from 1; levels: {', '.join(known)}")
        self.names, self.turns = names, turns

    def begin(self) -> str:
        for _ in range(100):
            if self._begun(self.rng.choice(self.names), self.rng.randrange(2**31)):
                return f"Goal: {self.env.mission}.\n{self._view()}"
        fail(f"the bot needs more than {self.turns} turns: --world-args turns={2 * self.turns}")

    def _begun(self, name: str, seed: int) -> bool:
        """Starts a mission anew, after the bot has shown that it takes no more than `turns`."""
        import gymnasium

        self.env = gymnasium.make(name, max_steps=10**6).unwrapped
        self._restart(seed)
        for _ in range(self.turns):
            move = getattr(self.env.actions, called(self.suggested, self.tools)[0])
            _, reward, done, _, _ = self.env.step(move)
            if done:
                self._restart(seed)
                return reward > 0
            self._plan(move)
        return False

    def _restart(self, seed: int) -> None:
        with contextlib.redirect_stdout(io.StringIO()):  # layouts that it rejects are printed
            self.env.reset(seed=seed)
        self.bot = _bot(self.env)
        self._plan(None)

    def act(self, action: str) -> tuple[str, float]:
        name, _ = called(action, self.tools)
        move = getattr(self.env.actions, name)
        _, reward, self.done, _, _ = self.env.step(move)
        self.success = reward > 0
        if not self.done:
            self._plan(move)
        return self._view(), float(self.success)

    def actions(self) -> list[str]:
        return [call(name) for name in ACTIONS]

    def expert(self) -> str:
        return self.suggested

    def key(self) -> tuple:
        env = self.env
        ahead = env.grid.get(*env.front_pos)
        return *env.agent_pos, env.agent_dir, id(env.carrying), ahead and ahead.encode()

    def _plan(self, taken) -> None:
        """Lets the bot see every state, which it needs to know what became of its plan. Where it
        gives up, off its own path, a new one looks; where that does too, it turns."""
        self.suggested = call("left")
        for attempt in (lambda: self.bot.replan(taken), self._afresh):
            try:
                name = attempt().name
            except Exception:  # the bot asserts what it likes of states that it did not plan
                continue
            self.suggested = call(name if name in ACTIONS else "left")
            return

    def _afresh(self):
        self.bot = _bot(self.env)
        return self.bot.replan()

    def _view(self) -> str:
        grid, seen = self.env.gen_obs_grid()
        x0, y0 = grid.width // 2, grid.height - 1  # the agent, looking to smaller y
        lines, things = [], []
        if self.env.carrying:
            lines.append(f"You carry a {self.env.carrying.color} {self.env.carrying.type}.")
        rays = {"forward": (0, -1), "left": (-1, 0), "right": (1, 0)}
        for side, (dx, dy) in rays.items():
            x, y, n = x0 + dx, y0 + dy, 1
            while 0 <= x < grid.width and y >= 0 and seen[x, y] and grid.get(x, y) is None:
                x, y, n = x + dx, y + dy, n + 1
            inside = 0 <= x < grid.width and y >= 0 and seen[x, y]
            if inside and grid.get(x, y).type == "wall":
                lines.append(f"You see a wall {_steps(n, side)}.")
        for x in range(grid.width):
            for y in range(grid.height):
                thing = grid.get(x, y)
                here = (x, y) == (x0, y0)
                if here or thing is None or not seen[x, y] or thing.type in ("wall", "floor"):
                    continue
                things.append(f"You see a {_named(thing)} {_place(x - x0, y0 - y)}.")
        return "\n".join(lines + things) or "You see nothing."


class _Stack(list):
    """The bot's subgoals. A plan that grows without end is one that the bot cannot find."""

    def append(self, item) -> None:
        if len(self) > 50 or self.grown > 500:
            raise RecursionError("the bot plans in circles")
        self.grown += 1
        super().append(item)

    grown = 0


def _bot(env):
    from minigrid.utils.baby_ai_bot import BabyAIBot

    bot = BabyAIBot(env)
    bot.stack = _Stack(bot.stack)
    return bot


def _named(thing) -> str:
    if thing.type != "door":
        return f"{thing.color} {thing.type}"
    state = "open" if thing.is_open else "locked" if thing.is_locked else "closed"
    return f"{state} {thing.color} door"


def _place(right: int, forward: int) -> str:
    sides = [(abs(right), "left" if right < 0 else "right"), (forward, "forward")]
    return " and ".join(_steps(n, side) for n, side in sides if n)


def _steps(n: int, side: str) -> str:
    return f"{n} step{'s' if n > 1 else ''} {side}"
