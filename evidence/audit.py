"""What each world is, in numbers: random and expert play, measured once and kept in a file.

    python -m evidence.audit [NAME ...] [--write]    # a world of ours, or FILE.py:NAME

The numbers say how much a score is worth: what chance reaches, what the best play reaches, and how
much of a test was seen in training. The last is measured by what the expert sees when it plays, and
not by the hash that base.py divides tasks by.
"""

import argparse
import json
import platform
import random
import time
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from math import comb
from pathlib import Path
from statistics import fmean

from minprm.constants import RL, Config, Tiny, fail
from minprm.envs import WORLDS, world_class
from minprm.envs.bandit import Bandit, rate
from minprm.envs.base import SPLITS, World, task_seed
from minprm.envs.frozenlake import FrozenLake

FILE = Path(__file__).with_name("audit.json")
EXPERT = 200  # episodes of expert play
RANDOM = 500  # episodes of random play
DRAWS = 1_000  # tasks of a split that are drawn to count different ones
SLOW = {"textworld": (20, 20, 20)}  # (expert, random, draws) where a game takes seconds to make
PACKAGES = ("minigrid", "textworld", "bm25s", "gymnasium")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m evidence.audit", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"worlds: {', '.join(WORLDS)}")
    parser.add_argument("--write", action="store_true", help="keep the rows in audit.json")
    flags = parser.parse_args()
    for name in flags.names:
        try:
            world_class(name)
        except ValueError as error:
            fail(str(error))
        if flags.write and name not in WORLDS:
            fail(f"{name}: audit.json holds worlds of ours alone, leave out --write")
    audited = audit(flags.names or list(WORLDS))
    if flags.write:
        write(audited)
    print(table(audited))


def audit(names: list[str]) -> dict:
    """Plays these worlds, on test tasks with default knobs. Returns all rows of the file."""
    # worlds that are not measured now keep their rows
    rows = json.loads(FILE.read_text(encoding="utf-8"))["worlds"] if FILE.exists() else {}
    for name in names:
        expert_episodes, random_episodes, draws = SLOW.get(name, (EXPERT, RANDOM, DRAWS))
        world = world_class(name)
        expert = _played(world(), expert_episodes, "expert")
        chance = _played(world(), random_episodes, "random")
        steps = expert["steps"] + chance["steps"]
        seconds = expert["seconds"] + chance["seconds"]
        rows[name] = {
            "random": chance["success"],
            "expert": expert["success"],
            "optimum": _optimum(world(), expert_episodes),
            "turns": expert["turns"],
            "characters": expert["characters"],
            "steps_per_second": round(steps / seconds),
            "episodes": [expert_episodes, random_episodes],
            "draws": draws,
            "different": {split: different(world(), split, draws) for split in SPLITS},
            **_seen_before(world(), expert_episodes),
        }
    return {"date": str(date.today()), "versions": _versions(), "worlds": rows}


def write(audited: dict) -> None:
    """Puts the audit into the file that the table of docs/worlds.md is compared with."""
    FILE.write_text(json.dumps(audited, indent=1) + "\n", encoding="utf-8")


def table(audited: dict) -> str:
    """Returns the audit as a table in Markdown; worlds of the user's own come last."""
    rows = audited["worlds"]
    lines = [
        "| world | random | expert | turns | characters | steps/s | different train, test tasks "
        "| test in training | begins alike | teaches |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name in dict.fromkeys([*WORLDS, *rows]):
        if name not in rows:  # a new world that was not measured yet
            continue
        row = rows[name]
        best = f" (best possible {row['optimum']:.3f})" if row["optimum"] else ""
        tasks = f"{row['different']['train']:,} and {row['different']['test']:,}"
        if row["draws"] != DRAWS:
            tasks += f" of {row['draws']}"
        if row["seen"] is None:
            held_out = "none held out |"
        else:
            held_out = f"{row['seen']:.3f} | {row['begun']:.3f}"
        lines.append(
            f"| `{name}` | {row['random']:.3f} | {row['expert']:.3f}{best} | "
            f"{row['turns']:.1f} | {row['characters']:.0f} | {row['steps_per_second']:,} | "
            f"{tasks} | {held_out} | {world_class(name).teaches} |"
        )
    versions = ", ".join(f"{package} {number}" for package, number in audited["versions"].items())
    lines.append("")
    lines.append(f"{audited['date']};")
    lines.append(f"{versions};")
    lines.append("`python -m evidence.audit`.")
    return "\n".join(lines)


def _played(world: World, episodes: int, who: str) -> dict[str, float]:
    """Plays episodes and returns shares and means over them."""
    # expert and random play meet the same tasks: index counts from 0 in both
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


def different(world: World, split: str, draws: int) -> int:
    """Counts the different tasks among so many that are drawn of a split."""
    tasks = set()
    for index in range(draws):
        world.reset(task_seed(split, index))
        tasks.add(world.task())
    return len(tasks)


def _seen_before(world: World, episodes: int) -> dict[str, float | None]:
    """Returns which shares of the test tasks a default training has met.

    seen: the expert's whole episode is the same. begun: the first observation is. Both are None in
    a world that holds no tasks out.
    """
    if world.few_tasks:
        return {"seen": None, "begun": None}
    episodes_met = set()
    beginnings_met = set()
    for seed in _training_seeds(world):
        episode = expert_sees(world, seed)
        episodes_met.add(episode)
        beginnings_met.add(episode[0])
    tested = [expert_sees(world, task_seed("test", index)) for index in range(episodes)]
    return {
        "seen": fmean(episode in episodes_met for episode in tested),
        "begun": fmean(episode[0] in beginnings_met for episode in tested),
    }


def _training_seeds(world: World) -> list[int]:
    """Returns seeds of as many tasks as a default run plays: demos, RL, raising the base."""
    cfg = Config()
    played = RL().updates * RL().batch
    if world.thought_mix:
        played += Tiny().updates * Tiny().batch
    rng = random.Random(0)
    seeds = [task_seed("train", index) for index in range(cfg.num_demos + cfg.held_out)]
    return seeds + [task_seed("train", rng.randrange(10**9)) for _ in range(played)]


def expert_sees(world: World, seed: int) -> tuple[str, ...]:
    """Returns all observations and actions of the expert's episode."""
    episode = [world.reset(seed)]
    done = False
    while not done:
        action = world.expert()
        observation, _, done, _ = world.step(action)
        episode += [action, observation]
    return tuple(episode)


def _optimum(world: World, episodes: int) -> float | None:
    """Returns the mean of the exact best chance of success, or None where it is not known."""
    if isinstance(world, Bandit):
        return bandits_optimum(world)
    if not isinstance(world, FrozenLake):
        return None
    values = []
    for index in range(episodes):
        world.reset(task_seed("test", index))
        values.append(world.optimum())
    return fmean(values)


def bandits_optimum(world: Bandit) -> float:
    """Returns the exact chance that the expert, from the start, names the better of two levers.

    It sums the probability of every outcome (A paid so often, B so often) that leads it there.
    """
    if len(world.levers) != 2:
        raise ValueError("the closed form is for two levers")
    pulls_b = world.pulls // 2
    pulls_a = world.pulls - pulls_b  # A is pulled first
    total = 0.0
    for best in "AB":
        chance_a = world.good if best == "A" else world.bad
        chance_b = world.good if best == "B" else world.bad
        for paid_a in range(pulls_a + 1):
            for paid_b in range(pulls_b + 1):
                # a tie goes to A, as `max` in `expert` takes the first
                names_a = rate(paid_a, pulls_a) >= rate(paid_b, pulls_b)
                if names_a == (best == "A"):
                    probability_a = _binomial(pulls_a, paid_a, chance_a)
                    total += probability_a * _binomial(pulls_b, paid_b, chance_b)
    return total / 2  # either lever is the best one in half of the tasks


def _binomial(n: int, k: int, p: float) -> float:
    """C(n, k) p^k (1 - p)^(n - k): the probability of k hits in n tries."""
    return comb(n, k) * p**k * (1 - p) ** (n - k)


def _versions() -> dict[str, str]:
    """Returns the versions of what the worlds run on, as far as it is installed."""
    versions = {"Python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions


if __name__ == "__main__":
    main()
