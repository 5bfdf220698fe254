"""A model that transformers loads, with what `minprm evaluate` has to know of it beside it."""

from pathlib import Path

from minprm.arms.about import about, write_about
from minprm.trainer import Run


def save_checkpoint(run: Run, folder: Path, name: str, stages: list[str]) -> dict:
    """Saves the model as it is now. Returns what minprm.json says of it."""
    run.agent.policy.save(folder)
    instruction = run.agent.instruction.text if run.agent.reads_instruction else ""
    description = about(
        run.cfg, name, stages, run.seed, instruction, run.train_demos, run.held_out, run.test
    )
    write_about(folder, description)
    return description
