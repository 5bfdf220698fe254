"""minprm report [RUN ...]: a run as one page for a browser; without a run, the list of runs.

Several runs make one page, written into the folder of the first. It can be made while a run is
under way, too.
"""

from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from statistics import fmean
from typing import Annotated

from tyro.conf import Positional, arg

from minprm.arms import starts
from minprm.commands.checks import refuse
from minprm.commands.cli import given_knobs, read_flags
from minprm.constants import fail
from minprm.look.log import held
from minprm.printable import printable
from minprm.report.files import (
    RUNS,
    UNREADABLE,
    Broken,
    arms_done,
    folder_of,
    read_json,
    read_lines,
)
from minprm.report.gather import replayed
from minprm.report.page import write_page

ONE_PAGE = "minprm report A B makes one page of both runs, with their knobs, arms and episodes"
GONE: dict[str, str] = dict.fromkeys(("compare", "worst", "best"), ONE_PAGE)


@dataclass
class Report:
    """Writes the page of a run, or of several; without a run, lists all runs."""

    # names of runs, or paths of their folders
    runs: Annotated[list[str], Positional, arg(metavar="RUN ...")] = field(default_factory=list)


def main(argv: list[str]) -> None:
    """The command."""
    given_knobs(argv, GONE)
    runs = read_flags(Report, argv, "minprm report").runs
    try:
        folders = [folder_of(run) for run in runs]
        for folder in folders:
            refuse(folders.count(folder) > 1, f"{folder} is named twice")
        print(printable(str(write_page(folders)) if folders else list_of_runs()))
    except (Broken, OSError) as error:
        fail(str(error))


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
    except (OSError, *UNREADABLE) as error:
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
