"""The model card of an exported checkpoint: README.md, in words that a stranger understands.

What is told comes from minprm.json (arms/about.py), from the run's ladder, and from serving.py.
What none of them says is left out.
"""

import re
from pathlib import Path

from minprm.constants import flat
from minprm.report.table import interval

METHODS = {
    "act_prm": "Act-PRM: for each logged action the model sampled thoughts; those that made the "
    "expert's action more probable were reinforced.",
    "relabel": "The sampled thought that made each logged action most probable was written into the"
    " logs.",
    "sample": "One sampled thought for each logged action was written into the logs, unchosen.",
    "shuffle": "The thoughts of the logs were exchanged at random, as a control.",
    "copy": "Each logged action was written into the logs as its own thought, as a control.",
    "sft:actions": "Supervised fine-tuning of the base model on the logged actions, without "
    "thoughts.",
    "sft:thoughts": "Supervised fine-tuning of the base model on the thoughts and the actions.",
    "sft:expert": "Supervised fine-tuning of the base model on the thoughts that the logs came "
    "with, and on the actions.",
    "rl": "Reinforcement learning by the rewards of the world.",
    "synth": "The model played, and the games that it won became logs.",
}
WHOLE = (
    "Training and evaluation drew from the whole vocabulary. A top-p or top-k in "
    "generation_config.json is the base model's own."
)


def card(
    name: str,
    base: str,
    about: dict,
    rows: dict[str, dict],
    serve: str,
    notes: list[str],
    merged: bool,
) -> str:
    """The text of README.md.

    base: hub id or path of the base model. about: what minprm.json says; {} where there is none.
    rows: of the ladder, one for each arm. serve: the command that serves it. notes: of serving.py.
    """
    parts = [_head(base, merged), f"# {name}", _what(base, about, merged)]
    if about:
        parts += _of_training(about)
    if rows:
        parts += ["## Results", *_results(rows, about)]
    parts += ["## Limits", _list(_limits(about, rows))]
    parts += ["## Serving", f"```\n{serve}\n```", _list([*notes, WHOLE])]
    if about:
        versions = [f"{library} {number}" for library, number in about["libraries"].items()]
        parts += ["## Versions", _list(versions)]
    return "\n\n".join(parts) + "\n"


def _head(base: str, merged: bool) -> str:
    """What the hub reads. A folder of somebody's disk is no name there."""
    lines = ["---", f"library_name: {'transformers' if merged else 'peft'}"]
    if re.fullmatch(r"[\w.-]+/[\w.-]+", base) and not Path(base).exists():
        lines.append(f"base_model: {base}")
    return "\n".join([*lines, "pipeline_tag: text-generation", "tags:", "- minprm", "---"])


def _what(base: str, about: dict, merged: bool) -> str:
    kind = "A language model" if merged else "LoRA adapters of a language model"
    text = f"{kind} that acts step by step, trained with minprm from {Path(base).name}."
    if about:
        text += (
            f" It is the arm `{about['arm']}` of the run `{about['run']}`, seed {about['seed']}."
        )
    return text + " The licence of the base model holds for it too."


def _of_training(about: dict) -> list[str]:
    """Data, method, and how it was asked."""
    stages = [METHODS.get(stage, METHODS.get(stage.split(":")[0])) for stage in about["stages"]]
    told = []
    for stage, words in zip(about["stages"], stages, strict=True):
        told.append(f"`{stage}`: {words}" if words else f"`{stage}`")
    method = _list(told) if told else "Nothing was trained: it is the base model."
    parts = ["## Data", _data(about), "## Method", method]
    if about["knobs"]:
        parts += ["Knobs that differ from minprm's defaults:", _knobs(about["knobs"])]
    return [
        *parts,
        "How it was asked, in training and in the evaluation:",
        _knobs(about["asked"]),
    ]


def _knobs(knobs: dict) -> str:
    told = []
    for knob, value in flat(knobs):
        told.append(f"`{knob}`: {'none' if value in ('', []) else value}")
    return _list(told)


def _data(about: dict) -> str:
    """Where the logs came from, and how many there were."""
    logs = about["logs"]
    world = about["asked"]["world"]
    args = " ".join(about["asked"]["world_args"])
    kinds = {stage.split(":")[0] for stage in about["stages"]}
    if kinds <= {"rl"} or "synth" in kinds:
        return f"No logs of others: it played in the world `{world}`." if kinds else "None."
    source = f"from `{logs['file']}`" if logs["file"] else f"of the expert of the world `{world}`"
    text = f"{logs['learned']:,} logs of {logs['tasks']:,} tasks {source}"
    text += f" ({args})" if args and not logs["file"] else ""
    text += f" to learn from; {logs['held_out']:,} of other tasks were held out for choices"
    if logs["tested"]:
        text += f", and {logs['tested']:,} of yet other tasks for the score"
    tools = [tool.get("function", tool).get("name", "?") for tool in about["tools"]]
    return text + (f". Tools: {', '.join(tools)}." if tools else ". There were no tools.")


def _results(rows: dict[str, dict], about: dict) -> list[str]:
    """The ladder of this seed as a table, and what its numbers mean."""
    replayed = all("likelihood" in row for row in rows.values())
    what = "steps matched" if replayed else "success"
    lines = [f"| | {what} | 95 % interval | turns with a thought |", "|-|-|-|-|"]
    for arm, row in rows.items():
        mean, low, high = interval([row])
        told = f"**{arm}**" if arm == about["arm"] else arm
        lines.append(
            f"| {told} | {mean:.3f} | {low:.3f} to {high:.3f} | {row['thought_rate']:.2f} |"
        )
    row = rows[about["arm"]]
    if replayed:
        text = (
            f"Share of {row['steps']:,} steps in {row['logs']:,} held-out logs at which the model "
            "wrote the expert's action. The interval is over logs."
        )
    else:
        text = (
            f"Share of {row['episodes']:,} played tasks that were won, {row['tasks']:,} different "
            "ones, none of them trained on. The interval is Wilson's, over tasks."
        )
    return ["\n".join(lines), text]


def _limits(about: dict, rows: dict[str, dict]) -> list[str]:
    """What a reader may not conclude."""
    limits = []
    if about and not about["asked"]["world"]:
        limits.append(
            "It was scored by the actions of held-out logs, never by acting itself. Another action "
            "than the logged one may be as good, and its own mistakes lead where no log went."
        )
    if about and about["asked"]["world"]:
        limits.append(f"It was measured in the world `{about['asked']['world']}` and nowhere else.")
    if rows:
        limits.append("The numbers are of one seed: they do not say how far runs differ.")
    else:
        limits.append("No evaluation of it is known here.")
    if about and any(stage.startswith("sft") for stage in about["stages"]):
        limits.append("It imitates its logs, with the mistakes in them.")
    if about and any(stage.startswith(("act_prm", "relabel")) for stage in about["stages"]):
        limits.append("A thought was chosen for the action that follows it, never for being true.")
    limits.append("Nothing was done about safety beyond what the base model had learned.")
    return limits


def _list(items: list[str]) -> str:
    return "\n".join(f"- {item}" for item in items)
