"""minprm COMMAND [FLAGS]: the commands of the package. `python -m minprm` is the same."""

import errno
import io
import logging
import os
import sys
from importlib import import_module

from minprm import __version__
from minprm.constants import fail
from minprm.printable import ShownRecord, as_printable
from minprm.several.together import refuse_several

try:
    from loguru import logger
except ValueError as error:  # of the variable from which loguru reads its level
    fail(f"LOGURU_LEVEL: {error}; use DEBUG, INFO, WARNING or ERROR")

COMMANDS = {
    "train": "trains the arms of a ladder and prints their table",
    "evaluate": "plays checkpoints on tasks that no training saw, or replays held-out logs",
    "judge": "pays stored episodes by another reward, and says what differs",
    "logs": "reads logs as training would; says what is in them, and what is wrong",
    "report": "writes a run as one page for a browser; without a run, lists all runs",
    "export": "writes a checkpoint as a folder to serve, with a model card",
    "serve": "serves a checkpoint over OpenAI's chat/completions",
    "record": "stands before any API, and writes what agents ask it as logs",
}


def main(argv: list[str] | None = None) -> None:
    """Runs the command that is named first. Each is a module of minprm.commands with a `main`."""
    # threads that wait sleep, or a busy machine stops them all; torch reads it when it is imported
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    if isinstance(sys.stdout, io.TextIOWrapper):  # it may know fewer letters than what it shows
        sys.stdout.reconfigure(errors="backslashreplace")
    logger.configure(
        handlers=[{"sink": sys.stderr, "format": "{message}"}],  # a run has its own
        patcher=as_printable,
    )
    logging.setLogRecordFactory(ShownRecord)
    argv = sys.argv[1:] if argv is None else argv
    name = argv[0] if argv else "--help"
    if name != "train":
        refuse_several(name)
    if name in COMMANDS:
        try:
            try:
                import_module(f"minprm.commands.{name}").main(argv[1:])
            finally:  # --help raises SystemExit
                sys.stdout.flush()
        except KeyboardInterrupt:  # where no command has more to say of it, as while torch is read
            raise SystemExit(130) from None
        except BrokenPipeError:  # whoever reads has read enough, as head does
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is buffered
        except OSError as error:
            if error.errno != errno.ENAMETOOLONG:
                raise
            fail(f"{str(error.filename)[:80]} …: no file can have so long a name; shorten the path")
        return
    lines = [f"  {command:<10}{purpose}" for command, purpose in COMMANDS.items()]
    usage = "minprm COMMAND [FLAGS]; COMMAND --help lists its flags; minprm --version.\n"
    usage += "\n".join(lines)
    if name in ("-h", "--help"):
        print(usage)
        return
    if name == "--version":
        print(f"minprm {__version__}")
        return
    fail(f"minprm {name}: no such command. Commands: {', '.join(COMMANDS)}")


if __name__ == "__main__":
    main()
