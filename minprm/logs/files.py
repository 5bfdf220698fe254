"""From a path to the JSON in it: which files are meant, and the values that each one holds.

A file holds one value a line (JSONL), or one value in all: an array, or an object that is printed
over several lines. What the values are is formats.py's business.
"""

import glob
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from minprm.text.actions import parse_json

ENDINGS = (".jsonl", ".json")


class Problem(ValueError):
    """What is wrong, and where: a file, and in it a line or the number of a log."""

    def __init__(self, place: str, reason: str):
        super().__init__(f"{place}: {reason}")
        self.place = place
        self.reason = reason


def files_of(path: str | Path) -> list[Path]:
    """The file of this name, all logs below this folder, or the files that a pattern fits.

    Raises Problem where there are none.
    """
    if Path(path).is_dir():
        below = sorted(Path(path).rglob("*"))
        logs = [file for file in below if file.suffix in ENDINGS and file.is_file()]
        if not logs:
            raise Problem(str(path), "no file in this folder ends in .jsonl or .json")
        return logs
    if Path(path).exists():
        return [Path(path)]
    if not glob.has_magic(str(path)):
        raise Problem(str(path), "no such file or folder; name one that holds logs")
    matches = []
    for match in sorted(glob.glob(str(path), recursive=True)):
        matches += files_of(match)
    if not matches:
        raise Problem(str(path), "no file fits this pattern")
    return list(dict.fromkeys(matches))  # a folder may fit, and a file in it too


def unread_files(path: str | Path, files: list[Path]) -> Counter[str]:
    """How many files of the folder at this path are not read, by their endings."""
    notes: Counter[str] = Counter()
    if Path(path).is_dir():
        for file in Path(path).rglob("*"):
            if file.is_file() and file not in files:
                ending = file.suffix or "without an ending"
                notes[f"files of the folder that are not read: {ending}"] += 1
    return notes


def values_of(file: Path) -> Iterator[tuple[str, Any | Problem]]:
    """(place, value) of each JSON value in the file, or a Problem where there is none."""
    try:
        lines = lines_of(file)
    except Problem as problem:
        yield problem.place, problem
        return
    if _is_one_value([line for line in lines if line.strip()]):
        yield _parsed(str(file), "\n".join(lines))
        return
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield _parsed(f"{file}, line {number}", line)


def lines_of(path: str | Path) -> list[str]:
    """The lines of a UTF-8 file. Raises Problem where it is none."""
    if not Path(path).is_file():
        raise Problem(str(path), "no such file")
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise Problem(str(path), str(error.strerror)) from error
    if b"\0" in content:  # as in the UTF-16 of English; JSON in UTF-8 holds none
        raise Problem(f"{path}, line 1", "in UTF-16, not in UTF-8; save the file as UTF-8")
    try:
        text = content.decode("utf-8-sig")  # some editors begin a file with a mark of the encoding
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise Problem(f"{path}, line {line}", "not in UTF-8; save the file as UTF-8") from error
    # str.splitlines() would also split at U+2028 and its like, which JSON allows inside a text
    return text.split("\n")


def _is_one_value(lines: list[str]) -> bool:
    """Does one value go over all these lines? Then the first of them is no JSON by itself.

    Nor is the first line of JSONL if it is broken; but there another line is a whole object.
    """
    if len(lines) < 2 or _is_json(lines[0]):
        return False
    if _is_json("\n".join(lines)) or lines[0].strip() in ("[", "{"):
        return True
    return not any(line.lstrip().startswith("{") and _is_json(line) for line in lines)


def _is_json(text: str) -> bool:
    try:
        parse_json(text)
    except ValueError:
        return False
    return True


def _parsed(place: str, text: str) -> tuple[str, Any | Problem]:
    try:
        return place, parse_json(text)
    except json.JSONDecodeError as error:
        line = f", line {error.lineno}" if "\n" in text else ""
        return place, Problem(f"{place}{line}, column {error.colno}", f"no JSON: {error.msg}")
    except ValueError as error:
        return place, Problem(place, str(error))
