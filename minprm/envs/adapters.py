"""Environments of others as worlds, --world FILE.py:NAME: a class, or a function without arguments.

What it makes says which it is:

    action_space, reset, step     an environment of gymnasium's
    reset and public methods      TRL's class (environment_factory of its GRPOTrainer): each method
                                  is a tool, by its docstring and types

Neither has an expert, so both are played and leave no logs. An episode is won where its reward is
`enough` or more.
"""

import asyncio
import inspect
import json
import random
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from copy import deepcopy
from functools import cache
from threading import Thread
from typing import Any

import numpy

from minprm import own
from minprm.constants import fail
from minprm.envs.base import Illegal, World, needs
from minprm.envs.gym import Environment
from minprm.envs.tasks import check_splits
from minprm.logs.reader import read_rows
from minprm.text.actions import parts

NO_ROW = '{"prompt": [{"role": "user", "content": ""}]}'  # as TRL has it where there are no rows


@cache
def adapted(name: str, make: Any) -> type[World]:
    """The world of what this class or function makes. Raises ValueError where that is none."""
    called = f"{name} is called without arguments, and"
    with own.guarded(called, kind=ValueError), own.limited(name):
        env: Any = make() if callable(make) else None
        started = env.reset(seed=0) if hasattr(env, "action_space") else None
    methods = dict(inspect.getmembers(type(env), inspect.isfunction))
    members = {"__module__": __name__, "make": staticmethod(make), "place": name}
    world: Any = ToolWorld
    if hasattr(env, "action_space"):
        world = _gymnasium(name, env, started)
    elif "reset" in methods and not isinstance(env, World):
        # TRL's rule: every public method but two is a tool
        public = [method for method in methods if not method.startswith("_")]
        tools = [method for method in public if method not in ("reset", "get_reward")]
        members["tools"] = [_schema(name, getattr(env, tool)) for tool in tools]
    else:
        raise ValueError(
            f"{name} is no world, which is a class that inherits from minprm.World, one with "
            "`reset` and methods that are tools (TRL's), or an environment of gymnasium's"
        )
    return type(name.rpartition(":")[2], (world,), members)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Inside, what draws from Python's or NumPy's global generator draws by this seed."""
    before = random.getstate(), numpy.random.get_state()
    random.seed(seed)
    numpy.random.seed(seed)
    try:
        yield
    finally:
        random.setstate(before[0])
        numpy.random.set_state(before[1])


# --- TRL's class ---


class ToolWorld(World):
    """A class with `reset(**row)` and methods that are tools, played as TRL plays it.

    Calls are answered by what the methods return, or by the errors that they raise. A turn without
    a call ends the episode, and so does an attribute `done`. Then `get_reward()`, or else the
    attribute `reward`, says what it was worth.
    """

    make: Callable[[], Any]
    place: str  # FILE.py:NAME

    def __init__(self, rows: str = "", turns: int = 10, enough: float = 1.0):
        """rows: a file of JSONL, with what `reset` is given for a task in each line."""
        if turns < 1:
            raise ValueError("turns 1 or more")
        self.rows = load_rows(rows) if rows else [NO_ROW]
        self.turns = turns
        self.enough = enough
        self.env = self.make()
        self.runner = asyncio.Runner()  # of methods that are async

    def begin(self) -> str:
        self.row = self.rng.choice(self.rows)
        self.number = self.rng.randrange(2**31)
        row = json.loads(self.row)
        *rules, question = prompt_of(row)
        self.system = rules[0]["content"] if rules else ""
        with seeded(self.number):
            text = self._settled(self.env.reset(**row))
        if not isinstance(text, str | None) or not question["content"] + (text or ""):
            fail(f"{self.place}: `reset` returned {text!r:.100}, and not a text to begin with")
        return question["content"] + (text or "")

    def task(self) -> str:
        """One row says nothing of what `reset` draws: then the seed is the task."""
        return self.row if len(self.rows) > 1 else str(self.number)

    def step(self, action: str) -> tuple[str, float, bool, dict]:
        observation, reward, done, info = super().step(action)
        if done:
            reward = self._reward()
            self.success = reward >= self.enough
        return observation, reward, done, info

    def act(self, action: str) -> tuple[str, float]:
        if not action:  # a turn in which nothing could be read
            raise Illegal("illegal: call a tool, or answer in words")
        _, calls = parts(action)
        with seeded(self.noise.randrange(2**31)):
            answers = [self._answer(call) for call in calls]
        self.done = not calls or bool(self._attribute("done"))
        text = "\n".join(answer for answer, _ in answers)
        if not all(legal for _, legal in answers):
            raise Illegal(text)
        return text, 0.0

    def _answer(self, call: dict) -> tuple[str, bool]:
        """(what a call is answered, was it a legal one)"""
        tools = [schema["function"]["name"] for schema in self.tools]
        try:
            if call["name"] not in tools:
                raise ValueError(f"Tool {call['name']} not found.")
            answer = getattr(self.env, call["name"])(**deepcopy(call["arguments"]))
            return str(self._settled(answer)), True
        except Exception as error:  # the model reads it, and may do better
            return str({"error": str(error)}), False

    def _reward(self) -> float:
        """What the episode was worth."""
        if hasattr(type(self.env), "get_reward"):
            return own.as_number(self.place, self._settled(self.env.get_reward()))
        reward = self._attribute("reward")
        if reward is None:
            fail(
                f"{self.place} has no `get_reward` and no attribute `reward`: write one of them; "
                "where --rl.reward judges, reward = 0.0 will do"
            )
        return own.as_number(self.place, reward)

    def _attribute(self, name: str) -> Any:
        """What the environment keeps under this name; None where that is a method."""
        attribute = getattr(self.env, name, None)
        return None if callable(attribute) else attribute

    def _settled(self, answer: Any) -> Any:
        """The answer, which an async method has only promised."""
        if not inspect.iscoroutine(answer):
            return answer
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return self.runner.run(answer)
        return _in_a_thread(self.runner.run, answer)  # a notebook's loop runs in this one


def _in_a_thread(function: Callable, argument: Any) -> Any:
    """What the function returns, or raises, in a thread that ends with the process."""
    future: Future = Future()

    def run() -> None:
        try:
            future.set_result(function(argument))
        except BaseException as error:
            future.set_exception(error)

    Thread(target=run, daemon=True).start()
    return future.result()


def _schema(name: str, method: Callable) -> dict:
    """The schema of a tool, as TRL has it. Raises ValueError where a docstring or a type lacks."""
    from transformers.utils.chat_template_utils import get_json_schema

    try:
        return get_json_schema(method)
    except Exception as error:
        why = " ".join(str(error).split())
        raise ValueError(
            f"{name}: {why} Each public method is a tool, with types, and a docstring whose Args "
            "say what each argument is; the name of any other begins with _"
        ) from error


@cache
def load_rows(file: str) -> list[str]:
    """The different rows of a file, as JSON. Raises ValueError with what is wrong."""
    rows = list(dict.fromkeys(read_rows(file, _row)))
    if len(rows) > 1:
        check_splits(rows, file)
    return rows


def _row(row: dict) -> str:
    messages = prompt_of(row)
    roles = [message["role"] for message in messages]
    texts = all(isinstance(message["content"], str) for message in messages)
    if roles not in (["user"], ["system", "user"]) or not texts:
        raise ValueError('"prompt" is a text, or a user message after rules, if any, all of text')
    return json.dumps(row, ensure_ascii=False)


def prompt_of(row: dict) -> list[dict]:
    """The messages of a row: the rules, if there are any, and the user's."""
    prompt = row.get("prompt", "")
    return [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt


# --- gymnasium ---


def _gymnasium(name: str, env: Any, started: Any) -> type[World]:
    """The kind of world that this environment is. Raises ValueError where it shows no texts, or
    takes no actions that could be written."""
    needs("gymnasium", "gym")
    from gymnasium import Env
    from gymnasium.spaces import Discrete, Text

    if not isinstance(env, Env) or not isinstance(started, tuple) or len(started) != 2:
        raise ValueError(
            f"{name} is no environment of gymnasium's: it has to inherit from gymnasium.Env, and "
            "reset(seed=...) to return (observation, info)"
        )
    if not isinstance(started[0], str) and env.render_mode != "ansi":
        raise ValueError(
            f"{name} shows {type(started[0]).__name__}, and a model reads text: make it with "
            'render_mode="ansi", or in a gymnasium.ObservationWrapper whose observation() is a text'
        )
    if isinstance(env.action_space, Discrete):
        return NumberedWorld
    if isinstance(env.action_space, Text):
        return WrittenWorld
    raise ValueError(
        f"{name} takes {env.action_space}, and a model writes text: make it in a "
        "gymnasium.ActionWrapper whose action_space is Discrete or Text"
    )


class WrittenWorld(Environment):
    """An environment whose actions are texts."""

    make: Callable[[], Any]

    def __init__(self, turns: int = 100, enough: float = 1.0):
        if turns < 1:
            raise ValueError("turns 1 or more")
        self.env = self.make()
        self.turns = turns
        self.enough = enough
        self.few_tasks = self.has_few_tasks()

    def begin(self) -> str:
        self.earned = 0.0
        return super().begin()

    def act(self, action: str) -> tuple[str, float]:
        move = self.move(action)
        self.observed, reward, terminated, truncated, _ = self.env.step(move)
        self.earned += float(reward)
        self.done = bool(terminated or truncated) or self.turn >= self.turns
        self.success = self.done and self.earned >= self.enough
        return self.described(), float(reward)

    def move(self, action: str) -> Any:
        """The action as the environment takes it. Raises Illegal where it takes no such one."""
        if action not in self.env.action_space:
            raise Illegal(f"illegal: answer with a text of {self.env.action_space}")
        return action


class NumberedWorld(WrittenWorld):
    """An environment whose actions are numbers."""

    def actions(self) -> list[str]:
        space = self.env.action_space
        return [str(space.start + number) for number in range(int(space.n))]

    def move(self, action: str) -> Any:
        if action not in self.actions():
            raise Illegal(f"illegal: answer one of {', '.join(self.actions())}")
        return int(action)
