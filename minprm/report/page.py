"""report.html: one file about one run, or about several beside each other.

It holds its data, its style and its script, and a policy that allows nothing else. The data holds
text of models, worlds and files. In the file it is JSON without any <, so that no parser of HTML
can leave it (thin.escaped); in the page it is put in as text and never as HTML (page/base.js).
"""

import base64
import hashlib
from pathlib import Path

from jinja2 import Environment, StrictUndefined

from minprm.look.log import write_atomically
from minprm.report.files import UNREADABLE, Broken
from minprm.report.gather import gather
from minprm.report.thin import escaped, thin

NAME = "report.html"
SIZE = 2_000_000  # bytes of the file
FOLDER = Path(__file__).parent / "page"
# The style and the script are these files, one after the other.
STYLES = ("page", "panels")
SCRIPTS = (
    "base", "credit", "names", "bar", "group", "tokens", "picture", "plot", "curves", "ladder",
    "episodes", "tree", "foot", "main",
)  # fmt: skip


def write_page(folders: list[Path]) -> Path:
    """Writes the page of these runs into the first one's folder. Returns where. Raises Broken, also
    over files of another shape."""
    room = SIZE - len(page({}))  # for the data
    try:
        content = thin(gather(folders), room)
    except Broken:
        raise
    except UNREADABLE as error:
        names = ", ".join(str(folder) for folder in folders)
        raise Broken(
            f"{names}: a file is not what this version of minprm writes ({error!r}); use the "
            "version that wrote it"
        ) from error
    path = folders[0] / NAME
    write_atomically(path, page(content))
    return path


def page(content: dict) -> str:
    """The HTML file that shows this data (report/gather.py says what is in it).

    The content security policy names the hashes of this very style and script: a browser runs no
    other, and fetches nothing.
    """
    # it escapes nothing: the style and the script are ours, and the data comes escaped
    templates = Environment(undefined=StrictUndefined, keep_trailing_newline=True)
    templates.filters["sha256"] = _sha256
    template = templates.from_string((FOLDER / "page.html").read_text(encoding="utf-8"))
    style, script = _joined(STYLES, "css"), _joined(SCRIPTS, "js")
    return template.render(style=style, script=script, data=escaped(content))


def _joined(names: tuple[str, ...], suffix: str) -> str:
    texts = []
    for name in names:
        texts.append((FOLDER / f"{name}.{suffix}").read_text(encoding="utf-8"))
    return "\n".join(texts)


def _sha256(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
