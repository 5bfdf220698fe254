"""Worlds by name. `base.py` is the protocol that all follow."""

from minprm.envs.cups import Cups
from minprm.envs.errand import Errand

WORLDS = {"cups": Cups, "errand": Errand}
