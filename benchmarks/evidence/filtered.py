"""python -m benchmarks.evidence.filtered: does choosing come near learning once it may refuse?

selecting.py fine-tunes on the best thought of every step, also where the best one is bad. Here the
best of 44 has to earn LEAST, as in rejection sampling: either a log with a worse thought is left
out, or only the steps with worse thoughts are (they stay in the log to be read, and teach nothing).
The bases are those of selecting.py, and so are the numbers of Act-PRM to compare with. The sentence
"where good thoughts are rare, learning is ahead of choosing" is false if, for such a base, one of
these ways comes near what Act-PRM makes of 44.
"""

from itertools import groupby
from unittest.mock import patch

from benchmarks.evidence.runs import SEEDS, base, successes
from benchmarks.evidence.selecting import SHARES
from docs import tables
from docs.results import save_run, t_interval, take_json_flag
from minprm.data import Demo, Sample
from minprm.model.agent import Agent
from minprm.stages import sft

LEAST = 0.9  # that of --preset errand
FLAGS = "--arms best_of_base_matched --jobs 1"  # it has to be this process
WHOLE_LOGS = (0.1, 0.03)  # with rarer thoughts hardly a log has three good ones

whole = sft.to_samples


def good_steps(demo: Demo, agent: Agent) -> list[Sample]:
    """The demo as a Sample that learns the turns alone whose thoughts earned LEAST; none if there
    is no such turn."""
    (sample,) = whole(demo, agent)
    rewards = iter([step.reward for step in demo.steps])
    place = 0
    for trained, tokens in groupby(list(sample.trained)):  # what is trained in one go is a turn
        n = len(list(tokens))
        if trained and next(rewards) < LEAST:
            sample.trained[place : place + n] = [False] * n
        place += n
    return [sample] if any(sample.trained) else []


def measured(share: float) -> dict[str, dict]:
    """Rows of the bases with this share of good thoughts."""
    flags = f"{base(share)} {FLAGS}"
    ways = {}
    if share in WHOLE_LOGS:
        fewer = successes(f"filtered-logs-{share}", f"{flags} --relabel.min-reward {LEAST}")
        ways["logs left out"] = fewer["best_of_base_matched"]
    with patch.object(sft, "to_samples", good_steps):
        fewer = successes(f"filtered-steps-{share}", flags)
        ways["steps left out"] = fewer["best_of_base_matched"]
    return ways


def main() -> None:
    path = take_json_flag()
    rows = {}
    for share in SHARES:
        for way, row in measured(share).items():
            rows[f"{share} | {way}"] = row
    print(tables.successes(rows))
    save_run(path, SEEDS, t_interval(SEEDS), rows)


if __name__ == "__main__":
    main()
