"""minprm report [RUN ...]: a run as one page for a browser; without a run, the list of runs.

Several runs make one page, written into the folder of the first. It can be made while a run is
under way, too. --compare, --worst and --best answer on the terminal instead.
"""

from dataclasses import dataclass, field
from typing import Annotated

from tyro.conf import Positional, arg

from minprm.commands.checks import check_ranges, refuse
from minprm.commands.cli import given_knobs, read_flags
from minprm.constants import CountOrNone, fail
from minprm.report.console import comparison, episodes_to_read, list_of_runs
from minprm.report.files import Broken, folder_of, understood
from minprm.report.write import write_page


@dataclass
class Report:
    """Writes the page of a run, or of several; without a run, lists all runs."""

    # names of runs, or paths of their folders
    runs: Annotated[list[str], Positional, arg(metavar="RUN ...")] = field(default_factory=list)
    compare: list[str] = field(default_factory=list)  # two runs: a table of the arms of both
    worst: CountOrNone = 0  # print so many episodes of each arm, the worst first
    best: CountOrNone = 0  # the same, the best first


def main(argv: list[str]) -> None:
    """The command."""
    flags = read_flags(Report, argv, "minprm report")
    check(flags, given_knobs(argv))
    try:
        print(answer(flags))
    except (Broken, OSError) as error:
        fail(str(error))


def check(flags: Report, chosen_knobs: set[str]) -> None:
    """Refuses what cannot be meant."""
    check_ranges(flags)
    refuse(
        len(chosen_knobs) > 1, "--compare, --worst and --best are three questions: ask one of them"
    )
    if "compare" in chosen_knobs:
        refuse(len(flags.compare) != 2, "--compare takes two runs: minprm report --compare A B")
        refuse(flags.runs, "--compare A B stands alone, without another run")
    if flags.worst or flags.best:
        refuse(len(flags.runs) != 1, "--worst and --best take one run: minprm report RUN --worst 3")
    for run in flags.compare or flags.runs:
        refuse((flags.compare or flags.runs).count(run) > 1, f"{run} is named twice")


def answer(flags: Report) -> str:
    """What is printed. Raises Broken."""
    folders = [folder_of(run) for run in flags.compare or flags.runs]
    if not folders:
        return list_of_runs()
    with understood(folders):
        if flags.compare:
            return comparison(*folders)
        if flags.worst or flags.best:
            return episodes_to_read(folders[0], flags.worst or flags.best, worst=flags.worst > 0)
        return str(write_page(folders))
