"""The knobs as people read them: the short --help, and the rows of docs/knobs.md.

What a knob means stands beside it in constants.py, as a comment, and is told from there.
"""

import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from minprm.commands.checks import flag
from minprm.constants import ARMS, Config, Own, Preset, Range
from minprm.envs import WORLDS

USED_MOST = (
    "preset", "arms", "seeds", "world", "model", "demos", "num_demos", "sampler", "device", "run",
    "resume", "dry_run",
)  # fmt: skip
EXAMPLES = """\
  minprm train --preset smoke                       one round of cups, in half a minute
  minprm train                                      the whole ladder on cups, in one or two minutes
  minprm train --arms base act_prm --seeds 0 1 2    two arms, three seeds
  minprm train --run mine --resume                  goes on after Ctrl-C, or a kill
  minprm train --preset logs --demos my_logs/ --model Qwen/Qwen3-4B --dry-run
                                                    your own logs: the plan of a run"""
FIELD = re.compile(r"    (\w+): .*? = .*?(?:  # (.*))?")


class Knob(NamedTuple):
    """One knob, in words."""

    name: str  # as in a config file: sft.lr
    values: str
    default: str
    meaning: str


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


def knobs(config: Any, prefix: str = "") -> Iterator[Knob]:
    """Every knob of a configuration, with its default there; those of a stage after `prefix`."""
    meanings = _meanings(type(config))
    hints = get_type_hints(type(config), include_extras=True)
    for field in fields(config):
        default = getattr(config, field.name)
        if is_dataclass(default):
            yield from knobs(default, f"{field.name}.")
        else:
            name = prefix + field.name
            yield Knob(
                name, _values(hints[field.name]), _shown(name, default), meanings[field.name]
            )


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


def _values(hint: Any) -> str:
    """What a knob may be.

    >>> _values(Literal["all", "top_p"]), _values(list[str]), _values(bool)
    ('`all`, `top_p`', 'words', 'yes or no')
    """
    if get_origin(hint) is Literal:
        return ", ".join(f"`{choice}`" for choice in get_args(hint))
    if get_origin(hint) is list:
        (part,) = get_args(hint)
        return "words" if part is str else f"several: {_values(part)}"
    ranges = [part for part in get_args(hint) if isinstance(part, Range)]
    if ranges:
        return f"{ranges[0].least:,} to {ranges[0].most:,}" + ", even" * ranges[0].even
    if get_args(hint):  # names of ours, or a function of the user's own
        ours = [_values(part) for part in get_args(hint) if part is not Own]
        return ", ".join([*ours, "FILE.py:NAME"])
    return {bool: "yes or no", str: "text"}[hint]


def _shown(name: str, default: object) -> str:
    if name == "arms":
        return "all"
    if isinstance(default, list):
        return " ".join(map(str, default))
    if isinstance(default, bool):
        return "yes" if default else "no"
    return str(default)
