"""The book's figures: drawn from the results alone, in one style, for either mode of a page."""

import doctest
import re
from pathlib import Path

import matplotlib
import pytest

from evidence.drawings import style
from evidence.drawings.style import COLOURS, plt, save
from evidence.figures import FIGURES, FOLDER, main, title_of
from shared.commands import refusal

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
SMALLEST = 7  # points; a figure of 416 points fills 700 pixels: 12 pixels


def texts(svg: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


@pytest.fixture(params=sorted(FIGURES))
def name(request) -> str:
    return request.param


@pytest.fixture
def svg(name) -> str:
    return (FOLDER / f"{name}.svg").read_text(encoding="utf-8")


def test_a_figure_is_what_the_script_draws_from_the_results(name, svg, tmp_path):
    file = tmp_path / "again.svg"
    save(FIGURES[name](), file, title_of(name))
    again = file.read_text(encoding="utf-8")
    if (
        f"Matplotlib v{matplotlib.__version__}," in svg
    ):  # another version may place things otherwise
        assert again == svg, f"python -m evidence.figures {name}"
    assert texts(again) == texts(svg), f"python -m evidence.figures {name}"


def test_a_figure_that_is_not_there_is_refused_before_any_is_drawn(capsys, monkeypatch):
    monkeypatch.setattr("evidence.figures.save", None)
    error = refusal(main, ["reward", "nosuch"], capsys)
    assert error == "nosuch: no such figure; docs/figures has a file of the name of each\n"


def test_a_figure_has_a_title_that_says_in_a_sentence_what_it_shows(svg):
    title = re.search(r"<title>(.*?)</title>", svg, re.DOTALL).group(1)
    assert title.endswith(".")
    assert len(title.split()) > 12


def test_all_figures_are_as_wide(svg):
    assert re.search(r'<svg [^>]*width="416pt"', svg)


def test_a_figure_has_the_colours_of_the_style_alone(svg):
    modes, drawing = svg.split("</style>", 1)
    assert not re.search(r"(fill|stroke|color): *(#|rgb)", drawing)
    assert set(re.findall(r"var\(--(\w+)\)", drawing)) <= set(COLOURS)
    for light, dark in COLOURS.values():
        assert light in modes
        assert dark in modes


def test_letters_are_large_enough_and_inside_the_figure(name, svg):
    assert min(map(float, re.findall(r"font-size: ([\d.]+)px", svg))) >= SMALLEST
    figure = FIGURES[name]()
    figure.canvas.draw()
    for text in figure.findobj(plt.Text):
        box = text.get_window_extent()
        if text.get_text() and text.get_visible():
            assert figure.bbox.x0 <= box.x0, text.get_text()
            assert box.x1 <= figure.bbox.x1, text.get_text()
    plt.close(figure)


def test_numbers_are_written_as_the_style_says():
    assert doctest.testmod(style).attempted == 1
    assert doctest.testmod(style).failed == 0


def test_there_is_no_figure_that_the_script_does_not_draw():
    assert {file.stem for file in FOLDER.glob("*.svg")} == set(FIGURES)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pictures_that_a_page_names_exist(page):
    for target in re.findall(r"!\[[^\]]*\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target
