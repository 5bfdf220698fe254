"""The files of a run, read while it may still be written. A file that is missing is empty."""

import json
from itertools import product
from pathlib import Path

from minprm.arms import starts

RUNS = Path("runs")
# what goes wrong over files of another shape, as another version or a stranger writes them
UNREADABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


class Broken(ValueError):
    """A file cannot be read. The text is a sentence that says what to do."""


class Files:
    """What lies in the folder of a run."""

    def __init__(self, folder: Path):
        """Reads all of it. Raises Broken."""
        self.folder = folder
        self.config = read_json(folder / "config.json")
        self.starts = read_lines(folder / starts.FILE)
        self.metrics = read_lines(folder / "metrics.jsonl")
        self.samples = read_lines(folder / "samples.jsonl")
        self.ladder: dict[str, list[dict]] = read_json(folder / "ladder.json")
        self.episodes = read_lines(folder / "episodes.jsonl")
        # the logs with thoughts, by the name of their file
        self.relabelled = {f.stem: read_lines(f) for f in folder.glob("relabelled-*.jsonl")}


def folder_of(run: str) -> Path:
    """The folder of a run, from its name in runs/ or from a path. Raises Broken where there is
    none."""
    for folder in (RUNS / run, Path(run)):
        if run and (folder / "config.json").is_file():
            return folder
    raise Broken(f"{ascii(run)[1:-1]}: there is no such run in {RUNS}/; minprm report lists them")


def arms_done(config: dict, ladder: dict[str, list[dict]], folder: Path) -> tuple[str, bool]:
    """(how many arms of all seeds are done, as 3/4; are all)."""
    if config["stages"] == ["demos"]:  # it writes logs, and trains nothing
        return "-", (folder / "demos.jsonl").exists()
    arms = ["stages"] if config["stages"] else config["arms"]
    wanted = set(product(arms, config["seeds"]))
    evaluated = set()
    for arm, rows in ladder.items():
        for row in rows:
            evaluated.add((arm, row["seed"]))
    done = len(wanted & evaluated)
    return f"{done}/{len(wanted)}", done == len(wanted)


def read_json(path: Path) -> dict:
    """The object in a file; {} where there is no file. Raises Broken."""
    if not path.exists():
        return {}
    return _parsed(path.read_text(encoding="utf-8", errors="replace"), str(path))


def read_lines(path: Path) -> list[dict]:
    """The objects in a file, one a line; none where there is no file. Raises Broken.

    What follows the last newline is being written at this moment, or was when the run was killed.
    """
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")[:-1]
    return [_parsed(line, f"{path}, line {i}") for i, line in enumerate(lines, start=1)]


def grouped(lines: list[dict], *names: str) -> dict[tuple, list[dict]]:
    """The lines that have the same under these names, in the order in which they begin.

    >>> grouped([{"seed": 1}, {"seed": 0}, {"seed": 1}], "seed")
    {(1,): [{'seed': 1}, {'seed': 1}], (0,): [{'seed': 0}]}
    """
    groups: dict[tuple, list[dict]] = {}
    for line in lines:
        groups.setdefault(tuple(line[name] for name in names), []).append(line)
    return groups


def _parsed(text: str, place: str) -> dict:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Broken(f"{place} is broken: mend or remove it, and try again") from error
    if not isinstance(content, dict):
        raise Broken(f"{place} is broken: it holds no object; remove it, and try again")
    return content
