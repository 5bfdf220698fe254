"""A checkpoint knows what it was trained for, and is evaluated so unless a flag says otherwise."""

import json
import shutil
from dataclasses import asdict, fields
from pathlib import Path

import pytest

from minprm.arms.about import ASKED, EXAMPLES, FILE, about, file_of, read_about, write_about
from minprm.commands import ask, evaluate, playing, train
from minprm.commands.cli import given_knobs, read_flags
from minprm.constants import Config, History
from minprm.logs.reader import read_demos, write_demos
from minprm.play import expert_demos
from minprm.text.instruction import Instruction
from shared.commands import TRAINED, WORLD, checkpoint, refusal
from shared.policies import policy


def asked(*argv: str) -> dict[str, ask.Evaluation]:
    flags = read_flags(ask.Evaluation, list(argv), ask.PROGRAM)
    return ask.as_trained(flags, list(argv), given_knobs(list(argv)))


def told(flags: ask.Evaluation) -> dict:
    return {name: asdict(flags)[name] for name in ASKED}


def test_each_knob_of_the_file_is_one_of_training_and_a_flag_of_evaluate():
    for schema in (Config, ask.Evaluation):
        assert {*ASKED} <= {field.name for field in fields(schema)}


def test_the_file_holds_what_was_trained_and_nothing_of_where(tmp_path):
    demos = expert_demos(TRAINED, "train", seed=0, n=3)
    cfg = Config(**{**asdict(TRAINED), "demos": "/home/somebody/logs.jsonl", "history": History()})
    write_about(tmp_path, about(cfg, "rl", ["rl"], 3, Instruction(""), demos, demos[:2], demos[:1]))
    found = read_about(str(tmp_path))
    assert found["logs"] == {
        "file": "logs.jsonl", "learned": 3, "tasks": 3, "held_out": 2, "tested": 1,
        "secrets": 0
    }  # fmt: skip
    assert (found["arm"], found["stages"], found["seed"], found["run"]) == ("rl", ["rl"], 3, "r")
    assert found["base"] == "tiny" and found["knobs"] == {"lora": 4} and found["row"] == {}
    assert found["libraries"]["torch"] and "somebody" not in (tmp_path / FILE).read_text()


def test_the_examples_of_a_checkpoint_on_the_hub_are_fetched_with_its_file(tmp_path, monkeypatch):
    hub, here = tmp_path / "hub", tmp_path / "here"
    hub.mkdir()
    here.mkdir()
    description = about(TRAINED, "base", [], 0, Instruction(""), [], [], [])
    write_about(hub, {**description, "asked": description["asked"] | {"few_shot": EXAMPLES}})
    (hub / EXAMPLES).write_text("{}\n")

    def fetched(path: str, name: str, **_) -> str | None:
        """As transformers does it: what is asked for comes, and nothing else."""
        assert path == "me/mine"
        if (hub / name).exists():
            return str(shutil.copy(hub / name, here))

    monkeypatch.setattr("transformers.utils.hub.cached_file", fetched)
    shots = Path(read_about("me/mine")["asked"]["few_shot"])
    assert shots == here / EXAMPLES == file_of("me/mine", EXAMPLES) and shots.exists()


def test_a_checkpoint_is_asked_as_it_was_trained(tmp_path, capsys):
    path = checkpoint(tmp_path / "rl-3")
    flags = asked(path)[path]
    trained = {name: asdict(TRAINED)[name] for name in ASKED}
    assert told(flags) == trained | {"instruction": "none"}  # what `about` was given
    assert ask.configured(path, flags).history == History(last=2)
    assert capsys.readouterr().err == ""


def test_a_flag_goes_before_the_file_and_is_told(tmp_path, capsys):
    path = checkpoint(tmp_path / "rl-3")
    flags = asked(path, "--context", "200", "--think", "--history.last", "2")[path]
    assert (flags.context, flags.think, flags.history.last) == (200, True, 2)
    said = capsys.readouterr().err.splitlines()
    assert said == [
        f"{path} was trained with --no-think, not --think",
        f"{path} was trained with --context 300, not --context 200",
    ]


def test_another_world_takes_none_of_the_files_arguments(tmp_path, capsys):
    path = checkpoint(tmp_path / "rl-3")
    assert asked(path, "--world", "errand")[path].world_args == []
    assert "--world cups, not --world errand" in capsys.readouterr().err


def test_a_model_without_the_file_is_asked_as_ever_and_beside_another_like_that_one(
    tmp_path, capsys
):
    (tmp_path / "plain").mkdir()
    plain, path = str(tmp_path / "plain"), checkpoint(tmp_path / "rl-3")
    assert asked(plain)[plain] == ask.Evaluation([plain])
    both = asked(plain, path)
    assert told(both[plain]) == told(both[path]) | {"instruction": "auto"}
    assert f"{plain} has no minprm.json: it is asked as {path}" in capsys.readouterr().err


def test_checkpoints_keep_knobs_of_their_own_in_one_world(tmp_path, capsys):
    path = checkpoint(tmp_path / "rl-3")
    longer = checkpoint(tmp_path / "b", Config(world_args=WORLD, context=999, run="b"))
    other = checkpoint(tmp_path / "c", Config(world="errand", run="c"))
    found = asked(path, longer)
    assert (found[path].context, found[longer].context) == (300, 999)
    error = refusal(evaluate.main, [path, other], capsys)
    assert "different worlds" in error and "--world" in error
    found = asked(path, other, "--world", "cups", "--world-args", *WORLD)
    assert found[path].world_args == found[other].world_args == WORLD


@pytest.mark.parametrize(("flags", "said"), [
    ("", "--demos"),
    ("--demos logs.jsonl --split test", "--split has no effect"),
    ("--history.first 2", "--history.first is gone"),
    ("--demos nowhere.jsonl", "no such file or folder; name one that holds logs"),
])  # fmt: skip
def test_a_checkpoint_of_logs_alone_needs_logs_or_a_world(
    flags, said, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    path = checkpoint(tmp_path / "a", Config(world="", run="a"))
    assert said in refusal(evaluate.main, [path, *flags.split()], capsys)


@pytest.mark.parametrize(("knob", "value", "said"), [
    ("context", 0, "--context 0"), ("context", "9", "context is '9'"),
    ("layout", "round", "--layout"), ("heat", 1, "differs in heat"),
])  # fmt: skip
def test_a_file_that_was_changed_by_hand_is_checked(knob, value, said, tmp_path, capsys):
    path = checkpoint(tmp_path / "rl-3")
    file = tmp_path / "rl-3" / FILE
    found = json.loads(file.read_text())
    found["asked"][knob] = value
    file.write_text(json.dumps(found))
    assert said in refusal(evaluate.main, [path], capsys)


def test_a_file_that_counts_what_stays_of_a_history_is_read_if_that_was_one(tmp_path, capsys):
    path = checkpoint(tmp_path / "rl-3")
    file = tmp_path / "rl-3" / FILE
    now = read_about(path)
    for first in (1, 2):
        now["asked"]["history"]["first"] = first
        file.write_text(json.dumps(now))
        if first == 1:
            assert "first" not in read_about(path)["asked"]["history"]
        else:
            assert "history.first is 2" in refusal(read_about, path, capsys)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 2}', '{"version": NaN}'])
def test_a_broken_file_is_named(text, tmp_path, capsys):
    (tmp_path / FILE).write_text(text)
    assert FILE in refusal(read_about, str(tmp_path), capsys)


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """The folder of a run whose model sees short histories."""
    folder = tmp_path_factory.mktemp("trained")
    policy().save(folder / "base")
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.chdir(folder)
        flags = "--model base --run r --world-args rounds=2 swaps=1 --arms base --episodes 6 "
        flags += "--thought-tokens 6 --history.last 1 --history.no-thoughts"
        train.main(flags.split())
    cfg = Config(world_args=["rounds=2", "swaps=1"])
    write_demos(expert_demos(cfg, "validation", seed=0, n=4), folder / "held.jsonl")
    return folder


def line_of(table: str, name: str) -> list[str]:
    return next(line.split() for line in table.splitlines() if line.startswith(name))


def test_evaluate_finds_the_ladders_numbers_without_a_flag(trained, monkeypatch, capsys):
    monkeypatch.chdir(trained)
    (row,) = json.loads(Path("runs/r/ladder.json").read_text())["base"]
    found = read_about("checkpoints/r/base-0")
    assert found["row"] == row and found["logs"]["learned"] == 128
    evaluate.main("checkpoints/r/base-0 --episodes 6 --transcripts all.jsonl".split())
    told = capsys.readouterr().out.split("\n\n")
    assert float(line_of(told[0], "base-0")[1]) == pytest.approx(row["success"], abs=6e-4)
    assert float(line_of(told[1], "base-0")[6]) == pytest.approx(row["thought_length"], abs=6e-4)
    assert line_of(told[0], "expert")[1] == "1.000"


def test_held_out_logs_are_replayed_with_the_history_that_was_trained(trained, monkeypatch, capsys):
    monkeypatch.chdir(trained)
    shown = []
    answer_logs = playing.answer_logs
    monkeypatch.setattr(
        playing,
        "answer_logs",
        lambda agent, *rest: shown.append(agent.history) or answer_logs(agent, *rest),
    )
    evaluate.main("checkpoints/r/base-0 base --demos held.jsonl".split())
    told, noted = capsys.readouterr()
    assert shown == [History(thoughts=False, last=1)] * 2
    assert "base has no minprm.json" in noted
    # the arm `base` trains nothing, so both are one model
    assert line_of(told, "base-0")[1:6] == line_of(told, "base ")[1:6]
    assert "p(a | s, z)" in told and "random" not in told


def test_each_step_of_a_log_is_written_beside_the_expert_and_what_cannot_be_read_is_counted(
    trained, monkeypatch, capsys
):
    monkeypatch.chdir(trained)
    evaluate.main("checkpoints/r/base-0 base --demos held.jsonl --transcripts steps.jsonl".split())
    head, row, _ = capsys.readouterr().out.splitlines()
    lines = [json.loads(line) for line in Path("steps.jsonl").read_text().splitlines()]
    demos, _ = read_demos("held.jsonl")
    steps = []
    for log, demo in enumerate(demos):
        steps += [(log, step.state, step.action) for step in demo.steps]
    told = [(line["log"], line["state"], line["expert"]) for line in lines]
    assert told == steps * 2
    assert {line["task"] for line in lines} == {demo.task for demo in demos}
    mine = [line for line in lines if line["checkpoint"] == "checkpoints/r/base-0"]
    lost = [line for line in mine if "unreadable" in line]
    assert lost and all(line["unreadable"] and not line["action"] for line in lost)
    assert all(line["action"] for line in mine if line not in lost)
    column = head.index("unreadable") + len("unreadable")
    assert float(row[:column].split()[-1]) == pytest.approx(len(lost) / len(mine), abs=6e-4)


def test_training_on_tells_what_differs_from_the_checkpoint(trained, monkeypatch, capsys):
    monkeypatch.chdir(trained)
    flags = "--model checkpoints/r/base-0 --run on --world-args rounds=1 swaps=1 --arms base "
    train.main(f"{flags} --episodes 2 --history.last 1 --history.no-thoughts".split())
    said = capsys.readouterr().err
    assert "was trained with --thought-tokens 6, and goes on with --thought-tokens 32" in said
    assert "--history" not in said


def test_bad_logs_are_left_out_of_the_replay_where_that_is_asked_for(tmp_path):
    flags = ask.Evaluation([str(tmp_path)], demos="logs.jsonl", skip_bad=True)
    cfg = ask.configured(str(tmp_path), flags)
    assert cfg.skip_bad and cfg.demos == "logs.jsonl" and cfg.model == str(tmp_path)
