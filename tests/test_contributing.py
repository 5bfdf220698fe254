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


@pytest.fixture
def copy(tmp_path):
    """A copy of what the diffs and their commands touch."""
    for name in TOUCHED:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, tmp_path / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def test_every_kind_of_change_is_there():
    kinds = ("reward", "advantage", "world", "stage", "page")
    for kind, title in zip(kinds, STEPS, strict=True):
        assert f"a {kind}" in title or f"an {kind}" in title


@pytest.mark.slow
@pytest.mark.parametrize("title", STEPS)
def test_a_change_applies_and_its_command_passes(copy, title):
    diff, command = STEPS[title]
    subprocess.run(["git", "apply"], input=diff, text=True, cwd=copy, check=True)
    words = command.strip().replace("python", sys.executable, 1)
    done = subprocess.run(
        words, shell=True, cwd=copy, env=os.environ | {"PYTHONPATH": str(copy)},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no tests ran" not in done.stdout
    changed = re.findall(r"^\+\+\+ b/(\S+\.py)$", diff, re.MULTILINE)
    typed = [file for file in changed if not file.startswith("tests/")]  # as in pyproject.toml
    for gate in ("ruff check", "ruff format --check", "pyright"):
        files = typed if gate == "pyright" else changed
        found = subprocess.run(
            [sys.executable, "-m", *gate.split(), *files], cwd=copy, capture_output=True, text=True
        )
        assert not files or found.returncode == 0, found.stdout + found.stderr
