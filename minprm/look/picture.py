"""One group as people read it: a state, the expert's action, and thoughts sorted by reward.

    seed 0  act_prm, after 0 updates: 8 thoughts of one state (cups-7, held out)
        state     ball under d . swap d a . swap c d . swap a c .
        expert    open c
        advantage  reward  times   thought
             4.44   0.998  1 of 8  ball under d . swap d a a swap c d d swap a c c
             0.89   0.200  4 of 8  ball under d . swap d a . swap c d . swap a c .
             0.00   0.000  3 of 8  ball under c . swap d d c swap c d d swap a c d

Of RL a row is an episode, with a line for each turn: the thought, an arrow, the action; or all of a
turn in which no action can be read, marked. A group is a line of samples.jsonl. What a model wrote
is shown, never obeyed, and cut where it is long.
"""

import math
import textwrap
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
    lines: list[str]  # what was written, cut where it is long
    times: int = 0


def picture(line: dict) -> str:
    """The group in this line of samples.jsonl."""
    group = line["group"]
    unit, same = ("episode", "task") if line["action"] is None else ("thought", "state")
    place = ", ".join(one_line(str(line[key])) for key in ("task", "where") if line.get(key))
    lines = [
        f"seed {line['seed']}  {last_stage(line['stage'])}, after {line['update']} updates: "
        f"{len(group)} {unit}s of one {same}" + (f" ({place})" if place else "")
    ]
    lines += _beside("    state     ", _wrapped(one_line(line["state"])))
    if unit == "thought":
        lines += _beside("    expert    ", _wrapped(one_line(line["action"])))
    without = line.get("without_thought")
    if without and None not in without["logp"]:
        mean = line.get("reward") == MEAN
        p = math.exp(fmean(without["logp"]) if mean else sum(without["logp"]))
        measure = "mean probability of a token" if mean else "probability"
        lines.append(f"    the expert's action has {measure} {p:.3f} without a thought")
    if any(entry.get("descendants") is not None for entry in group):
        lines.append("    advantage: how many paths of the last step descend from a thought")
    if not any(entry["advantage"] for entry in group):
        lines.append("    every advantage is 0: an update learns nothing from this group")
    width = len(f"{len(group)} of {len(group)}")
    lines.append(f"    advantage  reward  {'times':<{width}}  {unit}")
    rows = rows_of(group)
    left_out = len(rows) - ROWS[unit]
    for i, row in enumerate(rows):
        if left_out > 0 and ROWS[unit] - 2 <= i < len(rows) - 2:
            if i == ROWS[unit] - 2:
                lines.append(f"    … {left_out} more between these")
            continue
        times = f"{row.times} of {len(group)}"
        head = f"    {row.advantage:9.2f} {row.reward:7.3f}  {times:<{width}}  "
        lines += _beside(head, row.lines)
    return "\n".join(lines)


def rows_of(group: list[dict]) -> list[Row]:
    """The rows of a group, the largest reward first. Those that look alike are counted as one."""
    rows: dict[tuple, Row] = {}
    for entry in group:
        texts, lines = _episode(entry) if "turns" in entry else _thought(entry)
        advantage = entry["advantage"] or 0.0  # an episode without a turn has none
        alike = (f"{entry['reward']:.3f} {advantage:.2f}", *texts)
        row = rows.setdefault(alike, Row(entry["reward"], advantage, lines))
        row.times += 1
    return sorted(rows.values(), key=lambda row: (-row.reward, -row.advantage))


def _thought(entry: dict) -> tuple[list[str], list[str]]:
    """(what was written, the same in a few lines)."""
    text = one_line(entry["thought"])
    if not entry.get("closed", True):
        note = "never ended" if entry.get("cut", True) else "ended the turn"
        text = f"({note}) {text}"
    return [text], _wrapped(text)


def _episode(entry: dict) -> tuple[list[str], list[str]]:
    """The same with a line for each turn: most of it is for the thought."""
    turns = entry["turns"]
    plural = "" if len(turns) == 1 else "s"
    unreadable = sum("unreadable" in turn for turn in turns)
    mark = f", {unreadable} unreadable" if unreadable else ""
    texts = [f"{'won' if entry.get('won') else 'lost'} in {len(turns)} turn{plural}{mark}"]
    lines = texts[:]
    for turn in turns:
        if "unreadable" in turn:
            texts.append(f"(unreadable) {one_line(turn['unreadable'])}")
            lines += _wrapped(texts[-1], lines=1)
            continue
        thought, action = one_line(turn["thought"]), one_line(turn["action"])
        texts.append(f"{thought} → {action}")
        (act,) = _wrapped(action, WIDTH // 2, lines=1)
        (before,) = _wrapped(thought, WIDTH - len(" → ") - len(act), lines=1)
        lines.append(f"{before} → {act}")
    if len(turns) > TURNS:
        lines[TURNS + 1 :] = [f"… {len(turns) - TURNS} more turns"]
    return texts, lines


def _beside(head: str, lines: list[str]) -> list[str]:
    """The lines, the first of them after the head, the others below it."""
    first, *others = lines
    return [head + first, *(" " * len(head) + line for line in others)]


def _wrapped(text: str, width: int = WIDTH, lines: int = LINES) -> list[str]:
    """The text in so many lines at most, with a mark where it is cut."""
    some = text[: 2 * width * lines]  # a text may be very long
    return textwrap.wrap(some, width, max_lines=lines, placeholder=CUT)


def one_line(text: str | None) -> str:
    r"""The text in one line, without any character that a terminal obeys.

    >>> one_line("look\n\x1b[2J"), one_line(None)
    ('look \\x1b[2J', '-')
    """
    return printable(" ".join((text or "").split())) or "-"
