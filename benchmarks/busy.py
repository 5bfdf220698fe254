"""python -m benchmarks.busy [--json FILE]: a short run beside programs that never pause.

The run is an Act-PRM stage of the embedded model, a process of its own. Beside it none, one or two
processes count for ever. It computes on one thread; on two that sleep while they wait, as minprm
has it; and on two that spin, as OpenMP has it where nobody says otherwise. Prints seconds of the
clock and of the processor, from the start of the process to its end, and how often the idle time
that is. A few minutes on two cores; nothing else should run there.
"""

import contextlib
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from evidence.results import save_run, take_json_flag

ROOT = Path(__file__).parents[1]
RUN = "--preset smoke --stages act_prm --act-prm.updates 3 --eval-every 0 --episodes 8"
# flags of the run, and what its environment has
SETTINGS = {
    "one thread": ("--threads 1", {}),
    "two threads that sleep": ("--threads 2", {}),
    "two threads that spin": ("--threads 2", {"GOMP_SPINCOUNT": "300000"}),
}
BESIDE = (0, 1, 2)  # processes that count for ever
ROUNDS = 3


@contextlib.contextmanager
def counting(processes: int) -> Iterator[None]:
    """So many processes that never pause, as long as this lasts."""
    started = [subprocess.Popen([sys.executable, "-c", "while 1: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def seconds(name: str) -> tuple[float, float]:
    """(seconds of the clock, of the processor) of a run with these threads."""
    flags, variables = SETTINGS[name]
    env = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "GOMP_"))}
    env |= {"PYTHONPATH": str(ROOT), **variables}
    words = [sys.executable, "-m", "minprm", "train", *f"{RUN} {flags}".split()]
    with tempfile.TemporaryDirectory() as folder:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        began = time.perf_counter()
        subprocess.run(words, cwd=folder, env=env, check=True, capture_output=True)
        took = time.perf_counter() - began
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return took, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    path = take_json_flag()
    found = {(name, beside): [] for name in SETTINGS for beside in BESIDE}
    for _ in range(ROUNDS):  # in turn, so that what else the machine does meets all alike
        for name, beside in found:
            with counting(beside):
                found[name, beside].append(seconds(name))
    rows = {}
    for name in SETTINGS:
        idle = median(clock for clock, _ in found[name, 0])
        for beside in BESIDE:
            clock, processor = map(median, zip(*found[name, beside], strict=True))
            row = {"clock": clock, "processor": processor, "times_idle": clock / idle}
            rows[f"{name}, {beside} beside"] = row
            print(f"{name:<24}{beside} beside  {clock:6.1f} s, processor {processor:6.1f} s, "
                  f"{clock / idle:5.2f} x idle", flush=True)  # fmt: skip
    save_run(path, [0], f"medians of {ROUNDS}", rows, run=RUN)


if __name__ == "__main__":
    main()
