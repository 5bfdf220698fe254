"""python -m evidence.experiments.logs_errand: how many logs does it take where credit must travel?

Errand, from 2 logs to 512, with the bases that come with minprm and the preset as it is. Its bases
have good thoughts in plenty; what is hard is that all thoughts of a log have to agree. The sentence
"a handful of logs is enough" is false if success at 8 logs is well below that at 512, and "learning
needs fewer logs than selecting" is false if the best of the base comes as far with as few.

Whatever the logs are, Act-PRM takes 30 updates of 8 logs with 16 thoughts a step. Then it draws 16
thoughts a step to write the best path of a log down; best_of_base_resampled draws these alone. So
it is asked again with as many as Act-PRM draws in all: 1,936 a step of 2 logs, 24 a step of 512.
Each fine-tuning takes 40 updates of 16 logs, or one pass more where passes do not come out even: 64
for 512 logs. Logs with a thought below the preset's least reward are left out of it.
"""

import math

from evidence import tables
from evidence.experiments.runs import by_each, successes
from evidence.results import save_run, t_interval, take_json_flag

SEEDS = [3, 4, 5]
SIZES = (2, 8, 32, 128, 512)
ARMS = "action_sft best_of_base_resampled act_prm_resampled expert_thoughts"
DRAWN = 30 * 8 * 16  # thoughts of Act-PRM's training, for each step of a log
MATCHED = "best_of_base_resampled, as many drawn"


def flags(logs: int) -> str:
    """Errand with so many logs, and with the passes over them that 40 updates need."""
    return f"--preset errand --num-demos {logs} --sft.epochs {math.ceil(40 * 16 / logs)}"


def matched(logs: int) -> str:
    """The same, with as many thoughts of the base as Act-PRM draws in all."""
    group = 16 + math.ceil(DRAWN / logs)
    return f"{flags(logs)} --relabel.group {group} --arms best_of_base_resampled"


def measured(logs: int) -> dict[str, dict]:
    """Rows of one number of logs."""
    rows = successes(f"logs-errand-{logs}", f"{flags(logs)} --arms {ARMS}", SEEDS)
    more = successes(f"logs-errand-{logs}-matched", matched(logs), SEEDS)
    return {**rows, MATCHED: more["best_of_base_resampled"]}


def main() -> None:
    path = take_json_flag()
    rows = by_each("logs", SIZES, measured)
    print(tables.successes(rows))
    save_run(path, SEEDS, t_interval(SEEDS), rows)


if __name__ == "__main__":
    main()
