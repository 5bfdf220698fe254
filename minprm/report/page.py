"""The page as one file: its data, its style and its script, and a policy that allows nothing else.

The data holds text of models, worlds and files. In the file it is JSON without any <, so that no
parser of HTML can leave it; in the page it is put in as text and never as HTML (page/base.js).
"""

import base64
import hashlib
import json
from pathlib import Path

FOLDER = Path(__file__).parent / "page"
# The style and the script are these files, one after the other.
STYLES = ("page", "panels")
SCRIPTS = (
    "base", "credit", "names", "bar", "group", "tokens", "picture", "plot", "curves", "ladder",
    "episodes", "tree", "foot", "main",
)  # fmt: skip


def page(content: dict) -> str:
    """The HTML file that shows this data (report/gather.py says what is in it).

    The content security policy names the hashes of this very style and script: a browser runs no
    other, and fetches nothing.
    """
    style = _joined(STYLES, "css")
    script = _joined(SCRIPTS, "js")
    html = (FOLDER / "page.html").read_text(encoding="utf-8")
    html = html.replace("sha256-STYLE", f"sha256-{_hash(style)}")
    html = html.replace("sha256-SCRIPT", f"sha256-{_hash(script)}")
    # the data comes last: what a model wrote is not searched for words to replace
    html = html.replace(">STYLE<", f">{style}<").replace(">SCRIPT<", f">{script}<")
    before, after = html.split(">DATA<")
    return f"{before}>{escaped(content)}<{after}"


def escaped(content: dict) -> str:
    """Strict JSON in ASCII without <, > and &. Raises ValueError for what is no finite number.

    >>> escaped({"said": "</script>"})
    '{"said":"\\\\u003c/script\\\\u003e"}'
    """
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _joined(names: tuple[str, ...], suffix: str) -> str:
    texts = []
    for name in names:
        texts.append((FOLDER / f"{name}.{suffix}").read_text(encoding="utf-8"))
    return "\n".join(texts)


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
