"""python -m evidence.experiments.rounds [SHARE ...]: is learning ahead of repeated choosing?

Choosing that leaves bad steps out, four times over. In each round the model draws 11 thoughts a
step, the best one is kept if it earns LEAST, and a fresh base is fine-tuned on what was kept. The
next round draws from that model. These are 44 thoughts a step in all, and no other stage than those
of the ladder. It is ReST-EM (Singh et al. 2023, arXiv:2312.06585) with the reward of Act-PRM, and
with one thought a step. Four rounds were not tuned: they were tried on validation seeds 201 to 203
and validation tasks, where nothing else was. The seeds are those of ahead.py. Written before the
first run on them: "learning is ahead" is false of a share if the 95 % t interval of the ten
differences, learning minus rounds, does not lie above 0. (It was written of 3 and 1 in 100; .3 in
100 was added when one seed of 1 in 100 had been seen.)
"""

from evidence.experiments import ahead
from evidence.experiments.filtered import LEAST
from evidence.experiments.fresh import SEEDS
from evidence.experiments.runs import base, by_shares, successes

SHARES = (0.03, 0.01, 0.003)
ROUNDS, THOUGHTS = 4, 44


def flags(share: float) -> str:
    """The run that chooses in rounds."""
    stages = "relabel sft:thoughts " * ROUNDS
    kept = f"--relabel.group {THOUGHTS // ROUNDS} --relabel.min-step-reward {LEAST}"
    return f"{base(share)} {kept} --stages {stages}"


def measured(share: float) -> dict[str, dict]:
    """Rows of the bases with this share of good thoughts."""
    rounds = successes(f"rounds-{share}", flags(share), SEEDS)["stages"]
    learning = successes(f"ahead-{share}", ahead.flags(share), SEEDS)["act_prm"]
    difference = ahead.difference(learning, rounds)
    return {
        "learning, 44": learning,
        "choosing, 4 times 11": rounds,
        "ahead of 4 times 11": difference,
    }


def main() -> None:
    by_shares(SHARES, SEEDS, measured)


if __name__ == "__main__":
    main()
