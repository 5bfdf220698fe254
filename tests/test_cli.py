"""The flags of both commands: what they mean, and what is refused in one sentence."""

import io
import json
import os
import shutil
import subprocess
import sys
from dataclasses import is_dataclass, replace
from pathlib import Path
from typing import get_type_hints

import pytest
from transformers import AutoTokenizer

from evidence.experiments import ablations, objectives
from minprm.arms.ladder import STAGES
from minprm.commands import ask, evaluate, playing, train
from minprm.commands.cli import parse
from minprm.commands.knobs import ranges
from minprm.commands.presets import PRESETS
from minprm.constants import Config, Tiny
from minprm.constants import refusal as refused
from minprm.envs.cups import Cups
from minprm.load import tiny
from minprm.load.names import require_model
from minprm.load.pretrained import pretrained
from minprm.look.screen import bar
from minprm.model.policy import Policy
from minprm.text.actions import exact_match
from shared.commands import refusal

ROOT = Path(__file__).parents[1]


# --- train ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("--foo 1", "--foo"),
        ("--act-prm.rewrad x", "perhaps you meant --act-prm.reward"),
        ("--act-prm.reward nice", "--act-prm.reward nice: no such name. Names: action_prob, "),
        ("--act-prm.advantage gae", "--act-prm.advantage gae: no such name. Names: posterior, "),
        ("--rl.advantage nowhere.py:f", "nowhere.py: No such file"),
        (f"--act-prm.reward {__file__}:refusal", "it has to take logp alone, or logp, thought"),
        (f"--rl.advantage {__file__}:refusal", "it has to take the rewards of a group"),
        ("--top-p 0.9", "--top-p is not here: the loss holds for tokens of the whole vocabulary"),
        ("--max-stepz 3 --top_p 0.9", "--top_p is not here: the loss holds for tokens"),
        ("--min-length=3", "--min-length is not here: the loss holds for tokens of the whole"),
        ("--load-in-4bit", "--load-in-4bit is not here: weights are fp32 or bf16"),
        ("--rl.loss aipo", "aipo is --rl.loss cispo here"),
        ("--rl.loss reinforce", "reinforce is --rl.loss pg here"),
        ("--arms rl --rl.advantage a2c", "--rl.advantage a2c is --rl.advantage gae here"),
        ("--rl.loss dr-grpo", "dr-grpo is --rl.advantage mean here"),
        ("--act-prm.loss grpo", "grpo is --act-prm.advantage mean_std here"),
        ("--rl.advantage GRPO", "--rl.advantage GRPO is --rl.advantage mean_std here"),
        ("--config nowhere.toml", "nowhere.toml"),
        ("--rl.lr 1e-3 --rl.lr 1e-4", "--rl.lr is given twice"),
        ("--think --no-think", "--think is given twice"),
        ("--config a.toml --config=b.toml", "--config is given twice"),
        # names
        ("--arms nobody", "nobody"),
        ("--arms rl rl", "rl twice"),
        ("--arms", "name at least one"),
        ("--stages", "--stages names nothing"),
        ("--config", "--config names nothing"),
        ("--config=", "--config names nothing"),
        ("--gate false", "false; a switch takes no word: --gate, or --no-gate"),
        ("--history.thoughts=False", "a switch takes no word"),
        ("--world cups errand", 'worlds are --world mixed --world-args "worlds=cups, errand"'),
        ("--seeds 0,1", "['0,1']; several numbers have a space between them"),
        ("--no-history.thoughts", "you meant --history.thoughts or --history.no-thoughts ("),
        ("--stages sft:nothing", "sft:thoughts"),
        (f"--stages {'sft:actions ' * 42}", "at most 10"),
        ("--stages demos --seeds 0 1", "one seed"),
        ("--seeds", "name at least one"),
        ("--seeds 0 0", "0 twice"),
        ("--seeds x", "--seeds"),
        ("--seeds 0 10000", "--seeds 10000: must be at least 0 and at most 9,998"),
        ("--seeds -1", "at least 0"),
        # numbers
        ("--rl.batch 0", "--rl.batch 0: must be at least 1 and at most 1,000,000"),
        ("--act-prm.group -1", "at least 1"),
        ("--rl.lr -1", "at least"),
        ("--rl.lr nan", "--rl.lr nan"),
        ("--sft.lr inf", "--sft.lr inf"),
        ("--rl.max-async-level -1", "--rl.max-async-level"),
        ("--rl.groups top_p --rl.top-p 1.5", "at most 1"),
        ("--rl.groups top_p --rl.top-p 0", "at least"),
        ("--optim.passes 0", "at least 1"),
        ("--optim.max-grad-norm 0", "--optim.max-grad-norm 0"),
        ("--rl.kl nan", "--rl.kl nan"),
        ("--relabel.min-reward 2", "at most 1"),
        ("--temperature 0", "--temperature 0"),
        ("--temperature inf", "--temperature inf"),
        ("--eval-temperature -1", "at least 0"),
        ("--eval-temperature nan", "--eval-temperature nan"),
        ("--threads 1000000", "at most"),
        ("--num-demos 2000000000", "at most 90,000"),
        ("--tiny.dim 0", "at least 1"),
        ("--tiny.dim 4097", "at most 4,096"),
        ("--tiny.act-only 2", "at most 1"),
        ("--tiny.mixture bare=0", "no share is above 0"),
        ("--tiny.mixture bare=nan", "bare=nan"),
        ("--tiny.mixture clever=1", "faithful"),
        ("--tiny.mixture bare=.1 bare=.2", "twice"),
        ("--tiny.mixture bare", "name=value"),
        # what cannot work together
        ("--act-prm.group 1 --act-prm.advantage mean", "group"),
        ("--act-prm.scored-by base --act-prm.reward exact_match", "exact_match"),
        ("--act-prm.trained-on action_first", "state_action"),
        ("--act-prm.baseline no_thought --act-prm.continues own", "--act-prm.continues best"),
        ("--act-prm.baseline no_thought --act-prm.reward exact_match", "without a thought"),
        ("--act-prm.patience 2 --held-out 0", "goes by the reward on --held-out demos"),
        ("--act-prm.patience 2 --eval-every 0", "--eval-every updates: neither"),
        ("--act-prm.patience 2 --act-prm.best-by success --eval-tasks 0", "--eval-tasks tasks"),
        ("--sft.patience 2 --eval-tasks 0", "--sft.patience goes by the success"),
        ("--rl.patience 2 --eval-every 0", "--rl.patience goes by the success"),
        ("--preset logs --eval-every 0 --demos x --act-prm.patience 4", "--act-prm.patience goes"),
        ("--rl.group 1 --rl.groups top_p --rl.advantage ema", "variance"),
        ("--rl.format-penalty 0.1 --rl.advantage posterior", "posterior"),
        ("--rl.kl .1 --rl.kl-to sampler --rl.correction mask", "use one"),
        ("--rl.kl .1 --rl.kl-to sampler", "--optim.passes or --optim.minibatches above 1"),
        ("--stages rl --rl.batch 4 --optim.minibatches 5", "a larger --rl.batch"),
        ("--sampler vllm --rl.max-async-level 1 --engine.sleep", "never sleeps"),
        ("--no-think --arms act_prm", "--no-think"),
        ("--no-think --stages synth", "turns that begin with a thought"),
        ("--stages synth sft:actions", "not those of the games that were won"),
        ("--stages synth act_prm relabel sft:thoughts", "not those of the games that were won"),
        ("--stages synth shuffle rl sft:expert", "not those of the games that were won"),
        ("--lora 4", "--lora has no effect here: it needs a --model"),
        ("--arms action_sft --demos x --num-demos 9", "head -n 9 takes so many lines of a file"),
        ("--model x --lora-alpha 4", "--lora-alpha has no effect here: it needs --lora above 0"),
        ("--preset logs --model tiny --demos x", "another --model than tiny"),
        ("--lora 4 --skip-bad", "a --model; --skip-bad has no effect here: it needs --demos or"),
        ("--dry-run --resume", "--resume"),
        ("--dry-run --processes 2", "--processes is gone: --dry-run measures one process"),
        ("--processes=2", "--processes is gone: --dry-run measures one process"),
        # what would be ignored
        ("--num-demos 128 --demos logs.jsonl", "--num-demos has no effect"),
        ("--arms base --num-demos 64", "--num-demos has no effect"),
        ("--arms action_sft --held-out 8", "--held-out has no effect"),
        ("--arms action_sft --temperature .5", "--temperature has no effect"),
        ("--arms base --eval-tasks 4", "--eval-tasks has no effect"),
        ("--arms copied_actions --eval-tasks 0 --eval-every 2", "--eval-every has no effect"),
        ("--eval-every 0 --eval-tasks 4", "--eval-every above 0"),
        ("--act-prm.best-by success", "--act-prm.patience above 0"),
        ("--arms base --keep-every 2", "--keep-every has no effect"),
        ("--checkpointing", "it needs a --model"),
        ("--engine.memory .5 --sampler transformers", "it needs the vLLM sampler"),
        ("--rl.lam .9", "gae or turn_gae"),
        ("--rl.gamma .9 --arms rl", "gae or turn_gae, or the stage rl:dense"),
        ("--rl.kl-target 0.1", "--rl.kl"),
        ("--rl.finetune-lr 1e-4 --arms rl", "rl:finetune"),
        ("--act-prm.lr 1e-4 --arms best_of_base", "act_prm"),
        ("--relabel.group 4 --arms rl", "relabel"),
        ("--optim.warmup 1 --arms base", "it needs a stage that reads it: act_prm, "),
        ("--stages rl --arms rl", "--arms has no effect"),
        ("--shard never", "--shard has no effect here: it needs torchrun with several processes"),
        ("--dry-run --shard never", "--shard has no effect"),
        ("--stages demos --optim.decay linear", "--optim.decay has no effect"),
        # of earlier versions
        ("--sft.loss ppo_clip", "--sft.loss is gone: it is about sampled tokens, and nobody"),
        ("--sft.correction mask", "nobody sampled"),
        ("--sft.kl-to sampler --optim.passes 2", "nobody sampled"),
        ("--sft.no-decay", "--sft.decay is gone: the learning rate of SFT always decays"),
        ("--rl.warmup=0", "--rl.warmup is gone: give --optim.warmup, one for all stages"),
        ("--act-prm.kl-to base", "--act-prm.kl-to is gone: the KL of Act-PRM is to the base model"),
        ("--tiny.heads 2", "--tiny.heads is gone: it follows from the width"),
        ("--act-prm.entropy .1", "--act-prm.entropy is gone: Act-PRM has no such bonus"),
        ("--history.first 0", "--history.first is gone: the first observation always stays"),
        ("--relabel.keep 2", "each step has the best of its thoughts: leave it out"),
        ("--world= --arms base --no-think --demos a --model b", "it needs --world"),
        ("--world= --arms base --split validation --demos a --model b", "it needs --world"),
        ("--world= --arms base --episodes 9 --demos a --model b", "it needs --world"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_ends_in_one_sentence_and_code_2(flags, said, capsys):
    assert said in refusal(parse, flags.split(), capsys)


def test_torchrun_says_how_many_processes_there_are(monkeypatch):
    """`--shard` is for them alone; `--jobs` would start others."""
    monkeypatch.setenv("WORLD_SIZE", "8")
    vllm = ["--sampler", "vllm", "--engine.tensor-parallel"]
    assert parse([*vllm, "4"]).engine.tensor_parallel == 4
    assert "and there are 8: start 3" in refused(parse, [*vllm, "3"])
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert parse(["--shard", "always"]).shard == "always"
    both = ["--shard", "always", "--model", "a", "--lora", "4"]
    assert "leave out one" in refused(parse, both)
    assert "--jobs has no effect" in refused(parse, ["--jobs", "2"])
    assert parse(["--jobs", "1"]).jobs == 1


def test_every_number_of_both_commands_has_a_range_and_its_default_lies_in_it():
    for schema in (Config(), ask.Evaluation(checkpoints=[])):
        found = {knob for knob, _, _ in ranges(schema)}
        assert found == set(numbers(schema))
        assert all(r.least <= value <= r.most for _, value, r in ranges(schema))


def numbers(knobs: object, prefix: str = "") -> list[str]:
    """The knobs whose type is a number, or a list of numbers."""
    found = []
    for name, kind in get_type_hints(type(knobs)).items():
        if is_dataclass(getattr(knobs, name)):
            found += numbers(getattr(knobs, name), f"{prefix}{name}.")
        elif kind in (int, float, list[int], list[float]):
            found.append(prefix + name)
    return found


def test_what_asks_for_nothing_may_be_given_anywhere():
    assert parse("--lora 0 --act-prm.patience 0 --no-checkpointing".split()) == Config()
    back = "--preset errand --act-prm.scored-by policy --act-prm.reward exact_match"
    assert parse(back.split()).act_prm.scored_by == "policy"


def test_a_stage_of_ones_own_may_read_any_knob_of_a_stage(monkeypatch):
    monkeypatch.setitem(STAGES, "mine", lambda run, stage_id: None)
    assert (
        parse("--stages mine --rl.gamma .9 --temperature .5 --held-out 3".split()).rl.gamma == 0.9
    )


@pytest.mark.slow
def test_every_preset_and_every_command_of_a_benchmark_is_accepted():
    for preset, config in PRESETS.items():
        logs = [] if config.world else ["--demos", "logs.jsonl"]
        assert replace(parse(["--preset", preset, *logs]), demos="") == config
    told = [f"{objectives.BUDGET} {flags} {objectives.CHOICE} --rl.lr 1e-3"
            for flags in objectives.METHODS.values()]  # fmt: skip
    told += [f"{ablations.LADDER} {flags}" for flags in ablations.ABLATIONS.values()]
    assert len(told) > 30
    for flags in told:
        parse(flags.split())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"[sft]\nnothing = 1\n", "nothing"),
        (b"run = '\xff'", "not TOML"),
        (b"a = " + b"[" * 100_000, "not TOML"),
        (b"[" + b".".join([b"a"] * 5000) + b"]\nb = 1", "my.toml"),
        (b"config = 'other.toml'", "another config"),
        (b"rl.lr = nan", "--rl.lr nan"),
        (b'gate = "yes"', "my.toml: gate is true or false, and not 'yes'"),
        (b"run = true", "my.toml: run takes a value, and not true or false"),
        (b"num-demos = 9\nnum_demos = 8", "my.toml names num_demos twice"),
        (b"think = true\nno-think = false", "my.toml names think twice"),
        (b"no-think = 1", "my.toml: no-think is true or false, and not 1"),
        (b"stages = []", "--stages names nothing"),
        (b"sft.lr = [1e-3, 1e-4]", "my.toml: sft.lr takes one value, and not [0.001, 0.0001]"),
        (b"sft.lr = []", "my.toml: sft.lr takes one value, and not []"),
        (b"rl.lam = 0.9", "--rl.lam has no effect"),
        (b"[sft]\nwarmup = 0\n", "--sft.warmup is gone: give --optim.warmup"),
    ],
)  # fmt: skip
def test_a_broken_toml_file_ends_in_one_sentence(text, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("my.toml").write_bytes(text)
    assert said in refusal(parse, ["--config", "my.toml"], capsys)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sft.lrr = 1e-3", "perhaps you meant --sft.lr"),
        ("sft.lr = 'fast'", "--sft.lr"),
        ("sft.warmup = 0", "--sft.warmup is gone"),
        ("sft.lr =", "is not TOML"),
    ],
)
def test_of_several_toml_files_the_one_with_the_fault_is_named(
    text, said, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    Path("good.toml").write_text("sft.lr = 1e-3")
    Path("bad.toml").write_text(text)
    for files in (["good.toml", "bad.toml"], ["bad.toml", "good.toml"]):
        error = refusal(parse, ["--config", *files], capsys)
        assert error.startswith("--config bad.toml") and said in error


def test_arms_replace_stages_and_a_world_the_knobs_of_another(tmp_path):
    path, more = tmp_path / "a.toml", tmp_path / "b.toml"
    path.write_text('arms = ["base"]\nworld = "frozenlake"\nworld-args = ["size=4"]')
    more.write_text('stages = ["rl"]\nworld = "sokoban"')
    config = parse(["--config", str(path), "--stages", "rl", "--world", "sokoban"])
    assert (config.stages, config.world, config.world_args) == (["rl"], "sokoban", [])
    config = parse(["--config", str(path), str(more)])
    assert (config.stages, config.world, config.world_args) == (["rl"], "sokoban", [])
    config = parse(["--config", str(path), str(more), "--arms", "base", "act_prm"])
    assert (config.stages, config.arms) == ([], ["base", "act_prm"])
    config = parse(["--config", str(path), "--world", "frozenlake"])
    assert config.world_args == ["size=4"]


def test_a_switch_of_a_toml_file_may_be_named_by_what_it_switches_off(tmp_path):
    off, on = tmp_path / "off.toml", tmp_path / "on.toml"
    off.write_text('stages = ["rl"]\nno-think = true\nrl.no-backfill = false')
    on.write_text("think = true")
    config = parse(["--config", str(off)])
    assert not config.think and config.rl.backfill
    assert parse(["--config", str(off), str(on)]).think
    assert not parse(["--config", str(on), str(off)]).think
    assert parse(["--config", str(off), "--think"]).think


def test_another_model_replaces_what_a_file_says_of_the_embedded_one(tmp_path):
    path, more = tmp_path / "a.toml", tmp_path / "b.toml"
    path.write_text("gate = false\nsft.lr = 0.5\ntiny.updates = 7")
    more.write_text('model = "chat"')
    assert parse(["--config", str(path)]).tiny.updates == 7
    small = parse(["--config", str(path), "--preset", "small", "--demos", "x.jsonl"])
    assert (small.sft.lr, small.tiny) == (0.5, Tiny())
    for flags in ([str(path), "--model", "chat"], [str(path), str(more)]):
        config = parse(["--config", *flags])
        assert (config.model, config.sft.lr, config.tiny) == ("chat", 0.5, Tiny())


def test_world_args_of_a_file_that_flags_replace_are_told(tmp_path, said):
    path = tmp_path / "a.toml"
    path.write_text('world = "frozenlake"\nworld-args = ["size=4", "path=3"]')
    flags = ["--config", str(path), "--world-args"]
    assert parse([*flags, "size=4", "path=3", "ice=0.8"]).world_args[2] == "ice=0.8"
    path.write_text('world = "frozenlake"\nworld-args = ["size=4"]')
    assert parse([*flags[:2], "--world-args=size=4"]).world_args == ["size=4"]
    assert said == []  # nothing is lost
    path.write_text('world = "frozenlake"\nworld-args = ["size=4", "path=3"]')
    assert parse([*flags, "slip=0.5"]).world_args == ["slip=0.5"]
    assert said == ["--world-args replaces all that --config has: size=4 path=3"]


def test_toml_gives_the_same_knobs_and_flags_override_it(tmp_path):
    path = tmp_path / "my.toml"
    path.write_text(
        'preset = "smoke"\nseeds = [4, 5]\n[act-prm]\nlr = 0.5\nreward = "exact_match"\n'
    )
    cfg = parse(["--config", str(path), "--act-prm.lr", "0.25"])
    assert (cfg.seeds, cfg.act_prm.lr, cfg.act_prm.reward) == ([4, 5], 0.25, "exact_match")
    assert cfg.world_args == ["rounds=1", "swaps=3"]
    more = tmp_path / "more.toml"
    more.write_text("seeds = [6]\n[act_prm]\nlr = 0.125\n", encoding="utf-8-sig")  # with a mark
    cfg = parse(["--config", str(path), str(more), "--jobs", "2"])
    assert (cfg.preset, cfg.seeds, cfg.act_prm.lr) == ("smoke", [6], 0.125)
    assert cfg.act_prm.reward == "exact_match" and cfg.config == [str(path), str(more)]


# --- evaluate -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory) -> Path:
    """A model that has read nothing."""
    path = tmp_path_factory.mktemp("checkpoint") / "model"
    Policy(*tiny.untrained(Cups(), Tiny(dim=16), seed=0), 1024).save(path)
    return path


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("", "at least one checkpoint"),
        ("c c", "named twice"),
        ("c --transcripts nowhere/all.jsonl", "--transcripts nowhere/all.jsonl"),
        ("c --transcripts old.jsonl", "exists"),
        ("c --chart all.png", "--chart is gone: the table has its numbers"),
        ("c --temperature nan", "--temperature nan"),
        ("c --thought-tokens -50", "--thought-tokens -50"),
        (f"c --seed {10**30}", "--seed 1"),
        ("c --episodes 3000000000", "at most 100,000"),
        ("c --show 2", "--show is gone: --transcripts FILE writes every episode"),
        ("c --samples 2", "--temperature above 0"),
        ("c --seed 1 --seed 2", "--seed is given twice"),
        ("c --no-think --thought-tokens 8", "--thought-tokens has no effect"),
        ("c --engine.sleep", "--engine.sleep has no effect"),
        ("c --engine.memory .5 --sampler transformers", "it needs the vLLM sampler"),
        ("--worlds --seed 1", "--worlds stands alone"),
        ("c --atif out", "--transcripts FILE writes every episode"),
    ],
)
def test_evaluate_refuses_before_it_plays(flags, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("old.jsonl").write_text("")
    Path("c").mkdir()
    assert said in refusal(evaluate.main, flags.split(), capsys)


@pytest.mark.parametrize("file", ["model.safetensors", "tokenizer.json", "config.json"])
def test_a_broken_checkpoint_ends_in_one_sentence(file, checkpoint, tmp_path, capsys):
    shutil.copytree(checkpoint, tmp_path / "broken")
    whole = (checkpoint / file).read_bytes()
    (tmp_path / "broken" / file).write_bytes(whole[: len(whole) // 2])
    error = refusal(evaluate.main, [str(tmp_path / "broken"), "--episodes", "1"], capsys)
    assert "is no model that transformers loads" in error


def broken(what: str, model: Path) -> None:
    """Breaks the files of a model in this way."""
    weights, words = model / "model.safetensors", model / "tokenizer.json"
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"
    if what == "cut weights":
        weights.write_bytes(weights.read_bytes()[:-1])
    elif what == "other weights":
        weights.rename(model / "pytorch_model.bin")
    elif what == "two lines":
        config = json.loads((model / "config.json").read_text()) | {"hidden_size": "x"}
        (model / "config.json").write_text(json.dumps(config))
    elif what == "cut tokenizer":
        words.write_text(words.read_text()[:-9])
    else:
        (model / what).write_text(pointer)


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("model.safetensors", "model.safetensors only says where git-lfs keeps the file: run git"),
        ("tokenizer.json", "tokenizer.json only says where git-lfs keeps the file: run git lfs"),
        ("cut weights", "broken: its *.safetensors are cut or broken (Error"),
        (
            "other weights",
            "it has no model.safetensors, and weights are read from safetensors alone",
        ),
        ("cut tokenizer", "broken/tokenizer.json cannot be read (EOF"),
        ("two lines", "expected int, got str (value: 'x')"),
    ],
)
def test_a_broken_model_is_told_by_its_file_and_what_to_do(
    what, said, checkpoint, tmp_path, capsys
):
    model = tmp_path / "broken"
    shutil.copytree(checkpoint, model)
    broken(what, model)
    error = refusal(evaluate.main, [str(model), "--episodes", "1"], capsys)
    assert said in error.replace(" is no model that transformers loads", "")
    assert error.count("\n") == 1


def test_a_model_without_a_tokenizer_is_named(checkpoint, tmp_path, capsys):
    shutil.copytree(checkpoint, tmp_path / "bare")
    for file in (tmp_path / "bare").glob("tokenizer*"):
        file.unlink()
    (tmp_path / "bare/config.json").write_text(json.dumps({"model_type": "llama"}))
    error = refusal(
        lambda folder: pretrained(AutoTokenizer, *folder), [str(tmp_path / "bare")], capsys
    )
    assert error.endswith(
        "it has no tokenizer, which stands in a tokenizer.json beside the weights\n"
    )


@pytest.mark.parametrize("name", ["model.gguf", "", "models/model.Q4_K_M.gguf", "MODEL.GGUF", "b"])
def test_a_gguf_file_is_told_from_a_folder(name, tmp_path, capsys):
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "model.Q4_K_M.gguf").write_bytes(b"GGUF")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "B.GGUF").write_bytes(b"GGUF")
    (tmp_path / "b" / "config.json").write_text("{}")
    path = str(tmp_path / name) if name else str(tmp_path / "models")
    error = refusal(train.main, ["--arms", "rl", "--model", path], capsys)
    assert "is a GGUF file" in error
    assert "name the model that it was made from" in error
    (tmp_path / "b" / "model.safetensors").touch()  # the GGUF beside it is no matter
    require_model(str(tmp_path / "b"))


def test_a_preset_says_nothing_of_another_world_or_of_trained_adapters(tmp_path):
    own = parse(["--preset", "smoke", "--world", "rooms"])
    assert own.world_args == [] and own.tiny.mixture == []
    same = parse(["--preset", "smoke", "--world", "cups"])
    assert same == PRESETS["smoke"]
    (tmp_path / "adapter_config.json").write_text("{}")
    adapters = ["--preset", "logs", "--demos", "x.jsonl", "--model", str(tmp_path)]
    assert parse(adapters).lora == 0
    assert parse([*adapters, "--lora", "8"]).lora == 8  # which the loading may refuse
    assert parse([*adapters, "--lora-alpha", "4"]).lora_alpha == 4  # and this, too
    assert PRESETS["logs"].lora == 32


def test_a_checkpoint_that_is_not_there_is_named(capsys):
    error = refusal(evaluate.main, ["checkpoints/run/act_prm-7", "--episodes", "1"], capsys)
    said = "act_prm-7 is no model that transformers loads: there is no such folder"
    assert f"checkpoints/run/{said}" in error


def test_a_model_that_no_network_brings_says_what_to_do(monkeypatch, capsys):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    error = refusal(evaluate.main, ["nobody/has-this", "--episodes", "1"], capsys)
    assert error.startswith("nobody/has-this is no model that transformers loads: no folder here")
    assert "Mend the name or the network, or name a folder that holds the model" in error


def test_a_hub_that_does_not_answer_is_asked_once(monkeypatch, capsys):
    asked = []

    def lookup(url):
        asked.append(url)
        raise RuntimeError("no network")

    monkeypatch.setattr("huggingface_hub.get_hf_file_metadata", lookup)
    for main, flags in ((train.main, ["--arms", "rl", "--model"]), (evaluate.main, [])):
        error = refusal(main, [*flags, "nobody/has-this"], capsys)
        assert "the hub does not answer. Mend the name" in error
    assert len(asked) == 2  # once by each command


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("runs/d", "runs/d is a run: name one of checkpoints/d/"),
        ("https://huggingface.co/Qwen/Qwen3-0.6B", "as OWNER/NAME, without the rest"),
        ("", "of --model or a checkpoint, has an empty name"),
        ("my model", "there is no such folder"),
    ],
)
def test_what_names_no_model_is_told_alike_by_training_and_evaluation(
    name, said, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    Path("runs/d").mkdir(parents=True)
    for file in ("metrics.jsonl", "config.json"):
        Path("runs/d", file).write_text("{}")
    assert said in refusal(train.main, ["--arms", "rl", "--model", name], capsys)
    assert said in refusal(evaluate.main, [name], capsys)


def test_a_kept_checkpoint_is_called_by_its_stage_and_update():
    kept = ["runs/kept/rl-0/5", "runs/kept/rl-1/5", "rl-0", "a/rl", "b/rl"]
    assert list(playing.names(kept).values()) == ["rl-0/5", "rl-1/5", "rl-0", "a/rl", "b/rl"]


# --- and around them ------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", ["train.py --help", "-m minprm logs examples/support/logs.jsonl"]
)
def test_who_has_read_enough_gets_no_traceback(command):
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, *command.split()]
    done = subprocess.run(command, cwd=ROOT, stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.slow
def test_letters_that_the_terminal_does_not_know_are_spelled_out(tmp_path):
    log = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "bye"}]
    line = json.dumps({"messages": log, "höhe_id": 1, "höhe": 1})
    (tmp_path / "maß.jsonl").write_text(line, encoding="utf-8")
    command = [sys.executable, "-m", "minprm", "logs", "maß.jsonl", "--drop", "höhe"]
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=ascii_only, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert r"h\xf6he" in done.stdout


@pytest.mark.slow
def test_what_a_plan_says_of_logs_is_a_sentence_and_no_more(tmp_path):
    state = {"role": "user", "content": "ball under a . swap a b ."}
    log = {"messages": [state, {"role": "assistant", "content": "open b"}], "run_id": 1}
    (tmp_path / "mine.jsonl").write_text(json.dumps(log) + "\n")
    command = [sys.executable, "-m", "minprm", "train", "--preset", "smoke", "--demos"]
    command += ["mine.jsonl", "--held-out", "0", "--arms", "action_sft", "--dry-run"]
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == '--demos mine.jsonl: 1 x "run_id" of a log, left out\n'


def test_a_method_that_is_not_there_is_refused_with_the_names(capsys, monkeypatch):
    monkeypatch.setattr(objectives, "METHODS", {"GRPO": "", "group mean": ""})
    error = refusal(objectives.chosen, ["GRPO", "grpo"], capsys)
    assert error == "grpo: no such method. Methods, in quotes: GRPO; group mean\n"
    assert objectives.chosen([]) == ["GRPO", "group mean"]
    assert objectives.chosen(["GRPO"]) == ["GRPO"]


def test_bars_are_for_terminals_alone():
    pipe = io.StringIO()
    assert list(bar(range(3), file=pipe)) == [0, 1, 2] and not pipe.getvalue()
    pipe.isatty = lambda: True
    assert list(bar(range(3), file=pipe)) == [0, 1, 2] and pipe.getvalue()


def test_the_order_of_keys_is_forgiven_in_each_of_two_calls():
    calls = [{"name": "a", "arguments": {"x": 1, "y": 2}}, {"name": "b", "arguments": {}}]
    turned = [dict(reversed(call.items())) for call in calls]
    written, expert = ("\n".join(map(json.dumps, lines)) for lines in (turned, calls))
    assert exact_match(written, expert) == 1.0
    assert exact_match("\n".join(reversed(written.split("\n"))), expert) == 0.0
    assert exact_match("[" * 100_000, expert) == 0.0
