"""Logs on disk and as `Demo`s: read in any known format, written as JSONL, split by task.

    {"task": ..., "messages": [...], "tools": [...]}

An assistant's message is one step, and what it says and calls is one action (text/actions.py). Its
thought stands in `reasoning_content`. An answer of weight 0, and a greeting before the user's first
message, are no steps: the model reads them in the state of the next one.

Which files are meant: files.py. Which formats are read: formats.py. What is brought into one form:
normalise.py. Every bad log is found in one pass, each with its file, line and message.
"""

import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from minprm.constants import fail
from minprm.data import Demo, Step
from minprm.logs.books import (
    ARGUMENTS,
    AS_THEY_ARE,
    Reading,
    as_list,
    fields_of,
    first,
    is_kept,
    objects_in,
    parsed,
    renamed,
    without,
)
from minprm.logs.files import Problem, files_of, unread_files, values_of
from minprm.logs.formats import logs_of, opened
from minprm.logs.normalise import LeftOut, normalised
from minprm.logs.pairing import BEGINNINGS, REASONING, as_line, without_beginnings
from minprm.logs.schemas import add_missing_tools
from minprm.logs.thoughts import THOUGHTS
from minprm.text.actions import joined, parse_json

T = TypeVar("T")
TOKENS = re.compile(r'"(?:[^"\\]|\\.)*"|[:,\s]\s*')


@dataclass
class Report:
    """What was found while reading logs."""

    files: int = 0
    formats: Counter[str] = field(default_factory=Counter)  # how many logs came in each
    normalised: Counter[str] = field(default_factory=Counter)  # how often each change was made
    problems: list[Problem] = field(default_factory=list)  # one for each bad line
    places: list[str] = field(default_factory=list)  # of the good ones: file and line
    first_places: dict[str, str] = field(default_factory=dict)  # of each change
    written: Counter[str] = field(default_factory=Counter)  # what is in the good logs' files
    first: tuple[Any, Demo] | None = None  # the first good log, as it was written and as read

    def in_a_line(self) -> str:
        """What was changed and what was left out; empty where that is nothing."""
        parts = [f"{n:,} x {change}" for change, n in self.normalised.most_common()]
        if self.problems:
            lines = "line" if len(self.problems) == 1 else "lines"
            parts.append(f"{len(self.problems):,} bad {lines} left out")
        return "; ".join(parts)


# --- one log --------------------------------------------------------------------------------------


def from_chat(
    line: dict, reading: Reading = AS_THEY_ARE, notes: Counter[str] | None = None
) -> Demo:
    """The demo in one line of chat. Raises ValueError with what is wrong.

    notes: counts what was brought into another form.

    >>> log = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "open c"}]
    >>> from_chat({"messages": log}).steps[0].action
    'open c'
    """
    notes = Counter() if notes is None else notes
    log = normalised(line, reading, notes)
    messages = log["messages"]
    greeting = _end_of_greeting(messages)
    steps = []
    state = []
    for i, message in enumerate(messages):
        if message["role"] != "assistant" or message.get("weight") == 0 or i < greeting:
            state.append(message)
        else:
            steps.append(Step(state, message.get(REASONING), _action(message, i)))
            state = []
    learned = line.get("learned")  # of each step, in a log that was relabelled
    if isinstance(learned, list) and len(learned) == len(steps):
        for step, mark in zip(steps, learned, strict=True):
            step.learned = step.learned and bool(mark)
    if not steps and log["flaws"]:
        raise ValueError(f"{log['flaws'][0]}; no other answer is left to learn")
    if not steps:
        raise ValueError("there is no message of the assistant to learn")
    if not steps[0].state:
        raise ValueError("message 0 is the assistant's: a log begins with what it answers")
    if any(message["role"] == "assistant" for message in messages[:greeting]):
        notes["greetings before the user's first message, read and not learned"] += 1
    if state:
        notes["logs that go on after their last action"] += 1
    return Demo(log["task"], messages, log["tools"] or [], steps, log["outcome"])


def _end_of_greeting(messages: list[dict]) -> int:
    """The number of the user's first message, if only texts come before it; otherwise 0."""
    for i, message in enumerate(messages):
        if message["role"] == "user":
            return i
        if message["role"] == "tool" or "tool_calls" in message:
            break
    return 0


def _action(message: dict, i: int) -> str:
    """The action of the i-th message: what it says, then what it calls."""
    try:
        reply = joined(message["content"] or "", [])
    except ValueError as error:
        raise ValueError(f"message {i} (assistant): {error}") from error
    lines = [reply] if reply else []
    for call in message.get("tool_calls", ()):
        lines.append(as_line(call, to_the_letter(call["function"]["arguments"])))
    return "\n".join(lines)


def to_the_letter(arguments: str) -> str:
    """JSON in one line, spaced as json.dumps does it, with each number as it stands: 129.90 is to
    stay, and Python writes 129.9.

    >>> to_the_letter('{"price":129.90}')
    '{"price": 129.90}'
    """
    return TOKENS.sub(_spaced, arguments)


def _spaced(token: re.Match) -> str:
    text = token[0]
    if text.startswith('"'):
        return json.dumps(json.loads(text, strict=False))
    return f"{text.strip()} " if text.strip() else ""


def to_chat(demo: Demo) -> dict:
    """The demo as one line of chat, with the thoughts of its steps."""
    messages = []
    for step in demo.steps:
        answer = demo.messages[len(messages) + len(step.state)]
        answer = without(answer, REASONING)
        if step.thought is not None:
            answer[REASONING] = step.thought
        messages += [*step.state, answer]
    messages += demo.messages[len(messages) :]
    return {"task": demo.task, "messages": messages, "tools": demo.tools, **demo.outcome}


def to_openai(demo: Demo) -> dict:
    """The demo as OpenAI's fine-tuning takes it. It takes no empty list of tools. The thoughts stay
    in `reasoning_content`, and beside the messages the task and how the log ended."""
    line = to_chat(demo)
    line["messages"] = with_call_ids(line["messages"])
    return {key: field for key, field in line.items() if key != "tools" or field}


def with_call_ids(messages: list[dict]) -> list[dict]:
    """The messages, in which each call has an id, and each answer that of its call."""
    with_ids = []
    open_calls: dict[Any, str] = {}  # the tool's name of each
    number = 0
    for message in messages:
        if "tool_calls" in message:
            calls = []
            for call in message["tool_calls"]:
                number += 1
                calls.append({"id": f"call_{number}", **call})
            open_calls = {call["id"]: call["function"]["name"] for call in calls}
            message = {**message, "tool_calls": calls}
        elif message["role"] == "tool":
            if "tool_call_id" not in message and open_calls:
                same = [i for i, name in open_calls.items() if name == message.get("name")]
                message = {**message, "tool_call_id": (same or [*open_calls])[0]}
            open_calls.pop(message.get("tool_call_id"), None)
        with_ids.append(message)
    return with_ids


# --- files ----------------------------------------------------------------------------------------


def read_logs(path: str | Path, reading: Reading = AS_THEY_ARE) -> tuple[list[Demo], Report]:
    """The demos of all good logs of a file, a folder or a pattern, and what there is to say.

    Exits where there is no file, or where no log has what --keep asks for.
    """
    try:
        files = files_of(path)
    except Problem as problem:
        fail(str(problem))
    report = Report(files=len(files), normalised=unread_files(path, files))
    logs: list[tuple[str, Demo, bool]] = []  # (place, demo, does it say what tools there were)
    says = Counter({condition: 0 for condition in reading.keep})
    for file in files:
        for place, log in logs_of(file, report.normalised, reading.format, len(files) == 1):
            try:
                logs.append((place, *_read_log(place, log, reading, report, says)))
            except LeftOut as reason:
                report.normalised[str(reason)] += 1
            except Problem as problem:
                report.problems.append(problem)
    for condition, count in says.items():
        if not count:
            fail(f"--keep {condition}: no log of {path} has such a field to compare")
    longest = without_beginnings([demo for _, demo, _ in logs])
    if len(longest) < len(logs):
        report.normalised[BEGINNINGS] += len(logs) - len(longest)
    logs = [logs[number] for number in longest]
    report.places = [place for place, _, _ in logs]
    demos = [demo for _, demo, _ in logs]
    add_missing_tools(demos, [declares for _, _, declares in logs], report.normalised)
    return demos, report


def _read_log(
    place: str, log: Any, reading: Reading, report: Report, says: Counter[str]
) -> tuple[Demo, bool]:
    """(demo, does the log say what tools there were). Raises Problem where the log is bad, and
    LeftOut where it is not to be learned. says: how many logs have what --keep compares."""
    if isinstance(log, Problem):
        raise log
    notes: Counter[str] = Counter()
    name = "chat"
    for condition in reading.keep:
        kept = is_kept(log, condition)
        says[condition] += kept is not None
        if not kept:
            raise LeftOut(f"logs left out by --keep {condition}")
    try:
        name, line = opened(renamed(log, reading), notes)
        line = renamed(line, reading)
        demo = from_chat(line, reading, notes)
    except LeftOut:
        raise
    except ValueError as error:
        as_what = "" if name == "chat" else f" (read as {name})"
        raise Problem(place + as_what, str(error)) from error
    report.formats[name] += 1
    report.normalised += notes
    for note in notes:
        report.first_places.setdefault(note, place)
    report.first = report.first or (log, demo)
    report.written += written_in(line)
    return demo, line.get("tools") not in (None, "") or bool(line.get("functions"))


def written_in(line: dict) -> Counter[str]:
    """How much there is in a log: messages, calls, those of them with arguments, and so on."""
    count = Counter(messages=len(line["messages"]))
    for message in line["messages"]:
        calls = parsed(message.get("tool_calls")) or [message.get("function_call")]
        for call in objects_in([*map(parsed, as_list(calls))]):
            function = fields_of(parsed(call.get("function", call)))
            count["calls"] += 1
            count["arguments"] += first(function, ARGUMENTS) not in (None, "{}", "null")
        count["results"] += message.get("role") in ("tool", "function")
        count["thoughts"] += any(map(message.get, THOUGHTS))
    tools = line.get("tools") or line.get("functions") or []
    count["tools"] = len(parse_json(tools) if isinstance(tools, str) else tools)
    return count


def read_demos(
    path: str | Path, reading: Reading = AS_THEY_ARE, skip_bad: bool = False
) -> tuple[list[Demo], Report]:
    """The demos of a file, a folder or a pattern, and what there is to say of them.

    Exits with file, line and what is wrong at a bad log; with skip_bad only where none is good.
    """
    demos, report = read_logs(path, reading)
    require_file(demos, report)
    others = len(report.problems) - 1
    way_on = "mend it, or leave it out by --skip-bad"
    if others > 0:
        way_on = f"and {others:,} more: minprm logs {path} lists them, --skip-bad leaves them out"
    if report.problems and not skip_bad:
        fail(f"{report.problems[0]} ({way_on})")
    if not demos:
        fail(f"{path}: there is no log in it that can be read; write one a line")
    return demos, report


def require_file(demos: list[Demo], report: Report) -> None:
    """Exits where nothing was read because the only file cannot be: no line of it is to blame."""
    if report.files == 1 and not demos and report.problems and report.problems[0].of_file:
        fail(str(report.problems[0]))


def read_rows(path: str | Path, parse: Callable[[dict], T]) -> list[T]:
    """`parse` of each row of a file (JSONL, an array in JSON, Parquet, packed or not), or of a data
    set of the hub. Raises ValueError with the place of a row and what is wrong.

    A row in another format, which `parse` trips over, is told as such.
    """
    rows = [*values_of(Path(path))]
    place, array = rows[0] if len(rows) == 1 else ("", None)
    if isinstance(array, list):  # it is all of the file
        rows = [(f"{place}, number {number}", row) for number, row in enumerate(array, start=1)]
    parsed = []
    for place, row in rows:
        if isinstance(row, Problem):
            raise row
        try:
            parsed.append(parse(row))
        except ValueError as error:
            raise ValueError(f"{place}: {error}") from error
        except KeyError as error:
            raise ValueError(f'{place}: another format: "{error.args[0]}" is missing') from error
        except (AttributeError, IndexError, TypeError) as error:
            wanted = "a row is an object, {...}"
            if isinstance(row, dict):
                wanted = f"one of the fields {', '.join(row)} has another type than is read here"
            raise ValueError(f"{place}: another format: {wanted}") from error
    return parsed


def write_demos(demos: list[Demo], path: str | Path, numbers: list[dict] | None = None) -> None:
    """One line a demo, with these numbers of it. Raises FileExistsError rather than write over
    anything."""
    numbers = numbers or [{}] * len(demos)
    write_lines([to_chat(demo) | more for demo, more in zip(demos, numbers, strict=True)], path)


def write_lines(lines: list[dict], path: str | Path) -> None:
    """JSONL in a new file. Raises FileExistsError rather than write over anything."""
    with open(path, "x", encoding="utf-8", newline="\n") as file:
        for line in lines:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


def rewrite_demos(
    demos: list[Demo], folder: Path, name: str, numbers: list[dict] | None = None
) -> Path:
    """A stage's demos, in a file of its run; over the file that a killed process has left."""
    file = folder / f"{name.replace(':', '-')}.jsonl"
    file.unlink(missing_ok=True)
    write_demos(demos, file, numbers)
    return file


def split_tasks(demos: list[Demo], held_out: int) -> tuple[list[Demo], list[Demo]]:
    """(training demos, held-out demos), by task: the last tasks are held out with all their demos.

    Exits where none would be left to train on.
    """
    tasks = list(dict.fromkeys(demo.task for demo in demos))
    if held_out and len(tasks) < 2:
        fail(
            f"all logs are of one task ({tasks[0][:40]!r}), so none can be held out: add logs of"
            ' other tasks, or name the tasks apart by a "task" in each line'
        )
    if held_out >= len(tasks):
        fail(
            f"--held-out {held_out} leaves nothing to learn from: these logs are of "
            f"{len(tasks)} tasks, so hold out fewer"
        )
    to_train = set(tasks[: len(tasks) - held_out])
    train = [demo for demo in demos if demo.task in to_train]
    held = [demo for demo in demos if demo.task not in to_train]
    return train, held
