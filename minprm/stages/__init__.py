"""What an arm is made of: each stage is a function of a Run.

A command line that only names stages does not wait for torch, so their names are here, and
arms/ladder.py puts the functions to them. A stage of your own is one more:
STAGES["mine"] = function.
"""

from collections.abc import Callable

from minprm.constants import ARMS

# Of our own stages; the first two are in no arm.
NAMES = {"synth", "rl:sum", *(stage for stages in ARMS.values() for stage in stages)}
# The logs that a stage reads: those that the run was given, or those that the stage before has left
READ_GIVEN = {
    "act_prm", "act_prm:resample", "relabel", "relabel:matched", "relabel:resample", "sample",
    "copy", "sft:actions", "sft:expert",
}  # fmt: skip
READ_LEFT = {"sft:thoughts", "shuffle"}
STAGES: dict[str, Callable] = {}  # functions of (run, stage_id), by name

# The variant act_prm:resample. It trains thoughts alone: with action tokens trained too, the model
# learned the commonest action after short thoughts, whose reward meant nothing (docs/credit.md).
RESAMPLE = {
    "continues": "resample", "trained_on": "thought", "advantage": "posterior", "baseline": "none",
}  # fmt: skip
