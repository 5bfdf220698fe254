"""Random play with a narrator who thinks aloud: all that the embedded model ever reads."""

import inspect
import random
from collections.abc import Iterator
from typing import NamedTuple

from minprm.constants import Config, Tiny, fail
from minprm.envs import make_world, pairs
from minprm.envs.base import World, task_seed
from minprm.text.chat import ORDERS


class Turn(NamedTuple):
    """One turn of an episode, as the embedded model reads it."""

    observation: str
    thought: str | None  # None: the turn has none
    action: str
    order: str  # of thought and action


def require_narrator(world: World, cfg: Tiny) -> None:
    """Exits where the embedded model cannot be raised on this world, with what the world lacks.
    One that reads nothing before its first stage needs no more than the words."""
    attributes = ["words"]
    methods = []
    if cfg.updates:
        attributes.append("thought_mix")
        methods = ["thought", "narrate", "classify"]
    lacks = [name for name in attributes if not getattr(world, name)]
    lacks += [name for name in methods if getattr(type(world), name) is getattr(World, name)]
    for knob in inspect.signature(type(world)).parameters:  # a raised model is known by them
        if not hasattr(world, knob):
            lacks.append(f"self.{knob}")
    if lacks:
        fail(
            f"the embedded model cannot be raised on {type(world).__name__}, which lacks "
            f"{', '.join(lacks)} (docs/worlds.md): name a --model"
        )


def require_mixture(cfg: Config) -> None:
    """Exits where --tiny.mixture is no mixture of the thoughts that the configured world has."""
    shares = pairs(cfg.tiny.mixture, float)
    for kind, share in shares.items():
        if not 0 <= share <= 1:
            fail(f"--tiny.mixture {kind}={share}: must be from 0 to 1")
    if shares and not sum(shares.values()):
        fail("--tiny.mixture: no share is above 0")
    kinds = make_world(cfg).thought_mix if shares and cfg.world else shares
    for kind in shares:
        if kind not in kinds:
            names = ", ".join(kinds) or "none"
            fail(f"--tiny.mixture {kind}: {cfg.world} has no such thoughts, but {names}")


def narrated(world: World, cfg: Tiny, seed: int, update: int) -> list[list[Turn]]:
    """The episodes of one update of raising. Every update has new ones."""
    rng = random.Random(f"tiny {seed} {update}")
    return [list(_episode(world, cfg, rng)) for _ in range(cfg.batch)]


def _episode(world: World, cfg: Tiny, rng: random.Random) -> Iterator[Turn]:
    mixture = pairs(cfg.mixture, float)
    if not mixture:
        mixture = world.thought_mix
    # drawn once for the whole episode, so that all of its turns are of one kind
    any_order = rng.random() < cfg.action_first
    without_thoughts = rng.random() < cfg.act_only
    observation = world.reset(task_seed("train", rng.randrange(10**9)))
    done = False
    while not done:
        (kind,) = rng.choices(list(mixture), list(mixture.values()))
        thought, action = world.narrate(kind, rng)
        if without_thoughts:
            # without a thought to obey, the action teaches the format of a turn and no skill
            thought = None
            action = rng.choice(world.actions())
        yield Turn(observation, thought, action, rng.choice(ORDERS) if any_order else "natural")
        observation, _, done, _ = world.step(action)
