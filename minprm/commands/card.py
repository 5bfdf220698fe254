"""The model card of an exported checkpoint: README.md, in words that a stranger understands.

It is made of minprm.json (arms/about.py) and of what serving.py says. What neither says is left
out. Their texts may be a stranger's, so all of them stand as code.
"""

import re

from minprm.constants import flat
from minprm.logs.schemas import tool_name
from minprm.printable import printable
from minprm.report.glossary import ABOUT_ARMS
from minprm.report.table import interval

CHOSEN = "A thought was chosen for the action that follows it, never for being true."
IMITATES = "It imitates its logs, with the mistakes in them."
LIMITS = {"sft": IMITATES, "act_prm": CHOSEN, "relabel": CHOSEN}  # of what a stage teaches
REPLAYED = (
    "The score is the share of {steps:,} steps in {logs:,} held-out logs at which it wrote the "
    "expert's action; the interval is over logs. It never acted itself: another action may be as "
    "good, and its own mistakes lead where no log went."
)
PLAYED = (
    "The score is the share of {episodes:,} played tasks that were won, {tasks:,} different ones, "
    "none of them trained on; the interval is Wilson's, over tasks. It played in no other world."
)
ROUNDED = (
    "Training kept its weights in fp32. Here they are rounded to {dtype}, which undoes small "
    "changes: after 40 updates at a learning rate of 1e-6, .77 of the weights differed from the "
    "base model's, and .16 after rounding to bf16. minprm export --dtype fp32 keeps them all."
)
SERVED = (
    "Training and evaluation drew from the whole vocabulary. A top-p or top-k in "
    "generation_config.json is the base model's own."
)


def card(
    name: str, base: str, rank: int, dtype: str, about: dict, line: str, notes: list[str]
) -> str:
    """The text of README.md.

    base: hub id of the base model, or the name of its folder. rank: of adapters; 0: a whole model.
    about: what minprm.json says, or {}. line: the command that serves it. notes: what its clients
    have to know.
    """
    row = about.get("row")
    stages = [stage.split(":")[0] for stage in about.get("stages", [])]
    limits = [*dict.fromkeys(LIMITS[stage] for stage in stages if stage in LIMITS)]
    limits.append("The numbers are of one seed." if row else "No evaluation of it is known here.")
    limits.append("Nothing was done about safety beyond what the base model had learned.")
    if dtype != "fp32":
        limits.append(ROUNDED.format(dtype=dtype))
    kind = "LoRA adapters of a language model" if rank else "A language model"
    head = ["---", f"library_name: {'peft' if rank else 'transformers'}"]
    if re.fullmatch(r"[\w.-]+/[\w.-]+", base):  # on the hub, and no folder of somebody's disk
        head.append(f"base_model: {base}")
    head += ["pipeline_tag: text-generation", "tags:", "- minprm", "---"]
    parts = [
        "\n".join(head),
        f"# {name}",
        f"{kind} that acts step by step, trained with minprm from {code(base)}. The licence of "
        "the base model holds for it too.",
    ]
    if about:
        parts += ["## Training", *_training(about, stages)]
    if row:
        parts += ["## Results", *_results(row)]
    parts += ["## Limits", _list(limits)]
    parts += ["## Serving", f"```\n{code(line)[1:-1]}\n```", _list([*notes, SERVED])]
    return "\n\n".join(parts) + "\n"


def _training(about: dict, stages: list[str]) -> list[str]:
    """What it learned from, and how it was asked."""
    knobs = about["asked"]
    world = code(knobs["agent"] or knobs["world"])
    logs = about["logs"]
    if not stages:
        data = "Nothing was trained."
    elif "synth" in stages or {*stages} == {"rl"}:
        data = f"No logs of others: it played in the world {world}."
    else:
        source = code(logs["file"]) if logs["file"] else f"the expert of the world {world}"
        data = f"{logs['learned']:,} logs of {logs['tasks']:,} tasks from {source}. Others were "
        data += f"held out: {logs['held_out']:,} for choices, {logs['tested']:,} for the score."
    meaning = ABOUT_ARMS.get(about["arm"], code(" ".join(about["stages"])))
    tools = [tool_name(tool) for tool in about["tools"]]
    lines = []
    for knob, setting in flat({**knobs, "tools": tools, **about["knobs"], **about["libraries"]}):
        plain = " ".join(map(str, setting)) if isinstance(setting, list) else str(setting)
        lines.append(f"{code(knob)}: {code(plain) if plain else 'none'}")
    return [
        f"It is the arm {code(about['arm'])} of the run {code(about['run'])}, seed "
        f"{about['seed']}: {meaning}.",
        data,
        "How it was asked, other knobs that differ from minprm's defaults, and versions:",
        _list(lines),
    ]


def _results(row: dict) -> list[str]:
    """The score as a table, and what it means."""
    mean, low, high = interval([row])
    head = "| score | 95 % interval | turns with a thought |\n|-|-|-|"
    numbers = f"| {mean:.3f} | {low:.3f} to {high:.3f} | {row['thought_rate']:.2f} |"
    meaning = REPLAYED if "interval" in row else PLAYED
    return [f"{head}\n{numbers}", meaning.format(**row)]


def code(text: str) -> str:
    """The text as code, where nothing in it is markup: it may be a stranger's."""
    line = printable(" ".join(text.split()))
    return "`" + line.replace("`", "'").replace("|", "/") + "`"


def _list(sentences: list[str]) -> str:
    return "\n".join(f"- {sentence}" for sentence in sentences)
