"""One style for all figures: an SVG that follows the reader's light or dark mode.

matplotlib draws with the light colours; `save` turns each into a CSS variable that has a value for
either mode. Text stays text, so that it can be searched and read aloud.
"""

import re
from pathlib import Path

import matplotlib

matplotlib.use("svg")

import matplotlib.pyplot as plt

# name: (light, dark). The names and colours are those of the page of a run.
COLOURS = {
    "ink": ("#1b1e23", "#e7e9ec"),  # text
    "soft": ("#565d66", "#a8afb8"),  # text that explains
    "line": ("#e4e6ea", "#2b2f36"),  # grids and borders
    "wash": ("#f5f6f8", "#1b1e23"),  # areas
    "grey": ("#c3c8cf", "#4a5059"),  # what is only there to compare with
    "accent": ("#1d5fc2", "#659df3"),  # what the figure is about
    "against": ("#c4461a", "#ff8f5c"),  # what stands against it
}
INK, SOFT, LINE, WASH, GREY, ACCENT, AGAINST = (light for light, _ in COLOURS.values())

plt.rcParams.update(
    {
        "font.family": "sans-serif",
        "font.sans-serif": ["DejaVu Sans"],
        "font.size": 10,
        "text.color": INK,
        "axes.edgecolor": GREY,
        "axes.facecolor": "none",
        "axes.labelcolor": SOFT,
        "axes.spines.right": False,
        "axes.spines.top": False,
        "figure.facecolor": "none",
        "savefig.bbox": "tight",
        "svg.fonttype": "none",
        "svg.hashsalt": "minprm",  # the same figure is the same file
        "xtick.color": SOFT,
        "ytick.color": SOFT,
    }
)


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
    # Verdana is as wide as the font that was measured; readers have one of the two
    text = text.replace("'DejaVu Sans'", "Verdana, 'DejaVu Sans'")
    text = re.sub(r"(<style[^>]*>)", rf"\1{modes}", text, count=1)
    path.write_text(text, encoding="utf-8", newline="\n")
