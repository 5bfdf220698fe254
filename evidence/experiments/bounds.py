"""python -m evidence.experiments.bounds [SHARE ...]: was choosing given the right bound?

Choosing that leaves out steps whose best thought is bad has one bound, .9, everywhere. Here are
others, on three validation seeds and validation tasks. The sentence "another bound would not have
made choosing stronger" is false if, for a share of good thoughts, another one wins more in the mean
by more than the intervals.
"""

from evidence.experiments.filtered import refusing
from evidence.experiments.runs import by_shares, successes

SEEDS = [201, 202, 203]
SHARES = (0.03, 0.01)
BOUNDS = (0.5, 0.7, 0.9, 0.99)


def flags(share: float, bound: float) -> str:
    """The run that learns no step whose best thought earns less than `bound`."""
    return f"{refusing(share, bound)} --split validation"


def measured(share: float) -> dict[str, dict]:
    """Rows of the bases with this share of good thoughts: one for each bound."""
    rows = {}
    for bound in BOUNDS:
        name = f"bounds-{share}-{bound}"
        rows[str(bound)] = successes(name, flags(share, bound), SEEDS)["best_of_base_matched"]
    return rows


def main() -> None:
    by_shares(SHARES, SEEDS, measured)


if __name__ == "__main__":
    main()
