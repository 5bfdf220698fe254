"""report.html: one file about one run, or about several beside each other."""

from pathlib import Path

from minprm.look.log import write_atomically
from minprm.report.files import understood
from minprm.report.gather import gather
from minprm.report.page import page
from minprm.report.thin import thin

NAME = "report.html"
SIZE = 2_000_000  # bytes of the file


def write_page(folders: list[Path]) -> Path:
    """Writes the page of these runs into the first one's folder. Returns where. Raises Broken."""
    with understood(folders):
        html = page(thin(gather(folders), SIZE - len(page({}))))
    path = folders[0] / NAME
    write_atomically(path, html)
    return path
