"""python -m evidence.experiments.refused: is learning ahead if both refuse, with few logs and many?

logs.py compares with choosing that keeps the best thought of every step, also a bad one, and there
learning has the recipe's weight. Here both learning and choosing learn no step whose best thought
earns less than LEAST, and learning has the library's default weight. Written before the first run:
"learning is ahead" is false of a number of logs if choosing comes within .05 of it in the mean of
the three seeds.

It was also begun on the bases of neighbours.py that were raised in either order, and given up: on
seed 303 no thought that was learned there earns LEAST, so that nothing is left to fine-tune on.
"""

from evidence import tables
from evidence.experiments import logs
from evidence.experiments.filtered import LEAST
from evidence.experiments.runs import CENTRED, SEEDS, by_each, successes
from evidence.results import save_run, t_interval, take_json_flag

SIZES = logs.SIZES[::2]
ARMS = {"best_of_base_matched": "choosing", "act_prm": "learning"}


def refusing(flags: str) -> str:
    """The run in which both leave out the steps whose best thought is bad."""
    return f"{flags} --arms {' '.join(ARMS)} --relabel.min-step-reward {LEAST}"


def flags(number: int) -> str:
    """The run with so many logs."""
    return refusing(logs.flags(number, **CENTRED))


def measured(number: int) -> dict[str, dict]:
    """Rows of one number of logs."""
    found = successes(f"refused-{number}-logs", flags(number))
    return {name: found[arm] for arm, name in ARMS.items()}


def main() -> None:
    path = take_json_flag()
    rows = by_each("logs", SIZES, measured)
    print(tables.successes(rows))
    save_run(path, SEEDS, t_interval(SEEDS), rows)


if __name__ == "__main__":
    main()
