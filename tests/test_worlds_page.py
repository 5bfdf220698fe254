"""The world that docs/worlds.md tells a reader to write, played by its file's name."""

import re
import sys
from pathlib import Path

import pytest

from evidence import audit
from minprm import envs
from minprm.commands import train
from minprm.constants import Config
from minprm.envs import __main__ as by_hand
from minprm.envs.base import SPLITS, call, task_seed

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/worlds.md"
GUESS = f"{ROOT}/examples/own_world.py:Guess"


@pytest.fixture
def page() -> str:
    return PAGE.read_text(encoding="utf-8")


@pytest.fixture
def guess() -> type:
    """The class of the example."""
    return envs.world_class(GUESS)


def test_the_page_shows_the_example_as_it_is(page):
    source, *_ = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len([line for line in source.splitlines() if line]) <= 40
    assert source == (ROOT / "examples/own_world.py").read_text(encoding="utf-8")


def test_the_pages_class_of_trls_is_won_by_looking_and_saying(page, tmp_path):
    _, source, *_ = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "desk.py").write_text(source)
    cfg = train.Config(world=f"{tmp_path}/desk.py:Desk")
    envs.check_tasks(cfg)
    desk = envs.make_world(cfg)
    assert desk.reset(0).startswith("Where is order ")
    city, *_ = desk.step(call("find"))
    assert desk.step(call("say", city=city))[:3] == ("thank you", 0.0, False)
    assert desk.step("Done.")[1:3] == (1.0, True) and desk.success


@pytest.mark.slow
def test_the_pages_numbers_of_its_own_world_are_those_that_are_measured(page):
    audited = audit.audit([GUESS])
    assert f"| `{GUESS}` |" in audit.table(audited)  # the last row
    row = audited["worlds"][GUESS]
    told = re.search(r"its expert wins ([\d.]+), random play ([\d.]+)", page)
    assert told
    assert f"{row['expert']:.3f}" == told[1]
    assert f"{row['random']:.3f}".lstrip("0") == told[2].rstrip(".")
    assert row["seen"] == 0.0, "a test task occurs in training"


def test_its_tasks_are_of_one_split_each(guess):
    world = guess()
    hidden = {}
    for split in SPLITS:
        hidden[split] = set()
        for index in range(50):
            world.reset(task_seed(split, index))
            hidden[split].add(world.hidden)
    train, validation, test = hidden.values()
    assert not train & validation and not train & test and not validation & test


def test_its_knobs_are_its_arguments_and_are_checked(capsys):
    cfg = train.Config(world=GUESS, world_args=["highest=1000", "turns=10"])
    assert envs.make_world(cfg).highest == 1000
    with pytest.raises(SystemExit):
        envs.make_world(train.Config(world=GUESS, world_args=["highest=3"]))
    assert "highest from 10 to 9999" in capsys.readouterr().err


def test_it_is_played_by_hand_and_its_expert_writes_logs(guess, monkeypatch, capsys, tmp_path):
    typed = iter(["?", "ten", ""])
    monkeypatch.setattr("builtins.input", lambda _: next(typed))
    by_hand.play(guess(), seed=0)
    shown = capsys.readouterr().out
    assert "the middle halves that. 50" in shown and "illegal: answer with one number" in shown
    monkeypatch.chdir(tmp_path)
    train.main(["--world", GUESS, *"--stages demos --episodes 3".split()])
    (demos,) = tmp_path.glob("runs/Guess-*/demos.jsonl")
    assert demos.read_text().count("\n") == 3


def test_the_game_that_it_shows_is_the_one_that_is_played(page, monkeypatch, capsys):
    (game,) = re.findall(r"```\n(start .*?)```", page, re.DOTALL)
    typed = re.findall(r"^> (.*)$", game, re.MULTILINE)
    answers = iter([*typed, ""])
    monkeypatch.setattr("builtins.input", lambda _: next(answers))
    by_hand.play(envs.world_class("errand")(), seed=0)
    shown = [line for line in capsys.readouterr().out.splitlines() if line]
    told = [line for line in game.splitlines() if line and not line.startswith(">")]
    start = shown.index(told[0])
    assert shown[start : start + len(told)] == told


@pytest.mark.slow
@pytest.mark.extras
def test_the_pages_server_is_won_by_finding_and_saying(page, tmp_path, monkeypatch):
    pytest.importorskip("mcp", reason='needs the extra: pip install ".[mcp]"')
    *_, server, tasks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "server.py").write_text(server)
    monkeypatch.chdir(tmp_path)
    exec(tasks, {})
    desk = envs.make_world(
        Config(world=f"mcp:{sys.executable} server.py", world_args=["tasks=tasks.jsonl"])
    )
    number = desk.reset(task_seed("test", 0)).strip().split()[-1][:-1]
    city = desk.step(call("find", number=number))[0]
    assert desk.step(city)[1:3] == (1.0, True) and desk.success
