"""A person's own logs in, thoughts out: no world, any chat model, files that others read."""

import json
from pathlib import Path

import pytest

from minprm.commands.train import main
from minprm.logs.reader import read_demos, split_tasks, write_demos
from shared.chats import PAGES, line, tokenizer

trl = pytest.importorskip("trl", reason='needs trl: pip install ".[dev]"')
datasets = pytest.importorskip("datasets", reason="trl brings it")


@pytest.fixture(scope="module")
def run(model, tmp_path_factory) -> Path:
    """The command of docs/path.md, shortened."""
    folder = tmp_path_factory.mktemp("run")
    logs = folder / "my_logs.jsonl"
    logs.write_text("".join(json.dumps(line(p, "given")) + "\n" for p in PAGES))
    flags = f"--preset logs --demos {logs} --model {model} --run r --held-out 2 "
    flags += "--thought-tokens 16 --action-tokens 40 --act-prm.updates 2 --act-prm.group 3 "
    flags += "--relabel.group 2 --relabel.min-gain -1 --arms base act_prm --sft.epochs 1 "
    flags += "--threads 1 --lora 0"
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.chdir(folder)
        main(flags.split())
    return folder / "runs" / "r"


@pytest.mark.slow
def test_held_out_steps_are_replayed_with_every_number(run):
    rows = json.loads((run / "ladder.json").read_text())
    for arm in ("base", "act_prm"):
        (row,) = rows[arm]
        # of one task: the other one is for early stopping
        assert (row["logs"], row["steps"]) == (1, 2)
        for share in ("success", "likelihood", "thought_rate", "copy_rate"):
            assert 0.0 <= row[share] <= 1.0
        low, high = row["likelihood_interval"]
        assert 0.0 <= low <= row["likelihood"] <= high <= 1.0


@pytest.mark.slow
def test_a_run_without_a_world_goes_on_to_the_same_rows(run, monkeypatch):
    monkeypatch.chdir(run.parents[1])
    path = run / "ladder.json"
    rows = json.loads(path.read_text())
    path.write_text(json.dumps({"base": rows["base"]}))
    main(["--run", "r", "--resume"])
    assert json.loads(path.read_text()) == rows


@pytest.mark.slow
def test_relabelled_logs_are_the_same_logs_with_thoughts(run):
    (file,) = run.glob("relabelled-*.jsonl")
    demos, _ = read_demos(file)
    actions = [json.dumps({"name": "visit", "arguments": {"title": p}}) for p in PAGES[:4]]
    kept = [demo.steps[0].action for demo in demos]
    assert kept == [action for action in actions if action in kept] != []
    # a log in which a step has no thought with a word in it is left out
    thoughts = [step.thought for demo in demos for step in demo.steps]
    assert all(thoughts) and not any("given" in thought for thought in thoughts)
    for row in map(json.loads, file.read_text().splitlines()):
        for key in ("rewards", "rewards_without_thought"):  # one a step
            assert len(row[key]) == 2 and all(0 < number < 1 for number in row[key])


def test_a_split_is_by_task_and_never_by_step(tmp_path):
    (tmp_path / "logs.jsonl").write_text(
        "".join(json.dumps(line(p)) + "\n" for p in ["Paris", "Rome", "Paris", "Oslo"])
    )
    train, held = split_tasks(read_demos(tmp_path / "logs.jsonl")[0], 1)
    assert len(train) == 3 and len(held) == 1
    assert {d.task for d in train}.isdisjoint(d.task for d in held)


def test_logs_of_one_task_are_refused_before_anything_is_written(
    tmp_path, model, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    Path("logs.jsonl").write_text((json.dumps(line("Paris")) + "\n") * 3)
    with pytest.raises(SystemExit):
        main(f"--preset logs --demos logs.jsonl --model {model} --run r --held-out 2".split())
    assert "one task" in capsys.readouterr().err and not Path("runs").exists()


def test_trl_reads_relabelled_logs_and_learns_each_thought_and_action_once(tmp_path, model):
    (tmp_path / "logs.jsonl").write_text(json.dumps(line("Paris")) + "\n")
    (demo,), _ = read_demos(tmp_path / "logs.jsonl")
    thoughts = ["first look it up", "now say it"]
    numbers = {"rewards": [0.5, 0.75], "rewards_without_thought": [0.25, 0.5]}
    write_demos([demo.with_thoughts(thoughts)], tmp_path / "relabelled.jsonl", [numbers])
    rows = [json.loads(x) for x in (tmp_path / "relabelled.jsonl").read_text().splitlines()]
    words = tokenizer("qwen3")  # its template writes thoughts; that of Instruct-2507 has none
    args = trl.SFTConfig(output_dir=str(tmp_path / "out"), report_to="none", use_cpu=True,
                         assistant_only_loss=True, bf16=False, max_length=None,
                         gradient_checkpointing=False)  # fmt: skip
    trainer = trl.SFTTrainer(
        str(model),
        args=args,
        processing_class=words,
        train_dataset=datasets.Dataset.from_list(rows),
    )
    (batch,) = trainer.get_train_dataloader()
    labels = [i for i in batch["labels"][0].tolist() if i != -100]
    learned = words.decode(labels)
    for once in (*thoughts, '"name": "visit"', '"title": "Paris"', '"text": "Paris is big"'):
        assert learned.count(once) == 1, learned
    assert "how big" not in learned and "9 gates" not in learned


@pytest.mark.slow
def test_a_world_of_tools_is_trained_on_and_played_by_a_chat_model(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    flags = f"--world hotpot --world-args authors=2 --model {model} --run w --arms act_prm rl "
    flags += "--num-demos 4 --held-out 2 --episodes 3 --thought-tokens 6 --action-tokens 40 "
    flags += "--act-prm.updates 2 --act-prm.batch 2 --rl.updates 1 --rl.batch 2 --rl.group 2 "
    flags += "--sft.epochs 1 --threads 1 --act-prm.reward action_prob_mean"
    main(flags.split())
    rows = json.loads((tmp_path / "runs/w/ladder.json").read_text())
    assert rows["expert"][0]["success"] == 1.0 and rows["act_prm"][0]["turns"] == 8
    relabelled, _ = read_demos(tmp_path / "runs/w/relabelled-act_prm+relabel-0.jsonl")
    for demo in relabelled:
        names = [json.loads(step.action)["name"] for step in demo.steps]
        assert names == ["visit", "visit", "answer"]
        assert all(m["role"] == "tool" for m in demo.messages[3::2])
