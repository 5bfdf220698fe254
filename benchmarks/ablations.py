"""python -m benchmarks.ablations: Act-PRM with one thing changed, on one round of cups.

Prints, for three seeds: success of `act_prm` on test tasks, and at the end of learning the reward
of the thoughts that it trained on beside that of thoughts sampled from the state alone (held-out
logs). A run that exists is gone on with, so an interrupted series can be started again.
"""

from statistics import fmean

from minprm.commands.train import go_on

LADDER = "--preset smoke --episodes 400 --arms base act_prm --seeds 0 1 2"
MEAN = "--act-prm.reward action_prob_mean"
TURN = f"{MEAN} --act-prm.reward-span turn"
STD = "--act-prm.advantage mean_std --act-prm.trained-on thought"
# a base that is shown actions as hints and likes to copy them: the failure is strong on purpose
COPIES = (
    "--tiny.updates 600 --tiny.action-first 0.3 "
    "--tiny.mixture faithful=.1 wrong=.4 restate=.2 bare=.15 copy=.15"
)
HINTED = "--act-prm.thoughts-from state_action"
ABLATIONS = {
    "action_prob; posterior; thought and action": "",
    "exact_match; posterior; thought and action": "--act-prm.reward exact_match",
    "action_prob_mean, span action; posterior; thought and action": MEAN,
    "action_prob_mean, span turn; posterior; thought and action": TURN,
    "action_prob; mean_std; thought": STD,
    "action_prob_mean, span action; mean_std; thought": f"{STD} {MEAN}",
    "action_prob_mean, span turn; mean_std; thought": f"{STD} {TURN}",
    "base that copies; thoughts from state": COPIES,
    "base that copies; thoughts from state_action": f"{COPIES} {HINTED}",
    "base without the skill": "--no-gate --tiny.mixture restate=.7 bare=.3",
}


def row(name: str, ladder: dict, lines: list[dict]) -> str:
    """One line of the table, from what the run left."""
    lines = [x for x in lines if x["stage"] == "act_prm"]
    ends = [max((x for x in lines if x["seed"] == s), key=lambda x: x["update"]) for s in (0, 1, 2)]
    columns = [[r["success"] for r in ladder[arm]] for arm in ("base", "act_prm")]
    columns += [[x[key] for x in ends] for key in ("reward/mean", "eval/held_out_reward")]
    cells = (f"{fmean(c):.3f} ({' '.join(f'{x:.2f}' for x in c)})" for c in columns)
    return f"| {name} | {' | '.join(cells)} |"


if __name__ == "__main__":
    runs = [go_on(f"ablation-{i}", f"{LADDER} {flags}".split())
            for i, flags in enumerate(ABLATIONS.values())]  # fmt: skip
    print("| what | base | act_prm | reward in training | reward from the state alone |")
    print("|---|---|---|---|---|")
    print(*(row(name, *run) for name, run in zip(ABLATIONS, runs, strict=True)), sep="\n")
