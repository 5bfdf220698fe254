"""What a command refuses, and a checkpoint that is nothing but its file."""

from pathlib import Path

import pytest

from minprm.arms.about import about, write_about
from minprm.constants import Config, History
from minprm.text.instruction import Instruction


def refusal(command, flags: list[str], capsys) -> str:
    """The sentence with which these flags are refused, by exit code 2 and before anything else."""
    with pytest.raises(SystemExit) as stop:
        command(flags)
    error = capsys.readouterr().err
    assert stop.value.code == 2 and error.count("\n") == 1 and len(error) < 400, error
    return error


WORLD = ["rounds=1", "swaps=1"]
TRAINED = Config(
    world_args=WORLD, thought_tokens=5, context=300, think=False, history=History(last=2),
    run="r", arms=["rl"], lora=4,
)  # fmt: skip


def checkpoint(folder: Path, cfg: Config = TRAINED) -> str:
    """A folder that holds nothing but its minprm.json."""
    folder.mkdir()
    write_about(folder, about(cfg, "rl", ["rl"], 3, Instruction(""), [], [], []))
    return str(folder)
