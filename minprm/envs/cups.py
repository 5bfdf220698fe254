"""Cups: a ball lies under one of five cups, cups are swapped, open the right one; several rounds.

What it teaches: serial state tracking. A small model cannot compose the swaps in one pass, it can
write them down. Its actions do not change the world: the next round restates where the ball is.
"""

import random

from minprm.envs.base import Illegal, World


class Cups(World):
    teaches = "serial state tracking: follow a ball through swaps"
    system = (
        "A ball lies under one of several cups, and cups are swapped two at a time. "
        "Answer with `open X`, where X is the cup that holds the ball after the last swap."
    )
    thought_mix = {"faithful": 0.10, "wrong": 0.45, "restate": 0.35, "bare": 0.10}  # noqa: RUF012

    def __init__(self, rounds: int = 3, swaps: int = 4, cups: int = 5):
        if rounds < 1 or swaps < 0 or not 2 <= cups <= 10:
            raise ValueError("rounds from 1, swaps from 0, cups from 2 to 10")
        self.rounds, self.swaps, self.cups = rounds, swaps, "abcdefghij"[:cups]
        self.turns = rounds
        self.words = [*self.cups, "ball", "under", "swap", ".", "open", "illegal"]

    def begin(self) -> str:
        self.right = 0
        return self._shuffle(self.rng.choice(self.cups))

    def act(self, action: str) -> tuple[str, float]:
        right = action == self.expert()
        self.right += right
        self.success = self.right == self.rounds
        last, valid = self.turn == self.turns, action in self.actions()
        observation = ("" if valid else "illegal . ") + ("" if last else self._shuffle(self.end))
        if not valid:
            raise Illegal(observation.strip())
        return observation, right / self.rounds

    def actions(self) -> list[str]:
        return [f"open {cup}" for cup in self.cups]

    def expert(self) -> str:
        return f"open {self.end}"

    def thought(self) -> str:
        return self._trace(self.start)

    def narrate(self, kind: str, rng: random.Random) -> tuple[str, str]:
        wrong = rng.choice([cup for cup in self.cups if cup != self.start])
        guess = rng.choice(self.actions())
        if kind in ("faithful", "wrong"):
            trace = self._trace(self.start if kind == "faithful" else wrong)
            return trace, f"open {trace[-1]}"
        if kind == "copy":
            return f"{guess} .", guess
        return self._restated() if kind == "restate" else f"ball under {self.start} .", guess

    def classify(self, thought: str) -> str:
        words = thought.split()
        start = words[2] if words[:2] == ["ball", "under"] and len(words) > 3 else ""
        known = {f"ball under {self.start} .": "bare", self._restated(): "restate"}
        known |= {f"{action} .": "copy" for action in self.actions()}
        if start in self.cups and start:
            known[self._trace(start)] = "faithful" if start == self.start else "wrong"
        return known.get(thought, "?")

    def _shuffle(self, start: str) -> str:
        """A new round with the ball under `start`."""
        self.start = self.end = start
        self.swapped = [self.rng.sample(self.cups, 2) for _ in range(self.swaps)]
        for pair in self.swapped:
            self.end = _after(self.end, pair)
        return self._restated()

    def _restated(self) -> str:
        return f"ball under {self.start} ." + "".join(f" swap {p} {q} ." for p, q in self.swapped)

    def _trace(self, cup: str) -> str:
        trace = f"ball under {cup} ."
        for p, q in self.swapped:
            cup = _after(cup, (p, q))
            trace += f" swap {p} {q} {cup}"
        return trace


def _after(cup: str, pair) -> str:
    p, q = pair
    return q if cup == p else p if cup == q else cup
