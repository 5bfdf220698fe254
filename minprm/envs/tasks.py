"""The tasks of a user's file: one a row, read once, and some for every split."""

from collections.abc import Callable
from functools import cache

from minprm.envs.base import SPLITS, tasks_split
from minprm.logs.reader import read_rows


@cache
def tasks_of(file: str, parse: Callable[[dict], tuple]) -> list:
    """`parse` of each row: a tuple that begins with what makes it another task than the next.

    Raises ValueError with what is wrong, and in which row.
    """
    tasks = read_rows(file, parse)
    check_splits([task[0] for task in tasks], file)
    return tasks


def check_splits(tasks: list[str], file: str) -> None:
    """Raises ValueError where the tasks of a user's file leave a split empty."""
    splits = {tasks_split(task) for task in tasks}
    for split in SPLITS:
        if split not in splits:
            raise ValueError(
                f"{file}: none of its {len(set(tasks))} different tasks falls into the {split} "
                "split, which a hash of each task decides: it needs more tasks"
            )
