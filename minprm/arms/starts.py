"""starts.jsonl of a run: a line for each time that it was started or resumed.

    command    what was typed, word by word
    processes  how many torchrun has started for it
    started    when, with the time zone
    python     its version; `platform`: the machine's system
    commit     of minprm's own source, "-dirty" after it where files were changed; null where the
               source is no checkout
    libraries  the versions of those that the numbers depend on

Numbers that cannot be made again are looked into here first: what was other that day?
"""

import platform
import subprocess
import sys
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from minprm.several.together import started

FILE = "starts.jsonl"
LIBRARIES = ("minprm", "torch", "transformers", "peft", "vllm")
ROOT = Path(__file__).parents[2]  # where a checkout has its .git


def this_start() -> dict:
    """The line of this process."""
    return {
        "command": typed(sys.argv),
        "processes": started(),
        "started": datetime.now().astimezone().isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "commit": commit(ROOT),
        "libraries": libraries(),
    }


def typed(argv: list[str]) -> list[str]:
    """The words of the command, without the place where the program lies.

    >>> typed(["/opt/venv/bin/minprm", "train", "--preset", "smoke"])
    ['minprm', 'train', '--preset', 'smoke']
    >>> typed(["/home/me/minprm/__main__.py", "train"]), typed(["/home/me/train.py"])
    (['minprm', 'train'], ['python', 'train.py'])
    """
    program = Path(argv[0])
    if program.name == "__main__.py":  # python -m minprm
        return [program.parent.name, *argv[1:]]
    before = ["python"] if program.suffix == ".py" else []
    return [*before, program.name, *argv[1:]]


def commit(root: Path) -> str | None:
    """The short hash of the commit that lies in this folder; None where it is no git checkout."""
    if not (root / ".git").exists():  # installed, perhaps inside somebody else's checkout
        return None
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.SubprocessError):  # no git, or one that hangs
        return None
    return done.stdout.strip() or None


def libraries() -> dict[str, str]:
    """The versions of those libraries that are installed."""
    versions = {}
    for name in LIBRARIES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions
