"""python -m evidence.experiments.restarts SEED: if a run fails, is it enough to start again?

At .3 good thoughts in 100 learning fails on four of ten bases (ahead.py), and runs from one base
with other logs and other noise end differently (luck.py). Here the logs stay, too: a base learns
from one file of logs, and while its thoughts earn less than GOOD in the mean on the held-out logs
of that file, it learns from them again, with other noise, in up to three runs. The run whose
thoughts earn most there is taken. Nobody plays the game to decide that. Without SEED the seeds that
are there are joined.

Written before the runs, on ten seeds of which nothing was known. "A failure shows without a game"
is false if a run whose thoughts earn GOOD or more wins less than half of its games, or one below
.5 wins more than half. "Starting again helps" is false if the 95 % t interval of the ten
differences, the run that is taken less the first, is not above 0. "The base decides" is false if of
the bases whose first run wins less than half at least half have a later run that wins more.
"""

import json
import sys
from pathlib import Path

from evidence import tables
from evidence.experiments.ahead import difference, flags
from evidence.experiments.luck import SHARE, base
from evidence.experiments.runs import CENTRED, recipe
from evidence.results import (
    over_seeds,
    rows_of_seeds,
    save_run,
    save_seed,
    seeds_of_all,
    t_interval,
    take_json_flag,
)
from minprm.arms.demos import logs_of
from minprm.commands.cli import parse
from minprm.commands.train import go_on
from minprm.logs.reader import write_demos
from minprm.report.files import RUNS

SEEDS = list(range(421, 431))
NOISES = [0, 1, 2]
GOOD = 0.9


def write_logs(seed: int) -> Path:
    """What the expert did in 144 games, of which 16 are held out. Returns the file."""
    logs, _ = logs_of(parse(flags(SHARE).split()), seed)
    path = RUNS / f"evidence-restarts-logs/{seed}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    write_demos(logs, path)
    return path


def learned(seed: int, logs: Path, noise: int) -> dict[str, float]:
    """Success of a run, and what its thoughts earned on held-out logs when it ended."""
    name = f"evidence-restarts-{seed}-{noise}"
    learns = f"{base(seed)} {recipe(**CENTRED)} --arms act_prm --demos {logs}"
    ladder, _ = go_on(name, f"{learns} --seeds {noise}".split())
    lines = (RUNS / name / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    looks = [json.loads(line) for line in lines if "eval/held_out_reward" in line]
    (row,) = ladder["act_prm"]
    held_out = looks[-1]["eval/held_out_reward"]
    return {"success": row["success"], "held_out": held_out, "seconds": row["seconds"]}


def measured(seed: int) -> dict:
    """The runs of one base, and the success of the one that is taken."""
    logs = write_logs(seed)
    runs = []
    for noise in NOISES:
        runs.append(learned(seed, logs, noise))
        if runs[-1]["held_out"] >= GOOD:
            break
    taken = max(runs, key=lambda run: run["held_out"])
    return {"runs": runs, "taken": taken["success"]}


def main() -> None:
    path = take_json_flag()
    if len(sys.argv) == 2:
        seed = int(sys.argv[1])
        save_seed(path, "restarts/cups", seed, measured(seed))
        return
    seeds = seeds_of_all(["restarts/cups"], SEEDS)
    found = rows_of_seeds("restarts/cups", seeds)
    once = over_seeds([row["runs"][0]["success"] for row in found])
    taken = over_seeds([row["taken"] for row in found])
    rows = {"first run": once, "taken of up to three": taken, "gain": difference(taken, once)}
    print(tables.successes(rows))
    save_run(path, seeds, t_interval(seeds), rows, runs=[row["runs"] for row in found])


if __name__ == "__main__":
    main()
