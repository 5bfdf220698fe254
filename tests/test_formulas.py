"""The page of formulas names what there is, all of it, and where it lies."""

import inspect
import re
from functools import reduce
from importlib import import_module
from pathlib import Path

import pytest

from minprm import algorithms, constants, zoo

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "formulas.md").read_text(encoding="utf-8")
NAMED = re.findall(r"\[`([\w.]+)`\]\(\.\./([\w/]+\.py)\)", PAGE)
KNOBS = re.findall(r"--([a-z*-]+)\.([a-z-]+)", PAGE)


def thing(name: str, path: str):
    """What the page calls `name`, looked up in the file that its link leads to."""
    module = path.removesuffix(".py").replace("/", ".")
    short = module.removeprefix("minprm.")
    assert name.startswith(f"{short}."), f"{name} is linked to {path}"
    return reduce(getattr, name.removeprefix(f"{short}.").split("."), import_module(module))


@pytest.mark.parametrize(("name", "path"), sorted(set(NAMED)))
def test_each_function_named_is_in_the_file_that_is_linked(name, path):
    found = inspect.unwrap(thing(name, path))
    assert Path(inspect.getsourcefile(found)) == ROOT / path


@pytest.mark.parametrize("module", [algorithms, zoo])
def test_each_function_of_the_maths_has_its_row(module):
    short = module.__name__.removeprefix("minprm.")
    for name, function in inspect.getmembers(module, inspect.isfunction):
        if function.__module__ == module.__name__:
            assert f"[`{short}.{name}`]" in PAGE, f"{short}.{name} has no row"


def test_each_name_of_the_configuration_is_that_of_a_function_or_is_told():
    """`is` is zoo.importance, `batch` is a case of zoo.advantages: the page has to say so."""
    chosen = [*zoo.ADVANTAGES, *zoo.LOSSES, *zoo.AGGREGATIONS, *zoo.CORRECTIONS, *zoo.GROUPS]
    chosen += [*algorithms.REWARDS, "exact_match", "batch", "opo", "ema", "gae"]
    for name in [*chosen, "turn_gae"]:
        assert re.search(rf"`(?:(?:algorithms|zoo|text\.actions)\.|[^`]* )?{name}`", PAGE), name


def test_each_paper_that_is_named_is_linked():
    """A number of arXiv stands in a link to the paper, and nowhere else."""
    linked = re.findall(r"\[arXiv:([\w./-]+)\]\(https://arxiv\.org/abs/([\w./-]+)\)", PAGE)
    assert linked and all(told == leads for told, leads in linked)
    assert len(re.findall(r"arXiv:", PAGE)) == len(linked)


@pytest.mark.parametrize(("stage", "knob"), sorted(set(KNOBS)))
def test_each_knob_that_is_named_is_one(stage, knob):
    """`--*.kl` stands for the same knob of every stage that samples."""
    stages = ["act_prm", "rl"] if stage == "*" else [stage.replace("-", "_")]
    for name in stages:
        assert hasattr(getattr(constants.Config(), name), knob.replace("-", "_"))
