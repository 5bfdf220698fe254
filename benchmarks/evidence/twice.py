"""python -m benchmarks.evidence.twice: does choosing catch up with twice as many thoughts?

Learning also computes gradients: for as many thoughts it takes two to three times as long. Here
choosing that leaves bad steps out has 88 thoughts a step, on the ten fresh bases of ahead.py and
against what learning made of 44. (It turned out to take six to seven tenths of learning's time.)
Written before the first run: "learning is ahead" is false of a share if the 95 % t interval of the
ten differences does not lie above 0.
"""

from benchmarks.evidence import ahead
from benchmarks.evidence.filtered import refusing
from benchmarks.evidence.fresh import SEEDS
from benchmarks.evidence.runs import by_each, successes
from docs import tables
from docs.results import save_run, t_interval, take_json_flag

SHARES = (0.03, 0.01)
WRITTEN = 48  # 4 to write the best down, and 44 more


def flags(share: float) -> str:
    """The run that chooses among 88 thoughts a step."""
    return f"{refusing(share)} --relabel.group {WRITTEN}"


def measured(share: float) -> dict[str, dict]:
    """Rows of the bases with this share of good thoughts."""
    learning = successes(f"ahead-{share}", ahead.flags(share), SEEDS)["act_prm"]
    choosing = successes(f"twice-{share}", flags(share), SEEDS)["best_of_base_matched"]
    difference = ahead.difference(learning, choosing)
    return {"learning, 44": learning, "steps left out, 88": choosing, "difference": difference}


def main() -> None:
    path = take_json_flag()
    rows = by_each("share", SHARES, measured)
    print(tables.successes(rows))
    save_run(path, SEEDS, t_interval(SEEDS), rows)


if __name__ == "__main__":
    main()
