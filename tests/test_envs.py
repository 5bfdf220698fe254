"""What every world owes: seeds, an expert, honest rewards, and no crash."""

import itertools
import random
import subprocess
import sys

import pytest

from minprm.envs import WORLDS
from minprm.envs.base import task_seed

HOSTILE = [
    "",
    "nonsense",
    "open",
    "open z",
    "x" * 100_000,
    "<end> </act>",
    "ünï\0code",
    "forward forward",
]
ALL = pytest.mark.parametrize("name", WORLDS)


def run(world, seed, choose) -> float:
    """The return of one episode."""
    world.reset(seed)
    total, done = 0.0, False
    while not done:
        _, reward, done, _ = world.step(choose(world))
        total += reward
    return total


def observations(name: str) -> str:
    world, out = WORLDS[name](), []
    for seed in (0, 1, 2):
        rng, done = random.Random(seed), False
        out.append(world.reset(seed))
        while not done:
            observation, _, done, _ = world.step(rng.choice(world.actions()))
            out.append(observation)
    return repr(out)


@ALL
def test_the_expert_wins_every_seed_and_nobody_unsolved_earns_as_much(name):
    world, rng = WORLDS[name](), random.Random(0)
    solved = []
    for i in range(200):
        solved.append(run(world, task_seed("test", i), lambda w: w.expert()))
        assert world.success
    for i in range(300):
        total = run(world, task_seed("test", i), lambda w: rng.choice(w.actions()))
        assert world.success or total < min(solved) - 1e-9


@ALL
def test_random_play_is_measured_and_no_solution(name):
    world, rng, wins = WORLDS[name](), random.Random(0), 0
    for i in range(300):
        run(world, i, lambda w: rng.choice(w.actions()))
        wins += world.success
    assert wins / 300 < 0.25


@ALL
def test_same_seed_same_observations_in_another_process_too(name):
    code = f"from test_envs import observations; print(observations({name!r}), end='')"
    other = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        cwd=__file__.rpartition("/")[0], env={"PYTHONHASHSEED": "7"},
    )  # fmt: skip
    assert observations(name) == observations(name) == other.stdout


@ALL
@pytest.mark.parametrize("action", HOSTILE)
def test_an_illegal_action_is_told_so_and_costs_a_step(name, action):
    world = WORLDS[name]()
    world.reset(0)
    observation, reward, done, _ = world.step(action)
    assert observation.startswith("illegal") and reward == 0 and not done
    assert run(world, 0, lambda w: action) == 0 and not world.success


@ALL
def test_stepping_after_the_end_raises(name):
    world = WORLDS[name]()
    run(world, 0, lambda w: w.expert())
    with pytest.raises(RuntimeError, match="reset"):
        world.step(world.actions()[0])


@ALL
def test_the_expert_knows_what_to_do_off_its_own_path(name):
    for seed in range(50):
        world, rng = WORLDS[name](), random.Random(seed)
        world.reset(seed)
        for _ in range(2):
            assert world.expert() in world.actions()
            if world.step(rng.choice(world.actions()))[2]:
                break
        else:
            assert world.expert() in world.actions()


def test_errand_is_won_from_wherever_the_first_steps_led():
    for seed in range(100):
        world, rng = WORLDS["errand"](waypoints=2), random.Random(seed)
        world.reset(seed)
        done = False
        while not done:
            off = world.turn < 5
            done = world.step(rng.choice(world.actions()) if off else world.expert())[2]
        assert world.success


@ALL
def test_the_narrator_keeps_to_the_worlds_words_and_its_kinds_are_known(name):
    for seed in range(100):
        world, rng, done = WORLDS[name](), random.Random(seed), False
        said = [world.reset(seed)]
        while not done:
            kind = rng.choice(list(world.kinds))
            thought, action = world.babble(kind, rng)
            assert world.kind(thought) != "?" and world.kind(world.thought()) != "?"
            assert world.kind(thought + " .") == "?"
            if name == "cups":
                assert world.kind(thought) == kind
            said += [thought, action, world.thought()]
            observation, _, done, _ = world.step(action)
            said.append(observation)
        assert set(" ".join(said).split()) <= set(world.words)


def test_splits_are_disjoint_and_a_task_cannot_leave_its_own():
    ends = [(task_seed(s, 0), task_seed(s, 10**9 - 1)) for s in ("train", "validation", "test")]
    assert all(a[1] < b[0] for a, b in itertools.pairwise(ends))
    with pytest.raises(ValueError):
        task_seed("train", 10**9)
