"""python -m benchmarks.looks: what it costs that groups and episodes are kept for the report.

Prints the CPU seconds of runs of one arm, how much of that was spent on what is kept, and its size.
This is timed where it happens: two runs, with it and without, differ by more than it takes.
"""

import argparse
import time
from collections.abc import Callable

from benchmarks.cost import timed
from evidence import tables
from evidence.results import save_run, take_json_flag
from minprm.arms import ladder
from minprm.commands.cli import parse
from minprm.commands.train import CHECKPOINTS, RUNS
from minprm.load.threads import set_threads
from minprm.look.log import Log
from minprm.look.record import Recorder

ARMS = ("act_prm", "act_prm_resampled", "rl")
PARTS = (
    (Recorder, "__call__"),
    (ladder, "of_world keep_episodes"),
)
FILES = ("samples.jsonl", "episodes.jsonl")
keeping = 0.0  # CPU seconds so far


def watched(function: Callable) -> Callable:
    """The function, which adds its CPU seconds to `keeping`."""

    def counted(*arguments):
        global keeping
        found, seconds = timed(function, *arguments)
        keeping += seconds
        return found

    return counted


def cost(arm: str, knobs: list[str]) -> tuple[float, float, int]:
    """(CPU seconds of a run, those for what it keeps, bytes of that)."""
    global keeping
    run = f"looks-{arm}-{time.strftime('%H%M%S')}"
    cfg = parse(["--run", run, "--arms", arm, *knobs])
    log = Log(RUNS / run)
    keeping = 0.0
    _, seconds = timed(ladder.ladder, cfg, log, CHECKPOINTS)
    log.close()
    return seconds, keeping, sum((log.folder / name).stat().st_size for name in FILES)


if __name__ == "__main__":
    path = take_json_flag()
    rows = {}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arms", nargs="+", default=ARMS, help="one run is made of each")
    flags, knobs = parser.parse_known_args()  # the rest are flags of `minprm train`
    set_threads("tiny")
    for owner, names in PARTS:
        for name in names.split():
            setattr(owner, name, watched(getattr(owner, name)))
    for arm in flags.arms:
        seconds, kept, size = cost(arm, knobs)
        share = kept / (seconds - kept)
        rows[arm] = {"cpu_seconds": seconds, "to_keep": kept, "share": share, "kB": size // 1000}
    print(tables.looks(rows))
    save_run(path, [0], "one run", rows)
