"""Names of stages. A stage is known by all stages up to it, because it goes on from what they left:
act_prm+relabel+sft:thoughts is SFT on thoughts, after relabelling, after Act-PRM.
"""

import math

from minprm.constants import Config, arms_of
from minprm.data import Demo


def ids_of(stages: list[str]) -> list[str]:
    """The ids of an arm's stages.

    >>> ids_of(["act_prm", "relabel"])
    ['act_prm', 'act_prm+relabel']
    """
    return ["+".join(stages[: i + 1]) for i in range(len(stages))]


def stage_ids(cfg: Config) -> list[str]:
    """All that is trained for a seed, in order; arms that begin alike share their beginnings."""
    ids = []
    for stages in arms_of(cfg).values():
        ids += ids_of(stages)
    return list(dict.fromkeys(ids))


def last_stage(stage_id: str) -> str:
    """The stage whose result it is.

    >>> last_stage("act_prm+relabel+sft:thoughts")
    'sft:thoughts'
    """
    return stage_id.split("+")[-1]


def kind(stage_id: str) -> str:
    """The same without its variant.

    >>> kind("act_prm+relabel+sft:thoughts")
    'sft'
    """
    return last_stage(stage_id).split(":")[0]


def stage_name(stage_id: str, seed: int) -> str:
    """The name of a stage's folder: one seed's.

    >>> stage_name("act_prm+relabel+sft:thoughts", 0)
    'act_prm+relabel+sft-thoughts-0'
    """
    return f"{stage_id.replace(':', '-')}-{seed}"


def reads_instruction(stages: list[str], cfg: Config) -> bool:
    """Does the model read the instruction in the last of these stages, and when it acts after it?

    It does until SFT, and then no more, because SFT teaches it to think without being told
    (text/instruction.py). With --sft.keep-instruction it always does.
    """
    return cfg.sft.keep_instruction or not any(stage.startswith("sft:") for stage in stages)


def updates_of(stage_id: str, cfg: Config, demos: list[Demo]) -> int:
    """How many updates a stage takes at most; relabelling may leave demos out."""
    if kind(stage_id) != "sft":
        return {"act_prm": cfg.act_prm.updates, "rl": cfg.rl.updates}.get(kind(stage_id), 0)
    samples = sum(len(demo.steps) if cfg.history.edits() else 1 for demo in demos)
    return math.ceil(cfg.sft.epochs * samples / cfg.sft.batch)
