"""Worlds by name. `base.py` is the protocol that all follow."""

from minprm.envs.cups import Cups

WORLDS = {"cups": Cups}
