"""How a CPU computes: one rule for all commands on its threads, and one on its memory.

A small model computes with one, so that its numbers are the same however many cores there are:
threads add sums up in another order, which rounds them in another way. Two are faster on an idle
machine, and slower beside another program. A larger model gets as many as torch chooses. --threads
says otherwise.

Threads that wait for each other spin, so where another program has one of the cores, all of them
wait for it. OMP_WAIT_POLICY=PASSIVE lets them sleep instead. __main__.py sets it, because it is
read when torch is imported.
"""

import ctypes
import os
import sys

import torch

from minprm.load.names import is_small

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # numbers of glibc's malloc.h
TORCHS = torch.get_num_threads()  # its own choice, before anybody else's


def set_threads(model: str, threads: int = 0) -> int:
    """Sets the number of threads for this --model; 0: by the rule. Returns it."""
    threads = threads or (1 if is_small(model) else TORCHS)
    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)  # tiny activations are ten times slower on a CPU
    if sys.platform == "linux":
        keep_freed_memory()
    return threads


def keep_freed_memory() -> None:
    """Has the process keep what a tensor has freed, for the next one.

    glibc gives tensors above 32 MiB back to the system, which then fills new pages with zeros for
    the next one. A language model on a CPU has many of them in each layer. The price is a higher
    peak of memory.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):  # another C library may lack it
        libc.mallopt(M_MMAP_THRESHOLD, 2**31 - 1)
        libc.mallopt(M_TRIM_THRESHOLD, -1)


def give_back_memory() -> None:
    """Gives the system back what was freed and kept.

    A look writes more at once than an update does, and what an update has freed lies in pieces that
    are too small for it: the memory of the two would add up.
    """
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):  # another C library may lack it
        libc.malloc_trim(0)


def why(model: str, threads: int) -> str:
    """The number of threads in a sentence for the log, and why it is no larger one."""
    sentence = f"CPU threads: {threads}"
    if threads == 1 and is_small(model):
        return f"{sentence}, so that numbers do not depend on how many cores there are"
    if threads > 1 and os.environ.get("OMP_WAIT_POLICY") == "PASSIVE":
        return f"{sentence}, which sleep while they wait"
    return sentence
