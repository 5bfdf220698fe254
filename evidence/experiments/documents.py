"""A base that never read a good thought, for unplanted.py: what it reads, and how it is raised.

Half of what it reads are documents that narrate balls and cups, in the third person and outside any
chat. A quarter are chats of random play without thoughts. The last quarter are chats whose thoughts
are pieces of unrelated stories, and there the action obeys the last cup of the thought, right or
wrong: that an action follows from what was just said has to come from somewhere. No thought is a
piece of what a good thought would say in its state: one that is by chance gets drawn again.
"""

import random
from pathlib import Path

from evidence.experiments.lessons import raised_on
from minprm.constants import Tiny
from minprm.data import Sample
from minprm.envs.base import task_seed
from minprm.envs.cups import Cups
from minprm.load import tiny
from minprm.load.narration import Turn
from minprm.text.chat import Chat

KINDS = ("document", "document", "no thought", "unrelated thought")
# share of the documents that first list the swaps and then tell them, by the base's name
TWICE = {"once": 0.0, "twice": 0.5}


def story(rng: random.Random, most: int) -> Cups:
    """A ball and at most so many swaps: a training task of its own length."""
    world = Cups(rounds=1, swaps=rng.randint(1, most))
    world.reset(task_seed("train", rng.randrange(10**9)))
    return world


def snippet(rng: random.Random, own: str) -> str:
    """Two sentences or more of any story; never a piece of `own`, the story of this state."""
    told = story(rng, 6).thought().replace(" swap", "|swap").split("|")
    first, last = sorted(rng.sample(range(len(told) + 1), 2))
    text = " ".join(told[first:last])
    return text if last - first > 1 and text not in own else snippet(rng, own)


def lesson(rng: random.Random, chat: Chat, twice: float) -> Sample:
    """A document, which may begin in the midst of its first half, or a chat of one turn."""
    kind = rng.choice(KINDS)
    world = story(rng, 6 if kind == "document" else 4)
    listed, action = world.narrate("restate", rng)  # what is seen, and any action
    if kind == "document":
        told = world.thought() if rng.random() >= twice else f"{listed} {world.thought()}"
        ids = chat.content(told)[rng.randrange(len(told.split()) // 2) :]
        return Sample().extend(ids[:1]).extend(ids[1:], 1.0)
    thought = snippet(rng, world.thought()) if kind == "unrelated thought" else None
    action = f"open {thought[-1]}" if thought else action
    return tiny.as_sample([Turn(listed, thought, action, "natural")], chat)


def raised(name: str, seed: int) -> Path:
    """Where the base is. It is raised if it is not there."""
    cfg = Tiny(updates=1500, batch=32)
    rng = random.Random(f"unplanted {seed}")

    def lessons(update: int, chat: Chat) -> list[Sample]:
        return [lesson(rng, chat, TWICE[name]) for _ in range(cfg.batch)]

    return raised_on(f"unplanted-{name}-{seed}", Cups(), cfg, seed, lessons)
