"""python -m evidence.experiments.harder DESK ARM SEED: how much must a model already know?

The refund desk as in ground.py, with numbers of three sizes (evidence/desks.py). The larger they
are, the fewer of the thoughts that SmolLM2 writes are right:

    refund_small   prices from 3 to 10, quantities from 3 to 8, fees from 1 to 8
    refund         ground.py's: prices from 4 to 15, quantities from 3 to 9, fees from 1 to 9
    refund_large   prices from 11 to 30, quantities from 3 to 9, fees from 1 to 9

At each desk:

    base                  draws 16 thoughts of each of 120 logs, at temperature 1: how many are
                          right?
    act_prm               ground.py's
    repeated              ground.py's: four rounds of choosing with as many thoughts
    repeated_longer       the same with twice as many thoughts, so that it would take as long as
                          act_prm
    best_of_base_matched  ground.py's: choosing once with as many thoughts. It was added when the
                          others were known

`success` is as in ground.py; `right` is the share of the base's drawn thoughts that are right in
every step. A run ends early where nothing is left to learn from: no thought earned .5, none could
be read, or no group of thoughts had two rewards. It counts with the success of the base, whatever
it had trained until then, and `early` says how many there are. `wrong` is the share of the kept
logs whose thought is not right, seed by seed. Without DESK, ARM and SEED the runs that are there
are joined: add `--json FILE`.

Written before the runs, when the base alone had been asked, and of the middle desk act_prm and two
seeds of repeated were known. "Learning reaches further down" is false if at refund_large act_prm is
not above repeated_longer by more than the intervals over three seeds. "With small numbers choosing
is as good" is false if at refund_small act_prm is above repeated by more than the intervals. "More
thoughts mend choosing" is false if at no desk repeated_longer is above repeated by more than the
intervals.
"""

import sys
import time
from dataclasses import replace

from evidence import desks, tables
from evidence.experiments import ground
from evidence.experiments.contact import asked
from evidence.experiments.ground import INTERVAL, SEEDS, TEST
from evidence.results import rows_of_seeds, save_run, save_seed, take_json_flag
from examples import refund
from minprm.commands.presets import PRESETS
from minprm.constants import Refused
from minprm.load.threads import set_threads
from minprm.logs.reader import from_chat
from minprm.report.files import RUNS
from minprm.report.table import interval
from minprm.stages.act_prm import walk_logs

DESKS = ("refund_small", "refund", "refund_large")
ARMS = ("best_of_base_matched", "repeated", "repeated_longer", "act_prm")
LOGS, DRAWN = 120, 16  # thoughts are drawn of each of these logs


def drawn(desk: str) -> dict[str, float]:
    """Of thoughts that the base writes: the share that is right, their mean reward, and the share
    of logs for which one of them is right."""
    set_threads("", 1)
    folder = RUNS / f"evidence-harder-logs/{desk}"
    experts = desks.DESKS[desk](0)
    examples, logs = experts[: desks.EXAMPLES[desk]], experts[-LOGS:]
    folder.mkdir(parents=True, exist_ok=True)
    refund.write(logs, folder / "refund.jsonl")
    agent = asked(folder, examples)
    cfg = replace(PRESETS["small"].act_prm, group=DRAWN)
    _, groups = walk_logs(agent, [from_chat(log) for log in logs], cfg, 0)
    right = []
    rewards = []
    for group, log in zip(groups, logs, strict=True):
        expert = log["messages"][-1]["reasoning_content"]
        texts = [agent.chat.text(thought.ids) for thought in group.thoughts]
        right.append([desks.is_right(expert, text) for text in texts])
        rewards += [thought.reward for thought in group.thoughts]
    return {
        "right": sum(map(sum, right)) / (LOGS * DRAWN),
        "reward": sum(rewards) / len(rewards),
        "logs": sum(map(any, right)) / LOGS,
    }


def run(desk: str, arm: str, seed: int) -> dict:
    """The row of one run."""
    began = time.monotonic()
    try:
        row = ground.run(desk, arm, seed)
    except Refused:  # it has said why
        return {"stopped": True, "seconds": time.monotonic() - began}
    if arm == "base":
        row["drawn"] = drawn(desk)
    return row


def joined() -> dict[str, dict]:
    """Of each desk and arm what its seeds measured, as far as their runs are there."""
    rows = {}
    for desk in DESKS:
        for base in rows_of_seeds(f"harder/{desk}-base", [0]):
            rows[f"{desk} | base"] = row_of([base], base) | base["drawn"]
            for arm in ARMS:
                runs = []
                for seed in SEEDS:
                    own = rows_of_seeds(f"harder/{desk}-{arm}", [seed])
                    runs += own or rows_of_seeds(f"ground/{desk}-{arm}", [seed])
                if runs:
                    rows[f"{desk} | {arm}"] = row_of(runs, base)
    return rows


def row_of(runs: list[dict], base: dict) -> dict:
    """A run that ended early has the success of the base."""
    values = [run.get("success", base["success"]) for run in runs]
    mean, low, high = interval([{"success": value, "tasks": TEST} for value in values])
    kept = [run["kept"] for run in runs if run.get("kept")]
    return {
        "wrong": [1 - logs["right"] / logs["logs"] for logs in kept],
        "success": {"mean": mean, "low": low, "high": high, "values": values},
        "early": sum("stopped" in run for run in runs),
        "seconds": [run["seconds"] for run in runs],
    }


def main() -> None:
    path = take_json_flag()
    if len(sys.argv) == 4:
        desk, arm, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
        save_seed(path, f"harder/{desk}-{arm}", seed, run(desk, arm, seed))
        return
    rows = joined()
    print(tables.harder(rows))
    save_run(path, SEEDS, INTERVAL, rows)


if __name__ == "__main__":
    main()
