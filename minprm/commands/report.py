"""minprm report [RUN ...]: a run as one page for a browser; without a run, the list of runs.

Several runs make one page, written into the folder of the first. It can be made while a run is
under way, too.
"""

from dataclasses import dataclass, field
from typing import Annotated

from tyro.conf import Positional, arg

from minprm.commands.checks import refuse
from minprm.commands.cli import given_knobs, read_flags
from minprm.constants import fail
from minprm.printable import printable
from minprm.report.console import list_of_runs
from minprm.report.files import Broken, folder_of
from minprm.report.page import write_page

ONE_PAGE = "minprm report A B makes one page of both runs, with their knobs, arms and episodes"
GONE: dict[str, str] = dict.fromkeys(("compare", "worst", "best"), ONE_PAGE)


@dataclass
class Report:
    """Writes the page of a run, or of several; without a run, lists all runs."""

    # names of runs, or paths of their folders
    runs: Annotated[list[str], Positional, arg(metavar="RUN ...")] = field(default_factory=list)


def main(argv: list[str]) -> None:
    """The command."""
    given_knobs(argv, GONE)
    runs = read_flags(Report, argv, "minprm report").runs
    try:
        folders = [folder_of(run) for run in runs]
        for folder in folders:
            refuse(folders.count(folder) > 1, f"{folder} is named twice")
        print(printable(str(write_page(folders)) if folders else list_of_runs()))
    except (Broken, OSError) as error:
        fail(str(error))
