"""python -m benchmarks.evidence: all experiments, one after the other.

Each writes docs/results/NAME.json. Runs that are finished are not made again, and one that was
interrupted goes on where it stopped: so the whole can be stopped at any time, and started again.
"""

import subprocess
import sys

EXPERIMENTS = (
    "scarce", "paid", "selecting", "filtered", "fresh", "ahead", "luck", "logs", "logs_errand",
    "scales", "several", "neighbours", "unplanted", "state", "beyond",
    "beyond_errand",
)  # fmt: skip


def main() -> None:
    for name in EXPERIMENTS:
        print(f"--- {name} ---", flush=True)
        program = [sys.executable, "-m", f"benchmarks.evidence.{name}"]
        subprocess.run([*program, "--json", f"docs/results/{name}.json"], check=True)


if __name__ == "__main__":
    main()
