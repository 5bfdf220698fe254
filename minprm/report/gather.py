"""From the files of runs to the data of their page: several runs make one page.

    runs      what was run: world, knobs, command, versions
    looks     groups of thoughts at chosen updates (looks.py), and `trees` of resampled paths
    curves    the metrics of each stage and seed, update by update
    ladder    each arm's success, with its interval and the row of each seed; `what` is measured,
              and `note` says how the intervals were made
    episodes  those of the evaluation that were kept
    glossary  what each metric means, and what it looks like when something is broken; the arms
    dropped   what thin.py left out

The scripts in page/ read it. What a run does not have is empty there, and its panel says so.
"""

import re
import shlex
from datetime import datetime
from pathlib import Path

from minprm.arms.about import COLUMNS, changed_knobs
from minprm.envs import WORLDS, world_class
from minprm.report.files import Files, arms_done, grouped
from minprm.report.glossary import ABOUT_ARMS, METRICS
from minprm.report.looks import looks_of, trees_of
from minprm.report.table import interval

FORMAT = 1
# Knobs that name a run or say how it was started; the page has places of their own for them.
NAMES = ("preset", "config", "run", "dry_run", "resume", "model", "world")


def gather(folders: list[Path]) -> dict:
    """The data of the page of these runs, whole. Raises Broken, and what is UNREADABLE (files.py)
    for files of another shape."""
    runs = [Files(folder) for folder in folders]
    content = {"format": FORMAT, "made": f"{datetime.now():%Y-%m-%d %H:%M}"}
    content["runs"] = [run_of(files) for files in runs]
    for number, files in enumerate(runs):
        panels = {
            "looks": looks_of(files.samples, files.config, files.relabelled),
            "trees": trees_of(files.samples),
            "curves": curves_of(files.metrics),
            "ladder": ladder_of(files.ladder),
            "episodes": episodes_of(files.episodes),
        }
        for name, entries in panels.items():
            panel = content.setdefault(name, [])
            panel += [{"run": number, **entry} for entry in entries]
    content |= {"what": quantity(runs), "note": note(runs), "dropped": ""}
    names = set()
    for curve in content["curves"]:
        names |= curve["metrics"].keys()
    content["glossary"] = {}
    for name in sorted(names & METRICS.keys()):
        content["glossary"][name] = {"what": METRICS[name].meaning, "broken": METRICS[name].broken}
    for name in sorted({row["arm"] for row in content["ladder"]} & ABOUT_ARMS.keys()):
        content["glossary"][name] = {"what": ABOUT_ARMS[name], "broken": ""}
    return content


def run_of(files: Files) -> dict:
    """What was run. A run of before starts.jsonl tells less."""
    config = files.config
    first = files.starts[0] if files.starts else {}
    arms, done = arms_done(config, files.ladder, files.folder)
    return {
        "name": files.folder.resolve().name,
        "world": config.get("agent") or config.get("world", ""),
        "about": "" if config.get("agent") else first_sentence(config.get("world", "")),
        "preset": config.get("preset", ""),
        "model": config.get("model", ""),
        "command": shlex.join(first.get("command", [])),
        "started": first.get("started", "")[:16].replace("T", " "),
        "python": first.get("python", ""),
        "machine": first.get("platform", ""),
        "commit": first.get("commit") or "",
        "libraries": first.get("libraries", {}),
        "knobs": {"seeds": config.get("seeds", []), **changed_knobs(config, NAMES)},
        "files": str(files.folder),
        "unfinished": "" if done else f"{arms} arms done",
    }


def first_sentence(world: str) -> str:
    """What the world is, by the first sentence of its rules; "" for none, and a world of one's own.

    >>> first_sentence("cups")
    'A ball lies under one of several cups, and cups are swapped two at a time.'
    """
    rules = world_class(world).system if world in WORLDS else ""
    return re.split(r"(?<=[.?!]) ", rules)[0]


def curves_of(metrics: list[dict]) -> list[dict]:
    """The metrics of each seed and stage; null where one was not measured, or was no number."""
    curves = []
    for (seed, stage), lines in grouped(metrics, "seed", "stage").items():
        names = {}  # in the order in which they come
        for line in lines:
            names |= dict.fromkeys(line)
        for name in ("seed", "stage", "update"):
            del names[name]
        values = {}
        for name in names:
            values[name] = [line.get(name) for line in lines]
        updates = [line["update"] for line in lines]
        curves.append({"seed": seed, "stage": stage, "updates": updates, "metrics": values})
    return curves


def ladder_of(ladder: dict[str, list[dict]]) -> list[dict]:
    """Each arm with its interval; random play first, the expert last."""
    order = {"random": -1, "expert": 1}
    arms = []
    for arm in sorted(ladder, key=lambda name: order.get(name, 0)):
        mean, low, high = interval(ladder[arm])
        rows = []
        for row in ladder[arm]:
            rows.append({name: row.get(name) for name in COLUMNS})
        arms.append({"arm": arm, "mean": mean, "low": low, "high": high, "rows": rows})
    return arms


def replayed(ladder: dict[str, list[dict]]) -> bool:
    """Were logs replayed, where there is no world to play in?"""
    return any("likelihood" in row for rows in ladder.values() for row in rows)


def quantity(runs: list[Files]) -> str:
    """What the ladder measures, in a word or two."""
    kinds = {replayed(files.ladder) for files in runs if files.ladder}
    if kinds == {True, False}:
        return "success, or share of steps matched"
    return "share of steps matched" if kinds == {True} else "success"


def note(runs: list[Files]) -> str:
    """How the intervals of the ladder were made (report/table.py)."""
    arms = []
    for files in runs:
        arms += files.ladder.values()
    if not arms:
        return ""
    kinds = dict.fromkeys(interval_kind(rows) for rows in arms)
    alone = any(len(rows) == 1 for rows in arms)
    return f"95 % intervals {' or '.join(kinds)}" + alone * ". One seed says nothing of others"


def interval_kind(rows: list[dict]) -> str:
    """Over what the interval of these rows was made.

    >>> interval_kind([{"tasks": 400, "success": 0.5}])
    "over 400 tasks (Wilson's)"
    """
    if len({row["success"] for row in rows}) > 1:
        return f"over {len(rows)} seeds (Student's t)"
    row = rows[0]
    return (
        f"over {row['logs']} logs" if "interval" in row else f"over {row['tasks']} tasks (Wilson's)"
    )


def episodes_of(lines: list[dict]) -> list[dict]:
    """The kept episodes of each arm and seed."""
    arms = []
    for (arm, seed), episodes in grouped(lines, "arm", "seed").items():
        plain = []
        for episode in episodes:
            entry = dict(episode)
            del entry["arm"], entry["seed"]
            plain.append(entry)
        arms.append({"arm": arm, "seed": seed, "episodes": plain})
    return arms
