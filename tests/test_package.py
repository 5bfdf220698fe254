"""What is published: the wheel trains by itself, the sdist is whole, README reads well on PyPI."""

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from email.parser import Parser
from functools import partial
from pathlib import Path
from zipfile import ZipFile

import pytest
import torch
from readme_renderer import markdown

import minprm
from minprm.constants import refusal

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
HOME = PYPROJECT["project"]["urls"]["Homepage"]
NAMES = set(minprm.__all__) - {"__version__"}


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """A folder with the sdist, unpacked in `source/`, and the wheel that was built from there."""
    folder = tmp_path_factory.mktemp("built")
    build(ROOT, "sdist", folder)
    (sdist,) = folder.glob("*.tar.gz")
    shutil.unpack_archive(sdist, folder)
    (folder / sdist.name.removesuffix(".tar.gz")).rename(folder / "source")
    build(folder / "source", "wheel", folder)
    return folder


def build(source: Path, target: str, folder: Path) -> None:
    """Builds without the network: hatchling and its plug-in are those that are installed."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)]
    subprocess.run(command, cwd=source, check=True, capture_output=True)


@pytest.fixture(scope="module")
def wheel(built) -> ZipFile:
    (file,) = built.glob("*.whl")
    return ZipFile(file)


@pytest.fixture(scope="module")
def metadata(wheel) -> tuple[dict, str]:
    """(what PyPI reads of the wheel, README as it shows it)."""
    (name,) = (name for name in wheel.namelist() if name.endswith("METADATA"))
    told = Parser().parsestr(wheel.read(name).decode())
    return dict(told), told.get_payload()


# --- the two archives -----------------------------------------------------------------------------


@pytest.mark.slow
def test_the_sdist_holds_every_file_that_git_tracks(built):
    if not (ROOT / ".git").exists():
        pytest.skip("needs the git checkout")
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    told = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    tracked = {name for name in told.split("\0") if name and (ROOT / name).exists()}
    packed = set()
    for file in (built / "source").rglob("*"):
        if file.is_file():
            packed.add(file.relative_to(built / "source").as_posix())
    assert packed == tracked | {"PKG-INFO"}


def test_the_wheel_holds_the_package_with_its_data_and_nothing_else(wheel):
    packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
    known = set()
    for file in (ROOT / "minprm").rglob("*"):
        if file.is_file() and "__pycache__" not in file.parts:
            known.add(file.relative_to(ROOT).as_posix())
    assert packed == known
    assert {"minprm/py.typed", "minprm/__init__.pyi"} <= packed
    assert {"minprm/report/page/page.html", "minprm/load/bases/cups-0.safetensors"} <= packed


def test_pypi_shows_readme_with_links_and_pictures_that_lead_to_this_version(metadata):
    told, readme = metadata
    page = markdown.render(readme, stream=sys.stderr)
    assert page and told["Description-Content-Type"] == "text/markdown"
    source = (ROOT / "README.md").read_text(encoding="utf-8")
    assert page.count("<img") == markdown.render(source).count("<img") > 0
    links = re.findall(r'(?:href|src|srcset)="([^"]+)"', page)
    assert [link for link in links if not re.match(r"https?://|mailto:|#", link)] == []
    raw = HOME.replace("github.com", "raw.githubusercontent.com")
    version = f"v{minprm.__version__}"
    found = []
    for link in links:
        where = re.match(rf"(?:{HOME}/blob|{raw})/{version}/([^#]+)", link)
        found += [where[1]] if where else []
    assert found and all((ROOT / name).exists() for name in found), found


def test_the_version_is_said_in_one_place(metadata):
    told, _ = metadata
    assert told["Version"] == minprm.__version__
    shown = subprocess.run(
        [sys.executable, "-m", "minprm", "--version"], cwd=ROOT, capture_output=True, text=True
    )
    assert shown.stdout == f"minprm {minprm.__version__}\n"


def test_whoever_names_the_home_names_pyprojects(built):
    """In every file that is published, for Colab and for raw pictures too."""
    owner = HOME.removeprefix("https://github.com/")
    assert re.fullmatch(r"[\w-]+/minprm", owner)
    hosts = r"(?:github\.com|githubusercontent\.com|google\.com/github)/([\w.-]+/minprm)\b"
    named = []
    for file in (built / "source").rglob("*"):
        if file.is_file() and file.name != "PKG-INFO":
            text = file.read_bytes().decode(errors="replace")
            named += [(name, file.name) for name in re.findall(hosts, text)]
    assert "pyproject.toml" in {file for _, file in named}
    assert [pair for pair in named if pair[0] != owner] == []


def test_the_oldest_libraries_are_the_least_that_are_asked_for():
    pins = (ROOT / ".ci/oldest.txt").read_text(encoding="utf-8").split("\n")
    oldest = dict(line.split("==") for line in pins if "==" in line)
    least = {}
    for asked in PYPROJECT["project"]["dependencies"]:
        name, number = re.match(r"([\w-]+)>=([\d.]+)", asked).groups()
        least[name] = number
    assert least.keys() == oldest.keys()
    for name, number in least.items():
        assert oldest[name] in (number, f"{number}.0"), name


# --- from Python ----------------------------------------------------------------------------------


def test_the_names_of_the_package_are_there_and_type_checkers_know_them():
    for name in NAMES:
        found = getattr(minprm, name)
        assert found.__name__ == name and name in dir(minprm)
    stub = ast.parse((ROOT / "minprm/__init__.pyi").read_text(encoding="utf-8"))
    told = {}
    for node in stub.body:
        if isinstance(node, ast.ImportFrom):
            told |= {alias.asname: node.module for alias in node.names}
    homes = {name: f"minprm.{home}" for home, names in minprm.HOMES.items() for name in names}
    assert told == homes
    with pytest.raises(AttributeError, match="no attribute 'nobody'"):
        _ = minprm.nobody


def test_importing_the_package_waits_for_no_library():
    code = "import sys, minprm; print(*{name.split('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert "minprm" in done.stdout and not {"torch", "transformers"} & {*done.stdout.split()}


def test_a_model_without_minprm_json_is_loaded_and_a_device_that_is_not_here_is_refused(
    parts, tmp_path, monkeypatch
):
    policy, _, _ = parts
    policy.save(tmp_path)
    agent, cfg = minprm.load_agent(str(tmp_path), world="", thought_tokens=5)
    assert agent.thought_tokens == 5 and cfg.model == str(tmp_path)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    said = refusal(partial(minprm.load_agent, device="mps"), str(tmp_path))
    assert said.startswith("--device mps: this machine")


@pytest.mark.slow
def test_the_page_on_the_package_from_python_runs_and_uses_every_name(tmp_path, monkeypatch):
    """Each block of docs/api.md in an empty folder, one after the other. The arm is a short one."""
    page = (ROOT / "docs/api.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    assert all(len(block.replace("\n\n", "\n").splitlines()) <= 20 for block in blocks)
    arms = "--preset smoke --arms base act_prm"
    assert arms in blocks[-1]
    few = "--act-prm.updates 1 --act-prm.batch 4 --episodes 4 --num-demos 16 --held-out 2"
    blocks[-1] = blocks[-1].replace(arms, f"{arms} {few}")
    monkeypatch.chdir(tmp_path)
    known: dict = {"__name__": "page"}
    for block in blocks:
        exec(compile(block, "docs/api.md", "exec"), known)
    assert known["after"] > known["before"], "an update must raise the rewards"
    assert {name for name in NAMES if f"`{name}`" not in page} == set()


# --- the wheel at work ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def program(built, tmp_path_factory) -> Path:
    """The command of the wheel, installed alone. The libraries are those that are here: they are
    put on the path behind it, and a checkout of minprm among them is not."""
    folder = tmp_path_factory.mktemp("clean")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin/python"
    (file,) = built.glob("*.whl")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps"]
    subprocess.run([*pip, "--no-index", file], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    libraries = [path for path in sys.path if path.endswith("site-packages")]
    (site / "libraries.pth").write_text("\n".join(libraries))
    return folder / "bin/minprm"


@pytest.mark.slow
def test_the_wheel_does_all_that_the_package_promises_in_an_empty_folder(program, tmp_path):
    clean = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "1"}

    def said(command: str) -> str:
        done = subprocess.run(
            [program, *command.split()], cwd=here, env=clean, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout

    here = tmp_path / "here"
    here.mkdir()
    small = "--preset smoke --no-gate --tiny.updates 20 --act-prm.updates 2 --num-demos 8 "
    small += "--held-out 2 --episodes 5 --arms base act_prm --threads 1 --jobs 1 --eval-tasks 2"
    said(f"train {small} --run r")
    assert {path.name for path in here.iterdir()} == {"runs", "checkpoints"}
    start = (here / "runs/r/starts.jsonl").read_text(encoding="utf-8")
    assert '"commit": null' in start and f'"minprm": "{minprm.__version__}"' in start
    assert "expert" in said("evaluate checkpoints/r/act_prm-0 --episodes 5")
    assert "cups" in said("evaluate --worlds")
    (here / "runs/r/report.html").unlink()
    assert said("report r").strip() == "runs/r/report.html"
    (demos,) = (here / "runs/r").glob("relabelled-*.jsonl")
    number = len(demos.read_text(encoding="utf-8").splitlines())
    assert f"{number} of {number} tasks" in said(f"logs {demos}")
    line = said("export checkpoints/r/act_prm-0 out").splitlines()[0]
    served = said("serve out --engine vllm-server --dry-run")
    assert served.splitlines()[0] == line.strip()
    assert said("serve out --dry-run").strip() == "out would answer at http://127.0.0.1:8000/v1"
