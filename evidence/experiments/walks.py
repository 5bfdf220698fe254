"""Walks to several cells, for beyond_errand.py: a base that has seen them, and their thoughts."""

from minprm.envs.errand import Errand
from minprm.play import Episode


class Walks(Errand):
    """Errand in which a walk visits one to three cells."""

    def begin(self) -> str:
        self.waypoints = self.rng.randint(1, 3)
        self.turns = 16 * self.waypoints
        return super().begin()


def fate(thought: str, world: Errand) -> str:
    """What a thought is about, in the present state. "wrong start" is any other pose on the way to
    the same cell; "none" names no cell.

    >>> world = Errand()
    >>> world.reset(0)
    'start x5 y3 S . visit x0 y0 .'
    >>> fate("at x5 y3 S to x0 y0 need W", world), fate("at x5 y3 N to x0 y0 need W", world)
    ('right', 'wrong start')
    >>> fate("at x5 y3 S to x1 y1 need W", world), fate("bare", world)
    ('another cell', 'none')
    """
    if thought == world.thought():
        return "right"
    x, y = world.goals[world.index]
    if f"to x{x} y{y}" in thought:
        return "wrong start"
    return "another cell" if " to " in thought else "none"


def first_thoughts(e: Episode, world: Errand) -> list[tuple[str, bool]]:
    """(what the first thought on the way to a cell is about, was the cell found) of each cell that
    the walk set out for."""
    world.reset(e.world.seed)
    fates, found = [], 0
    for step in e.steps:
        if len(fates) == found:
            fates.append(fate(step.thought or "", world))
        _, reward, *_ = world.step(step.action)
        if reward:
            found += 1
    return [(told, cell < found) for cell, told in enumerate(fates)]
