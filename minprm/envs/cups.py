"""Cups: a ball lies under one of five cups, cups are swapped two at a time, open the right one.

The world teaches serial state tracking: a small model cannot follow all swaps at one glance, but it
can when it writes down where the ball is after each of them. An episode has several rounds; this is
the full version of the one-round world in act_prm.py at the repository's top.

Actions do not change this world. Whichever cup is opened, the ball stays where the swaps brought
it, and the next round says where that is. `errand.py` has actions that change the world.
"""

import random

from minprm.envs.base import Illegal, World


class Cups(World):
    teaches = "serial state tracking: follow a ball through swaps"
    system = (
        "A ball lies under one of several cups, and cups are swapped two at a time. "
        "Answer with `open X`, where X is the cup that holds the ball after the last swap."
    )
    # Of 100 thoughts only 3 are useful, on purpose: the embedded model (load/tiny.py) learns to
    # follow a ball, but not when that helps. Act-PRM has to find that out.
    thought_mix = dict(faithful=0.03, wrong=0.52, restate=0.35, bare=0.10, copy=0.0)  # noqa: RUF012

    def __init__(self, rounds: int = 3, swaps: int = 4, cups: int = 5):
        if not (1 <= rounds <= 100 and 1 <= swaps <= 100 and 2 <= cups <= 10):
            raise ValueError("rounds and swaps from 1 to 100, cups from 2 to 10")
        self.rounds = rounds
        self.swaps = swaps
        self.cups = "abcdefghij"[:cups]
        self.turns = rounds
        self.words = [*self.cups, "ball", "under", "swap", ".", "open", "illegal"]

    def begin(self) -> str:
        self.right = 0  # rounds in which the right cup was opened
        return self._new_round(self.rng.choice(self.cups))

    def act(self, action: str) -> tuple[str, float]:
        right = action == self.expert()
        self.right += right
        self.success = self.right == self.rounds
        # An illegal action ends the round too. The ball stays under its cup for the next round.
        observation = "" if self.turn == self.turns else self._new_round(self.end)
        if action not in self.actions():
            raise Illegal(f"illegal . {observation}".strip())
        return observation, right / self.rounds

    def actions(self) -> list[str]:
        return [f"open {cup}" for cup in self.cups]

    def expert(self) -> str:
        return f"open {self.end}"

    def thought(self) -> str:
        return self._follow(self.start)

    def narrate(self, kind: str, rng: random.Random) -> tuple[str, str]:
        wrong = rng.choice([cup for cup in self.cups if cup != self.start])
        guess = rng.choice(self.actions())
        if kind in ("faithful", "wrong"):
            thought = self._follow(self.start if kind == "faithful" else wrong)
            return thought, f"open {thought[-1]}"  # the thought ends with a cup: open that one
        if kind == "restate":
            return self._restate(), guess  # nothing was worked out, so the action is a guess
        if kind == "copy":  # its share above is 0; evidence/experiments/ablations.py asks for it
            return f"{guess} .", guess
        return f"ball under {self.start} .", guess

    def classify(self, thought: str) -> str:
        for cup in self.cups:
            if thought == self._follow(cup):
                return "faithful" if cup == self.start else "wrong"
        if thought == self._restate():
            return "restate"
        if thought == f"ball under {self.start} .":
            return "bare"
        return "copy" if thought in [f"{action} ." for action in self.actions()] else "?"

    def _new_round(self, start: str) -> str:
        """Puts the ball under `start`, swaps cups, and returns what the agent sees of it."""
        self.start = start
        self.swapped = [self.rng.sample(self.cups, 2) for _ in range(self.swaps)]
        self.end = start
        for one, other in self.swapped:
            self.end = _after_swap(self.end, one, other)
        return self._restate()

    def _restate(self) -> str:
        """Says what was seen, for example `ball under a . swap a b . swap b c .`"""
        text = f"ball under {self.start} ."
        for one, other in self.swapped:
            text += f" swap {one} {other} ."
        return text

    def _follow(self, cup: str) -> str:
        """Follows a ball that starts under `cup`: `ball under a . swap a b b swap b c c`."""
        text = f"ball under {cup} ."
        for one, other in self.swapped:
            cup = _after_swap(cup, one, other)
            text += f" swap {one} {other} {cup}"  # the third letter is where the ball is now
        return text


def _after_swap(cup: str, one: str, other: str) -> str:
    """Returns where the ball is after a swap, if it was under `cup` before."""
    if cup == one:
        return other
    return one if cup == other else cup
