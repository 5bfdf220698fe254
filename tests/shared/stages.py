"""One stage at a time: a small configuration, a log in memory, and what was learned."""

import json
from functools import partial

import torch

from minprm.commands.presets import PRESETS
from minprm.constants import RL, SFT, Config, Optim, Tiny
from minprm.data import Demo
from minprm.envs import make_world
from minprm.envs.base import task_seed
from minprm.envs.cups import Cups
from minprm.look.log import Log
from minprm.look.screen import Screen
from minprm.model.policy import Policy
from minprm.play import expert_demo, play
from minprm.stages.sft import to_samples
from minprm.text.chat import Chat
from minprm.trainer import Run
from shared.policies import agent, policy

CUPS = Config(world_args=["rounds=3", "swaps=1"], thought_tokens=8, action_tokens=3)


def hardly_trained() -> tuple[Policy, Chat, list[Demo]]:
    """A policy that knows a little of the form of a turn, so that some of its thoughts end and some
    are cut; its chat, and the two logs that it learned from."""
    p = policy()
    demos = [expert_demo(Cups(rounds=3, swaps=1), task_seed("train", i)) for i in range(2)]
    samples = [sample for demo in demos for sample in to_samples(demo, agent(p, CUPS))]
    for _ in range(8):
        p.update(samples, SFT(), lr=3e-3)
    return Policy(p.model, p.tokenizer, 10_000), Chat(p.tokenizer), demos


def played(p: Policy, cfg: Config, seeds: list[int]) -> list:
    """Episodes of these tasks."""
    return play(agent(p, cfg), partial(make_world, cfg), seeds, noise=0)


CFG = Config(
    world_args=["rounds=2", "swaps=1", "cups=3"], thought_tokens=12, num_demos=4, held_out=2,
    gate=False, save_every=100,
    tiny=Tiny(dim=32, updates=150, batch=16, mixture=PRESETS["smoke"].tiny.mixture),
    eval_tasks=0, watch=0,  # what is measured and kept beside training has its own tests
    optim=Optim(warmup=0, max_grad_norm=1e9), rl=RL(lr=3e-3, updates=5, batch=3, group=4),
)  # fmt: skip


def clockless(line: dict) -> dict:
    """A line of metrics without what a clock measured."""
    return {k: v for k, v in line.items() if not k.startswith(("time/", "speed/"))}


class Lines(Log):
    """A log that is kept in memory."""

    def __init__(self):
        self.lines = []
        self.screen = Screen()

    def metrics(self, seed, stage, update, stats):
        stats = json.loads(json.dumps(stats))  # as the real one: nothing but plain numbers
        self.lines.append(clockless(stats))

    def rewind(self, seed, stage, update):
        pass

    def samples(self, seed, stage, update, groups):
        json.dumps(groups)


def log_of(run: Run) -> Log:
    """The log among those that listen to the run."""
    return next(listener for listener in run.listeners if isinstance(listener, Log))


def weights(run: Run) -> torch.Tensor:
    return torch.cat([p.flatten() for p in run.agent.policy.weights().values()])


def doubles(found: dict[str, torch.Tensor]) -> list[tuple[str, str]]:
    """Settings that ended with the very same numbers."""
    names = list(found)
    pairs = ((a, b) for i, a in enumerate(names) for b in names[:i])
    return [(a, b) for a, b in pairs if torch.equal(found[a], found[b])]
