"""A world of the user's own, --world FILE.py:NAME: a class that inherits from World, or an
environment that is made one (adapters.py).

Whatever goes wrong in it ends in one sentence that names the world, the task and the method.
"""

import inspect
from collections.abc import Callable
from contextlib import nullcontext
from functools import cache, wraps
from importlib import import_module
from typing import Any

from minprm import own
from minprm.constants import fail
from minprm.envs.base import Illegal, World, parameters_of

REQUIRED = ("begin", "act")
RETURNS = {
    "begin": "a text",
    "task": "a text",
    "act": "(observation, reward), a text and a number",
    "actions": "a list of texts, one at least",
    "expert": "a text",
    "thought": "a text, or None",
    "summary": 'a dict of numbers whose names begin with "text/"',
    "step": "(observation, reward, done, info), and in info whether the action was valid",
    "narrate": "(thought, action), two texts",
    "classify": "a text",
}
RETURN_ANYTHING = ("__init__", "belongs", "key", "close")
CALL_THE_OTHERS = ("reset", "step")
ATTRIBUTES = {
    "system": str,
    "tools": list,
    "turns": int,
    "actions_per_turn": int,
    "at_once": int,
    "words": list,
    "thought_mix": dict,
}


def own_world(name: str) -> type[World]:
    """The user's world of this name, FILE.py:NAME. Raises ValueError where it is none."""
    theirs = own.definition(name)
    if not isinstance(theirs, type) or not issubclass(theirs, World):
        theirs = import_module("minprm.envs.adapters").adapted(name, theirs)
        return _guarded(name, theirs)
    for method in REQUIRED:
        if not theirs.has(method):
            raise ValueError(f"{name} has no {method}: a world writes {', '.join(REQUIRED)}")
    return _guarded(name, theirs)


@cache
def _guarded(name: str, theirs: type[World]) -> type[World]:
    """The same class, whose methods exit with a sentence where they raise or return nonsense."""
    _require_knobs(name, theirs)
    methods: dict[str, Any] = {"__module__": theirs.__module__}
    for method in (*RETURNS, *RETURN_ANYTHING, *CALL_THE_OTHERS):
        if theirs.has(method) or method in CALL_THE_OTHERS:
            methods[method] = _guard(name, method, getattr(theirs, method))
    return type(theirs.__name__, (theirs,), methods)


def _require_knobs(name: str, theirs: type[World]) -> None:
    """Raises ValueError where --world-args could not set a parameter of `__init__`."""
    try:
        knobs = inspect.signature(theirs, eval_str=True).parameters
    except Exception as error:  # an annotation is a text, and names what is not there
        raise ValueError(f"{name}: its __init__ cannot be read: {own.in_a_line(error)}") from error
    for knob, parameter in knobs.items():
        if parameter.annotation not in (int, float, str) or parameter.default is parameter.empty:
            raise ValueError(
                f"{name}: the parameter {knob} of its __init__ needs a type (int, float or str) "
                f"and a default, as in {knob}: int = 3"
            )


def _guard(name: str, method: str, theirs: Callable) -> Callable:
    """The method, which exits with a sentence where it raises anything or returns nonsense."""

    def passes(error: BaseException) -> bool:
        """Is it how a world says that an action is illegal, or a knob wrong?"""
        if method == "__init__":
            return type(error) is ValueError
        return isinstance(error, Illegal) and method in ("act", "step")

    @wraps(theirs)
    def guarded(self: World, *arguments, **knobs):
        place = f"{name}, task {self.seed}" if hasattr(self, "seed") else name
        call = f"{place}: {method}"
        copies = [[*part] if isinstance(part, list) else part for part in arguments]
        ours = theirs in (World.reset, World.step)  # which call what the user has written
        limit = nullcontext() if ours else own.limited(call)
        with own.guarded(call, passes), limit:
            answer = theirs(self, *copies, **knobs)
        if method in RETURNS and not _fits(method, answer):
            fail(f"{place}: {method} returned {own.shown(answer)}, and not {RETURNS[method]}")
        if method == "act" and not own.is_number(self.success):
            success = own.shown(self.success)
            fail(f"{place}: act left success at {success}, and not at True or False")
        return _plain(method, answer)

    return guarded


def _fits(method: str, answer: Any) -> bool:
    """Is this what RETURNS says?"""
    if method == "act":
        pair = isinstance(answer, tuple) and len(answer) == 2
        return pair and isinstance(answer[0], str) and own.is_number(answer[1])
    if method == "narrate":
        return isinstance(answer, tuple) and len(answer) == 2 and _are(str, answer)
    if method == "actions":
        return isinstance(answer, list) and answer != [] and _are(str, answer)
    if method == "summary":
        named = isinstance(answer, dict) and all(str(name).startswith("text/") for name in answer)
        return named and all(map(own.is_number, answer.values()))
    if method == "step":
        four = isinstance(answer, tuple | list) and len(answer) == 4
        says_valid = four and isinstance(answer[3], dict) and "valid" in answer[3]
        return says_valid and _fits("act", (answer[0], answer[1]))
    return isinstance(answer, str) or (method == "thought" and answer is None)


def _plain(method: str, answer: Any) -> Any:
    """The answer with numbers of Python's own: files of a run hold none of numpy's or torch's."""
    if method == "act":
        return answer[0], float(answer[1])
    if method == "summary":
        return {name: float(number) for name, number in answer.items()}
    if method == "key" and hasattr(answer, "tolist"):  # arrays are compared number by number
        return answer.tolist()
    return answer


def _are(kind: Any, answers: Any) -> bool:
    return all(isinstance(answer, kind) for answer in answers)


def check_attributes(name: str, world: World) -> None:
    """Exits where what a user's world says of itself could not be read; it has begun a task."""
    for attribute, kind in ATTRIBUTES.items():
        if not isinstance(getattr(world, attribute), kind):
            fail(f"{name}: its {attribute} is no {kind.__name__}")
    if world.at_once < 0:
        fail(f"{name}: at_once is 0 or more episodes")
    if world.actions_per_turn < 1 or (world.actions_per_turn > 1 and world.tools):
        fail(f"{name}: actions_per_turn is 1 or more, and 1 where there are tools")
    if not _are(str, world.words) or not _are(str, world.thought_mix):
        fail(f"{name}: its words, and the kinds in its thought_mix, are no texts")
    shares = world.thought_mix.values()
    if not _are(int | float, shares) or (shares and not sum(shares) > 0):
        fail(f"{name}: the shares in its thought_mix are no numbers above 0")
    first = world.first
    if world.reset(world.seed) != first:
        fail(f"{name}: task {world.seed} began in two ways: a world draws from its seed alone")
    try:
        parameters_of(world.tools)
    except Exception as error:
        fail(f"{name}: its tools cannot be read, write each by `tool`: {own.in_a_line(error)}")
