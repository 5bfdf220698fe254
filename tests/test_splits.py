"""One rule for splits and one for luck: no test task was trained on, and a group's luck differs.

Tasks are compared by what is seen of them, never by their seeds.
"""

import json
import random
import sys
from functools import partial

import pytest

from evidence.audit import different, expert_sees
from minprm.arms import demos, ladder
from minprm.commands.train import main as train
from minprm.constants import Config, Tiny
from minprm.envs import WORLDS, check_tasks, make_world, world_class
from minprm.envs.base import SPLITS, World, task_seed, tasks_split
from minprm.envs.cups import Cups
from minprm.load import tiny
from minprm.look import looks
from minprm.model.agent import make_player
from minprm.model.sampler import Sampler
from minprm.play import expert_demo, play
from shared.worlds import SEEDS, make

pytestmark = pytest.mark.extras
ALL = pytest.mark.parametrize("name", WORLDS)
# with knobs that leave few tasks, so that an overlap could not be missed
SMALL = {"cups": {"rounds": 1, "swaps": 1}, "errand": {"size": 3}, "hanoi": {"discs": 3},
         "rooms": {"rooms": 4}, "frozenlake": {"size": 3, "path": 2},
         "countdown": {"numbers": 2, "largest": 9}, "reverse_text": {"words": 1}}  # fmt: skip


@ALL
def test_no_task_is_in_two_splits(name):
    world, seen, tasks = make(name, **SMALL.get(name, {})), {}, {}
    for split in SPLITS:
        seeds = [task_seed(split, i) for i in range({"babyai": 5, **SEEDS}.get(name, 60))]
        seen[split] = {expert_sees(world, seed) for seed in seeds}
        tasks[split] = set()
        for seed in seeds:
            world.reset(seed)
            tasks[split].add(world.task())
    for one, other in (("train", "validation"), ("train", "test"), ("validation", "test")):
        assert world.few_tasks or seen[one].isdisjoint(seen[other])
        assert world.few_tasks or tasks[one].isdisjoint(tasks[other])


def test_a_fifth_of_all_tasks_is_for_the_test_and_training_sees_all_the_rest():
    world = make("hanoi", discs=3)
    counts = {split: different(world, split, 400) for split in SPLITS}
    assert sum(counts.values()) == 3**3 - 1 and min(counts.values()) >= 2
    shares = [tasks_split(str(i)) for i in range(10_000)]
    assert shares.count("train") / 10_000 == pytest.approx(0.6, abs=0.02)
    assert shares.count("test") / 10_000 == pytest.approx(0.2, abs=0.02)


def test_worlds_with_few_tasks_say_so():
    few = {name for name in WORLDS if make(name).few_tasks}
    assert few == {"bandit", "gym"}


def test_a_world_without_a_task_for_a_split_says_so_at_the_start(capsys):
    with pytest.raises(SystemExit) as stop:
        check_tasks(Config(world="hanoi", world_args=["discs=1"]))
    error = capsys.readouterr().err
    assert stop.value.code == 2 and error.count("\n") == 1 and "knobs" in error


# --- a user's files ---


def rows_of(kind: str, n: int) -> list:
    """n different tasks, each twice, in the format of a world's file."""
    pages = [["A", ["A is by B."]], ["B", ["B is from Rome."]]]
    made = {
        "gsm8k": lambda i: {"question": f"{i}+1?", "answer": f"so #### {i + 1}"},
        "hotpot": lambda i: {"question": f"where is {i}?", "answer": "Rome", "context": pages,
                             "supporting_facts": [["A", 0], ["B", 0]]},
        "questions": lambda i: {"question": f"who is {i}?", "answer": "Rome", "document": "a"},
        "text": lambda i: {"prompt": f"p{i}", "reference": f"r{i}"},
    }  # fmt: skip
    return [made[kind](i % n) for i in range(2 * n)]


def world_of(kind: str, tmp_path, n: int) -> World:
    """The world that plays such a file."""
    file = tmp_path / f"{n}.{kind}"
    file.write_text("\n".join(map(json.dumps, rows_of(kind, n))))
    if kind == "questions":
        (tmp_path / "a.txt").write_text("Rome was built.")
        return make("search", docs=str(tmp_path), questions=str(file))
    return make(kind, file=str(file))


FILES = ["gsm8k", "hotpot", "questions", "text"]


@pytest.mark.parametrize("kind", FILES)
def test_no_row_of_a_users_file_is_in_two_splits_and_every_row_is_in_one(kind, tmp_path):
    world, seen = world_of(kind, tmp_path, 40), {}
    for split in SPLITS:
        seen[split] = set()
        for i in range(300):
            world.reset(task_seed(split, i))
            seen[split].add(world.task())
    assert sum(map(len, seen.values())) == len(set.union(*seen.values())) == 40
    assert len(seen["train"]) > len(seen["test"]) >= 2


@pytest.mark.parametrize("kind", FILES)
def test_a_file_that_leaves_a_split_empty_is_refused(kind, tmp_path):
    with pytest.raises(ValueError, match="none of its 1 different tasks"):
        world_of(kind, tmp_path, 1)


# --- what a run plays ---


@pytest.mark.slow
def test_what_a_run_trains_on_is_never_what_it_is_tested_on(tmp_path, monkeypatch):
    """Every task that is begun, by what is seen of it, and whether it was begun for a score."""
    seen = {"training": [], "held out": [], "gate": [], "test": [], "looks": [], "beside": []}
    phase, reset = ["training"], World.reset

    def watched(world, seed, noise=0):
        first = reset(world, seed, noise)
        seen[phase[0]].append(first)
        return first

    def during(name: str, function):
        def wrapped(*args, **kwargs):
            phase.append(phase[0])
            phase[0] = name
            found = function(*args, **kwargs)
            phase[0] = phase.pop()
            return found

        return wrapped

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(World, "reset", watched)
    monkeypatch.setattr(ladder, "evaluate", during("test", ladder.evaluate))
    monkeypatch.setattr(ladder, "reference_rows", during("test", ladder.reference_rows))
    monkeypatch.setattr(looks, "evaluate", during("looks", looks.evaluate))
    # what the expert would have done in episodes that are kept: the same tasks, begun once more
    monkeypatch.setattr(ladder, "of_world", during("beside", ladder.of_world))
    monkeypatch.setattr(tiny, "gate", during("gate", tiny.gate))
    logs = {"train": demos.expert_demos, "validation": during("held out", demos.expert_demos)}
    monkeypatch.setattr(demos, "expert_demos", lambda cfg, split, *n: logs[split](cfg, split, *n))
    monkeypatch.setattr("minprm.commands.train.check_tasks", lambda cfg: None)
    flags = "--preset smoke --world-args rounds=1 swaps=2 cups=4 --run r --arms action_sft rl"
    flags += " --no-gate --tiny.updates 20 --episodes 60 --num-demos 40 --rl.updates 2 --jobs 1"
    train(flags.split())
    assert len(seen["training"]) > 20 * 16 + 40 + 2 * 8
    assert len(seen["held out"]) == 16
    assert seen["beside"] and set(seen["beside"]) <= set(seen["test"])
    assert len(seen["gate"]) == tiny.GATE_TASKS and len(seen["test"]) == 4 * 60
    assert len(set(seen["training"])) > 200  # of 346: without the rule most tests would be met
    assert set(seen["training"]).isdisjoint(seen["test"])
    assert set(seen["training"]).isdisjoint(seen["gate"])
    assert set(seen["training"]).isdisjoint(seen["held out"])
    assert seen["looks"] and set(seen["training"]).isdisjoint(seen["looks"])
    assert set(seen["test"]).isdisjoint(seen["looks"])
    assert set(seen["test"]).isdisjoint(seen["held out"])


# --- luck ---


def at_random(world: World, seed: int, noise: int) -> list[str]:
    """All that is seen in an episode of random play, whose own choices are always the same."""
    rng, done, seen = random.Random(0), False, [world.reset(seed, noise)]
    while not done:
        observation, _, done, _ = world.step(rng.choice(world.actions()))
        seen.append(observation)
    return seen


@ALL
def test_luck_changes_neither_the_task_nor_what_is_seen_first_and_can_be_had_again(name):
    world = make(name)
    for i in range(SEEDS.get(name, 5)):
        seen = at_random(world, i, 3)
        assert at_random(make(name), i, 3) == seen
        tasks = set()
        for noise in range(4):
            assert world.reset(i, noise) == seen[0]
            tasks.add(world.task())
        assert len(tasks) == 1


@pytest.mark.parametrize(
    "name", [pytest.param("frozenlake", marks=pytest.mark.slow), "bandit", "gym"]
)
def test_episodes_of_one_task_have_luck_of_their_own(name):
    world, differ = make(name, **({"slip": 0.67} if name == "frozenlake" else {})), 0
    for seed in range(20):
        firsts = set()
        for noise in range(8):
            world.reset(seed, noise)
            firsts.add(world.step(world.expert())[0])
        differ += len(firsts) > 1
    assert differ >= 12  # 200 of 200 groups agreed where luck came from the task's seed


@pytest.mark.slow
def test_a_group_and_every_sample_of_a_task_are_given_luck_of_their_own(monkeypatch):
    given = []
    reset = World.reset

    def watched(world, seed, noise=0):
        given.append((seed, noise))
        return reset(world, seed, noise)

    monkeypatch.setattr(World, "reset", watched)
    cfg = Config(world="cups", world_args=["rounds=1"])
    model, tokenizer = tiny.untrained(make_world(cfg), Tiny(), 0)
    player = make_player(tokenizer, Sampler(model), cfg, tools=[])
    for noise in (7, 7, 70_000):
        play(player, partial(make_world, cfg), [1, 1, 1, 2], noise)
    groups = [given[i : i + 4] for i in range(0, 12, 4)]
    assert groups[0] == groups[1] and len(set(groups[0])) == 4
    assert not set(groups[0]) & set(groups[2])
    assert [seed for seed, _ in groups[0]] == [1, 1, 1, 2]


def test_every_log_of_the_expert_has_luck_of_its_own():
    world = make("bandit", pulls=20)
    logs = {str([s.state for s in expert_demo(world, i).steps]) for i in range(20)}
    assert len(logs) == 20


# --- the embedded model ---


def test_a_world_that_was_played_is_the_same_to_the_cache_and_other_code_is_not(tmp_path):
    def key(world, seed=0, micro_tokens=100):
        return tiny.cache_key(world, Tiny(), seed, micro_tokens)

    for name in (name for name in WORLDS if world_class(name).thought_mix):
        played = make(name)
        played.reset(0)
        assert key(played) == key(make(name))
    known = [key(Cups()), key(Cups(swaps=5)), key(Cups(), seed=1), key(Cups(), micro_tokens=99)]
    file, found = tmp_path / "mine.py", {}
    for more in ("", "# another\n"):
        file.write_text(f"from minprm.envs.cups import Cups\nclass Mine(Cups): pass\n{more}")
        code = compile(file.read_text(), file, "exec")
        exec(code, found)
        found["Mine"].__module__ = "mine"
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(sys.modules, "mine", type("M", (), {"__file__": str(file)}))
            known.append(key(found["Mine"]()))
    assert len(set(known)) == len(known)


@pytest.mark.slow
def test_of_two_processes_that_raise_one_model_the_first_one_is_kept(tmp_path):
    """The second one finds, when it saves, that the folder came to be meanwhile."""
    policy = tiny.raised(Cups(), Tiny(updates=1), 0, 4096, tmp_path)
    (path,) = tmp_path.iterdir()
    before = {file.name: file.stat().st_mtime_ns for file in path.iterdir()}
    tiny.keep(policy, path)
    assert {file.name: file.stat().st_mtime_ns for file in path.iterdir()} == before
    assert [*tmp_path.iterdir()] == [path]
