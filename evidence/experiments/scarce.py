"""python -m evidence.experiments.scarce: does learning work where selecting cannot?

Of the thoughts that the base is raised on three in a hundred are good. Ten seeds, on which no
choice was made. Act-PRM's thoughts and the best of as many thoughts of the base are fine-tuned on
alike. The sentence "Act-PRM learns where selecting finds next to nothing" is false if selecting
comes near it in the mean, and Act-PRM is not reliable if one of the ten seeds fails.
"""

from evidence import tables
from evidence.experiments.runs import base, good_shares, recipe, successes
from evidence.results import save_run, t_interval, take_json_flag

SEEDS = list(range(301, 311))
ARMS = "base action_sft best_of_base_matched act_prm expert_thoughts"
FLAGS = f"{base()} {recipe()} --arms {ARMS}"


def of_arms() -> dict[str, dict]:
    """The row of each arm."""
    return successes("scarce", FLAGS, SEEDS)


def main() -> None:
    path = take_json_flag()
    rows = of_arms()
    print(tables.successes(rows))
    save_run(path, SEEDS, t_interval(SEEDS), rows, shares=good_shares("scarce"))


if __name__ == "__main__":
    main()
