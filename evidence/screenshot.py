"""Draws docs/report.png: a group of thoughts on the page of a run, before update 5.

    minprm train --threads 1 --run cups && python -m evidence.screenshot runs/cups/report.html

It needs Debian's chromium and the package playwright (`pip install -e ".[dev]"`).
"""

import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import Locator, sync_playwright

OUT = Path(__file__).parents[1] / "docs/report.png"


def top_of(part: Locator) -> float:
    """How far below the top of the page a part of it begins."""
    box = part.bounding_box()
    if box is None:
        raise SystemExit(f"{part} is not on this page")
    return box["y"]


def main(page_file: str) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page(viewport={"width": 1200, "height": 1600})
        page.goto(Path(page_file).resolve().as_uri())
        slider = page.get_by_role("slider").first
        slider.focus()
        for _ in range(3):  # the looks before updates 1, 2 and 5
            slider.press("ArrowRight")
        slider.blur()
        page.wait_for_timeout(1000)  # rows glide to their places
        top = top_of(page.locator(".bar").first)  # the slider
        end = top_of(page.get_by_text("marks the committed thought"))
        page.screenshot(path=OUT, clip={"x": 0, "y": top, "width": 1200, "height": end - top})
        browser.close()
    Image.open(OUT).convert("P", palette=Image.Palette.ADAPTIVE, colors=200).save(
        OUT, optimize=True
    )


if __name__ == "__main__":
    main(sys.argv[1])
