"""A turn may hold several actions, where the world says so; a world of one action is as it was."""

import json
import random

import pytest

from minprm.arms.evaluation import reference
from minprm.commands import train
from minprm.constants import Config
from minprm.envs.base import Illegal, World, task_seed
from minprm.play import Episode, act, begin, expert_demo
from shared.commands import refusal
from shared.worlds import make


class Count(World):
    """Each letter is one action; `end` wins, `lose` ends, and each action earns 1."""

    system = "Say letters."
    turns = 3
    actions_per_turn = 3

    def begin(self):
        self.heard = []
        return str(self.rng.random())

    def act(self, action):
        if action not in ("a", "b", "end", "lose"):
            raise Illegal(f"illegal: {action!r}")
        self.heard.append(action)
        self.success, self.done = action == "end", action == "lose"
        return f"heard {action}", 1.0

    def key(self):
        return len(self.heard)


def counted(turn: str, most: int = 3) -> tuple:
    world = Count()
    world.actions_per_turn = most
    world.reset(task_seed("train", 0))
    return world.heard, *world.step(turn)


def test_a_turn_of_several_is_played_in_order_until_the_episode_ends():
    done = {"valid": True, "effective": True}
    assert counted("a") == (["a"], "heard a", 1.0, False, done)
    assert counted(" a,b ,  a\n") == (["a", "b", "a"], "heard a", 3.0, False, done)
    assert counted("a, end, b") == (["a", "end"], "heard end", 2.0, True, done)
    assert counted("lose, end") == (["lose"], "heard lose", 1.0, True, done)


def test_those_before_an_illegal_one_are_played_and_those_behind_it_are_not():
    wrong = {"valid": False, "effective": False}
    for turn, heard, shown in (
        ("a, x, b", ["a"], "heard a\nillegal: 'x'"),
        ("x, a", [], "illegal: 'x'"),
        ("a,", ["a"], "heard a\nillegal: ''"),
        ("", [], "illegal: ''"),
        ("a, b, a, b", ["a", "b"], "heard b\nillegal: 'a, b'"),  # the fourth is too much
    ):
        assert counted(turn) == (heard, shown, float(len(heard)), False, wrong)


def test_a_world_of_one_action_reads_a_turn_whole():
    wrong = {"valid": False, "effective": False}
    assert counted("a, b", most=1) == ([], "illegal: 'a, b'", 0.0, False, wrong)
    assert counted(" a", most=1) == ([], "illegal: ' a'", 0.0, False, wrong)


def test_the_model_is_told_how_many_and_the_history_holds_what_was_done():
    e = begin(Count(), task_seed("train", 0), noise=0)
    rules = e.state[0]
    assert rules["role"] == "system"
    assert rules["content"].startswith(
        "Say letters. An answer may hold up to 3 actions, with comma"
    )
    act(e, None, "a, b")
    act(e, None, "end, a")
    assert [(step.action, step.reward) for step in e.steps] == [("a, b", 2.0), ("end, a", 1.0)]
    assert e.steps[1].state == [{"role": "user", "content": "heard b"}] and e.done
    one = Count()
    one.actions_per_turn = 1
    assert begin(one, task_seed("train", 0), noise=0).state[0]["content"] == "Say letters."


def won(most: int, who: str, episodes: int = 8) -> list[Episode]:
    cfg = Config(world="frozenlake", world_args=[f"actions_per_turn={most}"], split="test")
    return [reference(who, cfg, seed=0, i=i) for i in range(episodes)]


@pytest.mark.parametrize("most", [2, 3, 5])
def test_the_expert_plays_the_same_actions_in_fewer_turns(most):
    for one, several in zip(won(1, "expert"), won(most, "expert"), strict=True):
        moves = [step.action for step in one.steps]
        turns = [", ".join(moves[first : first + most]) for first in range(0, len(moves), most)]
        assert one.steps[0].state[-1] == several.steps[0].state[-1]  # the same task
        assert [step.action for step in several.steps] == turns and several.world.success


def test_an_episode_has_as_many_actions_however_many_a_turn_holds():
    one, three, five = (make("frozenlake", actions_per_turn=most) for most in (1, 3, 5))
    assert one.turns <= 3 * three.turns < one.turns + 3
    assert one.turns <= 5 * five.turns < one.turns + 5
    three.reset(task_seed("train", 0))
    assert len(three.actions()) == 4 + 4**2 + 4**3 and "up, left, up" in three.actions()


@pytest.mark.parametrize("knob", ["actions_per_turn=0", "actions_per_turn=6"])
def test_too_many_are_refused(knob, capsys):
    flags = ["--world", "frozenlake", "--world-args", knob, "--dry-run"]
    assert "actions_per_turn from 1 to 5" in refusal(train.main, flags, capsys)


def test_on_ice_that_slips_a_turn_holds_one(capsys):
    flags = ["--world", "frozenlake", "--world-args", "actions_per_turn=2", "slip=.5", "--dry-run"]
    assert "and 1 on ice that slips" in refusal(train.main, flags, capsys)


def test_the_lakes_narrator_and_its_thoughts_speak_of_all_actions():
    world = make("frozenlake", actions_per_turn=3)
    one = make("frozenlake")
    assert set(world.words) - set(one.words) == {"left,", "right,"}  # two stand in a complaint
    rng = random.Random(0)
    for i in range(20):
        world.reset(task_seed("train", i))
        assert world.thought().endswith(f"so {world.expert()}.")
        for kind in world.thought_mix:
            thought, action = world.narrate(kind, rng)
            assert world.classify(thought) in (kind, "right")
            assert set(f"{thought} {action}".split()) <= set(world.words)


def test_an_experts_log_of_several_a_turn_is_read_as_any():
    demo = expert_demo(make("frozenlake", actions_per_turn=3), task_seed("train", 0))
    assert any(", " in step.action for step in demo.steps)


OWN = """
from minprm.envs.base import tool
from test_actions_per_turn import Count
class Own(Count):
    def actions(self): return ["a"]
    def expert(self): return "a, end"
class Tools(Own): tools = [tool("find", "Finds it.")]
class Zero(Own): actions_per_turn = 0
class Text(Own): actions_per_turn = "3"
"""


@pytest.mark.parametrize(
    ("name", "said"),
    [("Tools", "and 1 where there are tools"), ("Zero", "1 or more"), ("Text", "is no int")],
)
def test_a_users_world_says_it_too_and_is_refused_where_it_makes_no_sense(
    name, said, tmp_path, monkeypatch, capsys
):
    (tmp_path / "own.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    (demo,) = [expert_demo(make_own("Own"), task_seed("train", 0))]
    assert [step.action for step in demo.steps] == ["a, end"]
    flags = ["--world", f"own.py:{name}", "--stages", "demos", "--dry-run"]
    assert said in refusal(train.main, flags, capsys)


def make_own(name: str) -> World:
    from minprm.envs import make_world

    return make_world(Config(world=f"own.py:{name}"))


@pytest.mark.slow
def test_rl_plays_and_learns_from_turns_of_several(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    train.main(
        [*"--world frozenlake --world-args size=4 path=3 ice=0.8 actions_per_turn=3".split(),
         *"--stages rl --rl.updates 2 --rl.batch 2 --rl.group 2 --tiny.updates 20".split(),
         *"--tiny.dim 16 --tiny.batch 4 --no-gate --run several --episodes 4 --seeds 0".split(),
         *"--thought-tokens 12 --eval-every 0".split()]
    )  # fmt: skip
    lines = (tmp_path / "runs/several/episodes.jsonl").read_text().splitlines()
    turns = [turn for line in lines for turn in json.loads(line)["turns"]]
    assert 0 < len(turns) <= 4 * 6  # 16 steps in turns of three
    assert {turn["expert"].count(",") for turn in turns} <= {0, 1, 2}
