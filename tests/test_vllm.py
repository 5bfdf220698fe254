"""The engine that writes, for real: what it draws is what the trainer scores, or it is told."""

import json
import operator
import os
import subprocess
import sys
from copy import deepcopy
from pathlib import Path

import pytest
import torch
from transformers import Qwen3ForCausalLM

from minprm.constants import Tiny
from minprm.envs.cups import Cups
from minprm.load import vllm as module
from minprm.load.pretrained import load_model
from minprm.load.tiny import untrained
from minprm.model.policy import Policy
from shared.engine import FP32, LONG, gap, perturb
from shared.serving import FAST

os.environ |= FAST
pytest.importorskip("vllm", reason='needs vllm: pip install ".[vllm]"')


def policy(tied: bool) -> Policy:
    world = Cups()
    model, tokenizer = untrained(world, Tiny(dim=32), seed=0)
    if not tied:
        model.config.tie_word_embeddings = False
        torch.manual_seed(1)
        model = Qwen3ForCausalLM(model.config)
    return Policy(model, tokenizer, 10_000)


@pytest.fixture(scope="module", params=["tied", "untied"])
def parts(request):
    p = policy(request.param == "tied")
    return p, module.start_engine(p.model, FP32, 512)


def test_after_a_sync_both_agree_and_before_it_they_do_not(parts):
    p, sampler = parts
    sampler.sync()
    assert gap(p, sampler) < 1e-4
    perturb(p)
    assert gap(p, sampler) > 1e-2
    sampler.sync()
    assert gap(p, sampler) < 1e-4


def test_a_prefix_cache_that_is_kept_is_seen(parts, monkeypatch):
    p, sampler = parts
    sampler.sync()
    gap(p, sampler)  # fills the cache
    perturb(p)
    with monkeypatch.context() as patch:
        patch.setattr(sampler.llm, "reset_prefix_cache", lambda: True)
        sampler.sync()
        assert gap(p, sampler) > 1e-2
    sampler.sync()
    assert gap(p, sampler) < 1e-4


def test_a_sync_that_fails_raises(parts, monkeypatch):
    _, sampler = parts
    sampler.sync()
    with monkeypatch.context() as patch:
        patch.setattr(sampler.llm, "reset_prefix_cache", lambda: False)
        with pytest.raises(RuntimeError, match="prefix cache"):
            sampler.begin()
    sampler.begin()


@pytest.mark.parametrize("told", [False, True])
def test_a_weight_that_the_engine_did_not_get_is_missed(parts, monkeypatch, told):
    """By its name; and where the names agree (told), by what the engine writes without it."""
    p, sampler = parts
    perturb(p)
    all_weights = module.weights
    kept = [name for name in sampler.names if "down_proj" not in name]
    some = lambda *model: (x for x in all_weights(*model) if x[0] in kept)  # noqa: E731
    sampler.sync()
    with monkeypatch.context() as patch:
        patch.setattr(module, "weights", some)
        if told:
            patch.setattr(sampler, "names", kept)
        with pytest.raises(RuntimeError, match="nats off" if told else "down_proj"):
            sampler.generate([[7]], 1, 1, [], 1.0, seed=0)
    assert gap(p, sampler) < 1e-4


def test_a_checkpoint_shares_the_engine_of_its_architecture(parts, tmp_path):
    p, sampler = parts
    other = policy(p.model.config.tie_word_embeddings)
    perturb(other)
    other.save(tmp_path / "arm-0")
    model = load_model(tmp_path / "arm-0")
    again = Policy(model, p.tokenizer, 10_000), module.start_engine(model, FP32, 512)
    assert again[1].llm is sampler.llm
    for _ in range(2):
        assert gap(p, sampler) < 1e-4 and gap(*again) < 1e-4


def test_the_stopping_token_is_among_the_ids_and_the_end_of_turn_does_not_stop_a_thought(parts):
    p, sampler = parts
    sampler.sync()
    end = p.tokenizer.eos_token_id
    drawn = [c for group in sampler.generate([LONG] * 8, 4, 40, [3], 1.5, seed=1) for c in group]
    assert any(c.ids[-1] == 3 for c in drawn) and any(end in c.ids[:-1] for c in drawn)
    for c in drawn:
        assert 3 not in c.ids[:-1] and (c.ids[-1] == 3 or len(c.ids) == 40)
        assert len(c.logprobs) == len(c.ids)


def test_adapters_are_merged_on_their_way_into_the_engine(parts):
    peft = pytest.importorskip("peft", reason='needs peft: pip install ".[lora]"')
    base, _ = parts
    adapters = peft.LoraConfig(r=2, target_modules="all-linear", init_lora_weights=False)
    p = Policy(peft.get_peft_model(deepcopy(base.model), adapters), base.tokenizer, 10_000)
    sampler = module.start_engine(p.model, FP32, 512)
    assert gap(p, sampler) < 1e-4
    with p.model.disable_adapter():
        assert gap(p, sampler) > 1e-2  # it was the adapters that the engine wrote with


def test_equal_prompts_are_not_given_equal_samples_and_a_seed_repeats_them(parts):
    _, sampler = parts
    draw = lambda seed: [  # noqa: E731
        c.ids for g in sampler.generate([LONG] * 2, 3, 12, [], 1.0, seed) for c in g
    ]
    assert len({tuple(ids) for ids in draw(0)}) == 6
    assert draw(0) == draw(0) != draw(1)


def trained(folder, flags: str, processes: int = 1) -> list[dict]:
    """Metrics of a run of train.py in so many processes, with the engine writing."""
    flags = f"--preset smoke --sampler vllm --run v {flags} --rl.updates 3 --episodes 8"
    root = Path(__file__).parents[1]
    command = [sys.executable]
    if processes > 1:
        launcher = f"-m torch.distributed.run --standalone --nproc-per-node {processes}"
        command += launcher.split()
    command += [str(root / "train.py"), *(["--"] if processes > 1 else []), *flags.split()]
    knobs = {"env": os.environ | {"PYTHONPATH": str(root)}, "stderr": subprocess.PIPE}
    done = subprocess.run(command, cwd=folder, text=True, **knobs)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr[-3000:]
    return [json.loads(x) for x in (folder / "runs/v/metrics.jsonl").read_text().splitlines()]


LADDER = "--arms act_prm rl --act-prm.updates 3 --num-demos 16 --held-out 4"


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> list[dict]:
    """Metrics of Act-PRM and RL in one process."""
    return trained(tmp_path_factory.mktemp("alone"), LADDER)


def test_grpo_and_act_prm_with_vllm_writing(alone):
    gaps = [x["policy/gap_max"] for x in alone if x["stage"] in ("act_prm", "rl")]
    assert len(gaps) == 6 and max(gaps) < 1e-4


def test_an_agent_is_answered_by_the_engine(tmp_path):
    agent = Path(__file__).parents[1] / "examples/agent.py"
    updates = [
        line
        for line in trained(tmp_path, f"--agent {agent}:play --stages rl")
        if "policy/gap_max" in line
    ]
    assert len(updates) == 3
    for update in updates:
        assert update["policy/gap_max"] < 1e-3 and update["play/failed"] == 0


@pytest.mark.parametrize("flags", ["--shard always", "--engine.tensor-parallel 2"])
def test_two_processes_have_the_numbers_of_one(flags, alone, tmp_path):
    """Each has an engine, which is given weights that are spread; or both have one together."""
    together = trained(tmp_path, f"{LADDER} {flags}", processes=2)
    by_place = operator.itemgetter("stage", "update")  # alone, both arms may write side by side
    for one, two in zip(sorted(alone, key=by_place), sorted(together, key=by_place), strict=True):
        assert one.keys() == two.keys()
        for name in one:
            if name == "policy/gap_max":  # the size of rounding, which other sums have another of
                assert max(one[name], two[name]) < 1e-4
            elif isinstance(one[name], float) and not name.startswith(("time/", "speed/")):
                assert two[name] == pytest.approx(one[name], abs=1e-5), (one["stage"], name)


def test_the_engine_writes_ahead_by_the_weights_that_it_has(tmp_path):
    flags = "--arms rl --rl.max-async-level 1 --rl.loss is --rl.lr 3e-3 --optim.warmup 0"
    lines = trained(tmp_path, flags)
    assert [x["policy/staleness"] for x in lines] == [0, 1, 1]
    fresh, *stale = [x["policy/gap_max"] for x in lines]
    assert fresh < 1e-4 < 1e-3 < min(stale)
