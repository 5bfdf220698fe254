"""The list of modules in docs/code.md, from their own first sentences: `python -m docs.code`."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "code.md"
BLOCK = re.compile(r"(<!-- modules of (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)


def first_sentence(file: Path) -> str:
    """What a module says of itself first."""
    told = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    paragraph = " ".join(told.split("\n\n")[0].split())
    return re.split(r"(?<=[.?]) ", paragraph)[0]


def modules(folder: str) -> str:
    """A table of the modules of a folder, each linked, with its first sentence."""
    lines = ["", "| module | what it is |", "|---|---|"]
    for file in sorted((ROOT / folder).glob("*.py")):
        if file.name != "__init__.py":
            name = file.name.replace("__", r"\_\_")  # or it is bold
            lines.append(f"| [{name}](../{folder}/{file.name}) | {first_sentence(file)} |")
    return "\n".join(lines) + "\n\n"


def filled(page: str) -> str:
    """The page with every block of modules as it is now."""
    return BLOCK.sub(lambda block: block[1] + modules(block[2]) + block[3], page)


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8", newline="\n")
