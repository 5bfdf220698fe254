"""python -m evidence.experiments.neighbours: Act-PRM against its neighbours.

Same logs, the same number of thoughts drawn for each step (44 in all, but for "one, action shown"),
and the same fine-tuning of a fresh base at the end. What shows the action needs a base that can
explain an action: it is tried on one that was raised with the action first in some of its turns.
The sentence "Act-PRM learns where its neighbours do not" is false if one of them comes near it.

Nothing was chosen by success on these seeds. STaR has four rounds, after a look at seed 201 on
validation tasks (eight rounds of half as many thoughts did worse). Where a neighbour has a learning
rate of its own, the recipe's and twice of it are both reported.
"""

from functools import partial

from evidence import tables
from evidence.experiments.distil import distil, quiet
from evidence.experiments.runs import SEEDS, base, recipe, successes
from evidence.experiments.shown import best_of, good_thoughts
from evidence.experiments.star import star
from evidence.results import save_run, t_interval, take_json_flag
from minprm.constants import ARMS
from minprm.stages import STAGES
from minprm.stages.act_prm import act_prm
from minprm.stages.relabel import relabel

OURS = {
    "best:state": partial(best_of, group=44, thoughts_from="state"),
    "best:shown": partial(best_of, group=44, thoughts_from="state_action"),
    "one:shown": partial(best_of, group=1, thoughts_from="state_action"),
    "star": partial(star, group=5, shown=5),
    "star:state": partial(star, group=10, shown=0),
    "quiet": quiet,
    "quiet:fast": partial(quiet, lr=1.2e-3),
    "distil": distil,
    "distil:fast": partial(distil, lr=1.2e-3),
    "act_prm:exact": partial(act_prm, reward="exact_match", baseline="none"),
    "relabel:exact": partial(relabel, reward="exact_match"),
    "act_prm:plain": partial(act_prm, baseline="none"),
    "act_prm:shown": partial(act_prm, thoughts_from="state_action"),
}
WRITTEN = ["relabel", "sft:thoughts"]  # 4 more thoughts a step, by the policy of the method
WAYS = {  # name: arm, its stages
    "the best of 44": ("best", ["best:state", "sft:thoughts"]),
    "the best of 44, action shown": ("best_shown", ["best:shown", "sft:thoughts"]),
    "one, action shown": ("one_shown", ["one:shown", "sft:thoughts"]),
    "STaR": ("star", ["star"] * 4 + WRITTEN),
    "STaR without hints": ("star_state", ["star:state"] * 4 + WRITTEN),
    "Quiet-STaR's reward": ("quiet", ["quiet", *WRITTEN]),
    "Quiet-STaR's reward, faster": ("quiet_fast", ["quiet:fast", *WRITTEN]),
    "self-distillation": ("distil", ["distil", *WRITTEN]),
    "self-distillation, faster": ("distil_fast", ["distil:fast", *WRITTEN]),
    "Act-PRM, exact match": ("exact", ["act_prm:exact", "relabel:exact", "sft:thoughts"]),
    "Act-PRM, plain posterior": ("plain", ["act_prm:plain", *WRITTEN]),
    "Act-PRM, action shown": ("hinted", ["act_prm:shown", *WRITTEN]),
    "Act-PRM (the recipe)": ("act_prm", ["act_prm", *WRITTEN]),
}
NAMES = {arm: name for name, (arm, _) in WAYS.items()}
BASES = {  # how it was raised: share of episodes with the action first in some turns, arms
    "thought first": (0, "best best_shown star_state quiet quiet_fast exact plain act_prm"),
    "either order": (0.3, "best best_shown one_shown star distil distil_fast hinted act_prm"),
}


def main() -> None:
    path = take_json_flag()
    STAGES.update(OURS)
    ARMS.update(WAYS.values())
    rows, shares = {}, {}
    for model, (action_first, arms) in BASES.items():
        name, raised = f"neighbours-{action_first}", f"--tiny.action-first {action_first}"
        flags = f"{base()} {raised} {recipe()} --arms {arms} --eval-every 0 --watch 0"
        found = successes(name, flags)
        rows |= {f"{model} | {NAMES.get(arm, arm)}": row for arm, row in found.items()}
        shares[model] = good_thoughts(f"evidence-{name}")
    print(tables.successes(rows))
    save_run(path, SEEDS, t_interval(SEEDS), rows, shares=shares)


if __name__ == "__main__":
    main()
