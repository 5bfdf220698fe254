"""What a page quotes of a finished run: its ladder, and a few of the thoughts and curves behind it.

rows        of each arm: success of each seed, mean and interval, shares, seconds
groups      of the first seed's watched states: the thoughts before the first update and at last
paths       one log of resampled paths at the first look: which thought came from which
curves      rewards and success, update by update
relabelled  mean reward of the thoughts that were written into the logs, one a seed
"""

import math
import platform
import re
import shlex
from datetime import datetime
from statistics import fmean

from evidence.results import machine
from minprm.constants import fail
from minprm.report.files import Broken, Files, arms_done, folder_of
from minprm.report.gather import curves_of, interval_kind, ladder_of
from minprm.report.looks import looks_of, trees_of

CURVES_OF = ("act_prm", "act_prm:resample", "rl", "rl:dense")  # the stages that learn
LOOKS = {"held_out_reward": "eval/held_out_reward", "success": "eval/success"}


def of_run(run: str) -> dict:
    """The results of a finished run."""
    files = finished(run)
    text = (files.folder / "log.txt").read_text(encoding="utf-8")
    first = files.starts[0]
    rows = {row["arm"]: row_of(row, files.ladder[row["arm"]]) for row in ladder_of(files.ladder)}
    return {
        "command": shlex.join(first["command"]),
        "commit": first["commit"],
        "date": first["started"][:10],
        "python": first["python"],
        "machine": machine(files.config["threads"]),
        "libraries": first["libraries"],
        "seeds": files.config["seeds"],
        "interval": interval_of(files.ladder),
        "wall_seconds": wall_seconds(files),
        "base_seconds": numbers(r"base model ready in ([\d.]+) s", text),
        "rows": rows,
        "relabelled": relabelled(text),
        "groups": groups(files),
        "paths": paths(files),
        "curves": curves(files),
    }


def finished(run: str) -> Files:
    """The files of a run, which is done and which one commit has made. Exits otherwise."""
    try:
        files = Files(folder_of(run))
    except Broken as error:
        fail(str(error))
    done = arms_done(files.config, files.ladder, files.folder)[1]
    if not done:
        fail(f"{run}: its arms are not all done; python train.py --run {run} --resume ends it")
    commits = {start["commit"] for start in files.starts}
    if len(commits) > 1 or None in commits or any("dirty" in name for name in commits):
        fail(f"{run}: made by {commits}, but results name one commit; make it again")
    if files.starts[0]["platform"] != platform.platform():
        fail(f"{run}: write its results on the machine that made it")
    return files


def interval_of(ladder: dict[str, list[dict]]) -> str:
    """How the intervals of the arms were made."""
    kinds = {len(rows): interval_kind(rows) for rows in ladder.values()}
    seeds = max(kinds)
    if seeds == 1:
        return f"95 %, {kinds[1]}"
    return f"95 %, t over seeds, n = {seeds}; where they agree Wilson's over tasks"


def row_of(row: dict, seeds: list[dict]) -> dict:
    """One arm."""
    return {
        "mean": row["mean"], "low": row["low"], "high": row["high"],
        "values": [seed["success"] for seed in seeds],
        "thoughts": fmean(seed["thought_rate"] for seed in seeds),
        "copies": fmean(seed["copy_rate"] for seed in seeds),
        "seconds": fmean(seed["seconds"] for seed in seeds),
        "tasks": seeds[0]["tasks"],
    }  # fmt: skip


def wall_seconds(files: Files) -> int | None:
    """From when the first base model was ready to the last line of the ladder; None where the run
    was interrupted."""
    if len(files.starts) > 1:
        return None
    began = datetime.fromisoformat(files.starts[0]["started"]).timestamp()
    return round((files.folder / "ladder.json").stat().st_mtime - began)


def numbers(pattern: str, text: str) -> list[float]:
    return [float(found) for found in re.findall(pattern, text)]


def relabelled(text: str) -> dict[str, list[float]]:
    """The mean reward of each relabelling, one a seed, from the log.

    >>> relabelled("relabel: 128 demos, mean reward 0.398, 0.201 without a thought")
    {'relabel': [0.398]}
    """
    found: dict[str, list[float]] = {}
    for stage, reward in re.findall(r"(\S*relabel\S*): \d+ demos, mean reward ([\d.]+),", text):
        found.setdefault(stage, []).append(float(reward))
    return found


def groups(files: Files) -> dict[str, list[dict]]:
    """The watched states of the first seed, each before the first update and at the last look."""
    for look in looks_of(files.samples, files.config, files.relabelled):
        if look["seed"] == files.config["seeds"][0] and look["stage"] == "act_prm":
            return {"act_prm": [state_of(state) for state in look["states"]]}
    return {}


def state_of(state: dict) -> dict:
    frames = {}
    for when, frame in (("before", state["frames"][0]), ("after", state["frames"][-1])):
        chance = math.exp(sum(frame["without_thought"]["logp"]))
        frames[when] = {
            "update": frame["update"],
            "without_thought": round(chance, 3),
            "thoughts": counted(frame["group"]),
        }
    told = {"task": state["task"], "where": state["where"], "state": state["text"]}
    return {**told, "expert": state["action"], **frames}


def counted(group: list[dict]) -> list[dict]:
    """The thoughts, equal ones once with how many they are; the largest advantage first."""
    found: dict[tuple, dict] = {}
    for z in sorted(group, key=lambda z: -z["advantage"]):
        names = ("thought", "kind", "reward", "advantage")
        told = {name: z[name] for name in names}
        found.setdefault((z["thought"], z["advantage"]), {**told, "times": 0})["times"] += 1
    return list(found.values())


def paths(files: Files) -> dict:
    """The log of resampled paths with the most distinct steps, as the first seed walked it at its
    first look. `up` is a thought's parent in the step before; {} where nothing was resampled."""
    first = (files.config["seeds"][0], 0)
    known = trees_of(files.samples)
    trees = [tree for tree in known if (tree["seed"], tree["update"]) == first]
    if not trees:
        return {}
    tree = max(trees, key=lambda tree: len(tree["steps"]))
    steps = []
    for step in tree["steps"]:
        group = [{**z, "reward": round(z["reward"], 3)} for z in step["thoughts"]]
        steps.append({"state": step["state"], "action": step["action"], "group": group})
    return {**tree, "steps": steps}


def curves(files: Files) -> dict[str, dict]:
    """Of each stage that learns a list for each seed: the reward at every update, and what is
    looked at now and then, at the updates of those looks."""
    found: dict[str, dict] = {}
    for curve in curves_of(files.metrics):
        if curve["stage"] not in CURVES_OF:
            continue
        kept = found.setdefault(curve["stage"], {})
        kept.setdefault("reward", []).append(rounded(curve["metrics"]["reward/mean"]))
        for name, metric in LOOKS.items():
            values = curve["metrics"].get(metric, [])
            looked = [u for u, x in zip(curve["updates"], values, strict=False) if x is not None]
            if looked:
                kept["updates"] = looked
                kept.setdefault(name, []).append(rounded(x for x in values if x is not None))
    return found


def rounded(values) -> list[float]:
    return [round(x, 4) for x in values]
