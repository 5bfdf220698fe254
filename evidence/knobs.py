"""Every knob as a table, from constants.py: `python -m evidence.knobs` writes docs/knobs.md."""

from collections.abc import Iterable
from dataclasses import asdict, fields, is_dataclass
from inspect import cleandoc
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

from minprm.commands.cli import differences
from minprm.commands.knobs import Knob, flag, knobs
from minprm.commands.presets import PRESETS
from minprm.constants import Config, Own, Range

PAGE = Path(__file__).parents[1] / "docs/knobs.md"
HEAD = """\
# Every knob

<!-- numbers: none -->

A knob is a flag of `minprm train`, and a key in a TOML file for `--config`. Flags go before the
file, the file before the preset, and the preset before the defaults below. A knob that would have
no effect is refused. `python -m evidence.knobs` writes this page from `minprm/constants.py`.

A yes-or-no knob is switched on by its name and off by `no-` before the name: `--no-gate`,
`--rl.no-backfill`. In a TOML file `no-gate = true` is the same as `gate = false`. A list takes
several words: `--seeds 0 1 2`. `--world-args` replaces all world-args of a file, and the log says
which. With another `--model` or `--world`, what a file says of the embedded model or of its own
world is left out.
"""
PRESET_HEAD = """\
## Presets

What each preset changes.

| preset | changes |
|---|---|"""


def page() -> str:
    """The page: all knobs by section, and what each preset changes."""
    of_run = [knob for knob in knobs(Config()) if "." not in knob.name]
    parts = [HEAD, section("The run", "", of_run)]
    for field in fields(Config):
        value = getattr(Config(), field.name)
        if is_dataclass(value):
            what = cleandoc(value.__doc__ or "")
            parts.append(section(f"{flag(field.name)}.*", what, knobs(value, f"{field.name}.")))
    return "\n".join([*parts, PRESET_HEAD, *map(changes, PRESETS)]) + "\n"


def section(title: str, what: str, of_section: Iterable[Knob]) -> str:
    """A heading, what stands below it, and a table of these knobs."""
    lines = [f"## {title}", ""]
    lines += [what, ""] if what else []
    lines += ["| flag | may be | default | what it means |", "|---|---|---|---|"]
    for knob in of_section:
        default = f"`{knob.default}`" if knob.default else ""
        lines.append(f"| `{flag(knob.name)}` | {values(knob)} | {default} | {knob.meaning} |")
    return "\n".join(lines) + "\n"


def values(knob: Knob) -> str:
    """What it may be, in words."""
    for note in knob.notes:
        if isinstance(note, Range):
            several = "several: " if get_origin(knob.hint) is list else ""
            return f"{several}{note.least:,} to {note.most:,}"
    return of_type(knob.hint)


def of_type(hint: Any) -> str:
    """What a knob of this type may be, where it has no range."""
    if get_origin(hint) is Annotated:
        return of_type(get_args(hint)[0])
    if get_origin(hint) is Literal:
        return ", ".join(f"`{choice}`" for choice in get_args(hint))
    if get_origin(hint) is list:
        return "words"
    if get_args(hint):  # names of ours, or a function of the user's own
        ours = [of_type(part) for part in get_args(hint) if part is not Own]
        return ", ".join([*ours, "FILE.py:NAME"])
    return {bool: "yes or no", str: "text"}[hint]


def changes(name: str) -> str:
    """A row of the table of presets: what this one changes, as flags."""
    preset = PRESETS[name]
    found = differences(asdict(Config(preset=preset.preset)), asdict(preset))
    changed = [f"`{now}`".replace(" `", " ''`") for _, now in found]  # --world ''
    return f"| `{name}` | {' '.join(changed) or 'nothing: these are the defaults'} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8", newline="\n")
