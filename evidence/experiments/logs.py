"""python -m evidence.experiments.logs: how many logs does it take?

Cups, from 8 logs to 1,024. Each number of logs holds those of the smaller ones. The sentence "logs
of actions alone are enough for Act-PRM, and few of them" is false if SFT on actions catches up
where logs are many, or if Act-PRM needs many more logs than the world's own explanations do.

Whatever the logs are, Act-PRM takes 80 updates of 8 logs and so draws 15,360 thoughts in training,
and 12 a log to write the best ones down; best_of_base_matched draws as many in all, which is 644 a
step of 8 logs and 9 a step of 1,024. Each fine-tuning takes 80 updates of 16 logs, or one pass
more where passes do not come out even: 96 for 512 logs, 128 for 1,024.

Two more rows, where they could matter. SFT on actions with ten passes: 640 updates for 1,024 logs.
And Act-PRM that goes back to the weights of the best of its looks, by the reward of thoughts for 16
held-out logs: on a validation seed, 80 updates on 8 logs were too many. `right`: the share of an
arm's relabelled logs in which every thought is the world's own.
"""

import math

from evidence import tables
from evidence.experiments import right_thoughts
from evidence.experiments.runs import SEEDS, base, by_each, recipe, successes
from evidence.results import save_run, t_interval, take_json_flag
from minprm.report.files import RUNS

SIZES = (8, 16, 32, 64, 128, 256, 512, 1024)
ARMS = "action_sft best_of_base_matched act_prm expert_thoughts"
UPDATES, BATCH = 80, 16  # of fine-tuning, at least; and logs in one of them
TEN = "action_sft, ten passes"
BEST_LOOK = "act_prm, best look"


def flags(logs: int, **changed) -> str:
    """The recipe with so many logs, and with the passes over them that its updates need; `changed`
    are knobs of the recipe."""
    passes = math.ceil(UPDATES * BATCH / logs)
    return f"{base()} {recipe(passes, **changed)} --num-demos {logs}"


def ten_passes(logs: int) -> str:
    return f"{base()} --sft.epochs 10 --num-demos {logs} --arms action_sft"


def best_look(logs: int) -> str:
    """--act-prm.patience takes more looks than there are: it never stops, but it goes back."""
    return f"{flags(logs)} --act-prm.patience 10 --arms act_prm"


def measured(logs: int) -> dict[str, dict]:
    """Rows of one number of logs."""
    name = f"logs-{logs}"
    rows = with_right(name, f"{flags(logs)} --arms {ARMS}")
    if logs > 128:
        rows[TEN] = successes(f"{name}-ten", ten_passes(logs))["action_sft"]
    if logs < 128:
        rows[BEST_LOOK] = with_right(f"{name}-look", best_look(logs))["act_prm"]
    return rows


def with_right(name: str, told: str) -> dict[str, dict]:
    """Rows of one run; where thoughts were written down, with the share of logs that are right."""
    rows = successes(name, told)
    config = {"world": "cups", "world_args": [], "seeds": SEEDS, "arms": ARMS.split()}
    for arm, found in right_thoughts.measured(RUNS / f"evidence-{name}", config).items():
        rows[arm]["right"] = found["values"]
    return rows


def main() -> None:
    path = take_json_flag()
    rows = by_each("logs", SIZES, measured)
    print(tables.successes(rows))
    save_run(path, SEEDS, t_interval(SEEDS), rows)


if __name__ == "__main__":
    main()
