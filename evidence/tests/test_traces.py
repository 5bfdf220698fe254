"""What experiments on thoughts ask: where one goes wrong, and what a changed one names."""

import doctest

import pytest

from evidence.experiments import beyond_errand, state, traces, walks
from evidence.experiments.changes import Drawn, changed
from evidence.experiments.models import Lengths
from minprm.constants import Config
from minprm.envs.base import task_seed
from minprm.envs.cups import Cups
from minprm.envs.errand import Errand
from minprm.play import act, begin
from shared.policies import agent, policy


@pytest.fixture(scope="module")
def asked():
    return agent(policy(), Config())


@pytest.fixture(scope="module")
def turns(asked) -> list[Drawn]:
    """First rounds with the thoughts of the expert."""
    found = []
    for i in range(20):
        e = begin(Cups(), task_seed("validation", i), 0)
        text = e.world.thought()
        state_ids = asked.state_ids(e.state, [], None)[0]
        thought = asked.chat.content(text)
        found.append(Drawn(state_ids, e.world.swapped, e.world.end, thought, text, "faithful"))
    return found


def test_the_examples_hold():
    assert doctest.testmod(traces) == (0, 5)
    assert doctest.testmod(state) == (0, 1)
    assert doctest.testmod(walks) == (0, 4)


def test_a_round_is_told_by_its_thought_and_its_action():
    e = begin(Cups(), task_seed("validation", 0), 0)
    act(e, e.world.thought(), e.world.expert())
    act(e, e.world.thought(), "open z")
    act(e, None, e.world.expert())
    told = traces.rounds(e, Cups())
    assert [one["right"] for one in told] == [True, False, True]
    assert [one["follows"] for one in told] == [True, False, False]
    assert [one["fate"] for one in told] == ["right", "right", "none"]


def test_every_changed_thought_names_a_wrong_cup(asked, turns):
    found = changed(asked, turns)
    for change, cases in found.items():
        if change not in ("none", "its own"):
            assert all(named != turn.right for turn, _, named in cases)
    assert all(named == turn.right for turn, _, named in found["its own"])
    assert len(found["last cup edited"]) == len(found["none"]) == len(turns)


def test_a_changed_thought_keeps_the_ids_around_the_change(asked, turns):
    found = changed(asked, turns)
    for turn, thought, named in found["last cup edited"]:
        assert thought == turn.thought[:-1] + asked.chat.content(named)
    for turn, thought, _ in found["cut after 2 swaps"]:
        assert thought == turn.thought[:12]
    for turn, thought, named in found["edited after 2 swaps, written on"]:
        assert thought[:11] == turn.thought[:11]
        (cup,) = asked.chat.text(thought[11:12]).split()
        assert traces.after(cup, turn.swaps[2:]) == named


def test_lengths_differ_between_the_rounds_of_a_task():
    e = begin(Lengths(rounds=30), task_seed("validation", 0), 0)
    seen = set()
    while not e.done:
        seen.add(e.world.swaps)
        act(e, None, e.world.expert())
    assert seen == set(range(2, 9))


def walk(give_up: bool) -> list[tuple[str, bool]]:
    """What is told of a walk to two cells that thinks rightly; it may stand still after one."""
    e = begin(Errand(waypoints=2), task_seed("validation", 0), 0)
    while not e.done:
        lost = give_up and e.world.index == 1
        act(e, None if lost else e.world.thought(), "left" if lost else e.world.expert())
    return walks.first_thoughts(e, Errand(waypoints=2))


def test_a_walk_is_told_cell_by_cell():
    assert walk(give_up=False) == [("right", True), ("right", True)]
    assert walk(give_up=True) == [("right", True), ("none", False)]


def test_walks_differ_in_how_many_cells_they_visit():
    seen = set()
    for i in range(20):
        world = begin(walks.Walks(), task_seed("validation", i), 0).world
        assert len(world.goals) == world.waypoints
        seen.add((world.waypoints, world.turns))
    assert seen == {(1, 16), (2, 32), (3, 48)}


def test_a_cell_counts_the_walks_that_came_so_far(monkeypatch):
    told = [[("right", True), ("none", False)], [("right", True), ("right", True)]]
    told += [[("none", False)], [("wrong start", False)]]
    monkeypatch.setattr(beyond_errand, "played", lambda path, cells: (0.25, told))
    row = beyond_errand.measured(["one seed", "another"], 3)
    assert row["values"] == [0.25, 0.25]
    assert [found["values"] for found in row["found"]] == [[0.5, 0.5], [0.5, 0.5]]
    assert row["fates"][0] == {"right": 0.5, "none": 0.25, "wrong start": 0.25}
    assert row["fates"][1] == {"none": 0.5, "right": 0.5}
