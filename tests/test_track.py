"""--track: what is sent, under which names; and that a service that fails costs no run.

A stand-in takes the place of the packages; with the packages themselves the last tests run too.
"""

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from minprm.commands import checks, train
from minprm.commands.cli import parse
from minprm.constants import Config
from minprm.look.log import Log
from minprm.look.track import FILE, SERVICES

ROOT = Path(__file__).parents[1]
FLAGS = (
    "--preset smoke --no-gate --tiny.updates 5 --tiny.dim 32 --act-prm.updates 2 "
    "--act-prm.batch 2 --act-prm.group 4 --num-demos 8 --held-out 2 --episodes 5 --threads 1 "
    "--stages act_prm"
).split()
# Both packages' functions as far as they are used. What is sent lies in CALLS.
STAND_IN = """
import os
CALLS = []

class Run:
    def define_metric(self, name, step_metric):
        CALLS.append(("axis", name, step_metric))

    def log(self, values, step=None):
        CALLS.append(("log", values, step))
        if "BROKEN" in os.environ:
            raise ConnectionError("no \\x1b network")

def init(**named):
    print("a service greets")
    if "CLOSED" in os.environ:
        raise PermissionError("no key.")
    CALLS.append(("init", named))
    return Run()

def Settings(**named):
    return named

def Table(columns, data):
    return [columns, *data]

def Markdown(text):
    return text

def finish():
    print("a service says goodbye")
    CALLS.append(("finish",))
"""


@pytest.fixture(params=SERVICES)
def service(request, tmp_path, monkeypatch) -> str:
    """The name of a service, whose package is a stand-in."""
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / f"{request.param}.py").write_text(STAND_IN)
    monkeypatch.syspath_prepend(tmp_path / "packages")
    monkeypatch.delitem(sys.modules, request.param, raising=False)
    monkeypatch.chdir(tmp_path)
    yield request.param
    sys.modules.pop(request.param, None)  # the stand-in


def calls(service: str, kind: str) -> list[tuple]:
    return [call[1:] for call in sys.modules[service].CALLS if call[0] == kind]


def metrics(run: str) -> list[dict]:
    lines = Path("runs", run, "metrics.jsonl").read_text().splitlines()
    found = [json.loads(line) for line in lines]
    clocked = ("time/", "speed/")
    return [{k: v for k, v in x.items() if not k.startswith(clocked)} for x in found]


@pytest.mark.slow
def test_a_run_is_one_tracked_run_with_a_step_for_each_stage(service, capsys):
    train.main(["--run", "plain", *FLAGS])
    printed = capsys.readouterr().out
    train.main(["--run", "r", *FLAGS, "--track", service])
    assert metrics("r") == metrics("plain")  # tracking changes no number
    assert capsys.readouterr().out.count("\n") == printed.count("\n")  # stdout is for the ladder
    ((begun,),) = calls(service, "init")
    assert begun["config"]["act_prm"]["updates"] == 2 and begun["resume"] == "allow"
    sent = calls(service, "log")
    place = "stages-0/1-act_prm"
    rewards = [
        (values[f"{place}/reward/mean"], step if step is not None else values[f"{place}/update"])
        for values, step in sent if f"{place}/reward/mean" in values
    ]  # fmt: skip
    lines = [line for line in metrics("r") if line["stage"] == "act_prm"]
    assert rewards == [(line["reward/mean"], line["update"]) for line in lines]
    rows = json.loads(Path("runs/r/ladder.json").read_text())
    found = {}
    for values, _ in sent:
        found |= {key: value for key, value in values.items() if key.startswith("ladder/")}
    for arm in ("stages", "random", "expert"):
        assert found[f"ladder/{arm}-0/success"] == rows[arm][0]["success"]
    samples = [values[f"{place}/samples"] for values, _ in sent if f"{place}/samples" in values]
    first = json.loads(Path("runs/r/samples.jsonl").read_text().splitlines()[0])["group"][0]
    assert f"{first['reward']:.3f}".rstrip("0") in str(samples[0]).replace("&#46;", ".")
    if service == "wandb":  # its own step is one for the whole run, and only grows
        assert (f"{place}/*", f"{place}/update") in calls(service, "axis")
    assert calls(service, "finish") == [()]


def test_a_run_that_goes_on_is_the_same_tracked_run_and_a_new_one_is_not(service):
    def begin(run: str) -> str:
        with closing(Log(Path("runs", run))) as log:
            log.open(Config(resume=True))
            log.track(Config(track=service))
            log.track(Config(track=service))  # once a run, not once a seed
        (begun,) = calls(service, "init")[-1]
        return begun.get("id", begun["name"])

    names = [begin("one"), begin("one"), begin("two")]
    assert names[0] == names[1] != names[2] and names[0].startswith("one-")
    assert len(calls(service, "init")) == 3
    Path("runs/one", FILE).unlink()
    assert begin("one") != names[0]  # another run of the name


@pytest.mark.slow
def test_a_service_that_fails_is_said_once_and_costs_nothing(service, capsys, monkeypatch):
    monkeypatch.setenv("BROKEN", "1")
    train.main(["--run", "r", *FLAGS, "--track", service])
    told = capsys.readouterr().err
    assert told.count("TRACKING HAS STOPPED: ConnectionError: no \\x1b network") == 1
    assert len(calls(service, "log")) == 1 and len(metrics("r")) == 2
    assert (Path("runs/r/log.txt").read_text()).count("TRACKING HAS STOPPED") == 1


@pytest.mark.slow
def test_a_new_run_that_cannot_be_tracked_is_not_trained_and_an_old_one_is(
    service, capsys, monkeypatch
):
    monkeypatch.setenv("CLOSED", "1")
    with pytest.raises(SystemExit) as stop:
        train.main(["--run", "r", *FLAGS, "--track", service])
    error = capsys.readouterr().err.splitlines()[-1]
    assert stop.value.code == 2 and f"--track {service}: no key: " in error
    assert error.endswith("go on with: minprm train --run r --resume")
    assert not Path("runs/r/metrics.jsonl").exists() and not Path("runs/r", FILE).exists()
    monkeypatch.delenv("CLOSED")
    train.main(["--run", "r", "--resume"])
    assert len(metrics("r")) == 2 and (Path("runs/r") / FILE).exists()
    Path("runs/r/ladder.json").unlink()
    monkeypatch.setenv("CLOSED", "1")
    train.main(["--run", "r", "--resume"])
    assert "TRACKING HAS STOPPED: PermissionError" in capsys.readouterr().err


@pytest.mark.parametrize("name", SERVICES)
def test_a_missing_package_is_said_before_anything_begins(name, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(checks, "find_spec", lambda package: None)
    with pytest.raises(SystemExit):
        parse(["--track", name])
    assert capsys.readouterr().err.strip() == (
        f'--track {name}: it is not installed; pip install "minprm[{name}]"'
    )
    assert not list(tmp_path.iterdir())
    extras = (ROOT / "pyproject.toml").read_text()
    assert f'\n{name} = ["{name}' in extras


# --- the packages themselves ---

TWICE = """
import sys
from contextlib import closing
from pathlib import Path
from minprm.constants import Config
from minprm.look.log import Log
group = [{"thought": "a | b", "reward": .5, "advantage": 1.0}]
for first in (0, 2):
    with closing(Log(Path("runs/r"))) as log:
        log.open(Config(resume=True))
        log.track(Config(track=sys.argv[1]))
        log.rewind(0, "rl", first)
        log.samples(0, "rl", first, [{"state": "s", "action": "a", "group": group}])
        for update in (first, first + 1):
            log.update(0, "rl", update, {"reward/mean": .25 * update})
        log.row({"seed": 0, "success": .75}, "rl")
"""


def twice(package: str, folder: Path) -> None:
    """A log that is opened, closed and opened again, without a network."""
    pytest.importorskip(package, reason=f'needs the extra: pip install "minprm[{package}]"')
    env = os.environ | {
        "PYTHONPATH": str(ROOT),
        "TRACKIO_DIR": str(folder),
        "WANDB_MODE": "offline",
    }
    done = subprocess.run(
        [sys.executable, "-c", TWICE, package], cwd=folder, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0 and "TRACKING HAS STOPPED" not in done.stderr, done.stderr
    assert done.stdout == ""


@pytest.mark.slow
def test_wandb_keeps_both_halves_offline_under_one_name(tmp_path):
    twice("wandb", tmp_path)
    name = (tmp_path / "runs/r" / FILE).read_text()
    halves = list(tmp_path.glob("runs/r/wandb/offline-run-*/*.wandb"))
    assert {half.name for half in halves} == {f"run-{name}.wandb"}
    sent = b"".join(half.read_bytes() for half in halves)
    assert b"stages-0/1-rl/reward/mean" in sent and b"ladder/rl-0/success" in sent


@pytest.mark.slow
def test_trackio_keeps_both_halves_as_one_run(tmp_path):
    twice("trackio", tmp_path)
    with closing(sqlite3.connect(tmp_path / "minprm.db")) as base:
        found = base.execute("select run_name, step, metrics from metrics order by id").fetchall()
    assert {name for name, _, _ in found} == {(tmp_path / "runs/r" / FILE).read_text()}
    rewards = {}
    for _, step, values in found:
        reward = json.loads(values).get("stages-0/1-rl/reward/mean")
        if reward is not None:
            rewards[step] = reward
    assert rewards == {0: 0.0, 1: 0.25, 2: 0.5, 3: 0.75}
