"""minprm train [--preset cups] [--flags]: trains the arms of a ladder and prints their table.

A run leaves runs/<run>/ (config, metrics, TensorBoard, samples, ladder.json, and its page
report.html) and checkpoints/<run>/<arm>-<seed>/, each of which transformers loads.
"""

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path

from loguru import logger
from safetensors import SafetensorError

from minprm.arms.about import read_about
from minprm.arms.demos import logs_of, require_logs, split
from minprm.commands.checks import idle_patience
from minprm.commands.cli import as_flags, configuration, differences, given_knobs, parse
from minprm.commands.effects import check_effects
from minprm.commands.presets import PRESETS
from minprm.constants import Config, arms_of, fail, flat
from minprm.envs import check_tasks, make_world
from minprm.load.names import require_model, require_sampler
from minprm.load.narration import require_narrator
from minprm.logs.reader import write_demos
from minprm.look.log import Log, require_new
from minprm.play import expert_demos
from minprm.printable import printable
from minprm.report.files import RUNS, read_lines
from minprm.report.page import write_page
from minprm.report.table import table
from minprm.run.stage_ids import stage_ids, updates_of
from minprm.several.together import Place, may_restart, restarts, together, way_on

CHECKPOINTS = Place.checkpoints
NEEDS_LESS = "fewer --micro-tokens, --checkpointing, --lora or a smaller --model need less"


def main(argv: list[str], on_save: Callable[[], None] = lambda: None) -> None:
    """The command. on_save is called after each snapshot."""
    with together() as place:
        flags = again(argv) if may_restart() else argv
        train(flags, place, on_save if place.first else lambda: None)


def again(argv: list[str]) -> list[str]:
    """The flags of a run that torchrun may start once more (--max-restarts): then it goes on."""
    cfg = parse(argv)
    if not cfg.run:
        fail("torchrun --max-restarts needs a --run, to know which one to go on with")
    exists = (RUNS / cfg.run / "config.json").exists()
    if cfg.resume or not exists or not restarts():
        return argv
    return ["--run", cfg.run, "--resume"]


def train(argv: list[str], place: Place, on_save: Callable[[], None]) -> None:
    """What each process does."""
    cfg = parse(argv)
    cfg = place.from_first(lambda: resumed(cfg, argv) if cfg.resume else with_new_name(cfg))
    place.run = cfg.run
    if cfg.demos:
        require_logs(cfg.demos)
    if cfg.world:
        check_tasks(cfg)
    if cfg.model != "tiny":
        require_model(cfg.model)
    elif cfg.stages != ["demos"]:  # the expert's logs need no model
        require_narrator(make_world(cfg), cfg.tiny)
    if cfg.dry_run:
        for part in plan(cfg, CHECKPOINTS) if place.first else []:  # what takes long comes last
            print(part, flush=True)
        return
    if cfg.resume:
        place.copy(Path(cfg.run) / "ladder.json")
    try:
        with closing(Log(place.runs / cfg.run)) as log:
            run(cfg, log, place, on_save)
    except (OSError, SafetensorError) as error:  # a full disk, a folder that may not be written
        exists = (RUNS / cfg.run / "config.json").exists()
        further = f"go on with: {way_on(cfg.run)}" if exists else "start again"
        fail(f"{error}: nothing is half written; mend that, and {further}")


def plan(cfg: Config, checkpoints: Path) -> Iterator[str]:
    """What --dry-run prints, part by part: what would be trained, at once; then what the model
    reads, and one batch, measured (dry_run.py).

    It goes through the same functions as a run, so it refuses what a run refuses, and it writes
    nothing to runs/ or checkpoints/.
    """
    if cfg.stages == ["demos"]:
        yield f"the expert's logs of {cfg.episodes} tasks; no model is needed for them"
        return
    demos, report = logs_of(cfg, cfg.seeds[0])
    train_demos, *_ = split(demos, cfg)
    require_sampler(cfg.sampler)
    yield f"{'stage':<50}{'updates':>9}"
    for stage_id in stage_ids(cfg):
        yield f"{stage_id:<50}{updates_of(stage_id, cfg, train_demos) or '-':>9}"
    yield "\nWhether that fits, and how long it takes, is found out by one batch.\n"
    from torch import OutOfMemoryError  # what stands above waited for no torch

    from minprm.commands.dry_run import of_model

    try:
        yield from of_model(cfg, checkpoints, demos, report)
    except OutOfMemoryError:
        fail(f"the memory of the card ran out in one batch of the longest logs; {NEEDS_LESS}")


def run(cfg: Config, log: Log, place: Place, on_save: Callable[[], None]) -> None:
    """Makes what the configuration asks for."""
    if cfg.stages == ["demos"]:
        if place.first:
            write_expert_demos(cfg, log)
        return
    from torch import OutOfMemoryError

    from minprm.arms.ladder import (
        ladder,  # torch and all that needs it: whoever is refused waits less
    )
    from minprm.load.threads import set_threads, why

    # the number of threads is part of the numbers, so a run that goes on elsewhere keeps it
    cfg = replace(cfg, threads=set_threads(cfg.model, cfg.threads))
    if cfg.resume:
        log.open(cfg)  # a new ladder opens it later, when nothing can be refused any more
    logger.info(why(cfg.model, cfg.threads))
    tell_differences(cfg)
    for section, goes_by in idle_patience(cfg).items():  # of a preset: a typed one was refused
        logger.info(f"{goes_by}, and one of them is 0: that of --preset {cfg.preset} is off")
        cfg = replace(cfg, **{section: replace(getattr(cfg, section), patience=0)})
    try:
        rows = ladder(cfg, log, place.checkpoints, on_save)
    except KeyboardInterrupt:
        if log.lock:
            logger.info(f"stopped and saved. Go on with: {way_on(cfg.run)}")
        else:
            logger.info("stopped before anything was trained")
        raise SystemExit(130) from None
    except OutOfMemoryError as error:
        reason = ". ".join(str(error).split(". ")[:2])  # and how much was asked for
        further = f", or on a larger card go on with: {way_on(cfg.run)}" if log.lock else ""
        fail(f"the memory of the card ran out ({reason}): in a new run {NEEDS_LESS}{further}")
    if place.first:
        show_ladder(cfg, rows, log.folder)


def tell_differences(cfg: Config) -> None:
    """A line for each knob by which --model was asked in another way when it was trained."""
    trained = read_about(cfg.model) if cfg.model != "tiny" else {}
    for before, now in differences(trained.get("asked", {}), asdict(cfg)):
        logger.warning(f"{cfg.model} was trained with {before}, and goes on with {now}")


def show_ladder(cfg: Config, rows: dict[str, list[dict]], folder: Path) -> None:
    """The ladder's table, and the run's page. Exits where an arm was stopped, and has said why."""
    arms = {arm: rows.get(arm, []) for arm in arms_of(cfg)}
    print(printable(table(rows | arms)))
    print(f"\n{folder}/ladder.json  {CHECKPOINTS / cfg.run}/")
    try:
        print(f"{write_page([folder])}  (open it in a browser)")
    except Exception as error:  # the run is whole without its page
        logger.warning(f"no page was written: {error}. Try again: minprm report {cfg.run}")
    if any(len(of_arm) < len(cfg.seeds) for of_arm in arms.values()):
        raise SystemExit(2)


def write_expert_demos(cfg: Config, log: Log) -> None:
    """The expert's logs of --episodes tasks, actions only; no model is needed."""
    demos = expert_demos(cfg, "train", cfg.seeds[0], cfg.episodes)
    log.open(cfg)  # whoever has no expert is refused by now
    path = log.folder / "demos.jsonl"
    path.unlink(missing_ok=True)  # of a process that was killed
    write_demos([demo.without_thoughts() for demo in demos], path)
    print(f"{len(demos)} logs: {path}")


def go_on(run: str, flags: list[str]) -> tuple[dict[str, list[dict]], list[dict]]:
    """Makes a run, or goes on with it where it exists. Returns its ladder and its metrics."""
    exists = (RUNS / run / "config.json").exists()
    main(["--run", run, *(["--resume"] if exists else flags)])
    rows = json.loads((RUNS / run / "ladder.json").read_text(encoding="utf-8"))
    return rows, read_lines(RUNS / run / "metrics.jsonl")


def with_new_name(cfg: Config) -> Config:
    """The configuration with a name for its run, which is new: nothing is written over."""
    played = (cfg.agent or cfg.world).rpartition(":")[2]  # Shop of shop.py:Shop
    world = re.sub("[^A-Za-z0-9_]", "_", played)[:60]
    begins = cfg.preset if cfg.preset != Config().preset else world or "logs"
    name = checked_name(cfg.run or f"{begins}-{time.strftime('%Y%m%d-%H%M%S')}")
    for folder in (RUNS, CHECKPOINTS):
        if folder.is_symlink() and not folder.exists():
            fail(f"{folder} is a link to {folder.readlink()}, which is not there: make that folder")
    require_new(RUNS / name)
    old = CHECKPOINTS / name
    if old.exists():
        fail(f"--run {name}: {old} is of an earlier run; remove it, or choose another name")
    return replace(cfg, run=name)


def checked_name(name: str) -> str:
    """The name, if it can be that of a folder and of nothing else."""
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}", name):
        fail(f"--run {ascii(name)[:60]}: a name is up to 100 letters, digits, '.', '_' and '-'")
    return name


def resumed(cfg: Config, argv: list[str]) -> Config:
    """The configuration that the run began with, with --jobs and --shard as they are asked for now;
    other flags beside --run and --resume are refused."""
    if cfg.run:
        path = RUNS / checked_name(cfg.run) / "config.json"
    else:
        started = sorted(RUNS.glob("*/config.json"), key=lambda file: file.stat().st_mtime)
        path = started[-1] if started else Path()
    if not path.is_file():
        fail(f"--resume: there is no run {cfg.run or 'yet'} in {RUNS}/")
    chosen_knobs = given_knobs(argv)
    free = {"jobs": cfg.jobs, "shard": cfg.shard}  # no number depends on them
    if chosen_knobs - {"resume", "run", *free}:
        fail(
            "--resume goes on with the knobs that a run began with: give only --run, --jobs and "
            "--shard"
        )
    knobs = read_knobs(path)
    knobs |= {knob: setting for knob, setting in free.items() if knob in chosen_knobs}
    # its name is that of its folder, whatever the file says; its TOML file has been read already
    began = configuration(as_flags({**knobs, "config": [], "run": path.parent.name}))
    check_effects(began, chosen_knobs & free.keys(), PRESETS[began.preset])
    return replace(began, config=knobs["config"], resume=True)


def read_knobs(path: Path) -> dict:
    """The knobs in a config.json. Exits where they are broken, or not those of this version."""
    try:
        knobs = json.loads(path.read_text(encoding="utf-8"))
        unknown = dict(flat(knobs)).keys() ^ dict(flat(asdict(Config()))).keys()
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        fail(f"--resume: {path} is broken ({error}): start the run anew, under another name")
    if unknown:
        fail(
            f"--resume: {path} was written by another version of minprm (it differs in "
            f"{', '.join(sorted(unknown))}): start the run anew, under another name"
        )
    return knobs
