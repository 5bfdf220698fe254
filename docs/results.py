"""Results that the book quotes: each docs/results/NAME.json names the command that wrote it."""

import json
from pathlib import Path

FOLDER = Path(__file__).with_name("results")


def load(name: str) -> dict:
    """The results of that name: rows, and the command, commit, machine and versions behind them."""
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
