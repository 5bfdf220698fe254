"""The house: arrows point down, parts that promise to need little do, files stay short."""

import ast
import importlib
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from minprm.arms.ladder import STAGES
from minprm.constants import ARMS

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "minprm"
STORY = (
    "act_prm.py", "minprm/algorithms.py", "minprm/data.py", "minprm/trainer.py",
    "minprm/stages/act_prm.py", "minprm/stages/sft.py", "minprm/stages/rl.py",
    "minprm/envs/cups.py",
)  # fmt: skip
# From the bottom up. A module imports from its own floor or from those before it.
FLOORS = (
    ("printable", "constants", "algorithms"),
    ("zoo", "data", "own", "chosen"),
    ("text", "logs"),
    ("envs",),
    ("model",),
    ("play",),
    ("endpoint",),
    ("run",),
    ("trainer",),
    ("stages",),
    ("several", "load", "look", "report", "arms"),
    ("commands",),
    ("__main__",),
)
FILES = sorted(PACKAGE.rglob("*.py"))


def imported(file: Path) -> set[str]:
    """Full names of the modules that a file imports, in functions too."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def floor(module: str) -> int:
    part = module.split(".")[1]
    return next(i for i, parts in enumerate(FLOORS) if part in parts)


def name_of(file: Path) -> str:
    return ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def modules() -> dict[str, set[str]]:
    """Each module of ours and those of ours that it imports."""
    known = {name_of(file) for file in FILES}
    return {name_of(file): imported(file) & known - {name_of(file)} for file in FILES}


def test_no_module_imports_from_a_floor_above_it():
    for module, below in modules().items():
        for other in below - {"minprm"}:
            if module != "minprm":
                assert floor(other) <= floor(module), f"{module} imports {other}"


def test_there_is_no_circle():
    left = modules()
    while left:
        free = [module for module, below in left.items() if not below & left.keys()]
        assert free, f"a circle among {sorted(left)}"
        for module in free:
            del left[module]


def test_the_maths_imports_nothing_of_ours_and_the_zoo_only_the_maths():
    found = modules()
    assert found["minprm.algorithms"] == found["minprm.data"] == set()
    assert found["minprm.constants"] == {"minprm.printable"}
    assert found["minprm.zoo"] == {"minprm", "minprm.algorithms"}


@pytest.mark.parametrize(("package", "home"), [
    ("vllm", {"minprm/load/vllm.py"}),
    ("modal", {"modal_train.py"}),
    ("torch.distributed", {str(file.relative_to(ROOT)) for file in PACKAGE.glob("several/*.py")}),
])  # fmt: skip
def test_what_only_one_file_may_import(package, home):
    users = set()
    for file in [*FILES, *ROOT.glob("*.py")]:
        if any(name == package or name.startswith(f"{package}.") for name in imported(file)):
            users.add(str(file.relative_to(ROOT)))
    assert users <= home


@pytest.mark.slow
def test_the_maths_the_data_and_the_worlds_need_torch_alone():
    """Whatever else is installed is made to fail at import."""
    code = """
import sys
for name in ("transformers", "loguru", "tyro", "tqdm", "matplotlib", "tensorboard", "tokenizers"):
    sys.modules[name] = None
import minprm, minprm.algorithms, minprm.zoo, minprm.data, minprm.logs.reader
from minprm.constants import Config
from minprm.envs import make_world
world = make_world(Config())
world.reset(0)
assert world.step(world.expert())[1] > 0
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_functions_are_short():
    for file in [*FILES, *ROOT.glob("*.py")]:
        text = file.read_text()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                assert node.end_lineno - node.lineno < 60, f"{file}: {node.name}"


def needs(file: Path) -> set[Path]:
    """Our files that a file imports, in functions too; what only type checkers read is no need."""
    tree = ast.parse(file.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            node.body = []
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"{file}: an import that is not absolute"
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    files = set()
    for name in names:
        path = ROOT.joinpath(*name.split("."))
        files |= {path.with_suffix(".py"), path / "__init__.py"}
    return {path for path in files if path.exists() and PACKAGE in path.parents}


def test_the_story_stands_on_little():
    """What all of its files import, and what these do. A capability beside the story costs its
    reader nothing: whoever adds one adds no line here."""
    files = under_the_story()
    assert len(files) <= 58 and lines_of(files) <= 9500, (len(files), lines_of(files))


def under_the_story() -> set[Path]:
    """The files of the story, with relabel.py, and all that they stand on."""
    seen: set[Path] = set()
    todo = [ROOT / name for name in STORY] + [PACKAGE / "stages/relabel.py"]
    while todo:
        file = todo.pop()
        if file not in seen:
            seen.add(file)
            todo += needs(file)
    return seen


def lines_of(files: Iterable[Path]) -> int:
    return sum(file.read_text().count("\n") for file in files)


def test_readme_says_how_long_the_story_is():
    """To a twentieth: nobody edits README for ten lines."""
    text = " ".join((ROOT / "README.md").read_text().split())
    idea = int(re.search(r"The idea is (\d+) lines", text)[1])
    story = re.search(r"Seven more files, ([\d,]+) lines, .*? They use ([\d,]+) lines", text)
    seven, others = (int(number.replace(",", "")) for number in story.groups())
    eight = [ROOT / name for name in STORY]
    assert idea == lines_of(eight[:1])
    assert seven == pytest.approx(lines_of(eight[1:]), rel=0.05)
    beside = under_the_story() - {*eight, PACKAGE / "stages/relabel.py"}
    assert others == pytest.approx(lines_of(beside), rel=0.05)


def test_each_file_of_the_story_points_at_the_idea():
    assert (ROOT / STORY[0]).read_text().count("\n") <= 290
    for name in STORY[1:]:
        told = ast.get_docstring(ast.parse((ROOT / name).read_text()))
        assert "act_prm.py" in told, name


def test_nobody_reaches_into_anothers_private_parts():
    """Benchmarks and examples use what is public: no p._name, no __dict__, no __new__. How many
    kernels torch has compiled it says in torch._dynamo alone, and what to derive from to see its
    operations lies in torch.utils._python_dispatch."""
    folders = ("benchmarks", "evidence/experiments", "examples", ".")
    for file in [file for folder in folders for file in ROOT.glob(f"{folder}/*.py")]:
        public = r"super\(\)\._\w+|def _\w+|torch\._dynamo|torch\.utils\._python_dispatch"
        text = re.sub(public, "", file.read_text())
        found = re.findall(r"\b(?!self\b)\w+\._[a-z]\w*|__dict__|__new__", text)
        assert not found, f"{file.name}: {found}"


def test_what_other_programs_name_is_there():
    """A name of ours that was changed is seen at once, also where only slow tests ask for it."""
    folders = ("tests", "evidence", "benchmarks", "examples")
    for file in [file for folder in folders for file in ROOT.glob(f"{folder}/**/*.py")]:
        nodes = [*ast.walk(ast.parse(file.read_text()))]
        ours = {
            alias.asname or alias.name: f"{node.module}.{alias.name}"
            for node in nodes
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("minprm")
            for alias in node.names
            if (ROOT / f"{node.module}.{alias.name}".replace(".", "/")).with_suffix(".py").exists()
        }
        for node in nodes:
            match node:
                case ast.Attribute(ast.Name(module), name, ast.Load()):
                    pass
                case ast.Call(
                    ast.Attribute(_, "setattr"), [ast.Name(module), ast.Constant(name), _]
                ):
                    pass
                case _:
                    continue
            if module in ours:
                asked = f"{file.name} asks {ours[module]} for {name}"
                assert hasattr(importlib.import_module(ours[module]), name), asked


def test_no_test_file_imports_another():
    """What several use stands in conftest.py and in shared/, where there is no test."""
    for file in [*ROOT.glob("tests/**/*.py"), *ROOT.glob("evidence/tests/*.py")]:
        for name in imported(file):
            first = name.removeprefix("evidence.").removeprefix("tests.").split(".")[0]
            assert not first.startswith("test_"), f"{file.name} imports {first}"
        if file.parent.name == "shared":
            assert not re.search(r"^ *(def|class) [tT]est", file.read_text(), re.MULTILINE), file


def test_what_needs_an_extra_is_marked_so():
    """The gate runs the tests of this mark once the extras are there."""
    for file in (ROOT / "tests").glob("test_*.py"):
        text = file.read_text(encoding="utf-8")
        extras = {*re.findall(r'pip install "\.\[([\w-]+)\]"', text)} - {"dev", "vllm"}
        assert not extras or "mark.extras" in text or "[vllm]" in text, file.name


@pytest.mark.slow
@pytest.mark.parametrize("door", [["-m", "minprm", "train"], ["train.py"]])
def test_both_doors_lead_to_the_same_command(door):
    done = subprocess.run(
        [sys.executable, *door, "--arms", "nobody"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 2 and "no such arm" in done.stderr and done.stderr.count("\n") == 1


def test_the_package_says_which_commands_there_are():
    run = lambda *words: subprocess.run(  # noqa: E731
        [sys.executable, "-m", "minprm", *words], cwd=ROOT, capture_output=True, text=True
    )
    assert "train" in run().stdout and "evaluate" in run("--help").stdout
    loud = {**os.environ, "LOGURU_LEVEL": "loud"}
    command = [sys.executable, "-m", "minprm", "logs", "x"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=loud)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "use DEBUG" in done.stderr
    wrong = run("trian")
    assert wrong.returncode == 2 and "train, evaluate" in wrong.stderr


def test_every_stage_of_every_arm_is_a_function_in_the_dict():
    assert {stage for stages in ARMS.values() for stage in stages} <= set(STAGES)
    assert all(callable(stage) for stage in STAGES.values())
