"""python train.py [--preset cups] [--flags]: trains the arms of a ladder and prints their table.

A run leaves runs/<run>/ (config, metrics, TensorBoard, samples, ladder.json, ladder.png) and
checkpoints/<run>/<arm>-<seed>/, each of which transformers loads.
"""

import json
import sys
import time
from dataclasses import asdict, is_dataclass, replace
from pathlib import Path

import torch
from loguru import logger

from minprm.constants import Config, arms_of, fail
from minprm.data import read_demos, write_demos
from minprm.envs import make_world
from minprm.play import expert_demos, reference_rows
from minprm.run.cli import parse
from minprm.run.dry_run import dry_run
from minprm.run.log import Log, chart, table, write_atomically
from minprm.trainer import Trainer

RUNS, CHECKPOINTS = Path("runs"), Path("checkpoints")


def main(argv: list[str]) -> None:
    cfg = parse(argv)
    if cfg.dry_run:
        print(dry_run(cfg))
        return
    cfg = resumed(cfg, argv) if cfg.resume else named(cfg)
    if cfg.world:
        make_world(cfg)  # refuse before anything is written
    if cfg.demos:
        read_demos(cfg.demos)
    if cfg.threads:
        torch.set_num_threads(cfg.threads)
    torch.set_flush_denormal(True)  # tiny activations are ten times slower on a CPU
    log = Log(RUNS / cfg.run)
    log.config(asdict(cfg))
    if cfg.stages == ["demos"]:
        return demos(cfg, log)
    try:
        ladder(cfg, log)
    except KeyboardInterrupt:
        logger.info(f"stopped and saved. Go on with: python train.py --run {cfg.run} --resume")
        raise SystemExit(130) from None


def demos(cfg: Config, log: Log) -> None:
    """The expert's logs of --episodes tasks, actions only; no model is needed."""
    logs = expert_demos(cfg, cfg.seeds[0], cfg.episodes)
    path = log.folder / "demos.jsonl"
    write_demos([log.with_thoughts([None] * len(log.steps)) for log in logs], path)
    print(f"{len(logs)} logs: {path}")


def ladder(cfg: Config, log: Log) -> None:
    """Every arm of every seed that ladder.json does not hold yet; then the table and the chart."""
    path = log.folder / "ladder.json"
    rows = json.loads(path.read_text()) if path.exists() else {}
    for seed in cfg.seeds:
        missing = {arm: stages for arm, stages in arms_of(cfg).items() if not _has(rows, arm, seed)}
        if not missing and (_has(rows, "expert", seed) or not cfg.world):
            continue
        trainer = Trainer(cfg, seed, log, CHECKPOINTS)
        trainer.stop_soon()
        logger.info(f"seed {seed}: base model ready in {trainer.base_seconds:.1f} s")
        for arm, stages in missing.items():
            row = trainer.arm(arm, stages)
            rows.setdefault(arm, []).append(row)
            write_atomically(path, json.dumps(rows, indent=1))
            logger.info(f"seed {seed}  {arm}: success {row['success']:.3f}")
        for line, row in (reference_rows(cfg, seed) if cfg.world else {}).items():
            rows.setdefault(line, []).append(row)
        write_atomically(path, json.dumps(rows, indent=1))
    rows = {arm: rows[arm] for arm in ["random", *arms_of(cfg), "expert"] if arm in rows}
    played = f"{cfg.world}, {cfg.episodes} {cfg.split} episodes an arm"
    chart(rows, log.folder / "ladder.png", played if cfg.world else "held-out logs, step match")
    print(table(rows))
    print(f"\n{log.folder}/ladder.json  ladder.png  {CHECKPOINTS / cfg.run}/")


def gone_on(run: str, flags: list[str]) -> tuple[dict[str, list[dict]], list[dict]]:
    """Makes a run, or goes on with it where it exists. Returns its ladder and its metrics."""
    known = (RUNS / run / "config.json").exists()
    main(["--run", run, *(["--resume"] if known else flags)])
    lines = (RUNS / run / "metrics.jsonl").read_text().splitlines()
    return json.loads((RUNS / run / "ladder.json").read_text()), [json.loads(x) for x in lines]


def _has(rows: dict, arm: str, seed: int) -> bool:
    return any(row["seed"] == seed for row in rows.get(arm, []))


def named(cfg: Config) -> Config:
    """A run's name is new: nothing is written over."""
    run = cfg.run or f"{cfg.preset}-{time.strftime('%Y%m%d-%H%M%S')}"
    if (RUNS / run / "config.json").exists():
        fail(f"--run {run} exists: add --resume to go on with it, or choose another name")
    return replace(cfg, run=run)


def resumed(cfg: Config, argv: list[str]) -> Config:
    """The configuration that the run began with; flags beside --run and --resume are refused."""
    started = sorted(RUNS.glob("*/config.json"), key=lambda p: p.stat().st_mtime)
    path = RUNS / cfg.run / "config.json" if cfg.run else (started or [Path()])[-1]
    if not path.is_file():
        fail(f"--resume: there is no run {cfg.run or 'yet'} in {RUNS}/")
    if set(argv) - {"--resume", "--run", cfg.run, f"--run={cfg.run}"}:
        fail("--resume goes on with the knobs that the run began with: give --run alone")
    knobs = json.loads(path.read_text())
    parts = {k: type(v)(**knobs[k]) for k, v in vars(Config()).items() if is_dataclass(v)}
    return Config(**{**knobs, **parts})


if __name__ == "__main__":
    main(sys.argv[1:])
