"""Environments of others stand where a world of ours could: TRL's class and gymnasium's."""

import json

import pytest

from minprm.commands import evaluate, train
from minprm.constants import Config
from minprm.envs import check_tasks, make_world
from minprm.envs.base import SPLITS, World, task_seed, tasks_split
from shared.commands import refusal

DESK = '''
import random

import numpy

from minprm.envs.cups import Cups


class Desk:
    """Orders are looked up, and then the city is said."""

    def reset(self, **row):
        self.number, self.city = row["number"], row["city"]
        self.reward = 0.0

    def find(self, number: int) -> str:
        """Where an order is.

        Args:
            number: of the order
        """
        if number != self.number:
            raise ValueError("no such order")
        return self.city

    def say(self, city: str) -> str:
        """Says it.

        Args:
            city: the city
        """
        self.reward = float(city == self.city)
        return "thank you"

    def _helper(self):
        raise NotImplementedError


class Drawn:
    """It owns its tasks, and says itself what they were worth."""

    def reset(self, **row):
        self.number = random.randrange(10**6) + int(numpy.random.randint(2))
        self.done = False
        return f"Roll after {self.number}."

    async def roll(self) -> str:
        """Rolls."""
        self.done = True
        return str(random.random())

    async def get_reward(self):
        return 0.5


def made(): return Drawn()
def cups(): return Cups()
number = 3
class Bare: pass
class Mute(Drawn):
    def untold(self, city): return city
class Blind(Drawn):
    def reset(self, **row): return None
class Images(Drawn):
    def reset(self, **row): return [{"type": "image"}]
class Late(Drawn):
    def __init__(self, city): self.city = city
class Unpaid:
    def reset(self, **row): return "go"
    def walk(self) -> str:
        """Walks."""
class Clock(Drawn):
    def reset(self, **row): return str(random.SystemRandom().random())
class Nan(Drawn):
    def get_reward(self): return "much"
'''
CITIES = ["Paris", "Rome", "Oslo"]


@pytest.fixture
def here(tmp_path, monkeypatch):
    (tmp_path / "desk.py").write_text(DESK)
    rows = []
    for number in range(40):
        rules = {"role": "system", "content": "Be brief."}
        question = {"role": "user", "content": f"Where is order {number}?"}
        row = {"prompt": [rules, question], "number": number, "city": CITIES[number % 3]}
        rows += [json.dumps(row)] * 2
    (tmp_path / "rows.jsonl").write_text("\n".join(rows))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def world(name: str, *args: str) -> World:
    cfg = Config(world=f"desk.py:{name}", world_args=[*args])
    check_tasks(cfg)
    return make_world(cfg)


def call(name: str, **arguments) -> str:
    return json.dumps({"name": name, "arguments": arguments})


# --- TRL's class ---


def test_the_tools_are_those_that_trl_would_show():
    pytest.importorskip("trl", reason='needs trl: pip install ".[dev]"')
    from transformers.utils import get_json_schema

    scope: dict = {}
    exec(DESK, scope)
    desk = scope["Desk"]()
    assert [get_json_schema(desk.find), get_json_schema(desk.say)] == made_tools(DESK)


def made_tools(source: str) -> list[dict]:
    from minprm.envs.adapters import adapted

    scope: dict = {}
    exec(source, scope)
    return adapted("desk.py:Desk", scope["Desk"]).tools


def test_a_class_with_rows_is_played_as_trl_plays_it(here):
    desk = world("Desk", "rows=rows.jsonl", "turns=4")
    question = desk.reset(task_seed("test", 1))
    row = desk.env
    assert question == f"Where is order {row.number}?" and desk.system == "Be brief."
    moved = {"valid": True, "effective": True}
    refused = {"valid": False, "effective": False}
    assert desk.step(call("find", number=row.number)) == (row.city, 0.0, False, moved)
    wrong = desk.step(call("find", number=-1))
    assert wrong == ("{'error': 'no such order'}", 0.0, False, refused)
    lost = desk.step("Hm.\n" + call("lose"))
    assert lost == ("{'error': 'Tool lose not found.'}", 0.0, False, refused)
    several = "\n".join([call("find", number=row.number), call("say", city=row.city)])
    assert desk.step(several) == (f"{row.city}\nthank you", 1.0, True, moved)  # turns=4
    assert desk.success


def test_a_turn_without_a_call_ends_an_episode_and_one_that_cannot_be_read_does_not(here):
    desk = world("Desk", "rows=rows.jsonl")
    desk.reset(0)
    assert desk.step("")[:3] == ("illegal: call a tool, or answer in words", 0.0, False)
    assert desk.step(call("say", city=desk.env.city))[1:3] == (0.0, False)
    assert desk.step("I am done.")[:3] == ("", 1.0, True) and desk.success
    desk.reset(1)
    assert desk.step("No.")[1:3] == (0.0, True) and not desk.success


def test_rows_are_of_one_split_each(here):
    desk = world("Desk", "rows=rows.jsonl")
    assert len(desk.rows) == 40
    for split in SPLITS:
        for index in range(20):
            desk.reset(task_seed(split, index))
            assert tasks_split(desk.row) == split


def test_a_class_that_owns_its_tasks_draws_them_by_seed(here):
    drawn, other = world("Drawn"), world("made")
    for seed in (0, 1, task_seed("test", 5)):
        first = drawn.reset(seed, noise=3)
        assert first == other.reset(seed, noise=4) and drawn.system == ""
        rolled, reward, done, _ = drawn.step(call("roll"))
        assert done and reward == 0.5 and not drawn.success
        assert rolled != other.step(call("roll"))[0]  # luck, which is not the task's
        assert first == drawn.reset(seed, noise=3) and rolled == drawn.step(call("roll"))[0]
    assert drawn.reset(0) != drawn.reset(1)
    easy = world("Drawn", "enough=0.5")
    easy.reset(0)
    easy.step(call("roll"))
    assert easy.success


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("Bare", "desk.py:Bare is no world, which is a class that inherits from minprm.World, one"),
        ("number", "desk.py:number is no world"),
        ("cups", "desk.py:cups is no world"),  # the class is one
        ("Late", "desk.py:Late is called without arguments, and raised TypeError"),
        ("Mute", "Mute: Cannot generate JSON schema for untold because it has no docstring! Each"),
        ("Blind", "desk.py:Blind: `reset` returned None, and not a text to begin with"),
        ("Images", "desk.py:Images: `reset` returned [{'type': 'image'}], and not a text to begin"),
        ("Clock", "desk.py:Clock: task 2000000000 began in two ways: a world draws from its seed"),
        ("Desk", "desk.py:Desk, task 0: begin raised KeyError: 'number' (desk.py, line "),
    ],
)
def test_what_is_no_environment_is_refused_in_a_sentence(here, capsys, name, complaint):
    flags = ["--world", f"desk.py:{name}", "--stages", "rl", "--model", "m"]
    assert complaint in refusal(train.main, flags, capsys)
    assert not (here / "runs").exists()


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ({"prompt": 3}, "rows.jsonl, line 1: "),
        ({"prompt": []}, 'rows.jsonl, line 1: "prompt" is a text, or a user message after rules'),
        (
            {"prompt": [{"role": "user", "content": [{"type": "image"}]}]},
            '"prompt" is a text, or a',
        ),
        ({"prompt": "go"}, "rows.jsonl: none of its 2 different tasks falls into the "),
    ],
)
def test_rows_that_are_none_are_refused_in_a_sentence(here, capsys, row, complaint):
    rows = here / "rows.jsonl"  # in full, because a file is read once
    rows.write_text(json.dumps(row) + "\n" + json.dumps({"prompt": "walk"}))
    flags = ["--world", "desk.py:Desk", "--world-args", f"rows={rows}", "--model", "m"]
    assert complaint in refusal(train.main, [*flags, "--stages", "rl"], capsys)


@pytest.mark.parametrize(("name", "complaint"), [
    ("Unpaid", "desk.py:Unpaid has no `get_reward` and no attribute `reward`: write one of them"),
    ("Nan", "desk.py:Nan returned 'much', and a reward is a finite number"),
])  # fmt: skip
def test_what_pays_nothing_ends_in_a_sentence(here, capsys, name, complaint):
    unpaid = world(name)
    unpaid.reset(0)
    assert complaint in refusal(unpaid.step, "I am done.", capsys)


def test_without_an_expert_there_are_no_logs_and_the_sentence_says_what_to_do(here, capsys):
    for stages in (["demos"], ["sft:actions"], ["act_prm"]):
        flags = ["--world", "desk.py:Drawn", "--stages", *stages]
        flags += ["--model", "m", "--dry-run"] * (stages != ["demos"])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(train, "require_model", lambda name: None)
            error = refusal(train.main, flags, capsys)
        assert "Drawn has no expert, which leaves logs: play it (--stages rl), or give" in error
    assert not (here / "runs").exists()


@pytest.mark.slow
def test_it_is_trained_on_and_evaluated_without_an_expert(here, model, capsys):
    flags = ["--world", "desk.py:Drawn", "--world-args", "turns=2", "--model", str(model)]
    flags += "--thought-tokens 4 --action-tokens 8 --episodes 4 --eval-tasks 2 --jobs 1".split()
    flags += "--rl.updates 2 --rl.batch 2 --rl.group 2 --device cpu".split()
    train.main([*flags, "--stages", "rl", "--dry-run"])
    train.main([*flags, "--stages", "rl", "--run", "r"])
    assert list(json.loads((here / "runs/r/ladder.json").read_text())) == ["stages"]
    assert (here / "runs/r/report.html").exists()
    evaluate.main(["checkpoints/r/stages-0", "--episodes", "2"])
    assert "expert" not in capsys.readouterr().out.splitlines()[-1]


# --- gymnasium ---

ROOM = '''
import gymnasium
from gymnasium.spaces import Box, Discrete, Text


class Room(gymnasium.Env):
    """A door has a number, and each step costs a little."""

    observation_space = Text(40)
    action_space = Discrete(3, start=1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.door = int(self.np_random.integers(1, 4))
        self.key = int(self.np_random.integers(10**6))
        return f"Door {self.door} is open, key {self.key}.", {}

    def step(self, action):
        won = action == self.door
        return f"luck {self.np_random.random()}", 2.0 if won else -0.5, won, action == 3, {}


class Said(Room):
    action_space = Text(5, charset="abcdefgh ")

    def step(self, action):
        return "yes", 1.0, action == "a bed", False, {}


def made(): return gymnasium.wrappers.TimeLimit(Room(), 2)
def lake(): return gymnasium.make("FrozenLake-v1", render_mode="ansi")
class Seen(Room):
    def reset(self, **told): return 3, {}
class Pushed(Room):
    action_space = Box(0, 1)
class Broken(Room):
    def reset(self, **told): return {}["x"]
class Old(Room):
    def reset(self, **told): return "Door 1 is open."
class Duck:
    action_space = Discrete(2)
    def reset(self, seed=None): return 3, {}
class Stuck(Room):
    def step(self, action): return {}["x"]
'''


@pytest.fixture
def room(tmp_path, monkeypatch):
    pytest.importorskip("gymnasium", reason='needs the extra: pip install ".[gym]"')
    (tmp_path / "desk.py").write_text(ROOM)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.extras
def test_a_gymnasium_environment_of_texts_is_played_by_its_numbers(room):
    doors = world("Room", "turns=3")
    first = doors.reset(task_seed("test", 2), noise=1)
    assert first.startswith("Door ") and first == doors.reset(task_seed("test", 2), noise=2)
    assert doors.actions() == ["1", "2", "3"] and not doors.has("expert") and not doors.few_tasks
    door = doors.env.door
    wrong = str(door % 2 + 1)  # 3 ends it
    observation, reward, done, _ = doors.step(wrong)
    assert (reward, done) == (-0.5, False)
    assert doors.step("0")[0] == "illegal: answer one of 1, 2, 3"
    assert doors.step(str(door))[1:3] == (2.0, True) and doors.success  # 1.5 in all
    hard = world("Room", "enough=2.0")
    hard.reset(task_seed("test", 2), noise=3)
    assert hard.step(wrong)[0] != observation  # another luck
    hard.step(str(door))
    assert not hard.success


@pytest.mark.extras
def test_an_episode_that_is_cut_short_is_over(room):
    doors = world("made")
    doors.reset(0)
    door = doors.env.unwrapped.door
    for over in (False, True):  # TimeLimit's two steps
        assert doors.step("1" if door != 1 else "2")[2] is over
    assert not doors.success


@pytest.mark.extras
def test_actions_may_be_texts_and_a_drawing_is_one(room):
    said = world("Said")
    said.reset(0)
    assert not said.has("actions")
    assert said.step("a bag of rice")[3]["valid"] is False
    assert said.step("a bag")[:2] == ("yes", 1.0)
    assert said.step("a bed")[2] and said.success
    lake = world("lake")
    assert "[S]FFF" in lake.reset(0) and lake.few_tasks


@pytest.mark.extras
@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("Seen", 'desk.py:Seen shows int, and a model reads text: make it with render_mode="ansi"'),
        ("Pushed", "desk.py:Pushed takes Box(0.0, 1.0, (1,), float32), and a model writes text"),
        ("Old", "reset(seed=...) to return (observation, info)"),
        ("Duck", "desk.py:Duck is no environment of gymnasium's: it has to inherit from"),
        ("Broken", "desk.py:Broken is called without arguments, and raised KeyError: 'x' (desk.py"),
    ],
)
def test_what_no_text_can_play_is_refused_in_a_sentence(room, capsys, name, complaint):
    flags = ["--world", f"desk.py:{name}", "--stages", "rl", "--model", "m"]
    assert complaint in refusal(train.main, flags, capsys)


@pytest.mark.extras
def test_an_environment_that_raises_ends_in_a_sentence(room, capsys):
    stuck = world("Stuck")
    stuck.reset(0)
    error = refusal(stuck.step, "1", capsys)
    assert error.startswith("desk.py:Stuck, task 0: act raised KeyError: 'x' (desk.py, line ")
