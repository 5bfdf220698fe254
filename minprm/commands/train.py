"""minprm train [--preset cups] [--flags]: trains the arms of a ladder and prints their table.

A run leaves runs/<run>/ (config, metrics, TensorBoard, samples, ladder.json, ladder.png) and
checkpoints/<run>/<arm>-<seed>/, each of which transformers loads.
"""

import json
import time
from collections.abc import Callable
from dataclasses import asdict, is_dataclass, replace
from pathlib import Path

import torch
from loguru import logger

from minprm.commands.cli import parse
from minprm.commands.dry_run import dry_run
from minprm.constants import Config, fail
from minprm.envs import check_tasks
from minprm.ladder import ladder
from minprm.play import expert_demos
from minprm.run.log import Log
from minprm.run.table import chart, table
from minprm.text.logs import read_demos, split_tasks, write_demos

RUNS = Path("runs")
CHECKPOINTS = Path("checkpoints")


def main(argv: list[str], on_save: Callable[[], None] = lambda: None) -> None:
    """The command. on_save is called after each snapshot."""
    cfg = parse(argv)
    if cfg.dry_run:
        print(dry_run(cfg))
        return
    cfg = resumed(cfg, argv) if cfg.resume else named(cfg)
    # what cannot be made or read is refused now, before anything is written
    if cfg.world:
        check_tasks(cfg)
    if cfg.demos:
        split_tasks(read_demos(cfg.demos), cfg.held_out)
    if cfg.threads:
        torch.set_num_threads(cfg.threads)
    torch.set_flush_denormal(True)  # tiny activations are ten times slower on a CPU
    log = Log(RUNS / cfg.run)
    log.config(asdict(cfg))
    if cfg.stages == ["demos"]:
        write_expert_demos(cfg, log)
        return
    try:
        rows = ladder(cfg, log, CHECKPOINTS, on_save)
    except KeyboardInterrupt:
        logger.info(f"stopped and saved. Go on with: minprm train --run {cfg.run} --resume")
        raise SystemExit(130) from None
    report(cfg, rows, log.folder)


def report(cfg: Config, rows: dict[str, list[dict]], folder: Path) -> None:
    """The ladder's table and chart."""
    title = f"{cfg.world}, {cfg.episodes} {cfg.split} episodes an arm"
    if not cfg.world:
        title = "held-out logs, step match"
    chart(rows, folder / "ladder.png", title)
    print(table(rows))
    print(f"\n{folder}/ladder.json  ladder.png  {CHECKPOINTS / cfg.run}/")


def write_expert_demos(cfg: Config, log: Log) -> None:
    """The expert's logs of --episodes tasks, actions only; no model is needed."""
    demos = expert_demos(cfg, cfg.seeds[0], cfg.episodes)
    path = log.folder / "demos.jsonl"
    write_demos([demo.without_thoughts() for demo in demos], path)
    print(f"{len(demos)} logs: {path}")


def go_on(run: str, flags: list[str]) -> tuple[dict[str, list[dict]], list[dict]]:
    """Makes a run, or goes on with it where it exists. Returns its ladder and its metrics."""
    known = (RUNS / run / "config.json").exists()
    main(["--run", run, *(["--resume"] if known else flags)])
    rows = json.loads((RUNS / run / "ladder.json").read_text())
    lines = (RUNS / run / "metrics.jsonl").read_text().splitlines()
    return rows, [json.loads(line) for line in lines]


def named(cfg: Config) -> Config:
    """The configuration with a name for its run, which is new: nothing is written over."""
    run = cfg.run or f"{cfg.preset}-{time.strftime('%Y%m%d-%H%M%S')}"
    if (RUNS / run / "config.json").exists():
        fail(f"--run {run} exists: add --resume to go on with it, or choose another name")
    return replace(cfg, run=run)


def resumed(cfg: Config, argv: list[str]) -> Config:
    """The configuration that the run began with; flags beside --run and --resume are refused."""
    path = RUNS / cfg.run / "config.json"
    if not cfg.run:
        started = sorted(RUNS.glob("*/config.json"), key=lambda file: file.stat().st_mtime)
        path = started[-1] if started else Path()
    if not path.is_file():
        fail(f"--resume: there is no run {cfg.run or 'yet'} in {RUNS}/")
    if set(argv) - {"--resume", "--run", cfg.run, f"--run={cfg.run}"}:
        fail("--resume goes on with the knobs that the run began with: give --run alone")
    knobs = json.loads(path.read_text())
    unknown = knobs.keys() ^ vars(Config()).keys()
    if unknown:
        fail(
            f"--resume: {path} was written by another version of minprm (it differs in "
            f"{', '.join(sorted(unknown))}): start the run anew, under another name"
        )
    # JSON has no dataclasses: the part of each stage becomes one again
    for name, default in vars(Config()).items():
        if is_dataclass(default):
            knobs[name] = type(default)(**knobs[name])
    return Config(**knobs)
