"""The protocol that every world follows. A world knows nothing of models.

A world writes `begin`, `act`, `actions` and `expert`; what all share is here: seeds, turns, illegal
actions, the end. Randomness is the world's own `random.Random`; the global one is never touched.
"""

import json
import random
from collections.abc import Hashable
from importlib.util import find_spec
from typing import Any

from minprm.constants import fail

SPLITS = {"train": 0, "validation": 1_000_000_000, "test": 2_000_000_000}


def task_seed(split: str, index: int) -> int:
    """Task seeds of train, validation and test lie in disjoint ranges of 10^9."""
    if not 0 <= index < 1_000_000_000:
        raise ValueError(f"task index {index} leaves its split")
    return SPLITS[split] + index


def parts(rows: list) -> list[list]:
    """A user's rows for training, validation and test: the last tenth is for test, the one before
    for validation. Raises ValueError where that leaves one empty."""
    if len(rows) < 3:
        raise ValueError(f"{len(rows)} rows: training, validation and test need one each")
    n = max(len(rows) // 10, 1)
    return [rows[: -2 * n], rows[-2 * n : -n], rows[-n:]]


class Illegal(Exception):
    """Raised by `World.act` for what is no action here; its text is the observation."""


class World:
    """One task at a time: reset, then step until done. `__init__` takes the knobs, which
    --world-args names; it raises ValueError where they make no world."""

    teaches: str = ""  # one line, for the table of worlds
    system: str = ""  # the rules, for a model that reads English
    tools: list[dict[str, Any]] = []  # noqa: RUF012  JSON-schema functions; none: plain text
    turns: int = 1  # the episode ends after so many
    waits: bool = False  # a step takes its time outside Python: episodes are stepped side by side
    success: bool = False

    # for worlds that the embedded model is raised on
    words: list[str] = []  # noqa: RUF012
    thought_mix: dict[str, float] = {}  # noqa: RUF012

    def reset(self, seed: int) -> str:
        """First observation of the task `seed`."""
        self.seed, self.rng, self.turn = seed, random.Random(seed), 0
        self.success = self.done = False
        return self.begin()

    def step(self, action: str) -> tuple[str, float, bool, dict]:
        """(observation, reward, done, info). An illegal action is told so and costs a turn.

        info: `valid`, the action was legal; `effective`, it changed something.
        Raises RuntimeError after the end.
        """
        if self.done:
            raise RuntimeError("the episode is over: reset first")
        self.turn += 1
        before, valid = self.key(), True
        try:
            observation, reward = self.act(action)
        except Illegal as why:
            observation, reward, valid = str(why), 0.0, False
        self.done = self.done or self.success or self.turn >= self.turns
        info = {"valid": valid, "effective": valid and self.key() != before}
        return observation, reward, self.done, info

    # --- what a world writes ---

    def begin(self) -> str:
        """Makes a task from `self.rng` and returns its first observation."""
        raise NotImplementedError

    def act(self, action: str) -> tuple[str, float]:
        """(observation, reward) of one action. Sets `success`, or `done` where all is lost."""
        raise NotImplementedError

    def actions(self) -> list[str]:
        """What random play chooses from."""
        raise NotImplementedError

    def expert(self) -> str:
        """The planner's action in this very state, also off its own path."""
        raise NotImplementedError

    def key(self) -> Hashable:
        """What an effective action changes; where every legal action is one, `object()`."""
        return object()

    def thought(self) -> str | None:
        """How the world explains the expert's action: for the reference arm only."""
        return None

    # --- for the embedded model ---

    def narrate(self, kind: str, rng: random.Random) -> tuple[str, str]:
        """A thought of this kind about the present state, and the action that goes with it."""
        raise NotImplementedError

    def classify(self, thought: str) -> str:
        """Which kind of thought this is in the present state; "?" for none: the gate's measure."""
        raise NotImplementedError


def tool(name: str, description: str, **parameters: str) -> dict[str, Any]:
    """A function in JSON schema; every parameter is a required text, given with its meaning."""
    properties = {k: {"type": "string", "description": v} for k, v in parameters.items()}
    schema = {"type": "object", "properties": properties, "required": list(parameters)}
    function = {"name": name, "description": description, "parameters": schema}
    return {"type": "function", "function": function}


def call(name: str, **arguments: str) -> str:
    """A tool call as the text of an action.

    >>> call("visit", title="Paris")
    '{"name": "visit", "arguments": {"title": "Paris"}}'
    """
    return json.dumps({"name": name, "arguments": arguments})


def called(action: str, tools: list[dict]) -> tuple[str, dict[str, str]]:
    """(name, arguments) of the one call in an action. Raises Illegal with what is wrong."""
    try:
        made = json.loads(action)
        name, arguments = made["name"], made["arguments"]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise Illegal("illegal: make exactly one tool call") from None
    wanted = {t["function"]["name"]: t["function"]["parameters"]["properties"] for t in tools}
    if not isinstance(name, str) or name not in wanted:
        raise Illegal(f"illegal: there is no such tool. Tools: {', '.join(wanted)}")
    if not isinstance(arguments, dict) or set(arguments) != set(wanted[name]):
        raise Illegal(f"illegal: {name} takes {', '.join(wanted[name]) or 'no arguments'}")
    if not all(isinstance(value, str) for value in arguments.values()):
        raise Illegal(f"illegal: every argument of {name} is a text")
    return name, arguments


def needs(package: str, extra: str) -> None:
    """Exits with the line that installs what a world is built on."""
    if find_spec(package) is None:
        fail(f'this world needs {package}: pip install -e ".[{extra}]"')
