"""CONTRIBUTING's diffs apply to the project as it is, and the commands below them pass."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
STEP = re.compile(r"^### (.*?)$.*?```diff\n(.*?)```.*?```bash\n(.*?)```", re.MULTILINE | re.DOTALL)
STEPS = {title: (diff, command) for title, diff, command in STEP.findall(PAGE)}
TOUCHED = (
    "minprm", "tests", "docs", "evidence", "notebooks", "examples", "pyproject.toml",
    "conftest.py", "zensical.toml",
)  # fmt: skip


@pytest.fixture(scope="module")
def changed(tmp_path_factory):
    """A copy of what the diffs and their commands touch, to which all of them are applied."""
    folder = tmp_path_factory.mktemp("changed")
    for name in TOUCHED:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, folder / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, folder)
    for diff, _ in STEPS.values():
        subprocess.run(["git", "apply"], input=diff, text=True, cwd=folder, check=True)
    return folder


def test_every_kind_of_change_is_there():
    kinds = ("reward", "advantage", "world", "stage", "page")
    for kind, title in zip(kinds, STEPS, strict=True):
        assert f"a {kind}" in title or f"an {kind}" in title


@pytest.mark.slow
@pytest.mark.parametrize("title", STEPS)
def test_a_change_applies_and_its_command_passes(changed, title):
    diff, command = STEPS[title]
    alone = ["git", "apply", "--check"]
    subprocess.run(alone, input=diff, text=True, cwd=ROOT, check=True)
    words = command.strip().replace("python", sys.executable, 1)
    done = subprocess.run(
        words, shell=True, cwd=changed, env=os.environ | {"PYTHONPATH": str(changed)},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no tests ran" not in done.stdout


@pytest.mark.slow
def test_what_the_changes_leave_passes_the_gates_of_style_and_types(changed):
    diffs = "".join(diff for diff, _ in STEPS.values())
    files = re.findall(r"^\+\+\+ b/(\S+\.py)$", diffs, re.MULTILINE)
    typed = [file for file in files if not file.startswith("tests/")]  # as in pyproject.toml
    assert typed and len(typed) < len(files)
    for gate in ("ruff check", "ruff format --check", "pyright"):
        done = subprocess.run(
            [sys.executable, "-m", *gate.split(), *(typed if gate == "pyright" else files)],
            cwd=changed, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
