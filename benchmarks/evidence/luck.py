"""python -m benchmarks.evidence.luck: where learning fails, is it the base or chance?

The ten bases of fresh.py with .3 good thoughts in 100, and each of them twice more: with other
logs, other noise and other test tasks. A run fails that wins less than half of its games. "The base
decides" is false if on three bases or more some of the three runs fail and others do not. "Chance
decides" is false if on nine bases or more all three runs end alike.
"""

from pathlib import Path

from benchmarks.evidence import fresh
from benchmarks.evidence.runs import CENTRED, recipe
from docs import tables
from docs.results import load, over_seeds, save_run, t_interval, take_json_flag
from minprm.commands.cli import parse
from minprm.commands.train import CHECKPOINTS, go_on
from minprm.envs.cups import Cups
from minprm.model import tiny
from minprm.run.threads import set_threads

AGAIN = [321, 322]


def of_fresh(seed: int) -> Path:
    """Where the base of this seed of fresh.py is. It is raised if it is not there."""
    set_threads("tiny")
    cfg = parse(fresh.flags(0.003).split())
    knobs = Cups(), cfg.tiny, seed, cfg.micro_tokens, CHECKPOINTS
    tiny.raised(*knobs)
    return tiny.path_of(*knobs)


def again(seed: int) -> list[float]:
    """Success of Act-PRM on this base, once for each of AGAIN."""
    flags = f"--model {of_fresh(seed)} --instruction none {recipe(**CENTRED)} --arms act_prm"
    numbers = " ".join(map(str, AGAIN))
    found, _ = go_on(f"evidence-luck-{seed}", f"{flags} --seeds {numbers}".split())
    return [row["success"] for row in found["act_prm"]]


def main() -> None:
    path = take_json_flag()
    first = load("fresh")["rows"]["0.003 | act_prm"]["values"]
    rows = {}
    for seed, success in zip(fresh.SEEDS, first, strict=True):
        rows[str(seed)] = over_seeds([success, *again(seed)])
    print(tables.successes(rows, what="base"))
    save_run(path, ["of fresh", *AGAIN], t_interval([0, *AGAIN]), rows)


if __name__ == "__main__":
    main()
