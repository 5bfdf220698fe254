"""python evaluate.py CHECKPOINT [CHECKPOINT ...] --world cups: success by real rollouts.

A checkpoint may think or not: each turn it decides for itself. Beside it, on the same tasks, random
play and the expert. With several samples a task, pass@k in closed form; with several checkpoints a
chart; with --transcripts every episode as a line of JSONL, with --show some of them on screen.
"""

import json
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import torch
import tyro
from transformers import AutoTokenizer

from minprm.constants import Config, Engine, fail
from minprm.envs import make_world
from minprm.envs.audit import FILE as AUDIT
from minprm.envs.audit import table as worlds_table
from minprm.model.policy import load_model, pretrained
from minprm.model.sampler import make_sampler
from minprm.play import Episode, evaluation, reference_rows, summary
from minprm.run.cli import read_flags
from minprm.run.dry_run import GREEN, GREY, PLAIN, YELLOW
from minprm.run.log import chart, details, pass_at_k, table
from minprm.text.chat import Chat


@dataclass
class Evaluation:
    """Plays checkpoints on held-out tasks, and prints success beside random and expert."""

    checkpoints: Annotated[list[str], tyro.conf.Positional]  # directories of runs, or hub ids
    worlds: bool = False  # list all worlds, with random and expert success, and stop
    world: str = "cups"  # name of a world in minprm/envs
    world_args: list[str] = field(default_factory=list)  # its knobs, e.g. rounds=1 swaps=5
    episodes: int = 400  # tasks played
    samples: int = 1  # times that each task is played; pass@k is reported for k up to it
    split: Literal["test", "validation"] = "test"  # which tasks
    temperature: float = 0.0  # 0: greedy
    seed: int = 0  # of the sampler's noise, above temperature 0
    think: bool = True  # a turn may think first; --no-think opens its action at once
    thought_tokens: int = 32  # a longer thought is cut
    action_tokens: int = 8  # longest action, its tags included
    context: int = 4096  # longest prompt with its answer; an episode that outgrows it is lost
    layout: Literal["auto", "tags", "think", "tool"] = "auto"  # what ends a thought (chat.py)
    sampler: Literal["auto", "vllm", "transformers"] = "auto"  # auto: vllm if there is a GPU
    engine: Engine = field(default_factory=Engine)
    transcripts: str = ""  # file to write every episode to, JSONL
    show: int = 0  # episodes to print: state grey, thought green, action yellow
    chart: str = ""  # file for a bar chart, PNG


def main(argv: list[str]) -> None:
    flags = read_flags(Evaluation, argv, "evaluate.py")
    if flags.worlds:
        print(worlds_table(json.loads(AUDIT.read_text())))
        return
    if not flags.checkpoints:
        fail("name at least one checkpoint: python evaluate.py checkpoints/RUN/ARM-SEED")
    if min(flags.episodes, flags.samples) < 1 or flags.temperature < 0:
        fail("--episodes and --samples are at least 1, --temperature at least 0")
    if flags.samples > 1 and not flags.temperature:
        fail("--samples above 1 needs a --temperature above 0: greedy samples are all the same")
    shared = ("world", "world_args", "episodes", "split", "think", "thought_tokens",
              "action_tokens", "context")  # fmt: skip
    cfg = Config(**{name: getattr(flags, name) for name in shared})
    make_world(cfg)
    torch.set_flush_denormal(True)
    names = [Path(path).name for path in flags.checkpoints]
    rows = {}
    for path, name in zip(flags.checkpoints, names, strict=True):
        began = time.perf_counter()
        episodes = played(path, cfg, flags)
        rows[name if names.count(name) == 1 else path] = [
            {"seed": flags.seed, "episodes": cfg.episodes, **summary(episodes),
             **passes(episodes, flags.samples), "seconds": time.perf_counter() - began}
        ]  # fmt: skip
        report(path, episodes, flags)
    lines = reference_rows(cfg, flags.seed)
    ladder = {"random": [lines["random"]], **rows, "expert": [lines["expert"]]}
    print(table(ladder), details(ladder), sep="\n\n")
    if flags.chart:
        chart(ladder, Path(flags.chart), f"{cfg.world}, {cfg.episodes} {cfg.split} episodes")


def played(path: str, cfg: Config, flags: Evaluation) -> list[Episode]:
    """All episodes of one checkpoint; the samples of a task stand together."""
    model, tokenizer = load_model(path), pretrained(AutoTokenizer, path)
    chat = Chat(tokenizer, flags.layout, bool(make_world(cfg).tools))
    sampler = make_sampler(model, flags.sampler, flags.engine, cfg.context)
    return evaluation(cfg, chat, sampler, flags.temperature, flags.seed, flags.samples)


def passes(episodes: list[Episode], n: int) -> dict[str, float]:
    """Mean pass@k over tasks, k = 1, 2, 4 … n."""
    won = [sum(e.world.success for e in episodes[i : i + n]) for i in range(0, len(episodes), n)]
    ks = [k for k in (2**j for j in range(1, 20)) if k <= n]
    return {f"pass@{k}": sum(pass_at_k(n, c, k) for c in won) / len(won) for k in ks}


def report(path: str, episodes: list[Episode], flags: Evaluation) -> None:
    """Transcripts, to a file and to the screen."""
    if flags.transcripts:
        with open(flags.transcripts, "a") as file:
            for e in episodes:
                steps = [{"state": s.state, "thought": s.thought, "action": s.action,
                          "reward": s.reward} for s in e.steps]  # fmt: skip
                line = {"checkpoint": path, "success": e.world.success, "steps": steps}
                file.write(json.dumps(line) + "\n")
    for e in episodes[: flags.show]:
        for s in e.steps:
            print(f"{GREY}{s.observation()}\n{GREEN}{s.thought or ''}\n{YELLOW}{s.action}{PLAIN}")
        print("won\n" if e.world.success else "lost\n")


if __name__ == "__main__":
    main(sys.argv[1:])
