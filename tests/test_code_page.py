"""docs/code.md lists the modules that exist; tests/test_numbers.py holds their sentences."""

from evidence.tables import BLOCK, ROOT


def test_every_module_is_listed():
    page = (ROOT / "docs/code.md").read_text(encoding="utf-8")
    listed = {found[1].removeprefix("modules:") for found in BLOCK.findall(page)}
    for file in (ROOT / "minprm").rglob("*.py"):
        assert file.relative_to(ROOT).parent.as_posix() in listed, file
