"""python -m evidence.experiments.selecting: success against thoughts drawn, for four bases.

The smaller the share of good thoughts in the base's diet, the more of its thoughts have to be
drawn. Four ways to spend them, all fine-tuned on alike: keep the best of a step; or Act-PRM, with
thoughts weighed by the action's probability, by what they add to it, or by how far it is above the
group's mean. The sentence "where good thoughts are rare, learning is ahead of choosing" is false
if, for such a base, the best of 44 come near what Act-PRM makes of 44.
"""

from evidence import tables
from evidence.experiments.runs import CENTRED, SEEDS, base, good_shares, recipe, successes
from evidence.results import save_run, t_interval, take_json_flag

SHARES = (0.1, 0.03, 0.01, 0.003)
UPDATES = (20, 40, 80)  # of Act-PRM: half as many thoughts a step are drawn, and 4 to write down


def measured(share: float, updates: int) -> dict[str, dict]:
    """Rows of one base and one budget."""
    name = f"selecting-{share}-{updates}"
    added = recipe(updates=updates)
    plain = recipe(updates=updates, baseline="none")
    centred = recipe(updates=updates, **CENTRED)
    rows = successes(name, f"{base(share)} {added} --arms best_of_base_matched act_prm")
    alone = f"{base(share)} --arms act_prm"
    return {
        "best of the base": rows["best_of_base_matched"],
        "r": successes(f"{name}-r", f"{alone} {plain}")["act_prm"],
        "r - b": rows["act_prm"],
        "r - mean(r)": successes(f"{name}-mean", f"{alone} {centred}")["act_prm"],
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
