"""The protocol that every world follows.

A world is a task that an agent works on in turns. The world shows a text, the agent answers with a
text, the world pays a reward and shows the next text. A world knows nothing of models.

A new world writes `begin`, `act`, `actions` and `expert`; a user's may lack the last two. What all
worlds share is here: seeds, splits, turns, illegal actions and the end. See examples/own_world.py.

A world has two generators and never uses the global one. `rng` makes the task, and the same seed is
always the same task. `noise` is for what chance does to an action, as on slippery ice: it differs
between two episodes of one task.
"""

import hashlib
import json
import random
import re
from collections.abc import Hashable
from importlib.util import find_spec
from typing import Any

from minprm.constants import fail

# seeds of a split start here
SPLITS = {"train": 0, "validation": 1_000_000_000, "test": 2_000_000_000}
# of all different tasks three fifths are for training
FIFTHS = ("train", "train", "train", "validation", "test")
ATTEMPTS = 1_000  # tasks that are drawn for a seed before its split is called empty


def task_seed(split: str, index: int) -> int:
    """Returns the seed of one task. Each split has a range of 10^9 seeds to itself."""
    if not 0 <= index < 1_000_000_000:
        raise ValueError(f"task index {index} leaves its split")
    return SPLITS[split] + index


def seeds_split(seed: int) -> str:
    """Returns the split that a seed belongs to. Raises ValueError where it belongs to none."""
    if not 0 <= seed < len(SPLITS) * 1_000_000_000:
        raise ValueError(f"seed {seed} belongs to no split")
    return list(SPLITS)[seed // 1_000_000_000]


def tasks_split(task: str) -> str:
    """Returns the split that a task belongs to, by a hash of what makes it this task.

    So a task is in one split only, however often and with whatever seeds it is drawn.
    """
    digest = hashlib.sha256(task.encode(errors="surrogatepass")).hexdigest()
    return FIFTHS[int(digest, 16) % len(FIFTHS)]


class Illegal(Exception):
    """`World.act` raises it when the action is not a legal one. Its text is the observation."""


class World:
    """Plays one task at a time: reset the world, then step until it is done.

    The parameters of `__init__` are the world's knobs, which --world-args sets by name. `__init__`
    raises ValueError where their values make no world.
    """

    teaches: str = ""  # one line for the table of worlds
    system: str = ""  # the rules, for a model that reads English
    # Functions in JSON schema; an action is then one call (of an MCP server: several, or words).
    # Without tools an action is plain text.
    tools: list[dict[str, Any]] = []  # noqa: RUF012
    turns: int = 1  # the episode ends after so many turns
    actions_per_turn: int = 1  # a turn may hold so many, with commas between them
    waits: bool = False  # a step spends its time outside Python: step episodes side by side
    at_once: int = 0  # episodes that may be played side by side; 0: all
    success: bool = False  # the task is solved
    few_tasks: bool = False  # too few to hold any out: every split draws from all of them
    part: str = ""  # of several worlds at once, the one that this task is of

    # Only a world that the embedded model is raised on fills these two.
    words: list[str] = []  # noqa: RUF012  the whole vocabulary, one token a word
    thought_mix: dict[str, float] = {}  # noqa: RUF012  kinds of thoughts, and the share of each

    def reset(self, seed: int, noise: int = 0) -> str:
        """Starts the task of this seed and returns its first observation.

        Tasks are drawn until one belongs to the seed's split. noise: another number is other luck
        in the same task.
        """
        self.seed = seed
        split = seeds_split(seed)
        for attempt in range(ATTEMPTS):
            self.rng = random.Random(f"{seed} {attempt}")
            self.noise = random.Random(f"{seed} noise {noise}")
            self.turn = 0
            self.success = False
            self.done = False
            self.first = self.begin()
            self.content = self.task()
            if self.belongs(split):
                return self.first
        fail(
            f"{type(self).__name__}: there is no {split} task among {ATTEMPTS:,} that were drawn. "
            "A hash of each task decides on its split: set the world's knobs to have more tasks"
        )

    def step(self, action: str) -> tuple[str, float, bool, dict]:
        """Takes one action and returns (observation, reward, done, info).

        An illegal action costs a turn, earns nothing, and its observation says what was wrong.
        Of several actions those before an illegal one are played, and those behind it are not.
        info["valid"]: the action was legal. info["effective"]: the action changed the world.
        A step after the end raises RuntimeError.
        """
        if self.done:
            raise RuntimeError("the episode is over: reset first")
        self.turn += 1
        before = self.key()
        actions = [action]
        if self.actions_per_turn > 1:  # what is too much makes the last one illegal
            actions = re.split(r"\s*,\s*", action.strip(), maxsplit=self.actions_per_turn - 1)
        observation = ""
        reward = 0.0
        valid = True
        for part in actions:
            try:
                observation, earned = self.act(part)
            except Illegal as why:
                observation = f"{observation}\n{why}" if observation else str(why)
                valid = False
                break
            reward += earned
            if self.done or self.success:
                break
        # `act` may have set `done` itself: some tasks are lost before the turns are used up
        self.done = self.done or self.success or self.turn >= self.turns
        info = {"valid": valid, "effective": valid and self.key() != before}
        return observation, reward, self.done, info

    @classmethod
    def has(cls, method: str) -> bool:
        """Does it write this method? An environment of others may lack `actions` and `expert`."""
        return getattr(cls, method) is not getattr(World, method)

    def close(self) -> None:
        """Lets go of what the episode holds outside Python. It is over."""

    # --- what a world writes ---

    def begin(self) -> str:
        """Makes a task from `self.rng` and returns its first observation."""
        raise NotImplementedError

    def task(self) -> str:
        """Returns what makes this task another than the next, right after `begin`.

        The default is the first observation: no test task then even begins like one of training. A
        world whose tasks begin alike returns what it hides, and one that shows the same task in
        several ways returns what these have in common.
        """
        return self.first

    def belongs(self, split: str) -> bool:
        """Is the task that was made one of this split? By default a hash of it decides."""
        return self.few_tasks or tasks_split(self.content) == split

    def act(self, action: str) -> tuple[str, float]:
        """Takes one action and returns (observation, reward).

        It sets `success` when the task is solved, and `done` when the task is lost for good.
        """
        raise NotImplementedError

    def actions(self) -> list[str]:
        """Returns the actions that random play chooses from."""
        fail(f"{type(self).__name__} has no list of actions for random play: write `actions`")

    def expert(self) -> str:
        """Returns the planner's action in this very state, also where the agent left the plan."""
        name = type(self).__name__
        fail(f"{name} has no expert, which leaves logs: play it (--stages rl), or give --demos")

    def key(self) -> Hashable:
        """Returns a value that changes whenever an action has an effect.

        The default, a new object, says that every legal action has one.
        """
        return object()

    def thought(self) -> str | None:
        """Returns the world's reason for the expert's action. Only the reference arm reads it."""
        return None

    def summary(self, actions: list[str]) -> dict[str, float]:
        """Returns what the world has to say of all actions of an evaluation, beside success.

        Names begin with "text/".
        """
        return {}

    # --- what a world writes for the embedded model ---

    def narrate(self, kind: str, rng: random.Random) -> tuple[str, str]:
        """Returns a thought of this kind about the present state, and the action that follows."""
        raise NotImplementedError

    def classify(self, thought: str) -> str:
        """Returns which kind of thought this is in the present state, or "?" if it is of no kind.

        The gate uses it to measure whether the embedded model has learned to narrate.
        """
        raise NotImplementedError


def rules_of(world: World) -> str:
    """The rules, and how many actions a turn may hold where that is not one."""
    if world.actions_per_turn == 1:
        return world.system
    most = f"An answer may hold up to {world.actions_per_turn} actions, with commas between them."
    return f"{world.system} {most}".strip()


def tool(name: str, description: str, **parameters: str) -> dict[str, Any]:
    """Returns a function in JSON schema; each parameter is a required text, with its meaning."""
    properties = {}
    for parameter, meaning in parameters.items():
        properties[parameter] = {"type": "string", "description": meaning}
    schema = {"type": "object", "properties": properties, "required": list(parameters)}
    function = {"name": name, "description": description, "parameters": schema}
    return {"type": "function", "function": function}


def parameters_of(tools: list[dict]) -> dict[str, dict]:
    """Returns the parameters of each tool, by the tool's name."""
    parameters = {}
    for schema in tools:
        function = schema["function"]
        parameters[function["name"]] = function["parameters"]["properties"]
    return parameters


def call(name: str, **arguments: str) -> str:
    """Returns a tool call as the text of an action.

    >>> call("visit", title="Paris")
    '{"name": "visit", "arguments": {"title": "Paris"}}'
    """
    return json.dumps({"name": name, "arguments": arguments})


def called(action: str, tools: list[dict]) -> tuple[str, dict[str, str]]:
    """Returns (name, arguments) of the one call in an action. Raises Illegal with what is wrong."""
    try:
        parsed = json.loads(action)
        name = parsed["name"]
        arguments = parsed["arguments"]
    except (ValueError, TypeError, KeyError, RecursionError):  # thousands of "[" nest too deeply
        raise Illegal("illegal: make exactly one tool call") from None
    parameters = parameters_of(tools)
    if not isinstance(name, str) or name not in parameters:
        raise Illegal(f"illegal: there is no such tool. Tools: {', '.join(parameters)}")
    if not isinstance(arguments, dict) or set(arguments) != set(parameters[name]):
        raise Illegal(f"illegal: {name} takes {', '.join(parameters[name]) or 'no arguments'}")
    if not all(isinstance(argument, str) for argument in arguments.values()):
        raise Illegal(f"illegal: every argument of {name} is a text")
    return name, arguments


def needs(package: str, extra: str) -> None:
    """Exits with the line that installs a package, if the package is missing."""
    if find_spec(package) is None:
        fail(f'this world needs {package}: pip install ".[{extra}]"')
