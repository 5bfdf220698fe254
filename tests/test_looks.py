"""Looks measure a stage while it learns, change nothing of it, and can end it."""

import math
import sys
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from loguru import logger
from transformers import AutoModelForCausalLM

from minprm.arms.about import read_about
from minprm.arms.evaluation import evaluate, summary
from minprm.arms.ladder import run_stage, start
from minprm.constants import SFT, ActPRM, Config
from minprm.endpoint import agents
from minprm.envs.base import task_seed
from minprm.load.threads import give_back_memory, keep_freed_memory
from minprm.look import looks
from minprm.look.metrics import turn_metrics
from minprm.run.events import Began
from minprm.run.randomness import noise_seed
from minprm.trainer import Run
from shared.stages import CFG, Lines, log_of, weights

BASE = replace(
    CFG, num_demos=12, watch=0, eval_every=2, eval_tasks=3, sft=SFT(batch=4, epochs=2),
    act_prm=ActPRM(lr=3e-3, updates=5, batch=4, group=4),
)  # fmt: skip
AHEAD = replace(BASE, rl=replace(BASE.rl, max_async_level=1, loss="is"))
STAGES = {"sft:expert": BASE, "act_prm": BASE, "rl": BASE, "rl:dense": AHEAD}
NEW = ("eval/", "collapse/")


def made(checkpoints: Path, folder: Path, stage: str, cfg: Config = BASE, **knobs) -> Run:
    """A run after this stage."""
    run = start(replace(cfg, run=folder.name, **knobs), 0, Lines(), checkpoints)
    log_of(run).folder = folder
    folder.mkdir(exist_ok=True)
    run_stage(run, stage)
    return run


@pytest.mark.slow
@pytest.mark.parametrize("stage", STAGES)
def test_training_is_bit_for_bit_the_same_with_looks_and_without(stage, checkpoints, tmp_path):
    looked, blind = (
        made(checkpoints, tmp_path / f"{stage[:3]}{every}", stage, STAGES[stage], eval_every=every)
        for every in (1, 0)
    )
    assert torch.equal(weights(looked), weights(blind))
    lines = [{k: v for k, v in x.items() if not k.startswith(NEW)} for x in log_of(looked).lines]
    assert lines == log_of(blind).lines
    assert all("eval/success" in line for line in log_of(looked).lines)


@pytest.mark.slow
def test_a_look_comes_every_so_often_and_at_the_end_and_measures_what_an_evaluation_does(
    checkpoints, tmp_path
):
    run = made(checkpoints, tmp_path, "rl")
    found = [i for i, line in enumerate(log_of(run).lines) if "eval/success" in line]
    assert found == [0, 1, 3, 4]
    cfg = replace(run.cfg, split="validation", episodes=3)
    expected = summary(evaluate(run.agent, cfg, noise_seed(0, "look", 0)))
    last = log_of(run).lines[-1]
    for name in ("success", "turns", "valid", "effective", "thought_rate", "thought_length",
                 "copy_rate"):  # fmt: skip
        assert last[f"eval/{name}"] == expected[name], name


@pytest.mark.slow
def test_what_is_logged_of_collapse_is_of_the_batch_of_that_update(
    checkpoints, tmp_path, monkeypatch
):
    calls = iter(range(9))
    monkeypatch.setattr(looks, "collapse", lambda *_: {"collapse/entropy": next(calls)})
    lines = log_of(made(checkpoints, tmp_path, "rl")).lines
    assert [line.get("collapse/entropy") for line in lines] == [0, 1, None, 2, 3]


@pytest.mark.slow
@pytest.mark.parametrize("split", ["test", "validation"])
def test_every_look_plays_the_same_validation_tasks_greedily_and_as_the_stage_asks(
    split, checkpoints, tmp_path, monkeypatch
):
    seen = []
    play = agents.play

    def watched(agent, new_world, seeds, noise):
        seen.append((seeds, noise, agent.temperature, agent.reads_instruction))
        return play(agent, new_world, seeds, noise)

    monkeypatch.setattr(agents, "play", watched)
    for stage, reads in (("sft:expert", False), ("act_prm", True)):
        seen.clear()
        made(checkpoints, tmp_path / f"{split}{stage[:3]}", stage, split=split)
        tasks = [task_seed("validation", i) for i in range(3)]
        assert len(seen) == 4 and seen == [(tasks, noise_seed(0, "look", 0), 0.0, reads)] * 4


@pytest.mark.slow
def test_nothing_is_played_while_the_next_batch_is(checkpoints, tmp_path, monkeypatch):
    busy = []
    success = looks.success

    def watched(run):
        pending = run.prefetch.pending
        busy.append(pending is not None and not pending.done())
        return success(run)

    monkeypatch.setattr(looks, "success", watched)
    made(checkpoints, tmp_path, "rl", AHEAD, eval_every=1)
    assert busy == [False] * 5


@pytest.mark.slow
def test_without_a_world_held_out_logs_are_replayed(checkpoints, tmp_path, monkeypatch):
    run = made(checkpoints, tmp_path, "sft:expert")
    measured = {"success": 0.5, "likelihood": 0.1, "thought_rate": 1.0, "copy_rate": 0.0, "logs": 2}
    asked = []
    monkeypatch.setattr(looks, "replay", lambda *args: asked.append(args) or measured)
    run.cfg = replace(run.cfg, world="", eval_tasks=1)
    found = looks.success(run)
    (args,) = asked
    assert args == (run.agent, run.cfg, run.held_out[:1], noise_seed(0, "look", 0))
    assert found["eval/success"] == 0.5 and found["eval/likelihood"] == 0.1
    assert not any("logs" in name for name in found)


@pytest.mark.slow
@pytest.mark.parametrize(("stage", "knobs"), [
    ("sft:expert", {}), ("rl", {}), ("act_prm", {"best_by": "success"}),
])  # fmt: skip
def test_patience_stops_at_the_best_success_and_goes_back_to_it(
    stage, knobs, checkpoints, tmp_path, monkeypatch
):
    """Of ten updates the second is the best; two looks later the stage ends."""
    part = stage.split(":")[0]
    scores = iter([0.2, 0.6, 0.6, 0.5, 1.0])
    monkeypatch.setattr(looks, "success", lambda run: {"eval/success": next(scores)})
    patient = replace(getattr(BASE, part), patience=2, **knobs)
    said = []
    told = logger.add(said.append)
    stopped = made(checkpoints, tmp_path / f"{part}a", stage, eval_every=1, **{part: patient})
    monkeypatch.undo()
    logger.remove(told)
    assert len(log_of(stopped).lines) == 4
    assert f"{stage}: back to the weights of the best eval/success" in "".join(said)
    if part == "sft":  # its learning rate falls, so a shorter stage would have learned otherwise
        kept = made(checkpoints, tmp_path / "sftb", stage, keep_every=2)
        model = load(checkpoints / "sftb" / "kept" / "sft-expert-0" / "2")
        assert same(model, stopped)
        return
    short = replace(getattr(BASE, part), updates=2)
    kept = made(checkpoints, tmp_path / f"{part}b", stage, **{part: short})
    assert torch.equal(weights(stopped), weights(kept))


@pytest.mark.slow
def test_a_stage_that_ends_early_drops_what_was_played_ahead(checkpoints, tmp_path, monkeypatch):
    monkeypatch.setattr(looks, "success", lambda run: {"eval/success": 0.5})
    patient = replace(AHEAD.rl, patience=1)
    stopped = made(checkpoints, tmp_path / "early", "rl", eval_every=1, rl=patient)
    assert len(log_of(stopped).lines) == 2
    assert stopped.prefetch.pending is None  # it is no other stage's


@pytest.mark.parametrize("every", [4, 5, 6])
def test_a_stage_too_short_to_keep_a_checkpoint_says_so(every):
    said = []
    told = logger.add(said.append)
    run = SimpleNamespace(cfg=replace(BASE, keep_every=every))
    looks.keep_checkpoints(run, Began("act_prm", BASE.act_prm, 0, updates=5))
    logger.remove(told)
    assert ["act_prm: --keep-every 6 keeps none of its 5 updates" in x for x in said] == (
        [True] if every == 6 else []
    )


def load(folder: Path) -> torch.nn.Module:
    return AutoModelForCausalLM.from_pretrained(folder)


def same(model: torch.nn.Module, run: Run) -> bool:
    ours = run.agent.policy.model.state_dict()
    return all(torch.equal(tensor, ours[name]) for name, tensor in model.state_dict().items())


def files(folder: Path) -> dict[str, str]:
    found = sorted(file for file in folder.rglob("*") if file.is_file())
    return {str(x.relative_to(folder)): sha256(x.read_bytes()).hexdigest() for x in found}


@pytest.mark.slow
def test_checkpoints_are_kept_and_load_and_a_killed_run_keeps_the_same(
    checkpoints, tmp_path, monkeypatch
):
    run = made(checkpoints, tmp_path / "whole", "act_prm", keep_every=2, save_every=3)
    kept = checkpoints / "whole" / "kept"
    assert sorted(x.name for x in (kept / "act_prm-0").iterdir()) == ["2", "4"]
    assert not same(load(kept / "act_prm-0" / "2"), run)
    said = read_about(str(kept / "act_prm-0" / "4"))
    assert (said["stages"], said["asked"]["thought_tokens"]) == (["act_prm"], 12)

    class Killed(Exception):
        pass

    def kill(self, *args):
        Lines.metrics(self, *args)
        if len(self.lines) == 5:  # after the second checkpoint, two updates after the snapshot
            raise Killed

    log = type("Killing", (Lines,), {"metrics": kill})
    half = start(replace(run.cfg, run="half"), 0, log(), checkpoints)
    log_of(half).folder = tmp_path
    with pytest.raises(Killed):
        run_stage(half, "act_prm")
    made(checkpoints, tmp_path / "half", "act_prm", keep_every=2, save_every=3)
    found = files(checkpoints / "half" / "kept")
    expected = files(kept)
    assert found.keys() == expected.keys()
    names = [name for name in found if not name.endswith("minprm.json")]  # it names the run
    assert names and all(found[name] == expected[name] for name in names)


def test_a_look_at_several_worlds_tells_the_success_in_each(monkeypatch):
    row = {"success": 0.75, "success/cups": 1.0, "success/errand": 0.5, "interval": [0.1, 0.9]}
    monkeypatch.setattr(looks, "evaluate", lambda *args: [])
    monkeypatch.setattr(looks, "summary", lambda episodes: row)
    cfg = replace(CFG, world="mixed", world_args=["worlds=cups, errand"], eval_tasks=8)
    measured = looks.success(SimpleNamespace(cfg=cfg, seed=0, agent=None))
    assert {name: measured[f"eval/{name}"] for name in row if name != "interval"} == {
        "success": 0.75, "success/cups": 1.0, "success/errand": 0.5,
    }  # fmt: skip


@pytest.mark.slow
def test_what_was_played_is_measured_as_an_evaluation_measures_it(checkpoints, tmp_path):
    run = made(checkpoints, tmp_path, "sft:expert")
    episodes = evaluate(run.agent, replace(run.cfg, episodes=6), noise=1)
    episodes[0].infos[0] |= {"valid": True, "effective": False}  # so that no two are alike
    episodes[1].infos[0] |= {"valid": False, "effective": False}
    episodes[2].outgrown = True
    expected = summary(episodes)
    before = turn_metrics(episodes, run.agent.chat)["policy/unclosed"]
    sample, _, end = next(
        (sample, begin, end)
        for e in episodes
        for sample, begin, end in e.spans
        if sample.ids[end - 1] in run.agent.chat.ends
    )
    sample.ids[end - 1] = sample.ids[0]  # one turn more that was cut for its length
    found = turn_metrics(episodes, run.agent.chat)
    turns = sum(len(e.steps) for e in episodes)
    assert found["policy/unclosed"] == pytest.approx(before + 1 / turns)
    for name in ("turns", "thought_rate", "valid", "effective", "outgrown"):
        assert found[f"play/{name}"] == pytest.approx(expected[name]), name
    assert found["policy/thought_length"] == expected["thought_length"]
    logps = [logp for e in episodes for sample in e.samples for logp in sample.logprobs]
    assert found["policy/drawn_tokens"] == sum(not math.isnan(logp) for logp in logps)


def resident() -> int:
    """Bytes of memory that this process holds."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith("VmRSS")]
    return int(line.split()[1]) * 1024


@pytest.mark.skipif(sys.platform != "linux", reason="the C library of Linux keeps freed memory")
def test_a_look_gives_back_what_tensors_have_freed():
    keep_freed_memory()
    held = [torch.ones(500_000) for _ in range(200)]
    peak = resident()
    held = held[-1:]  # behind all that is free now
    assert resident() > peak - 20e6
    give_back_memory()
    assert resident() < peak - 300e6
