"""The embedded models that come with minprm: those of the presets cups, smoke and errand.

They were raised once, so that a first run need not wait, and so that its numbers do not depend on
where its base model was raised. `bases/` holds the weights of each. bases.json says what each was
raised on and by which command, and what the gate measured. `python -m evidence.bases` makes them.
"""

import hashlib
import inspect
import json
from copy import deepcopy
from dataclasses import asdict
from pathlib import Path

from minprm.constants import Tiny
from minprm.envs.base import World
from minprm.load.narration import narrated

FILE = Path(__file__).with_name("bases") / "bases.json"


def shipped(world: World, cfg: Tiny, seed: int) -> Path | None:
    """The weights that were raised on just this; None where no such model comes with minprm."""
    ours = settings(world, cfg, seed)
    for name, origin in json.loads(FILE.read_text(encoding="utf-8")).items():
        if origin["settings"] == ours and origin["lesson"] == first_lesson(world, cfg, seed):
            return FILE.with_name(f"{name}.safetensors")
    return None


def settings(world: World, cfg: Tiny, seed: int) -> dict:
    """The knobs that a base model depends on."""
    knobs = {name: getattr(world, name) for name in inspect.signature(type(world)).parameters}
    return {"world": type(world).__name__, "knobs": knobs, "tiny": asdict(cfg), "seed": seed}


def first_lesson(world: World, cfg: Tiny, seed: int) -> str:
    """A hash of the words and of the episodes of the first update.

    It differs where somebody has edited the world or its narrator: what was raised on the old ones
    is then not taken.
    """
    own = deepcopy(world)  # somebody may be playing the one that is given
    lesson = json.dumps([own.words, narrated(own, cfg, seed, update=0)])
    return hashlib.sha256(lesson.encode()).hexdigest()[:12]
