"""python -m evidence.experiments.as_long: does choosing catch up if it takes as long as learning?

Learning also computes gradients: for as many thoughts it takes two to three times as long. Here
choosing that leaves bad steps out has 44, 88 and 140 thoughts a step, on the ten fresh seeds of
ahead.py and against what learning makes of 44. On a validation seed learning took 35 s, and
choosing would have taken as long with 125 thoughts; another machine gave 140. Written before the
first run: "learning is ahead" of so many thoughts is false of a share if the 95 % t interval of the
ten differences does not lie above 0.
"""

from evidence import tables
from evidence.experiments import ahead
from evidence.experiments.filtered import refusing, refusing_steps
from evidence.experiments.fresh import SEEDS
from evidence.experiments.runs import by_each, successes
from evidence.results import save_run, t_interval, take_json_flag

SHARES = (0.03, 0.01)
MORE = (88, 140)  # than the 44 of ahead.py
IN_TRAINING = 40  # what choosing is given in place of learning's training, for each step


def flags(share: float, thoughts: int) -> str:
    """The run that chooses among so many thoughts a step."""
    return f"{refusing(share)} --relabel.group {thoughts - IN_TRAINING}"


def choosing(share: float, thoughts: int) -> dict:
    """The row of choosing among more thoughts than in ahead.py."""
    name = f"as_long-{share}-{thoughts}"
    return successes(name, flags(share, thoughts), SEEDS)["best_of_base_matched"]


def measured(share: float) -> dict[str, dict]:
    """Rows of the bases with this share of good thoughts."""
    learning = successes(f"ahead-{share}", ahead.flags(share), SEEDS)["act_prm"]
    found = {44: refusing_steps("ahead", share, SEEDS)}
    for thoughts in MORE:
        found[thoughts] = choosing(share, thoughts)
    rows = {"learning, 44": learning}
    for thoughts, row in found.items():
        rows[f"choosing, {thoughts}"] = row
        rows[f"ahead of {thoughts}"] = ahead.difference(learning, row)
    return rows


def main() -> None:
    path = take_json_flag()
    rows = by_each("share", SHARES, measured)
    print(tables.successes(rows))
    save_run(path, SEEDS, t_interval(SEEDS), rows)


if __name__ == "__main__":
    main()
