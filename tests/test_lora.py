"""Adapters: the same every time, loaded as what they are, never frozen by accident."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from minprm.arms.ladder import base_policy, run_stage, start
from minprm.commands import dry_run, train
from minprm.commands.ask import Evaluation
from minprm.commands.playing import play_checkpoint
from minprm.commands.train import plan as whole_plan
from minprm.constants import RL, ActPRM, Config, Optim, Sampled
from minprm.load.pretrained import adapted, base_of, load_model
from minprm.load.vllm import weights as merged
from minprm.model.adapters import under_adapters
from minprm.model.policy import Policy
from minprm.model.sampler import Sampler
from shared.policies import SAMPLES, policy
from shared.stages import Lines

peft = pytest.importorskip("peft", reason='needs peft: pip install ".[lora]"')
pytestmark = pytest.mark.extras


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Path:
    """A tiny random chat model on disk."""
    path = tmp_path_factory.mktemp("base") / "model"
    policy().save(path)
    return path


def with_adapters(base: Path, **knobs) -> Policy:
    return Policy(load_model(base, **{"lora": 4} | knobs), policy().tokenizer, 10_000)


def trained(base: Path, path: Path) -> Policy:
    """Adapters that have learned something, saved."""
    p = with_adapters(base)
    p.update(SAMPLES, Sampled(), lr=1e-1)
    p.save(path)
    return p


def logprobs(p: Policy) -> torch.Tensor:
    return torch.cat(p.logprobs(SAMPLES))


def same(a: dict, b: dict) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def test_adapters_begin_by_the_seed_whatever_was_drawn_before_them(base):
    torch.manual_seed(7)
    first = with_adapters(base, seed=3).initial
    torch.manual_seed(8)
    again, other = with_adapters(base, seed=3).initial, with_adapters(base, seed=4).initial
    assert same(first, again) and not same(first, other)


def test_drawing_adapters_leaves_the_other_randomness_as_it_was():
    model = policy().model
    state = torch.get_rng_state()
    adapted(model, 4, checkpointing=False, seed=3)
    assert torch.equal(torch.get_rng_state(), state)


def learned(
    base: Path, folder: Path, seed: int = 0, on_save=lambda: None, lora: int = 4, stages=("rl",)
) -> dict:
    """The adapters after RL on cups."""
    cfg = Config(
        world_args=["rounds=1", "swaps=1"], model=str(base), lora=lora, num_demos=4, held_out=2,
        thought_tokens=8, run=str(folder), save_every=1, sampler="transformers",
        optim=Optim(warmup=0), rl=RL(lr=1e-2, updates=2, batch=2, group=3, advantage="none"),
    )  # fmt: skip
    run = start(cfg, seed, Lines(), folder, on_save)
    for i in range(len(stages)):
        run_stage(run, "+".join(stages[: i + 1]))
    return run.agent.policy.weights()


@pytest.mark.slow
def test_a_rerun_and_a_killed_run_end_with_the_same_adapters(base, tmp_path):
    whole = learned(base, tmp_path / "whole")
    torch.rand(3)
    assert same(learned(base, tmp_path / "again"), whole)

    class Killed(Exception):
        pass

    def kill():
        raise Killed

    with pytest.raises(Killed):
        learned(base, tmp_path / "half", on_save=kill)
    torch.rand(3)
    assert same(learned(base, tmp_path / "half"), whole)
    assert not same(learned(base, tmp_path / "other", seed=1), whole)


@pytest.mark.slow
def test_a_killed_run_from_saved_adapters_ends_with_the_same_in_every_stage(base, tmp_path):
    trained(base, tmp_path / "arm-0")
    kwargs = {"lora": 0, "stages": ("sft:actions", "sft:expert")}
    whole = learned(tmp_path / "arm-0", tmp_path / "whole", **kwargs)
    first = learned(tmp_path / "arm-0", tmp_path / "first", lora=0, stages=("sft:actions",))
    assert not same(whole, first) and not same(whole, trained(base, tmp_path / "arm-1").weights())
    saves = []

    class Killed(Exception):
        pass

    def kill():
        saves.append(1)
        if len(saves) in (1, 4):  # within the first stage, and within the second
            raise Killed

    for _ in range(2):
        with pytest.raises(Killed):
            learned(tmp_path / "arm-0", tmp_path / "half", on_save=kill, **kwargs)
    assert same(learned(tmp_path / "arm-0", tmp_path / "half", **kwargs), whole)


def test_a_checkpoint_of_adapters_is_loaded_with_them_and_they_go_on_learning(base, tmp_path):
    p = trained(base, tmp_path / "arm-0")
    again = Policy(load_model(tmp_path / "arm-0"), p.tokenizer, 10_000)
    assert isinstance(again.model, peft.PeftModel)
    assert torch.equal(logprobs(again), logprobs(p))
    assert again.parameters.keys() == p.parameters.keys()
    assert {weight.dtype for weight in again.parameters.values()} == {torch.float32}
    assert again.update(SAMPLES, Sampled(), lr=1e-2)["policy/moved"] > 0
    again.save(tmp_path / "arm-1")
    assert torch.equal(
        logprobs(Policy(load_model(tmp_path / "arm-1"), p.tokenizer, 10_000)), logprobs(again)
    )


def test_the_engine_is_given_the_checkpoints_adapters_merged(base, tmp_path):
    trained(base, tmp_path / "arm-0")
    model = load_model(tmp_path / "arm-0")
    pairs = dict(merged(model))
    plain = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    assert pairs.keys() == dict(plain.named_parameters()).keys()
    assert type(under_adapters(model)) is type(plain)
    plain.load_state_dict(pairs, strict=False)
    ids = torch.tensor([[1, 2, 3]])
    assert torch.allclose(plain(ids).logits, model(ids).logits.float(), atol=0.05)
    with model.disable_adapter():
        assert not torch.allclose(plain(ids).logits, model(ids).logits.float(), atol=0.05)


def refused(capsys, call, *arguments, **knobs) -> str:
    with pytest.raises(SystemExit) as stop:
        call(*arguments, **knobs)
    error = capsys.readouterr().err
    assert stop.value.code == 2 and error.count("\n") == 1
    return error


def test_another_rank_than_the_checkpoints_is_refused(base, tmp_path, capsys):
    trained(base, tmp_path / "arm-0")
    assert base_of(tmp_path / "arm-0") == (str(base), 4) and base_of(base) == (base, 0)
    load_model(tmp_path / "arm-0", lora=4)
    assert "give --lora 4" in refused(capsys, load_model, tmp_path / "arm-0", lora=8)


def test_a_model_of_which_nothing_would_learn_is_refused(capsys):
    frozen = policy().model.requires_grad_(False)
    assert "nothing would learn" in refused(capsys, Policy, frozen, policy().tokenizer, 10_000)


def test_alpha_and_targets_are_those_of_the_adapters(base, tmp_path):
    plain, given = with_adapters(base), with_adapters(base, alpha=4, targets=["q_proj", "v_proj"])
    named = lambda p: {n.split(".")[-4] for n in p.parameters if "lora_A" in n}  # noqa: E731
    assert named(given) == {"q_proj", "v_proj"} < named(plain) and "lm_head" not in named(plain)
    (name,) = [n for n, _ in plain.model.named_modules() if n.endswith("layers.0.self_attn.q_proj")]
    scales = [p.model.get_submodule(name).scaling["default"] for p in (plain, given)]
    assert scales == [2.0, 1.0]  # alpha / rank; by default alpha is twice the rank


@pytest.mark.slow
@pytest.mark.parametrize("targets", [[], ["q_proj", "down_proj"]])
def test_a_plan_counts_the_adapters_there_will_be(base, tmp_path, targets):
    model = load_model(str(base), lora=4, targets=targets)
    numbers = sum(p.numel() for p in model.parameters() if p.requires_grad)
    cfg = Config(model=str(base), world_args=["rounds=1"], lora=4, lora_targets=targets)
    assert f"{numbers:,} of them trained" in "\n".join(whole_plan(cfg, tmp_path))
    model.save_pretrained(tmp_path / "arm-0")
    policy().tokenizer.save_pretrained(tmp_path / "arm-0")
    cfg = Config(model=str(tmp_path / "arm-0"), world_args=["rounds=1"])
    assert f"{numbers:,} of them trained" in "\n".join(whole_plan(cfg, tmp_path))


def test_a_target_that_is_no_layer_is_refused_with_those_that_are(base, tmp_path, capsys):
    cfg = Config(model=str(base), lora=4, lora_targets=["query"])
    plan = lambda: list(whole_plan(cfg, tmp_path))  # noqa: E731
    for call, arguments in ((load_model, (base, 4, False, 0, 0, ["query"])), (plan, ())):
        error = refused(capsys, call, *arguments)
        assert "--lora-targets query" in error and "k_proj, o_proj, q_proj" in error
        assert "lm_head" not in error


@pytest.mark.parametrize("knobs", [{"alpha": 4}, {"targets": ["q_proj"]}])
def test_saved_adapters_are_never_given_another_shape(base, tmp_path, capsys, knobs):
    trained(base, tmp_path / "arm-0")
    assert "leave both out" in refused(capsys, load_model, tmp_path / "arm-0", lora=4, **knobs)


@pytest.mark.parametrize("broken", ["extra", "weight", "file", "config", "kind", "base"])
def test_adapters_that_are_not_whole_or_not_plain_are_refused(base, tmp_path, capsys, broken):
    path = tmp_path / "arm-0"
    trained(base, path)
    config, file = path / "adapter_config.json", path / "adapter_model.safetensors"
    if broken == "extra":
        config.write_text(json.dumps(json.loads(config.read_text()) | {"use_dora": True}))
    if broken == "weight":
        tensors = load_file(file)
        tensors.pop(next(iter(tensors)))
        save_file(tensors, file)
    if broken == "file":
        file.write_bytes(file.read_bytes()[:100])
    if broken == "config":
        config.write_text("{")
    if broken == "kind":
        config.write_text(json.dumps({"peft_type": "PROMPT_TUNING"}))
    if broken == "base":
        text = config.read_text()
        config.write_text(json.dumps(json.loads(text) | {"base_model_name_or_path": None}))
    assert "adapters" in refused(capsys, load_model, path)


@pytest.mark.parametrize("knobs", [
    {"act_prm": ActPRM(scored_by="base")}, {"act_prm": ActPRM(kl=0.1)}, {"rl": RL(kl=0.1)},
])  # fmt: skip
def test_a_base_that_is_not_what_the_run_starts_from_is_refused(base, tmp_path, capsys, knobs):
    """With the adapters off, a checkpoint is the model below it."""
    trained(base, tmp_path / "arm-0")
    cfg = Config(model=str(tmp_path / "arm-0"), **knobs)
    assert "starts from" in refused(capsys, base_policy, cfg, 0, tmp_path)
    base_policy(Config(model=str(tmp_path / "arm-0")), 0, tmp_path)


def test_adapters_are_never_spread_over_processes(base, tmp_path, capsys):
    trained(base, tmp_path / "arm-0")
    cfg = Config(model=str(tmp_path / "arm-0"), shard="always")
    assert "leave it out" in refused(capsys, base_policy, cfg, 0, tmp_path)


def test_a_checkpoint_of_adapters_is_played_and_planned(base, tmp_path):
    trained(base, tmp_path / "arm-0")
    path = str(tmp_path / "arm-0")
    cfg = Config(
        model=path, world_args=["rounds=1"], episodes=3, thought_tokens=4, sampler="transformers"
    )
    assert len(play_checkpoint(cfg, Evaluation([path]))) == 3
    plan = "\n".join(whole_plan(Config(model=path, world_args=["rounds=1"]), tmp_path))
    numbers = [p.numel() for p in load_model(path).parameters() if p.requires_grad]
    assert f"{sum(numbers):,} of them trained" in plan


def test_a_plan_refuses_adapters_that_a_run_refuses(base, tmp_path, monkeypatch, capsys):
    """Also where the weights are not on this machine."""
    monkeypatch.setattr(dry_run, "weights_here", lambda base: False)
    trained(base, tmp_path / "arm-0")
    cfg = Config(model=str(tmp_path / "arm-0"), world_args=["rounds=1"])
    for knobs, words in (
        ({"lora": 7}, "give --lora"),
        ({"lora_alpha": 4}, "leave both out"),
        ({"rl": RL(kl=0.1)}, "starts from"),
    ):
        with pytest.raises(SystemExit):
            list(whole_plan(replace(cfg, **knobs), tmp_path))
        assert words in capsys.readouterr().err


@pytest.mark.slow
def test_a_run_leaves_a_checkpoint_that_the_next_one_goes_on_from(base, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    flags = "--world-args rounds=1 swaps=1 --num-demos 4 --episodes 4"
    flags += " --thought-tokens 4 --arms action_sft --sft.epochs 1 --sft.batch 4"
    found = []
    for run, model in (("a", f"{base} --lora 4"), ("b", "checkpoints/a/action_sft-0")):
        train.main(f"{flags} --run {run} --model {model}".split())
        path = Path("checkpoints") / run / "action_sft-0"
        found.append(load_file(path / "adapter_model.safetensors"))
        config = json.loads((path / "adapter_config.json").read_text())
        assert config["base_model_name_or_path"] == str(base)
    assert found[0].keys() == found[1].keys() and not same(*found)


def test_a_sampler_with_weights_of_its_own_shares_those_that_nobody_trains():
    p = Policy(adapted(policy().model, 4, checkpointing=False), policy().tokenizer, 10_000)
    sampler = Sampler(p.model, own_weights=True)
    shared = 0
    for own, learned in zip(sampler.model.parameters(), p.model.parameters(), strict=True):
        assert (own is learned) != learned.requires_grad
        shared += own is learned
    assert shared
    before = sampler.generate([[1, 2]], 2, 6, [], 1.0, seed=0)
    with torch.no_grad():
        for learned in p.parameters.values():
            learned += 0.5
    assert sampler.generate([[1, 2]], 2, 6, [], 1.0, seed=0) == before
    sampler.sync()
    assert sampler.generate([[1, 2]], 2, 6, [], 1.0, seed=0) != before
