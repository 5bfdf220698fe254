"""python -m evidence.experiments.wrong_ways ARM SEED: are right ends reached by wrong ways?

The expert's `refund 58` is as probable after `8 x 8 = 64, 64 - 1 = 58.` as after the right sums,
and Act-PRM pays both. Of the logs that it keeps, how many have a thought whose sums are wrong? The
refund desk as in ground.py, with two other rewards:

    act_prm_another   less the probability of another log's action after the same thought; 0 at
                      least
    act_prm_likely    nothing for a thought with a token that the model itself found less likely
                      than .1 when it drew it

Beside them stand ground.py's runs: `act_prm`, `act_prm_mean`, and `best_of_base_matched`, which is
what the base writes before it learns. `wrong` is the share of the logs that are kept whose thought
is not right; the others are as there. Without ARM and SEED the runs that are there are joined: add
`--json FILE`.

Written before the runs of the two rewards. The bound of .1 was chosen by what the base writes about
64 logs of seed 0, 24 thoughts each: 77 earn .5, and 10 of these are wrong. Such a token stands in 9
of the 10, and in 8 of the 67 that are right. "A wrong sum holds an unlikely token" is false if
`wrong` of act_prm_likely is not below that of act_prm by more than the intervals over three seeds.
"Another log's action does not tell" is false if `wrong` of act_prm_another is below it by as much.
"Neither costs wins": false if one of the two wins less than act_prm by more than the intervals.
"""

import math
import sys
from collections.abc import Callable

from evidence import tables
from evidence.experiments.ground import SEEDS, answered, kept, summary, write_logs
from evidence.experiments.pretrained import CHECKPOINTS
from evidence.results import over_seeds, rows_of_seeds, save_run, save_seed, take_json_flag
from examples.smollm2 import smollm2
from minprm.commands.train import go_on
from minprm.constants import ActPRM
from minprm.data import Sample
from minprm.model.agent import Agent
from minprm.model.trunks import Trunks
from minprm.report.files import RUNS
from minprm.stages import act_prm

LEAST = 0.1
INTERVAL = "95 %: t over seeds"
BESIDE = ["best_of_base_matched", "act_prm", "act_prm_mean"]  # of ground.py
plain_score = act_prm.score


def another(
    groups: list[act_prm.Group], agent: Agent, cfg: ActPRM, seed: int, trunks: Trunks
) -> None:
    """`score`, less the probability of the action of the next log that has another one."""
    plain_score(groups, agent, cfg, seed, trunks)
    chat = agent.chat
    thoughts, samples = [], []
    for i, group in enumerate(groups):
        actions = [other.action for other in [*groups[i:], *groups[:i]]]
        others = [action for action in actions if action != group.action]
        for z in group.thoughts:
            if z.usable and others:
                turn = chat.opening(z.ids)
                thoughts.append(z)
                sample = Sample(parent=z.path.history).extend(turn)
                samples.append(sample.extend(others[0], 0.0))
    for z, logp in zip(thoughts, agent.policy.logprobs(samples), strict=True):
        z.reward = max(z.reward - logp.sum().exp().item(), 0.0)


def likely(
    groups: list[act_prm.Group], agent: Agent, cfg: ActPRM, seed: int, trunks: Trunks
) -> None:
    """`score`, and 0 for a thought with an unlikely token."""
    plain_score(groups, agent, cfg, seed, trunks)
    for group in groups:
        for z in group.thoughts:
            if min(z.logprobs) < math.log(LEAST):
                z.reward = 0.0


REWARDS: dict[str, Callable] = {"act_prm_another": another, "act_prm_likely": likely}


def run(arm: str, seed: int) -> dict:
    """The row of one run."""
    act_prm.score = REWARDS[arm]
    folder = RUNS / f"evidence-wrong_ways-logs/{arm}-{seed}"
    thoughts = write_logs("refund", arm, folder)
    name = f"evidence-wrong_ways-{arm}-{seed}"
    flags = f"--preset small --model {smollm2()} --arms act_prm --seeds {seed}"
    flags += f" --demos {folder / 'logs.jsonl'} --few-shot {folder / 'examples.jsonl'}"
    ladder, _ = go_on(name, flags.split())
    answers = answered(CHECKPOINTS / name / f"act_prm-{seed}", folder / "test.jsonl")
    seconds = ladder["act_prm"][0]["seconds"]
    return {
        **summary(answers, thoughts), "kept": kept(RUNS / name, "refund"), "seconds": seconds,
    }  # fmt: skip


def joined() -> dict[str, dict]:
    """Of each reward what its seeds measured, as far as their runs are there."""
    rows = {}
    for arm in [*BESIDE, *REWARDS]:
        folder = "wrong_ways/" if arm in REWARDS else "ground/refund-"
        runs = rows_of_seeds(f"{folder}{arm}", SEEDS)
        if runs:
            logs = [run["kept"]["logs"] for run in runs]
            wrong = [1 - run["kept"]["right"] / run["kept"]["logs"] for run in runs]
            success = [run["success"] for run in runs]
            rows[arm] = {"success": over_seeds(success), "wrong": over_seeds(wrong), "logs": logs}
    return rows


def main() -> None:
    path = take_json_flag()
    if len(sys.argv) == 3:
        arm, seed = sys.argv[1], int(sys.argv[2])
        save_seed(path, f"wrong_ways/{arm}", seed, run(arm, seed))
        return
    rows = joined()
    print(tables.wrong_ways(rows))
    save_run(path, SEEDS, INTERVAL, rows)


if __name__ == "__main__":
    main()
