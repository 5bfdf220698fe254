"""What each world is, in numbers: random and expert play, measured once and read from a file."""

import json
import platform
import random
import time
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import fmean

from minprm.envs import WORLDS
from minprm.envs.base import World, task_seed

FILE = Path(__file__).with_name("audit.json")
EXPERT, RANDOM = 200, 500  # episodes
SLOW = {"textworld": (20, 20)}  # a game takes seconds to make
PACKAGES = ("minigrid", "textworld", "bm25s", "gymnasium")


def audit(names: list[str]) -> dict:
    """Plays every world, on test tasks with default knobs, and writes the file."""
    told = json.loads(FILE.read_text()) if FILE.exists() else {"worlds": {}}
    rows = told["worlds"]
    for name in names:
        experts, randoms = SLOW.get(name, (EXPERT, RANDOM))
        expert, chance = _played(name, experts, "expert"), _played(name, randoms, "random")
        rows[name] = {
            "random": chance["success"],
            "expert": expert["success"],
            "optimum": _optimum(WORLDS[name](), experts),
            "turns": expert["turns"],
            "characters": expert["characters"],
            "steps_per_second": round((expert["steps"] + chance["steps"])
                                      / (expert["seconds"] + chance["seconds"])),
            "episodes": [experts, randoms],
        }  # fmt: skip
    told = {"date": str(date.today()), "versions": _versions(), "worlds": rows}
    FILE.write_text(json.dumps(told, indent=1) + "\n")
    return told


def table(told: dict) -> str:
    """The audit as a table in Markdown."""
    lines = [
        "| world | random | expert | turns | characters | steps/s | teaches |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in WORLDS:
        if row := told["worlds"].get(name):
            best = f" (best possible {row['optimum']:.3f})" if row["optimum"] else ""
            lines.append(
                f"| `{name}` | {row['random']:.3f} | {row['expert']:.3f}{best} | "
                f"{row['turns']:.1f} | {row['characters']:.0f} | {row['steps_per_second']:,} | "
                f"{WORLDS[name].teaches} |"
            )
    versions = ", ".join(f"{package} {v}" for package, v in told["versions"].items())
    return "\n".join([*lines, "", f"{told['date']}, {versions}; `python -m minprm.envs --audit`."])


def _played(name: str, episodes: int, who: str) -> dict[str, float]:
    """Success, turns, characters of an observation, and seconds spent in `step` alone."""
    world, rng, wins, steps, seconds, seen = WORLDS[name](), random.Random(0), 0, 0, 0.0, []
    for i in range(episodes):
        seen.append(len(world.reset(task_seed("test", i))))
        done = False
        while not done:
            action = world.expert() if who == "expert" else rng.choice(world.actions())
            began = time.perf_counter()
            observation, _, done, _ = world.step(action)
            seconds += time.perf_counter() - began
            seen.append(len(observation))
            steps += 1
        wins += world.success
    return {"success": wins / episodes, "turns": steps / episodes, "steps": steps,
            "characters": fmean(seen), "seconds": seconds}  # fmt: skip


def _optimum(world: World, episodes: int) -> float | None:
    """Mean of the exact best chance of success, where a world knows it."""
    if not hasattr(world, "optimum"):
        return None
    values = []
    for i in range(episodes):
        world.reset(task_seed("test", i))
        values.append(world.optimum())
    return fmean(values)


def _versions() -> dict[str, str]:
    found = {"Python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
