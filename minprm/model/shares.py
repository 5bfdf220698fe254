"""Which process writes after which prompt; and the completions of all, in every process.

It is the same for both samplers. Each process has written after its prompts when it asks for those
of the others.
"""

from threading import current_thread, main_thread
from typing import Any, TypeVar

from minprm.model.processes import count, gathered, group_of_its_own, parted, rank

T = TypeVar("T")  # what is written after a prompt


class Owners:
    """Whose each prompt is: of the writer that has read how it begins, and else of the one that has
    least to do."""

    def __init__(self, writers: int):
        self.writers = writers
        self.known: dict[tuple[int, ...], int] = {}  # of a walk: first prompts, and whose they are

    def of(self, prompts: list[tuple[int, ...]]) -> list[int]:
        """The number of the writer after each prompt; equal ones have the same."""
        sizes = sorted({len(prompt) for prompt in self.known}, reverse=True)
        owners: dict[tuple[int, ...], int] = {}
        work = [0] * self.writers
        new: dict[tuple[int, ...], int] = {}  # and how often each is asked
        for prompt in prompts:
            if prompt not in owners and prompt not in new:
                begins = [prompt[:size] for size in sizes if prompt[:size] in self.known]
                if begins:
                    owners[prompt] = self.known[begins[0]]
            if prompt in owners:
                work[owners[prompt]] += 1
            else:
                new[prompt] = new.get(prompt, 0) + 1
        for prompt, times in new.items():
            owner = work.index(min(work))
            work[owner] += times
            owners[prompt] = self.known[prompt] = owner
        return [owners[prompt] for prompt in prompts]


class Shares:
    """The prompts of a walk, shared out. All processes have to ask the same, in the same order."""

    def __init__(self, team: int = 1):
        """team: how many processes, one after the other, write together."""
        self.team = team
        self.beside = group_of_its_own()  # a thread may write while another one learns
        self.begin()

    @property
    def group(self) -> Any:
        """The processes as the thread that asks has them. The main thread asks all in one order, so
        that processes find out where they no longer do the same."""
        return None if current_thread() is main_thread() else self.beside

    def begin(self) -> None:
        """A new walk: nobody has read anything."""
        self.owners = Owners(count() // self.team)

    def mine(self, prompts: list[list[int]]) -> list[int]:
        """The numbers of the prompts after which this process writes."""
        owners = self.owners.of([tuple(prompt) for prompt in prompts])
        return [i for i, owner in enumerate(owners) if owner == rank() // self.team]

    def of_all(self, found: dict[int, T]) -> list[T]:
        """What is written after each prompt, from what this process has written after its own."""
        speaks = rank() % self.team == 0  # the others of its team have written the same
        written: dict[int, T] = {}
        for each in gathered(found if speaks else {}, self.group):
            written |= each
        return [written[i] for i in range(len(written))]

    def require_same(self, prompts: list[list[int]]) -> None:
        """Exits where the processes were given different prompts."""
        told = gathered(hash(tuple(map(tuple, prompts))), self.group)
        if len({*told}) > 1:
            parted("were asked to continue different prompts")
