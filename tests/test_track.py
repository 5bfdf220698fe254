"""--track: which files are read, under which name; and what cannot be tracked is said at once."""

import json
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from minprm.commands import checks, train
from minprm.commands.cli import parse
from minprm.constants import Config
from minprm.look.dashboards import FILE
from minprm.look.log import Log

ROOT = Path(__file__).parents[1]
FLAGS = (
    "--preset smoke --no-gate --tiny.updates 5 --tiny.dim 32 --act-prm.updates 2 "
    "--act-prm.batch 2 --act-prm.group 4 --num-demos 8 --held-out 2 --episodes 5 --threads 1 "
    "--stages act_prm"
).split()
# The package's functions as far as they are used. What is asked of it lies in CALLS.
STAND_IN = """
import os
from types import SimpleNamespace
CALLS = []
tensorboard = SimpleNamespace(
    patch=lambda **named: CALLS.append(("patch", named)),
    unpatch=lambda: CALLS.append(("unpatch",)),
)

def init(**named):
    print("a service greets")
    if "CLOSED" in os.environ:
        raise PermissionError("no key.")
    CALLS.append(("init", named))

def Settings(**named):
    return named

def finish():
    print("a service says goodbye")
    CALLS.append(("finish",))
"""


@pytest.fixture
def wandb(tmp_path, monkeypatch) -> None:
    """A stand-in takes the place of the package."""
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages/wandb.py").write_text(STAND_IN)
    monkeypatch.syspath_prepend(tmp_path / "packages")
    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    monkeypatch.chdir(tmp_path)
    yield
    sys.modules.pop("wandb", None)  # the stand-in


def calls(kind: str) -> list[tuple]:
    return [call[1:] for call in sys.modules["wandb"].CALLS if call[0] == kind]


def metrics(run: str) -> list[dict]:
    lines = Path("runs", run, "metrics.jsonl").read_text().splitlines()
    found = [json.loads(line) for line in lines]
    clocked = ("time/", "speed/")
    return [{k: v for k, v in x.items() if not k.startswith(clocked)} for x in found]


@pytest.mark.slow
def test_a_run_is_one_tracked_run_that_reads_tensorboards_files(wandb, capsys):
    train.main(["--run", "plain", *FLAGS])
    printed = capsys.readouterr().out
    train.main(["--run", "r", *FLAGS, "--track", "wandb"])
    assert metrics("r") == metrics("plain")  # tracking changes no number
    assert capsys.readouterr().out.count("\n") == printed.count("\n")  # stdout is for the ladder
    ((begun,),) = calls("init")
    assert begun["config"]["act_prm"]["updates"] == 2 and begun["resume"] == "allow"
    order = [call[0] for call in sys.modules["wandb"].CALLS]
    assert order == ["patch", "init", "unpatch", "finish"]
    assert calls("patch") == [({"root_logdir": "runs/r/tensorboard", "pytorch": True},)]


def test_a_run_that_goes_on_is_the_same_tracked_run_and_a_new_one_is_not(wandb):
    def begin(run: str) -> str:
        with closing(Log(Path("runs", run))) as log:
            log.open(Config(resume=True))
            log.track(Config(track="wandb"))
            log.track(Config(track="wandb"))  # once a run, not once a seed
        (begun,) = calls("init")[-1]
        return begun["id"]

    names = [begin("one"), begin("one"), begin("two")]
    assert names[0] == names[1] != names[2] and names[0].startswith("one-")
    assert len(calls("init")) == 3
    Path("runs/one", FILE).unlink()
    assert begin("one") != names[0]  # another run of the name


@pytest.mark.slow
def test_a_new_run_that_cannot_be_tracked_is_not_trained_and_an_old_one_is(
    wandb, capsys, monkeypatch
):
    monkeypatch.setenv("CLOSED", "1")
    with pytest.raises(SystemExit) as stop:
        train.main(["--run", "r", *FLAGS, "--track", "wandb"])
    error = capsys.readouterr().err.splitlines()[-1]
    assert stop.value.code == 2 and "--track wandb: no key: " in error
    assert error.endswith("go on with: minprm train --run r --resume")
    assert not Path("runs/r/metrics.jsonl").exists() and not Path("runs/r", FILE).exists()
    monkeypatch.delenv("CLOSED")
    train.main(["--run", "r", "--resume"])
    assert len(metrics("r")) == 2 and (Path("runs/r") / FILE).exists()
    Path("runs/r/ladder.json").unlink()
    monkeypatch.setenv("CLOSED", "1")
    train.main(["--run", "r", "--resume"])
    assert "--track wandb: no key. The run goes on without it" in capsys.readouterr().err


def test_a_missing_package_is_said_before_anything_begins(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(checks, "find_spec", lambda package: None)
    with pytest.raises(SystemExit):
        parse(["--track", "wandb"])
    said = "--track wandb: it is not installed; pip install wandb"
    assert capsys.readouterr().err.strip() == said
    assert not list(tmp_path.iterdir())


# --- the package itself ---

TWICE = """
from contextlib import closing
from pathlib import Path
from minprm.constants import Config
from minprm.look.log import Log
group = [{"thought": "a | b", "reward": .5, "advantage": 1.0}]
for first in (0, 2):
    with closing(Log(Path("runs/r"))) as log:
        log.open(Config(resume=True))
        log.track(Config(track="wandb"))
        log.rewind(0, "rl", first)
        log.samples(0, "rl", first, [{"state": "s", "action": "a", "group": group}])
        for update in (first, first + 1):
            log.metrics(0, "rl", update, {"reward/mean": .25 * update})
        log.row({"seed": 0, "success": .75}, "rl")
"""


@pytest.mark.slow
def test_wandb_keeps_both_halves_offline_under_one_name(tmp_path):
    """A log that is opened, closed and opened again, without a network."""
    pytest.importorskip("wandb", reason="needs wandb: pip install wandb")
    env = os.environ | {"PYTHONPATH": str(ROOT), "WANDB_MODE": "offline"}
    done = subprocess.run(
        [sys.executable, "-c", TWICE], cwd=tmp_path, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0 and "goes on without it" not in done.stderr, done.stderr
    assert done.stdout == ""
    name = (tmp_path / "runs/r" / FILE).read_text()
    halves = list(tmp_path.glob("runs/r/wandb/offline-run-*/*.wandb"))
    assert {half.name for half in halves} == {f"run-{name}.wandb"}
    sent = b"".join(half.read_bytes() for half in halves)
    assert b"stages-0/1-rl/reward/mean" in sent and b"rl-0/ladder/success" in sent
