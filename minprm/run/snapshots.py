"""What a killed run goes on from: one file for each stage, replaced whole or not at all."""

from collections.abc import Callable
from pathlib import Path

import torch


class Snapshots:
    """The snapshots of one seed, by stage_id: all stages up to that one, joined by "+"."""

    def __init__(self, folder: Path, seed: int, on_save: Callable[[], None] = lambda: None):
        """on_save is called after each snapshot, by a rented GPU to keep what is on its disk."""
        self.folder = folder
        self.seed = seed
        self.on_save = on_save

    def load(self, stage_id: str) -> dict:
        """What was saved last of this stage, or an empty dict."""
        file = self._file(stage_id)
        if not file.exists():
            return {}
        return torch.load(file, weights_only=False)

    def save(self, stage_id: str, **state) -> None:
        """Replaces the stage's snapshot."""
        file = self._file(stage_id)
        file.parent.mkdir(parents=True, exist_ok=True)
        half = file.with_suffix(".tmp")
        torch.save(state, half)
        half.replace(file)  # a crash leaves the old file or the new one, never half of one
        self.on_save()

    def _file(self, stage_id: str) -> Path:
        return self.folder / f"{stage_id.replace(':', '-')}-{self.seed}.pt"
