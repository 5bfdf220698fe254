"""Bandit: some pulls to find out which lever pays best, then name it.

What it teaches: to explore before one commits. The expert knows no more than it has seen: it pulls
the levers in turn, then names the one that paid most, and is wrong as often as chance misleads it.
"""

from fractions import Fraction
from math import comb

from minprm.envs.base import Illegal, World


class Bandit(World):
    teaches = "exploring before one commits; the expert itself is misled now and then"
    system = (
        "One lever pays more often than the others. Answer `pull X` to try lever X. When you have "
        "used your pulls, or before, answer `choose X` for the lever that pays most often."
    )

    def __init__(self, levers: int = 2, pulls: int = 10, good: float = 0.8, bad: float = 0.2):
        if not 2 <= levers <= 10 or pulls < levers or not 0 <= bad < good <= 1:
            raise ValueError("levers from 2 to 10, at least a pull for each, 0 <= bad < good <= 1")
        self.levers, self.pulls = "ABCDEFGHIJ"[:levers], pulls
        self.good, self.bad, self.turns = good, bad, pulls + 1

    def begin(self) -> str:
        self.best = self.rng.choice(self.levers)
        self.paid = {lever: [0, 0] for lever in self.levers}  # times it paid, times it was pulled
        return f"Levers {' '.join(self.levers)}. You have {self.pulls} pulls."

    def act(self, action: str) -> tuple[str, float]:
        verb, _, lever = action.partition(" ")
        if action not in self.actions():
            raise Illegal(f"illegal: answer pull X or choose X, X of {' '.join(self.levers)}")
        if verb == "choose":
            self.done, self.success = True, lever == self.best
            return f"The best lever was {self.best}.", float(self.success)
        if self.turn > self.pulls:
            raise Illegal("illegal: no pulls are left, choose a lever")
        pays = self.rng.random() < (self.good if lever == self.best else self.bad)
        self.paid[lever][0] += pays
        self.paid[lever][1] += 1
        return f"Lever {lever} paid {int(pays)}. {self.pulls - self.turn} pulls are left.", 0.0

    def actions(self) -> list[str]:
        return [f"{verb} {lever}" for verb in ("pull", "choose") for lever in self.levers]

    def expert(self) -> str:
        rate = {k: Fraction(a + 1, n + 2) for k, (a, n) in self.paid.items()}
        if self.turn < self.pulls:
            return f"pull {min(self.levers, key=lambda k: self.paid[k][1])}"
        return f"choose {max(self.levers, key=rate.get)}"

    def optimum(self) -> float:
        """The exact chance that the expert, from the start, names the best of two levers."""
        if len(self.levers) != 2:
            raise ValueError("the closed form is for two levers")
        n, m = -(-self.pulls // 2), self.pulls // 2  # pulls of A and of B

        def right(best: int, a: int, b: int) -> bool:
            rate = Fraction(a + 1, n + 2) >= Fraction(b + 1, m + 2)  # ties go to A
            return rate == (best == 0)

        total = 0.0
        for best in (0, 1):
            p, q = (self.good, self.bad) if best == 0 else (self.bad, self.good)
            total += sum(
                _binomial(n, a, p) * _binomial(m, b, q)
                for a in range(n + 1) for b in range(m + 1) if right(best, a, b)
            )  # fmt: skip
        return total / 2


def _binomial(n: int, k: int, p: float) -> float:
    return comb(n, k) * p**k * (1 - p) ** (n - k)
