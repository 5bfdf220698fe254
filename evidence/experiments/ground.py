"""python -m evidence.experiments.ground DESK ARM SEED: where do thoughts help a pretrained model?

SmolLM2-135M-Instruct at three desks of a shop (evidence/desks.py), by `--preset small` as it
stands, which was made on the first of them: nothing is tuned on the others. 160 logs of actions, of
which 120 are learned from; examples with thoughts (three; four for `returns`, one of each kind),
which the model reads until it is fine-tuned; 200 further logs as the test. Each desk, arm and seed
is a run of its own, and one that was interrupted goes on. The seed draws the training and held-out
logs, and all noise. Without DESK, ARM and SEED the runs that are there are joined: add
`--json FILE`.

    action_sft_all        SFT on the actions of all logs but those of the test, three times as many
    best_of_base_matched  choosing: the base's best of as many thoughts as act_prm draws; a log
                          whose thought earns less than .5 is left out, in act_prm too
    all_kept              the same, and no log is left out
    repeated              choosing in four rounds, a quarter of the thoughts in each
    repeated_longer       the same with twice as many thoughts (harder.py)
    rl                    no logs: the 160 are played as tasks, and an answer that is the expert's
                          earns 1. Updates, tasks, episodes and learning rate are act_prm's
    expert_shuffled       the expert's thoughts, each in the log of another question
    act_prm_mean          the reward is the geometric mean over the action's tokens, and not their
                          product: so it is in the presets for larger models

Measured: `success`, the share of test logs all of whose actions are the expert's, greedy;
`right`, the share of its last thoughts that are right in every step; `paid`, the share whose action
is the expert's without a right thought; `held_out`, the mean p(action | thought) while
act_prm learns; and `kept`, of the logs that the last fine-tuning learned from: how many there are,
how many have a right thought, and, at `returns`, in how many the thought says that it is food, by
the action. (The last was added when seed 0 had been seen.)

Written before the runs, when of the two new desks the base alone had been seen. Of each desk:
"thoughts help" is false if act_prm is not above action_sft_all by more than their intervals over
three seeds. "They help where something must be computed": false if they do not help at `orders`, or
if they help at `returns`, where two words are to choose from. "A reward of the action does not
teach the facts": false if at `returns` the share of right thoughts of act_prm is above the base's
by more than their intervals.

Written before its runs, when all other arms of `refund` but the choosing ones were known: "the mean
pays wrong thoughts, too" is false if of the logs that act_prm_mean keeps the share with a right
thought is, over three seeds, not below that of act_prm by more than the intervals. "It teaches
less" is false if act_prm_mean does not win less than act_prm by more than the intervals.

Written before the runs of rl and expert_shuffled, at `refund` alone. "What a thought says matters,
and not that there is one" is false if expert_shuffled does not win less than expert_thoughts by
more than the intervals. "A probability teaches more than a win" is false if rl does not win less
than act_prm by more than the intervals.

Written before the runs of all_kept at the two other desks: "without its bound choosing finds at
`orders` what learning finds" is false if all_kept wins less than act_prm there by more than the
intervals. "Bad thoughts cost nothing where there are two words to choose from" is false if at
`returns` all_kept wins less than best_of_base_matched by more than the intervals.
"""

import re
import sys
from pathlib import Path
from statistics import fmean

from evidence import desks, tables
from evidence.experiments.pretrained import CHECKPOINTS, asked
from evidence.results import rows_of_seeds, save_run, save_seed, take_json_flag
from examples import refund
from minprm.arms.evaluation import Answer
from minprm.commands.playing import answer_checkpoint
from minprm.commands.train import go_on
from minprm.logs.reader import read_demos
from minprm.report.files import RUNS
from minprm.report.table import interval
from minprm.text.actions import exact_match

SEEDS = [0, 1, 2]
INTERVAL = "95 %: t over seeds; where there is one, or seeds agree, Wilson's over the 200 logs"
LOGS, TEST = 160, 200
REPEATED = "relabel sft:thoughts " * 4
ARMS = {
    "base": "--arms base",
    "action_sft": "--arms action_sft",
    "action_sft_all": "--arms action_sft",
    "best_of_base_matched": "--arms best_of_base_matched",
    "all_kept": "--arms best_of_base_matched --relabel.min-reward 0",
    "repeated": f"--stages {REPEATED}--relabel.group 5",
    "repeated_longer": f"--stages {REPEATED}--relabel.group 10",
    "act_prm": "--arms act_prm",
    "act_prm_mean": "--arms act_prm --act-prm.reward action_prob_mean",
    "rl": "--arms rl --rl.updates 30 --rl.batch 8 --rl.group 8 --rl.lr 1e-5 --world text",
    "expert_thoughts": "--arms expert_thoughts",
    "expert_shuffled": "--arms expert_thoughts",
}
EXPERTS = ("expert_thoughts", "expert_shuffled")
READS_NOTHING = ("action_sft", "action_sft_all", *EXPERTS)  # the base writes nothing there


def write_logs(desk: str, arm: str, folder: Path) -> list[str]:
    """Writes examples, logs, the same logs as tasks, and the test. Returns the expert's last
    thought in each log of the test."""
    folder.mkdir(parents=True, exist_ok=True)
    logs = desks.DESKS[desk](0)
    first = desks.EXAMPLES[desk]
    examples, test, others = logs[:first], logs[first : first + TEST], logs[first + TEST :]
    if arm != "action_sft_all":
        others = others[:LOGS]
    if arm not in EXPERTS:
        others = [refund.without_thoughts(log) for log in others]
    if arm == "expert_shuffled":
        others = [with_thought(log, others[i - 1]) for i, log in enumerate(others)]
    refund.write([task(log) for log in others], folder / "tasks.jsonl")
    refund.write(examples, folder / "examples.jsonl")
    refund.write(others, folder / "logs.jsonl")
    refund.write([refund.without_thoughts(log) for log in test], folder / "test.jsonl")
    return [log["messages"][-1]["reasoning_content"] for log in test]


def with_thought(log: dict, other: dict) -> dict:
    """The log with the last thought of another one."""
    *before, last = log["messages"]
    thought = other["messages"][-1]["reasoning_content"]
    return log | {"messages": [*before, last | {"reasoning_content": thought}]}


def task(log: dict) -> dict[str, str]:
    """The log as a task of the world `text`, for which its last action is the answer."""
    system, prompt, *_, last = (message["content"] for message in log["messages"])
    return {"system": system, "prompt": prompt, "reference": last}


def run(desk: str, arm: str, seed: int) -> dict:
    """The row of one run."""
    folder = RUNS / f"evidence-ground-logs/{desk}-{arm}-{seed}"
    thoughts = write_logs(desk, arm, folder)
    name = f"evidence-ground-{desk}-{arm}-{seed}"
    flags = f"--preset small --model {desks.model(desk, folder / 'model')} {ARMS[arm]}"
    learned = f"--demos {folder / 'logs.jsonl'}"
    if arm == "rl":
        learned = f"--world-args file={folder / 'tasks.jsonl'}"
    flags += f" {learned} --seeds {seed}"
    if arm not in READS_NOTHING:
        flags += f" --few-shot {folder / 'examples.jsonl'}"
    ladder, metrics = go_on(name, flags.split())
    for played in ("random", "expert"):  # rows of a world
        ladder.pop(played, None)
    ((trained, (row,)),) = ladder.items()
    answers = answered(CHECKPOINTS / name / f"{trained}-{seed}", folder / "test.jsonl")
    looks = [line["eval/held_out_reward"] for line in metrics if "eval/held_out_reward" in line]
    return {
        **summary(answers, thoughts), "kept": kept(RUNS / name, desk), "held_out": looks,
        "seconds": row["seconds"],
    }  # fmt: skip


def answered(checkpoint: Path, test: Path, *more: str) -> list[list[Answer]]:
    """What the checkpoint writes at each step of each test log. more: other flags of evaluate."""
    cfg, flags = asked([str(checkpoint), "--demos", str(test), *more])
    demos, _ = read_demos(str(test))
    fit, written = answer_checkpoint(demos, cfg, flags)
    answers = [[] for _ in fit]
    for answer in written:
        answers[answer.log].append(answer)
    return answers


def summary(answers: list[list[Answer]], thoughts: list[str]) -> dict[str, float]:
    """thoughts: of the expert, at the last step of each log."""
    won, right, paid = [], [], []
    for log, thought in zip(answers, thoughts, strict=True):
        won.append(all(exact_match(answer.action, answer.step.action) for answer in log))
        last = log[-1]
        right.append(desks.is_right(thought, last.thought or ""))
        paid.append(exact_match(last.action, last.step.action) and not right[-1])
    n = len(answers)
    likelihoods = [log[-1].likelihood for log in answers]
    return {
        "success": sum(won) / n, "right": sum(right) / n, "paid": sum(paid) / n,
        "likelihood": sum(likelihoods) / n,
    }  # fmt: skip


def kept(folder: Path, desk: str) -> dict | None:
    """What the last logs that a run relabelled are. None: it relabelled none."""
    files = sorted(folder.glob("relabelled-*.jsonl"), key=lambda file: len(file.name))
    if not files:
        return None
    expert = {}
    for log in desks.DESKS[desk](0):
        expert[read(log["messages"])] = log["messages"][-1]["reasoning_content"]
    demos, _ = read_demos(str(files[-1]))
    row = {"logs": len(demos), "right": 0}
    for demo in demos:
        last = demo.steps[-1]
        row["right"] += desks.is_right(expert[read(demo.messages)], last.thought or "")
        if desk == "returns":
            food = "food" if re.search(r"(?<!no )(?<!not )food", last.thought or "") else "no food"
            said = f"{last.action}, {food}"
            row[said] = row.get(said, 0) + 1
    return row


def read(messages: list[dict]) -> str:
    """What the agent has read in a log, by which it is known."""
    return "\n".join(m["content"] for m in messages if m["role"] in ("user", "tool"))


def joined() -> dict[str, dict]:
    """Of each desk and arm what its seeds measured, as far as their runs are there."""
    rows = {}
    for desk in desks.DESKS:
        for arm in ARMS:
            runs = rows_of_seeds(f"ground/{desk}-{arm}", SEEDS)
            if runs:
                values = [run["success"] for run in runs]
                tests = [{"success": value, "tasks": TEST} for value in values]
                mean, low, high = interval(tests)
                row = {"mean": mean, "low": low, "high": high, "values": values}
                for key in ("right", "paid", "likelihood", "kept", "held_out", "seconds"):
                    row[key] = [run[key] for run in runs]
                row["means"] = {key: fmean(row[key]) for key in ("right", "paid")}
                rows[f"{desk} | {arm}"] = row
    return rows


def main() -> None:
    path = take_json_flag()
    if len(sys.argv) == 4:
        desk, arm, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
        save_seed(path, f"ground/{desk}-{arm}", seed, run(desk, arm, seed))
        return
    rows = joined()
    print(tables.ground(rows))
    save_run(path, SEEDS, INTERVAL, rows)


if __name__ == "__main__":
    main()
