"""Bandit: some pulls to find out which lever pays best, then name it.

The world teaches to explore before one commits. The expert knows no more than it has seen: it pulls
the levers in turn, then names the one that paid most. It is wrong as often as chance misleads it.

A task is no more than which lever is best, so no task is held out: test episodes differ from those
of training by luck alone.
"""

from fractions import Fraction

from minprm.envs.base import Illegal, World


class Bandit(World):
    teaches = "exploring before one commits; the expert itself is misled now and then"
    few_tasks = True
    system = (
        "One lever pays more often than the others. Answer `pull X` to try lever X. When you have "
        "used your pulls, or before, answer `choose X` for the lever that pays most often."
    )

    def __init__(self, levers: int = 2, pulls: int = 10, good: float = 0.8, bad: float = 0.2):
        """good: chance that the best lever pays. bad: chance that any other lever pays."""
        if not 2 <= levers <= 10 or not levers <= pulls <= 1000 or not 0 <= bad < good <= 1:
            raise ValueError(
                "levers from 2 to 10, pulls from one for each lever to 1000, 0 <= bad < good <= 1"
            )
        self.levers = "ABCDEFGHIJ"[:levers]
        self.pulls = pulls
        self.good = good
        self.bad = bad
        self.turns = pulls + 1  # the last one is for `choose`

    def begin(self) -> str:
        self.best = self.rng.choice(self.levers)
        self.pulled = dict.fromkeys(self.levers, 0)  # how often each lever was pulled
        self.paid = dict.fromkeys(self.levers, 0)  # how often it paid
        return f"Levers {' '.join(self.levers)}. You have {self.pulls} pulls."

    def act(self, action: str) -> tuple[str, float]:
        if action not in self.actions():
            raise Illegal(f"illegal: answer pull X or choose X, X of {' '.join(self.levers)}")
        verb, lever = action.split()
        if verb == "choose":
            self.done = True
            self.success = lever == self.best
            return f"The best lever was {self.best}.", float(self.success)
        if self.turn > self.pulls:
            raise Illegal("illegal: no pulls are left, choose a lever")
        chance = self.good if lever == self.best else self.bad
        pays = int(self.noise.random() < chance)
        self.pulled[lever] += 1
        self.paid[lever] += pays
        return f"Lever {lever} paid {pays}. {self.pulls - self.turn} pulls are left.", 0.0

    def actions(self) -> list[str]:
        pull = [f"pull {lever}" for lever in self.levers]
        choose = [f"choose {lever}" for lever in self.levers]
        return pull + choose

    def expert(self) -> str:
        if self.turn < self.pulls:
            # so each lever has its turn
            lever = min(self.levers, key=lambda lever: self.pulled[lever])
            return f"pull {lever}"
        rates = {lever: rate(self.paid[lever], self.pulled[lever]) for lever in self.levers}
        return f"choose {max(self.levers, key=lambda lever: rates[lever])}"


def rate(paid: int, pulled: int) -> Fraction:
    """Estimates how often a lever pays by Laplace's rule of succession. Exact: ties are ties."""
    # a lever that was never pulled has a rate too: 1/2
    return Fraction(paid + 1, pulled + 2)
