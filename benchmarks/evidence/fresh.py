"""python -m benchmarks.evidence.fresh: does learning hold on ten bases that no choice has seen?

Of the weights in paid.py and selecting.py centring was the steadiest on seeds 301 to 310, and of
the ways to choose in filtered.py leaving steps out was the strongest on 301 to 303. Here both meet
ten other seeds, with bases of 3, 1 and .3 good thoughts in 100. Written before the first run (1 in
100 and steps left out were added later, and before their first run): "learning holds" at 3 and at 1
in 100 is false if one of the ten seeds ends below .95, and at .3 in 100 if one of them wins less
than half of its games. "Learning is ahead of choosing that leaves steps out" is false of a share if
the 95 % t interval of the ten differences, cut at 0 and 1, begins at 0.
"""

from benchmarks.evidence.filtered import refusing_steps
from benchmarks.evidence.runs import CENTRED, base, by_each, good_shares, recipe, successes
from docs import tables
from docs.results import over_seeds, save_run, t_interval, take_json_flag

SEEDS = list(range(311, 321))
SHARES = (0.03, 0.01, 0.003)
ARMS = "action_sft best_of_base_matched act_prm expert_thoughts"


def flags(share: float) -> str:
    """The run with this share of good thoughts."""
    return f"{base(share)} {recipe(**CENTRED)} --arms {ARMS}"


def measured(share: float) -> dict[str, dict]:
    """Rows of the bases with this share of good thoughts."""
    rows = successes(f"fresh-{share}", flags(share), SEEDS)
    refusing = refusing_steps("fresh", share, SEEDS)
    pairs = zip(rows["act_prm"]["values"], refusing["values"], strict=True)
    ahead = over_seeds([learned - chosen for learned, chosen in pairs])
    return {**rows, "steps left out": refusing, "ahead of steps left out": ahead}


def main() -> None:
    path = take_json_flag()
    rows = by_each("share", SHARES, measured)
    shares = {str(share): good_shares(f"fresh-{share}") for share in SHARES}
    print(tables.successes(rows))
    save_run(path, SEEDS, t_interval(SEEDS), rows, shares=shares)


if __name__ == "__main__":
    main()
