"""One style for all figures: an SVG that follows the reader's light or dark mode.

matplotlib draws with the light colours; `save` turns each into a CSS variable that has a value for
either mode. Text stays text, so that it can be searched and read aloud. A figure is six inches wide
and has a ground of its own, so that it can be read on any page and on a phone.
"""

import re
from pathlib import Path

import matplotlib

matplotlib.use("svg")

import matplotlib.pyplot as plt

# name: (light, dark). The names and colours are those of the page of a run.
COLOURS = {
    "paper": ("#ffffff", "#14161a"),  # the ground
    "ink": ("#1b1e23", "#e7e9ec"),  # text
    "soft": ("#565d66", "#a8afb8"),  # text that explains
    "line": ("#e4e6ea", "#2b2f36"),  # grids and borders
    "wash": ("#f5f6f8", "#1b1e23"),  # areas
    "grey": ("#c3c8cf", "#4a5059"),  # what is only there to compare with
    "accent": ("#1d5fc2", "#659df3"),  # what the figure is about
    "against": ("#c4461a", "#ff8f5c"),  # what stands against it
}
PAPER, INK, SOFT, LINE, WASH, GREY, ACCENT, AGAINST = (light for light, _ in COLOURS.values())
WIDTH = 396  # of what a figure shows, in points; around it is a margin
MARGIN = 10
INCHES = (WIDTH + 2 * MARGIN) / 72  # of the whole, as matplotlib counts
LETTER = 0.602  # a letter of the fonts in which all are as wide, by its size
FONTS = {  # the font that matplotlib measures: those of the same width that a reader may have
    "'DejaVu Sans'": "Verdana, 'DejaVu Sans'",
    "'DejaVu Sans Mono'": "Menlo, 'DejaVu Sans Mono', 'Lucida Console'",
}

plt.rcParams.update(
    {
        "font.family": "sans-serif",
        "font.sans-serif": ["DejaVu Sans"],
        "font.monospace": ["DejaVu Sans Mono"],
        "font.size": 9,
        "text.color": INK,
        "axes.edgecolor": GREY,
        "axes.facecolor": "none",
        "axes.labelcolor": SOFT,
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.titlesize": 9,
        "figure.constrained_layout.use": True,
        "figure.constrained_layout.h_pad": MARGIN / 72,
        "figure.constrained_layout.w_pad": MARGIN / 72,
        "figure.facecolor": PAPER,
        "figure.figsize": (INCHES, 3),
        "svg.fonttype": "none",
        "svg.hashsalt": "minprm",  # the same figure is the same file
        "xtick.color": SOFT,
        "ytick.color": SOFT,
    }
)


def page(height: float):
    """(figure, axes) to draw on as on paper: in points, from the upper left corner."""
    tall = (height + 2 * MARGIN) / 72
    figure = plt.figure(figsize=(INCHES, tall), layout="none")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(-MARGIN, WIDTH + MARGIN), ylim=(height + MARGIN, -MARGIN))
    axes.axis("off")
    return figure, axes


def write(axes, x: float, y: float, text: str, size=9, mono=False, **how) -> None:
    """Writes text whose lower left corner is (x, y)."""
    family = "monospace" if mono else "sans-serif"
    axes.text(x, y, text, fontsize=size, family=family, **{"va": "baseline", **how})


def bar(axes, x: float, y: float, width: float, height: float, colour: str) -> None:
    """A bar whose upper left corner is (x, y)."""
    axes.add_patch(plt.Rectangle((x, y), width, height, color=colour, linewidth=0))


def arrow(axes, start: tuple, end: tuple, colour: str) -> None:
    axes.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": colour, "shrinkA": 0})


def probability(p: float) -> str:
    """A probability to three digits.

    >>> probability(0.9976), probability(0.0001), probability(0.99996)
    ('.998', '< .001', '> .999')
    """
    if p < 0.0005:
        return "< .001"
    return "> .999" if p > 0.9995 else f"{p:.3f}".removeprefix("0")


def save(figure, path: Path, title: str) -> None:
    """Writes a figure as an SVG with both modes. `title` says in a sentence what it shows."""
    figure.savefig(path, format="svg", metadata={"Date": None, "Title": title})
    plt.close(figure)
    light = "".join(f"--{name}:{colour};" for name, (colour, _) in COLOURS.items())
    dark = "".join(f"--{name}:{colour};" for name, (_, colour) in COLOURS.items())
    modes = f":root{{{light}}}@media(prefers-color-scheme:dark){{:root{{{dark}}}}}"
    text = path.read_text(encoding="utf-8")
    for name, (colour, _) in COLOURS.items():
        text = text.replace(colour, f"var(--{name})")
    for measured, fonts in FONTS.items():
        text = text.replace(measured, fonts)
    text = re.sub(r"(<style[^>]*>)", rf"\1{modes}", text, count=1)
    path.write_text(text, encoding="utf-8", newline="\n")
