"""--dry-run: the numbers of models that everybody knows, and what the first sample looks like."""

import json
import math
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from minprm.arms import ladder
from minprm.commands import dry_run as planning
from minprm.commands.cli import parse
from minprm.commands.counted import disk
from minprm.commands.dry_run import card_memory, fit
from minprm.commands.estimate import Seconds, measure, seconds_of
from minprm.commands.memory import count, engine_lacks, kept_bytes, memory, on_the_cpu, sent
from minprm.commands.plan import plan as whole_plan
from minprm.commands.presets import PRESETS
from minprm.commands.train import main
from minprm.constants import SFT, ActPRM, Config, Engine, Relabel
from minprm.load import base, names
from minprm.load import pretrained as load
from minprm.look.clock import updates_of
from minprm.run.stage_ids import stage_ids
from minprm.text.printable import GREEN, GREY, YELLOW
from shared.chats import PAGES, chat_model, line
from shared.stages import CFG, Lines, log_of

ROOT = Path(__file__).parents[1]
TOKENS = 48
QWEN3 = dict(vocab_size=151_936, head_dim=128, num_key_value_heads=8, tie_word_embeddings=True)
SHAPES = {
    "0.6B": dict(hidden_size=1024, intermediate_size=3072, num_hidden_layers=28,
                 num_attention_heads=16),
    "4B": dict(hidden_size=2560, intermediate_size=9728, num_hidden_layers=36,
               num_attention_heads=32),
}  # fmt: skip


def shape(name: str) -> Qwen3ForCausalLM:
    with torch.device("meta"):
        return Qwen3ForCausalLM(Qwen3Config(**QWEN3, **SHAPES[name]))


def test_parameters_are_those_of_the_model_cards():
    assert count(shape("0.6B"), lora=0) == (596_049_920, 596_049_920)
    assert count(shape("4B"), lora=0)[0] == 4_022_468_096


def test_adapters_are_counted_as_peft_makes_them():
    peft = pytest.importorskip("peft", reason='needs peft: pip install "minprm[lora]"')
    made = peft.get_peft_model(shape("0.6B"), peft.LoraConfig(r=8, target_modules="all-linear"))
    trained = sum(p.numel() for p in made.parameters() if p.requires_grad)
    assert count(shape("0.6B"), lora=8)[1] == trained


def test_a_4b_model_fits_80_gb_with_adapters_and_not_without():
    plan = {}
    for lora in (0, 32):
        cfg = Config(lora=lora, checkpointing=True, sampler="vllm")
        plan[lora] = memory(shape("4B"), cfg, card=80 * 2**30)
    total, trained = count(shape("4B"), lora=32)
    assert plan[32]["weights"] == 2 * (total - trained) + 4 * trained  # bf16 base, fp32 adapters
    assert plan[0]["gradients and AdamW's two moments, fp32"] == pytest.approx(
        12 * 4.02e9, rel=0.01
    )
    assert plan[32]["sum"] < 79 * 2**30 < plan[0]["sum"]
    assert plan[32]["sum"] - plan[32]["vLLM's share"] < 24 * 2**30


def test_an_engine_that_sleeps_takes_its_share_where_activations_are():
    cfg = Config(lora=32, checkpointing=True, sampler="vllm", engine=Engine(sleep=True))
    card = 80 * 2**30
    asleep = memory(shape("4B"), cfg, card)
    awake = memory(shape("4B"), replace(cfg, engine=Engine()), card)
    learning = asleep[f"activations of {cfg.micro_tokens:,} tokens"]
    learning += asleep["logits of one chunk, and the head in fp32"]
    assert asleep["vLLM's share"] == 0 and awake["vLLM's share"] == 0.35 * card > learning
    assert asleep["sum"] == pytest.approx(awake["sum"] - learning)


def test_an_engine_whose_weights_outgrow_its_share_is_told():
    """8.04 GB in bf16, in 35 % of a card; with two cards each has half of them."""
    cfg = Config(lora=32, sampler="vllm")
    assert not engine_lacks(shape("4B"), cfg, card=80e9)
    told = engine_lacks(shape("4B"), cfg, card=22.5e9)
    assert told.startswith("vLLM's weights alone are 7.49 GiB, and its share is 7.33 GiB")
    together = replace(cfg, engine=Engine(tensor_parallel=2))
    assert not engine_lacks(shape("4B"), together, card=22.5e9)
    assert not engine_lacks(shape("4B"), replace(cfg, sampler="transformers"), card=22.5e9)


def test_the_preset_for_24_gb_fits_such_a_card_by_its_own_plan():
    """Cards of 24 GB (A10G, L4) give out 22.5 GiB; 1 of them is the CUDA context's."""
    cfg, card = replace(PRESETS["qwen3-0.6b"], sampler="vllm"), 22.5 * 2**30
    plan = memory(shape("0.6B"), cfg, card)
    assert plan["vLLM's share"] == cfg.engine.memory * card
    assert plan["sum"] < card - 2**30 < memory(shape("4B"), cfg, card)["sum"]


def test_the_plan_counts_autocasts_copies_and_no_copy_that_is_on_the_cpu():
    """A bf16 copy of every weight in a linear layer but the head: 28 layers of 0.6B."""
    plan = memory(shape("0.6B"), Config())
    attention = 1024 * (2 * 16 + 2 * 8) * 128
    layer = attention + 3 * 1024 * 3072
    assert plan["autocast's copies of weights, bf16"] == 2 * 28 * layer
    assert not any("start" in name for name in plan)
    assert (
        memory(shape("0.6B"), Config(act_prm=ActPRM(scored_by="base")))["frozen base model"]
        == 4 * 596_049_920
    )


# --- several processes ---


def test_spread_weights_and_all_that_is_kept_of_them_are_shared_by_all_processes():
    """16 bytes a weight: it, its gradient and two moments in fp32; and no copies for autocast."""
    of_one = memory(shape("4B"), Config())
    of_each = memory(shape("4B"), Config(processes=8, shard="always"))
    kept = ("weights", "gradients and AdamW's two moments, fp32")
    assert sum(of_each[name] for name in kept) == 16 * 4_022_468_096 / 8
    assert of_one["autocast's copies of weights, bf16"] > 0
    assert of_each["autocast's copies of weights, bf16"] == 0
    # one layer of 4B, twice in bf16, then its gradients in bf16 and fp32; the embedding in fp32
    layer = 2560 * (2 * 32 + 2 * 8) * 128 + 3 * 2560 * 9728 + 2 * 2560 + 2 * 128
    rest = 151_936 * 2560 + 2560
    assert of_each["layers that are put together"] == (2 * 2 + 2 + 4) * layer + 3 * 4 * rest
    # the plain sampler has all weights while it writes, and then no activations
    whole = 2 * 36 * layer + 4 * rest
    assert of_each["or, while the sampler writes: all weights"] == whole
    tight = memory(shape("4B"), Config(processes=8, shard="always", micro_tokens=1))
    assert tight["sum"] == 16 * 4_022_468_096 / 8 + whole


def test_adapters_and_whole_weights_take_in_each_process_what_they_take_in_one():
    for knobs in ({"lora": 32, "model": "a"}, {"shard": "never"}):
        of_one = memory(shape("4B"), Config(**knobs))
        of_each = memory(shape("4B"), Config(processes=8, **knobs))
        assert of_each.pop("or, while they are summed: all gradients") > 0
        assert of_each == of_one


def test_a_snapshot_of_spread_weights_is_whole_on_the_cpu_of_the_first_process():
    """Weights and two moments, and the best weights where patience keeps them: 4 bytes each."""
    total = 4_022_468_096
    cfg = Config(processes=8, shard="always")
    assert [*on_the_cpu(shape("4B"), cfg).values()] == [4 * total / 8, 12 * total]
    patient = replace(cfg, sft=SFT(patience=1))
    assert [*on_the_cpu(shape("4B"), patient).values()] == [8 * total / 8, 16 * total]
    assert [*on_the_cpu(shape("4B"), replace(cfg, shard="never")).values()] == [4 * total]


def test_what_processes_send_is_the_least_that_a_sum_takes_where_weights_are_whole():
    (found,) = sent(shape("4B"), Config(processes=4, shard="never")).values()
    assert found == 2 * 3 / 4 * 4 * 4_022_468_096
    _, adapters = count(shape("4B"), lora=32)
    (found,) = sent(shape("4B"), Config(processes=4, model="a", lora=32)).values()
    assert found == 2 * 3 / 4 * 4 * adapters


SENDS = """
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import Qwen3Config, Qwen3ForCausalLM
from minprm.commands.memory import sent
from minprm.constants import Config
from minprm.several import processes
from minprm.several import spread
from minprm.model.precision import make_head_fp32


class Sent(TorchDispatchMode):
    bytes = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if "_allgather_base_" in str(function) or "_reduce_scatter_base_" in str(function):
            sizes = [x.numel() * x.element_size() for x in args if isinstance(x, torch.Tensor)]
            self.bytes += max(sizes) - min(sizes)  # a ring sends all parts but one
        return function(*args, **(kwargs or {}))


processes.start()
model = Qwen3ForCausalLM(Qwen3Config(
    vocab_size=500, hidden_size=64, intermediate_size=128, num_hidden_layers=3, head_dim=16,
    num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=True,
))
make_head_fp32(model)
cfg = Config(shard="always", sampler="transformers", device="cpu")
planned = sent(model, cfg)
spread.hand_out(model, torch.device("cpu"))
with Sent() as puts:
    spread.unshard(model)
spread.reshard(model)
with Sent() as learns:
    model(input_ids=torch.arange(20)[None], use_cache=False).logits.logsumexp(-1).sum().backward()
assert [learns.bytes, puts.bytes] == [*planned.values()], (learns.bytes, puts.bytes, planned)
"""


@pytest.mark.slow
def test_what_processes_send_of_spread_weights_is_what_the_plan_counts(tmp_path):
    (tmp_path / "sends.py").write_text(SENDS)
    torchrun(tmp_path, "sends.py")


@pytest.mark.slow
def test_a_plan_under_torchrun_counts_its_processes(tmp_path):
    flags = "--preset smoke --dry-run --shard always"
    told = torchrun(tmp_path, ROOT / "train.py", "--", *flags.split())
    assert told.count("each of 2 processes, with a part of each weight:") == 1
    assert "sent for a micro-batch of an update" in told
    assert {path.name for path in tmp_path.iterdir()} == set()


def torchrun(folder: Path, *command) -> str:
    """What two processes print."""
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    env = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    words += map(str, command)
    done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_plan_for_processes_that_are_not_here_says_what_card_each_needs(tmp_path, capsys):
    main("--preset smoke --dry-run --processes 8".split())
    told = capsys.readouterr().out
    assert "each of 8 processes, with all weights:" in told
    assert "its card has to have 1." in told and "sent for an update" in told
    assert "Time was not measured: a plan for several processes starts none." in told


def test_activations_are_those_that_autograd_saves():
    """One layer of the plan's kind, counted for real; the second layer is what a layer adds."""
    saved = {}
    for layers in (1, 2):
        config = Qwen3Config(**QWEN3 | {"vocab_size": 100}, **SHAPES["0.6B"])
        config.num_hidden_layers = layers
        sizes = {}

        def note(tensor, sizes=sizes):
            if TOKENS in tensor.shape:  # not a weight, nor autocast's copy of one
                sizes[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        hooks = torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor)
        with hooks, torch.autocast("cpu", torch.bfloat16):
            kept = Qwen3ForCausalLM(config).model(torch.arange(TOKENS)[None], use_cache=False)
        saved[layers] = sum(sizes.values())
        del kept
    layer = (saved[2] - saved[1]) / TOKENS / 1024
    assert layer == pytest.approx(kept_bytes(Qwen3ForCausalLM(config), Config()) / 2, rel=0.01)


def test_the_first_sample_is_shown_in_three_colours(tmp_path, model):
    logs = tmp_path / "logs.jsonl"
    logs.write_text("".join(json.dumps(line(page, "look at")) + "\n" for page in PAGES))
    flags = f"--preset logs --demos {logs} --model {model} --lora 0 --held-out 2 --dry-run"
    flags += " --thought-tokens 6 --act-prm.batch 2"
    text = "\n".join(whole_plan(parse(flags.split()), tmp_path))
    assert "parameters" in text and "GiB" in text
    assert f"{GREEN}<think>\nlook at visit Paris\n" in text and YELLOW in text and GREY in text
    before, after = text.split(f"{GREEN}<think>\nlook at visit Paris")
    assert "how big is Paris?" in before and '"title": "Paris"' in after


# --- it refuses what a run refuses, and writes nothing ---

FLAGS = "--preset logs --demos logs.jsonl --held-out 2 --thought-tokens 6 --lora 0 --dry-run "


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("logs.jsonl").write_text("".join(json.dumps(line(page)) + "\n" for page in PAGES))
    return tmp_path


@pytest.mark.parametrize(("flags", "sentence"), [
    ("--context 8", "hold the first step of any of these 6 logs: choose"),
    ("--held-out 6", "--held-out 6 leaves nothing to learn from"),
    ("--sampler vllm", "--sampler vllm: it is not installed"),
    ("--arms expert_thoughts", "--arms expert_thoughts: a step has no thought"),
    ("--run old", "--run old exists"),
    ("--layout tool --act-prm.thoughts-from state_action", "a thought after its action needs tags"),
])  # fmt: skip
def test_what_a_run_refuses_the_plan_refuses(folder, model, monkeypatch, capsys, flags, sentence):
    monkeypatch.setattr(names, "find_spec", lambda name: None)
    Path("runs/old").mkdir(parents=True)
    Path("runs/old/config.json").write_text("{}")
    given = {word.split()[0]: word for word in (" " + FLAGS + flags).split(" --")[1:]}
    words = " ".join(f"--{word}" for word in given.values())  # what is given later counts
    with pytest.raises(SystemExit) as stop:
        main(f"{words} --model {model}".split())
    assert stop.value.code == 2 and sentence in capsys.readouterr().err


def test_a_model_without_its_weights_is_refused_and_one_of_the_hub_waits_there(
    folder,
    model,
    monkeypatch,
    capsys,
):
    shutil.copytree(model, "bare")
    Path("bare/model.safetensors").rename("bare/model-1-of-2.safetensors")
    index = {"weight_map": {"a": "model-1-of-2.safetensors", "b": "model-2-of-2.safetensors"}}
    for missing in ("model.safetensors", "model-2-of-2.safetensors"):
        with pytest.raises(SystemExit):
            main(f"{FLAGS} --model bare".split())
        assert f"bare has no {missing}" in capsys.readouterr().err
        Path("bare/model.safetensors.index.json").write_text(json.dumps(index))
    monkeypatch.setattr(load, "HF_HUB_OFFLINE", False)
    assert not load.weights_here("nobody/knows-this")
    assert load.weights_here(str(model))


@pytest.mark.slow
def test_a_plan_writes_nothing_and_says_whether_thoughts_can_be_read(folder, model, capsys):
    main(f"{FLAGS} --model {model}".split())
    good = capsys.readouterr().out
    chat_model(folder / "cut", "</think>", odds=1e-9)
    main(f"{FLAGS} --model cut".split())
    bad = capsys.readouterr().out
    main("--preset smoke --dry-run --tiny.dim 16 --act-prm.batch 2".split())
    embedded = capsys.readouterr().out
    main("--preset smoke --dry-run --act-prm.batch 2".split())
    shipped = capsys.readouterr().out
    assert {path.name for path in folder.iterdir()} == {"logs.jsonl", "cut"}
    assert "of 256 thoughts can be read" in good and "would stop" not in good
    assert "so a run would stop; 256 of 256 thoughts were cut at --thought-tokens 6" in bad
    assert "it fits into this machine's memory" in good and "Measured: " in good
    assert "not raised yet" in embedded and "Measured: " in embedded
    assert "of 16 thoughts can be read" in shipped, "the model that comes with minprm was asked"
    main("--preset smoke --arms rl --dry-run --tiny.dim 16".split())
    played = capsys.readouterr().out
    assert "Time was not measured: that of playing" in played and played.count("stage  ") == 1


def test_what_does_not_fit_is_not_loaded(folder, model, monkeypatch, capsys):
    pages = {"SC_PHYS_PAGES": 1000, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr(os, "sysconf", pages.get)
    monkeypatch.delattr(base, "load_model")
    main(f"{FLAGS} --model {model}".split())
    text = capsys.readouterr().out
    assert "it does not fit into this machine's memory" in text
    assert "Time was not measured: the model does not fit" in text
    monkeypatch.setattr(planning, "weights_here", lambda base: False)
    main(f"{FLAGS} --model {model}".split())
    assert "are not on this machine" in capsys.readouterr().out


def test_a_card_has_to_hold_the_plan_and_cudas_own_gigabyte_where_the_model_is_on_it(monkeypatch):
    card = 80 * 2**30
    assert fit(79 * 2**30, card)[0] and not fit(79.1 * 2**30, card)[0]
    assert "--micro-tokens" in fit(79.1 * 2**30, card)[1] and "79.00 GiB" in fit(1, card)[1]
    of_card = SimpleNamespace(total_memory=card)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: of_card)
    assert [card_memory(name) for name in ("auto", "cuda", "cpu")] == [card, card, 0]
    monkeypatch.delattr(os, "sysconf")  # as on Windows
    assert "was not asked" in fit(1, 0)[1]


# --- disk, updates, time ---


@pytest.mark.slow
def test_the_plan_counts_the_bytes_and_the_updates_of_the_run_itself(
    checkpoints, tmp_path, monkeypatch
):
    """Each stage that is done leaves its weights; one under way has moments, and the one before."""
    act = ActPRM(updates=3, batch=2, group=4)
    cfg = replace(
        CFG, run="r", num_demos=6, arms=["act_prm", "action_sft"], act_prm=act,
        sft=SFT(epochs=3, batch=4), relabel=Relabel(group=8), keep_every=2,
    )  # fmt: skip
    run = ladder.start(cfg, 0, Lines(), checkpoints)
    log_of(run).folder = tmp_path
    for stage_id in stage_ids(cfg):
        log_of(run).lines.clear()
        ladder.run_stage(run, stage_id)
        demos = run.demos or run.train_demos
        assert len(log_of(run).lines) == updates_of(stage_id, cfg, demos)
    snapshots = list(checkpoints.glob("r/stages/*/model.safetensors"))
    stages = len(snapshots)
    weights = snapshots[0].stat().st_size
    checkpoint = tmp_path / "arm"
    run.agent.policy.save(checkpoint)
    kept = len(list(checkpoints.glob("r/kept/*/*/model.safetensors")))
    saved = (checkpoint / "model.safetensors").stat().st_size
    needed = (stages + 2 * 3) * weights + (2 + kept) * saved
    total = sum(p.numel() for p in run.agent.policy.model.parameters())
    monkeypatch.setattr("minprm.commands.counted.shutil.disk_usage", lambda _: disk_of(2**40))
    found = float(disk(cfg, total * 10**4, total * 10**4, run.train_demos).split()[5])
    assert stages == 4 and kept == 5 and found == pytest.approx(needed * 1e4 / 2**30, rel=0.02)
    monkeypatch.setattr("minprm.commands.counted.shutil.disk_usage", lambda _: disk_of(2**10))
    assert "make room" in disk(cfg, total, total, run.train_demos)


def disk_of(free: int) -> object:
    return type("Usage", (), {"free": free})


def test_a_card_that_is_full_after_all_ends_in_a_sentence(folder, model, monkeypatch, capsys):
    def learn(*_):
        raise torch.OutOfMemoryError

    monkeypatch.setattr("minprm.commands.estimate.learn", learn)
    with pytest.raises(SystemExit):
        main(f"{FLAGS} --model {model}".split())
    assert "the memory of the card ran out" in capsys.readouterr().err


def test_times_are_multiples_of_what_was_measured(checkpoints):
    act = ActPRM(updates=10, batch=2, group=4)
    cfg = replace(CFG, num_demos=6, held_out=2, act_prm=act, relabel=Relabel(group=8),
                  eval_every=5)  # fmt: skip
    run = ladder.start(cfg, 0, Lines(), checkpoints)
    took = Seconds(walk=8.0, act_prm=3.0, sft=2.0)
    ids = ["act_prm", "act_prm+relabel", "relabel:matched", "sample", "copy", "sft:actions", "rl"]
    found = [seconds_of(stage_id, 10, run, took) for stage_id in ids]
    matched = 8 + math.ceil(10 * 2 * 4 / 6)
    # a walk is of 2 demos and 4 thoughts a step: one demo and one thought take a second
    assert found == [10 * 11 + 3 * 2 * 4, 6 * 8, 6 * matched, 6, 0, 20, None]
    tally, times = measure(run)
    assert tally.drawn == 2 * 2 * 4 and min(times) > 0
