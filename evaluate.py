"""python evaluate.py CHECKPOINT --world cups [--episodes 500]: success by real rollouts.

The checkpoint may think or not: each turn it decides for itself. Beside it, on the same tasks,
random play and the expert.
"""

import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import torch
import tyro
from transformers import AutoTokenizer

from minprm.chat import Chat
from minprm.constants import Config, fail, read_flags
from minprm.metrics import table
from minprm.policy import load_model
from minprm.rollout import evaluate, make_world, reference_rows
from minprm.sampler import Sampler


@dataclass
class Evaluation:
    """Plays a checkpoint on held-out tasks, and prints success beside random and expert."""

    checkpoint: Annotated[str, tyro.conf.Positional]  # directory that a run saved, or a hub id
    world: str = "cups"  # name of a world in minprm/envs
    world_args: list[str] = field(default_factory=list)  # its knobs, e.g. rounds=1 swaps=5
    episodes: int = 400  # tasks played
    split: Literal["test", "validation"] = "test"  # which tasks
    temperature: float = 0.0  # 0: greedy
    seed: int = 0  # of the sampler's noise, above temperature 0
    thought_tokens: int = 32  # a longer thought is cut
    action_tokens: int = 8  # longest action, its tags included


def main(argv: list[str]) -> None:
    flags = read_flags(Evaluation, argv, "evaluate.py")
    shared = ("world", "world_args", "episodes", "split", "thought_tokens", "action_tokens")
    cfg = Config(**{name: getattr(flags, name) for name in shared})
    make_world(cfg)
    torch.set_flush_denormal(True)
    try:
        model = load_model(flags.checkpoint)
        chat = Chat(AutoTokenizer.from_pretrained(flags.checkpoint))
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        fail(f"{flags.checkpoint} is no checkpoint that transformers loads: {reason}")
    began = time.perf_counter()
    row = evaluate(cfg, chat, Sampler(model), flags.temperature, noise=flags.seed)
    row |= {"seed": flags.seed, "seconds": round(time.perf_counter() - began, 1)}
    lines = reference_rows(cfg, flags.seed)
    name = Path(flags.checkpoint).name
    print(table({"random": [lines["random"]], name: [row], "expert": [lines["expert"]]}))


if __name__ == "__main__":
    main(sys.argv[1:])
