"""python -m evidence: all experiments, one after the other.

Each writes evidence/results/NAME.json. Runs that are finished are not made again, and one that was
interrupted goes on where it stopped: so the whole can be stopped at any time, and started again.
"""

import subprocess
import sys

EXPERIMENTS = (
    "scarce", "paid", "selecting", "filtered", "bounds", "fresh", "ahead", "as_long", "passes",
    "rounds", "luck", "logs", "logs_errand", "refused", "scales", "several", "neighbours",
    "unplanted", "state", "beyond", "beyond_errand", "paired",
)  # fmt: skip


def main() -> None:
    for name in EXPERIMENTS:
        print(f"--- {name} ---", flush=True)
        status = ended([f"evidence.experiments.{name}", "--json", f"evidence/results/{name}.json"])
        if status:
            raise SystemExit(status)


def ended(module: list[str]) -> int:
    """Runs the module and returns its exit status. Ctrl-C reaches it too: it saves, and ends."""
    process = subprocess.Popen([sys.executable, "-m", *module])
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            continue


if __name__ == "__main__":
    main()
