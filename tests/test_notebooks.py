"""The notebooks run, what they show is of the results, and they end in the page of a run.

Their ladders train for a few updates only. To run them as they are, and keep what they print:
python -m tests.test_notebooks
"""

import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from evidence.results import load

nbformat = pytest.importorskip("nbformat", reason='needs nbclient: pip install ".[dev]"')
nbclient = pytest.importorskip("nbclient", reason='needs nbclient: pip install ".[dev]"')

ROOT = Path(__file__).parents[1]
NAMES = ("idea", "logs")
HOME = "https://colab.research.google.com/github/minprm/minprm/blob/main/notebooks"
# Tag of a cell whose numbers are a matter of rounding, so that another machine may print others.
TRAINED = "trained"
# What the test runs in less time. No number of these cells is asserted; the gate runs `smoke` too.
FEW_UPDATES = {
    "idea": {'["--preset", "smoke"]': '"--preset smoke --act-prm.updates 2 --episodes 20".split()'},
    "logs": {
        "raised(model)": "raised(model, updates=60)",
        "--act-prm.updates 15": "--act-prm.updates 1",
        "--act-prm.group 16": "--act-prm.group 4",
        "lines[:-8]": "lines[:12]",
        "lines[-8:]": "lines[-2:]",
        "--relabel.group 8": "--relabel.group 2",
        "--sft.epochs 6": "--sft.epochs 1 --held-out 4",
    },
}


def path_of(name: str) -> Path:
    return ROOT / "notebooks" / f"{name}.ipynb"


def notebook(name: str):
    return nbformat.read(path_of(name), as_version=4)


def code_cells(book) -> list:
    return [cell for cell in book.cells if cell.cell_type == "code"]


def printed(cell) -> str:
    return "".join(output.text for output in cell.outputs if output.output_type == "stream")


def executed(name: str, clone: Path, changes: dict[str, str] | None = None):
    """The notebook with these changes of its code, run in a folder that holds what a clone does."""
    shutil.copy(ROOT / "act_prm.py", clone)
    shutil.copytree(ROOT / "examples", clone / "examples")
    (clone / "notebooks").mkdir()
    here = {
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
    }
    book = notebook(name)
    for old, new in (changes or {}).items():
        assert any(old in cell.source for cell in code_cells(book)), old
        for cell in code_cells(book):
            cell.source = cell.source.replace(old, new)
    client = nbclient.NotebookClient(
        book,
        timeout=900,
        kernel_name="python3",
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {"path": str(clone / "notebooks")}},
    )
    return client.execute(env=os.environ | here)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_it_runs_and_prints_what_it_printed(name, tmp_path):
    """But for numbers that training made."""
    book = executed(name, tmp_path, FEW_UPDATES.get(name))
    for before, now in zip(code_cells(notebook(name)), code_cells(book), strict=True):
        kinds = [[output.output_type for output in cell.outputs] for cell in (before, now)]
        assert kinds[0] == kinds[1], now.id
        if TRAINED not in now.metadata.get("tags", []):
            assert printed(now) == printed(before), now.id
    page = page_of(book)
    assert (tmp_path / page).stat().st_size > 100_000, page
    if name == "idea":
        require_learned(book)


def page_of(book) -> str:
    """The page that the last cell shows, as a path from the clone's root."""
    shown = code_cells(book)[-1].outputs[-1].data["text/html"]
    return re.search(r'src="\.\./(runs/\w+/report\.html)"', shown)[1]


@pytest.mark.parametrize("name", NAMES)
def test_it_was_run_from_top_to_bottom_and_is_small(name):
    book = notebook(name)
    nbformat.validate(book)
    cells = code_cells(book)
    assert [cell.execution_count for cell in cells] == [*range(1, len(cells) + 1)]
    outputs = [output for cell in cells for output in cell.outputs]
    assert all(output.get("name") != "stderr" for output in outputs)
    assert {output.output_type for output in outputs} <= {
        "stream",
        "display_data",
        "execute_result",
    }
    assert path_of(name).stat().st_size < 150_000
    assert page_of(book).startswith("runs/")


@pytest.mark.parametrize("name", NAMES)
def test_its_badge_opens_it_and_its_file_changes_where_it_changes(name):
    book = notebook(name)
    assert f"({HOME}/{name}.ipynb)" in book.cells[0].source
    ids = [cell.id for cell in book.cells]
    assert all(re.fullmatch(r"[a-z0-9-]+", i) for i in ids) and len(set(ids)) == len(ids)
    assert written(book) == path_of(name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_its_links_lead_to_files(name):
    texts = [cell.source for cell in notebook(name).cells if cell.cell_type == "markdown"]
    links = re.findall(r"\]\((?!https:)([^)#]+)", "\n".join(texts))
    assert links and all((ROOT / "notebooks" / link).exists() for link in links), links


def test_the_idea_prints_the_numbers_of_the_one_file():
    require_learned(notebook("idea"))
    results = load("act_prm")
    told = {cell.id: printed(cell) for cell in code_cells(notebook("idea"))}
    rows = {name: row["values"][0] for name, row in results["rows"].items()}
    base = rows.pop("base model")
    assert f"{base:.3f}" in told["base"]
    for line, (name, success) in zip(told["success"].splitlines(), rows.items(), strict=True):
        assert line.startswith(name) and line.endswith(f" {success:.3f}")
    for cell, when in (("group", "before"), ("training", "after")):
        for row in results["groups"][when]["thoughts"]:
            numbers = rf"{row['advantage']:.2f} +{row['reward']:.3f} +{row['times']}"
            assert re.search(rf"{numbers}  {re.escape(row['thought'])}$", told[cell], re.MULTILINE)


def require_learned(book) -> None:
    """Thoughts have to help in the notebook that says so."""
    told = {cell.id: printed(cell) for cell in code_cells(book)}
    names = ("SFT on actions alone", "best of 35", "Act-PRM")
    success = {}
    for line, row in zip(told["success"].splitlines(), names, strict=True):
        success[row] = float(line.removeprefix(row))
    assert success["SFT on actions alone"] < 0.5 < 0.8 < success["Act-PRM"], success


def written(book) -> str:
    """The notebook's file. Nothing in it is of this machine or of this moment."""
    book.metadata["language_info"] = {"name": "python"}
    return re.sub(r" at 0x[0-9a-f]+>", ">", nbformat.writes(book)) + "\n"


if __name__ == "__main__":
    import tempfile

    for name in sys.argv[1:] or NAMES:
        with tempfile.TemporaryDirectory() as clone:
            book = executed(name, Path(clone))
        if name == "idea":
            require_learned(book)
        path_of(name).write_text(written(book), encoding="utf-8", newline="\n")
