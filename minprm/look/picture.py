"""One group as people read it: a state, the expert's action, and thoughts sorted by reward.

    seed 0  act_prm, after 0 updates: 8 thoughts of one state (cups-7, held out)
        state     ball under d . swap d a . swap c d . swap a c .
        expert    open c
        advantage  reward  times   thought
             4.44   0.998  1 of 8  ball under d . swap d a a swap c d d swap a c c
             0.89   0.200  4 of 8  ball under d . swap d a . swap c d . swap a c .
             0.00   0.000  3 of 8  ball under c . swap d d c swap c d d swap a c d

Of RL a row is an episode, with a line for each turn: the thought, an arrow, the action. A group is
a line of samples.jsonl. What a model wrote is shown, never obeyed, and cut where it is long.
"""

import math
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean

from minprm.printable import printable
from minprm.run.stage_ids import last_stage

WIDTH = 80  # letters of a line at most, without what stands before it
LINES = 3  # of a thought, a state or an action
ROWS = {"thought": 8, "episode": 4}  # of a group; between the best and the worst some are left out
TURNS = 8  # of an episode
CUT = " […]"
MEAN = "action_prob_mean"  # a reward that is the geometric mean over the action's tokens


@dataclass
class Row:
    """A thought of a group, or in RL an episode of a task, and how many are just like it."""

    reward: float
    advantage: float
    turns: list[tuple[str, str]]  # (thought, action); of a thought alone there is no action
    note: str  # what else is to be known of it
    times: int = 1

    def text(self) -> str:
        """All that was written, with a line for each turn."""
        return "\n".join(f"{thought} → {act}" if act else thought for thought, act in self.turns)


def rows_of(group: list[dict]) -> list[Row]:
    """The rows of a group, the largest reward first. Those that look alike are counted as one."""
    rows: dict[tuple, Row] = {}
    for entry in group:
        if "turns" in entry:
            turns = [(one_line(t["thought"]), one_line(t["action"])) for t in entry["turns"]]
            note = "won" if entry.get("won") else "lost"
        else:
            turns = [(one_line(entry["thought"]), "")]
            note = _unclosed(entry)
        advantage = entry["advantage"] or 0.0  # an episode without a turn has none
        row = Row(entry["reward"], advantage, turns, note)
        alike = (f"{row.reward:.3f} {row.advantage:.2f} {note}", *turns)
        if alike in rows:
            rows[alike].times += 1
        else:
            rows[alike] = row
    return sorted(rows.values(), key=lambda row: (-row.reward, -row.advantage))


def _unclosed(entry: dict) -> str:
    """What there is to say of a thought that was not closed."""
    if entry.get("closed", True):
        return ""
    return "never ended" if entry.get("cut", True) else "ended the turn"


def one_line(text: str | None) -> str:
    r"""The text in one line, without any character that a terminal obeys.

    >>> one_line("look\n\x1b[2J"), one_line(None)
    ('look \\x1b[2J', '-')
    """
    return printable(" ".join((text or "").split())) or "-"


def picture(line: dict) -> str:
    """The group in this line of samples.jsonl."""
    return "\n".join(_lines(line))


def _lines(line: dict) -> Iterator[str]:
    """The picture, line by line."""
    group = line["group"]
    unit, same = ("episode", "task") if line["action"] is None else ("thought", "state")
    when = f"{last_stage(line['stage'])}, after {line['update']} updates"
    place = ", ".join(one_line(str(line[key])) for key in ("task", "where") if line.get(key))
    where = f" ({place})" if place else ""
    yield f"seed {line['seed']}  {when}: {len(group)} {unit}s of one {same}{where}"
    yield from _beside("    state     ", _wrapped(one_line(line["state"])))
    if unit == "thought":
        yield from _beside("    expert    ", _wrapped(one_line(line["action"])))
    without = _without_thought(line)
    if without is not None:
        what = "mean probability of a token" if line.get("reward") == MEAN else "probability"
        yield f"    the expert's action has {what} {without:.3f} without a thought"
    if any(entry.get("descendants") is not None for entry in group):
        yield "    advantage: how many paths of the last step descend from a thought"
    if not any(entry["advantage"] for entry in group):
        yield "    every advantage is 0: an update learns nothing from this group"
    yield f"    advantage  reward  {'times':<{_width(group)}}  {unit}"
    best = rows_of(group)
    left_out = len(best) - ROWS[unit]
    worst = []
    if left_out > 0:
        worst = best[-2:]
        best = best[: ROWS[unit] - 2]
    for row in best:
        yield from _shown(row, group)
    if worst:
        yield f"    … {left_out} more between these"
    for row in worst:
        yield from _shown(row, group)


def _width(group: list[dict]) -> int:
    """Letters of the column that counts."""
    return len(f"{len(group)} of {len(group)}")


def _shown(row: Row, group: list[dict]) -> Iterator[str]:
    times = f"{row.times} of {len(group)}"
    head = f"    {row.advantage:9.2f}{row.reward:8.3f}  {times:<{_width(group)}}  "
    yield from _beside(head, _episode(row) if "turns" in group[0] else _thought(row))


def _beside(head: str, lines: list[str]) -> Iterator[str]:
    """The lines, the first of them after the head, the others below it."""
    for i, line in enumerate(lines):
        yield f"{'' if i else head:<{len(head)}}{line}"


def _thought(row: Row) -> list[str]:
    """A thought in a few lines."""
    return _wrapped(f"({row.note}) {row.text()}" if row.note else row.text())


def _episode(row: Row) -> list[str]:
    """An episode with a line for each turn: most of it is for the thought."""
    lines = [f"{row.note} in {len(row.turns)} turn{'s' * (len(row.turns) != 1)}"]
    for thought, action in row.turns[:TURNS]:
        (act,) = _wrapped(action, WIDTH // 2, lines=1)
        (before,) = _wrapped(thought, WIDTH - len(" → ") - len(act), lines=1)
        lines.append(f"{before} → {act}")
    if len(row.turns) > TURNS:
        lines.append(f"… {len(row.turns) - TURNS} more turns")
    return lines


def _wrapped(text: str, width: int = WIDTH, lines: int = LINES) -> list[str]:
    """The text in so many lines at most, with a mark where it is cut."""
    some = text[: 2 * width * lines]  # a text may be very long
    return textwrap.wrap(some, width, max_lines=lines, placeholder=CUT)


def _without_thought(line: dict) -> float | None:
    """p(action) without a thought, on the scale of the rewards; None where it was not read."""
    action = line.get("without_thought")
    if not action or None in action["logp"]:
        return None
    logp = action["logp"]
    return math.exp(fmean(logp) if line.get("reward") == MEAN else sum(logp))
