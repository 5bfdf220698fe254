"""docs/code.md lists the modules that exist, each in its own words."""

from pathlib import Path

from docs.code import BLOCK, PAGE, ROOT, filled


def test_the_page_is_what_the_modules_say():
    page = PAGE.read_text(encoding="utf-8")
    assert filled(page) == page, "python -m docs.code writes it anew"


def test_every_module_is_listed():
    page = PAGE.read_text(encoding="utf-8")
    listed = {Path(folder) for _, folder, _ in BLOCK.findall(page)}
    for file in (ROOT / "minprm").rglob("*.py"):
        assert file.relative_to(ROOT).parent in listed, file
