"""What each world is, in numbers: random and expert play, measured once and kept in a file.

The numbers say how much a score is worth: what chance reaches, and what the best play reaches.
"""

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
EXPERT = 200  # episodes of expert play
RANDOM = 500  # episodes of random play
SLOW = {"textworld": (20, 20)}  # (expert, random) where a game takes seconds to make
PACKAGES = ("minigrid", "textworld", "bm25s", "gymnasium")


def audit(names: list[str]) -> dict:
    """Plays these worlds, on test tasks with default knobs, and writes their rows of the file."""
    # worlds that are not measured now keep their rows
    told = json.loads(FILE.read_text()) if FILE.exists() else {"worlds": {}}
    rows = told["worlds"]
    for name in names:
        expert_episodes, random_episodes = SLOW.get(name, (EXPERT, RANDOM))
        expert = _played(name, expert_episodes, "expert")
        chance = _played(name, random_episodes, "random")
        steps = expert["steps"] + chance["steps"]
        seconds = expert["seconds"] + chance["seconds"]
        rows[name] = {
            "random": chance["success"],
            "expert": expert["success"],
            "optimum": _optimum(WORLDS[name](), expert_episodes),
            "turns": expert["turns"],
            "characters": expert["characters"],
            "steps_per_second": round(steps / seconds),
            "episodes": [expert_episodes, random_episodes],
        }
    told = {"date": str(date.today()), "versions": _versions(), "worlds": rows}
    FILE.write_text(json.dumps(told, indent=1) + "\n")
    return told


def table(told: dict) -> str:
    """Returns the audit as a table in Markdown."""
    lines = [
        "| world | random | expert | turns | characters | steps/s | teaches |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in WORLDS:
        row = told["worlds"].get(name)
        if row is None:  # a new world that was not measured yet
            continue
        best = f" (best possible {row['optimum']:.3f})" if row["optimum"] else ""
        lines.append(
            f"| `{name}` | {row['random']:.3f} | {row['expert']:.3f}{best} | "
            f"{row['turns']:.1f} | {row['characters']:.0f} | {row['steps_per_second']:,} | "
            f"{WORLDS[name].teaches} |"
        )
    versions = ", ".join(f"{package} {number}" for package, number in told["versions"].items())
    lines.append("")
    lines.append(f"{told['date']}, {versions}; `python -m minprm.envs --audit`.")
    return "\n".join(lines)


def _played(name: str, episodes: int, who: str) -> dict[str, float]:
    """Plays episodes and returns shares and means over them."""
    # expert and random play meet the same tasks: index counts from 0 in both
    world = WORLDS[name]()
    rng = random.Random(0)
    wins = 0
    steps = 0
    seconds = 0.0  # spent in `step` alone, without the planner and without making tasks
    characters = []  # of each observation
    for index in range(episodes):
        observation = world.reset(task_seed("test", index))
        characters.append(len(observation))
        done = False
        while not done:
            action = world.expert() if who == "expert" else rng.choice(world.actions())
            began = time.perf_counter()
            observation, _, done, _ = world.step(action)
            seconds += time.perf_counter() - began
            characters.append(len(observation))
            steps += 1
        wins += world.success
    return {
        "success": wins / episodes,
        "turns": steps / episodes,
        "steps": steps,
        "characters": fmean(characters),
        "seconds": seconds,
    }


def _optimum(world: World, episodes: int) -> float | None:
    """Returns the mean of the exact best chance of success, or None if the world knows none."""
    if not hasattr(world, "optimum"):
        return None
    values = []
    for index in range(episodes):
        world.reset(task_seed("test", index))
        values.append(world.optimum())
    return fmean(values)


def _versions() -> dict[str, str]:
    """Returns the versions of what the worlds run on, as far as it is installed."""
    found = {"Python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
