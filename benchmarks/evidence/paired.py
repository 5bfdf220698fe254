"""python -m benchmarks.evidence.paired: where learning and choosing met, who is ahead seed by seed?

Nothing is run: these are differences of results that the other experiments left in docs/results,
learning minus choosing, with a t interval over seeds. Intervals of two arms may overlap where that
of their differences does not hold 0, because a seed gives both the same base.
"""

from benchmarks.evidence.ahead import difference
from docs import tables
from docs.results import load, save_run, take_json_flag

PAIRS = (  # a file, its rows of learning, its rows of choosing
    ("logs", "act_prm", "best_of_base_matched"),
    ("refused", "learning", "choosing"),
    ("logs_errand", "act_prm_resampled", "best_of_base_resampled"),
    ("scales", "act_prm", "best_of_base_matched"),
    ("scales", "act_prm, refusing", "best_of_base_matched, refusing"),
    ("scales-amd", "act_prm", "best_of_base_matched"),
)


def differences(name: str, ours: str, theirs: str) -> dict[str, dict]:
    """A row for each setting of this file."""
    told = load(name)
    rows, found = told["rows"], {}
    for each, row in rows.items():
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
    print(tables.successes(rows))
    seeds = sorted({seed for row in rows.values() for seed in row["seeds"]})
    save_run(path, seeds, "95 %, t over seeds, n = 3", rows)


if __name__ == "__main__":
    main()
