"""python -m evidence.experiments.several: does one base serve five worlds?

Each world has the ladder twice: from a base of its own, and from a common one (mixture.py). The
recipe is the default ladder's, but learning rates fall with the model's width, and an update has
fewer logs where they are longer. Then Act-PRM's models of the common base play the other worlds.
"A common base does as well" is false if in some world Act-PRM ends below the world's own base by
more than the intervals. "What is learned in one world helps in others" is false if Act-PRM lifts
success in no other world than its own above the common base, by more than the intervals.
"""

from itertools import permutations
from statistics import fmean

from evidence import tables
from evidence.experiments.mixture import ARGS, LOGS, SIZE, WORLDS, raised
from evidence.experiments.runs import SEEDS
from evidence.results import over_seeds, save_run, t_interval, take_json_flag
from minprm.arms.evaluation import evaluate, scoring_agent
from minprm.commands.train import CHECKPOINTS, go_on
from minprm.constants import SFT, ActPRM, Config, Tiny

SLOWER = Tiny().dim / SIZE.dim
ARMS = "base action_sft act_prm expert_thoughts"


def run_name(base: str, name: str, seed: int) -> str:
    return f"evidence-several-{base}-{name}-{seed}"


def flags(base: str, name: str, seed: int) -> str:
    """The ladder of one world; base: "own" or "common"."""
    path = raised([name] if base == "own" else WORLDS, seed)
    args = f"--world-args {' '.join(ARGS[name])}" if name in ARGS else ""
    rates = f"--act-prm.lr {ActPRM().lr * SLOWER} --sft.lr {SFT().lr * SLOWER}"
    learns = f"{rates} --act-prm.batch {LOGS[name]} --arms {ARMS} --seeds {seed}"
    asked = f"--model {path} --instruction none --episodes 200 --eval-every 0"
    return f"--world {name} {args} {asked} {learns}"


def ladder(base: str, name: str, seed: int) -> dict[str, float]:
    """Success of each arm. A run that exists is gone on with."""
    found, _ = go_on(run_name(base, name, seed), flags(base, name, seed).split())
    return {arm: row["success"] for arm, (row,) in found.items()}


def elsewhere(learned: str, played: str, seed: int) -> float:
    """Success in the world `played` of what Act-PRM made of the common base in `learned`."""
    path = CHECKPOINTS / run_name("common", learned, seed) / f"act_prm-{seed}"
    known = {"world": played, "world_args": ARGS.get(played, []), "model": str(path)}
    cfg = Config(**known, instruction="none", episodes=200)
    agent = scoring_agent(cfg, tools=[])
    return fmean(e.world.success for e in evaluate(agent, cfg, noise=seed))


def main() -> None:
    path = take_json_flag()
    rows = {}
    for name in WORLDS:
        for base in ("own", "common"):
            found = [ladder(base, name, seed) for seed in SEEDS]
            for arm in found[0]:
                rows[f"{name} | {base} | {arm}"] = over_seeds([each[arm] for each in found])
    print(tables.successes(rows))
    others = {}
    for learned, played in permutations(WORLDS, 2):
        values = [elsewhere(learned, played, seed) for seed in SEEDS]
        others[f"{learned} | {played}"] = over_seeds(values)
        print(learned, played, values, flush=True)
    save_run(path, SEEDS, t_interval(SEEDS), rows, elsewhere=others)


if __name__ == "__main__":
    main()
