"""Bases that are raised on lessons of an experiment's own, and not on the narrator of one world."""

from collections.abc import Callable
from pathlib import Path

from minprm.commands.train import CHECKPOINTS
from minprm.constants import Config, Optim, Tiny, Training
from minprm.data import Sample
from minprm.envs.base import World
from minprm.load.threads import set_threads
from minprm.load.tiny import learning_rate, untrained
from minprm.model.policy import Policy, schedule
from minprm.text.chat import Chat


def raised_on(
    name: str, world: World, cfg: Tiny, seed: int, lessons: Callable[[int, Chat], list[Sample]]
) -> Path:
    """Where the base of this name is, which knows the words of `world`. It is raised on the lessons
    of each update if it is not there."""
    path = CHECKPOINTS / name
    if not path.exists():
        set_threads("tiny")
        policy = Policy(*untrained(world, cfg, seed), Config().micro_tokens)
        optim, chat = Optim(warmup=20, decay="linear"), Chat(policy.tokenizer)
        rate = schedule(learning_rate(cfg), cfg.updates, optim)
        for update in range(cfg.updates):
            policy.update(lessons(update, chat), Training(), rate(update), optim=optim)
        policy.save(path)
    return path
