"""What every world owes: seeds, an expert, honest rewards, and no crash."""

import itertools
import json
import os
import random
import subprocess
import sys
from copy import deepcopy
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence import audit
from minprm.arms.evaluation import reference_rows
from minprm.commands import train
from minprm.constants import Config
from minprm.envs import WORLDS, base, check_tasks, world_class
from minprm.envs import __main__ as by_hand
from minprm.envs.base import called, task_seed
from minprm.envs.mixed import entries
from minprm.logs.reader import from_chat, read_demos, to_chat
from minprm.play import Episode, act, expert_demo
from shared.worlds import HOSTILE, SEEDS, Doors, installed, make, observations, play

SURE = [name for name in WORLDS if name not in ("bandit", "gym")]  # chance cannot beat the expert
ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.extras


ALL = pytest.mark.parametrize("name", WORLDS)


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=[pytest.mark.slow] * (name in ("babyai", "textworld")))
    for name in WORLDS
])  # fmt: skip
def test_the_expert_wins_and_nobody_unsolved_earns_as_much(name):
    world, rng, solved = make(name), random.Random(0), []
    for i in range(SEEDS.get(name, 20)):
        total, _ = play(world, task_seed("test", i), lambda w: w.expert())
        assert world.success or name not in SURE
        solved += [total] if world.success else []
    for i in range(SEEDS.get(name, 100)):
        total, _ = play(world, task_seed("test", i), lambda w: rng.choice(w.actions()))
        assert world.success or total < min(solved) - 1e-9


@ALL
def test_no_play_earns_more_than_the_best_also_when_it_looks_on_after_a_success(name):
    world = make(name)
    for i in range(SEEDS.get(name, 20)):
        best, _ = play(world, i, lambda w: w.expert())
        assert best <= 1 + 1e-9 and (best > 1 - 1e-9 or not world.success)
        rng = random.Random(i)
        chance, _ = play(world, i, lambda w, rng=rng: rng.choice(w.actions()))
        world.reset(i)
        looking = base.call("look") if name == "textworld" else world.actions()[0]
        idle, done = 0.0, False
        while not done:  # until something is earned, and from then on idly
            _, reward, done, _ = world.step(looking if idle else world.expert())
            idle += reward
        assert max(chance, idle) <= 1 + 1e-9


def test_a_copied_world_goes_on_as_the_first_one_does_and_apart_from_it():
    for name in WORLDS:
        world = make(name)
        world.reset(1)
        twin = deepcopy(world)
        seen = [w.step(w.expert())[:3] for w in (world, twin)]
        assert seen[0] == seen[1], name
        if not seen[0][2]:
            third = deepcopy(world)
            world.step(world.expert())
            assert third.turn == twin.turn == world.turn - 1
            assert third.step(third.expert())[:3] == twin.step(twin.expert())[:3], name


@pytest.fixture(scope="session")
def elsewhere() -> dict[str, str]:
    """What another process observes, with other hashes."""
    code = "import json; from shared import worlds as w; "
    code += "print(json.dumps({n: w.observations(n) for n in w.installed()}))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                         cwd=Path(__file__).parent,
                         env={**os.environ, "PYTHONHASHSEED": "7"})  # fmt: skip
    return json.loads(ran.stdout.splitlines()[-1])


@ALL
def test_same_seed_same_observations_in_another_process_too(name, elsewhere):
    make(name)
    assert observations(name) == observations(name) == elsewhere[name]


@ALL
@pytest.mark.parametrize("action", HOSTILE)
def test_a_hostile_action_is_answered_and_earns_less_than_a_right_one(name, action):
    world = make(name)
    world.reset(0)
    observation, reward, _, info = world.step(action)
    assert isinstance(observation, str) and reward < 0.5 and not world.success
    assert info["valid"] or not info["effective"]
    assert info["valid"] or observation.startswith("illegal")


@ALL
def test_stepping_after_the_end_raises(name):
    world = make(name)
    play(world, 0, lambda w: w.expert())
    with pytest.raises(RuntimeError, match="reset"):
        world.step("anything")


@ALL
def test_the_expert_knows_what_to_do_off_its_own_path(name):
    world = make(name)
    for seed in range(SEEDS.get(name, 20)):
        rng = random.Random(seed)
        world.reset(seed)
        for _ in range(3):
            if world.step(rng.choice(world.actions()))[2]:
                break
            assert isinstance(world.expert(), str) and isinstance(world.thought(), str | None)
        else:
            assert world.step(world.expert())[3]["valid"]


@ALL
def test_asking_a_world_changes_nothing(name):
    world, other = make(name), make(name)
    for w in (world, other):
        w.reset(5)
    for _ in range(3):
        world.actions(), world.expert(), world.thought(), world.key()
        action = other.expert()
        seen = [w.step(action)[:3] for w in (world, other)]
        assert seen[0] == seen[1]
        if seen[0][2]:
            break


@ALL
def test_actions_of_tools_are_calls_and_of_text_are_none(name):
    world = make(name)
    world.reset(0)
    for action in [*world.actions(), world.expert()]:
        if world.tools:
            assert called(action, world.tools)[0]
        else:
            assert not action.startswith("{")


@ALL
def test_the_experts_log_is_one_that_training_reads(name):
    demo = expert_demo(make(name), task_seed("train", 0))
    assert len(demo.steps) >= 1 and bool(demo.tools) is bool(world_class(name).tools)
    again = from_chat(json.loads(json.dumps(to_chat(demo))))
    assert [s.action for s in again.steps] == [s.action for s in demo.steps]


# answers that would like to be paid more than a right one
ADVERSARIAL = {
    "reverse_text": lambda w: [w.text * 2, w.text[::-1] * 2, w.text[::-1] + " ?", w.text[:0:-1]],
    "alphabet_sort": lambda w: [w.expert() + ", Zoe", w.expert() * 2, w.expert()[:-1], ", " * 99],
    "text": lambda w: ["1 2", w.expert() * 2, w.expert() + " 99", w.expert()[:-1]],
    "gsm8k": lambda w: [f"{int(w.expert()) + 1}", f"{w.expert()} or 7.5", "0"],
    "countdown": lambda w: [f"{w.target}", f"{w.solution} + 0", f"{w.solution} * 1", "1 - - 1"],
    "connections": lambda w: [", ".join(w.left), ", ".join(w.left[:5]), (w.left[0] + ",") * 4],
    "hotpot": lambda w: [
        base.call("answer", text=" ".join(w.question.pages)),
        base.call("answer", text=w.question.answer + " or not"),
    ],
}


@pytest.mark.parametrize("name", ADVERSARIAL)
def test_no_answer_that_is_wrong_is_paid_like_a_right_one(name):
    for seed in range(20):
        world = make(name)
        best, _ = play(world, seed, lambda w: w.expert())
        assert world.success
        world.reset(seed)
        for answer in ADVERSARIAL[name](world):
            world.reset(seed)
            reward = world.step(answer)[1]
            assert not world.success and reward < best


def test_the_reward_that_sounds_right_is_hacked_where_it_is_asked_for():
    honest, hackable = make("text"), make("text", reward="numbers")
    for world in (honest, hackable):
        world.reset(0)
    assert hackable.step("1 2")[1] == 1.0 and not hackable.success
    assert honest.step("1 2")[1] < 0.5


def test_splits_are_disjoint_and_a_task_cannot_leave_its_own():
    ends = [(task_seed(s, 0), task_seed(s, 10**9 - 1)) for s in ("train", "validation", "test")]
    assert all(a[1] < b[0] for a, b in itertools.pairwise(ends))
    with pytest.raises(ValueError):
        task_seed("train", 10**9)


# --- the table of worlds ---


def test_the_audit_holds_every_world_and_the_book_shows_it():
    told = json.loads(audit.FILE.read_text())
    assert set(told["worlds"]) == set(WORLDS)
    assert audit.table(told) in (ROOT / "docs/worlds.md").read_text(encoding="utf-8")
    for name, row in told["worlds"].items():
        assert row["random"] < row["expert"] and world_class(name).teaches
        assert row["expert"] == 1.0 or name not in SURE
        if name in installed():
            assert row["seen"] == 0.0 or (row["seen"] is None and world_class(name)().few_tasks)


@pytest.mark.slow
def test_what_the_file_says_is_what_is_played():
    rows = json.loads(audit.FILE.read_text())["worlds"]
    for name in ("cups", "sokoban", "countdown"):
        played = audit._played(make(name), rows[name]["episodes"][1], "random")
        assert played["success"] == pytest.approx(rows[name]["random"])


# --- single worlds ---


def test_errand_is_won_from_wherever_the_first_steps_led():
    for seed in range(100):
        world, rng = make("errand", waypoints=2), random.Random(seed)
        world.reset(seed)
        done = False
        while not done:
            off = world.turn < 5
            done = world.step(rng.choice(world.actions()) if off else world.expert())[2]
        assert world.success


def test_the_bandits_expert_is_right_as_often_as_its_closed_form_says():
    for pulls in (3, 10):
        world, wins, n = make("bandit", pulls=pulls), 0, 3_000
        for seed in range(n):
            play(world, seed, lambda w: w.expert())
            wins += world.success
        p = audit.bandits_optimum(world)
        assert abs(wins / n - p) < 4 * (p * (1 - p) / n) ** 0.5


@pytest.mark.slow
def test_the_lakes_expert_is_as_good_as_the_exact_optimum():
    world, wins, optimum, n = make("frozenlake", size=4, path=3, slip=0.3), 0, 0.0, 500
    for seed in range(n):
        world.reset(seed)
        optimum += world.optimum() / n
        play(world, seed, lambda w: w.expert())
        wins += world.success
    assert 0.3 < optimum < 0.95
    assert abs(wins / n - optimum) < 4 * (optimum * (1 - optimum) / n) ** 0.5


def test_a_box_in_a_corner_is_seen_as_lost_and_the_expert_still_answers():
    world = make("sokoban")
    world.reset(0)
    corner = min(world.floor - world.targets)
    boxed = frozenset({corner})
    if world._stuck(boxed):
        world.state = (max(world.floor - boxed), boxed)
        assert world.expert() in world.actions() and not world._plan(world.state)


def test_every_sokoban_is_as_long_as_its_filter_says():
    for shortest in (0, 5, 8):
        world = make("sokoban", shortest=shortest)
        for seed in range(20):
            world.reset(seed)
            plan = world._plan(world.state)
            assert shortest <= len(plan)
            for _ in plan:
                world.step(world.expert())
            assert world.success


def test_the_rooms_expert_uses_only_what_it_has_seen():
    """The same actions in a house whose rooms that were not seen yet lie elsewhere."""
    world = make("rooms")
    for seed in range(50):
        world.reset(seed)
        done = False
        while not done:
            action = world.expert()
            if world.key_room not in world.seen and not world.held:
                hidden = [c for c in world.doors if c not in world.seen]
                kept = world.key_room
                for world.key_room in hidden:
                    assert world.expert() == action
                world.key_room = kept
            done = world.step(action)[2]


@given(st.text(alphabet="0123456789+-*/() ", max_size=60))
def test_expressions_have_the_value_that_python_gives_them(text):
    from fractions import Fraction

    from minprm.envs.countdown import value

    found = value(text)
    if found is not None:
        import re

        exact = re.sub("[0-9]+", lambda n: f"Fraction({int(n[0])})", text)
        assert found == eval(exact.strip(), {"Fraction": Fraction})


@pytest.mark.parametrize(
    ("text", "number"),
    [("#### 1,234", 1234.0), ("$5.00.", 5.0), ("it is -3", -3.0), ("12 or 13", 13.0),
     ("none", None), ("€ 1,000,000.50!", 1000000.5), ("1,23", 23.0), ("3.", 3.0)],
)  # fmt: skip
def test_numbers_are_read_with_commas_currency_and_stops(text, number):
    from minprm.envs.gsm8k import number as read

    assert read(text) == number


@pytest.mark.slow
@pytest.mark.parametrize("level", ["GoToImpUnlock", "KeyCorridorS3R1", "SynthS5R2", "OpenDoor"])
def test_the_bot_never_hangs_on_or_off_its_path(level):
    world = make("babyai", level=level, turns=64)
    for seed in range(8):
        rng = random.Random(seed)
        world.reset(seed)
        for _ in range(40):
            if world.step(rng.choice([world.expert(), *world.actions()]))[2]:
                break


def test_a_level_that_needs_more_turns_says_so(capsys):
    with pytest.raises(SystemExit):
        make("babyai", level="BossLevel", turns=1).reset(0)
    assert "turns=2" in capsys.readouterr().err


@pytest.mark.slow
def test_a_game_is_made_once_also_by_two_processes_at_once(tmp_path):
    make("textworld")
    code = "from minprm.envs.textworld import TextWorld; print(repr(TextWorld(level=1).reset(0)))"
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    both = [subprocess.Popen(command, env=env, **pipes) for _ in range(2)]
    out, told = zip(*[process.communicate() for process in both], strict=True)
    assert out[0] == out[1] and b"cookbook" in out[0]
    assert max(text.count(b"textworld makes its games") for text in told) == 1
    (folder,) = (tmp_path / "minprm").iterdir()
    assert sorted(p.suffix for p in folder.iterdir()) == [".json", ".ni", ".z8"]


# --- several worlds at once ---


def test_several_worlds_are_drawn_by_weight_and_each_tells_its_success():
    args = ["worlds=cups*3 rounds=1, hotpot authors=5"]
    cfg = Config(world="mixed", world_args=args, episodes=200)
    rows = reference_rows(cfg, seed=0)
    assert rows["expert"]["success/cups"] == rows["expert"]["success/hotpot"] == 1.0
    world = make("mixed", worlds=args[0].removeprefix("worlds="))
    drawn = []
    for i in range(200):
        first = world.reset(i)
        assert world.tools == world.worlds[world.part].tools
        drawn.append((world.part, first))
    assert 130 < sum(part == "cups" for part, _ in drawn) < 170
    again = make("mixed", worlds=args[0].removeprefix("worlds="))
    for i, (part, first) in enumerate(drawn):
        assert again.reset(i) == first and again.part == part


@pytest.mark.parametrize(
    ("worlds", "said"),
    [("cups*x", "NAME*WEIGHT"), ("cups*0", "NAME*WEIGHT"), ("cups,", "an empty entry"),
     ("cups *3, rooms", "cups *3: write NAME*WEIGHT knob=value ..., without a space before"),
     ("hotpot file=my file.jsonl, cups", "hotpot file=my file.jsonl: write NAME*WEIGHT"),
     ("hotpot file='my file.jsonl, cups", "a quote is left open; a value with ' in it stands in"),
     ("cups, cups", "named twice"), ("mixed", "cannot hold itself"), ("cups rounds=z", "rounds=z"),
     ("mcp:python server.py tasks=t.jsonl, cups", "an MCP server has none: play it alone")],
)  # fmt: skip
def test_a_mixture_that_is_none_is_refused_in_a_sentence(worlds, said, capsys):
    with pytest.raises(SystemExit):
        check_tasks(Config(world="mixed", world_args=[f"worlds={worlds}"]))
    assert said in capsys.readouterr().err


def test_quotes_hold_a_value_with_spaces_or_commas_together():
    worlds = """text file='a, b.jsonl',cups*2 , "a b.py:W" x="c d" y=#1 folder=C:\\e"""
    assert entries(worlds) == [
        ("text", 1.0, ["file=a, b.jsonl"]), ("cups", 2.0, []),
        ("a b.py:W", 1.0, ["x=c d", "y=#1", "folder=C:\\e"]),
    ]  # fmt: skip


# --- a user's own files ---


def test_files_of_ones_own_are_read(tmp_path):
    write = lambda name, *rows: (  # noqa: E731
        (tmp_path / name).write_text("\n".join(map(json.dumps, rows))),
        str(tmp_path / name),
    )[1]
    sums = write(
        "g.jsonl", *({"question": f"{i}+1?", "answer": f"so #### {i + 1}"} for i in range(30))
    )
    pages = [["A", ["A is by B."]], ["B", ["B is from Rome."]], ["C", ["C."]]]
    facts = {"answer": "Rome", "context": pages, "supporting_facts": [["A", 0], ["B", 0]]}
    hop = write("h.jsonl", *({"question": f"where is {i}?", **facts} for i in range(30)))
    columns = {
        "context": {"title": ["A", "B", "C"], "sentences": [page for _, page in pages]},
        "supporting_facts": {"title": ["A", "B"], "sent_id": [0, 0]},
    }
    of_hub = [{"question": f"where is {i}?", **facts, **columns} for i in range(30)]
    array = write("array.json", of_hub)
    meta = write(
        "m.jsonl",
        *({"query": f"{i}+1?", "response": f"so. The answer is: {i + 1}"} for i in range(30)),
    )
    groups = lambda i: [  # noqa: E731
        {"reason": f"of {k}", "words": [f"Word{i}-{k}-{n}" for n in range(4)]} for k in range(4)
    ]
    puzzles = write(
        "c.jsonl", *({"words": [], "solution": {"groups": groups(i)}} for i in range(30))
    )
    canonical = write(
        "n.json",
        [{"answers": [{"level": k, "group": g["reason"], "members": g["words"]}
                      for k, g in enumerate(groups(i))]} for i in range(30)],
    )  # fmt: skip
    files = [("gsm8k", sums), ("gsm8k", meta), ("hotpot", hop), ("hotpot", array)]
    for name, file in (*files, ("connections", puzzles), ("connections", canonical)):
        for split in ("train", "validation", "test"):
            world = make(name, file=file)
            play(world, task_seed(split, 0), lambda w: w.expert())
            assert world.success


def test_a_folder_of_documents_is_searched(tmp_path):
    make("search")
    (tmp_path / "rome.txt").write_text("Rome was built. " * 100 + "Its founder was Romulus.")
    (tmp_path / "paris.txt").write_text("Paris is big. " * 100)
    questions = tmp_path / "q.jsonl"
    asked = [{"question": f"Who was the founder of Rome? ({i})", "answer": "Romulus",
              "document": "rome"} for i in range(30)]  # fmt: skip
    questions.write_text("\n".join(map(json.dumps, asked)))
    world = make("search", docs=str(tmp_path), questions=str(questions))
    play(world, 0, lambda w: w.expert())
    assert world.success


@pytest.mark.parametrize(
    "flags",
    ["cups rounds=many", "cups nothing=1", "cups cups=1", "frozenlake ice=2", "gsm8k file=none",
     "hotpot file=none", "textworld level=4", "babyai level=No",
     "gym id=No-v0", "search docs=x", "cups swaps=1000000000", "errand turns=1000000000",
     "frozenlake size=3000", "frozenlake slip=nan", "hanoi slack=1000000000", "hanoi discs=1",
     "bandit pulls=1000000", "wordle guesses=1000000000", "countdown largest=1000000000000",
     "sokoban shortest=90", "gym id=CartPole-v1", "gym id=Ant-v5", "gym turns=1000000000",
     "search turns=1000000000", "textworld games=1000000000", "rooms rooms"],
)  # fmt: skip
def test_a_knob_that_makes_no_world_is_refused_in_one_sentence(flags, capsys):
    name, knob = flags.split()
    make(name)
    with pytest.raises(SystemExit):
        check_tasks(Config(world=name, world_args=[knob]))
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1 and " str" not in error


def test_a_size_that_takes_minutes_to_plan_for_is_refused():
    for knobs in ({"size": 10, "boxes": 3, "walls": 0}, {"size": 4}):
        with pytest.raises(ValueError, match=r"room"):
            make("sokoban", **knobs)


@pytest.mark.parametrize(
    ("world", "text", "said"),
    [("gsm8k", '{"question": 5, "answer": "#### 5"}', "needs"),
     ("gsm8k", '{"question": "?", "answer": 5}\n{}', 'line 1: needs "question" and "answer"'),
     ("gsm8k", '{"problem": "?", "solution": "5"}', 'line 1: needs "question" and "answer"'),
     ("gsm8k", '{"query": "?"}', 'line 1: needs .* or "query" and "response"'),
     ("gsm8k", '[{"query": "?", "response": "The answer is: x"}]', "no answer in it is a number"),
     ("gsm8k", '{"query": "?", "response": "The answer is: \\\\frac{23}{7}"}', "no answer in it"),
     ("gsm8k", '{"query": "?", "response": "The answer is: (9, 9)"}', "no answer in it"),
     ("gsm8k", '{"question": "?", "answer": "Paris, since 1823 or so"}', "no answer in it"),
     ("gsm8k", "", "different tasks"),
     ("connections", '{"solution": {"groups": []}}', "four groups of four words"),
     ("connections", '{"grid": []}', "needs .*solution.* or .*answers"),
     ("connections", "[3, null]", "number 1: needs .*solution"),
     ("connections", '{"answers": [{"group": "g", "words": []}]}', "line 1: needs .*members"),
     ("connections", '{"answers": [{"group": "g", "members": "abcd"}]}', "needs .*members"),
     ("hotpot", "null", "line 1: needs"), ("hotpot", "3", "line 1: needs"),
     ("hotpot", '{"question": "?", "answer": "x", "context": {"pages": []}, '
      '"supporting_facts": []}', "line 1: needs"),
     ("hotpot", '{"question": "?", "answer": "x", "context": [["A", [1]]], '
      '"supporting_facts": []}', "line 1: needs"),
     ("hotpot", '{"question": "?", "context": []}', "a test file has no answers"),
     ("hotpot", '{"question": "?", "answer": "x", "context": ["A"], "supporting_facts": ["A"]}',
      "needs"),
     ("hotpot", '{"question": 5, "answer": "x", "context": [], "supporting_facts": []}', "texts")],
)  # fmt: skip
def test_a_file_that_holds_no_tasks_is_refused_by_what_is_wrong_in_it(world, text, said, tmp_path):
    file = tmp_path / "mine.json"
    file.write_text(text)
    with pytest.raises(ValueError, match=said) as refused:
        make(world, file=str(file))
    assert str(file) in str(refused.value) and "\n" not in str(refused.value)
    assert "Error" not in str(refused.value)


def rows_in(path: Path, rows: list) -> str:
    path.write_text("\n".join(map(json.dumps, rows)))
    return str(path)


def test_a_page_of_hotpot_may_be_one_text_and_pages_of_one_title_are_read_as_one(tmp_path):
    pages = [["A", "A is by B."], ["A", ["A is old.", "It is long."]], ["B", ["From Rome."]]]
    facts = {"answer": "Rome", "context": pages, "supporting_facts": [["A", 0], ["B", 0]]}
    rows = [{"question": f"where is {i}?", **facts} for i in range(30)]
    world = make("hotpot", file=rows_in(tmp_path / "h.jsonl", rows))
    world.reset(0)
    assert world.question.pages == {"A": "A is by B. A is old. It is long.", "B": "From Rome."}


def test_all_wordings_of_a_problem_of_metamathqa_are_in_one_split(tmp_path):
    rows = []
    for i in range(90):
        row = {"query": f"wording {i}?", "response": f"The answer is: {i}"}
        rows.append({**row, "original_question": f"problem {i // 3}?"})
    world = make("gsm8k", file=rows_in(tmp_path / "m.jsonl", rows))
    splits_of = {}
    for split in base.SPLITS:
        for i in range(100):
            wording = int(world.reset(task_seed(split, i)).split()[1][:-1])
            splits_of.setdefault(wording // 3, set()).add(split)
    assert len(splits_of) == 30 and all(len(splits) == 1 for splits in splits_of.values())


def test_problems_whose_answer_is_no_number_are_left_out_and_counted(tmp_path, said):
    rows = [{"question": f"{i}+1?", "answer": f"#### {i + 1}"} for i in range(30)]
    rows += [{"question": "half?", "answer": "#### 1/2"}, {"question": "who?", "answer": "I"}]
    file = rows_in(tmp_path / "g.jsonl", rows)
    assert len(make("gsm8k", file=file).problems) == 30
    assert said == [f"{file}: 2 of 32 problems are left out, whose answer is no number alone"]


@pytest.mark.parametrize("name", ["rome", "rome.txt"])
def test_a_document_is_named_with_or_without_its_ending(name, tmp_path, said):
    make("search")
    (tmp_path / "rome.txt").write_text("Its founder was Romulus.")
    (tmp_path / "paris.md").write_text("Paris is big.")
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "oslo.txt").write_text("Oslo is cold.")
    asked = [{"question": f"Whose is Rome? ({i})", "answer": "Romulus", "document": name}
             for i in range(30)]  # fmt: skip
    questions = rows_in(tmp_path / "q.jsonl", asked)
    world = make("search", docs=str(tmp_path), questions=questions)
    world.reset(0)
    assert world.question.document == "rome"
    unread = "2 of its files are left out: only .txt files right in it are read"
    assert said == [f"{tmp_path}: {unread}"]


def test_a_document_that_the_folder_lacks_is_refused_by_its_name(tmp_path):
    make("search")
    (tmp_path / "rome.txt").write_text("Its founder was Romulus.")
    for row, said in (
        ({"question": "?", "answer": "x", "document": "oslo.md"}, "line 1: document 'oslo.md': "),
        ({"question": "?", "answer": "x"}, 'line 1: needs "question", "answer" and "document"'),
        (None, 'line 1: needs "question", "answer" and "document"'),
    ):
        questions = rows_in(tmp_path / f"{len(row or [])}.jsonl", [row])
        with pytest.raises(ValueError, match=said):
            make("search", docs=str(tmp_path), questions=questions)


def test_a_missing_extra_is_one_sentence_with_its_install_line(monkeypatch, capsys):
    monkeypatch.setattr(base, "find_spec", lambda name: None)
    with pytest.raises(SystemExit):
        world_class("babyai")()
    assert 'pip install ".[babyai]"' in capsys.readouterr().err


# --- by hand, and demos ---


def test_a_world_is_played_by_hand_and_shows_the_experts_action():
    command = [sys.executable, "-m", "minprm.envs", "hotpot", "--seed", "1"]
    out = subprocess.run(command, input="?\nvisit nothing\nanswer never\n", text=True,
                         capture_output=True, check=True, cwd=ROOT).stdout  # fmt: skip
    assert '"name": "visit"' in out and "illegal" in out and "lost" in out


def test_a_person_calls_tools_in_short_or_in_json():
    calls = ("open a", '{"name": "open", "arguments": {"door": "a"}}')
    short, in_json = (by_hand.typed_action(Doors(), typed) for typed in calls)
    assert short == base.call("open", door="a") and in_json == calls[1]
    assert by_hand.typed_action(Doors(), '"I am done"') == "I am done"


def test_what_a_terminal_would_obey_is_shown(monkeypatch, capsys):
    class Loud(world_class("cups")):
        system = "\x1b[2J"

        def begin(self):
            return super().begin() + " \x1b]0;title\x07 \u202e"

        def act(self, action):
            return "\x1b[31m", super().act(action)[1]

        def thought(self):
            return "\x9b31m"

    typed = iter(["?", "open a", ""])
    monkeypatch.setattr("builtins.input", lambda prompt: next(typed))
    by_hand.play(Loud(), 0)
    out = capsys.readouterr().out
    assert not set(out) & set("\x1b\x07\x9b\u202e")
    assert "\\x1b[2J" in out and "\\x07 \\u202e" in out and "\\x9b" in out and "\\x1b[31m" in out


def test_the_audit_is_shown_and_written_only_when_asked(monkeypatch, tmp_path, capsys):
    told = json.loads(audit.FILE.read_text())
    monkeypatch.setattr(audit, "FILE", tmp_path / "audit.json")
    monkeypatch.setattr(audit, "audit", lambda names: told)
    for flags, written in (([], False), (["--write"], True)):
        monkeypatch.setattr(sys, "argv", ["audit", *flags])
        audit.main()
        assert "| `cups` |" in capsys.readouterr().out
        assert (tmp_path / "audit.json").exists() is written


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rooms", "hotpot"])
def test_demos_of_any_world_are_written_and_hold_no_thoughts(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    train.main(f"--world {name} --stages demos --episodes 5 --run d".split())
    demos, _ = read_demos(tmp_path / "runs/d/demos.jsonl")
    assert len({demo.task for demo in demos}) == 5
    assert all(step.thought is None for demo in demos for step in demo.steps)


def test_cups_without_a_swap_are_refused_because_no_thought_could_end_with_a_cup():
    with pytest.raises(ValueError, match="swaps from 1"):
        world_class("cups")(swaps=0)


# --- worlds that the embedded model is raised on ---


@pytest.mark.parametrize("name", [name for name in WORLDS if world_class(name).thought_mix])
def test_the_narrator_keeps_to_the_worlds_words_and_its_kinds_are_known(name):
    for seed in range(100):
        world, rng, done = make(name), random.Random(seed), False
        said = [world.reset(seed)]
        while not done:
            kind = rng.choice(list(world.thought_mix))
            thought, action = world.narrate(kind, rng)
            assert world.classify(thought) != "?" and world.classify(world.thought()) != "?"
            assert world.classify(thought + " .") == "?"
            if name == "cups":
                assert world.classify(thought) == kind
            said += [thought, action, world.thought()]
            observation, _, done, _ = world.step(action)
            said.append(observation)
        world.reset(seed)
        said.append(world.step("no action")[0])
        assert set(" ".join(said).split()) <= set(world.words)


def test_what_is_no_action_is_illegal_earns_nothing_and_changes_nothing():
    world = make("errand")
    world.reset(0)
    observation, reward, done, info = world.step("fly")
    assert (observation, reward, done) == ("illegal", 0.0, False)
    assert info == {"valid": False, "effective": False}
    assert world.step("left")[3] == {"valid": True, "effective": True}


def test_a_call_with_other_arguments_is_told_those_that_the_tool_takes():
    with pytest.raises(base.Illegal, match="visit takes title"):
        called(base.call("visit", page="Rome"), make("hotpot").tools)


@pytest.mark.parametrize("action", ["The Louvre is in Paris.", None, "[1]"])
def test_what_is_no_call_in_a_world_with_tools_is_illegal_and_answered_by_the_user(action):
    """A tool's message answers a call: many templates lose it, or fail, where there was none."""
    pytest.importorskip("bm25s", reason='needs the extra: pip install ".[search]"')
    world = world_class("search")()
    e = Episode(world, state=[{"role": "user", "content": world.reset(0)}])
    act(e, None, action)
    assert e.state[0]["role"] == "user" and "make exactly one tool call" in e.state[0]["content"]
    assert e.steps[0].action == (action or "") and not e.infos[0]["valid"]
    act(e, None, world.expert())
    assert e.state[0]["role"] == "tool"
