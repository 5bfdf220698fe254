"""What experiments ask about a thought in cups: the cup it names, and where it goes wrong."""

from itertools import zip_longest

from minprm.envs.cups import Cups
from minprm.model.agent import Agent
from minprm.play import Episode

CUPS = "abcde"


def last_cup(text: str) -> str:
    """The cup that a thought names last.

    >>> last_cup("ball under a . swap a b b"), last_cup("ball")
    ('b', '')
    """
    return next((word for word in reversed(text.split()) if word in CUPS), "")


def after(cup: str, swaps: list[list[str]]) -> str:
    """Where a ball is after the swaps, if it was under this cup.

    >>> after("a", [["a", "b"], ["c", "b"], ["d", "e"]])
    'c'
    """
    for one, other in swaps:
        cup = {one: other, other: one}.get(cup, cup)
    return cup


def fate(thought: str, right: str) -> str:
    """How a thought leaves the right one first. No thought, or one that was cut, is none.

    >>> right = "ball under a . swap a b b swap c d b"
    >>> fate("ball under a . swap a b b", right), fate("ball under a . swap a b a swap", right)
    ('stops early', 'loses the ball')
    >>> fate("ball under c . swap c d d", right), fate("ball under a . swap c d a", right)
    ('wrong start', 'another swap')
    """
    if not thought:
        return "none"
    if thought == right:
        return "right"
    pairs = list(zip_longest(thought.split(), right.split()))
    place, (word, wanted) = next((i, pair) for i, pair in enumerate(pairs) if pair[0] != pair[1])
    if word is None:
        return "stops early"
    if wanted is None:
        return "runs on"
    if word == ".":
        return "restates"
    if place < 4:
        return "wrong start"
    return ("no swap", "another swap", "another swap", "loses the ball")[place % 4]


def rounds(e: Episode, world: Cups) -> list[dict]:
    """Of each round: was the right cup opened, or the one that the thought names last; and how did
    the thought go wrong?"""
    world.reset(e.world.seed)
    found = []
    for step in e.steps:
        thought = step.thought or ""
        right = step.action == world.expert()
        follows = step.action == f"open {last_cup(thought)}"
        told = fate(thought, world.thought())
        found.append({"right": right, "follows": follows, "fate": told})
        world.step(step.action)
    return found


def written(agent: Agent, prompts: list[list[int]], temperature: float) -> list[list[int]]:
    """What is written after each prompt, up to the end of the thought."""
    limit, stop = agent.thought_tokens, agent.chat.stop
    found = agent.sampler.generate(prompts, 1, limit, stop, temperature, seed=0)
    return [completion.ids[:-1] for (completion,) in found]
