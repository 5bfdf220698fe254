"""Runs: what is refused leaves nothing, what is killed goes on alike, what is broken says so."""

import ast
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
import weakref
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from filelock import FileLock
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from minprm.arms import demos as sides
from minprm.arms import ladder
from minprm.commands import train
from minprm.commands.presets import PRESETS
from minprm.constants import Config, Optim, Tiny
from minprm.data import Sample
from minprm.envs.cups import Cups
from minprm.load import tiny
from minprm.load.pretrained import load_model
from minprm.logs.reader import from_chat
from minprm.look.log import Log, locked, to_json
from minprm.run import snapshots
from minprm.run.snapshots import Snapshots
from minprm.trainer import Progress
from shared.policies import policy
from shared.stages import clockless

pytestmark = pytest.mark.usefixtures("ungated")
ROOT = Path(__file__).parents[1]
FLAGS = (
    "--preset smoke --no-gate --tiny.updates 5 --tiny.dim 32 --act-prm.updates 4 "
    "--act-prm.batch 4 --eval-every 1 --eval-tasks 2 --num-demos 8 --held-out 2 --episodes 5 "
    "--arms act_prm --save-every 1 --threads 1 --thought-tokens 12"
).split()
LOG = {
    "task": "t",
    "tools": [],
    "messages": [
        {"role": "user", "content": "a \u2028 b"},
        {"role": "assistant", "content": "open é"},
        {"role": "user", "content": "c"},
        {"role": "assistant", "content": "open d"},
        {"role": "user", "content": "e"},
        {"role": "assistant", "content": "open f"},
    ],
}


def run(name: str, *flags: str) -> dict:
    """One command in this process. Returns its ladder without the seconds."""
    train.main(["--run", name, *flags])
    rows = json.loads(Path("runs", name, "ladder.json").read_text())
    return {arm: [{**row, "seconds": 0} for row in many] for arm, many in rows.items()}


def but(changes: str, without: str = "") -> list[str]:
    """FLAGS with these changes, and without the flags that are named."""
    found: dict[str, list[str]] = {}
    for word in [*FLAGS, *changes.split()]:
        if word.startswith("--"):
            values = found[word] = [word]
        else:
            values.append(word)
    return [word for flag, words in found.items() if flag not in without.split() for word in words]


def refused(capsys, name: str, *flags: str) -> str:
    """The one sentence in which a command ends, with exit code 2."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        train.main(["--run", name, *flags])
    lines = capsys.readouterr().err.splitlines()
    # "12:00:00 ..." is what a log says, with a group indented below it, and "it/s]" a bar
    lines = [x.strip() for x in lines if not x.startswith("    ")]
    error = [x for x in lines if x and x[2:3] != ":" and "it/s]" not in x]
    assert stop.value.code == 2 and len(error) == 1, error
    return error[0]


def metrics(name: str) -> list[dict]:
    """metrics.jsonl without what a clock measured."""
    lines = map(json.loads, Path("runs", name, "metrics.jsonl").read_text().splitlines())
    return [clockless(line) for line in lines]


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A folder with an undisturbed run, `whole`."""
    folder = tmp_path_factory.mktemp("runs")
    before = Path.cwd()
    os.chdir(folder)
    try:
        run("whole", *FLAGS)
    finally:
        os.chdir(before)
    return folder


@pytest.fixture
def here(whole, tmp_path, monkeypatch) -> Path:
    """A copy of that folder, to work in."""
    shutil.copytree(whole, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")
    return tmp_path / "copy"


def one_update(p) -> None:
    """Moves the weights, so that the optimizer has moments."""
    p.update([Sample().extend([3, 4]).extend([5, 6], 1.0)], Config().sft, 1e-3)


# --- snapshots ---


def test_a_snapshot_gives_back_every_bit_and_every_thought(tmp_path):
    saved, fresh = policy(), policy()
    one_update(saved)
    demo = from_chat(LOG).with_thoughts(["", None, "x \u2029"], [0.1, 0.2, 1 / 3])
    demo.steps[1].learned = False
    demos = [demo]
    shots = Snapshots(tmp_path, 0, {"knob": (1, 2)})
    best = saved.weights()
    shots.save("rl", saved, best, 7, best={"reward": 0.1 + 0.2, "since": 1})
    assert shots.state("rl")["best"] == {"reward": 0.1 + 0.2, "since": 1}
    found = shots.load("rl", fresh)
    assert fresh.version == 1 and found.keys() == best.keys()
    for name, p in saved.parameters.items():
        assert torch.equal(p, fresh.parameters[name]) and torch.equal(p, found[name])
    one_update(saved)
    one_update(fresh)  # the moments are the same too, or this step would differ
    assert all(torch.equal(p, fresh.parameters[n]) for n, p in saved.parameters.items())
    shots.finish("rl", saved, demos, 1.0)
    assert shots.demos("rl")[0] == demos[0] and shots.state("rl")["done"]
    done = subprocess.run(["sha256sum", "-c", "SHA256SUMS"], cwd=tmp_path / "rl-0")
    assert done.returncode == 0


FILES = ("model.safetensors", "optimizer.safetensors", "best.safetensors", "state.json",
         "SHA256SUMS")  # fmt: skip


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("how", ["flipped", "cut", "empty", "gone"])
def test_one_wrong_byte_is_refused_in_a_sentence(name, how, tmp_path, capsys):
    p = policy()
    one_update(p)
    shots = Snapshots(tmp_path, 0, {})
    shots.save("rl", p, p.weights(), 1)
    file = tmp_path / "rl-0" / name
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    changed = {"flipped": bytes(content), "cut": bytes(content[:50]), "empty": b""}
    file.unlink()
    if how != "gone":
        file.write_bytes(changed[how])
    with pytest.raises(SystemExit) as stop:
        shots.load("rl", p)
    error = capsys.readouterr().err
    assert stop.value.code == 2 and "rl-0 is broken" in error and error.count("\n") == 1


@pytest.mark.parametrize("wrong", [
    {"update": "x"}, {"update": True}, {"update": -5}, {"version": None}, {"seconds": "x"},
    {"best": [1]}, {"running": {"kl": "x"}}, {"done": True},
], ids=str)  # fmt: skip
def test_numbers_that_mean_nothing_are_refused_though_their_checksum_is_right(
    wrong, tmp_path, capsys
):
    p = policy()
    one_update(p)
    shots = Snapshots(tmp_path, 0, {})
    numbers = {"update": 1, "version": 1, "skipped": 0, "seconds": 1.0} | wrong
    shots._write("rl", {"model": p.parameters, "optimizer": {}}, numbers, [])
    with pytest.raises(SystemExit):
        shots.state("rl")
    assert "is broken" in capsys.readouterr().err


def test_weights_that_are_not_finite_are_not_taken_from_a_snapshot(tmp_path, capsys, monkeypatch):
    p = policy()
    one_update(p)
    shots = Snapshots(tmp_path, 0, {})
    with monkeypatch.context() as patch:
        patch.setattr(snapshots, "require_finite", lambda weights: None)
        with torch.no_grad():
            p.critic[0] = float("nan")
        shots.save("rl", p, {}, 1)
    with pytest.raises(SystemExit):
        shots.load("rl", p)
    assert "is broken (critic is no longer finite" in capsys.readouterr().err


def test_tensors_of_another_model_are_refused(tmp_path, capsys, monkeypatch):
    p = policy()
    one_update(p)
    shots = Snapshots(tmp_path, 0, {})
    wrong = {name: torch.zeros(*x.shape, 2) for name, x in p.parameters.items()}
    for patched in ("parameters", "moments"):
        with monkeypatch.context() as patch:
            if patched == "moments":
                patch.setattr(snapshots, "moments", lambda p: {"0.exp_avg": torch.zeros(3)})
                shots.save("rl", p, {}, 1)
            else:
                shots._write("rl", {"model": wrong, "optimizer": {}}, {"update": 1}, [])
        with pytest.raises(SystemExit):
            shots.load("rl", p)
        assert "of another model" in capsys.readouterr().err


def test_a_kill_between_two_renames_leaves_the_old_snapshot(tmp_path, monkeypatch):
    p = policy()
    shots = Snapshots(tmp_path, 0, {})
    shots.save("rl", p, {}, 1)
    rename, done = Path.rename, []

    def killed(self, target):
        if done:
            raise KeyboardInterrupt
        done.append(rename(self, target))

    monkeypatch.setattr(Path, "rename", killed)
    with pytest.raises(KeyboardInterrupt):
        shots.save("rl", p, {}, 2)
    monkeypatch.undo()
    assert shots.state("rl")["update"] == 1
    shots.save("rl", p, {}, 3)
    assert shots.state("rl")["update"] == 3 and [x.name for x in tmp_path.iterdir()] == ["rl-0"]


def test_nothing_is_unpickled(tmp_path, capsys):
    for file in [*ROOT.glob("minprm/**/*.py"), *ROOT.glob("*.py")]:
        for node in ast.walk(ast.parse(file.read_text())):
            text = ast.unparse(node) if isinstance(node, ast.Call | ast.Import) else ""
            assert not text.startswith(("torch.load(", "pickle.", "import pickle")), file
    (tmp_path / "rl-0.pt").write_bytes(b"cos\nsystem\n(S'touch hit'\ntR.")
    with pytest.raises(SystemExit):
        Snapshots(tmp_path, 0, {}).state("rl")
    assert "rl-0.pt" in capsys.readouterr().err and not Path("hit").exists()


def test_a_model_that_is_a_pickle_is_refused(tmp_path, capsys):
    base = tiny.raised(Cups(), Tiny(updates=1, dim=32), 0, 4096, tmp_path / "raised")
    base.save(tmp_path / "m")
    torch.save(base.model.state_dict(), tmp_path / "m" / "pytorch_model.bin")
    (tmp_path / "m" / "model.safetensors").unlink()
    with pytest.raises(SystemExit):
        load_model(str(tmp_path / "m"))
    assert "no model that transformers loads" in capsys.readouterr().err


@pytest.mark.parametrize("flag", [
    "--temperature 0.5", *[pytest.param(flag, marks=pytest.mark.slow) for flag in (
        "--act-prm.updates 3", "--seeds 1", "--world-args rounds=1 swaps=2",
        "--thought-tokens 16", "--num-demos 9", "--tiny.batch 9", "--relabel.group 2",
    )],
])  # fmt: skip
@pytest.mark.slow
def test_a_snapshot_of_another_configuration_is_not_taken_over(flag, here, capsys):
    stages = Path("checkpoints/whole/stages")
    shutil.copytree(stages, "checkpoints/other/stages")
    if flag == "--seeds 1":
        for file in Path("checkpoints/other/stages").iterdir():
            file.rename(file.with_name(file.name.replace("-0", "-1")))
    assert "is of an earlier run" in refused(capsys, "other", *but(flag))
    # and where the command cannot know, the stage itself does
    knobs = train.parse([*but(flag), "--run", "other"])
    started = ladder.start(knobs, knobs.seeds[0], Log(Path("runs/other")), Path("checkpoints"))
    with pytest.raises(SystemExit) as stop:
        ladder.run_stage(started, "act_prm")
    error = capsys.readouterr().err.splitlines()[-1]
    assert stop.value.code == 2 and "was made by another run: it differs in" in error


@pytest.mark.slow
def test_a_row_that_began_with_another_base_is_not_compared_with_new_ones(here, capsys):
    path = Path("runs/whole/ladder.json")
    rows = json.loads(path.read_text())
    rows["act_prm"][0]["made_by"] = "another"
    path.write_text(json.dumps({"act_prm": rows["act_prm"]}))  # random and expert are missing
    assert "began with another" in refused(capsys, "whole", "--resume")
    rows["act_prm"][0].pop("made_by")
    path.write_text(json.dumps({"act_prm": rows["act_prm"]}))
    assert run("whole", "--resume").keys() == {"act_prm", "random", "expert"}


@pytest.mark.slow
def test_the_same_configuration_takes_its_snapshots_over(here):
    expected = json.loads(Path("runs/whole/ladder.json").read_text())["act_prm"]
    Path("runs/whole/ladder.json").unlink()
    before = Path("runs/whole/metrics.jsonl").read_text()
    assert run("whole", "--resume")["act_prm"] == [{**row, "seconds": 0} for row in expected]
    assert Path("runs/whole/metrics.jsonl").read_text() == before  # nothing was trained again


@pytest.mark.slow
def test_a_resumed_run_reads_each_file_once_and_keeps_nothing_of_it(here, monkeypatch):
    shutil.rmtree("checkpoints/whole/stages/act_prm+relabel-0")
    shutil.rmtree("checkpoints/whole/stages/act_prm+relabel+sft-thoughts-0")
    knobs = train.parse([*FLAGS, "--run", "whole"])
    begun = ladder.start(knobs, 0, Log(Path("runs/whole")), Path("checkpoints"))
    p = begun.agent.policy
    one_update(p)
    shutil.rmtree("checkpoints/whole/stages/act_prm-0")
    begun.snapshots.save("act_prm", p, {}, 2, running={"baseline": 0.0, "kl": 0.0}, seconds=1.0)
    read, load = [], snapshots.load_file

    def load_file(path):
        found = load(path)
        read.extend((Path(path).name, weakref.ref(tensor)) for tensor in found.values())
        return found

    monkeypatch.setattr(snapshots, "load_file", load_file)
    kept = []
    judge = Progress.judge
    monkeypatch.setattr(
        Progress, "judge", lambda *a: kept.extend(r for _, r in read if r()) or judge(*a)
    )
    ladder.run_stage(begun, "act_prm")
    names = [name for name, _ in read]
    expected = len(p.parameters)
    assert names.count("model.safetensors") == expected and not kept
    assert names.count("optimizer.safetensors") <= 3 * expected


# --- refusals, names, folders ---


ACT_PRM = "--act-prm.updates --act-prm.batch --eval-every"
ASKED = f"--num-demos {ACT_PRM}"
EMBEDDED = "--no-gate --tiny.updates --tiny.dim"


@pytest.mark.parametrize(("flags", "without", "said"), [
    ("--context 10", "", "--context 10"),
    ("--stages sft:actions --action-tokens 64 --context 90", f"--arms --held-out {ACT_PRM}",
     "take 97 tokens or more"),
    ("--demos empty.jsonl", "--num-demos", "empty.jsonl: there is no log"),
    ("--demos none.jsonl", "--num-demos", "none.jsonl"),
    ("--model /nowhere/model", EMBEDDED, "/nowhere/model"),
    ("--model folder", EMBEDDED, "folder"),
    ("--layout tool", "", "invalid choice"),
    ("--demos bare.jsonl --arms expert_thoughts", ASKED, "no thought"),
    ("--demos bare.jsonl --stages sft:thoughts", f"--arms {ASKED}", "no thought"),
    ("--relabel.min-reward 2", "", "min-reward"),
    ("--gate", "--no-gate", "--tiny.updates"),
    ("--world nowhere", "", "nowhere"),
])  # fmt: skip
def test_a_refused_run_leaves_no_folder(flags, without, said, here, ungated, monkeypatch, capsys):
    monkeypatch.setattr("minprm.load.tiny.gate", ungated)
    Path("empty.jsonl").touch()
    Path("folder").mkdir()
    messages = [{"role": "user", "content": "ball under a ."}]
    messages.append({"role": "assistant", "content": "open a"})
    Path("bare.jsonl").write_text(json.dumps({"messages": messages}) + "\n")
    before = sorted(Path("checkpoints").glob("[!.t]*"))
    assert said in refused(capsys, "new", *but(flags, without))
    assert not Path("runs/new").exists()
    assert sorted(Path("checkpoints").glob("[!.t]*")) == before  # but for the cache of base models


BAD = ["..", ".", "../x", "a/b", "x\0y", "x" * 300, "a b", "ä", "-x", ""]


@pytest.mark.parametrize("name", BAD[:-1])
def test_a_name_is_that_of_one_folder(name, here, capsys):
    for flags in (FLAGS, ["--resume"]):
        with pytest.raises(SystemExit) as stop:
            train.main([f"--run={name}", *flags])
        error = capsys.readouterr().err
        assert stop.value.code == 2 and error.count("\n") == 1 and len(error) < 200
    assert sorted(x.name for x in Path("runs").iterdir()) == ["whole"]


def test_a_run_is_named_by_its_folder_and_a_new_one_by_its_world(here):
    path = Path("runs/whole/config.json")
    knobs = json.loads(path.read_text())
    path.write_text(json.dumps({**knobs, "run": "../../outside"}))
    resumed = train.resumed(Config(run="whole", resume=True), ["--run", "whole", "--resume"])
    assert resumed.run == "whole"
    Path("runs/whole").rename("runs/moved")
    assert train.resumed(Config(resume=True), ["--resume"]).run == "moved"
    assert train.with_new_name(Config(world="guess")).run.startswith("guess-")
    assert train.with_new_name(Config(world="")).run.startswith("logs-")
    assert train.with_new_name(Config(preset="smoke")).run.startswith("smoke-")


@pytest.mark.parametrize("name", ["runs", "checkpoints"])
def test_a_link_to_a_folder_that_is_not_there_is_named(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path(name).symlink_to("disk")
    with pytest.raises(SystemExit):
        train.with_new_name(Config())
    told = f"{name} is a link to disk, which is not there: make that folder\n"
    assert capsys.readouterr().err == told
    Path("disk").mkdir()
    assert train.with_new_name(Config()).run


@pytest.mark.slow
def test_config_json_gives_back_every_knob(here):
    Path("knobs.toml").write_text("[sft]\nlr = 0.1\n")
    written = train.parse(but("--config knobs.toml --optim.decay linear --act-prm.kl 1e-7"))
    Path("knobs.toml").unlink()  # it has been read
    for i, cfg in enumerate([written, *[preset for preset in PRESETS.values() if preset.world]]):
        log = Log(Path(f"runs/k{i}"))
        log.open(cfg)
        log.close()
        again = train.resumed(Config(run=f"k{i}", resume=True), ["--run", f"k{i}", "--resume"])
        assert again == replace(cfg, run=f"k{i}", resume=True)


def broken(name: str, text: str, how: str) -> bytes:
    """What a broken file of that name holds, if this is the whole one."""
    changed = {"cut": text[: len(text) // 2], "empty": "", "list": "[]", "deep": "[" * 100_000,
               "foreign": '{"a": [{"b": 1}]}', "binary": "\udcff\udcfe"}  # fmt: skip
    if name == "config.json":
        knobs = json.loads(text)
        changed["newer"] = json.dumps({**knobs, "sft": {**knobs["sft"], "soon": 1}})
        del knobs["rl"]["lam"]
        changed["older"] = json.dumps(knobs)
        changed["type"] = text.replace('"episodes": 5', '"episodes": "five"')
        changed["range"] = text.replace('"episodes": 5', '"episodes": -5')
    return changed[how].encode("utf-8", "surrogateescape")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "ways"), [
    ("config.json", "cut empty list deep foreign binary newer older type range"),
    ("ladder.json", "cut empty list deep foreign binary"),
    ("metrics.jsonl", "list deep foreign binary"),
])  # fmt: skip
def test_broken_files_of_a_run_end_in_a_sentence(name, ways, here, capsys):
    path = Path("runs/whole", name)
    kept = path.read_text()
    if name == "metrics.jsonl":  # it is read when a stage goes on
        shutil.rmtree("checkpoints/whole/stages")
        Path("runs/whole/ladder.json").unlink()
    for how in ways.split():
        path.write_bytes(broken(name, kept, how) + b"\n")
        error = refused(capsys, "whole", "--resume")
        assert name in error or how in ("type", "range"), (how, error)
    path.write_text(kept)
    run("whole", "--resume")


@pytest.mark.slow
def test_the_lock_of_a_run_is_released_by_death(tmp_path, capsys):
    code = "import sys, time; from minprm.look.log import locked; from pathlib import Path; "
    code += "held = locked(Path('lock')); print('held', flush=True); time.sleep(60)"
    other = subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    other.stdout.readline()
    with pytest.raises(SystemExit) as stop:
        locked(tmp_path / "lock")
    error = capsys.readouterr().err
    assert stop.value.code == 2 and f"process {other.pid}" in error and error.count("\n") == 1
    other.kill()
    other.wait()
    locked(tmp_path / "lock").release()


def test_a_lock_that_is_held_for_a_moment_is_waited_for(tmp_path):
    """`minprm report` tries the lock of each run that it lists."""
    path = tmp_path / "lock"
    is_held = threading.Event()

    def hold() -> None:
        with FileLock(path):
            is_held.set()
            time.sleep(0.2)

    other = threading.Thread(target=hold)
    other.start()
    is_held.wait()
    locked(path).release()
    other.join()


def test_a_second_resume_is_refused_while_the_first_one_runs(here, capsys):
    first = locked(Path("runs/whole/lock"))
    before = Path("runs/whole/ladder.json").stat().st_mtime_ns
    assert f"process {os.getpid()}" in refused(capsys, "whole", "--resume")
    first.release()
    run("whole", "--resume")
    assert Path("runs/whole/ladder.json").stat().st_mtime_ns == before


def test_two_processes_that_raise_one_base_model_share_it(tmp_path, monkeypatch):
    small = Tiny(updates=1, dim=32)
    tiny.raised(Cups(), small, 0, 4096, tmp_path / "other")
    pretrain = tiny._pretrain

    def meanwhile(*args):
        pretrain(*args)
        shutil.copytree(tmp_path / "other", tmp_path / "mine")  # the other one is done first

    monkeypatch.setattr(tiny, "_pretrain", meanwhile)
    tiny.raised(Cups(), small, 0, 4096, tmp_path / "mine")
    assert len(list((tmp_path / "mine").iterdir())) == 1


# --- stopping and going on ---


def ctrl_c(*_, **__):
    os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.slow
@pytest.mark.parametrize("where", ["base", "evaluate", "reference_rows", "relabel"])
def test_ctrl_c_is_obeyed_outside_of_training_too(where, tmp_path, monkeypatch):
    """In seed 0's last evaluation, its reference rows, or while seed 1's base is raised."""
    monkeypatch.chdir(tmp_path)
    evaluated = []
    evaluate = ladder.evaluate

    def counted(*args):
        evaluated.append(args)
        return evaluate(*args)

    monkeypatch.setattr(ladder, "evaluate", counted)
    with monkeypatch.context() as patch:
        if where == "base":
            pretrain = tiny._pretrain
            patch.setattr(
                tiny, "_pretrain",
                lambda p, world, cfg, seed: ctrl_c() if seed else pretrain(p, world, cfg, seed),
            )  # fmt: skip
        elif where == "relabel":
            patch.setitem(ladder.STAGES, "relabel", ctrl_c)
        else:
            patch.setattr(ladder, where, ctrl_c)
        with pytest.raises(SystemExit) as stop:
            run("r", *FLAGS, "--seeds", "0", "1")
    assert stop.value.code == 130
    assert len(evaluated) == {"base": 1, "reference_rows": 1}.get(where, 0)
    assert "--run r --resume" in Path("runs/r/log.txt").read_text()
    rows = run("r", "--resume")
    assert [len(many) for many in rows.values()] == [2, 2, 2]


def test_ctrl_c_before_anything_was_trained_leaves_no_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tiny, "_pretrain", ctrl_c)
    with pytest.raises(SystemExit) as stop:
        run("r", *FLAGS)
    assert stop.value.code == 130 and "before anything was trained" in capsys.readouterr().err
    assert not Path("runs").exists() and not list(tmp_path.glob("checkpoints/*"))


@pytest.mark.slow
def test_after_any_number_of_stops_patience_ends_at_the_same_update(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    flags = "--stages act_prm --act-prm.patience 2 --act-prm.updates 30 --act-prm.lr 0.03"
    flags = but(flags, without="--arms --thought-tokens")
    expected = run("whole", *flags)
    assert 2 < len(metrics("whole")) < 30
    update = Log.metrics

    def stopped(self, *args):
        update(self, *args)
        ctrl_c()

    starts = 0
    with monkeypatch.context() as patch:
        patch.setattr(Log, "metrics", stopped)  # at every single update
        while True:
            try:
                starts += 1
                rows = run("stopped", *(["--resume"] if starts > 1 else flags))
                break
            except SystemExit as stop:
                assert stop.code == 130
    assert starts == len(metrics("whole")) + 1
    assert rows == expected and metrics("stopped") == metrics("whole")
    # killed before anything of the last update was saved
    starts = 0
    with monkeypatch.context() as patch:
        patch.setattr(Snapshots, "save", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run("killed", *flags)
    assert run("killed", "--resume") == expected and metrics("killed") == metrics("whole")


def points(folder: Path) -> dict[str, list[int]]:
    """The steps of each curve."""
    curves = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    curves.Reload()
    return {tag: [e.step for e in curves.Scalars(tag)] for tag in curves.Tags()["scalars"]}


def test_tensorboard_has_each_point_once_after_a_kill(tmp_path):
    folder = tmp_path / "run"
    for begins in (0, 2):
        log = Log(folder)
        log.open(Config(resume=True))
        for stage, first in (("act_prm+sft:thoughts", 0), ("rl", begins)):
            log.rewind(0, stage, first)
            for update in range(first, 4):
                log.metrics(0, stage, update, {"loss": float(begins)})
        shutil.copytree(folder, tmp_path / str(begins))  # what kill -9 would leave
        log.close()
        shutil.rmtree(folder)
        shutil.copytree(tmp_path / str(begins), folder)
    assert points(folder / "tensorboard/stages-0/1-rl") == {"loss": [0, 1, 2, 3]}
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    assert [line["update"] for line in lines if line["stage"] == "rl"] == [0, 1, 2, 3]


# --- what is not finite, full disks, encodings ---


def test_json_is_strict():
    assert json.loads(to_json({"a": [float("inf"), 1.5], "b": float("nan")})) == {
        "a": [None, 1.5], "b": None,
    }  # fmt: skip


@pytest.mark.parametrize("lr", [1e20, pytest.param(1e30, marks=pytest.mark.slow)])
def test_weights_that_are_not_finite_are_never_saved(lr, here, capsys):
    cfg = train.parse(but("--stages sft:actions", f"--arms --held-out {ACT_PRM}"))
    sft = replace(cfg.sft, lr=lr, batch=8, epochs=2)
    log = Log(Path("runs/huge"))
    with pytest.raises(SystemExit) as stop:
        ladder.ladder(
            replace(cfg, run="huge", sft=sft, optim=Optim(warmup=0)), log, Path("checkpoints")
        )
    log.close()
    error = capsys.readouterr().err.splitlines()[-1]
    assert stop.value.code == 2 and "sft:actions, seed 0:" in error and "lower --sft.lr" in error
    assert not list(Path("checkpoints/huge").rglob("*.safetensors"))
    for line in Path("runs/huge/metrics.jsonl").read_text().splitlines():
        json.loads(line, parse_constant=lambda name: pytest.fail(name))


def test_a_running_mean_that_is_not_finite_is_never_saved(tmp_path):
    shots = Snapshots(tmp_path, 0, {})
    with pytest.raises(FloatingPointError, match="baseline"):
        shots.save("rl", policy(), {}, 1, running={"baseline": float("nan")})
    assert not list(tmp_path.iterdir())


def test_a_base_model_that_is_not_finite_is_not_kept(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tiny, "LR", 1e30)
    with pytest.raises(SystemExit):
        tiny.raised(Cups(), Tiny(updates=3, dim=32), 0, 4096, tmp_path)
    assert "try a larger --tiny.batch" in capsys.readouterr().err and not list(tmp_path.iterdir())


def test_a_raised_model_whose_files_are_broken_ends_in_a_sentence(tmp_path, capsys):
    cfg = Tiny(updates=1, dim=32)
    tiny.raised(Cups(), cfg, 0, 4096, tmp_path)
    (path,) = tmp_path.iterdir()
    (path / "tokenizer.json").write_text("{")
    with pytest.raises(SystemExit):
        tiny.raised(Cups(), cfg, 0, 4096, tmp_path)
    assert f"{path} is no model that transformers loads" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("size", [3_000, 30_000])
def test_a_full_disk_ends_in_a_sentence_and_the_run_goes_on_alike(size, here, capsys):
    expected = run("whole", "--resume"), metrics("whole")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        error = refused(capsys, "full", *FLAGS)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "File too large" in error and "nothing is half written" in error
    assert not [x for x in Path(".").rglob(".*") if x.is_dir()]
    again = ["--resume"] if Path("runs/full/config.json").exists() else FLAGS
    assert (run("full", *again), metrics("full")) == expected


@pytest.mark.slow
def test_a_folder_that_cannot_be_made_ends_in_a_sentence(here, capsys):
    Path("runs").rename("kept")
    Path("runs").touch()
    assert "runs" in refused(capsys, "new", *FLAGS)


def test_every_file_is_opened_with_an_encoding():
    for file in ROOT.glob("minprm/**/*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func).split(".")[-1]
            binary = any("b" in str(getattr(x, "value", "")) for x in node.args[1:2])
            if called in ("open", "read_text", "write_text", "fdopen") and not binary:
                keys = {keyword.arg for keyword in node.keywords}
                own = ast.unparse(node.func) in ("log.open",)  # a run's folder, not a file
                assert own or "encoding" in keys, f"{file}:{node.lineno}"


def test_without_a_world_the_score_reads_other_tasks_than_early_stopping(capsys):
    logs = [from_chat({**LOG, "task": f"t{i // 2}"}) for i in range(20)]
    cfg = Config(world="", held_out=5)
    parts = [[demo.task for demo in part] for part in sides.split(logs, cfg)]
    assert parts == [["t0", "t0", "t1", "t1", "t2", "t2", "t3", "t3", "t4", "t4"],
                     ["t5", "t5", "t6", "t6", "t7", "t7"], ["t8", "t8", "t9", "t9"]]  # fmt: skip
    assert sides.split(logs, replace(cfg, world="cups"))[2] == []
    with pytest.raises(SystemExit):
        sides.split(logs[:4], cfg)
    assert "--held-out" in capsys.readouterr().err
