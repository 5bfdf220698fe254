"""What several processes send each other, and how long one waits for the others.

On paper. N processes; M bytes of weights that are trained (4 a weight: gradients are
fp32); L layers; T tokens that are drawn or scored; B micro-batches of the process with the most.
A ring sends 2 (N-1)/N of what it sums and (N-1)/N of what it hands out or puts together. All that
a process sends:

    gathered        two all_gathers, of a length and of what is pickled, filled up to the longest
    generate        2 gathers of a number each, and one of the completions for each 512 of them;
                    about 12 (N-1)/N T bytes (9 a log-prob, 3 an id)
    readings        1 gather; 8 (N-1)/N T bytes and 160 a Sample
    a walk's step   one generate and one readings: 4 gathers, whatever the number of logs
    update, whole   2 gathers (statistics, names) and 1 all_reduce: 2 (N-1)/N M bytes. No update on
                    N shares of the samples can do with less: that many bytes a sum takes
    update, spread  4 gathers; in each micro-batch 2 (L+1) all_gathers, forward and backward, and
                    L+1 reduce_scatters: 3 (N-1)/N M bytes, times B
    after it        the first generate puts all weights together: L+1 all_gathers, (N-1)/N M bytes
"""

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.cost import timed
from minprm.several.processes import count

# Of each operation: which argument is this process's own part, and what it sends of that
SENT: dict[str, tuple[int, Callable[[float, int], float]]] = {
    "allreduce_": (0, lambda size, n: 2 * (n - 1) / n * size),
    "allgather_": (1, lambda size, n: (n - 1) * size),
    "_allgather_base_": (1, lambda size, n: (n - 1) * size),
    "_reduce_scatter_base_": (0, lambda size, n: (n - 1) * size),
}


class Traffic(TorchDispatchMode):
    """Operations among all processes, and the bytes that this one sends in them, by their kind.

    Without the norm of spread gradients, four bytes, which DTensor sums below."""

    def __init__(self):
        super().__init__()
        self.calls: Counter = Counter()
        self.bytes: Counter = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.namespace == "c10d":
            name = func.overloadpacket.__name__
            place, sends = SENT[name]
            self.calls[name] += 1
            self.bytes[name] += sends(bytes_of(args[place]), count())
        return func(*args, **(kwargs or {}))

    def told(self) -> dict[str, dict]:
        """By kind, without the underscores: calls and bytes."""
        return {
            name.strip("_"): {"calls": calls, "bytes": round(self.bytes[name])}
            for name, calls in self.calls.items()
        }


def bytes_of(tensors: torch.Tensor | list) -> int:
    if isinstance(tensors, torch.Tensor):
        return tensors.nbytes
    return sum(map(bytes_of, tensors))


def on_the_wire() -> int:
    """Bytes that have left by the loopback, over which processes of one machine talk; on Linux."""
    for line in Path("/proc/net/dev").read_text().splitlines():
        name, _, numbers = line.partition(":")
        if name.strip() == "lo":
            return int(numbers.split()[8])
    return 0


class Waiting:
    """Seconds in which this process waited for an operation among all."""

    def __init__(self):
        self.seconds = 0.0
        wait = dist.Work.wait

        def timed_wait(*what, **knobs):
            done, seconds = timed(wait, *what, clock=time.perf_counter, **knobs)
            self.seconds += seconds
            return done

        dist.Work.wait = timed_wait
