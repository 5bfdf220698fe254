"""The rewards of thoughts and of episodes, and their advantages in a group, by the names in the
configuration.

They are functions of algorithms.py and zoo.py, or the user's own (own.py), whose numbers are
checked here.
"""

from collections.abc import Sequence
from copy import deepcopy

import torch
from torch import Tensor

from minprm import zoo
from minprm.algorithms import REWARDS
from minprm.constants import fail
from minprm.own import as_number, function, is_own, reads_texts, takes

Texts = tuple[str, str, str]  # a thought, the state before it, the action after it

SHARES = ("posterior", "max_rl")  # advantages that divide by the mean reward


def rewards(name: str, logps: list[Tensor], texts: Sequence[Texts] = ()) -> list[float]:
    """What the reward of this name says of each thought.  logps: [K] each

    texts: of each thought; read only by a reward that judges texts (`reads_texts`).
    """
    judge = function(name, REWARDS)
    if not is_own(name):
        return [judge(logp) for logp in logps]
    judges_texts = reads_texts(name)
    numbers = []
    for i, logp in enumerate(logps):
        reward = judge(logp.clone(), *texts[i]) if judges_texts else judge(logp.clone())
        number = as_number(name, reward)
        if number < 0:
            fail(f"{name} returned {number}, and the reward of a thought is 0 or more")
        numbers.append(number)
    return numbers


def judged(name: str, messages: list[dict], success: bool, seed: int) -> float:
    """What an episode earns, by the name of its reward. seed: of its task."""
    if not is_own(name):
        return float(success)
    judge = function(name, {})
    arguments = (deepcopy(messages), success, seed)
    if not takes(judge, len(arguments)):
        arguments = arguments[:2]
    return as_number(name, judge(*arguments))


def advantages(groups: list[Tensor], name: str, lengths: list[Tensor]) -> list[Tensor]:
    """`advantages` of zoo.py, where the name can also be that of a user's function.  [G] each"""
    if not is_own(name):
        for r in groups if name in SHARES else ():
            if r.min() < 0:
                fail(
                    f"advantage {name} shares out rewards of 0 or more, and {float(r.min()):g} was "
                    "earned: take another, as mean_std, or pay nothing below 0"
                )
        return zoo.advantages(groups, name, lengths)
    compare = function(name, zoo.ADVANTAGES)
    return [_as_many(name, r, compare(r.clone())) for r in groups]


def _as_many(name: str, r: Tensor, numbers: object) -> Tensor:
    """What a user's advantage returned for these rewards. Exits where it is not [G] numbers."""
    try:
        adv = torch.as_tensor(numbers, dtype=r.dtype).detach()
    except (TypeError, ValueError, ArithmeticError, RuntimeError):
        fail(f"{name} returned {numbers!r}, and an advantage is a tensor"[:300])
    if adv.shape != r.shape:
        fail(
            f"{name} returned the shape {list(adv.shape)} for {len(r)} rewards, and an advantage "
            "is one number for each"
        )
    if not adv.isfinite().all():
        fail(f"{name} returned {adv.tolist()} for the rewards {r.tolist()}: not all are finite")
    return adv
