"""python -m evidence.experiments.beyond_errand: where does each arm break on longer walks?

All logs of errand are walks to one cell. The arms play walks to one, two and three cells: on the
bases that come with minprm, which were raised on one cell, and on bases that were raised on one to
three. What is said of a cell counts the walks that came so far. The sentence "what Act-PRM learns
of one cell holds wherever its base has seen more" is false if, on the second bases, it finds the
second or the third cell less often than the first, by more than the intervals.
"""

from collections import Counter
from statistics import fmean

from evidence.experiments.models import base_of
from evidence.experiments.runs import successes
from evidence.experiments.walks import Walks, first_thoughts
from evidence.results import over_seeds, save_run, t_interval, take_json_flag
from minprm.arms.evaluation import evaluate, load_agent
from minprm.commands.train import CHECKPOINTS
from minprm.envs import make_world

SEEDS = [3, 4, 5]
CELLS = (1, 2, 3)
ARMS = ("base", "action_sft", "best_of_base_resampled", "act_prm_resampled", "expert_thoughts")
FLAGS = f"--preset errand --arms {' '.join(ARMS)}"


def train(cells: str) -> None:
    """Makes the arms on bases that were raised on so many cells. Their logs have one."""
    if cells == "1":
        successes("beyond-errand-1", FLAGS, SEEDS)
        return
    with base_of(Walks):  # in this process alone, so --jobs 1
        successes("beyond-errand-3", f"{FLAGS} --no-gate --jobs 1", SEEDS)


def played(path: str, cells: int) -> tuple[float, list[list[tuple[str, bool]]]]:
    """(success, what is told of the cells of each walk) of one model."""
    agent, cfg = load_agent(path, episodes=200, world_args=[f"waypoints={cells}"])
    episodes = evaluate(agent, cfg, noise=0)
    success = fmean(e.world.success for e in episodes)
    return success, [first_thoughts(e, make_world(cfg)) for e in episodes]


def measured(paths: list[str], cells: int) -> dict:
    """A row: one arm over its seeds, and of each cell in the order in which they are visited how
    often it is found, and what the first thought on the way to it was."""
    plays = [played(path, cells) for path in paths]
    row = {**over_seeds([success for success, _ in plays]), "found": [], "fates": []}
    for cell in range(cells):
        began = [[walk[cell] for walk in walks if len(walk) > cell] for _, walks in plays]
        if not all(began):  # on some seed no walk came so far
            break
        row["found"].append(over_seeds([fmean(found for _, found in seed) for seed in began]))
        fates = Counter(fate for seed in began for fate, _ in seed)
        row["fates"].append({fate: n / fates.total() for fate, n in fates.most_common()})
    return row


def main() -> None:
    path = take_json_flag()
    rows = {}
    for raised_on in ("1", "3"):
        train(raised_on)
        for arm in ARMS:
            folder = CHECKPOINTS / f"evidence-beyond-errand-{raised_on}"
            for cells in CELLS:
                row = measured([str(folder / f"{arm}-{seed}") for seed in SEEDS], cells)
                known = {"raised_on": raised_on, "arm": arm, "cells": cells}
                rows[f"{raised_on} | {arm} | {cells}"] = known | row
                print(raised_on, arm, cells, row, flush=True)
    save_run(path, SEEDS, t_interval(SEEDS), rows)


if __name__ == "__main__":
    main()
