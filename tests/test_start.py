"""What a command does before it computes: it waits for no library that it does not need, and lets
threads that wait sleep."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from benchmarks import busy
from minprm import __main__
from minprm.arms import ladder
from minprm.commands import train
from minprm.commands.cli import parse
from minprm.load import threads
from minprm.load.names import SMALL, require_model
from minprm.load.threads import set_threads
from shared.commands import refusal

ROOT = Path(__file__).parents[1]
AT_ONCE = [
    "", "--help", "--version", "nothing",
    "train --help", "train --help-all", "train --nothing 1", "train --rl.lam 0.9",
    "train --rl.lr nan", "train --arms nobody", "train --stages nothing",
    "train --act-prm.reward nice", "train --config nowhere.toml", "train --resume --run nowhere",
    "train --run old", "train --world nowhere", "train --world-args rooms=1",
    "train --sampler vllm --device cpu --engine.memory 2", "train --demos nowhere.jsonl",
    "train --model no/such/folder", "train --model empty", "train --dry-run --run old",
    "train --dry-run --stages demos --run expert",
    "evaluate --help", "evaluate --worlds", "evaluate", "evaluate empty", "evaluate no/such/folder",
    "evaluate empty --split test --demos nowhere.jsonl", "evaluate empty --seed nan",
    "logs --help", "logs nowhere.jsonl", "logs logs.jsonl", "logs logs.jsonl --layout tags",
    "report", "report --help", "report nowhere", "report nowhere --worst 1",
    "export --help", "export empty out", "serve --help", "serve empty --dry-run",
]  # fmt: skip
RUN = """
import contextlib, io, shlex, sys
from minprm.__main__ import main
for command in sys.argv[1:]:
    told = io.StringIO()
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(told):
        with contextlib.redirect_stderr(told):
            main(shlex.split(command))
    heavy = {"torch", "transformers"} & {*sys.modules}
    assert not heavy, f"minprm {command} imports {heavy}"
    assert told.getvalue().strip() and "Traceback" not in told.getvalue(), command
"""
PLAN = """
import sys
from minprm.commands.cli import parse
from minprm.commands.train import plan
parts = plan(parse(["--dry-run"]), None)
while "found out by one batch" not in (part := next(parts)):
    print(part)
assert not {"torch", "transformers"} & {*sys.modules}
"""


def child(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess:
    """Python in a process of its own, with these variables of the environment."""
    kept = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    env = {**kept, "PYTHONPATH": str(ROOT), **variables}
    return subprocess.run(
        [sys.executable, *words], cwd=folder, env=env, capture_output=True, text=True
    )


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """A folder with a run, a log, and a folder without anything in it."""
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    Path("runs/old").mkdir(parents=True)
    Path("runs/old/config.json").write_text("{}")
    turns = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "bye"}]
    Path("logs.jsonl").write_text(json.dumps({"messages": turns}) + "\n")
    return tmp_path


@pytest.mark.slow
def test_what_asks_for_no_model_waits_for_no_torch(here):
    done = child(here, "-c", RUN, *AT_ONCE)
    assert done.returncode == 0, done.stderr


def test_ctrl_c_while_a_command_begins_ends_it_without_a_traceback(monkeypatch):
    def pressed(argv):
        raise KeyboardInterrupt

    monkeypatch.setattr(train, "main", pressed)
    with pytest.raises(SystemExit) as stop:
        __main__.main(["train"])
    assert stop.value.code == 130


def test_a_plan_tells_stages_and_updates_before_it_waits_for_torch(tmp_path):
    done = child(tmp_path, "-c", PLAN)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["act_prm", "80"] in lines and ["sft:actions", "80"] in lines  # no times yet


def test_a_folder_that_holds_no_model_is_named(here):
    done = child(here, "-m", "minprm", "evaluate", "empty")
    assert done.stderr == (
        "empty is no model that transformers loads: the folder holds no config.json\n"
    )


def test_a_folder_of_several_models_names_them(tmp_path, capsys):
    for arm, file in (("base-0", "config.json"), ("act_prm-0", "adapter_config.json")):
        (tmp_path / arm).mkdir()
        (tmp_path / arm / file).touch()
    error = refusal(require_model, str(tmp_path), capsys)
    names = f"{tmp_path / 'act_prm-0'}, {tmp_path / 'base-0'}"
    assert error == f"{tmp_path} is a folder of models: name one of them, as {names}\n"


# --- threads --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere torch has another OpenMP")
@pytest.mark.parametrize(("chosen", "spins"), [({}, "0"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "3")])
def test_threads_that_wait_sleep_unless_a_person_says_otherwise(tmp_path, chosen, spins):
    """OpenMP prints what it has read. --device mps asks torch, and is refused on Linux."""
    door = child(
        tmp_path, "-m", "minprm", "train", "--device", "mps", OMP_DISPLAY_ENV="verbose", **chosen
    )
    assert f"OMP_WAIT_POLICY = '{chosen.get('OMP_WAIT_POLICY', 'PASSIVE')}'" in door.stderr
    assert f"GOMP_SPINCOUNT = '{spins}" in door.stderr


def test_a_small_model_computes_on_one_thread_and_a_large_one_as_torch_chooses(
    tmp_path, monkeypatch
):
    asked = []
    monkeypatch.setattr(torch, "set_num_threads", asked.append)
    monkeypatch.setattr(torch, "set_flush_denormal", lambda yes: None)
    monkeypatch.setattr(threads, "TORCHS", 5)
    for name, size in (("small", SMALL - 1), ("large", SMALL)):
        (tmp_path / name).mkdir()
        with open(tmp_path / name / "model.safetensors", "wb") as file:
            file.truncate(size)
    small, large = str(tmp_path / "small"), str(tmp_path / "large")
    found = [set_threads(model) for model in ("tiny", small, large, "Qwen/Qwen3-0.6B")]
    assert found == asked == [1, 1, 5, 5]
    assert [set_threads(model, 3) for model in ("tiny", large)] == [3, 3]


@pytest.fixture
def untrained(tmp_path, monkeypatch) -> None:
    """Runs end when they have been opened."""

    def opened(cfg, log, *_):
        log.open(cfg)
        return {}

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch, "set_num_threads", lambda number: None)
    monkeypatch.setattr(torch, "set_flush_denormal", lambda yes: None)
    monkeypatch.setattr(ladder, "ladder", opened)
    monkeypatch.setattr(train, "show_ladder", lambda *_: None)


@pytest.mark.parametrize(("flags", "number", "why"), [
    ([], 1, "CPU threads: 1, so that numbers do not depend on how many cores there are"),
    (["--threads", "3"], 3, "CPU threads: 3, which sleep while they wait"),
])  # fmt: skip
def test_a_run_says_once_how_many_threads_compute_and_keeps_the_number(
    untrained, monkeypatch, flags, number, why
):
    monkeypatch.setattr(threads, "TORCHS", 5)
    train.main(["--run", "r", *flags])
    assert json.loads(Path("runs/r/config.json").read_text())["threads"] == number
    told = Path("runs/r/log.txt").read_text()
    assert told.count("CPU threads") == told.count(f" {why}\n") == 1


def test_the_patience_of_a_preset_goes_off_where_nothing_is_looked_at(untrained):
    """One that is typed is refused: test_cli.py."""
    preset = "--preset logs --model tiny --world cups --run"
    for run, flags, patience in (("r", "--eval-every 0", 0), ("s", "", 4)):
        train.main(f"{preset} {run} {flags}".split())
        config = json.loads(Path(f"runs/{run}/config.json").read_text())
        told = Path(f"runs/{run}/log.txt").read_text()
        off = "--act-prm.patience goes by the reward on --held-out demos"
        assert config["act_prm"]["patience"] == patience
        assert told.count(off) == told.count("that of --preset logs is off") == (not patience)


def test_the_threads_of_a_large_model_are_told_as_they_are(monkeypatch):
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    assert threads.why("some/model", 1) == "CPU threads: 1"
    assert threads.why("some/model", 8) == "CPU threads: 8"  # which spin, as a person wants it


@pytest.mark.slow
def test_the_benchmark_of_a_busy_machine_times_every_number_of_threads(tmp_path, monkeypatch):
    for flags, _ in busy.SETTINGS.values():
        parse(f"{busy.RUN} {flags}".split())
    monkeypatch.setattr(busy, "RUN", "--stages demos --episodes 1")
    monkeypatch.setattr(busy, "SETTINGS", {name: ("--run 1", {}) for name in busy.SETTINGS})
    monkeypatch.setattr(busy, "BESIDE", (0, 1))
    monkeypatch.setattr(busy, "ROUNDS", 1)
    monkeypatch.setattr(sys, "argv", ["busy", "--json", str(tmp_path / "busy.json")])
    busy.main()
    rows = json.loads((tmp_path / "busy.json").read_text())["rows"]
    assert list(rows) == [f"{name}, {n} beside" for name in busy.SETTINGS for n in (0, 1)]
    assert all(row["processor"] > 0 for row in rows.values())
