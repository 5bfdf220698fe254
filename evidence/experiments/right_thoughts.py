"""python -m evidence.experiments.right_thoughts RUN [--json FILE]: are thoughts of logs right?

A reward cannot tell: in errand a thought about a wrong place may ask for the right action too. But
the world can. The expert's episode of each relabelled log is played again, and each thought
compared with what the world itself would say. RUN is the folder of a finished ladder.
"""

import json
import sys
from pathlib import Path
from statistics import fmean

from evidence import tables
from evidence.results import save_run, take_json_flag
from minprm.constants import ARMS, Config, fail
from minprm.data import Demo
from minprm.envs import make_world
from minprm.envs.base import World
from minprm.logs.reader import read_demos


def is_right(demo: Demo, world: World) -> bool:
    """Is every thought of this log the world's own explanation of its step?"""
    world.reset(int(demo.task.split("-")[1]))
    for step in demo.steps:
        if step.thought != world.thought():
            return False
        world.step(step.action)
    return True


def measured(folder: Path, config: dict) -> dict[str, dict]:
    """Of each arm whose logs were relabelled: how many logs each seed kept, and how many of them
    are right at every step."""
    world = make_world(Config(world=config["world"], world_args=config["world_args"]))
    rows = {}
    for arm in config["arms"]:
        stage_id = "+".join(ARMS[arm][:-1]).replace(":", "-")
        files = [folder / f"relabelled-{stage_id}-{seed}.jsonl" for seed in config["seeds"]]
        if not all(file.exists() for file in files):
            continue
        logs = [read_demos(file)[0] for file in files]
        right = [sum(is_right(demo, world) for demo in demos) for demos in logs]
        shares = [n / len(demos) for n, demos in zip(right, logs, strict=True)]
        counts = {"logs": [len(demos) for demos in logs], "right": right}
        rows[arm] = {**counts, "mean": fmean(shares), "values": shares}
    return rows


def main() -> None:
    path = take_json_flag()
    folder = Path(*sys.argv[1:])
    if not (folder / "config.json").exists():
        fail(f"{folder} holds no run: name the folder of a finished ladder, as runs/errand")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    rows = measured(folder, config)
    print(tables.right_thoughts(rows))
    note = "right: every thought of the log is the world's own explanation of its step"
    save_run(path, config["seeds"], "none: each seed is told", rows, note=note)


if __name__ == "__main__":
    main()
