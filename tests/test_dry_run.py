"""--dry-run: it refuses what a run refuses, shows the first sample, and measures one batch."""

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from minprm.arms import ladder
from minprm.commands import dry_run
from minprm.commands.cli import parse
from minprm.commands.dry_run import IMITATE, LEARN, LOOK, WRITE, measure, peak_memory, seconds_of
from minprm.commands.train import main
from minprm.commands.train import plan as whole_plan
from minprm.constants import SFT, ActPRM, Relabel
from minprm.load import names
from minprm.load import pretrained as load
from minprm.run.stage_ids import stage_ids, updates_of
from shared.chats import PAGES, chat_model, line
from shared.processes import Processes
from shared.stages import CFG, Lines, log_of


def test_the_first_sample_is_shown_as_the_model_reads_it(tmp_path, model):
    logs = tmp_path / "logs.jsonl"
    logs.write_text("".join(json.dumps(line(page, "look at")) + "\n" for page in PAGES))
    flags = f"--preset logs --demos {logs} --model {model} --lora 0 --held-out 2 --dry-run"
    flags += " --thought-tokens 6 --act-prm.batch 2"
    text = "\n".join(whole_plan(parse(flags.split()), tmp_path))
    assert "parameters" in text and "GiB" in text and "\x1b" not in text
    before, after = text.split("<think>\nlook at visit Paris\n")
    assert "how big is Paris?" in before and '"title": "Paris"' in after


def test_where_no_stage_has_thoughts_the_first_sample_has_none(tmp_path, model, monkeypatch):
    monkeypatch.setattr(dry_run, "weights_here", lambda base: False)
    logs = tmp_path / "logs.jsonl"
    logs.write_text("".join(json.dumps(line(page, "look at")) + "\n" for page in PAGES))
    flags = f"--preset logs --demos {logs} --model {model} --lora 0 --held-out 2 --dry-run"
    told = {}
    for arms in ("action_sft", "action_sft act_prm"):
        cfg = parse([*flags.split(), "--arms", *arms.split()])
        told[arms] = "\n".join(whole_plan(cfg, tmp_path))
    assert all('"title": "Paris"' in text for text in told.values())
    assert [text.count("look at visit Paris") for text in told.values()] == [0, 1]
    assert "<think>" not in told["action_sft"]


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
    assert (
        "so a run would stop; " in bad and "of 256 thoughts were cut at --thought-tokens 6" in bad
    )
    for told in (good, embedded):
        assert "Peak memory: " in told and " s to write and score thoughts" in told
    assert "not raised yet" in embedded
    assert "of 16 thoughts can be read" in shipped, "the model that comes with minprm was asked"
    main("--preset smoke --arms rl --dry-run --tiny.dim 16".split())
    played = capsys.readouterr().out
    assert "Time was not measured: that of playing" in played and played.count("stage  ") == 1
    assert "Peak memory" not in played
    main("--preset smoke --dry-run --jobs 2 --act-prm.batch 2".split())
    assert "2 arms are trained at once (--jobs), which takes 2 times" in capsys.readouterr().out


def test_a_plan_loads_no_model_whose_weights_are_not_here(folder, model, monkeypatch, capsys):
    monkeypatch.delattr(ladder, "base_policy")
    monkeypatch.setattr(dry_run, "weights_here", lambda base: False)
    main(f"{FLAGS} --model {model}".split())
    text = capsys.readouterr().out
    assert f"the weights of {model} are not on this machine.\nA run downloads them" in text
    assert "of them trained" in text
    assert "how big is Paris?" in text  # a log, as the model reads it


@pytest.mark.slow
def test_a_plan_under_torchrun_says_that_it_measures_one_process(tmp_path):
    flags = "--preset smoke --dry-run --shard always".split()
    processes = Processes(tmp_path, 2, lambda: main(flags))
    assert processes.ended() == [0, 0], processes.said()
    assert processes.said().count("a plan measures one process, without torchrun") == 1
    assert [*tmp_path.iterdir()] == [processes.output]


# --- memory, time ---


@pytest.mark.slow
def test_the_plan_counts_the_updates_of_the_run_itself(checkpoints, tmp_path):
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


def test_a_card_that_is_full_after_all_ends_in_a_sentence(folder, model, monkeypatch, capsys):
    def learn(*_):
        raise torch.OutOfMemoryError

    monkeypatch.setattr("minprm.commands.dry_run.learn", learn)
    with pytest.raises(SystemExit):
        main(f"{FLAGS} --model {model}".split())
    assert "the memory of the card ran out" in capsys.readouterr().err


def test_the_memory_of_a_card_is_what_torch_had_of_it_and_else_what_the_process_had(monkeypatch):
    card = SimpleNamespace(total_memory=80 * 2**30)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: card)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: 3 * 2**29)
    told = "Peak memory: 1.50 GiB, of the 80.00 GiB of this card."
    assert peak_memory(torch.device("cuda")) == told
    before = peak_memory(torch.device("cpu"))
    assert before.endswith("GiB of this machine.")
    _ = torch.ones(2**28)  # a gibibyte
    of_words = lambda told: float(told.split()[2])  # noqa: E731
    assert of_words(peak_memory(torch.device("cpu"))) >= of_words(before) + 0.5
    assert "was not measured" in peak_memory(torch.device("mps"))


@pytest.mark.slow
def test_one_batch_is_of_the_longest_logs_and_is_walked_and_learned_from(checkpoints, monkeypatch):
    """Of two logs of one step and four of two, those of two; and SFT reads the thoughts of them."""
    act = ActPRM(updates=3, batch=2, group=4)
    run = ladder.start(replace(CFG, num_demos=6, act_prm=act), 0, Lines(), checkpoints)
    run.train_demos = [demo.until(1) for demo in run.train_demos[:2]] + run.train_demos[2:]
    updates = []
    learn = dry_run.learn

    def noted(run, samples, cfg, lr):
        updates.append((cfg, samples))
        return learn(run, samples, cfg, lr)

    monkeypatch.setattr(dry_run, "learn", noted)
    run.held_out = [run.held_out[0].until(1), run.held_out[1]]
    looked = []
    monkeypatch.setattr(dry_run, "held_out_reward", lambda run, cfg: looked.append(run.held_out))
    tally, seconds = measure(run)
    assert tally.drawn == 2 * 2 * 4 and [*seconds] == [WRITE, LEARN, LOOK, IMITATE]
    assert looked == [[run.held_out[1], run.held_out[0]]]
    assert min(seconds.values()) > 0
    (first, thoughts), (second, logs) = updates
    assert (first, second) == (act, run.cfg.sft)
    assert len(thoughts) == tally.drawn and len(logs) == run.cfg.sft.batch
    shortest = max(dry_run.tokens(demo, run.agent) for demo in run.train_demos[:2])
    assert min(len(sample.whole()) for sample in logs) > shortest


@pytest.mark.slow
@pytest.mark.parametrize(("arms", "eval_every", "parts"), [
    (["act_prm"], 5, [WRITE, LEARN, LOOK, IMITATE]), (["act_prm"], 0, [WRITE, LEARN, IMITATE]),
    (["best_of_base"], 5, [WRITE, IMITATE]), (["action_sft"], 5, [IMITATE]), (["rl"], 5, []),
])  # fmt: skip
def test_nothing_is_measured_that_no_stage_does(checkpoints, arms, eval_every, parts):
    act = ActPRM(batch=2, group=4)
    cfg = replace(CFG, num_demos=6, held_out=2, arms=arms, eval_every=eval_every, act_prm=act)
    _, seconds = measure(ladder.start(cfg, 0, Lines(), checkpoints))
    assert [*seconds] == parts


@pytest.mark.slow
def test_times_are_multiples_of_what_was_measured(checkpoints, monkeypatch):
    act = ActPRM(updates=10, batch=2, group=4)
    cfg = replace(CFG, num_demos=6, held_out=2, act_prm=act, relabel=Relabel(group=8),
                  eval_every=5, sft=SFT(epochs=20, batch=12))  # fmt: skip
    run = ladder.start(cfg, 0, Lines(), checkpoints)
    took = {WRITE: 8.0, LEARN: 3.0, LOOK: 5.0, IMITATE: 2.0}
    ids = ["act_prm", "act_prm+relabel", "relabel:matched", "sample", "copy", "sft:actions", "rl"]
    found = [seconds_of(stage_id, run, took) for stage_id in ids]
    matched = 8 + math.ceil(10 * 2 * 4 / 6)
    # a walk is of 2 demos and 4 thoughts a step: one demo and one thought take a second
    assert found == [10 * 11 + 3 * 5, 6 * 8, 6 * matched, 6, 0, 20, None]
    # where one of the two held-out logs was looked at
    monkeypatch.setattr(dry_run, "SIDE_BY_SIDE", 1)
    assert seconds_of("act_prm", run, took) == 10 * 11 + 3 * 2 * 5
