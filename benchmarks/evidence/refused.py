"""python -m benchmarks.evidence.refused: is choosing that may refuse near learning elsewhere too?

logs.py and neighbours.py compare with choosing that keeps the best thought of every step, also a
bad one, and learning has the recipe's weight. Here both learning and choosing learn no step whose
best thought earns less than LEAST, and learning has the library's default weight: on 8 to 512 logs,
and on the bases of neighbours.py that were raised in either order. Written before the first run:
"learning is ahead" is false of a case if choosing comes within .05 of it in the mean of the three
seeds.
"""

from benchmarks.evidence import logs
from benchmarks.evidence.filtered import LEAST
from benchmarks.evidence.runs import CENTRED, SEEDS, base, recipe, successes
from docs import tables
from docs.results import save_run, t_interval, take_json_flag

CASES = {f"{number} logs": logs.flags(number, **CENTRED) for number in logs.SIZES[::2]}
CASES["either order"] = f"{base()} --tiny.action-first 0.3 {recipe(**CENTRED)}"
ARMS = {"best_of_base_matched": "choosing", "act_prm": "learning"}


def refusing(flags: str) -> str:
    """The run of a case."""
    return f"{flags} --arms {' '.join(ARMS)} --relabel.min-step-reward {LEAST}"


def main() -> None:
    path = take_json_flag()
    rows = {}
    for case, flags in CASES.items():
        found = successes(f"refused-{case.replace(' ', '-')}", refusing(flags))
        for arm, name in ARMS.items():
            rows[f"{case} | {name}"] = found[arm]
    print(tables.successes(rows))
    save_run(path, SEEDS, t_interval(SEEDS), rows)


if __name__ == "__main__":
    main()
