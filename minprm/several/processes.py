"""The processes of a run (torchrun): how many there are, and what one tells the others.

What they share out stands in shares.py.
"""

import os
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from minprm.constants import fail

T = TypeVar("T")
ENDINGS: list[Callable[[], object]] = []  # how to end what can end only while all are there


def start() -> None:
    """Joins the processes that torchrun has started, if those are several."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or dist.is_initialized():
        return
    backend = "gloo"
    if torch.cuda.is_available():
        if int(os.environ["LOCAL_RANK"]) < torch.cuda.device_count():  # or else names.py refuses it
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        backend = "cpu:gloo,cuda:nccl"
    store, own, size = next(rendezvous("env://"))
    # torchrun may start all again, and keep what they have told each other before
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    store = PrefixStore(f"attempt {attempt}", store)
    # the first may load or save for long; torchrun, and no time-out, notices that one has ended
    dist.init_process_group(
        backend, store=store, rank=own, world_size=size, timeout=timedelta(hours=2)
    )


def stop() -> None:
    """Leaves them, when all is done."""
    for end in ENDINGS:
        end()
    if dist.is_initialized():  # an engine ends that as well
        dist.destroy_process_group()


def of_others(error: BaseException) -> bool:
    """Does it only tell that another process is no longer there?"""
    return isinstance(error, dist.DistError) or (
        isinstance(error, RuntimeError) and "gloo" in str(error)
    )


def store() -> Store | None:
    """What all processes can write to, also when one of them has ended; None where it is gone."""
    try:
        return next(rendezvous("env://", timeout=timedelta(seconds=5)))[0]
    except dist.DistError:
        return None


def rank() -> int:
    """The number of this process. The first one, 0, writes the files."""
    return dist.get_rank() if dist.is_initialized() else 0


def count() -> int:
    """How many processes there are."""
    return dist.get_world_size() if dist.is_initialized() else 1


def gathered(mine: T, group: dist.ProcessGroup | None = None) -> list[T]:
    """What each process has, in the order of their numbers. All have to ask; raises where another
    one asks for something else."""
    if count() == 1:
        return [mine]
    asker = _callers()
    answers: list[Any] = [None] * count()
    dist.all_gather_object(answers, (asker, mine), group)
    if any(other != asker for other, _ in answers):
        parted("went different ways")
    return [answer for _, answer in answers]


def _callers() -> str:
    """The names of the three functions by which `gathered` was called."""
    frame = sys._getframe(2)
    names = []
    while frame and len(names) < 3:
        names.append(frame.f_code.co_qualname)
        frame = frame.f_back
    return " ".join(names)


def parted(how: str) -> NoReturn:
    """Ends the program where the processes no longer do the same."""
    fail(
        f"the processes {how}: what a world shows, or what a reward says, has to depend on its "
        "seeds and arguments alone"
    )


def sum_up(tensors: list[Tensor]) -> None:
    """Makes each of these the sum of those in all processes. They are sent together."""
    flat = torch.cat([tensor.flatten() for tensor in tensors])
    dist.all_reduce(flat)
    pieces = flat.split([tensor.numel() for tensor in tensors])
    for tensor, piece in zip(tensors, pieces, strict=True):
        tensor.copy_(piece.view_as(tensor))


def group_of_its_own() -> dist.ProcessGroup:
    """All processes once more, for another thread: what two threads say does not mix."""
    group: Any = dist.new_group(backend="gloo")  # it returns a number to whom it leaves out
    return group


def from_first(make: Callable[[], T]) -> T:
    """What the function returns in the first process, which alone calls it. All have to ask."""
    box: list[Any] = [make() if rank() == 0 else None]
    if count() > 1:
        gathered(None)  # do all ask for this?
        dist.broadcast_object_list(box, 0)
    return box[0]


def agreed(mine: dict[str, float]) -> dict[str, float]:
    """The numbers of the first process. Exits where another one has others. All have to ask."""
    tables = gathered(mine)
    for table in tables:
        # two kinds of CPU may round otherwise
        if any(abs(number - tables[0][name]) > 1e-3 for name, number in table.items()):
            parted("came to different numbers on held-out tasks")
    return tables[0]


def copy_from_first(folder: Path, names: str = "*") -> None:
    """Gives the other processes the files of a folder of the first one, which may be another folder
    there. names: a pattern. All have to ask."""
    files = from_first(lambda: {file.name: file.read_bytes() for file in folder.glob(names)})
    if rank():
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (folder / name).write_bytes(content)
