"""minprm evaluate CHECKPOINT [CHECKPOINT ...] --world cups: success by real rollouts.

A checkpoint may think or not: each turn it decides for itself. Beside it, on the same tasks, random
play and the expert. With several samples a task, pass@k in closed form; with several checkpoints a
chart; with --transcripts every episode as a line of JSONL, with --show some of them on screen.
"""

import json
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import torch
import tyro
from transformers import AutoTokenizer

from minprm.commands.checks import check_ranges, refuse
from minprm.commands.cli import given_knobs, read_flags
from minprm.commands.dry_run import GREEN, GREY, PLAIN, YELLOW
from minprm.commands.effects import Need, no_effect, unmet
from minprm.constants import Config, Count, CountOrNone, Engine, Episodes, Temperature
from minprm.envs import check_tasks, make_world
from minprm.envs.audit import FILE as AUDIT
from minprm.envs.audit import table as worlds_table
from minprm.evaluation import evaluate, reference_rows, summary
from minprm.model.agent import make_agent
from minprm.model.check import check as check_model
from minprm.model.load import load_model, pretrained, uses_vllm
from minprm.play import Episode
from minprm.run.randomness import noise_seed
from minprm.run.table import chart, details, pass_at_k, table
from minprm.text.printable import printable


@dataclass
class Evaluation:
    """Plays checkpoints on held-out tasks, and prints success beside random and expert."""

    checkpoints: Annotated[list[str], tyro.conf.Positional]  # directories of runs, or hub ids
    worlds: bool = False  # list all worlds, with random and expert success, and stop
    world: str = "cups"  # name of a world in minprm/envs
    world_args: list[str] = field(default_factory=list)  # its knobs, e.g. rounds=1 swaps=5
    episodes: Episodes = 400  # tasks played
    samples: Count = 1  # times that each task is played; pass@2, pass@4 ... are reported up to it
    split: Literal["test", "validation"] = "test"  # which tasks
    temperature: Temperature = 0.0  # 0: greedy
    seed: CountOrNone = 0  # of random play, and of the sampler above temperature 0
    think: bool = True  # may a turn think first; --no-think opens its action at once
    thought_tokens: Count = 32  # a longer thought is cut
    action_tokens: Count = 8  # longest action, its tags included
    context: Count = 4096  # longest prompt with its answer; an episode that outgrows it is lost
    layout: Literal["auto", "tags", "think", "tool"] = "auto"  # what ends a thought (template.py)
    sampler: Literal["auto", "vllm", "transformers"] = "auto"  # auto: vllm if there is a GPU
    engine: Engine = field(default_factory=Engine)
    transcripts: str = ""  # new file to write every episode to, JSONL
    show: CountOrNone = 0  # episodes to print: state grey, thought green, action yellow
    chart: str = ""  # file for a bar chart, PNG


SHARED = ("world", "world_args", "episodes", "split", "think", "thought_tokens", "action_tokens",
          "context", "layout", "sampler", "engine")  # fmt: skip


def main(argv: list[str]) -> None:
    """The command."""
    flags = read_flags(Evaluation, argv, "minprm evaluate")
    check(flags, given_knobs(argv))
    if flags.worlds:
        print(worlds_table(json.loads(AUDIT.read_text(encoding="utf-8"))))
        return
    cfg = Config(
        eval_temperature=flags.temperature, **{name: getattr(flags, name) for name in SHARED}
    )
    check_tasks(cfg)
    torch.set_flush_denormal(True)
    names = [Path(path).name for path in flags.checkpoints]
    rows = {}
    for path, name in zip(flags.checkpoints, names, strict=True):
        began = time.perf_counter()
        episodes = played(path, cfg, flags)
        row = {"seed": flags.seed, "episodes": cfg.episodes, **summary(episodes)}
        row |= passes(episodes, flags.samples)
        row["seconds"] = time.perf_counter() - began
        rows[name if names.count(name) == 1 else path] = [row]
        report(path, episodes, flags)
    lines = reference_rows(cfg, flags.seed)
    ladder = {"random": [lines["random"]], **rows, "expert": [lines["expert"]]}
    print(table(ladder), details(ladder), sep="\n\n")
    if flags.chart:
        chart(ladder, Path(flags.chart), f"{cfg.world}, {cfg.episodes} {cfg.split} episodes")


def check(flags: Evaluation, given: set[str]) -> None:
    """Refuses, before anything is loaded, what cannot be meant; `given` are the knobs that were
    set."""
    check_ranges(flags)
    refuse(flags.worlds and (flags.checkpoints or given != {"worlds"}), "--worlds stands alone")
    refuse(
        not flags.worlds and not flags.checkpoints,
        "name at least one checkpoint: minprm evaluate checkpoints/RUN/ARM-SEED",
    )
    for path in flags.checkpoints:
        refuse(flags.checkpoints.count(path) > 1, f"{path} is named twice")
    refuse(
        flags.samples > 1 and not flags.temperature,
        "--samples above 1 needs a --temperature above 0: greedy samples differ by luck at most",
    )
    needs = [
        Need(flags.think, "thoughts, so no --no-think", "thought_tokens"),
        Need(uses_vllm(flags.sampler), "the vLLM sampler", "engine.memory engine.max_gap"),
        Need(False, "training, and here nothing is trained", "engine.sleep"),
    ]
    for knob, need in unmet(needs).items():
        refuse(knob in given, no_effect(knob, need))
    _check_files(flags)


def _check_files(flags: Evaluation) -> None:
    """Refuses files that could not be written after all the play."""
    for name, path in (("transcripts", flags.transcripts), ("chart", flags.chart)):
        folder = Path(path).parent
        writable = folder.is_dir() and os.access(folder, os.W_OK) and not Path(path).is_dir()
        refuse(path and not writable, f"--{name} {path}: no file can be written there")
    refuse(
        flags.transcripts and Path(flags.transcripts).exists(),
        f"--transcripts {flags.transcripts} exists: name a new file",
    )
    refuse(
        flags.chart and not flags.chart.endswith(".png"), "--chart names a file that ends in .png"
    )


def played(path: str, cfg: Config, flags: Evaluation) -> list[Episode]:
    """All episodes of one checkpoint; the samples of a task stand together."""
    model = load_model(path)
    tokenizer = pretrained(AutoTokenizer, path)
    agent = make_agent(model, tokenizer, cfg, tools=bool(make_world(cfg).tools))
    check_model(agent)
    # the noise of a ladder with this seed
    return evaluate(agent, cfg, noise_seed(flags.seed, "evaluate", 0), flags.samples)


def passes(episodes: list[Episode], samples: int) -> dict[str, float]:
    """Mean pass@k over tasks, k = 2, 4, 8 ... up to the samples of a task; pass@1 is success."""
    tasks = [episodes[i : i + samples] for i in range(0, len(episodes), samples)]
    won = [sum(e.world.success for e in task) for task in tasks]
    found = {}
    k = 2
    while k <= samples:
        found[f"pass@{k}"] = sum(pass_at_k(samples, c, k) for c in won) / len(won)
        k *= 2
    return found


def report(path: str, episodes: list[Episode], flags: Evaluation) -> None:
    """Transcripts, to a file and to the screen."""
    if flags.transcripts:
        with open(flags.transcripts, "a", encoding="utf-8") as file:
            for e in episodes:
                file.write(json.dumps(transcript(path, e)) + "\n")
    for e in episodes[: flags.show]:
        for s in e.steps:
            texts = (s.observation(), s.thought or "", s.action)
            for colour, text in zip((GREY, GREEN, YELLOW), texts, strict=True):
                print(colour + printable(text) + PLAIN)
        print("won\n" if e.world.success else "lost\n")


def transcript(path: str, e: Episode) -> dict:
    """One episode as a line of JSONL."""
    steps = []
    for s in e.steps:
        step = {"state": s.state, "thought": s.thought, "action": s.action, "reward": s.reward}
        steps.append(step)
    return {"checkpoint": path, "success": e.world.success, "steps": steps}
