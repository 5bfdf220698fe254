"""python -m evidence.experiments.choosing ARM SEED: is learning ahead of choosing at a refund desk?

pretrained.py left it open on three seeds. Here act_prm and best_of_base_matched, which draw as many
thoughts, meet on eight fresh ones, with the same recipe and the same 150 test logs, on a GPU: there
layers compute in bf16. A run that was interrupted goes on. Without ARM and SEED the pairs that are
there are joined: `python -m evidence.experiments.choosing --json FILE`.

Written before the runs: learning is ahead if the 95 % t interval of the paired differences in
success lies above 0, choosing is ahead if it lies below, and else the two are still not told apart.
"""

import sys

from evidence import tables
from evidence.experiments import pretrained
from evidence.experiments.ahead import difference
from evidence.results import (
    over_seeds,
    rows_of_seeds,
    save_run,
    save_seed,
    seeds_of_all,
    t_interval,
    take_json_flag,
)
from examples import refund
from minprm.report.files import RUNS

SEEDS = [10, 11, 12, 13, 14, 15, 16, 17]
ARMS = {"learning": "act_prm", "choosing": "best_of_base_matched"}


def measured(arm: str, seed: int) -> dict:
    folder = RUNS / f"evidence-choosing-logs/{arm}-{seed}"  # several may be started at once
    refund.write_all(folder, seed=0)
    return pretrained.measured(arm, seed, folder)


def joined(seeds: list[int]) -> dict[str, dict]:
    """Success of both, and what learning is ahead."""
    rows = {}
    for name, arm in ARMS.items():
        runs = rows_of_seeds(f"choosing/{arm}", seeds)
        rows[name] = over_seeds([run["success"] for run in runs])
        rows[name]["seconds"] = [run["run"]["seconds"] for run in runs]
    rows["difference"] = difference(rows["learning"], rows["choosing"])
    return rows


def main() -> None:
    path = take_json_flag()
    if len(sys.argv) == 3:
        arm, seed = sys.argv[1], int(sys.argv[2])
        save_seed(path, f"choosing/{arm}", seed, measured(arm, seed))
    else:
        seeds = seeds_of_all([f"choosing/{arm}" for arm in ARMS.values()], SEEDS)
        rows = joined(seeds)
        print(tables.successes(rows))
        save_run(path, seeds, t_interval(seeds), rows)


if __name__ == "__main__":
    main()
