"""python -m benchmarks.entered [--arms act_prm]: how many of our functions a run enters.

The arm `act_prm` of the smoke preset with six updates, its base already raised by a run before:
what a reader with a debugger would step through. A function counts once, however often it is
called; lambdas, comprehensions, class bodies and what is entered on import do not count.
"""

import argparse
import os
import sys
import threading
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType, FrameType

ROOT = Path(__file__).parents[1]
PACKAGE = str(ROOT / "minprm") + os.sep
FLAGS = ("--preset", "smoke", "--jobs", "1", "--act-prm.updates", "6")
UNNAMED = ("<lambda>", "<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>", "<module>")


def entered(flags: list[str]) -> set[CodeType]:
    """Our functions that `train` with these flags enters; its base is raised before it counts."""
    from minprm.__main__ import main

    main(["train", *flags, "--run", "raises"])
    functions: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE):
            functions.add(code)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        main(["train", *flags, "--run", "counts"])
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return {code for code in functions if code.co_name not in UNNAMED and is_function(code)}


def is_function(code: CodeType) -> bool:
    """Not the body of a class, which has no fast locals."""
    return bool(code.co_flags & 0x02)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--arms", nargs="+", default=["act_prm"])
    parser.add_argument("--names", action="store_true", help="each function, file by file")
    flags = parser.parse_args()
    here = Path.cwd()
    with TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            functions = entered([*FLAGS, "--arms", *flags.arms])
        finally:
            os.chdir(here)
    files = Counter(code.co_filename.removeprefix(PACKAGE) for code in functions)
    folders = Counter()
    for file, number in files.items():
        folders[str(Path(file).parent)] += number
    for folder, number in folders.most_common():
        print(f"{folder:<12}{number:>5}")
    if flags.names:
        for file in sorted(files):
            names = sorted(c.co_qualname for c in functions if c.co_filename == PACKAGE + file)
            print(f"{file} {files[file]}: {', '.join(names)}")
    print(f"{len(functions)} functions in {len(files)} files")


if __name__ == "__main__":
    main()
