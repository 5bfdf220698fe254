"""The whole path, as the engineer with a folder of logs goes it: look, train, export, serve.

The logs are a few of examples/support. The model is a tiny random Qwen3 with the family's template.
"""

import json
import shlex
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from examples.support import make
from minprm.commands import evaluate, export, logs, train
from minprm.logs.reader import read_demos
from shared.chats import chat_model

pytestmark = [pytest.mark.slow, pytest.mark.extras]

trl = pytest.importorskip("trl", reason='needs trl: pip install ".[dev]"')
datasets = pytest.importorskip("datasets", reason="trl brings it")
pytest.importorskip("peft", reason='needs peft: pip install ".[lora]"')
SMALL = (
    "--preset logs --demos mine --run r --held-out 4 --arms base act_prm --lora 4 --threads 1 "
    "--thought-tokens 12 --action-tokens 48 --act-prm.updates 2 --act-prm.batch 2 "
    "--act-prm.group 2 --relabel.group 3 --relabel.min-gain -1 --sft.epochs 1 --model base"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Logs in `mine/`, held-out ones in held.jsonl, the model in `base/`, and what the run left."""
    folder = tmp_path_factory.mktemp("path")
    chat_model(folder / "base", often="</think>", odds=0.2, template="qwen3")
    lines = make.FILE.read_text(encoding="utf-8").splitlines(keepends=True)
    (folder / "mine").mkdir()
    (folder / "mine/june.jsonl").write_text("".join(lines[:6]))
    (folder / "mine/july.jsonl").write_text("".join(lines[6:12]))
    (folder / "held.jsonl").write_text("".join(lines[12:15]))
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.chdir(folder)
        train.main(SMALL.split())
        export.main("checkpoints/r/act_prm-0 out --merge --dtype fp32".split())
    torch.set_flush_denormal(False)
    return folder


def test_logs_are_looked_at_first(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    logs.main("mine --model base --held-out 4".split())
    told = capsys.readouterr().out
    assert "12 of 12 tasks, in 2 files" in told and "find_order" in told


def test_the_run_leaves_the_logs_with_thoughts_and_changes_nothing_else(folder):
    (file,) = (folder / "runs/r").glob("relabelled-*.jsonl")
    given, _ = read_demos(folder / "mine")
    known = {demo.task: demo for demo in given}
    demos, _ = read_demos(file)
    assert demos
    for demo in demos:
        before = known[demo.task]
        assert [step.action for step in demo.steps] == [step.action for step in before.steps]
        said = [m["content"] for m in demo.messages if m["role"] == "assistant"]
        assert said == [m["content"] for m in before.messages if m["role"] == "assistant"]
    assert any(step.thought for demo in demos for step in demo.steps)
    assert any("find_order" in s.action and s.action[0] != "{" for d in demos for s in d.steps)


def test_trl_trains_on_what_the_run_has_left(folder, tmp_path):
    (file,) = (folder / "runs/r").glob("relabelled-*.jsonl")
    rows = [json.loads(row) for row in file.read_text(encoding="utf-8").splitlines()]
    args = trl.SFTConfig(
        output_dir=str(tmp_path), report_to="none", use_cpu=True, bf16=False, max_length=None,
        gradient_checkpointing=False, assistant_only_loss=True, max_steps=1,
        per_device_train_batch_size=1, save_strategy="no", disable_tqdm=True,
    )  # fmt: skip
    trainer = trl.SFTTrainer(
        str(folder / "base"),
        args=args,
        processing_class=AutoTokenizer.from_pretrained(folder / "base"),
        train_dataset=datasets.Dataset.from_list(rows[:2]),
    )
    assert trainer.train().training_loss > 0


def test_checkpoint_and_export_replay_held_out_logs(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    evaluate.main("checkpoints/r/act_prm-0 out --demos held.jsonl".split())
    table = capsys.readouterr().out
    assert [row.split()[0] for row in table.splitlines()[1:]] == ["act_prm-0", "out"], table


def test_the_export_is_a_model_by_itself(folder):
    out = folder / "out"
    model = AutoModelForCausalLM.from_pretrained(out)
    words = AutoTokenizer.from_pretrained(out)
    prompt = words.apply_chat_template(
        [{"role": "user", "content": "Where is my parcel P1?"}], tools=make.TOOLS,
        add_generation_prompt=True, return_tensors="pt", return_dict=True,
    )  # fmt: skip
    written = model.generate(**prompt, max_new_tokens=4, do_sample=False)
    assert written.shape[1] > prompt["input_ids"].shape[1]
    card = (out / "README.md").read_text(encoding="utf-8")
    assert "vllm serve" in card and str(folder) not in card


@pytest.mark.skipif(find_spec("vllm") is None, reason='needs vllm: pip install ".[vllm]"')
def test_the_engine_serves_it(folder, monkeypatch, capsys):
    from shared.serving import CHAPTER, asked

    monkeypatch.chdir(folder)
    export.main("checkpoints/r/act_prm-0 again --merge --dtype fp32".split())
    line = shlex.split(capsys.readouterr().out.splitlines()[0])
    answer = asked([*line[2:], *CHAPTER.split()], "again")
    assert answer["choices"][0]["message"]["role"] == "assistant"
