"""What a piece of work costs: seconds of the processor, memory, tokens that a model is given.

Seconds are of this process alone, where no other clock is asked for: another job on the machine
stretches those that pass.
"""

import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from transformers import PreTrainedModel


def timed(function: Callable, *arguments, clock: Callable[[], float] = time.process_time) -> tuple:
    """(what the function returns, seconds: of the processor, or of another clock)"""
    began = clock()
    result = function(*arguments)
    return result, clock() - began


def most_memory() -> int:
    """Bytes that this process has taken at most; on Linux.

    What `getrusage` says begins, in a new process, with the memory of the one that started it.
    """
    (line,) = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return 2**10 * int(line)


def in_a_process(module: str, *words: str) -> str:
    """What a benchmark prints when it is run with these words, in a process of its own."""
    command = [sys.executable, "-m", module, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def on_each_pass(model: PreTrainedModel, note: Callable[[int], None]) -> None:
    """Tells `note` the tokens of each forward pass, padding included: rows times columns.

    A model begins with the table of its tokens, which is given all of them.
    """

    def count(_, given: tuple[torch.Tensor, ...]) -> None:
        note(given[0].numel())

    model.get_input_embeddings().register_forward_pre_hook(count)


def count_learned(model: PreTrainedModel) -> list[int]:
    """A list to which each forward pass for a gradient adds its tokens, padding included."""
    learned = []

    def note(tokens: int) -> None:
        if torch.is_grad_enabled():
            learned.append(tokens)

    on_each_pass(model, note)
    return learned
