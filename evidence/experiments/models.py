"""The models that beyond.py and state.py ask: those of scarce.py, and the same on a wider base."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from evidence.experiments import scarce
from evidence.experiments.runs import SEEDS, successes
from minprm.commands.train import CHECKPOINTS
from minprm.envs.base import World
from minprm.envs.cups import Cups
from minprm.load import tiny


class Lengths(Cups):
    """Cups in which every round has 2 to 8 swaps."""

    def _new_round(self, start: str) -> str:
        self.swaps = self.rng.randint(2, 8)
        return super()._new_round(start)


def narrow_models() -> dict[str, list[str]]:
    """The arms of scarce.py, whose base was raised on 4 swaps."""
    scarce.of_arms()
    return models("scarce")


def wide_models() -> dict[str, list[str]]:
    """The same arms on a base that was raised on 2 to 8 swaps. Their logs have 4, as there."""
    with base_of(Lengths):
        successes("beyond", f"{scarce.FLAGS} --jobs 1")  # it has to be this process
    return models("beyond")


@contextmanager
def base_of(kind: type[World]) -> Iterator[None]:
    """Here bases are raised on this kind of world, whichever one the arms learn in."""
    raised = tiny.raised
    with patch.object(tiny, "raised", lambda world, *rest: raised(kind(), *rest)):
        yield


def models(name: str) -> dict[str, list[str]]:
    """The models of a run: of each arm, the path of each of SEEDS."""
    folder = CHECKPOINTS / f"evidence-{name}"
    return {arm: [str(folder / f"{arm}-{seed}") for seed in SEEDS] for arm in scarce.ARMS.split()}
