"""A model that transformers loads, with what `minprm evaluate` has to know of it beside it."""

from pathlib import Path

from minprm.arms.about import EXAMPLES, about, write_about
from minprm.logs.reader import write_demos
from minprm.text.instruction import Instruction
from minprm.trainer import Run


def save_checkpoint(run: Run, folder: Path, name: str, stages: list[str]) -> dict:
    """Saves the model as it is now. Returns what minprm.json says of it."""
    run.agent.policy.save(folder)
    instruction = run.agent.instruction if run.agent.reads_instruction else Instruction("")
    if instruction.examples:
        (folder / EXAMPLES).unlink(missing_ok=True)
        write_demos([*instruction.examples], folder / EXAMPLES)
    description = about(
        run.cfg, name, stages, run.seed, instruction, run.train_demos, run.held_out, run.test
    )
    write_about(folder, description)
    return description
