"""python -m benchmarks.evidence.selecting: success against thoughts drawn, for four bases.

The smaller the share of good thoughts in the base's diet, the more of its thoughts have to be
drawn. Three ways to spend them, all fine-tuned on alike: keep the best of a step; Act-PRM, paid by
the action's probability; Act-PRM, paid for what a thought adds to it. The sentence "selecting pays
for each state anew, learning shares between states" is false if, for a base whose good thoughts are
rare, the best of 44 come near what Act-PRM makes of 44.
"""

from benchmarks.evidence.runs import SEEDS, base, good_shares, recipe, successes
from docs import tables
from docs.results import save_run, t_interval, take_json_flag

SHARES = (0.1, 0.03, 0.01, 0.003)
UPDATES = (20, 40, 80)  # of Act-PRM: half as many thoughts a step are drawn, and 4 to write down


def measured(share: float, updates: int) -> dict[str, dict]:
    """Rows of one base and one budget."""
    name = f"selecting-{share}-{updates}"
    added = f"{base(share)} {recipe(updates=updates)} --arms best_of_base_matched act_prm"
    plain = f"{base(share)} {recipe(updates=updates, baseline='none')} --arms act_prm"
    rows = successes(name, added)
    return {
        "best of the base": rows["best_of_base_matched"],
        "Act-PRM, paid r": successes(f"{name}-r", plain)["act_prm"],
        "Act-PRM, paid what is added": rows["act_prm"],
    }


def main() -> None:
    path = take_json_flag()
    rows = {}
    shares = {}
    for share in SHARES:
        for updates in UPDATES:
            drawn = 4 + updates // 2
            for way, row in measured(share, updates).items():
                name = f"{share} | {drawn} | {way}"
                rows[name] = {"share": share, "drawn": drawn, "way": way, **row}
        shares[str(share)] = good_shares(f"selecting-{share}-{UPDATES[0]}")
    print(tables.successes(rows))
    save_run(path, SEEDS, t_interval(SEEDS), rows, shares=shares)


if __name__ == "__main__":
    main()
