"""python -m evidence.experiments.beyond: where does each arm break, beyond what it was trained on?

All arms were trained on rounds of 4 swaps. They play rounds of 2 to 12, with room for a thought of
that length: on a base that was raised on 4 swaps alone, and on one that was raised on 2 to 8. The
first word at which a thought leaves the right one says what went wrong. The sentence "what Act-PRM
learns of 4 swaps holds wherever its base can follow the ball" is false if, on the second base, it
opens fewer rounds right at 2, 3, 5, 6 or 8 swaps than at 4, by more than the intervals.
"""

from collections import Counter
from statistics import fmean

from evidence.experiments.models import narrow_models, wide_models
from evidence.experiments.runs import SEEDS
from evidence.experiments.traces import rounds
from evidence.results import over_seeds, save_run, t_interval, take_json_flag
from minprm.arms.evaluation import evaluate, load_agent
from minprm.envs import make_world

SWAPS = (2, 3, 4, 5, 6, 8, 9, 12)


def played(path: str, swaps: int) -> tuple[float, list[list[dict]]]:
    """(success, what is told of the rounds of each episode) of one model."""
    agent, cfg = load_agent(
        path, episodes=200, world_args=[f"swaps={swaps}"], thought_tokens=4 * swaps + 6
    )
    episodes = evaluate(agent, cfg, noise=0)
    success = fmean(e.world.success for e in episodes)
    return success, [rounds(e, make_world(cfg)) for e in episodes]


def measured(paths: list[str], swaps: int) -> dict:
    """A row: one arm over its seeds."""
    plays = [played(path, swaps) for path in paths]
    right = [fmean(told["right"] for e in es for told in e) for _, es in plays]
    all_rounds = [told for _, es in plays for e in es for told in e]
    traced = [told["right"] for told in all_rounds if told["fate"] == "right"]
    fates = Counter(told["fate"] for told in all_rounds)
    return {
        **over_seeds([success for success, _ in plays]),
        "right": over_seeds(right),
        "by_round": [fmean(e[i]["right"] for _, es in plays for e in es) for i in range(3)],
        "fates": {name: n / len(all_rounds) for name, n in fates.most_common()},
        "follows": fmean(told["follows"] for told in all_rounds),
        "right_after_right_thought": fmean(traced) if traced else None,
    }


def main() -> None:
    path = take_json_flag()
    rows = {}
    for raised_on, arms in (("2 to 8", wide_models()), ("4", narrow_models())):
        for arm, paths in arms.items():
            for swaps in SWAPS:
                row = measured(paths, swaps)
                known = {"raised_on": raised_on, "arm": arm, "swaps": swaps}
                rows[f"{raised_on} | {arm} | {swaps}"] = known | row
                told = f"{raised_on:7} {arm:22} {swaps:3} {row['right']['mean']:.3f} {row['fates']}"
                print(told, flush=True)
    save_run(path, SEEDS, t_interval(SEEDS), rows)


if __name__ == "__main__":
    main()
