"""python -m evidence.experiments.filtered: does choosing come near learning once it may refuse?

selecting.py fine-tunes on the best thought of every step, also where the best one is bad. Here the
best of 44 has to earn LEAST, as in rejection sampling: either a log with a worse thought is left
out, or only the steps with worse thoughts are (they stay in the log to be read, and teach nothing).
The bases are those of selecting.py, and so are the numbers of Act-PRM to compare with. The sentence
"where good thoughts are rare, learning is ahead of choosing" is false if, for such a base, one of
these ways comes near what Act-PRM makes of 44.
"""

from evidence import tables
from evidence.experiments.runs import SEEDS, base, successes
from evidence.experiments.selecting import SHARES
from evidence.results import save_run, t_interval, take_json_flag

LEAST = 0.9  # that of --preset errand; no other was tried
WHOLE_LOGS = (0.1, 0.03)  # with rarer thoughts hardly a log has three good ones


def chosen(share: float) -> str:
    """The run that chooses among as many thoughts as Act-PRM draws."""
    return f"{base(share)} --arms best_of_base_matched"


def refusing(share: float, least: float = LEAST) -> str:
    """The same, but it learns no step whose best thought earns less than `least`."""
    return f"{chosen(share)} --relabel.min-step-reward {least}"


def refusing_steps(name: str, share: float, seeds: list[int]) -> dict:
    """The row of choosing that learns no step whose best thought is bad."""
    return successes(f"{name}-steps-{share}", refusing(share), seeds)["best_of_base_matched"]


def refusing_logs(share: float) -> dict:
    """The row of choosing that leaves out a log with a bad best thought."""
    flags = f"{chosen(share)} --relabel.min-reward {LEAST}"
    return successes(f"filtered-logs-{share}", flags)["best_of_base_matched"]


def main() -> None:
    path = take_json_flag()
    rows = {}
    for share in SHARES:
        if share in WHOLE_LOGS:
            rows[f"{share} | logs left out"] = refusing_logs(share)
        rows[f"{share} | steps left out"] = refusing_steps("filtered", share, SEEDS)
    print(tables.successes(rows))
    save_run(path, SEEDS, t_interval(SEEDS), rows)


if __name__ == "__main__":
    main()
