"""python -m examples.adaptive_temperature: a temperature that follows the spread of rewards.

Where all episodes of a task earn the same, nothing is learned. Then the next batch is drawn hotter,
and colder where they differ more than needed (the idea of MinRL's adaptive temperature; the rule
here is a plain multiplicative one). What is drawn at T is scored at T: the temperature changes
between an update and the next batch, never between a batch and its update. Left out: batches played
ahead, which would need a temperature each, and a place for it in snapshots.

The method is a stage of its own, made of the library's: that is how to add one.

Prints success on cups after 20 updates of GRPO from a start that is too cold.
"""

import math
import time

from evidence.results import over_seeds, save_run, t_interval, take_json_flag
from minprm.arms.ladder import STAGES
from minprm.commands.train import go_on
from minprm.stages.rl import batches
from minprm.trainer import SUCCESS, Batch, Run, loop

LADDER = "--preset smoke --rl.updates 20 --seeds 0 1 2"
TARGET, RATE, BOUNDS = 0.3, 2.0, (0.2, 1.5)


def adapted(temperature: float, std: float) -> float:
    """T exp(rate (target - std)), within bounds; std of the rewards in a group, on average.

    >>> adapted(0.5, std=0.3), adapted(0.5, std=0.0) > 0.5, adapted(0.5, std=0.5) < 0.5
    (0.5, True, True)
    """
    low, high = BOUNDS
    return min(max(temperature * math.exp(RATE * (TARGET - std)), low), high)


def rl_adaptive(run: Run, stage_id: str) -> None:
    """The stage `rl`, with a temperature that moves before each batch by the spread of the last."""
    cfg = run.cfg.rl
    make = batches(run, stage_id, cfg, dense=False, by_turn=False)
    std = TARGET  # the first batch is played at the temperature that was given

    def batch(update: int) -> Batch:
        nonlocal std
        run.agent.temperature = adapted(run.agent.temperature, std)
        samples, stats = make(update)
        std = stats["reward/std"]
        return samples, stats | {"policy/temperature": run.agent.temperature}

    loop(run, stage_id, cfg, cfg.updates, batch, SUCCESS)


def main() -> None:
    """The three runs and their table."""
    path = take_json_flag()
    STAGES["rl_adaptive"] = rl_adaptive
    rows = {}
    for name, stage, temperature in (
        ("fixed 1.0", "rl", 1.0),
        ("fixed 0.2", "rl", 0.2),
        ("adaptive from 0.2", "rl_adaptive", 0.2),
    ):
        run = f"{name.replace(' ', '-')}-{time.strftime('%Y%m%d-%H%M%S')}"
        flags = f"{LADDER} --stages {stage} --temperature {temperature}"
        ladder, _ = go_on(run, flags.split())
        rows[name] = [row["success"] for row in ladder["stages"]]
    for name, won in rows.items():
        print(f"{name:<20}{' '.join(f'{success:.3f}' for success in won)}")
    table = {name: over_seeds(won) for name, won in rows.items()}
    save_run(path, [0, 1, 2], t_interval([0, 1, 2]), table)


if __name__ == "__main__":
    main()
