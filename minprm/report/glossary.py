"""What each metric says, and each arm: glossary.toml beside this file, read."""

import tomllib
from pathlib import Path
from typing import NamedTuple


class Metric(NamedTuple):
    """What a number says. `broken` is empty where no value of it is a bad sign by itself."""

    meaning: str
    broken: str = ""


_tables = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
ABOUT_ARMS: dict[str, str] = _tables["arms"]
METRICS = {name: Metric(**told) for name, told in _tables["metrics"].items()}
