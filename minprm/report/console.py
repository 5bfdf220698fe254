"""Runs on a terminal: the list of all, two beside each other, and episodes to read."""

from datetime import datetime
from pathlib import Path
from statistics import fmean

from minprm.arms import starts
from minprm.constants import flat
from minprm.look.log import held
from minprm.report.files import RUNS, Broken, Files, arms_done, read_files, read_json, read_lines
from minprm.report.gather import ladder_of, note, replayed
from minprm.text.printable import printable

NOT_COMPARED = ("run", "resume", "config", "dry_run", "preset", "arms", "threads", "jobs", "shard",
                "save_every")  # fmt: skip
TURN_PARTS = ("state", "thought", "action", "expert")


# --- the list of runs -----------------------------------------------------------------------------


def list_of_runs() -> str:
    """A line for each run in runs/, the newest last."""
    folders = [file.parent for file in RUNS.glob("*/config.json")]
    if not folders:
        return f"no run in {RUNS}/ yet; begin with: minprm train --preset smoke"
    rows = sorted((row_of_run(folder) for folder in folders), key=lambda row: row["when"])
    names = ("run", "world", "arms", "state", "when", "best success", "command")
    lines = [dict(zip(names, names, strict=True)), *rows]
    widths = {name: max(len(line[name]) for line in lines) for name in names}
    told = []
    for line in lines:
        told.append("  ".join(line[name].ljust(widths[name]) for name in names).rstrip())
    return "\n".join(told)


def row_of_run(folder: Path) -> dict[str, str]:
    """What the list says of a run; one that cannot be read says so, and the others are listed."""
    row = {"run": printable(folder.name), "world": "?", "arms": "", "best success": ""}
    when = (folder / "config.json").stat().st_mtime
    row["when"] = f"{datetime.fromtimestamp(when):%Y-%m-%d %H:%M}"
    try:
        config = read_json(folder / "config.json")
        ladder = read_json(folder / "ladder.json")
        row["arms"], done = arms_done(config, ladder, folder)
        row["best success"] = best_arm(ladder)
        began = read_lines(folder / starts.FILE)
        if began:
            row["when"] = began[-1]["started"][:16].replace("T", " ")
        row["world"] = printable(config["world"] or f"logs: {Path(config['demos']).name}")
        running = held(folder / "lock")
    except (OSError, KeyError, TypeError, AttributeError, ValueError) as error:
        why = f"a file of it cannot be read: {error}"
        return {**row, "state": "broken", "command": printable(why)}
    if running:
        return {**row, "state": "running", "command": ""}
    if done:
        return {**row, "state": "done", "command": f"minprm report {row['run']}"}
    return {**row, "state": "stopped", "command": f"minprm train --run {row['run']} --resume"}


def best_arm(ladder: dict[str, list[dict]]) -> str:
    """The arm of largest mean success, and that success; neither random play nor the expert."""
    means = {}
    for arm, rows in ladder.items():
        if arm not in ("random", "expert"):
            means[arm] = fmean(row["success"] for row in rows)
    if not means:
        return ""
    arm = max(means, key=lambda arm: means[arm])
    steps = " (steps matched)" if replayed(ladder) else ""
    return f"{means[arm]:.3f} {printable(arm)}{steps}"


# --- two runs beside each other -------------------------------------------------------------------


def comparison(first: Path, second: Path) -> str:
    """Success in two runs, for the arms that both have, and the knobs in which they differ.

    Raises Broken where there is nothing to compare.
    """
    runs = [read_files(first), read_files(second)]
    arms = [{row["arm"]: row for row in ladder_of(files.ladder)} for files in runs]
    shared = [arm for arm in arms[0] if arm in arms[1]]
    if not shared:
        raise Broken(f"{first} and {second} have no arm in common yet")
    if replayed(runs[0].ladder) != replayed(runs[1].ladder):
        raise Broken(f"{first} and {second}: one was played in a world, the other replayed logs")
    names = [printable(files.folder.resolve().name) for files in runs]
    lines = [f"{'arm':<24}{names[0]:<24}{names[1]:<24}{'difference':>10}"]
    for arm in shared:
        before, after = arms[0][arm], arms[1][arm]
        change = after["mean"] - before["mean"]
        lines.append(f"{printable(arm):<24}{_share(before)}{_share(after)}{change:>+10.3f}")
    for arm in (*arms[0], *arms[1]):
        if arm not in shared:
            lines.append(f"{printable(arm):<24}only in {names[arm in arms[1]]}")
    lines.append(f"{note(runs)}.")
    worlds = [files.config.get("world") for files in runs]
    if worlds[0] != worlds[1]:
        lines.append("The runs are of different worlds: a difference may be that of their tasks.")
    return "\n".join([*lines, "", *_what_differs(*runs)])


def _share(row: dict) -> str:
    told = f"{row['mean']:.3f} [{row['low']:.3f}, {row['high']:.3f}]"
    return f"{told:<24}"


def _what_differs(first: Files, second: Files) -> list[str]:
    """A line for each knob that differs."""
    before, now = (dict(flat(files.config)) for files in (first, second))
    lines = []
    for knob in dict.fromkeys([*before, *now]):
        if knob not in NOT_COMPARED and before.get(knob) != now.get(knob):
            values = f"{before.get(knob)!r:<24}{now.get(knob)!r}"
            lines.append(printable(f"{knob:<24}{values}"))
    return lines or ["All knobs are the same."]


# --- episodes -------------------------------------------------------------------------------------


def episodes_to_read(folder: Path, number: int, worst: bool) -> str:
    """So many episodes of each arm: those of the smallest reward, or of the largest. Raises Broken
    where none was kept."""
    arms: dict[str, list[dict]] = {}
    for episode in read_lines(folder / "episodes.jsonl"):
        arms.setdefault(episode["arm"], []).append(episode)
    if not arms:
        why = "no arm was evaluated yet, or --keep-episodes was 0"
        raise Broken(f"{folder} keeps no episodes: {why}")
    told = []
    for episodes in arms.values():
        ranked = sorted(episodes, key=merit, reverse=not worst)
        told += [readable(episode) for episode in ranked[:number]]
    return printable("\n\n".join(told))


def merit(episode: dict) -> tuple[bool, float]:
    """What episodes are ranked by: success, and then all that the world paid."""
    return episode["won"], sum(turn["reward"] or 0.0 for turn in episode["turns"])


def readable(episode: dict) -> str:
    """An episode as lines of text."""
    won, paid = merit(episode)
    end = "won" if won else "outgrew its context" if episode["outgrown"] else "lost"
    where = f"{episode['arm']}, seed {episode['seed']}, task {episode['task']}"
    lines = [f"== {where}: {end}, reward {paid:g}"]
    for number, turn in enumerate(episode["turns"], start=1):
        lines.append(f"-- turn {number}{'' if turn['valid'] else ', illegal'}")
        for part in TURN_PARTS:
            if turn[part] is not None:
                words = turn[part].replace("\n", "\n" + " " * 9)
                lines.append(f"{part:<9}{words}")
    return "\n".join(lines)
