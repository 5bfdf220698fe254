"""python -m evidence.experiments.few_shot ARM SEED: what do examples give a pretrained model?

SmolLM2-135M-Instruct and the refund desk of pretrained.py. What differs is what the model reads
before a question: one, three or eight solved questions of the desk with their thoughts; three of
other questions; or the instruction alone, which the others read as well. Then ten updates of
Act-PRM, as in `--preset small`. The seed draws the examples (the three begin with the one, the
eight with the three), the training and held-out logs, and all noise. Measured is the held-out
reward: the mean p(expert's action | thought) on 40 logs, eight thoughts each, before and after.
The first look comes after the first update, so that is what "before" says. Without ARM and SEED the
runs that are there are joined: add `--json FILE`.

Written before the runs. "More examples raise the start" is false if on a seed eight begin lower
than one. "Learning makes up for examples" is false if after ten updates one example has less than
eight tenths of what eight have, in the mean over the seeds. "Without examples of the desk nothing
is learned" is false if a run of the other two arms ends above .01.
"""

import sys
from pathlib import Path

from evidence import tables
from evidence.experiments.contact import OTHER
from evidence.results import file_of, rows_of_seeds, save_run, save_seed, take_json_flag
from examples import refund
from examples.smollm2 import smollm2
from minprm.commands.train import go_on
from minprm.constants import Refused
from minprm.report.files import RUNS, read_lines

SEEDS = [0, 1, 2]
ARMS = {
    "instruction": 0, "3 of other questions": 0, "1 example": 1, "3 examples": 3, "8 examples": 8,
}  # fmt: skip
UPDATES = 10
USED = refund.EXAMPLES + refund.LOGS + refund.TEST  # the examples are drawn from the logs after


def shown(arm: str, seed: int) -> list[dict]:
    """The logs with thoughts that the model reads."""
    if arm == "3 of other questions":
        return [refund.conversation(*words) for words in OTHER]
    first = USED + seed * max(ARMS.values())
    return refund.conversations(seed=0)[first : first + ARMS[arm]]


def measured(arm: str, seed: int, folder: Path) -> dict:
    """Held-out reward at the two looks, and of each update the share of thoughts without an end."""
    refund.write_all(folder, seed=0)
    flags = f"--preset small --model {smollm2()} --demos {folder / 'refund.jsonl'} --stages act_prm"
    flags += f" --act-prm.updates {UPDATES} --eval-every {UPDATES} --seeds {seed}"
    examples = shown(arm, seed)
    if examples:
        refund.write(examples, folder / "examples.jsonl")
        flags += f" --few-shot {folder / 'examples.jsonl'}"
    run = f"evidence-few-shot-{file_of(arm)}-{seed}"
    stopped = False
    try:
        go_on(run, flags.split())
    except Refused:  # updates without anything to compare end a run
        stopped = True
    metrics = read_lines(RUNS / run / "metrics.jsonl")
    looks = [line["eval/held_out_reward"] for line in metrics if "eval/held_out_reward" in line]
    unclosed = [line["policy/unclosed"] for line in metrics if "policy/unclosed" in line]
    return {
        "before": looks[0], "after": None if stopped else looks[-1], "unclosed": unclosed,
        "seconds": sum(line.get("time/sample", 0) + line.get("time/update", 0) for line in metrics),
    }  # fmt: skip


def joined() -> dict[str, dict]:
    """Of each arm what its seeds measured, as far as their runs are there."""
    rows = {}
    for arm in ARMS:
        runs = rows_of_seeds(f"few_shot/{file_of(arm)}", SEEDS)
        if runs:
            unclosed = [[run["unclosed"][i] for i in (0, -1)] for run in runs]
            rows[arm] = {key: [run[key] for run in runs] for key in ("before", "after")}
            rows[arm]["unclosed"] = unclosed
    return rows


def main() -> None:
    path = take_json_flag()
    if len(sys.argv) == 3:
        arm, seed = sys.argv[1], int(sys.argv[2])
        folder = RUNS / f"evidence-few-shot-logs/{file_of(arm)}-{seed}"
        save_seed(path, f"few_shot/{file_of(arm)}", seed, measured(arm, seed, folder))
        return
    rows = joined()
    print(tables.few_shot(rows))
    save_run(path, SEEDS, "none: every seed that has run is given", rows)


if __name__ == "__main__":
    main()
