"""Every number in README and the book is held to the file of the run that made it.

A table between `<!-- table NAME -->` and `<!-- end -->` is what evidence/tables.py makes of it.
After `<!-- numbers: cups, errand -->` every number with a decimal point occurs in one of these
files, rounded to the digits that are shown. It holds up to the next such comment. On a page of
`<!-- numbers: none -->` nothing was measured. What was printed, a fence without a language, is read
like prose. Code, links and arXiv's ids are not.

Curves and paths are hundreds of numbers, among which any would be found: they count where they are
named, as `cups:curves`.
"""

import json
import platform
import re
from datetime import date
from importlib.util import find_spec

import pytest

from evidence.results import FOLDER, ROOT, load
from evidence.tables import BLOCK, filled, pages

PAGES = [str(page.relative_to(ROOT)) for page in pages()]
README = (ROOT / "evidence/README.md").read_text(encoding="utf-8")
RESULTS = sorted(path.stem for path in FOLDER.glob("*.json"))
MANY = ("curves", "paths")
NOTE = re.compile(r"<!-- numbers: (.*?) -->", re.DOTALL)
NO_PROSE = re.compile(
    r"^```\w+\n.*?^```|^```$|(`+)(?!`).*?(?<!`)\1(?!`)"  # fenced code, code
    r"|!?\[[^\]]*\]\([^)]*\.svg\)|\]\([^)]*\)|https?://\S+|arXiv:\S+",  # figures, links, ids
    re.DOTALL | re.MULTILINE,
)
NUMBER = re.compile(r"(?<![\w.])(\d*\.\d+)(?!\d|[a-wyzA-Z]|\.\d)( %| per cent| M\b)?")


def prose(text: str) -> str:
    """The page without its tables and without code."""
    return NO_PROSE.sub(" ", BLOCK.sub(" ", text))


def sections(text: str) -> list[tuple[str, str]]:
    """(the names of a comment, the prose up to the next one); "" for what stands before all."""
    first, *others = NOTE.split(prose(text))
    return [("", first), *zip(others[::2], others[1::2], strict=True)]


def numbers_in(value) -> set[float]:
    """All numbers of a file."""
    if isinstance(value, dict):
        return numbers_in(list(value.values()))
    if isinstance(value, list):
        return set().union(*map(numbers_in, value))
    return {abs(value)} if isinstance(value, int | float) and value is not True else set()


def known_by(name: str) -> set[float]:
    """The numbers that a name stands for: a file without its long parts, or one of these."""
    file, _, part = name.partition(":")
    results = load(file)
    if part:
        return numbers_in(results[part])
    return numbers_in({key: value for key, value in results.items() if key not in MANY})


def held(shown: str, unit: str, known: set[float]) -> bool:
    """Does the number occur among those known, rounded as it is shown?"""
    digits = len(shown.partition(".")[2])
    scale = {" %": 100, " per cent": 100, " M": 1e-6}.get(unit, 1)
    wanted = f"{float(shown):.{digits}f}"
    return any(f"{scale * x:.{digits}f}" == wanted or f"{x:.{digits}f}" == wanted for x in known)


def unheld(text: str) -> list[str]:
    """The numbers of a page that no named file has, each with a few words around it."""
    found = []
    for names, part in sections(text):
        if names == "none":
            continue
        files = [name.strip() for name in names.split(",")] if names else []
        known = set().union(*map(known_by, files))
        for number in NUMBER.finditer(part):
            if not held(number[1], number[2], known):
                around = part[max(number.start() - 40, 0) : number.end() + 20]
                found.append(f"{number[1]} of {names or 'no file'}: … {' '.join(around.split())} …")
    return found


@pytest.mark.parametrize("page", PAGES)
def test_the_tables_of_a_page_are_those_of_the_files(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert text == filled(text), "python -m evidence.tables writes them"
    assert text.count("<!-- table ") == len(BLOCK.findall(text)), "a table has no <!-- end -->"


@pytest.mark.parametrize("page", PAGES)
def test_every_number_in_prose_is_in_a_named_file(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert not unheld(text)


@pytest.mark.parametrize("name", RESULTS)
def test_a_file_of_results_says_what_made_it(name):
    results = load(name)
    assert re.match(r"python |minprm ", results["command"])
    assert re.fullmatch(r"[0-9a-f]{7,40}", results["commit"]), "a clean commit makes results"
    assert date.fromisoformat(results["date"])
    assert results["seeds"] and all(isinstance(seed, int) for seed in results["seeds"])
    assert results["interval"] and results["rows"] and results["python"].startswith("3.")
    assert "torch" in results["libraries"]
    assert "core" in results["machine"] and platform.node() not in results["machine"].split()


@pytest.mark.parametrize("name", RESULTS)
def test_the_program_that_made_a_file_is_there_under_todays_name(name):
    module = re.match(r"python -m (\S+)", load(name)["command"])
    if module and name != "twice":  # its note says what became of it
        assert find_spec(today(module[1])), module[1]


def today(module: str) -> str:
    """What README calls a module whose name has changed since."""
    names = re.findall(r"^\| `([\w.]+)` \| `([\w.]+)` \|$", README, re.MULTILINE)
    for old, new in names:
        if module == old or module.startswith(f"{old}."):
            return new + module.removeprefix(old)
    return module


def test_a_number_that_no_file_has_is_found():
    page = """Before .5 <!-- numbers: act_prm --> it reaches .948 or .95, in code `.123`, in 94.8 %,
    by [a link](a.1.md) and arXiv:2402.03300; but never .949 and not 94.9 %. Or 7.5x.
    <!-- table act_prm -->
    .777
    <!-- end -->
    <!-- numbers: none --> 8.5
    """
    found = [line.split()[0] for line in unheld(page)]
    assert found == [".5", ".949", "94.9", "7.5"]
    printed = "<!-- numbers: act_prm -->\n```\n0.948 0.949\n```\n```python\n0.947\n```\n"
    assert [line.split()[0] for line in unheld(printed)] == ["0.949"]


def test_curves_hold_a_number_only_where_they_are_named():
    after_six = load("act_prm")["curves"]["0"]["mean"][1]
    page = "<!-- numbers: {} --> it rose to " + f"{after_six:.3f}"
    assert unheld(page.format("act_prm")) and not unheld(page.format("act_prm:curves"))


def test_a_table_is_made_anew_and_the_rest_is_left():
    page = "a\n<!-- table act_prm -->\n| old |\n<!-- end -->\nz\n"
    made = filled(page)
    assert made.startswith("a\n<!-- table act_prm -->\n| `act_prm.py` |") and made.endswith("z\n")
    assert "old" not in made and filled(made) == made
    best = json.dumps(load("act_prm")["rows"]["Act-PRM"]["values"])
    assert best == "[1.0, 0.85, 0.948, 0.955, 0.955]" and "1.00 .850 .948 .955 .955" in made
