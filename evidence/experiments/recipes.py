"""python -m evidence.experiments.recipes WORLD SEED: what RL adds to SFT, on a laptop.

A recipe is a file of examples/laptop/: SFT on what the world's expert does, then GRPO in the world,
without thoughts. The model is the embedded one, and has read nothing before. The last checkpoint of
SFT and that of RL play the same 400 test tasks, greedily. The recipes were chosen on validation
tasks of seed 11. A run that was interrupted goes on. Without WORLD and SEED the runs that are there
are joined: `python -m evidence.experiments.recipes --json FILE`.

Written before the runs of seeds 0, 1 and 2: in each world success after RL is above that of SFT
alone on each seed, and by more than the intervals over the seeds.
"""

import sys
from pathlib import Path
from statistics import fmean

from evidence import tables
from evidence.experiments.ahead import difference
from evidence.results import (
    FOLDER,
    load,
    over_seeds,
    save,
    save_run,
    t_interval,
    take_json_flag,
    this_program,
)
from minprm.arms.evaluation import summary
from minprm.commands.ask import PROGRAM, Evaluation, as_trained, configured
from minprm.commands.cli import given_knobs, read_flags
from minprm.commands.playing import play_checkpoint
from minprm.commands.train import CHECKPOINTS, go_on

WORLDS = ("frozenlake",)
SEEDS = [0, 1, 2]


def measured(world: str, seed: int) -> dict:
    """Success of one run: of SFT alone, of SFT and RL, of random play; and its seconds."""
    run = f"recipe-{world}-{seed}"
    ladder, _ = go_on(run, f"--config examples/laptop/{world}.toml --seeds {seed}".split())
    kept = (CHECKPOINTS / run / "kept" / f"sft-actions-{seed}").iterdir()
    return {
        "random": ladder["random"][0]["success"],
        "SFT": success(max(kept, key=lambda folder: int(folder.name)), seed),
        "SFT, then RL": success(CHECKPOINTS / run / f"stages-{seed}", seed),
        "seconds": ladder["stages"][0]["seconds"],
    }


def success(checkpoint: Path, seed: int) -> float:
    """What `minprm evaluate CHECKPOINT --seed SEED` measures."""
    argv = [str(checkpoint), "--seed", str(seed)]
    flags = read_flags(Evaluation, argv, PROGRAM)
    ((path, evaluation),) = as_trained(flags, argv, given_knobs(argv)).items()
    return summary(play_checkpoint(configured(path, evaluation), flags))["success"]


def joined() -> dict[str, dict]:
    """A row for each world, over the seeds whose runs are there."""
    rows = {}
    for world in WORLDS:
        runs = []
        for seed in SEEDS:
            if (FOLDER / f"recipes/{world}-{seed}.json").exists():
                runs.append(load(f"recipes/{world}-{seed}")["rows"])
        if not runs:
            continue
        row = {}
        for name in ("random", "SFT", "SFT, then RL"):
            row[name] = over_seeds([run[name] for run in runs])
        row["gain"] = difference(row["SFT, then RL"], row["SFT"])
        rows[world] = row | {"seconds": fmean(run["seconds"] for run in runs)}
    return rows


def main() -> None:
    path = take_json_flag()
    if len(sys.argv) == 3:
        world, seed = sys.argv[1], int(sys.argv[2])
        row = measured(world, seed)
        where = path or FOLDER / "recipes" / f"{world}-{seed}.json"
        save(where, **this_program(), seeds=[seed], interval="none: one seed", rows=row)
    else:
        rows = joined()
        print(tables.recipes(rows))
        save_run(path, SEEDS, t_interval(SEEDS), rows)


if __name__ == "__main__":
    main()
