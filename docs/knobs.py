"""Every knob as a table, from constants.py itself: `python -m docs.knobs` writes docs/knobs.md."""

from dataclasses import asdict, fields, is_dataclass
from inspect import cleandoc
from pathlib import Path

from minprm.commands.checks import flag
from minprm.commands.cli import differences
from minprm.commands.knobs import knobs
from minprm.commands.presets import PRESETS
from minprm.constants import Config

PAGE = Path(__file__).with_name("knobs.md")
HEAD = """\
# Every knob

<!-- numbers: none -->

A knob is a flag of `minprm train`, and a key in a TOML file for `--config`. Flags go before the
file, the file before the preset, and the preset before the defaults below. A knob that would have
no effect is refused. `python -m docs.knobs` writes this page from `minprm/constants.py`.

A yes-or-no knob is switched on by its name and off by `no-` before the name: `--no-gate`,
`--act-prm.no-decay`. A list takes several words: `--seeds 0 1 2`.
"""
PRESET_HEAD = """\
## Presets

What each preset changes.

| preset | changes |
|---|---|"""


def page() -> str:
    """The page: all knobs by section, and what each preset changes."""
    sections = {"": "The run"} | {
        f"{field.name}.": cleandoc(type(value).__doc__ or "")
        for field in fields(Config)
        if is_dataclass(value := getattr(Config(), field.name))
    }
    found = list(knobs(Config()))
    lines = [HEAD]
    for prefix, title in sections.items():
        name = flag(prefix) + "*" if prefix else title
        lines += [f"## {name}", ""]
        lines += [title, ""] if prefix else []
        lines += ["| flag | may be | default | what it means |", "|---|---|---|---|"]
        for knob in found:
            if knob.name.rpartition(".")[0] == prefix.removesuffix("."):
                cells = (f"`{flag(knob.name)}`", knob.values, f"`{knob.default}`", knob.meaning)
                lines.append(f"| {' | '.join(cell.replace('``', '') for cell in cells)} |")
        lines.append("")
    lines += [PRESET_HEAD]
    for name, preset in PRESETS.items():
        changes = differences(asdict(Config(preset=preset.preset)), asdict(preset))
        changed = [f"`{now}`".replace(" `", " ''`") for _, now in changes]  # --world ''
        lines.append(f"| `{name}` | {' '.join(changed) or 'nothing: these are the defaults'} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8", newline="\n")
