"""Draws the book's figures: `python -m evidence.figures [NAME ...]`, all without a name.

A figure is a function without arguments that returns a matplotlib figure. Its docstring is the
sentence that is read aloud in its place. It reads evidence/results/*.json, never a run: so a figure
shows the same numbers as the tables beside it.
"""

import sys
from pathlib import Path

from evidence.drawings import (
    credit,
    evidence,
    evidence_beyond,
    evidence_growth,
    evidence_neighbours,
    evidence_rounds,
    evidence_several,
    evidence_shares,
    evidence_state,
    evidence_unplanted,
    failures,
    idea,
    ladder,
    objectives,
    parallel,
    path,
    speed,
    worlds,
)
from evidence.drawings.style import save
from minprm.constants import fail

FOLDER = Path(__file__).parents[1] / "docs/figures"
FIGURES = {
    **idea.FIGURES,
    **ladder.FIGURES,
    **credit.FIGURES,
    **objectives.FIGURES,
    **path.FIGURES,
    **worlds.FIGURES,
    **speed.FIGURES,
    **parallel.FIGURES,
    **evidence.FIGURES,
    **evidence_growth.FIGURES,
    **evidence_neighbours.FIGURES,
    **evidence_rounds.FIGURES,
    **evidence_several.FIGURES,
    **evidence_shares.FIGURES,
    **evidence_beyond.FIGURES,
    **evidence_state.FIGURES,
    **evidence_unplanted.FIGURES,
    **failures.FIGURES,
}


def title_of(name: str) -> str:
    return " ".join(FIGURES[name].__doc__.split())


def main(names: list[str]) -> None:
    for name in names:
        if name not in FIGURES:
            fail(f"{name}: no such figure; docs/figures has a file of the name of each")
    for name in names or FIGURES:
        save(FIGURES[name](), FOLDER / f"{name}.svg", title_of(name))


if __name__ == "__main__":
    main(sys.argv[1:])
