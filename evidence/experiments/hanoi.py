"""python -m evidence.experiments.hanoi SEED: a recipe for the one game that had none.

Of the four games beside cups thoughts are known to help in two (several.py): in errand, which has a
tuned recipe, and in hanoi, which was only asked with cups' recipe. Here hanoi of four discs is
learned by errand's: the preset's knobs of --act-prm and of relabelling, with learning rates that
fall with the model's width. Two recipes were tried on validation seeds 331 and 332: this one wins
.355 and .320, cups' with a frozen scorer .255 and .355. The arms leave out a step whose best
thought earns less than .9. Without SEED the seeds that are there are joined.

Written before the runs, on five seeds of which nothing was known. "Thoughts help in hanoi" is false
if the 95 % t interval of the differences, expert_thoughts less action_sft, is not above 0. "Act-PRM
finds such thoughts" is false if that of act_prm less action_sft is not, and "learning is more than
choosing" if that of act_prm less best_of_base_matched is not.
"""

import sys

from evidence import tables
from evidence.experiments.ahead import difference
from evidence.experiments.mixture import ARGS, raised
from evidence.experiments.several import SLOWER
from evidence.results import (
    over_seeds,
    rows_of_seeds,
    save_run,
    save_seed,
    seeds_of_all,
    t_interval,
    take_json_flag,
)
from minprm.commands.presets import PRESETS
from minprm.commands.train import go_on
from minprm.constants import SFT

SEEDS = list(range(341, 346))
ARMS = "action_sft best_of_base_matched act_prm expert_thoughts"
LESS = [
    ("expert_thoughts", "action_sft"),
    ("act_prm", "action_sft"),
    ("act_prm", "best_of_base_matched"),
]


def flags(seed: int) -> str:
    learns, relabel = PRESETS["errand"].act_prm, PRESETS["errand"].relabel
    rates = f"--act-prm.lr {learns.lr * SLOWER:g} --sft.lr {SFT().lr * SLOWER}"
    knobs = f"--act-prm.group {learns.group} --act-prm.updates {learns.updates} "
    knobs += f"--act-prm.advantage {learns.advantage} --act-prm.trained-on {learns.trained_on} "
    knobs += f"--act-prm.scored-by {learns.scored_by} --act-prm.batch 4 "
    knobs += f"--relabel.group {relabel.group} --relabel.min-step-reward {relabel.min_reward}"
    world = (
        f"--world hanoi --world-args {' '.join(ARGS['hanoi'])} --model {raised(['hanoi'], seed)}"
    )
    asked = "--instruction none --episodes 200 --eval-every 0"
    return f"{world} {asked} {rates} {knobs} --arms {ARMS} --seeds {seed}"


def main() -> None:
    path = take_json_flag()
    if len(sys.argv) == 2:
        seed = int(sys.argv[1])
        ladder, _ = go_on(f"evidence-hanoi-{seed}", flags(seed).split())
        save_seed(
            path, "hanoi/ladder", seed, {arm: row["success"] for arm, (row,) in ladder.items()}
        )
        return
    seeds = seeds_of_all(["hanoi/ladder"], SEEDS)
    ladders = rows_of_seeds("hanoi/ladder", seeds)
    rows = {arm: over_seeds([ladder[arm] for ladder in ladders]) for arm in ARMS.split()}
    for one, other in LESS:
        rows[f"{one} less {other}"] = difference(rows[one], rows[other])
    print(tables.successes(rows))
    save_run(path, seeds, t_interval(seeds), rows)


if __name__ == "__main__":
    main()
