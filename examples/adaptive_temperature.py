"""python -m examples.adaptive_temperature: the temperature follows the spread of rewards.

Where all episodes of a task earn the same, nothing is learned: then the next batch is drawn hotter,
and colder where they differ more than needed (the idea of MinRL's adaptive temperature; the rule
here is a plain multiplicative one). What is drawn at T is scored at T: the temperature changes
between an update and the next batch, never between a batch and its update. Left out: batches played
ahead, which would need a temperature each, and a place for it in snapshots.

Prints success on cups after 20 updates of GRPO from a start that is too cold.
"""

import json
import math
import time
from dataclasses import replace

import torch

import train
from minprm.trainer import Trainer

LADDER = "--preset smoke --arms rl --rl.updates 20 --temperature"
TARGET, RATE, BOUNDS = 0.3, 2.0, (0.2, 1.5)


def adapted(temperature: float, std: float) -> float:
    """T exp(rate (target - std)), within bounds; std of the rewards in a group, on average.

    >>> adapted(0.5, std=0.3), adapted(0.5, std=0.0) > 0.5, adapted(0.5, std=0.5) < 0.5
    (0.5, True, True)
    """
    low, high = BOUNDS
    return min(max(temperature * math.exp(RATE * (TARGET - std)), low), high)


class Adaptive(Trainer):
    """A trainer whose temperature moves after each update, by the batch that was played for it."""

    def _play(self, seeds, path, update):
        episodes = super()._play(seeds, path, update)
        won = torch.tensor([float(e.world.success) for e in episodes])
        self.std = won.view(-1, self.cfg.rl.group).std(1, correction=0).mean().item()
        return episodes

    def _learn(self, samples, cfg, lr):
        stats = super()._learn(samples, cfg, lr) | {"policy/temperature": self.cfg.temperature}
        heat = adapted(self.cfg.temperature, self.std)
        self.cfg = replace(self.cfg, temperature=heat)
        return stats


def main() -> None:
    rows = {}
    for name, trainer, heat in (
        ("fixed 1.0", Trainer, 1.0),
        ("fixed 0.2", Trainer, 0.2),
        ("adaptive from 0.2", Adaptive, 0.2),
    ):
        train.Trainer, run = trainer, f"{name.replace(' ', '-')}-{time.strftime('%Y%m%d-%H%M%S')}"
        train.main(["--run", run, *LADDER.split(), str(heat), "--seeds", "0", "1", "2"])
        ladder = json.loads((train.RUNS / run / "ladder.json").read_text())
        rows[name] = [row["success"] for row in ladder["rl"]]
    print(
        *(f"{name:<20}{' '.join(f'{x:.3f}' for x in won)}" for name, won in rows.items()), sep="\n"
    )


if __name__ == "__main__":
    main()
