"""What `minprm export` says of vLLM is so: its parsers read what templates write, and it serves."""

import json
import os
import re
import shlex
from pathlib import Path

import pytest

from minprm.arms.about import read_about, write_about
from minprm.commands import evaluate, export, playing, train
from minprm.commands.serving import ANY_REASONING, REASONING_PARSERS, TOOL_PARSERS, tool_parser
from shared.chats import TEMPLATES, TOOLS, bytes_with, one_call, random_qwen3, tokenizer
from shared.serving import FAST, asked

os.environ |= FAST
pytest.importorskip("vllm", reason='needs vllm: pip install "minprm[vllm]"')
pytest.importorskip("peft", reason='needs peft: pip install "minprm[lora]"')
SHIPPED = ("qwen2_5", "qwen3", "qwen3_5_think", "llama3_1")


def words_of(template: str):
    """A tokenizer with this template, and all that looks like a control token in it."""
    marks = re.findall(r"<\|?[｜\w/▁]+\|?>|\[[A-Z_]+\]", template)
    known = {"<think>", "</think>", "<|end|>", "<|tool_call>", "<tool_call|>", '<|"|>'}
    return bytes_with(sorted(known | {*marks}), "<|end|>", template)


@pytest.mark.parametrize("name", SHIPPED)
def test_the_parser_that_is_named_reads_the_call_that_the_template_writes(name):
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
    from vllm.tool_parsers import ToolParserManager

    words = words_of((TEMPLATES / f"{name}.jinja").read_text())
    user = {"role": "user", "content": "go on"}
    asked = ChatCompletionRequest(model="m", messages=[user], tools=TOOLS)
    function = {"name": "visit", "arguments": {"title": "Paris"}}
    call = {"id": "a1b2c3d4e", "type": "function", "function": function}
    messages = [user, {"role": "assistant", "content": "", "tool_calls": [call]}]
    text = words.apply_chat_template(messages, tools=TOOLS, tokenize=False)
    reader = ToolParserManager.get_tool_parser(tool_parser(words))(words, asked.tools)
    (read,) = reader.extract_tool_calls(text.rpartition("go on")[2], asked).tool_calls
    assert read.function.name == "visit"
    assert json.loads(read.function.arguments) == {"title": "Paris"}


def test_every_parser_that_may_be_named_exists():
    from vllm.reasoning import ReasoningParserManager
    from vllm.tool_parsers import ToolParserManager

    for name in TOOL_PARSERS:
        ToolParserManager.get_tool_parser(name)
    for name in (*REASONING_PARSERS.values(), ANY_REASONING):
        ReasoningParserManager.get_reasoning_parser(name)


def test_where_a_turn_without_a_thought_arrives_is_as_the_card_says():
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
    from vllm.reasoning import ReasoningParserManager

    asked = ChatCompletionRequest(model="m", messages=[{"role": "user", "content": "x"}])
    call = '<tool_call>\n{"name": "visit", "arguments": {}}\n</tool_call>'
    read = {}
    for name in ("qwen3", ANY_REASONING):
        reader = ReasoningParserManager.get_reasoning_parser(name)(tokenizer("qwen3"))
        read[name] = [reader.extract_reasoning(text, asked) for text in ("an answer", call)]
        thought, rest = reader.extract_reasoning(f"<think>\nhm\n</think>\n\n{call}", asked)
        assert (thought.strip(), rest.strip()) == ("hm", call)
    assert read["qwen3"] == [("an answer", None), (None, call)]
    assert read[ANY_REASONING] == [("an answer", None), (call, None)]


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
    replay = playing.replay
    drawn = []

    def watched(agent, *rest):
        drawn.append(agent.sampler.generate([[*range(40, 60)]], 1, 12, [], 0.0, seed=0))
        drawn.append(type(agent.sampler).__name__)
        return replay(agent, *rest)

    monkeypatch.setattr(playing, "replay", watched)
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
    assert command[:2] == ["vllm", "serve"] and {"qwen3", "hermes"} <= {*command}
    model = out if flags else Path(out).name
    answer = asked(command[2:], model)
    assert answer["choices"][0]["message"]["role"] == "assistant"
