"""The protocol that every world follows. A world knows nothing of models.

Randomness is the world's own `random.Random`, seeded by `reset`; the global one is never touched.
"""

import random
from typing import Any

SPLITS = {"train": 0, "validation": 1_000_000_000, "test": 2_000_000_000}


def task_seed(split: str, index: int) -> int:
    """Task seeds of train, validation and test lie in disjoint ranges of 10^9."""
    if not 0 <= index < 1_000_000_000:
        raise ValueError(f"task index {index} leaves its split")
    return SPLITS[split] + index


class World:
    """One task at a time: reset, then step until done."""

    system: str = ""  # the rules, for a model that reads English
    tools: list[dict[str, Any]] = []  # noqa: RUF012  JSON-schema functions; none: plain text
    success: bool = False

    # for worlds that the embedded model is raised on
    words: list[str] = []  # noqa: RUF012
    kinds: dict[str, float] = {}  # noqa: RUF012

    def reset(self, seed: int) -> str:
        """First observation of the task `seed`."""
        raise NotImplementedError

    def step(self, action: str) -> tuple[str, float, bool, dict]:
        """(observation, reward, done, info). An illegal action is told so and costs a step.

        info: `valid`, the action was legal; `effective`, it changed something.
        Raises RuntimeError after the end.
        """
        raise NotImplementedError

    def actions(self) -> list[str]:
        """All actions that random play chooses from."""
        raise NotImplementedError

    def expert(self) -> str:
        """The planner's action in this very state, also off its own path."""
        raise NotImplementedError

    def thought(self) -> str | None:
        """How the world explains the expert's action: for the reference arm only."""
        return None

    def babble(self, kind: str, rng: random.Random) -> tuple[str, str]:
        """A thought of this kind about the present state, and the action that goes with it."""
        raise NotImplementedError

    def kind(self, thought: str) -> str:
        """Which kind of thought this is in the present state; "?" for none: the gate's measure."""
        raise NotImplementedError
