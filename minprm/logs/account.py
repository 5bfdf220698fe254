"""What `minprm logs` ends with: an account of what was read, and what people should look at.

How much is in the files, how much was read, and why the numbers differ; thoughts that still stand
in the actions; what looks like a secret; and the first log as it was written beside the same log as
it was read.
"""

import json
import re
from collections import Counter
from itertools import zip_longest
from typing import Any

from minprm.data import Demo
from minprm.logs.books import COUNTS, Note
from minprm.logs.normalise import FLAW
from minprm.logs.reader import Report, written_in
from minprm.text.actions import parts

WIDTH = 58  # of a column
ROWS = 14  # of the first log

# What a thought looks like at the beginning of an answer, and the pattern that takes it out.
SHAPES = (
    r"\s*Thought:\s*(.+?)\s*(?=Action:)",
    r"\s*(?:THOUGHT|DISCUSSION|REASONING):?\s+(.+?)\s*(?=```|$)",
    r"\s*<(?:scratchpad|reflection|analysis|plan|inner_monologue)>(.+?)</\w+>\s*",
    r"\s*(\S.+?)\s*(?=```\w*\n[^`]+```\s*$)",
    r"\s*Thinking\.\.\.\s*(.+?)\s*\.\.\.done thinking\.\s*",
    r"\s*Here is my thought process:\s*(.+?)\s*Here is my response:\s*",
    r"\s*(?:<|&lt;)\|?\w*(?:think|thought|reason)\w*\|?(?:>|&gt;)(.+?)(?:<|&lt;)[|/]?\S*(?:>|&gt;)\s*",
)
SECRETS = {
    "a key": re.compile(
        r"\b(?:sk|pk|rk)[-_](?:[a-z]+[-_])*[A-Za-z0-9]{16,}|\bgh[pousr]_\w{30,}|\bAKIA[A-Z0-9]{16}\b"
        r"|\bAIza[\w-]{30,}|\bxox[abprs]-[\w-]{10,}|\bhf_[A-Za-z0-9]{30,}|\bglpat-[\w-]{18,}"
    ),
    "a token": re.compile(r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,}|[Bb]earer\s+[\w.~+/-]{16,}"),
    "a private key": re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----"),
    "a password": re.compile(
        r"(?i)\b(?:password|passwd|api[_-]?key|secret|access[_-]?token)[\"']?\s*[:=]\s*[\"']?[^\s\"',}]{6,}"
    ),
    "a card number": re.compile(r"\b\d(?:[ -]?\d){12,18}\b"),
}

# A text without one of these, in small letters, holds none of the above but a card number.
SIGNS = ("sk-", "sk_", "pk-", "pk_", "rk_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "akia", "aiza",
         "xox", "hf_", "glpat", "eyj", "bearer", "private key", "passw", "key", "secret",
         "token")  # fmt: skip
DIGITS = re.compile(r"\d[\d -]{11,}\d")


def account(demos: list[Demo], report: Report) -> list[str]:
    """The table of what is in the files and what was read, with the reasons."""
    read: Counter[str] = Counter()
    for demo in demos:
        read += written_in({"messages": demo.messages, "tools": demo.tools})
    lines = [f"{'':<12}{'written':>9}{'read':>9}"]
    for name in COUNTS:
        reasons = []
        for note, count in report.normalised.items():
            if (
                isinstance(note, Note)
                and name in note.counts
                and report.written[name] != read[name]
            ):
                reasons.append(f"{count:,} {note.removeprefix(FLAW)}")
        why = "; ".join(reasons)
        lines.append(f"{name:<12}{report.written[name]:>9,}{read[name]:>9,}  {why}".rstrip())
    return lines


def beside(report: Report) -> list[str]:
    """The first log as it was written, and beside it as it was read, cut to two columns."""
    if report.first is None:
        return []
    log, demo = report.first
    lines = [f"{'The first log as it was written':<{WIDTH}} | as it was read"]
    written = _lines(log)
    read = _lines(demo.messages)
    for left, right in zip_longest(written[:ROWS], read[:ROWS], fillvalue=""):
        lines.append(f"{left:<{WIDTH}} | {right}".rstrip())
    more = max(len(written), len(read)) - ROWS
    return [*lines, f"... and {more:,} lines more"] if more > 0 else lines


def _lines(log: Any) -> list[str]:
    """A line for each message, and for each other field of a log."""
    lines = []
    for key, field in log.items() if isinstance(log, dict) else [("", log)]:
        many = isinstance(field, list) and any(isinstance(entry, dict) for entry in field)
        for entry in field if many else [field]:
            name = f"{key}: " if key and key != "messages" else ""
            lines.append((name + json.dumps(entry, ensure_ascii=False))[:WIDTH])
    return lines


def thoughts_in_actions(demos: list[Demo]) -> list[str]:
    """What to say where most answers begin alike with what reads as a thought."""
    replies = []
    for demo in demos:
        for step in demo.steps:
            reply, calls = parts(step.action)
            if reply and step.thought is None:
                replies.append((reply, bool(calls)))
    for shape in SHAPES:
        pattern = re.compile(shape, re.DOTALL | re.IGNORECASE)
        alike = [(reply, called) for reply, called in replies if pattern.match(reply)]
        if 2 * len(alike) <= len(replies):
            continue
        way = f"--thought '{shape}' takes it out"
        if all(called for _, called in alike):
            way = "--content thought takes it for the thought"
        example = json.dumps(alike[0][0][:80], ensure_ascii=False)
        return [
            f"{len(alike):,} of {len(replies):,} answers begin with what reads as a thought, and it"
            f" is learned as a part of the action: {example}",
            f"{'':>10}{way}",
        ]
    return []


def secrets(demos: list[Demo], places: list[str] | None = None) -> dict[str, tuple[int, str]]:
    """What looks like a secret in answers of tools and in arguments: how often, and where first."""
    count: Counter[str] = Counter()
    first: dict[str, str] = {}
    for number, demo in enumerate(demos):
        for i, message in enumerate(demo.messages):
            texts = [call["function"]["arguments"] for call in message.get("tool_calls", ())]
            if message["role"] == "tool":
                texts.append(message["content"])
            for name in [name for text in texts for name in _secrets_in(text)]:
                count[name] += 1
                place = places[number] if places else f"task {demo.task}"
                first.setdefault(name, f"{place}, message {i}")
    return {name: (n, first[name]) for name, n in count.most_common()}


def _secrets_in(text: str) -> list[str]:
    lower = text.lower()
    if not any(sign in lower for sign in SIGNS) and not DIGITS.search(text):
        return []  # patterns take long, and most texts hold nothing
    names = []
    for name, pattern in SECRETS.items():
        for match in pattern.finditer(text):
            if name != "a card number" or _is_card(match[0]):
                names.append(name)
    return names


def _is_card(text: str) -> bool:
    """Luhn's check: it holds for a tenth of all numbers, and for all cards.

    >>> _is_card("4111 1111 1111 1111"), _is_card("4111 1111 1111 1112")
    (True, False)
    """
    digits = [int(letter) for letter in text if letter.isdigit()]
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    return digits[0] in (3, 4, 5, 6) and (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0
