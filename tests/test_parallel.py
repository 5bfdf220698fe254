"""Several processes find the numbers of one, whatever is trained and however weights lie.

What is compared agrees to 1e-5. Single numbers are added up in another order, so they differ by
rounding, and a token that is drawn at just that place would be another one: about once in a million
tokens. The runs here are small, and of fixed seeds; in none of them that happens.
"""

import json
import math
from collections.abc import Callable
from functools import cache
from itertools import chain
from pathlib import Path

import pytest
from safetensors.torch import load_file

from minprm.commands.presets import PRESETS
from minprm.envs import make_world
from minprm.load import tiny
from minprm.logs.reader import write_demos
from minprm.play import expert_demos
from shared.processes import Processes
from shared.several import do
from shared.stages import clockless

# the difference of two readings of a token: where they should be equal it is rounding, no more
ROUNDING = {"policy/gap_max": 1e-4}
# of a whole run: AdamW divides a gradient by its size, so where that is next to nothing rounding
# becomes part of a step; a step is of 1e-4 and more (1.03e-5 was seen, without AVX-512)
WEIGHTS = 3e-5


# --- processes ---


def in_processes(n: int, folder: Path, jobs: dict[str, str]) -> None:
    """Has n processes do these jobs (shared/several.py), in a folder."""
    processes = Processes(folder, n, lambda: do(jobs))
    assert processes.ended(limit=500) == [0] * n, processes.said()[-6000:]


def same(ours: object, theirs: object, bound: float = 1e-5) -> bool:
    """Are these numbers equal, within 1e-5? All else has to be equal as it is."""
    if isinstance(ours, dict):
        assert isinstance(theirs, dict) and ours.keys() == theirs.keys()
        return all(same(ours[k], theirs[k], ROUNDING.get(k, bound)) for k in ours)
    if isinstance(ours, list):
        assert isinstance(theirs, list) and len(ours) == len(theirs)
        return all(same(a, b, bound) for a, b in zip(ours, theirs, strict=True))
    if isinstance(ours, float) and isinstance(theirs, float) and math.isfinite(ours):
        return abs(ours - theirs) <= bound
    return repr(ours) == repr(theirs)


# --- one update after the other ---


@pytest.fixture(scope="module")
def learned(tmp_path_factory) -> Callable[[int], Path]:
    """The folder in which so many processes have left what they found."""

    @cache
    def by(n: int) -> Path:
        folder = tmp_path_factory.mktemp(f"by-{n}")
        in_processes(n, folder, {"policies": "found.json", "caches": "caches.json"})
        return folder

    return by


@pytest.mark.slow
@pytest.mark.parametrize("n", [2, 3])
def test_policies_read_write_and_learn_the_same(n, learned):
    """With tied weights and untied ones, adapters, checkpointing, a critic, many micro-batches,
    fewer samples than processes, and a loss that is not finite in one process alone. What the
    processes themselves find is the same to the last bit, as the program asserts."""
    theirs, ours = (json.loads((learned(k) / "found.json").read_text()) for k in (1, n))
    assert len(ours) == 15
    for name, found in ours.items():
        for part, numbers in found.items():
            assert same(numbers, theirs[name][part]), f"{name}: {part}"
    skipped = [stats["policy/skipped"] for stats in ours["not finite, spread"]["stats"]]
    assert skipped == [1, 2, 3]
    for way in ("whole", "spread"):
        a = load_file(learned(1) / f"saved-{way}-1" / "model.safetensors")
        b = load_file(learned(n) / f"saved-{way}-{n}" / "model.safetensors")
        assert a.keys() == b.keys()  # a tied head is one tensor
        assert all((a[name] - b[name]).abs().max() <= 1e-5 for name in a)


@pytest.mark.slow
def test_a_prompt_that_grows_is_read_on_by_the_process_that_has_read_it(learned):
    told = [json.loads((learned(n) / "caches.json").read_text()) for n in (1, 2)]
    assert told[0] == [[8 * 40], [8 * 2], [8 * 2]]
    assert told[1] == [[4 * 40] * 2, [4 * 2] * 2, [4 * 2] * 2]


# --- whole runs ---

# so few updates have no warm-up: rates are those that a longer run would begin with
WALKS = "--held-out 3 --act-prm.updates 2 --act-prm.batch 3 --act-prm.group 4"
LOGS = f"--num-demos 8 {WALKS} --act-prm.lr 2e-4"
SFT = "--sft.epochs 1 --sft.batch 4"
ACT_STAGES = "--stages act_prm relabel sft:thoughts"
ACT = f"{LOGS} {SFT} {ACT_STAGES}"
PLAYED = "--rl.updates 2 --rl.batch 3 --rl.group 4"
RL = f"{PLAYED} --rl.lr 2e-4 --stages rl"
PLAYS = "--preset smoke --episodes 4"
LADDER = f"{LOGS} {SFT} {PLAYED} --rl.finetune-lr 8e-5 {ACT_STAGES} rl:finetune"
REPLAY = f"--preset smoke --world= --demos logs.jsonl --layout tags {ACT}".replace(
    "--num-demos 8", ""
)
OBJECTIVES = {
    "ladder": f"{PLAYS} {LADDER}",
    "own": f"{PLAYS} {ACT} --act-prm.continues own --act-prm.trained-on both --micro-tokens 200 "
    "--act-prm.kl 0.1 --optim.passes 2 "
    "--act-prm.loss ppo_clip",
    "resample": f"{PLAYS} {LOGS} --stages act_prm:resample relabel:resample",
    "hint": f"{PLAYS} {LOGS} --stages act_prm --act-prm.thoughts-from state_action",
    "base": f"{PLAYS} {LOGS} --stages act_prm --act-prm.scored-by base --act-prm.kl 0.1 "
    "--optim.aggregation sequence",
    # patience can end a stage from the second look on
    "exact_match": f"{PLAYS} --num-demos 8 {WALKS} --stages act_prm --act-prm.reward exact_match "
    "--act-prm.trained-on thought --act-prm.patience 1 --act-prm.lr 0.001 --keep-every 1".replace(
        "--act-prm.updates 2", "--act-prm.updates 3"
    ),
    "turn_gae": f"{PLAYS} {RL} --rl.advantage turn_gae --rl.lam 0.9 --rl.kl 0.01 "
    "--rl.groups soft --rl.entropy 0.01 --optim.passes 2",
    "gae": f"{PLAYS} {RL} --rl.advantage gae --rl.lam 0.9 --rl.correction mask",
    "ema": f"{PLAYS} {RL} --rl.advantage ema --rl.backfill --rl.groups top_p --rl.kl 0.1 "
    "--rl.kl-target 0.01 --rl.format-penalty 0.1 --rl.loss dual_clip --optim.aggregation constant",
    "dense": f"{PLAYS} --num-demos 8 {PLAYED} --rl.lr 2e-4 {SFT} "
    "--stages rl:dense synth sft:thoughts",
    "turns": "--preset errand --episodes 2 --num-demos 5 --held-out 2 --act-prm.updates 1 "
    "--act-prm.batch 3 --act-prm.group 4 --relabel.group 4 --relabel.min-reward 0 "
    "--sft.epochs 1 --history.last 2 --history.no-thoughts --rl.updates 1 --rl.batch 2 "
    "--rl.group 3 --act-prm.lr 6e-5 --sft.lr 3e-4 --rl.lr 1e-4 "
    "--stages act_prm relabel sft:thoughts rl",
    "checkpointing": f"{REPLAY} --model base --checkpointing --micro-tokens 64",
}  # fmt: skip
WHOLE_ONLY = {
    "raised": f"{PLAYS} --num-demos 8 {SFT} --tiny.updates 3 --tiny.dim 32 --stages sft:actions",
    "ahead": f"{PLAYS} {RL} --rl.max-async-level 1 --rl.loss is",
    "adapters": f"{REPLAY} --model base --lora 4 --act-prm.scored-by base --act-prm.kl 0.1",
    "adapters_on": f"{REPLAY} --model checkpoints/adapters/stages-0",
}
WHOLE = WHOLE_ONLY | {name: OBJECTIVES[name] for name in ("ladder", "turns")}
ALL = OBJECTIVES | WHOLE_ONLY


def flags_of(runs: dict[str, str], *more: str) -> str:
    common = "--eval-every 2 --eval-tasks 4 --save-every 2 --jobs 1".split()
    return json.dumps({name: [*flags.split(), *common, *more] for name, flags in runs.items()})


def make(runs: dict[str, str], n: int, folder: Path, *more: str) -> Path:
    """Has n processes make these runs. Returns the folder."""
    folder.mkdir()
    cfg = PRESETS["smoke"]
    world = make_world(cfg)
    tiny.raised(world, cfg.tiny, 0, cfg.micro_tokens, folder, "cpu").save(folder / "base")
    logs = [demo.without_thoughts() for demo in expert_demos(cfg, "train", 0, 9)]
    write_demos(logs, folder / "logs.jsonl")
    (folder / "runs.json").write_text(flags_of(runs, *more))
    in_processes(n, folder, {"runs": "runs.json"})
    return folder


def same_run(name: str, ours: Path, theirs: Path) -> None:
    """Compares all metrics, the ladder's rows and the checkpoints of a run."""
    a, b = (lines(folder / "runs" / name / "metrics.jsonl") for folder in (ours, theirs))
    assert len(a) == len(b)
    for line, other in zip(a, b, strict=True):
        for metric in line.keys() | other.keys():
            where = f"{name}, {line['stage']} {line['update']}: {metric}"
            pair = [{metric: each.get(metric)} for each in (line, other)]
            assert same(*pair), f"{where} {pair}"
    a, b = (rows(folder / "runs" / name / "ladder.json") for folder in (ours, theirs))
    assert same(a, b)
    files = sorted(ours.glob(f"checkpoints/{name}/*-0/*model.safetensors"))
    assert files
    for file in files:
        x, y = load_file(file), load_file(theirs / file.relative_to(ours))
        assert x.keys() == y.keys()
        for tensor in x:
            assert (x[tensor] - y[tensor]).abs().max() <= WEIGHTS, f"{file}: {tensor}"


def lines(file: Path) -> list[dict]:
    return [clockless(json.loads(line)) for line in file.read_text().splitlines()]


def rows(file: Path) -> dict:
    found = json.loads(file.read_text())
    for row in chain(*found.values()):
        row.pop("seconds")
        row.pop("made_by", "")  # random play and the expert have none
    return found


@pytest.mark.slow
def test_every_objective_in_two_processes_has_the_numbers_of_one(tmp_path):
    """A whole ladder, and each objective in the stage that it is for, with weights spread over
    both processes. Two ladders and what cannot be spread, with weights whole in each."""
    alone = make(ALL, 1, tmp_path / "alone")
    whole = make(WHOLE, 2, tmp_path / "whole")
    spread = make(OBJECTIVES, 2, tmp_path / "spread", "--shard", "always")
    for name in WHOLE:
        same_run(name, whole, alone)
    for name in OBJECTIVES:
        same_run(name, spread, alone)
