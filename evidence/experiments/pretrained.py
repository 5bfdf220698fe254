"""python -m evidence.experiments.pretrained ARM SEED: does a pretrained model learn to think?

SmolLM2-135M-Instruct, 160 logs of a refund desk that hold actions alone (examples/refund.py), and
`--preset small` as it stands. Three logs have a thought: they are the examples that the model reads
until it is fine-tuned. Each arm and seed is a run of its own, then `minprm evaluate` asks its
checkpoint for the actions of 150 further logs, no combination of numbers among them trained on.
The seed draws the training logs, the held-out logs, and all noise. Without ARM and SEED the runs
that are there are joined into one file: `python -m evidence.experiments.pretrained --json FILE`.

Written before the runs. Success is the share of the 150 actions that are the expert's, greedy.
The sentence "Act-PRM teaches a pretrained model to think" is false if, on three seeds,
- success of act_prm is not above that of action_sft by more than their intervals,
- or is below six tenths of expert_thoughts, the same fine-tuning on the expert's own thoughts,
- or the held-out p(expert's action | thought) does not reach three times its start.
Two rivals draw as many thoughts as Act-PRM does, without learning: best_of_base_matched leaves out
logs whose thought earns less than .5, as act_prm does, and all_kept leaves out none. Whether
learning is ahead of choosing is open: one sketch in another program had .42 against .35.
"""

import sys
from pathlib import Path

from evidence.results import rows_of_seeds, save_run, save_seed, take_json_flag
from examples import refund
from examples.smollm2 import smollm2
from minprm.arms.evaluation import replay_summary
from minprm.commands.ask import PROGRAM, Evaluation, as_trained, configured
from minprm.commands.cli import given_knobs, read_flags
from minprm.commands.playing import answer_checkpoint
from minprm.commands.train import CHECKPOINTS, go_on
from minprm.constants import Config
from minprm.logs.reader import read_demos
from minprm.report.files import RUNS
from minprm.report.table import interval, wilson

SEEDS = [0, 1, 2]
INTERVAL = "95 %: t over seeds; where seeds agree, or there is one, Wilson's over the 150 logs"
ARMS = {
    "base": "--arms base",
    "action_sft": "--arms action_sft",
    "best_of_base_matched": "--arms best_of_base_matched",
    "all_kept": "--arms best_of_base_matched --relabel.min-reward 0",
    "act_prm": "--arms act_prm",
    "expert_thoughts": "--arms expert_thoughts",
}


def measured(arm: str, seed: int, folder: Path) -> dict:
    """The row of one run. A run that was interrupted goes on."""
    name = f"evidence-pretrained-{arm}-{seed}"
    logs = "thoughts" if arm == "expert_thoughts" else "refund"
    flags = f"--preset small --model {smollm2()} --demos {folder / logs}.jsonl {ARMS[arm]}"
    if arm not in ("action_sft", "expert_thoughts"):  # in which the base writes nothing
        flags += f" --few-shot {folder / 'examples.jsonl'}"
    ladder, metrics = go_on(name, f"{flags} --seeds {seed}".split())
    ((trained, (row,)),) = ladder.items()
    answers = evaluated(CHECKPOINTS / name / f"{trained}-{seed}", folder / "test.jsonl")
    looks = [line["eval/held_out_reward"] for line in metrics if "eval/held_out_reward" in line]
    return {"success": answers["success"], "run": row, "test": answers, "held_out": looks}


def evaluated(checkpoint: Path, test: Path) -> dict:
    """What `minprm evaluate CHECKPOINT --demos TEST` measures."""
    demos, _ = read_demos(str(test))
    written = answer_checkpoint(demos, *asked([str(checkpoint), "--demos", str(test)]))
    return replay_summary(*written)


def asked(argv: list[str]) -> tuple[Config, Evaluation]:
    """What `minprm evaluate ARGV` asks of its one checkpoint: the configuration, and the flags."""
    flags = read_flags(Evaluation, argv, PROGRAM)
    ((path, evaluation),) = as_trained(flags, argv, given_knobs(argv)).items()
    return configured(path, evaluation), flags


def joined() -> dict[str, dict]:
    """A row for each arm, over the seeds whose runs are there. The base needs one seed."""
    rows = {}
    for arm in ARMS:
        runs = rows_of_seeds(f"pretrained/{arm}", SEEDS)
        if not runs:
            continue
        tests = [run["test"] for run in runs]
        values = [row["success"] for row in tests]
        mean, low, high = interval(tests)
        if len({*values}) == 1:  # seeds that do not differ are not without error
            low, high = wilson(mean, tests[0]["logs"])
        rows[arm] = {
            "mean": mean, "low": low, "high": high, "seeds": [run["run"]["seed"] for run in runs],
            "values": values,
            "likelihood": [row["likelihood"] for row in tests],
            "held_out": [run["held_out"] for run in runs],
            "seconds": [run["run"]["seconds"] for run in runs],
        }  # fmt: skip
    return rows


def main() -> None:
    path = take_json_flag()
    if len(sys.argv) == 3:
        arm, seed = sys.argv[1], int(sys.argv[2])
        folder = RUNS / f"evidence-pretrained-logs/{arm}-{seed}"  # two may be started at once
        refund.write(refund.write_all(folder, seed=0), folder / "thoughts.jsonl")
        row = measured(arm, seed, folder)
        save_seed(path, f"pretrained/{arm}", seed, row)
    else:
        save_run(path, SEEDS, INTERVAL, joined())


if __name__ == "__main__":
    main()
