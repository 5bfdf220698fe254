"""The list of all runs, on a terminal."""

from datetime import datetime
from pathlib import Path
from statistics import fmean

from minprm.arms import starts
from minprm.look.log import held
from minprm.printable import printable
from minprm.report.files import RUNS, arms_done, read_json, read_lines
from minprm.report.gather import replayed


def list_of_runs() -> str:
    """A line for each run in runs/, the newest last."""
    folders = [file.parent for file in RUNS.glob("*/config.json")]
    if not folders:
        return f"no run in {RUNS}/ yet; begin with: minprm train --preset smoke"
    rows = sorted((row_of_run(folder) for folder in folders), key=lambda row: row["when"])
    names = ("run", "world", "arms", "state", "when", "best success", "command")
    lines = [dict(zip(names, names, strict=True)), *rows]
    widths = {name: max(len(line[name]) for line in lines) for name in names}
    table = []
    for line in lines:
        table.append("  ".join(line[name].ljust(widths[name]) for name in names).rstrip())
    return "\n".join(table)


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
        row["world"] = printable(
            config.get("agent") or config["world"] or f"logs: {Path(config['demos']).name}"
        )
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
