"""What chapter 5 says of vLLM is so: its parsers read what Qwen3 writes, and it serves exports."""

import json
import os
import shlex
from pathlib import Path

import pytest

from minprm.arms.about import read_about, write_about
from minprm.commands import evaluate, export, playing, train
from shared.chats import TOOLS, one_call, random_qwen3, tokenizer
from shared.serving import CHAPTER, FAST, asked

os.environ |= FAST
pytest.importorskip("vllm", reason='needs vllm: pip install ".[vllm]"')
pytest.importorskip("peft", reason='needs peft: pip install ".[lora]"')


def test_the_parser_of_chapter_5_reads_the_call_that_the_template_writes():
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
    from vllm.tool_parsers import ToolParserManager

    words = tokenizer("qwen3")
    user = {"role": "user", "content": "go on"}
    asked = ChatCompletionRequest(model="m", messages=[user], tools=TOOLS)
    function = {"name": "visit", "arguments": {"title": "Paris"}}
    call = {"id": "a1b2c3d4e", "type": "function", "function": function}
    messages = [user, {"role": "assistant", "content": "", "tool_calls": [call]}]
    text = words.apply_chat_template(messages, tools=TOOLS, tokenize=False)
    reader = ToolParserManager.get_tool_parser("hermes")(words, asked.tools)
    (read,) = reader.extract_tool_calls(text.rpartition("go on")[2], asked).tool_calls
    assert read.function.name == "visit"
    assert json.loads(read.function.arguments) == {"title": "Paris"}


def test_where_a_turn_without_a_thought_arrives_is_as_chapter_5_says():
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
    from vllm.reasoning import ReasoningParserManager

    asked = ChatCompletionRequest(model="m", messages=[{"role": "user", "content": "x"}])
    call = '<tool_call>\n{"name": "visit", "arguments": {}}\n</tool_call>'
    reader = ReasoningParserManager.get_reasoning_parser("qwen3")(tokenizer("qwen3"))
    thought, rest = reader.extract_reasoning(f"<think>\nhm\n</think>\n\n{call}", asked)
    assert (thought.strip(), rest.strip()) == ("hm", call)
    assert reader.extract_reasoning("an answer", asked) == ("an answer", None)
    assert reader.extract_reasoning(call, asked) == (None, call)


# --- the whole way --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A run of adapters on logs, and its exports: merged, and as adapters."""
    folder = tmp_path_factory.mktemp("serve")
    words = tokenizer("qwen3")
    random_qwen3(words, width=64).save_pretrained(folder / "base")
    words.save_pretrained(folder / "base")
    (folder / "logs.jsonl").write_text("".join(json.dumps(one_call(i)) + "\n" for i in range(6)))
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.chdir(folder)
        flags = "--world= --demos logs.jsonl --model base --held-out 2 --thought-tokens 4 --run r "
        flags += (
            "--action-tokens 40 --layout think --arms action_sft --sft.epochs 2 --context 1024 "
        )
        flags += "--sft.lr .01 --optim.warmup 0 --lora 4 --sampler transformers"
        train.main(flags.split())
    arm = folder / "checkpoints/r/action_sft-0"
    about = read_about(str(arm))
    write_about(arm, about | {"row": about["row"] | {"thought_rate": 1.0}})  # as if it thought
    return folder


def test_adapters_are_evaluated_with_the_engine(folder, monkeypatch):
    monkeypatch.chdir(folder)
    answer_logs = playing.answer_logs
    drawn = []

    def watched(agent, *rest):
        drawn.append(agent.sampler.generate([[*range(40, 60)]], 1, 12, [], 0.0, seed=0))
        drawn.append(type(agent.sampler).__name__)
        return answer_logs(agent, *rest)

    monkeypatch.setattr(playing, "answer_logs", watched)
    for sampler in ("vllm", "transformers"):
        flags = f"checkpoints/r/action_sft-0 --demos logs.jsonl --sampler {sampler}"
        evaluate.main(flags.split())
    (((ours,),), mine), (((theirs,),), yours) = drawn[2:], drawn[:2]
    assert (mine, yours) == ("Sampler", "VLLM") and ours.ids == theirs.ids


@pytest.mark.parametrize("flags", [["--merge", "--dtype", "fp32"], []])
def test_an_export_is_served_by_the_line_that_is_printed(folder, flags, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    out = f"out-{len(flags)}"
    export.main(["checkpoints/r/action_sft-0", out, *flags])
    command = shlex.split(capsys.readouterr().out.splitlines()[0])
    assert command[:2] == ["vllm", "serve"]
    model = out if flags else Path(out).name
    answer = asked([*command[2:], *CHAPTER.split()], model)
    assert answer["choices"][0]["message"]["role"] == "assistant"
