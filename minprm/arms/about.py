"""minprm.json beside a checkpoint: what the model was trained for, how it is asked, and how it did.

    version     of this format
    asked       the knobs in ASKED: world, layout, longest thought, history and so on
    run, arm    names; `stages` of the arm, and its `seed`
    base        the model that the run started from
    knobs       all other knobs that differ from their defaults
    logs        the file that the logs came from ("": the world's expert), how many there were, and
                how often something in them looks like a secret
    tools       the schemas of the tools in the logs
    libraries   the versions that it was trained with
    row         the arm's row of ladder.json; empty until it is known

Of files it tells the names alone, but for those in world_args, which a world has to find again.
`minprm evaluate` asks a checkpoint as it was trained; `minprm export` writes its model card.
"""

import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minprm.arms.starts import libraries
from minprm.constants import Config, fail, flat
from minprm.data import Demo
from minprm.logs.account import secrets
from minprm.logs.reader import write_demos
from minprm.look.log import to_json, write_atomically
from minprm.text.actions import all_tools, parse_json
from minprm.text.instruction import Instruction

if TYPE_CHECKING:
    from minprm.trainer import Run

FILE = "minprm.json"
EXAMPLES = "few_shot.jsonl"  # beside it: the logs that the model was shown
VERSION = 1
# The knobs that say how a model is asked. `minprm evaluate` has a flag for each.
ASKED = ("world", "world_args", "agent", "content", "instruction", "few_shot", "layout", "think",
         "thought_tokens", "action_tokens", "context", "history")  # fmt: skip
# What else a run is known by, or what says nothing about its results.
NAMED_ELSEWHERE = ("preset", "config", "run", "dry_run", "resume", "arms", "stages", "seeds",
                   "model", "demos", "save_every", "keep_every", "watch",
                   "threads", "jobs", "shard")  # fmt: skip
# What every row of a ladder holds.
COLUMNS = ("seed", "success", "thought_rate", "copy_rate", "seconds")


def save_checkpoint(run: "Run", folder: Path, name: str, stages: list[str]) -> dict:
    """Saves the model as it is now, for transformers to load. Returns what minprm.json beside it
    says."""
    run.agent.policy.save(folder)
    instruction = run.agent.instruction if run.agent.reads_instruction else Instruction("")
    if instruction.examples:
        (folder / EXAMPLES).unlink(missing_ok=True)
        write_demos([*instruction.examples], folder / EXAMPLES)
    description = about(
        run.cfg, name, stages, run.seed, instruction, run.train_demos, run.held_out, run.test
    )
    write_about(folder, description)
    return description


def about(
    cfg: Config,
    arm: str,
    stages: list[str],
    seed: int,
    told: Instruction,
    train: list[Demo],
    held_out: list[Demo],
    test: list[Demo],
) -> dict:
    """What there is to say of an arm's model before it is evaluated.

    told: what the model reads when it is evaluated.
    """
    knobs = asdict(cfg)
    return {
        "version": VERSION,
        "asked": {name: knobs[name] for name in ASKED}
        | {"instruction": told.text or "none", "few_shot": EXAMPLES if told.examples else ""},
        "run": cfg.run,
        "arm": arm,
        "stages": stages,
        "seed": seed,
        "base": Path(cfg.model).name if Path(cfg.model).is_dir() else cfg.model,
        "knobs": without_folders(changed_knobs(knobs, (*ASKED, *NAMED_ELSEWHERE))),
        "logs": {
            "file": Path(cfg.demos).name,
            "learned": len(train),
            "tasks": len({demo.task for demo in train}),
            "held_out": len(held_out),
            "tested": len(test),
            "secrets": sum(count for count, _ in secrets(train).values()),
        },
        "tools": all_tools(train),
        "libraries": libraries(),
        "row": {},
    }


def changed_knobs(knobs: dict, but: tuple[str, ...]) -> dict[str, object]:
    """The knobs of a configuration that differ from their defaults; those named in `but`, and the
    parts of sections that are, are left out."""
    plain = dict(flat(asdict(Config())))
    changed = {}
    for knob, setting in flat(knobs):
        if setting != plain.get(knob) and knob.split(".")[0] not in but:
            changed[knob] = setting
    return changed


def without_folders(setting: Any) -> Any:
    """Knobs, or one of them, with the names of files alone: where they lie is nobody else's
    business.

    >>> without_folders({"few_shot": "/home/me/logs.jsonl", "world_args": ["file=../a.jsonl"]})
    {'few_shot': 'logs.jsonl', 'world_args': ['file=a.jsonl']}
    """
    if isinstance(setting, dict):
        return {knob: without_folders(part) for knob, part in setting.items()}
    if isinstance(setting, list):
        return [without_folders(part) for part in setting]
    return re.sub(r"[^=]*[/\\]", "", setting) if isinstance(setting, str) else setting


def published(about: dict) -> dict:
    """The same for others: of the files in world_args too the names alone; {} where it is {}."""
    if not about:
        return {}
    settings = about["asked"]
    places = {name: settings[name] for name in ("world", "world_args", "agent", "few_shot")}
    return {**about, "asked": settings | without_folders(places)}


def write_about(folder: Path, about: dict) -> None:
    """Writes the file into a checkpoint's folder."""
    write_atomically(folder / FILE, to_json(about, indent=1) + "\n")


def read_about(path: str) -> dict:
    """What stands beside the checkpoint of this path or hub id; {} where it has no such file.

    Exits where the file is broken, or not of this version.
    """
    file = file_of(path, FILE)
    if file is None:
        return {}
    try:
        about = parse_json(file.read_text(encoding="utf-8"))
        about["asked"].setdefault("few_shot", "")  # of a version that showed examples as text
        about["asked"].setdefault("agent", "")  # of one that knew worlds alone
        about["logs"].setdefault("secrets", 0)  # of one that looked for none
        first = about["asked"]["history"].pop("first", 1)  # of one that said how many stay
        if first != 1:
            raise ValueError(f"history.first is {first}")
        _require(about)
        if about["asked"]["few_shot"]:  # it lies beside this file, wherever that has moved
            examples = file_of(path, EXAMPLES) or file.parent / EXAMPLES
            about["asked"]["few_shot"] = str(examples)
    except (OSError, ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
        fail(f"{file} is broken, or of another version ({error}): remove it, and give flags")
    return about


def file_of(path: str, name: str) -> Path | None:
    """Where this file of a path or hub id lies on this machine; None where it has none."""
    if Path(path).is_dir():
        file = Path(path) / name
        return file if file.exists() else None
    from transformers.utils.hub import cached_file  # it takes a second, which a folder need not

    try:
        file = cached_file(
            path,
            name,
            _raise_exceptions_for_missing_entries=False,
            _raise_exceptions_for_connection_errors=False,
        )
    except OSError:  # no name that a hub would take: whoever loads the model says so
        return None
    return Path(file) if file else None


def asked_of(about: dict) -> dict:
    """The knobs by which the model of this file is asked; the defaults where there is no file."""
    knobs = asdict(Config())
    return about["asked"] if about else {name: knobs[name] for name in ASKED}


def _require(description: dict) -> None:
    """Raises one of many errors where this is not what `about` has written."""
    if description["version"] != VERSION:
        raise ValueError(f"its version is {description['version']!r}, not {VERSION}")
    blank = about(Config(), "", [], 0, Instruction(""), [], [], [])
    _require_alike(description, blank)
    _require_alike(description["logs"], blank["logs"])
    names = [tool.get("function", tool)["name"] for tool in description["tools"]]
    if not all(isinstance(text, str) for text in (*description["stages"], *names)):
        raise ValueError("a stage or a tool of it has no name")
    _require_alike(dict(flat(description["asked"])), dict(flat(blank["asked"])))
    if description["row"]:
        require_row(description["row"])


def _require_alike(entries: dict, blank: dict) -> None:
    """Raises ValueError where the entries have other names, or are of another kind."""
    differ = sorted(entries.keys() ^ blank.keys())
    if differ:
        raise ValueError(f"it differs in {', '.join(differ)}")
    for name, entry in entries.items():
        if type(entry) is not type(blank[name]):
            raise ValueError(f"{name} is {entry!r}")


def require_row(row: dict) -> None:
    """Raises one of several errors where this is no row of a ladder."""
    counts = ("logs", "steps") if "interval" in row else ("tasks", "episodes")
    low, high = row.get("interval", (0.0, 1.0))
    numbers = [low, high, *(row[name] for name in (*COLUMNS, *counts))]
    if any(type(number) not in (int, float) or number < 0 for number in numbers):
        raise ValueError(f"a row of it holds {numbers}")
    if row["success"] > 1 or not row[counts[0]]:
        raise ValueError(f"a row of it has a success of {row['success']} in {row[counts[0]]}")
