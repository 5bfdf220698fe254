"""What a forge reads: workflows, citation, image. They agree with the package."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

import minprm

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
HOME = PROJECT["urls"]["Homepage"]


def commands(workflow: Path) -> str:
    """All that a workflow types."""
    jobs = yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"]
    steps = [step for job in jobs.values() for step in job["steps"]]
    return "\n".join(step.get("run", "") for step in steps)


def test_the_citation_is_of_this_version_and_this_home():
    found = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert found["version"] == minprm.__version__
    assert found["url"] == found["repository-code"] == HOME


def test_the_image_holds_the_engine_of_the_extra():
    (engine,) = PROJECT["optional-dependencies"]["vllm"]
    image = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert f"vllm-openai:v{engine.removeprefix('vllm==')}" in image


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_install_extras_and_run_files_that_exist(workflow):
    typed = commands(workflow)
    for extras in re.findall(r"\.\[([\w,]+)\]", typed):
        assert set(extras.split(",")) <= PROJECT["optional-dependencies"].keys()
    for file in re.findall(r"\.ci/[\w.]+|\b\w+\.py\b", typed):
        assert (ROOT / file).is_file(), file


def test_the_tests_run_on_every_python_that_is_promised():
    jobs = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))["jobs"]
    promised = [each.split()[-1] for each in PROJECT["classifiers"] if re.search(r":: 3\.\d", each)]
    assert jobs["tests"]["strategy"]["matrix"]["python"] == promised
