"""Asynchronous RL: the next batches are played while this one is learned from.

What is played ahead comes from older weights: a batch that is trained on at version n was written
by version n-k, and `level` bounds k (PRIME-RL, arXiv:2505.07291). Its ratios are taken against what
really wrote it, so losses with a ratio know.
"""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TypeVar

import torch

T = TypeVar("T")


class Prefetch:
    """Batches by number, made in one thread, up to `level` of them before they are asked for.

    At level 0 each is made when it is asked for, in the caller's thread: nothing runs beside
    anything.
    """

    def __init__(self, level: int):
        self.level = level
        self.pending: deque[Future] = deque()
        # the flag that makes tiny activations fast is a thread's own
        self.pool = ThreadPoolExecutor(1, initializer=torch.set_flush_denormal, initargs=(True,))

    def take(self, make: Callable[[int], T], number: int, until: int) -> T:
        """The batch of that number. Those after it are begun, but none from `until` on."""
        if not self.level:
            return make(number)
        while len(self.pending) <= self.level and number + len(self.pending) < until:
            self.pending.append(self.pool.submit(make, number + len(self.pending)))
        return self.pending.popleft().result()

    def settle(self) -> None:
        """Waits for what is pending: weights change only when nobody writes with them."""
        wait(self.pending)
