"""python -m evidence.experiments.ablations: Act-PRM with one thing changed, on one round of cups.

Prints, for three seeds: success of `act_prm` on test tasks, and at the end of learning the reward
of the thoughts that it trained on beside that of thoughts sampled from the state alone (held-out
logs). A run that exists is gone on with, so an interrupted series can be started again.
"""

from evidence import tables
from evidence.results import over_seeds, save_run, t_interval, take_json_flag
from minprm.commands.train import go_on

SEEDS = [0, 1, 2]
LADDER = "--preset smoke --episodes 400 --arms base act_prm --seeds 0 1 2"
MEAN = "--act-prm.reward action_prob_mean"
TURN = f"{MEAN} --act-prm.reward-span turn"
CENTRED = "--act-prm.advantage mean --act-prm.trained-on thought"
STD = "--act-prm.advantage mean_std --act-prm.trained-on thought"
# a base that is shown actions as hints and likes to copy them: the failure is strong on purpose
COPIES = (
    "--tiny.updates 600 --tiny.action-first 0.3 "
    "--tiny.mixture faithful=.1 wrong=.4 restate=.2 bare=.15 copy=.15"
)
UNSKILLED = "--no-gate --tiny.mixture restate=.7 bare=.3"
HINTED = "--act-prm.thoughts-from state_action"
ABLATIONS = {
    "`action_prob`; `posterior`; thought and action (as in chapter 1)": "",
    "`exact_match`; `posterior`; thought and action": "--act-prm.reward exact_match",
    "`action_prob_mean`, span `action`; `posterior`; thought and action": MEAN,
    "`action_prob_mean`, span `turn`; `posterior`; thought and action": TURN,
    "`action_prob`; `mean`; thought (as in the ladder)": CENTRED,
    "`action_prob_mean`, span `turn`; `mean`; thought": f"{CENTRED} {TURN}",
    "`action_prob`; `mean_std`; thought": STD,
    "`action_prob_mean`, span `action`; `mean_std`; thought": f"{STD} {MEAN}",
    "`action_prob_mean`, span `turn`; `mean_std`; thought": f"{STD} {TURN}",
    "base that copies; thoughts from `state`": COPIES,
    "base that copies; thoughts from `state_action`": f"{COPIES} {HINTED}",
    "base without the skill (`restate` and `bare` only)": UNSKILLED,
}


def measured(ladder: dict, lines: list[dict]) -> dict[str, list[float]]:
    """Of each seed: success of both arms, and the two rewards at the last update."""
    lines = [x for x in lines if x["stage"] == "act_prm"]
    ends = [max((x for x in lines if x["seed"] == s), key=lambda x: x["update"]) for s in SEEDS]
    return {
        "base": [r["success"] for r in ladder["base"]],
        "act_prm": [r["success"] for r in ladder["act_prm"]],
        "reward": [x["reward/mean"] for x in ends],
        "held_out_reward": [x["eval/held_out_reward"] for x in ends],
    }


def main() -> None:
    path = take_json_flag()
    rows = {}
    for i, (name, flags) in enumerate(ABLATIONS.items()):
        columns = measured(*go_on(f"ablation-{i}", f"{LADDER} {flags}".split()))
        rows[name] = {key: over_seeds(values) for key, values in columns.items()}
    print(tables.ablations(rows))
    save_run(path, SEEDS, t_interval(SEEDS), rows)


if __name__ == "__main__":
    main()
