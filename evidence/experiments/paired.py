"""python -m evidence.experiments.paired: where two ways met, who is ahead seed by seed?

Nothing is run: these are differences of results that other experiments left in evidence/results,
learning minus choosing, and repeated choosing minus choosing once, with a t interval over seeds.
Intervals of two arms may overlap where that of their differences does not hold 0, because a seed
gives both the same base.

The ten fresh seeds have met choosing that refuses on three processors (at .3 in 100 on two), where
they have other bases. A seed then counts once, with the mean of its bases.
"""

from statistics import fmean

from evidence import tables
from evidence.experiments.ahead import SHARES, difference
from evidence.results import load, over_seeds, save_run, take_json_flag

PAIRS = (  # a file, its rows of one way, its rows of the other or those of another file
    ("logs", "act_prm", "best_of_base_matched"),
    ("refused", "learning", "choosing"),
    ("logs_errand", "act_prm_resampled", "best_of_base_resampled"),
    ("scales", "act_prm", "best_of_base_matched"),
    ("scales", "act_prm, refusing", "best_of_base_matched, refusing"),
    ("scales-amd", "act_prm", "best_of_base_matched"),
    ("rounds", "choosing, 4 times 11", "choosing, 44", "passes"),
)


ON_PROCESSORS = (  # a file, its rows of learning, its rows of choosing
    ("ahead", "learning", "steps left out"),
    ("as_long", "learning, 44", "choosing, 44"),
    ("passes", "learning, 44", "choosing, 44"),
)


def on_all(share: float) -> dict[str, dict]:
    """Rows of all bases with this share of good thoughts."""
    learning, choosing = [], []
    for name, ours, theirs in ON_PROCESSORS:
        rows = load(name)["rows"]
        if f"{share} | {ours}" in rows:
            learning.append(rows[f"{share} | {ours}"]["values"])
            choosing.append(rows[f"{share} | {theirs}"]["values"])
    one = over_seeds([fmean(seed) for seed in zip(*learning, strict=True)])
    other = over_seeds([fmean(seed) for seed in zip(*choosing, strict=True)])
    known = {"seeds": load("ahead")["seeds"], "share": share, "processors": len(learning)}
    rows = {"learning": one, "choosing": other, "difference": difference(one, other)}
    return {f"{share} | {arm}": {**known, "arm": arm, **row} for arm, row in rows.items()}


def differences(name: str, ours: str, theirs: str, other: str = "") -> dict[str, dict]:
    """A row for each setting of this file. other: the file of `theirs`, on the same bases."""
    told = load(name)
    rows, found = load(other or name)["rows"], {}
    for each, row in told["rows"].items():
        setting, _, arm = each.partition(" | ")
        if arm == ours:
            apart = difference(row, rows[f"{setting} | {theirs}"])
            found[f"{name} | {setting} | {ours}"] = {"seeds": told["seeds"], **apart}
    return found


def main() -> None:
    path = take_json_flag()
    rows = {}
    for pair in PAIRS:
        rows |= differences(*pair)
    for share in SHARES:
        rows |= on_all(share)
    print(tables.successes(rows))
    seeds = sorted({seed for row in rows.values() for seed in row["seeds"]})
    save_run(path, seeds, "95 %, t over seeds", rows)


if __name__ == "__main__":
    main()
