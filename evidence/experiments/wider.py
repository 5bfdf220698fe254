"""python -m evidence.experiments.wider ARM SEED: do more thoughts of fewer logs mend failures?

At .3 good thoughts in 100 learning fails on three or four of ten bases. Three failed runs of
restarts.py were looked at. Their rewards rise from .09 to .2, which is what a thought that says
nothing earns, and stay there. Seven changes were tried on these three, with the same logs and
noise: a thought is paid for what it adds (it mended none), a KL to the base of .1 (none), sampling
at temperature 1.5 (one), 64 thoughts a step of one log (one), 32 of two logs (two), the same at
half the learning rate (two, one of them in part). An update has 8 thoughts a step of 8 logs else.
Two of the changes are tried here on fresh bases, with as many thoughts in all. Without ARM and SEED
the runs that are there are joined.

    as it is  8 thoughts a step, 8 logs an update
    wider     32 thoughts a step, 2 logs an update
    added     as it is, and a thought is paid for what it adds to the reward without a thought

Written before the runs, on ten seeds of which nothing was known. "Wider groups help" is false if
the 95 % t interval of the ten differences, wider less as it is, is not above 0; "they mend
failures" if half or more of the bases that win less than half as it is win less than half with
wider groups, too. "Thoughts that say nothing are what learning is lost to" is false if the interval
of added less as it is is not above 0.
"""

import sys

from evidence import tables
from evidence.experiments.ahead import difference
from evidence.experiments.luck import SHARE
from evidence.experiments.runs import CENTRED, base, recipe
from evidence.results import (
    file_of,
    over_seeds,
    rows_of_seeds,
    save_run,
    save_seed,
    seeds_of_all,
    t_interval,
    take_json_flag,
)
from minprm.commands.train import go_on

SEEDS = list(range(431, 441))
ARMS = {
    "as it is": {},
    "wider": {"group": 32, "batch": 2},
    "added": {"baseline": "no_thought"},
}


def measured(arm: str, seed: int) -> dict[str, float]:
    flags = f"{base(SHARE)} {recipe(**CENTRED | ARMS[arm])} --arms act_prm --seeds {seed}"
    ladder, _ = go_on(f"evidence-wider-{file_of(arm)}-{seed}", flags.split())
    (row,) = ladder["act_prm"]
    return {"success": row["success"], "seconds": row["seconds"]}


def main() -> None:
    path = take_json_flag()
    if len(sys.argv) == 3:
        arm, seed = sys.argv[1], int(sys.argv[2])
        save_seed(path, f"wider/{file_of(arm)}", seed, measured(arm, seed))
        return
    seeds = seeds_of_all([f"wider/{file_of(arm)}" for arm in ARMS], SEEDS)
    rows = {}
    for arm in ARMS:
        runs = rows_of_seeds(f"wider/{file_of(arm)}", seeds)
        rows[arm] = over_seeds([run["success"] for run in runs])
    for arm in ("wider", "added"):
        rows[f"{arm}, gain"] = difference(rows[arm], rows["as it is"])
    print(tables.successes(rows))
    save_run(path, seeds, t_interval(seeds), rows)


if __name__ == "__main__":
    main()
