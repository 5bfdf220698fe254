"""A knob that is read is never refused for want of an effect, and one that is not always is.

Small ladders are run in each situation that the code tells apart, and what they read is recorded.
"""

import dataclasses
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from pathlib import Path

import pytest

from minprm import constants
from minprm.commands.cli import parse
from minprm.commands.effects import idle
from minprm.constants import Config, flat
from minprm.ladder import ladder, start
from minprm.model.agent import Agent
from minprm.play import expert_demos
from minprm.run.log import Log
from minprm.text.logs import write_demos

SECTIONS = {
    constants.Tiny: "tiny.", constants.SFT: "sft.", constants.ActPRM: "act_prm.",
    constants.Relabel: "relabel.", constants.RL: "rl.", constants.History: "history.",
    constants.Engine: "engine.", Config: "", Agent: "",
}  # fmt: skip
# The agent takes a copy of these, so it is there that they are read.
AGENTS = {f.name for f in fields(Agent)} & {f.name for f in fields(Config)}
KNOBS = dict(flat(asdict(Config())))
TINY = (
    "--world-args rounds=2 swaps=1 cups=2 --no-gate --tiny.dim 16 --tiny.layers 1 --tiny.heads 1 "
    "--tiny.updates 60 --tiny.act-only 0 --thought-tokens 9 --seeds 0"
)
SMALL = {
    "num_demos": 4, "held_out": 2, "episodes": 4, "sft.epochs": 1, "sft.batch": 4,
    "act_prm.updates": 2, "act_prm.batch": 2, "act_prm.group": 2, "relabel.group": 2,
    "rl.updates": 2, "rl.batch": 2, "rl.group": 2, "save_every": 1,
}  # fmt: skip
