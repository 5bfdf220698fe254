"""minprm logs PATH [--model M]: what is in your logs, what was changed, and every bad line.

It reads as training would, so what it says is what training gets. With --model it counts tokens too
(the tokenizer is loaded, the model is not), by which --context and --action-tokens can be chosen.
"""

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Annotated

from tyro.conf import Positional, arg

from minprm.arms.demos import Measured, leave_out_unwritable, measured, split
from minprm.commands.checks import check_ranges, refuse
from minprm.commands.cli import given_knobs, read_flags
from minprm.commands.effects import no_effect
from minprm.commands.presets import PRESETS
from minprm.constants import Config, Content, Count, LayoutName, Range, fail, refusal
from minprm.data import Demo
from minprm.logs.account import account, beside, secrets, thoughts_in_actions
from minprm.logs.atif import to_atif
from minprm.logs.books import Reading, reading_of
from minprm.logs.files import Problem
from minprm.logs.normalise import FLAW
from minprm.logs.reader import Report, read_logs, require_file, to_openai, write_lines
from minprm.logs.schemas import RECONSTRUCTED, is_reconstructed
from minprm.printable import printable
from minprm.text.actions import all_tools, parts
from minprm.text.chat import Chat

# What the logs are written as.
FORMS = {"openai": to_openai, "atif": lambda demo: to_atif(to_openai(demo))}
PLACES = 3  # of a problem that occurs many times
MESSAGE = re.compile(r"^(message \d+)(?: \((\w+)\))?: ")


@dataclass
class Logs:
    """Reads logs as training would, prints what is in them, and names every bad line."""

    path: Annotated[str, Positional, arg(metavar="PATH")]  # a file, a folder or a quoted pattern
    model: str = ""  # hub id or path: count tokens by its tokenizer
    context: Count = PRESETS["logs"].context  # say what this context cuts; with --model
    layout: LayoutName = "auto"  # what ends a thought (text/layout.py)
    content: Content = "reply"  # what text beside a call is
    held_out: Annotated[int, Range(0, 10_000)] = 16  # tasks held out, as training would
    skip_bad: bool = False  # go on without the bad lines
    drop: list[str] = field(default_factory=list)  # keys of the logs that are no part of it
    map: list[str] = field(default_factory=list)  # KEY=NAME: keys and what they are read as
    task_key: str = ""  # the key that says of which task a log is; none: task, task_id and the like
    keep: list[str] = field(default_factory=list)  # logs by their end: won, or 'reward>=0.5'
    thought: str = ""  # a pattern at the beginning of an answer, the thought in brackets
    format: str = ""  # FILE.py:NAME, a reader of your own for another format
    # write the logs to a new file, as openai or atif
    to: Annotated[tuple[str, str] | None, arg(metavar="FORM FILE")] = None


def main(argv: list[str]) -> None:
    """The command. Exits with 2 where a line is bad and --skip-bad is not given."""
    flags = read_flags(Logs, argv, "minprm logs")
    chosen_knobs = given_knobs(argv)
    check_ranges(flags)
    if flags.to:
        refuse(
            flags.to[0] not in FORMS,
            f"--to {flags.to[0]}: no such form; use --to openai FILE or --to atif FILE",
        )
    for knob in ("context", "layout"):
        refuse(
            knob in chosen_knobs and not flags.model, no_effect(knob, "a --model, to count tokens")
        )
    cfg = replace(
        PRESETS["logs"], demos=flags.path, model=flags.model, layout=flags.layout,
        context=flags.context, held_out=flags.held_out,
        **{name: getattr(flags, name) for name in Reading._fields},
    )  # fmt: skip
    demos, report = read_logs(cfg.demos, reading_of(cfg))
    require_file(demos, report)
    tokens = []
    if flags.model and demos:
        from transformers import AutoTokenizer  # a second or two, which logs alone need not

        from minprm.load.pretrained import pretrained

        chat = Chat(pretrained(AutoTokenizer, flags.model), flags.layout, all_tools(demos))
        writable = leave_out_unwritable(measured(demos, chat), report)
        demos = [log.demo for log in writable]
        tokens = tokens_of(writable, cfg, chat)
    print(describe(demos, report, cfg, tokens))
    bad = len(report.problems)
    if bad and not flags.skip_bad:
        fail(f"{cfg.demos}: mend the bad lines ({bad:,}), or leave them out by --skip-bad")
    if not demos:
        fail(f"{cfg.demos}: there is no log in it that can be read; write one a line")
    if flags.to:
        write(*flags.to, demos)


def write(form: str, file: str, demos: list[Demo]) -> None:
    """The logs in this form, one a line, in a new file."""
    try:
        write_lines([FORMS[form](demo) for demo in demos], file)
    except FileExistsError:
        fail(f"--to {form} {file}: this file is there already; name a new one")
    except ValueError as error:
        fail(f"--to {form} {file}: {error}")
    except OSError as error:
        fail(f"--to {form} {file}: {error.strerror}")
    print(f"\n{len(demos):,} logs: {printable(file)}")


# --- the summary ----------------------------------------------------------------------------------


def describe(demos: list[Demo], report: Report, cfg: Config, tokens: list[tuple[str, str]]) -> str:
    """What is in the logs, what was changed, and what is wrong. tokens: the rows of `tokens_of`."""
    rows = [("logs", _logs(demos, report))]
    if demos:
        rows += [*_contents(demos), *_lengths(demos), ("split", _sides(demos, cfg)), *tokens]
    lines = [f"{name:<12}{text}" for name, text in rows]
    changes = [note for note in report.normalised.most_common() if not note[0].startswith(FLAW)]
    flaws = [note for note in report.normalised.most_common() if note[0].startswith(FLAW)]
    if changes:
        lines += ["", "Read in another form than written:"]
        lines += [f"{n:>8,}  {change}" for change, n in changes]
    if flaws:
        lines += ["", "Flaws, each of which costs its step; the rest of the log is learned:"]
        for flaw, n in flaws:
            lines.append(f"{n:>8,}  {flaw.removeprefix(FLAW)}")
            lines.append(f"{'':>10}{report.first_places[flaw]}")
    if report.problems:
        lines += ["", "Bad lines, which training refuses, or leaves out by --skip-bad:"]
        lines += _grouped(report.problems)
    if demos:
        lines += ["", *account(demos, report), *_to_look_at(demos, report), "", *beside(report)]
    return printable("\n".join(lines))


def _to_look_at(demos: list[Demo], report: Report) -> list[str]:
    """Tools that were reconstructed, thoughts inside actions, and what looks like a secret."""
    lines = []
    names = sorted({t["function"]["name"] for d in demos for t in d.tools if is_reconstructed(t)})
    if names:
        lines.append(f"{len(names):>8,}  tools: {RECONSTRUCTED} ({', '.join(names[:8])})")
    lines += [f"{'':>8}  {line.strip()}" for line in thoughts_in_actions(demos)]
    for name, (count, place) in secrets(demos, report.places).items():
        lines.append(f"{count:>8,}  times what looks like {name}; the first: {place}")
    return ["", "To look at:", *lines] if lines else []


def _logs(demos: list[Demo], report: Report) -> str:
    tasks = len({demo.task for demo in demos})
    files = "1 file" if report.files == 1 else f"{report.files:,} files"
    text = f"{len(demos):,} of {tasks:,} tasks, in {files}"
    formats = [f"{name} {n:,}" for name, n in report.formats.most_common()]
    return f"{text} ({', '.join(formats)})" if formats else text


def _contents(demos: list[Demo]) -> list[tuple[str, str]]:
    """Steps, actions by kind, tools and roles, with their numbers."""
    kinds = Counter({"calls alone": 0, "replies alone": 0, "both": 0})
    tools: Counter[str] = Counter()
    roles: Counter[str] = Counter()
    thoughts = 0
    for demo in demos:
        roles.update(message["role"] for message in demo.messages)
        tools.update({tool["function"]["name"]: 0 for tool in demo.tools})
        for step in demo.steps:
            reply, calls = parts(step.action)
            alone = "calls alone" if calls else "replies alone"
            kinds["both" if reply and calls else alone] += 1
            tools.update(call["name"] for call in calls)
            thoughts += step.thought is not None
    return [
        ("steps", f"{kinds.total():,}, {thoughts:,} of them with a thought"),
        ("actions", ", ".join(f"{n:,} {name}" for name, n in kinds.items())),
        ("tools", ", ".join(f"{name} {n:,}" for name, n in tools.most_common()) or "none"),
        ("messages", ", ".join(f"{role} {n:,}" for role, n in roles.most_common())),
    ]


def _lengths(demos: list[Demo]) -> list[tuple[str, str]]:
    """Characters of logs and actions."""
    logs = []
    actions = []
    for demo in demos:
        new = [len(step.action) for step in demo.steps]
        logs.append(sum(new) + sum(len(step.observation()) for step in demo.steps))
        actions += new
    return [("characters", _spread(logs, actions))]


def tokens_of(logs: list[Measured], cfg: Config, chat: Chat) -> list[tuple[str, str]]:
    """Tokens of logs and actions, and what --context cuts if each thought is as long as it may."""
    if not logs:
        return []
    around = len(chat.turn([], []))  # an action, with the tags of a thought
    tags = len(chat.turn(None, [])) - len(chat.end)
    lengths = []
    actions = []
    cut = 0
    left_out = 0
    for log in logs:
        fitting = 0
        length = 0
        for i, (state, action) in enumerate(zip(log.states, log.actions, strict=True)):
            length += state + around + action
            fitting += length + (i + 1) * cfg.thought_tokens <= cfg.context
            actions.append(tags + action)
        lengths.append(length)
        cut += 0 < fitting < len(log.states)
        left_out += fitting == 0
    knobs = f"--context {cfg.context:,} with --thought-tokens {cfg.thought_tokens:,}"
    return [
        ("tokens", f"{_spread(lengths, actions)}; without thoughts"),
        ("context", f"{knobs} cuts {cut:,} logs short and leaves {left_out:,} out"),
    ]


def _spread(logs: list[int], actions: list[int]) -> str:
    logs = sorted(logs)
    last = len(logs) - 1
    return (
        f"a log {logs[last // 2]:,} (median), {logs[last * 9 // 10]:,} (90 %), {logs[-1]:,}"
        f" (longest); the longest action {max(actions):,}"
    )


def _sides(demos: list[Demo], cfg: Config) -> str:
    """How many logs each side of the split gets, or the sentence with which training refuses it."""
    sentence = refusal(split, demos, cfg)
    if sentence:
        return sentence
    train, held_out, test = map(len, split(demos, cfg))
    return f"--held-out {cfg.held_out}: {train:,} training, {held_out:,} held out, {test:,} test"


def _grouped(problems: list[Problem]) -> list[str]:
    """Each problem once, with its count and its first places."""
    places: dict[str, list[str]] = {}
    for problem in problems:
        reason = MESSAGE.sub("", problem.reason)
        match = MESSAGE.match(problem.reason)
        place = f"{problem.place}, {match[1]}" if match else problem.place
        places.setdefault(reason, []).append(place)
    lines = []
    for reason, where in sorted(places.items(), key=lambda entry: -len(entry[1])):
        more = f" and {len(where) - PLACES:,} more" if len(where) > PLACES else ""
        lines.append(f"{len(where):>8,}  {reason}")
        lines.append(f"{'':>10}{'; '.join(where[:PLACES])}{more}")
    return lines
