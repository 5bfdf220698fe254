"""What a killed run goes on from: one folder for each stage, replaced whole or not at all.

    model.safetensors       what is trained: all weights, or the adapters; and the critic
    optimizer.safetensors   AdamW's moments, while the stage is under way
    best.safetensors        the best weights so far, where patience keeps them
    demos.jsonl             the demos that the stage left, when it is done
    state.json              the numbers beside them, and what the snapshot was made by
    SHA256SUMS              of all of these; `sha256sum -c SHA256SUMS` checks them

Nothing is unpickled: a snapshot holds numbers and texts, never a program.
"""

import hashlib
import json
import math
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from minprm.constants import fail
from minprm.data import Demo, Step
from minprm.model.alone import ALONE, Alone
from minprm.model.policy import Policy
from minprm.model.tensors import load_moments, moments, moments_like, require_finite
from minprm.run.stage_ids import stage_name

Weights = Mapping[str, Tensor]
SUMS = "SHA256SUMS"
UNREADABLE = (ArithmeticError, AttributeError, LookupError, OSError, RecursionError,
              SafetensorError, TypeError, ValueError)  # fmt: skip


class Snapshots:
    """The snapshots of one seed, by stage_id: all stages up to that one, joined by "+"."""

    def __init__(
        self,
        folder: Path,
        seed: int,
        made_by: dict[str, object],
        on_save: Callable[[], None] = lambda: None,
        shares: Alone = ALONE,
    ):
        """made_by: all that a stage's result depends on. A snapshot of anything else is refused.

        on_save is called after each snapshot, by a rented GPU to keep what is on its disk.
        shares: that of the policy; its first process reads and writes the files.
        """
        self.folder = folder
        self.seed = seed
        self.made_by = made_by
        self.on_save = on_save
        self.shares = shares

    def fingerprint(self) -> str:
        """A hash of all that the results of this seed depend on."""
        made_by = self.shares.from_first(lambda: self._made_by(""))
        return hashlib.sha256(json.dumps(made_by).encode()).hexdigest()[:16]

    # --- reading ---

    def state(self, stage_id: str) -> dict:
        """The numbers of the stage's last snapshot, or an empty dict."""
        return self.shares.from_first(lambda: self._state(stage_id))

    def _state(self, stage_id: str) -> dict:
        folder = self._folder(stage_id)
        old = _beside(folder, "old")
        if old.exists() and not folder.exists():
            old.rename(folder)  # the process was killed between the two renames of `_write`
        if folder.with_name(folder.name + ".pt").exists():
            fail(f"{folder}.pt is of an older minprm: start the run anew, under another name")
        if not folder.exists():
            return {}
        with _or_refuse(folder):
            state = json.loads(_checked(folder, "state.json").read_text(encoding="utf-8"))
            _require_numbers(state)
            made_by = state.pop("made_by")
            ours = self._made_by(stage_id)
            other = sorted(k for k in ours.keys() | made_by.keys() if ours.get(k) != made_by.get(k))
        if other:
            fail(
                f"{folder} was made by another run: it differs in {', '.join(other)}; remove the "
                "folder, and its stage begins anew, or choose another --run"
            )
        return state

    def load(self, stage_id: str, policy: Policy) -> Weights:
        """Puts the weights into the policy; of a stage under way the optimizer's moments too.

        Returns the best weights so far, where the snapshot holds them. All else that is read lies
        on the CPU, and nothing of it is kept.
        """
        state = self.state(stage_id)
        folder = self._folder(stage_id)
        best = {}
        with _or_refuse(folder):
            policy.load(self._parts(folder, "model", policy.parameters))
            if "update" in state:
                policy.version = state["version"]
                policy.skipped = state["skipped"]
                numbers = self._parts(folder, "optimizer", moments_like(policy), some=True)
                load_moments(policy, numbers)
            if self.shares.from_first(lambda: "best.safetensors" in _sums(folder)):
                best = self._parts(folder, "best", policy.parameters)
        # a tensor of a file may lie anywhere in memory, and then rounds differently, now and then
        local = self.shares.local
        return {name: local(tensor).to("cpu", copy=True) for name, tensor in best.items()}

    def _parts(self, folder: Path, name: str, like: Weights, some: bool = False) -> Weights:
        """The tensors of a file, or this process's part of them."""
        return self.shares.parts(lambda: _tensors(folder, name, like, some), like)

    def demos(self, stage_id: str) -> list[Demo]:
        """The demos that the stage left."""
        return self.shares.from_first(lambda: self._demos(self._folder(stage_id)))

    def _demos(self, folder: Path) -> list[Demo]:
        with _or_refuse(folder):
            text = _checked(folder, "demos.jsonl").read_text(encoding="utf-8")
            return [_demo(json.loads(line)) for line in text.split("\n") if line]

    # --- writing ---

    def save(
        self, stage_id: str, policy: Policy, best_weights: Weights, update: int, **numbers: object
    ) -> None:
        """A snapshot of a stage under way, after so many updates."""
        collected = self.shares.collected
        tensors = {
            "model": collected(policy.parameters, policy.parameters),
            "optimizer": collected(moments(policy), moments_like(policy)),
        }
        if best_weights:
            tensors["best"] = collected(best_weights, policy.parameters)
        numbers |= {"update": update, "version": policy.version, "skipped": policy.skipped}
        self._write(stage_id, tensors, numbers, [])

    def finish(self, stage_id: str, policy: Policy, demos: list[Demo], seconds: float) -> None:
        """The snapshot of a stage that is done: what the next one starts from."""
        numbers = {"done": True, "seconds": seconds}
        weights = self.shares.collected(policy.parameters, policy.parameters)
        self._write(stage_id, {"model": weights}, numbers, demos)

    def _write(
        self, stage_id: str, tensors: dict[str, Weights], numbers: dict, demos: list[Demo]
    ) -> None:
        """Replaces the stage's folder. Raises FloatingPointError for what is no longer finite."""
        if not self.shares.first:
            return
        for weights in tensors.values():
            require_finite(weights)
        folder = self._folder(stage_id)
        half = _beside(folder, "tmp")
        old = _beside(folder, "old")
        shutil.rmtree(half, ignore_errors=True)
        try:
            _fill(half, tensors, {**numbers, "made_by": self._made_by(stage_id)}, demos)
        except (OSError, SafetensorError, FloatingPointError):
            shutil.rmtree(half, ignore_errors=True)  # half a snapshot would only fill the disk
            raise
        # a folder cannot be renamed over another one: between these two lines `old` is the snapshot
        shutil.rmtree(old, ignore_errors=True)
        if folder.exists():
            folder.rename(old)
        half.rename(folder)
        _on_disk(folder.parent)
        shutil.rmtree(old, ignore_errors=True)
        self.on_save()

    def _folder(self, stage_id: str) -> Path:
        return self.folder / stage_name(stage_id, self.seed)

    def _made_by(self, stage_id: str) -> dict[str, object]:
        """What this stage's snapshot depends on, as JSON gives it back."""
        return json.loads(json.dumps({**self.made_by, "seed": self.seed, "stage": stage_id}))


def _fill(folder: Path, tensors: dict[str, Weights], state: dict, demos: list[Demo]) -> None:
    """Writes a snapshot's files into a new folder, the checksums last."""
    folder.mkdir(parents=True)
    for name, weights in tensors.items():
        plain = {key: tensor.detach().contiguous() for key, tensor in weights.items()}
        save_file(plain, folder / f"{name}.safetensors")
    numbers = {name: number for name, number in state.items() if name != "made_by"}
    try:
        text = json.dumps(state, indent=1, allow_nan=False)
    except ValueError:
        raise FloatingPointError(f"{numbers} are no longer finite: lower --*.lr") from None
    (folder / "state.json").write_text(text, encoding="utf-8")
    lines = "".join(json.dumps(_line(demo)) + "\n" for demo in demos)
    (folder / "demos.jsonl").write_text(lines, encoding="utf-8")
    sums = "".join(f"{_sha256(file)}  {file.name}\n" for file in sorted(folder.iterdir()))
    (folder / SUMS).write_text(sums, encoding="utf-8")
    for path in (*folder.iterdir(), folder):
        _on_disk(path)


def _on_disk(path: Path) -> None:
    """Waits until a file, or the names in a folder, would survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _beside(folder: Path, suffix: str) -> Path:
    return folder.with_name(f".{folder.name}.{suffix}")


def _sha256(file: Path) -> str:
    with open(file, "rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _checked(folder: Path, name: str) -> Path:
    """The file of that name. Raises ValueError if its checksum is not the one that is noted."""
    if _sha256(folder / name) != _sums(folder)[name]:
        raise ValueError(f"{name} has another checksum")
    return folder / name


def _sums(folder: Path) -> dict[str, str]:
    """The checksums that are noted, by the file's name."""
    lines = (folder / SUMS).read_text(encoding="utf-8").splitlines()
    return {line[66:]: line[:64] for line in lines}


@contextmanager
def _or_refuse(folder: Path) -> Iterator[None]:
    """Exits where a snapshot cannot be read."""
    try:
        yield
    except UNREADABLE as error:
        fail(f"{folder} is broken ({error}): remove it, and its stage begins anew")


def _tensors(folder: Path, name: str, like: Weights, some: bool) -> Weights:
    """The tensors of a file, on the CPU. Raises ValueError if they do not fit those of `like`;
    some: a few of them may be missing."""
    tensors = load_file(_checked(folder, f"{name}.safetensors"))
    if not some and _shapes(tensors) != _shapes(like):
        raise ValueError(f"{name}.safetensors is of another model")
    require_finite(tensors)
    return tensors


def _require_numbers(state: dict) -> None:
    """Raises ValueError where the numbers of a snapshot are not those of any stage."""
    for name in ("update", "version", "skipped"):
        if type(state.get(name, 0)) is not int or state.get(name, 0) < 0:
            raise ValueError(f"state.json says {name} {state[name]!r}")
    if state.get("done") and "update" in state:
        raise ValueError("state.json says that the stage is done and under way")
    best, running = state.get("best", {}), state.get("running", {})
    for number in [state.get("seconds", 0.0), *best.values(), *running.values()]:
        if not isinstance(number, int | float) or not math.isfinite(number):
            raise ValueError(f"state.json holds {number!r}")


def _shapes(weights: Weights) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in weights.items()}


def fingerprint_of_demos(demos: list[Demo]) -> str:
    """A hash of logs, in their order."""
    return hashlib.sha256(json.dumps([_line(demo) for demo in demos]).encode()).hexdigest()


def _line(demo: Demo) -> dict:
    """A demo with all that its steps know."""
    return vars(demo) | {"steps": [vars(step) for step in demo.steps]}


def _demo(line: dict) -> Demo:
    line["steps"] = [Step(**step) for step in line["steps"]]
    return Demo(**line)
