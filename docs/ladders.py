"""What a page quotes of a finished run: its ladder, and a few of the thoughts and curves behind it.

rows        of each arm: success of each seed, mean and interval, shares, seconds
groups      of the first seed's watched states: the thoughts before the first update and at last
trees       one log of resampled paths at the first look: which thought came from which
curves      rewards and success, update by update
relabelled  mean reward of the thoughts that were written into the logs, one a seed
"""

import math
import platform
import re
from datetime import datetime
from statistics import fmean

from minprm.constants import fail
from minprm.report.files import Broken, Files, arms_done, folder_of, read_files
from minprm.report.gather import curves_of, interval_kind, ladder_of
from minprm.report.looks import looks_of, trees_of
from minprm.run.starts import as_line

LEARNING = ("act_prm", "act_prm:resample", "rl")  # the stages whose thoughts and curves are kept
CURVES = ("reward/mean", "eval/held_out_reward", "eval/success")


def of_run(run: str) -> dict:
    """The results of a finished run, all but the machine, which is the one that asks."""
    files = finished(run)
    text = (files.folder / "log.txt").read_text(encoding="utf-8")
    first = files.starts[0]
    rows = {row["arm"]: row_of(row, files.ladder[row["arm"]]) for row in ladder_of(files.ladder)}
    return {
        "command": as_line(first["command"]),
        "commit": first["commit"],
        "date": first["started"][:10],
        "python": first["python"],
        "libraries": first["libraries"],
        "seeds": files.config["seeds"],
        "interval": between(files.ladder),
        "note": "an arm's seconds hold the stages that it shares with others",
        "wall_seconds": wall_seconds(files),
        "base_seconds": numbers(r"base model ready in ([\d.]+) s", text),
        "rows": rows,
        "relabelled": relabelled(text),
        "groups": groups(files),
        "trees": trees(files),
        "curves": curves(files),
    }


def finished(run: str) -> Files:
    """The files of a run, which is done and which one commit has made. Exits otherwise."""
    try:
        files = read_files(folder_of(run))
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


def between(ladder: dict[str, list[dict]]) -> str:
    """How the intervals of the arms were made."""
    kinds = {len(rows): interval_kind(rows) for rows in ladder.values()}
    seeds = max(kinds)
    return f"95 %, t over seeds, n = {seeds}" if seeds > 1 else f"95 %, {kinds[1]}"


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
    """From the start to the last line of the ladder; None where the run was interrupted."""
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
    found = {}
    for look in looks_of(files.samples, files.config):
        if look["seed"] == files.config["seeds"][0] and look["stage"] in ("act_prm", LEARNING[1]):
            found[look["stage"]] = [state_of(state) for state in look["states"]]
    return found


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


def trees(files: Files) -> list[dict]:
    """The first log of resampled paths, at the first look of the first seed that has one."""
    found = trees_of(files.samples)[:1]
    for tree in found:
        for step in tree["steps"]:
            for z in step["thoughts"]:
                z["reward"] = round(z["reward"], 3)
    return found


def curves(files: Files) -> list[dict]:
    """The curves of the stages that learn; a metric that is looked at now and then has its own
    updates."""
    found = []
    for curve in curves_of(files.metrics):
        if curve["stage"] in LEARNING:
            metrics = {}
            for name in CURVES:
                values = zip(curve["updates"], curve["metrics"].get(name, []), strict=False)
                known = [(update, round(x, 4)) for update, x in values if x is not None]
                metrics[name] = {"updates": [u for u, _ in known], "values": [x for _, x in known]}
            found.append({"seed": curve["seed"], "stage": curve["stage"], **metrics})
    return found
