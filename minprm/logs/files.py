"""From a path to the JSON in it: which files are meant, and the values that each one holds.

A file holds one value a line (JSONL), or values that are printed over several lines each, often one
in all. It may be packed (gzip, zstandard, zip), or be a table (Parquet, a data set of the hub), a
row of which is one value. What the values are is formats.py's business.
"""

import bz2
import glob
import gzip
import io
import json
import lzma
import math
import re
import tarfile
import zipfile
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import IO, Any, cast

from minprm.text.actions import parse_json

ENDINGS = (".jsonl", ".json", ".ndjson", ".traj", ".eval", ".parquet", ".gz", ".zst", ".zip",
           ".bz2", ".xz", ".tar", ".tgz")  # fmt: skip
ZIP, ZSTANDARD, PARQUET = b"PK\x03\x04", b"\x28\xb5\x2f\xfd", b"PAR1"
PACKED = {b"\x1f\x8b": gzip.decompress, b"BZh": bz2.decompress, b"\xfd7zXZ\0": lzma.decompress}
# Files that are no text, by what they begin with.
OTHERS = {b"SQLite format 3\0": "a database of SQLite", b"ARROW1": "a table of Arrow",
          b"\x80": "a pickle of Python"}  # fmt: skip
HUB_NAME = re.compile(r"\w[\w.-]*/[\w.-]+(:[\w.-]+)?")


class Problem(ValueError):
    """What is wrong, and where: a file, and in it a line or the number of a log."""

    def __init__(self, place: str, reason: str):
        super().__init__(f"{place}: {reason}")
        self.place = place
        self.reason = reason
        self.of_file = False  # is it the file that cannot be read, and not a line of it


def files_of(path: str | Path) -> list[Path]:
    """The file of this name, all logs below this folder, or the files that a pattern fits.

    Raises Problem where there are none.
    """
    if Path(path).is_dir():
        below = sorted(Path(path).rglob("*"))
        logs = [file for file in below if file.suffix in ENDINGS and file.is_file()]
        if not logs:
            raise Problem(str(path), f"no file in this folder ends in {', '.join(ENDINGS)}")
        return logs
    if Path(path).exists() or _names_a_data_set(Path(path)):
        return [Path(path)]
    if not glob.has_magic(str(path)):
        raise Problem(str(path), "no such file or folder; name one that holds logs")
    matches = []
    for match in sorted(glob.glob(str(path), recursive=True)):
        matches += files_of(match)
    if not matches:
        raise Problem(str(path), "no file fits this pattern")
    return list(dict.fromkeys(matches))  # a folder may fit, and a file in it too


def _names_a_data_set(path: Path) -> bool:
    """Is this no path, but what a data set of the hub may be called: owner/name, and behind a colon
    the one of its configurations that is meant?"""
    is_name = HUB_NAME.fullmatch(path.as_posix()) and path.suffix not in ENDINGS
    return bool(is_name) and not path.exists()


def unread_files(path: str | Path, files: list[Path]) -> Counter[str]:
    """How many files of the folder at this path are not read, by their endings."""
    notes: Counter[str] = Counter()
    read = {*files}
    if Path(path).is_dir():
        for file in Path(path).rglob("*"):
            if file.is_file() and file not in read:
                ending = file.suffix or "without an ending"
                notes[f"files of the folder that are not read: {ending}"] += 1
    return notes


def values_of(file: Path, notes: Counter | None = None) -> Iterator[tuple[str, Any | Problem]]:
    """(place, value) of each JSON value in the file, or a Problem where there is none.

    notes: counts the values that no other program could read, and that were mended.
    """
    notes = Counter() if notes is None else notes
    try:
        if _names_a_data_set(file):
            yield from _rows_of_hub(file.as_posix(), notes)
            return
        if file.suffix == ".csv":
            way = 'pandas.read_csv(FILE).to_json(OUT, orient="records", lines=True)'
            raise Problem(str(file), f"a table in CSV, which is not read: {way} writes it as lines")
        for place, content in _unpacked(str(file), _bytes_of(file)):
            if content.startswith(PARQUET):
                yield from _rows_of_parquet(place, content, notes)
            else:
                yield from _values_in(place, _lines_in(place, content), notes)
    except Problem as problem:
        problem.of_file = True
        yield problem.place, problem


def _values_in(place: str, lines: list[str], notes: Counter) -> Iterator[tuple[str, Any | Problem]]:
    if _is_printed([line for line in lines if line.strip()]):
        for number, text in _printed_values(lines):
            _, value = _parsed(place, text, notes, number)
            yield f"{place}, line {number}" if number > 1 else place, value
        return
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield _parsed(f"{place}, line {number}", line, notes)


def _printed_values(lines: list[str]) -> Iterator[tuple[int, str]]:
    """(the number of its first line, its text) of each value, where several are printed one below
    the other, each on many lines, as jq does."""
    begin = 0
    last = ""  # of the lines before that are not empty
    for i, line in enumerate(lines):
        if last in ("}", "]") and line.rstrip() in ("{", "["):
            yield begin + 1, "\n".join(lines[begin:i])
            begin = i
        last = line.rstrip() or last
    yield begin + 1, "\n".join(lines[begin:])


def _unpacked(place: str, content: bytes) -> Iterator[tuple[str, bytes]]:
    """(place, bytes) of each file that is packed in these bytes, or of themselves."""
    unpack = next((PACKED[mark] for mark in PACKED if content.startswith(mark)), None)
    try:
        if unpack:
            yield from _unpacked(place, unpack(content))
        elif content[257:262] == b"ustar":  # where tar has its mark
            with tarfile.TarFile(fileobj=io.BytesIO(content)) as archive:
                for one in archive.getmembers():
                    if one.isfile() and _is_logs(one.name):
                        extracted = cast(IO[bytes], archive.extractfile(one))
                        yield from _unpacked(f"{place}/{one.name}", extracted.read())
        elif content.startswith(ZSTANDARD):
            zstandard = _installed("zstandard", place, "packed by zstandard")
            reader = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(content))
            yield from _unpacked(place, reader.read())
        elif content.startswith(ZIP):
            archive = zipfile.ZipFile(io.BytesIO(content))
            names = [name for name in archive.namelist() if _is_logs(name)]
            samples = [name for name in names if name.startswith("samples/")]
            for name in samples or names:  # Inspect's .eval says the same again in other files
                yield from _unpacked(f"{place}/{name}", archive.read(name))
        else:
            yield place, content
    except Problem:
        raise
    except Exception as error:  # each way to pack has errors of its own
        raise Problem(
            place, f"cannot be unpacked ({error}); pack it again, or unpack it"
        ) from error


def _is_logs(name: str) -> bool:
    """May it hold logs? What macOS packs beside each file does not."""
    return name.endswith(ENDINGS) and not name.rpartition("/")[2].startswith("._")


def _installed(module: str, place: str, what: str) -> Any:
    """A package that reads this. Raises Problem with its name where it is not installed."""
    try:
        return import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise Problem(place, f"{what}: pip install {package} reads it") from None


def _rows_of_parquet(place: str, content: bytes, notes: Counter) -> Iterator[tuple[str, Any]]:
    parquet = _installed("pyarrow.parquet", place, "a table in Parquet")
    number = 0
    try:
        for batch in parquet.ParquetFile(io.BytesIO(content)).iter_batches(1000):
            for row in batch.to_pylist():
                number += 1
                yield _as_json(f"{place}, row {number}", row, notes)
    except ValueError as error:  # Arrow's own are among these
        raise Problem(place, f"no Parquet that can be read ({error})") from error


def _rows_of_hub(name: str, notes: Counter) -> Iterator[tuple[str, Any]]:
    """The rows of a data set of the hub: of its split "train", or of its only one."""
    datasets = _installed(
        "datasets", name, "no such file or folder; if it is a data set of the hub"
    )
    data_set, _, configuration = name.partition(":")
    try:
        splits = datasets.load_dataset(data_set, configuration or None)
    except Exception as error:  # the network's, the hub's or the data set's
        reason = f"no such file or folder, nor a data set that can be read ({error})"
        reason = " ".join(reason.split())[:300]
        if not configuration and "config" in reason.lower():
            reason += f"; a configuration stands behind the name, as in {data_set}:NAME"
        raise Problem(name, reason) from error
    if "train" not in splits and len(splits) > 1:
        names = ", ".join(map(str, splits))
        raise Problem(name, f"has no split train; save one of {names} as a file, and name that")
    split = "train" if "train" in splits else next(iter(splits))
    for number, row in enumerate(splits[split], start=1):
        yield _as_json(f"{name}, {split} {number}", row, notes)


class Row(dict):
    """A row of a table, all of whose objects have the names of all others."""


def _as_json(place: str, row: dict, notes: Counter) -> tuple[str, Any]:
    """A row of a table as JSON would hold it: a date is a text, and so are bytes and a decimal
    number that no number of JSON is equal to."""

    def plain(field: Any) -> Any:
        if isinstance(field, bytes):
            return field.decode(errors="replace")
        known = isinstance(field, Decimal) and field.is_finite()
        numbers = [int(field), float(field)] if known else []
        return next((x for x in numbers if Decimal(repr(x)) == field), str(field))

    place, tree = _parsed(place, json.dumps(row, default=plain), notes)
    return place, Row(tree) if isinstance(tree, dict) else tree


def _bytes_of(path: str | Path) -> bytes:
    if not Path(path).is_file():
        raise Problem(str(path), _why_no_file(Path(path)))
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise Problem(str(path), str(error.strerror)) from error


def _why_no_file(path: Path) -> str:
    if path.is_dir():
        return "a folder, and one file is read here; name a file in it"
    if path.as_posix().startswith("hf:/"):
        return "no such file; write a data set of the hub as owner/name or owner/name:configuration"
    if glob.has_magic(str(path)):
        return "no such file, and a pattern is not read here; name one file"
    return "no such file"


def _lines_in(place: str, content: bytes) -> list[str]:
    if b"\0" in content:  # JSON in UTF-8 holds none
        kind = next((OTHERS[mark] for mark in OTHERS if content.startswith(mark)), None)
        if kind or b"\0" not in content[:4]:
            kind = kind or "a file with zero bytes in it"
            raise Problem(place, f"{kind}, which is not read; write its logs as lines of JSON")
        raise Problem(f"{place}, line 1", "in UTF-16, not in UTF-8; save the file as UTF-8")
    try:
        text = content.decode("utf-8-sig")  # some editors begin a file with a mark of the encoding
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise Problem(f"{place}, line {line}", "not in UTF-8; save the file as UTF-8") from error
    # str.splitlines() would also split at U+2028 and its like, which JSON allows inside a text
    return text.split("\n")


def _is_printed(lines: list[str]) -> bool:
    """Does a value go over several of these lines? Then the first of them is no JSON by itself.

    Nor is the first line of JSONL if it is broken; but there another line is a whole object.
    """
    if len(lines) < 2 or _is_json(lines[0]):
        return False
    if _is_json("\n".join(lines)) or lines[0].strip() in ("[", "{"):
        return True
    return not any(line.lstrip().startswith("{") and _is_json(line) for line in lines)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _parsed(place: str, text: str, notes: Counter, first: int = 1) -> tuple[str, Any | Problem]:
    """(place, what the text says, or what is wrong). first: the number of its first line."""
    try:
        return place, parse_json(text, _said_once)
    except KeyError as error:
        return place, Problem(place, f'an object has "{error.args[0]}" twice: keep one of them')
    except json.JSONDecodeError as error:
        line = f", line {first - 1 + error.lineno}" if "\n" in text else ""
        return place, Problem(f"{place}{line}, column {error.colno}", f"no JSON: {error.msg}")
    except ValueError as error:
        try:
            value = parse_json(_mended(text))
        except (ValueError, RecursionError):
            return place, Problem(place, str(error))
    notes["values with NaN or half a character, read as null and as \ufffd"] += 1
    return place, value


def _said_once(fields: list[tuple[str, Any]]) -> dict:
    """An object of JSON. Raises KeyError where it says two things under one name."""
    tree = dict(fields)
    for key, field in fields if len(tree) < len(fields) else []:
        if tree[key] != field:
            raise KeyError(key)
    return tree


def _mended(text: str) -> str:
    """JSON without what no JSON in UTF-8 can hold: NaN, infinity, and half a character."""

    def finite(number: str) -> float | None:  # 1e400 is infinite for Python
        return float(number) if math.isfinite(float(number)) else None

    tree = json.loads(text, parse_constant=lambda name: None, parse_float=finite)
    halves = json.dumps(tree, ensure_ascii=False).encode("utf-16", "surrogatepass")
    return halves.decode("utf-16", "replace")
