"""minprm judge FILE --reward FILE.py:NAME: what stored episodes would earn by another reward.

The file is what minprm evaluate --transcripts wrote. Nothing is played: the function of --rl.reward
is given each stored episode as training would give it. What --rl.format-penalty takes is no part
of it.
"""

import json
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from statistics import fmean
from typing import Annotated, NamedTuple, TextIO

from tyro.conf import Positional, arg

from minprm import own
from minprm.chosen import judged
from minprm.commands.cli import given_knobs, read_flags
from minprm.constants import Own, fail
from minprm.logs.reader import read_rows
from minprm.printable import printable

SHOWN = 10  # of the episodes whose rewards differ most


@dataclass
class Judge:
    """Pays stored episodes by another reward, and prints where it differs most. Plays nothing."""

    path: Annotated[str, Positional, arg(metavar="FILE")]  # of minprm evaluate --transcripts
    reward: Own  # FILE.py:NAME, as --rl.reward takes it
    before: str = ""  # the reward to compare with: success, or FILE.py:NAME; none: what was earned
    to: str = ""  # new file to write both rewards of every episode to, JSONL


class Judged(NamedTuple):
    """An episode with its two rewards."""

    checkpoint: str
    task: int
    success: bool
    before: float
    after: float


def main(argv: list[str]) -> None:
    """The command."""
    given_knobs(argv)
    flags = read_flags(Judge, argv, "minprm judge")
    own.require("--reward", flags.reward, ["success"], own.EPISODE_TAKES)
    if flags.before:
        own.require("--before", flags.before, ["success"], own.EPISODE_TAKES)
    try:
        episodes = read_rows(flags.path, lambda row: complete(row, flags.before))
    except ValueError as error:
        fail(str(error))
    if not episodes:
        fail(f"{flags.path}: there is no episode in it")
    with new_file(flags.to) as file:
        rows = []
        for episode in episodes:
            rows.append(paid_anew(episode, flags))
            if file:  # line by line: a judge that asks a model may be stopped
                file.write(json.dumps(rows[-1]._asdict()) + "\n")
    print(printable(describe(rows)))


def complete(row: dict, before: str) -> dict:
    """The row. Raises ValueError where it lacks what a reward is given."""
    needed: dict = {"checkpoint": str, "task": int, "success": bool, "messages": list}
    if not before:
        needed["reward"] = (int, float)
    for key, kind in needed.items():
        if not isinstance(row.get(key), kind):
            other = ", or give --before success" if key == "reward" else ""
            raise ValueError(
                f'its "{key}" is missing, or of another type: a reward is given episodes that '
                f"were played, as minprm evaluate --transcripts writes them{other}"
            )
    return row


def new_file(name: str) -> AbstractContextManager[TextIO | None]:
    """The file of --to, to be written; None where there is none."""
    try:
        if not name:
            return nullcontext()
        return open(name, "x", 1, encoding="utf-8", newline="\n")  # line by line, whoever ends it
    except FileExistsError:
        fail(f"--to {name}: this file is there already; name a new one")
    except OSError as error:
        fail(f"--to {name}: {error.strerror}")


def paid_anew(episode: dict, flags: Judge) -> Judged:
    """The episode, paid by both rewards."""
    arguments = (episode["messages"], episode["success"], episode["task"])
    before = judged(flags.before, *arguments) if flags.before else episode["reward"]
    after = judged(flags.reward, *arguments)
    return Judged(episode["checkpoint"], episode["task"], episode["success"], before, after)


def describe(rows: list[Judged]) -> str:
    """The mean rewards of each checkpoint, and the episodes whose rewards differ most."""
    lines = ["  before   after  episodes  checkpoint"]
    for checkpoint in dict.fromkeys(row.checkpoint for row in rows):
        group = [row for row in rows if row.checkpoint == checkpoint]
        before = fmean(row.before for row in group)
        after = fmean(row.after for row in group)
        lines.append(f"{before:8.3f}{after:8.3f}{len(group):10,}  {checkpoint}")
    changed = [(number, row) for number, row in enumerate(rows, 1) if row.after != row.before]
    lines += ["", f"{len(changed):,} of {len(rows):,} episodes earn another reward than before."]
    if changed:
        lines += ["", "  before   after  episode        task  checkpoint"]
    changed.sort(key=lambda entry: -abs(entry[1].after - entry[1].before))
    for number, row in changed[:SHOWN]:
        rewards = f"{row.before:8.3f}{row.after:8.3f}"
        lines.append(f"{rewards}{number:9,}{row.task:12}  {row.checkpoint}")
    return "\n".join(lines)
