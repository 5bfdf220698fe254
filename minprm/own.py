"""What a user has written, named FILE.py:NAME where a name of ours could stand.

    --world my_file.py:Shop                   a world to play in (envs/own.py)
    --agent my_file.py:play                   an agent that plays (endpoint/agents.py)
    --act-prm.reward my_file.py:brief         what a thought earns
    --act-prm.advantage my_file.py:ranks      what it deserves in its group
    --rl.reward my_file.py:polite             what an episode earns, in the place of success
    --rl.advantage my_file.py:ranks           what it deserves in its group
    --format my_file.py:trace                 which log a JSON value holds (logs/formats.py)

A reward takes the log-probs of the action's tokens, `logp` [K]. One that judges texts takes four
arguments: `logp`, and as texts the thought, the state and the action. The state is what was shown
since the action before. It returns a number of 0 or more, because a thought that never ended earns
0, and the expert's action is weighed by shares of rewards. An advantage takes the rewards of one
group, a tensor [G], and returns as many numbers.

The reward of an episode takes its chat messages, thoughts included, and whether the world says that
it is won; one of three arguments takes the seed of its task too.

The file is a program of the user's, and is run once, as Python runs any. Whatever goes wrong in it
ends in one sentence that names it. Nothing here needs torch, so that a wrong name is refused at
once; chosen.py asks the functions and checks their numbers.
"""

import hashlib
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from inspect import signature
from pathlib import Path
from threading import Timer, current_thread, local, main_thread
from traceback import extract_tb
from types import ModuleType
from typing import Any

from minprm.constants import Refused, fail
from minprm.printable import say

inside = local()  # of each thread: does a call with a limit run in it?
LIMIT = 300  # seconds that one call of a user's function may take
LARGEST = 1e38  # of a user's numbers; 32 bits hold three times as much
# what a user's function may take, by the number of arguments
REWARD_TAKES = {1: "logp alone", 4: "logp, thought, state and action"}
EPISODE_TAKES = {2: "messages and success", 3: "messages, success and the task's seed"}
ADVANTAGE_TAKES = {1: "the rewards of a group"}
AGENT_TAKES = {2: "base_url and seed"}


def is_own(name: str) -> bool:
    """Is this FILE.py:NAME?

    >>> is_own("my_file.py:brief"), is_own("posterior")
    (True, False)
    """
    return name.rpartition(":")[0].endswith(".py")


def definition(name: str) -> Any:
    """What FILE.py:NAME names. Raises ValueError where there is nothing of this name."""
    file, _, attribute = name.rpartition(":")
    module, _ = loaded(Path(file).resolve())
    if not hasattr(module, attribute):
        raise ValueError(f"{name}: {file} defines no {attribute or 'function without a name'}")
    return getattr(module, attribute)


def users(name: str, ours: Iterable[str]) -> Callable | None:
    """The user's function of this name, which exits with one sentence where it raises anything;
    None where it is one of our names. Raises ValueError where there is no such function."""
    if name in ours:
        return None
    if not is_own(name):
        names = ", ".join([*ours, "or FILE.py:NAME, one of your own"])
        raise ValueError(f"{name}: no such name. Names: {names.removeprefix('or ')}")
    theirs = definition(name)
    if not callable(theirs):
        raise ValueError(f"{name} is no function, but {theirs!r}"[:200])
    return guarded(name)(limited(name)(theirs))


@contextmanager
def guarded(
    who: str,
    passes: Callable[[BaseException], bool] = lambda error: False,
    kind: type[Exception] | None = None,
) -> Iterator[None]:
    """Inside runs a user's program. What it raises ends the run in a sentence, WHO raised ...; or
    that sentence is raised, as an error of this kind.

    passes: is it an error that goes on as it is, because whoever asked understands it?
    """
    try:
        yield
    except Refused:
        raise
    except (Exception, SystemExit) as error:  # a user's program raises whatever it likes
        if passes(error):
            raise
        sentence = f"{who} raised {in_a_line(error)}"
        if kind:
            raise kind(sentence) from error
        fail(sentence)


@contextmanager
def limited(name: str) -> Iterator[None]:
    """Inside, a user's program may run for LIMIT seconds, and then the run ends in a sentence.

    In the main thread an alarm ends it, wherever Python looks for signals: not inside a function
    written in C. In any other thread nothing can be interrupted, and the process ends at once.
    """
    if getattr(inside, "limit", False):  # the call around this one has its limit
        yield
        return
    folder = os.getcwd()
    sentence = f"{name} did not end within {LIMIT} seconds"
    in_thread = current_thread() is not main_thread() or not hasattr(signal, "setitimer")
    timer = Timer(LIMIT, _end, [sentence])
    timer.daemon = True
    before = None if in_thread else signal.signal(signal.SIGALRM, lambda *_: fail(sentence))
    inside.limit = True
    try:
        timer.start() if in_thread else signal.setitimer(signal.ITIMER_REAL, LIMIT)
        yield
    finally:
        inside.limit = False
        timer.cancel()
        if not in_thread:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        os.chdir(folder)  # or the files of the run would be looked for elsewhere


def _end(sentence: str) -> None:
    """Ends this process: all files are whole or not there, so that the run can go on."""
    say(sentence)
    os._exit(2)


def function(name: str, ours: dict[str, Callable]) -> Callable:
    """ours[name], or the user's function of this name, as `users` has it."""
    return users(name, ours) or ours[name]


def require(knob: str, name: str, ours: Iterable[str], numbers: dict[int, str]) -> None:
    """Exits where the name is none of ours and no function of the user's that takes one of these
    numbers of arguments; what each number of them would be stands beside it."""
    try:
        theirs = users(name, ours)
    except ValueError as error:
        fail(f"{knob} {error}")
    if theirs and not any(takes(theirs, number) for number in numbers):
        fail(f"{knob} {name}: it has to take {', or '.join(numbers.values())}")


def takes(function: Callable, arguments: int) -> bool:
    """Can it be called with so many arguments?"""
    try:
        signature(function).bind(*range(arguments))
    except (TypeError, ValueError):
        return False
    return True


def reads_texts(name: str) -> bool:
    """Is this a user's reward that judges texts? It says nothing of a turn without a thought."""
    return is_own(name) and takes(function(name, {}), 4)


def as_number(name: str, reward: Any) -> float:
    """What a user's reward returned, as a number. Exits where it is none that 32 bits can hold."""
    if not is_number(reward):
        fail(f"{name} returned {shown(reward)}, and a reward is a finite number below {LARGEST:g}")
    return float(reward)


def is_number(reward: Any) -> bool:
    """Is it one number, finite in 32 bits? A text of digits is none."""
    try:
        return not isinstance(reward, str | bytes) and abs(float(reward)) < LARGEST
    except Exception:  # an object of a user's raises whatever it likes
        return False


def shown(value: Any) -> str:
    """What a user's program returned, in a few words."""
    if isinstance(value, int) and abs(value) > LARGEST:
        return "a number of many digits"
    try:
        return f"{value!r:.100}"
    except Exception:  # its own repr raises
        return f"an object of {type(value).__name__} that cannot be shown"


def fingerprints(names: Iterable[str]) -> dict[str, str]:
    """A hash of each file that FILE.py:NAME names: a file that changed makes other numbers."""
    hashes = {}
    for name in filter(is_own, names):
        file = name.rpartition(":")[0]
        hashes[file] = loaded(Path(file).resolve())[1]
    return hashes


@cache
def loaded(file: Path) -> tuple[ModuleType, str]:
    """(a user's file as a module, the hash of its text). Raises ValueError where it cannot run."""
    try:
        source = file.read_bytes()
    except OSError as error:
        raise ValueError(f"{file}: {error.strerror}") from error
    digest = hashlib.sha256(source).hexdigest()
    if str(file.parent) not in sys.path:  # where Python looks for what a program imports
        sys.path.append(str(file.parent))
    module = ModuleType(f"{file.stem}_{digest[:8]}")
    module.__file__ = str(file)
    sys.modules[module.__name__] = module  # dataclasses look themselves up there
    with guarded(f"{file} cannot be run: it", kind=ValueError), limited(str(file)):
        exec(compile(source, str(file), "exec"), module.__dict__)
    return module, digest


def in_a_line(error: BaseException) -> str:
    """An error in one line, with the place where it was raised; of a group its first one."""
    of_the_group = extract_tb(error.__traceback__)
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    try:
        said = " ".join(str(error).split())
    except Exception:  # a user's error raises in turn
        said = "what it says cannot be shown"
    reason = f"{type(error).__name__}: {said}"
    if isinstance(error, SyntaxError):  # it names the place itself, and was raised by the reader
        return reason
    place = (extract_tb(error.__traceback__) or of_the_group)[-1]
    return f"{reason} ({Path(place.filename).name}, line {place.lineno})"
