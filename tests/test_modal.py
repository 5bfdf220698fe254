"""The rented GPU's command, as far as it goes without an account."""

import json
import runpy
import signal
import tomllib
from pathlib import Path
from unittest.mock import MagicMock

import pytest

pytest.importorskip("modal", reason='needs modal: pip install ".[modal]"')
import modal

import modal_train

pytestmark = pytest.mark.extras
ROOT = Path(__file__).parents[1]


def test_the_image_holds_what_pyproject_asks_for_and_all_files_of_the_package(monkeypatch):
    image = MagicMock()
    monkeypatch.setattr(modal, "Image", image)
    monkeypatch.setattr(modal, "App", MagicMock())
    runpy.run_path(str(ROOT / "modal_train.py"))
    installed, added = (call.args for call in image.mock_calls[1:])
    file, extras = installed
    assert Path(file) == ROOT / "pyproject.toml"
    known = tomllib.loads(Path(file).read_text(encoding="utf-8"))["project"]
    assert set(extras) <= set(known["optional-dependencies"])  # Modal leaves out what is not there
    assert added == ("minprm",) and image.mock_calls[2].kwargs == {"ignore": []}


def test_flags_pass_through_and_files_travel(tmp_path):
    logs = tmp_path / "my_logs.jsonl"
    logs.write_text("{}")
    gpu, flags, files = modal_train.packed(
        ["--gpu", "A100-80GB", "--preset", "logs", "--demos", str(logs)]
    )
    assert gpu == "A100-80GB"
    assert flags[:4] == ["--preset", "logs", "--demos", "my_logs.jsonl"] and flags[4] == "--run"
    assert files == {"my_logs.jsonl": b"{}"}
    with pytest.raises(SystemExit, match="one file"):
        modal_train.packed(["--demos", str(tmp_path)])


def test_functions_instructions_and_examples_travel_too(tmp_path):
    (tmp_path / "mine.py").write_text("def brief(logp): return 1.0")
    (tmp_path / "told.md").write_text("Think.")
    flags = ["--act-prm.reward", f"{tmp_path}/mine.py:brief", "--rl.advantage", "mean",
             "--instruction", f"{tmp_path}/told.md"]  # fmt: skip
    _, found, files = modal_train.packed([*flags, "--run", "a"])
    assert found[1:6:2] == ["mine.py:brief", "mean", "told.md"]
    assert files == {"mine.py": b"def brief(logp): return 1.0", "told.md": b"Think."}
    _, found, files = modal_train.packed(["--instruction", "Think. " * 999, "--run", "a"])
    assert found[1] == "Think. " * 999 and not files


@pytest.mark.slow
def test_the_body_runs_and_a_second_try_goes_on_with_the_same_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    flags = "--preset smoke --no-gate --tiny.updates 5 --act-prm.updates 2 --num-demos 8 "
    flags += "--held-out 2 --episodes 5 --arms base act_prm --threads 1 --jobs 1 --run m "
    flags += "--eval-tasks 2 --thought-tokens 16"
    modal_train.body(flags.split(), {}, tmp_path)
    first = (tmp_path / "runs/m/ladder.json").read_text()
    rows = json.loads(first)
    del rows["act_prm"]
    (tmp_path / "runs/m/ladder.json").write_text(json.dumps(rows))  # lost before its last line
    modal_train.body(flags.split(), {}, tmp_path)
    again = json.loads((tmp_path / "runs/m/ladder.json").read_text())
    assert again["act_prm"][0]["success"] == json.loads(first)["act_prm"][0]["success"]


SMALL = "--preset smoke --no-gate --tiny.updates 5 --act-prm.updates 2 --num-demos 8 --held-out 2 "
SMALL += "--episodes 5 --stages act_prm --threads 1 --run m --eval-tasks 2 --thought-tokens 16"


@pytest.mark.slow
def test_with_several_gpus_torchrun_runs_it_and_each_minute_the_volume_is_committed(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(modal_train, "MINUTE", 0.2)
    seen = []
    ladder = tmp_path / "runs/m/ladder.json"
    modal_train.body(SMALL.split(), {}, tmp_path, lambda: seen.append(ladder.exists()), 2)
    assert seen.count(False) > 2 and seen[-1], "while it runs, and when all is there"
    row = json.loads(ladder.read_text())["stages"][0]
    ladder.unlink()  # the container was lost before its last line
    modal_train.body(SMALL.split(), {}, tmp_path, processes=1)
    assert json.loads(ladder.read_text())["stages"][0]["success"] == row["success"]


@pytest.mark.slow
def test_what_the_processes_refuse_fails_the_try(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        modal_train.body(["--preset", "nothing", "--run", "m"], {}, tmp_path, processes=2)
    assert "--preset" in capfd.readouterr().err


def test_a_container_that_is_taken_away_lets_the_processes_save(monkeypatch):
    told = []
    running = MagicMock(returncode=0, send_signal=told.append)
    running.__enter__.return_value = running
    running.poll.return_value = None
    running.wait.side_effect = [KeyboardInterrupt, 0]
    monkeypatch.setattr(modal_train.subprocess, "Popen", lambda *_, **knobs: running)
    with pytest.raises(KeyboardInterrupt):
        modal_train.torchrun(2, [], lambda: told.append("committed"))
    assert told == [signal.SIGINT, "committed"] and running.wait.call_count == 2
