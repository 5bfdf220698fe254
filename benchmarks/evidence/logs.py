"""python -m benchmarks.evidence.logs: how many logs does it take?

Cups, from 8 logs to 1,024. Each number of logs holds those of the smaller ones. The sentence "logs
of actions alone are enough for Act-PRM, and few of them" is false if SFT on actions catches up
where logs are many, or if Act-PRM needs many more logs than the world's own explanations do.

Whatever the logs are, Act-PRM takes 80 updates of 8 logs and so draws 15,360 thoughts in training,
and 12 a log to write the best ones down; best_of_base_matched draws as many in all, which is 644 a
step of 8 logs and 9 a step of 1,024. Each fine-tuning takes 80 updates of 16 logs, or one pass
more where passes do not come out even: 96 for 512 logs, 128 for 1,024. SFT on actions could want
more of them: so it is asked again with ten passes, which are 640 updates for 1,024 logs.
"""

import math

from benchmarks.evidence.runs import SEEDS, base, recipe, successes
from docs import tables
from docs.results import save_run, t_interval, take_json_flag

SIZES = (8, 16, 32, 64, 128, 256, 512, 1024)
ARMS = "action_sft best_of_base_matched act_prm expert_thoughts"
UPDATES = 80  # of fine-tuning, at least
BATCH = 16  # logs in one of them
TEN = "action_sft, ten passes"


def flags(logs: int) -> str:
    """The recipe with so many logs, and with the passes over them that its updates need."""
    passes = math.ceil(UPDATES * BATCH / logs)
    told = recipe().replace("--sft.epochs 10", f"--sft.epochs {passes}")
    return f"{base()} {told} --num-demos {logs} --arms {ARMS}"


def ten_passes(logs: int) -> str:
    return f"{base()} --sft.epochs 10 --num-demos {logs} --arms action_sft"


def measured(logs: int) -> dict[str, dict]:
    """Rows of one number of logs."""
    rows = successes(f"logs-{logs}", flags(logs))
    if 10 * logs > UPDATES * BATCH:
        rows[TEN] = successes(f"logs-{logs}-ten", ten_passes(logs))["action_sft"]
    return rows


def main() -> None:
    path = take_json_flag()
    rows = {}
    for logs in SIZES:
        for arm, row in measured(logs).items():
            rows[f"{logs} | {arm}"] = {"logs": logs, "arm": arm, **row}
    print(tables.successes(rows))
    save_run(path, SEEDS, t_interval(SEEDS), rows)


if __name__ == "__main__":
    main()
