"""minprm.json beside a checkpoint: what the model was trained for, how it is asked, and how it did.

    version     of this format
    asked       the knobs in ASKED: world, layout, longest thought, history and so on
    run, arm    names; `stages` of the arm, and its `seed`
    base        the model that the run started from
    knobs       all other knobs that differ from their defaults
    logs        the file that the logs came from ("": the world's expert), and how many there were
    tools       the schemas of the tools in the logs
    libraries   the versions that it was trained with
    row         the arm's row of ladder.json; empty until it is known

`minprm evaluate` asks a checkpoint as it was trained; `minprm export` writes its model card.
"""

from dataclasses import asdict
from pathlib import Path

from minprm.arms.starts import libraries
from minprm.constants import Config, fail, flat
from minprm.data import Demo
from minprm.look.log import to_json, write_atomically
from minprm.text.actions import all_tools, parse_json

FILE = "minprm.json"
VERSION = 1
# The knobs that say how a model is asked. `minprm evaluate` has a flag for each.
ASKED = ("world", "world_args", "content", "instruction", "layout", "think", "thought_tokens",
         "action_tokens", "context", "history")  # fmt: skip
# What else a run is known by, or what says nothing about its results.
NAMED_ELSEWHERE = ("preset", "config", "run", "dry_run", "resume", "arms", "stages", "seeds",
                   "model", "demos", "save_every", "keep_every", "watch",
                   "keep_episodes", "threads", "jobs", "shard", "processes")  # fmt: skip
KINDS = {
    "version": int, "asked": dict, "run": str, "arm": str, "stages": list, "seed": int, "base": str,
    "knobs": dict, "logs": dict, "tools": list, "libraries": dict, "row": dict,
}  # fmt: skip
LOGS = {"file": str, "learned": int, "tasks": int, "held_out": int, "tested": int}


def about(
    cfg: Config,
    arm: str,
    stages: list[str],
    seed: int,
    told: str,
    train: list[Demo],
    held_out: list[Demo],
    test: list[Demo],
) -> dict:
    """What there is to say of an arm's model before it is evaluated.

    told: the instruction that the model reads when it is evaluated. Of files the file tells the
    names alone: where they lie is nobody else's business.
    """
    knobs = asdict(cfg)
    return {
        "version": VERSION,
        "asked": {name: knobs[name] for name in ASKED} | {"instruction": told or "none"},
        "run": cfg.run,
        "arm": arm,
        "stages": stages,
        "seed": seed,
        "base": Path(cfg.model).name if Path(cfg.model).is_dir() else cfg.model,
        "knobs": changed_knobs(knobs, (*ASKED, *NAMED_ELSEWHERE)),
        "logs": {
            "file": Path(cfg.demos).name,
            "learned": len(train),
            "tasks": len({demo.task for demo in train}),
            "held_out": len(held_out),
            "tested": len(test),
        },
        "tools": all_tools(train),
        "libraries": libraries(),
        "row": {},
    }


def changed_knobs(knobs: dict, but: tuple[str, ...]) -> dict[str, object]:
    """The knobs of a configuration that differ from their defaults; those named in `but`, and the
    parts of sections that are, are left out."""
    plain = dict(flat(asdict(Config())))
    found = {}
    for knob, value in flat(knobs):
        if value != plain.get(knob) and knob.split(".")[0] not in but:
            found[knob] = value
    return found


def write_about(folder: Path, what: dict) -> None:
    """Writes the file into a checkpoint's folder."""
    write_atomically(folder / FILE, to_json(what, indent=1) + "\n")


def read_about(path: str) -> dict:
    """What stands beside the checkpoint of this path or hub id; {} where it has no such file.

    Exits where the file is broken, or not of this version.
    """
    file = _file_of(path)
    if file is None:
        return {}
    try:
        found = parse_json(file.read_text(encoding="utf-8"))
        _require(found)
    except (OSError, ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
        fail(f"{file} is broken, or of another version ({error}): remove it, and give flags")
    return found


def _file_of(path: str) -> Path | None:
    """Where the file of this path or hub id lies on this machine; None where it has none."""
    if Path(path).is_dir():
        file = Path(path) / FILE
        return file if file.exists() else None
    from transformers.utils.hub import cached_file  # it takes a second, which a folder need not

    try:
        file = cached_file(
            path,
            FILE,
            _raise_exceptions_for_missing_entries=False,
            _raise_exceptions_for_connection_errors=False,
        )
    except OSError:  # no name that a hub would take: whoever loads the model says so
        return None
    return Path(file) if file else None


def asked_of(found: dict) -> dict:
    """The knobs by which the model of this file is asked; the defaults where there is no file."""
    knobs = asdict(Config())
    return found["asked"] if found else {name: knobs[name] for name in ASKED}


def _require(found: dict) -> None:
    """Raises one of many errors where this is not what `about` has written."""
    if found["version"] != VERSION:
        raise ValueError(f"its version is {found['version']!r}, not {VERSION}")
    _require_kinds(found, KINDS)
    _require_kinds(found["logs"], LOGS)
    plain = dict(flat(asked_of({})))
    _require_kinds(dict(flat(found["asked"])), {knob: type(plain[knob]) for knob in plain})


def _require_kinds(values: dict, kinds: dict[str, type]) -> None:
    """Raises ValueError where the values have other names, or are of another kind."""
    differ = sorted(values.keys() ^ kinds.keys())
    if differ:
        raise ValueError(f"it differs in {', '.join(differ)}")
    for name, kind in kinds.items():
        if type(values[name]) is not kind:
            raise ValueError(f"{name} is {values[name]!r}")
