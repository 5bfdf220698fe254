"""Asynchronous RL: the next batch is played while this one is learned from.

What is played ahead comes from older weights: a batch that is trained on at version n was written
by version n - 1 (PRIME-RL, arXiv:2505.07291). Its ratios are taken against what really wrote it, so
losses with a ratio know. More than one batch ahead would only be older: one model plays, and it
plays one batch at a time.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TypeVar

import torch

T = TypeVar("T")


class Prefetch:
    """Batches by number. At level 1 the next one is made in a thread while the caller goes on; at
    level 0 each is made when it is asked for, in the caller's thread."""

    def __init__(self, level: int):
        self.level = level
        self.pending: Future | None = None  # the batch that will be asked for next
        # the flag that makes tiny activations fast is a thread's own
        self.pool = ThreadPoolExecutor(1, initializer=torch.set_flush_denormal, initargs=(True,))

    def take(self, make: Callable[[int], T], number: int, until: int) -> T:
        """The batch of that number. The one after it is begun, unless it is number `until`."""
        if not self.level:
            return make(number)
        batch = self.pending or self.pool.submit(make, number)
        following = number + 1
        self.pending = self.pool.submit(make, following) if following < until else None
        return batch.result()

    def settle(self) -> None:
        """Waits for what is pending: weights change only when nobody writes with them."""
        if self.pending:
            wait([self.pending])
