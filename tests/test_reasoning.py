"""reasoning-gym's data sets are worlds with an expert, and no answer of a model's is run."""

import json
import sys
from contextlib import suppress

import pytest

from minprm.commands import train
from minprm.constants import Config
from minprm.envs import check_tasks, make_world, world_class
from minprm.envs.base import SPLITS, task_seed, tasks_split
from minprm.envs.reasoning import RUN_ANSWERS, is_plain
from minprm.logs.reader import read_demos
from shared.commands import refusal

factory = pytest.importorskip(
    "reasoning_gym.factory", reason='needs the extra: pip install ".[reasoning-gym]"'
)
pytestmark = pytest.mark.extras
BAD = {"boxnet", "composite", "graph_color", "propositional_logic", "rubiks_cube", "rush_hour"}
SLOW = {"arc_agi", "figlet_font", "group_anagrams", "knight_swap", "word_ladder"}  # seconds each


def world(name: str, *args: str):
    cfg = Config(world=f"reasoning_gym:{name}", world_args=[*args])
    check_tasks(cfg)
    return make_world(cfg)


def wins(name: str) -> int:
    """How many of three tasks the expert wins, each the same by its seed."""
    player, other = (world_class(f"reasoning_gym:{name}")() for _ in range(2))
    won = 0
    for index in range(3):
        seed = task_seed("train", index)
        assert player.reset(seed) == other.reset(seed) and player.expert() == other.expert()
        player.step(player.expert())
        won += player.success
    return won


@pytest.mark.parametrize("name", ["chain_sum", "countdown", "sentence_reordering", "shortest_path"])
def test_the_expert_wins_and_the_same_seed_is_the_same_task(name):
    assert wins(name) == 3


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(factory.DATASETS.keys() - BAD))
def test_the_expert_of_each_data_set_wins(name):
    assert wins(name) == 3


def test_a_task_is_of_its_split_and_graded_by_the_verifier():
    puzzle = world("gcd")
    for split in SPLITS:
        question = puzzle.reset(task_seed(split, 7))
        assert tasks_split(question) == split
    number = puzzle.expert()
    observation, reward, done, info = puzzle.step(f"It is {number}")
    assert (observation, done, info["valid"]) == ("", True, True)
    assert 0 < reward < 1 and not puzzle.success
    puzzle.reset(0)
    assert puzzle.step("")[1:3] == (0.0, True)


def test_its_configuration_is_its_knobs(capsys):
    short, long = (
        world("chain_sum", "max_terms=2"),
        world("chain_sum", "min_terms=6", "max_terms=6"),
    )
    assert short.reset(0).count(" + ") + short.first.count(" - ") == 1
    assert long.reset(0).count(" + ") + long.first.count(" - ") == 5
    for args, complaint in (
        (
            ["terms=2"],
            "--world-args terms: reasoning_gym:chain_sum has no such knob. Its knobs: min",
        ),
        (["max_terms=1"], "--world-args max_terms=1: chain_sum cannot be made: AssertionError"),
    ):
        assert complaint in refusal(lambda args: world("chain_sum", *args), args, capsys)


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        (
            "nothing",
            "reasoning_gym:nothing: no such data set. Data sets: ab, acre, advanced_geometry",
        ),
        (
            "rush_hour",
            "reasoning_gym:rush_hour: its own answer 'None' scores 0.01 and not 1, so it",
        ),
        (
            "composite",
            "composite cannot be made: AssertionError: Must specify at least one dataset",
        ),
    ],
)
def test_what_has_no_expert_is_refused_in_a_sentence(capsys, name, complaint):
    with pytest.raises(SystemExit):
        world(name)
    error = capsys.readouterr().err
    assert complaint in error and error.count("\n") == 1


def test_a_hundred_have_an_expert():
    """docs/worlds.md says so of this version."""
    for name in BAD:
        with pytest.raises(ValueError):
            world_class(f"reasoning_gym:{name}")()
    assert len(factory.DATASETS.keys() - BAD) == 100


def test_its_experts_logs_are_written_without_a_model_or_a_network(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    flags = "--world reasoning_gym:gcd --stages demos --episodes 5 --run r"
    train.main(flags.split())
    demos, _ = read_demos("runs/r/demos.jsonl")
    assert len(demos) == 5
    lines = (tmp_path / "runs/r/demos.jsonl").read_text().splitlines()
    assert "Find the Greatest Common Divisor" in json.loads(lines[0])["messages"][1]["content"]


HARMFUL = [
    "__import__('pathlib').Path('ran').touch()", "open('ran', 'w')", "9**9**9**9", "10**10**10",
    "(((9**99)**99)**99)**99", "exit()", "[].append(1)", "'a'*10**9", "factorial(10**8)",
    "9" * 2000, "().__class__", "x.y", "lambda: 1", "99999999!",
]  # fmt: skip


@pytest.mark.parametrize("answer", HARMFUL)
def test_what_would_run_or_never_end_is_not_plain(answer):
    assert not is_plain(answer)
    for plain in ("(3 + 4)*7 - 2/5", "x**3/3 - 2*x + C", "-21*y**4 + 0.5", "sin(x)*exp(-x)"):
        assert is_plain(plain)


@pytest.mark.slow
def test_no_data_set_runs_a_models_answer(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in sorted(RUN_ANSWERS):
        puzzle = world(name)
        for answer in HARMFUL:
            puzzle.reset(0)
            puzzle.step(answer)
            assert not puzzle.success
    assert not (tmp_path / "ran").exists()


@pytest.mark.slow
def test_the_list_of_those_that_run_answers_is_whole():
    """Python says of each program that it runs, eval's too."""
    running = []
    ran = set()

    def hear(event: str, facts: tuple) -> None:
        if running and event == "exec" and facts[0].co_filename == "<string>":
            ran.add(running[-1])

    sys.addaudithook(hear)
    for name in factory.DATASETS.keys() - BAD - SLOW:
        puzzle = world_class(f"reasoning_gym:{name}")()
        puzzle.reset(0)
        for answer in ("1 + 1", "[1]", "[[1]]", "['a']", "x", "(1)"):
            running.append(name)
            with suppress(Exception):
                puzzle.puzzles.score_answer(answer, puzzle.puzzle)
            running.pop()
    assert ran - {"bitwise_arithmetic", "number_sorting"} == RUN_ANSWERS
