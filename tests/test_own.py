"""A user's function stands where one of ours could; what goes wrong in it ends in a sentence."""

import os
import signal
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from torch import tensor

from minprm import chosen, own, zoo
from minprm.algorithms import REWARDS, action_prob
from minprm.commands.cli import as_flags, configuration, parse

FILE = """
import torch

def same(logp):
    return logp.sum().exp().item()

def brief(logp, thought, state, action):
    return logp.sum().exp() / (1 + len(thought.split()))

def texts(logp, thought, state, action):
    return float((thought, state, action) == ("a thought", "a state", "an action"))

def centred(r):
    return r - r.mean()

def in_place(r):
    r -= r.mean()
    return r

number = 3
def two(logp, thought): return 1.0
def negative(logp): return -0.25
def nan(logp): return float("nan")
def many(logp): return logp
def word(logp): return "much"
def wrong(logp): return 1 / 0
def digits(logp): return "0.5"
def huge(logp): return 10**400
def large(logp): return 1e39
def leaves(logp): raise SystemExit(0)
def in_red(logp): raise KeyError("\x1b[31m!")
def wipes(logp): return 0.5 if logp.zero_() is logp else 0
def hangs(logp):
    while True:
        try:
            pass
        except Exception:
            pass
def leaves_folder(logp): __import__("os").chdir("/"); return 0.5
def sleeps(logp): __import__("time").sleep(99)
def short(r): return r[1:]
def far(r): return [10**400] * len(r)
def endless(r): return r / 0
def nothing(r): return None
def crooked(r): return r[9]
class Row:
    def __repr__(self): raise RuntimeError("detached")
    def __float__(self): raise RuntimeError("detached")
def detached(logp): return Row()
class Mute(Exception):
    def __str__(self): return self.response.text
def mute(logp): raise Mute
def group(logp): raise ExceptionGroup("two", [ExceptionGroup("one", [KeyError("first")])])
def removes_folder(logp): __import__("os").rmdir("../gone"); return 0.5
"""
SCALED = """
from __future__ import annotations
from dataclasses import dataclass

@dataclass
class Scale:
    by: float = 2.0

def f(r):
    return r * Scale().by
"""
LOGPS = [torch.log(tensor([0.5, 0.5])), torch.log(tensor([0.1]))]
TEXTS = [("a thought", "a state", "an action"), ("b", "c", "d")]
R = tensor([1.0, 0.0, 0.5])


@pytest.fixture
def here(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(FILE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def sentence(capsys, call) -> str:
    """The one sentence in which a call ends."""
    with pytest.raises(SystemExit) as stop:
        call()
    error = capsys.readouterr().err
    assert stop.value.code == 2 and error.count("\n") == 1, error
    return error


def test_a_name_of_ours_is_ours_and_a_file_gives_its_function(here):
    assert own.function("action_prob", REWARDS) is action_prob
    assert own.function("mine.py:same", REWARDS)(LOGPS[0]) == action_prob(LOGPS[0])
    assert own.function(f"{here}/mine.py:same", REWARDS)(LOGPS[1]) == action_prob(LOGPS[1])


def test_a_file_is_run_once(here):
    (here / "counted.py").write_text("open('runs', 'a').write('x')\ndef f(r): return r\n")
    for _ in range(3):
        own.function("counted.py:f", {})(R)
    assert (here / "runs").read_text() == "x"


def test_a_file_may_import_what_lies_beside_it(here, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    (here / "apart").mkdir()
    (here / "apart/its_helper.py").write_text("TWICE = 2\n")
    (here / "apart/helped.py").write_text(
        "from its_helper import TWICE\ndef f(r): return r * TWICE"
    )
    assert own.function("apart/helped.py:f", {})(R).tolist() == [2.0, 0.0, 1.0]


def test_a_dataclass_of_a_users_file_works(here):
    (here / "scaled.py").write_text(SCALED)
    assert own.function("scaled.py:f", {})(R).tolist() == [2.0, 0.0, 1.0]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nice", "nice: no such name. Names: action_prob, action_prob_mean, or FILE.py:NAME"),
        ("mine:same", "no such name"),
        ("none.py:same", "none.py: No such file"),
        ("mine.py:missing", "mine.py:missing: mine.py defines no missing"),
        ("mine.py:", "defines no function"),
        ("mine.py:number", "mine.py:number is no function, but 3"),
        ("broken.py:f", "cannot be run: it raised SyntaxError: invalid syntax (broken.py, line 2)"),
        ("raises.py:f", "cannot be run: it raised KeyError: 'x' (raises.py, line 2)"),
        ("leaves.py:f", "cannot be run: it raised SystemExit"),
    ],
)
def test_what_is_no_function_is_refused_in_a_sentence(here, name, said):
    (here / "broken.py").write_text("a = 1\nb = = 2\n")
    (here / "raises.py").write_text("a = {}\na['x']\n")
    (here / "leaves.py").write_text("raise SystemExit(0)\n")
    with pytest.raises(ValueError) as error:
        own.function(name, REWARDS)
    assert said in str(error.value) and "\n" not in str(error.value)


def test_a_reward_takes_log_probs_or_log_probs_and_three_texts(here):
    ours = chosen.rewards("action_prob", LOGPS, TEXTS)
    assert chosen.rewards("mine.py:same", LOGPS, TEXTS) == ours
    assert chosen.rewards("mine.py:texts", LOGPS, TEXTS) == [1.0, 0.0]
    brief = chosen.rewards("mine.py:brief", LOGPS, TEXTS)
    assert brief == pytest.approx([ours[0] / 3, ours[1] / 2])
    assert all(type(number) is float for number in brief)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("negative", "returned -0.25, and the reward of a thought is 0 or more"),
        ("nan", "returned nan"),
        ("many", "returned tensor("),
        ("word", "returned 'much', and a reward is a finite number"),
        ("wrong", "raised ZeroDivisionError: division by zero (mine.py, line 26)"),
        ("digits", "returned '0.5', and a reward is a finite number"),
        ("huge", "returned a number of many digits, and a reward is a finite number below 1e+38"),
        ("large", "returned 1e+39, and a reward is a finite number below 1e+38"),
        ("leaves", "raised SystemExit: 0 (mine.py, line 30)"),
        ("in_red", r"raised KeyError: '\x1b[31m!' (mine.py, line 31)"),
        ("hangs", "did not end within 0.1 seconds"),
        ("detached", "returned an object of Row that cannot be shown, and a reward is a finite"),
        ("mute", "raised Mute: what it says cannot be shown (mine.py, line"),
        ("group", "raised KeyError: 'first'"),
    ],
)
def test_a_reward_that_is_no_number_ends_in_a_sentence(here, monkeypatch, capsys, name, said):
    monkeypatch.setattr(own, "LIMIT", 0.1)
    error = sentence(capsys, lambda: chosen.rewards(f"mine.py:{name}", LOGPS, TEXTS))
    assert error.startswith(f"mine.py:{name} {said}")


def test_a_reward_that_changes_what_it_was_given_changes_a_copy(here):
    logps = [logp.clone() for logp in LOGPS]
    assert chosen.rewards("mine.py:wipes", logps) == [0.5, 0.5]
    assert chosen.rewards("mine.py:leaves_folder", logps) == [0.5, 0.5]
    assert Path.cwd() == here
    assert all(torch.equal(a, b) for a, b in zip(logps, LOGPS, strict=True))


@pytest.mark.slow
def test_in_a_thread_a_function_that_hangs_ends_the_process_in_the_same_sentence(here):
    script = (
        "from threading import Thread; from minprm import own\n"
        "hangs = own.function('mine.py:sleeps', {}); own.LIMIT = 0.1\n"
        "thread = Thread(target=hangs, args=[0]); thread.start(); thread.join()"
    )
    paths = os.environ | {"PYTHONPATH": str(Path(own.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", script], env=paths, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == "mine.py:sleeps did not end within 0.1 seconds\n"


def test_a_file_that_hangs_is_refused(here, monkeypatch, capsys):
    monkeypatch.setattr(own, "LIMIT", 0.1)
    (here / "endless.py").write_text("while True:\n    pass\n")
    error = sentence(capsys, lambda: own.definition("endless.py:f"))
    assert error == f"{here}/endless.py did not end within 0.1 seconds\n"


def test_after_a_function_that_ended_in_time_nothing_rings(here):
    own.function("mine.py:same", {})(LOGPS[0])
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_after_a_function_that_took_the_folder_away_nothing_rings_either(here, monkeypatch, capsys):
    (here / "gone").mkdir()
    monkeypatch.chdir(here / "gone")
    before = signal.getsignal(signal.SIGALRM)
    for name in ("removes_folder", "same"):  # the second begins where there is no folder
        said = sentence(capsys, lambda name=name: own.function(f"{here}/mine.py:{name}", {})(R))
        assert "raised FileNotFoundError" in said
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
        assert signal.getsignal(signal.SIGALRM) is before and not own.inside.limit


def test_an_advantage_of_a_user_is_asked_group_by_group(here):
    lengths = [torch.ones(3), torch.ones(2)]
    groups = [R, tensor([0.2, 0.4])]
    ours = zoo.advantages(groups, "mean", lengths)
    for name in ("mine.py:centred", "mine.py:in_place"):
        found = chosen.advantages(groups, name, lengths)
        assert all(torch.equal(a, b) for a, b in zip(found, ours, strict=True))
    assert R.tolist() == [1.0, 0.0, 0.5]  # what a function does to its argument stays with it
    found = chosen.advantages(groups, "batch", lengths)
    assert torch.equal(found[0], zoo.advantages(groups, "batch", lengths)[0])


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("short", "returned the shape [2] for 3 rewards"),
        ("endless", "returned [inf, nan, inf] for the rewards [1.0, 0.0, 0.5]: not all are finite"),
        ("nothing", "returned None, and an advantage is a tensor"),
        ("crooked", "raised IndexError"),
        ("far", "returned ["),
    ],
)
def test_an_advantage_of_another_shape_ends_in_a_sentence(here, capsys, name, said):
    error = sentence(capsys, lambda: chosen.advantages([R], f"mine.py:{name}", [R]))
    assert error.startswith(f"mine.py:{name} {said}")


def test_the_knobs_of_a_reward_by_reading_are_those_of_a_users_too(here):
    flags = "--act-prm.reward mine.py:same --act-prm.scored-by base --act-prm.reward-span turn"
    cfg = parse(flags.split())
    assert (cfg.act_prm.reward, cfg.act_prm.scored_by) == ("mine.py:same", "base")
    assert configuration(as_flags(asdict(cfg))) == cfg  # as a run that goes on reads them


def test_a_fingerprint_tells_of_the_files_text(here):
    (here / "other.py").write_text(FILE)
    (here / "third.py").write_text(FILE + "\n")
    found = own.fingerprints(["posterior", "mine.py:brief", "other.py:same", "third.py:same"])
    assert list(found) == ["mine.py", "other.py", "third.py"]
    assert found["mine.py"] == found["other.py"] != found["third.py"]


@pytest.mark.parametrize("name", ["posterior", "max_rl"])
def test_shares_of_a_reward_below_zero_are_refused(name, capsys):
    groups = [torch.tensor([1.0, 0.0]), torch.tensor([1.0, -0.5])]
    lengths = [torch.ones(2)] * 2
    error = sentence(capsys, lambda: chosen.advantages(groups, name, lengths))
    assert "-0.5 was earned" in error and "mean_std" in error
    assert len(chosen.advantages(groups, "mean", lengths)) == 2
