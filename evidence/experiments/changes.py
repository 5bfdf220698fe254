"""Thoughts that a model of cups drew, and the same thoughts changed, for state.py.

Ids stay as they were drawn: a thought is cut between two of them, or one cup is put for another.
"""

import random
from typing import NamedTuple

from evidence.experiments.traces import CUPS, after, last_cup, written
from minprm.constants import Config
from minprm.envs import make_world
from minprm.envs.base import task_seed
from minprm.model.agent import Agent
from minprm.play import begin


class Drawn(NamedTuple):
    """A first round, and the thought that was drawn for it."""

    state: list[int]
    swaps: list[list[str]]
    right: str  # the cup to open
    thought: list[int]
    text: str  # of the thought
    kind: str


Case = tuple[Drawn, list[int] | None, str]  # a state, a thought for it, the cup that this names


def drawn(agent: Agent, cfg: Config) -> list[Drawn]:
    """A thought for the first round of each test task, at temperature 1."""
    episodes = [begin(make_world(cfg), task_seed(cfg.split, i), 0) for i in range(cfg.episodes)]
    states = [agent.state_ids(e.state, [], None)[0] for e in episodes]
    found = written(agent, [state + agent.chat.think for state in states], 1.0)
    turns = []
    for e, state, thought in zip(episodes, states, found, strict=True):
        text = agent.chat.text(thought)
        kind = e.world.classify(text)
        turns.append(Drawn(state, e.world.swapped, e.world.end, thought, text, kind))
    return turns


def changed(agent: Agent, turns: list[Drawn]) -> dict[str, list[Case]]:
    """By the change: the cases. Changed are thoughts that follow a ball, right or wrong; and they
    count where they name a wrong cup then, so that both cannot be opened."""
    traces = [turn for turn in turns if turn.kind in ("faithful", "wrong")]
    pairs = zip(traces, traces[1:] + traces[:1], strict=True)
    found = {"of another state": [(turn, z.thought, last_cup(z.text)) for turn, z in pairs]}
    for k in range(4):
        found[f"cut after {k} swaps"] = [_cut(turn, k) for turn in traces]
    found["last cup edited"] = [_edited(agent, turn, 4) for turn in traces]
    found["edited after 2 swaps, written on"] = _written_on(agent, traces, 2)
    for change, cases in found.items():
        found[change] = [case for case in cases if case[2] != case[0].right]
    own = [(turn, turn.thought, last_cup(turn.text)) for turn in turns]
    return {"none": [(turn, None, turn.right) for turn in turns], "its own": own, **found}


def _cut(turn: Drawn, k: int) -> Case:
    """The thought up to its k-th swap; its first four words say where the ball starts."""
    words = turn.text.split()[: 4 + 4 * k]
    return turn, turn.thought[: len(words)], last_cup(" ".join(words))


def _edited(agent: Agent, turn: Drawn, k: int) -> Case:
    """The same, with another cup at its end, which does not lead to the right one."""
    _, thought, cup = _cut(turn, k)
    rest = turn.swaps[k:]
    others = [c for c in CUPS if c != cup and after(c, rest) != turn.right]
    cup = random.Random(turn.text).choice(others)
    return turn, thought[:-1] + agent.chat.content(cup), after(cup, rest)


def _written_on(agent: Agent, traces: list[Drawn], k: int) -> list[Case]:
    """The model goes on with the edited thought, by its likeliest words."""
    edited = [_edited(agent, turn, k) for turn in traces]
    prompts = [turn.state + agent.chat.think + thought for turn, thought, _ in edited]
    more = written(agent, prompts, 0.0)
    return [(turn, z + rest, cup) for (turn, z, cup), rest in zip(edited, more, strict=True)]
