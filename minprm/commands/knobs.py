"""The knobs, one by one: as people read them, in --help and docs/knobs.md; and with their notes.

What a knob means stands beside it in constants.py, as a comment, and is told from there. So do its
notes, which are in its type: the range of a number, what the knob needs, which stages read it.
"""

import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple, get_args, get_type_hints

from minprm.constants import ARMS, Config, Preset, Range
from minprm.envs import WORLDS

USED_MOST = (
    "preset", "arms", "seeds", "world", "model", "demos", "num_demos", "sampler", "device", "run",
    "resume", "dry_run",
)  # fmt: skip
EXAMPLES = """\
  minprm train --preset smoke                       one round of cups, in half a minute
  minprm train                                      the whole ladder on cups, in a few minutes
  minprm train --arms base act_prm --seeds 0 1 2    two arms, three seeds
  minprm train --run mine --resume                  goes on after Ctrl-C, or a kill
  minprm train --preset logs --demos my_logs/ --model Qwen/Qwen3-4B --dry-run
                                                    your own logs: the plan of a run"""
FIELD = re.compile(r"    (\w+): .*? = .*?(?:  # (.*))?")


class Knob(NamedTuple):
    """One knob, with its setting in a configuration."""

    name: str  # as in a config file: sft.lr
    setting: Any
    hint: Any  # its type
    notes: list  # of its section, and then its own
    owner: type  # the dataclass that has it

    @property
    def meaning(self) -> str:
        """The comment that stands beside it."""
        return _meanings(self.owner)[self.name.split(".")[-1]]

    @property
    def default(self) -> str:
        """Its setting, in words."""
        if self.name == "arms":
            return "all"
        if isinstance(self.setting, list):
            return " ".join(map(str, self.setting))
        if isinstance(self.setting, bool):
            return "yes" if self.setting else "no"
        return str(self.setting)


def flag(knob: str) -> str:
    """A knob as it is written on the command line.

    >>> flag("act_prm.scored_by")
    '--act-prm.scored-by'
    """
    return f"--{knob.replace('_', '-')}"


def knobs(config: Any, section: str = "", above: tuple = ()) -> Iterator[Knob]:
    """Every knob of a configuration. `above`: the notes of its section."""
    hints = get_type_hints(type(config), include_extras=True)
    for field in fields(config):
        name = section + field.name
        setting = getattr(config, field.name)
        hint = hints[field.name]
        notes = [*above, *_notes(hint)]
        if is_dataclass(setting):
            yield from knobs(setting, f"{name}.", tuple(notes))
        else:
            yield Knob(name, setting, hint, notes, type(config))


def ranges(config: object) -> Iterator[tuple[str, float, Range]]:
    """(knob, number, range) of each number in a dataclass, also in its dataclasses and lists."""
    for knob in knobs(config):
        numbers = knob.setting if isinstance(knob.setting, list) else [knob.setting]
        for note in knob.notes:
            if isinstance(note, Range):
                yield from ((knob.name, number, note) for number in numbers)


def _notes(hint: Any) -> list:
    """What stands beside a type, or in a list beside the type of its items.

    >>> from typing import Annotated
    >>> _notes(Annotated[int, Range(0, 9)]) == _notes(list[Annotated[int, Range(0, 9)]])
    True
    """
    notes = []
    for part in (hint, *get_args(hint)):
        notes += getattr(part, "__metadata__", ())
    return notes


def short_help(config: Config) -> str:
    """The flags that people use most, with the defaults of this configuration, and examples."""
    by_name = {knob.name: knob for knob in knobs(config)}
    lines = ["minprm train [FLAGS]", "", inspect.cleandoc(Config.__doc__ or ""), ""]
    for name in USED_MOST:
        knob = by_name[name]
        default = f" ({knob.default})" if knob.default else ""
        lines.append(f"  {flag(name):<12} {knob.meaning}{default}")
    names = {"Presets": get_args(Preset), "Arms": ARMS, "Worlds": WORLDS}
    for title, of_ours in names.items():
        text = f"{title}: {', '.join(of_ours)}"
        lines += ["", *textwrap.wrap(text, 96, subsequent_indent="  ")]
    lines += ["", "Examples:", EXAMPLES, ""]
    lines.append("--help-all lists every knob, as docs/knobs.md does.")
    return "\n".join(lines)


def _meanings(schema: type) -> dict[str, str]:
    """The comment of each field: behind it, or on the lines before."""
    meanings: dict[str, str] = {}
    for part in reversed(schema.__mro__[:-1]):
        above = []
        for line in inspect.getsource(part).splitlines():
            match = FIELD.fullmatch(line)
            if match:
                meanings[match[1]] = match[2] or " ".join(above)
            stripped = line.strip()
            if stripped.startswith("# "):
                above.append(stripped.removeprefix("# "))
            else:
                above = []
    return meanings
