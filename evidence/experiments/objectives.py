"""python -m evidence.experiments.objectives [METHOD ...]: RL's objectives on cups.

Each method plays the same number of episodes, paid once an episode. Of three learning rates the one
is taken with the highest success on validation tasks of a validation seed; the table is of three
other seeds, on test tasks. No ranking for language models: one world, one tiny model, one budget.
A method's row is a file of its own, results/objectives/METHOD.json, written as it ends. A row that
is there is not made again, and a run that was interrupted goes on. `--json FILE` joins the rows.

Written before the runs of 2026-11-26. Each sentence is false if one method or seed contradicts it.
- With a baseline (all but REINFORCE) and at its own rate, each method wins .95 or more in the mean
  and .9 or more on each seed; PPO with lambda .95 over tokens does not.
- REINFORCE has a seed that ends below the worst seed of all methods with a baseline, PPO with
  lambda .95 over tokens left out.
- No two methods with a baseline, that one left out, are told apart by their intervals.
- At the rate of 1e-3 and with two passes, the losses without PPO's clip (cispo, sapo, ipo,
  masked_is) win less than .5 of the validation tasks; those with it (ppo_clip, gspo, dual_clip),
  and dppo, more than .8.
- With one pass, MaxRL wins .9 of sampled play within the 50 updates on more seeds than GRPO.
"""

import sys
from statistics import fmean

from evidence import tables
from evidence.results import (
    FOLDER,
    file_of,
    load,
    over_seeds,
    save,
    save_run,
    t_interval,
    take_json_flag,
    this_program,
)
from minprm.commands.presets import PRESETS
from minprm.commands.train import go_on
from minprm.constants import fail

# a base that writes a useful thought often enough for RL to find it
MIXTURE = " ".join(PRESETS["smoke"].tiny.mixture)
# 50 updates of 64 episodes
BUDGET = f"--preset cups --tiny.mixture {MIXTURE} --arms rl --rl.updates 50 --threads 1"
RATES = (2e-4, 5e-4, 1e-3)
SEEDS = [20, 21, 22]
CHOICE, REPORT = "--split validation --episodes 200 --seeds 11", "--seeds 20 21 22"
TWICE = "--optim.passes 2 --rl.loss"
AHEAD = "--rl.max-async-level 1 --save-every 50"
METHODS = {
    "REINFORCE": "--rl.advantage none",
    "moving baseline, groups of one": "--rl.advantage ema --rl.group 1 --rl.batch 64",
    "batch baseline, groups of one": "--rl.advantage batch --rl.group 1 --rl.batch 64",
    "group mean": "--rl.advantage mean",
    "GRPO": "",
    "MaxRL": "--rl.advantage max_rl",
    "GRPO, per sequence": "--optim.aggregation sequence",
    "RLOO": "--rl.advantage rloo",
    "OPO": "--rl.advantage opo",
    "asymmetric clip": "--rl.advantage asym_clip",
    "GRPO, 2 passes": f"{TWICE} ppo_clip",
    "CISPO, 2 passes": f"{TWICE} cispo",
    "GSPO, 2 passes": f"{TWICE} gspo --optim.aggregation sequence",
    "dual clip, 2 passes": f"{TWICE} dual_clip",
    "SAPO, 2 passes": f"{TWICE} sapo",
    "IPO, 2 passes": f"{TWICE} ipo",
    "DPPO, 2 passes": f"{TWICE} dppo",
    "masked ratios, 2 passes": f"{TWICE} masked_is",
    "PPO, 2 passes": f"{TWICE} ppo_clip --rl.advantage gae",
    "PPO with lambda .95, 2 passes": f"{TWICE} ppo_clip --rl.advantage gae --rl.lam .95",
    "PPO over turns with lambda .95, 2 passes": f"{TWICE} ppo_clip --rl.advantage turn_gae "
    "--rl.lam .95",
    "GRPO, uncertain groups": "--rl.groups top_p",
    "GRPO, soft weights": "--rl.groups soft",
    "GRPO, a batch ahead": AHEAD,
    "GRPO, a batch ahead, is": f"{AHEAD} --rl.loss is",
    "GRPO, a batch ahead, truncated": f"{AHEAD} --rl.loss is --rl.correction truncate",
    "GRPO, a batch ahead, masked": f"{AHEAD} --rl.loss is --rl.correction mask",
}


def updates_to(share: float, lines: list[dict], seed: int) -> int | None:
    """Updates until five batches in a row, sampled, have won this share on average."""
    won = [x["reward/mean"] for x in lines if x["seed"] == seed]
    means = [fmean(won[i - 5 : i]) for i in range(5, len(won) + 1)]
    return next((i + 5 for i, mean in enumerate(means) if mean >= share), None)


def measured(name: str) -> dict:
    """The row of one method."""
    tag, flags = f"objective-{file_of(name)}", METHODS[name]
    success = {}
    for lr in RATES:
        ladder, _ = go_on(f"{tag}-{lr}", f"{BUDGET} {flags} --rl.lr {lr} {CHOICE}".split())
        success[lr] = ladder["rl"][0]["success"]
    lr = max(RATES, key=success.get)
    ladder, lines = go_on(tag, f"{BUDGET} {flags} --rl.lr {lr} {REPORT}".split())
    return {
        **over_seeds([r["success"] for r in ladder["rl"]]),
        "updates_to_.9": [updates_to(0.9, lines, r["seed"]) for r in ladder["rl"]],
        "lr": lr,
        "tried": list(success.values()),
        "seconds": fmean(r["seconds"] for r in ladder["rl"]),
    }


def chosen(names: list[str]) -> list[str]:
    """The methods of these names; all where none is named."""
    for name in names:
        if name not in METHODS:
            fail(f"{name}: no such method. Methods, in quotes: {'; '.join(METHODS)}")
    return names or list(METHODS)


def main() -> None:
    path = take_json_flag()
    rows = {}
    for name in chosen(sys.argv[1:]):
        row_file = f"objectives/{file_of(name)}"
        if not (FOLDER / f"{row_file}.json").exists():
            row = {name: measured(name)}
            interval = t_interval(SEEDS)
            save(FOLDER / f"{row_file}.json", **this_program(), seeds=SEEDS, interval=interval,
                 rows=row)  # fmt: skip
        else:
            print(f"{name} was measured: remove {FOLDER / row_file}.json to measure it again")
        rows |= load(row_file)["rows"]
    print(tables.objectives(rows))
    save_run(path, SEEDS, t_interval(SEEDS), rows)


if __name__ == "__main__":
    main()
