"""python -m evidence.experiments.fresh: does learning hold on ten bases that no choice has seen?

Of the weights in paid.py and selecting.py centring was the steadiest on seeds 301 to 310. Here it
meets ten other seeds, with bases of 3 and of .3 good thoughts in 100. Written before the first run:
"learning holds at 3 in 100" is false if one of the ten seeds ends below .95, and "it holds at .3 in
100" if one of them wins less than half of its games.
"""

from evidence import tables
from evidence.experiments.runs import CENTRED, base, by_each, good_shares, recipe, successes
from evidence.results import save_run, t_interval, take_json_flag

SEEDS = list(range(311, 321))
SHARES = (0.03, 0.003)
ARMS = "action_sft best_of_base_matched act_prm expert_thoughts"


def flags(share: float) -> str:
    """The run with this share of good thoughts."""
    return f"{base(share)} {recipe(**CENTRED)} --arms {ARMS}"


def main() -> None:
    path = take_json_flag()
    rows = by_each("share", SHARES, lambda x: successes(f"fresh-{x}", flags(x), SEEDS))
    shares = {str(share): good_shares(f"fresh-{share}") for share in SHARES}
    print(tables.successes(rows))
    save_run(path, SEEDS, t_interval(SEEDS), rows, shares=shares)


if __name__ == "__main__":
    main()
