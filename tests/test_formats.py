"""Logs as people have them: every wrapper, every other way to write a thing, and every refusal."""

import json
import random
import re
import zipfile
from collections import Counter
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from loguru import logger

from minprm.arms.demos import fitting_demos, logs_of, measured
from minprm.commands.logs import Logs, main
from minprm.commands.train import main as train
from minprm.constants import Config
from minprm.logs.books import Reading
from minprm.logs.reader import from_chat, read_demos, read_logs, to_chat, to_openai
from minprm.logs.schemas import schema
from minprm.model.agent import make_prompter
from minprm.text.actions import joined, parts
from minprm.text.chat import Chat
from shared.chats import TOOLS as VISIT
from shared.chats import line, tokenizer
from shared.logs import CALL, CALLS, TEXT, TOOLS, TURNS, changed, conversation, mixed

ROOT = Path(__file__).parents[1]
USER = {"role": "user", "content": "where is my parcel?"}
REPLY = {"role": "assistant", "content": "In the hall."}
GO = {"name": "go", "arguments": {"to": "hall"}}


def written(folder: Path, *logs, name: str = "logs.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(log) + "\n" for log in logs), encoding="utf-8")
    return path


def noted(log: dict) -> tuple[dict, dict[str, int]]:
    """(the log as it is read, what was counted)."""
    notes = Counter()
    demo = from_chat(log, notes=notes)
    return to_chat(demo), dict(notes)


def actions(demos) -> list[list[str]]:
    return [[step.action for step in demo.steps] for demo in demos]


def bare(log: dict) -> dict:
    return {key: log[key] for key in ("messages", "tools")}


# --- wrappers -------------------------------------------------------------------------------------


def sharegpt(log: dict) -> dict:
    """CALLS as ShareGPT has it."""
    speaker = {"system": "system", "user": "human", "tool": "observation"}
    turns = []
    for message in log["messages"]:
        value = message["content"]
        if message["role"] == "assistant":
            value = json.dumps(GO)
        turns.append({"from": speaker.get(message["role"], "function_call"), "value": value})
    return {"conversations": turns, "tools": json.dumps([t["function"] for t in TOOLS])}


def atif(log: dict) -> dict:
    """CALLS as ATIF has it, with the fields that Harbor writes beside."""
    call = {"tool_call_id": "c1", "function_name": "go", "arguments": {"to": "hall"}}
    agent = {"source": "agent", "message": "", "tool_calls": [call], "metrics": {"cost_usd": 1}}
    steps = [
        {"source": "system", "message": "rules"},
        {"source": "user", "message": [{"type": "text", "text": "find the key"}]},
    ]
    for seen in ("a hall", "the end"):
        result = {"source_call_id": "c1", "content": seen}
        steps.append(agent | {"observation": {"results": [result]}})
    steps[2]["reasoning_content"] = "the hall is near"
    numbered = [{"step_id": i, **step} for i, step in enumerate(steps, start=1)]
    tools = {"name": "terminus", "version": "2", "tool_definitions": TOOLS}
    return {"schema_version": "ATIF-v1.7", "session_id": "s", "agent": tools, "steps": numbered}


def batch(log: dict) -> dict:
    body = {"model": "gpt", **bare(log)}
    return {"custom_id": "1", "method": "POST", "url": "/v1/chat/completions", "body": body}


def answered(log: dict) -> dict:
    """A batch request that lacks the last answer, with the response that holds it."""
    wrapper = batch(log)
    wrapper["body"] = {**wrapper["body"], "messages": log["messages"][:-2]}
    choice = {"index": 0, "message": log["messages"][-2]}
    return {**wrapper, "response": {"status_code": 200, "body": {"choices": [choice]}}}


def preference(log: dict) -> dict:
    asked = {"messages": log["messages"][:-2], "tools": log["tools"]}
    worse = [{"role": "assistant", "content": "No."}]
    best = [log["messages"][-2]]
    return {"input": asked, "preferred_output": best, "non_preferred_output": worse}


@pytest.mark.parametrize(
    ("name", "log"),
    [
        ("chat", CALLS),
        ("chat", bare(CALLS) | {"parallel_tool_calls": False}),
        ("batch", batch(CALLS)),
        ("batch", answered(CALLS)),
        ("preference", preference(CALLS)),
        ("ShareGPT", sharegpt(CALLS)),
        ("ATIF", atif(CALLS)),
        ("chat", CALLS["messages"]),
        ("ShareGPT", sharegpt(CALLS)["conversations"]),
    ],
)
def test_every_wrapper_holds_the_same_steps(name, log, tmp_path):
    demos, report = read_demos(written(tmp_path, log))
    assert actions(demos) == actions([from_chat(CALLS)]) and report.formats == {name: 1}
    states = [[m["content"] for m in step.state] for step in demos[0].steps]
    assert states == [["rules", "find the key"], ["a hall"]]
    assert [tool["function"]["name"] for tool in demos[0].tools] == ["go"]
    assert demos[0].steps[0].thought == (None if name == "ShareGPT" else "the hall is near")


def test_what_a_wrapper_holds_beside_the_log_is_counted(read):
    for log, notes in [
        (batch(TEXT), {'"custom_id" of a log, left out': 1, '"model" of a log, left out': 1}),
        (
            {**preference(TEXT), "split": "a"},
            {
                '"split" of a log, left out': 1,
                "preference pairs, of which the preferred answer is read alone": 1,
            },
        ),
        ({**atif(CALLS), "session_url": "x"}, {'"session_url" of a log, left out': 1}),
    ]:
        _, report = read(log)
        assert notes.items() <= report.normalised.items()
        assert '"url" of a log, left out' not in report.normalised


def test_parallel_calls_and_rules_of_sharegpt(read):
    turns = [{"from": "human", "value": "go"}, {"from": "function_call", "value": None}]
    turns[1]["value"] = json.dumps([GO, GO])
    (demo,), report = read({"conversations": turns, "system": "be brief", "id": "7"})
    assert report.normalised['"id" of a log, left out'] == 1
    assert demo.steps[0].action == joined("", [GO, GO])
    assert demo.steps[0].state[0] == {"role": "system", "content": "be brief"}


@pytest.mark.parametrize(
    ("log", "said"),
    [
        ({"text": "a", "label": "b"}, 'no log, but an object with "text", "label"'),
        (5, "no log, but 5"),
        ([], "no log, but []"),
        ({"response": {"body": {"choices": [{"message": REPLY}]}}}, "without its request"),
        ({**batch(TEXT), "response": {"error": 1}}, "holds no answer"),
        ({"input": {}, "preferred_output": [REPLY]}, "preference pair"),
        ({"conversations": ["hi"]}, "message 0: it is no object"),
        ({"conversations": [{"from": "bing", "value": "x"}]}, 'message 0: its "from" is none'),
        ({"conversations": [{"from": "function_call", "value": "go()"}]}, "message 0: its funct"),
        ({"conversations": [{"from": "function_call", "value": "[5]"}]}, "message 0: its funct"),
        ({"steps": []}, "no schema_version ATIF-v1"),
        ({**atif(CALLS), "schema_version": "ATIF-v2.0"}, "ATIF-v2.0"),
        ({**atif(CALLS), "steps": [{"source": "human", "message": ""}]}, "step 1: its source"),
        ({**atif(CALLS), "steps": [{"message": ""}]}, "step 1 is no step of ATIF"),
    ],
)
def test_another_format_is_named_beside_what_is_read(log, said, tmp_path):
    _, report = read_logs(written(tmp_path, TEXT, log))
    (problem,) = report.problems
    assert said in problem.reason and "line 2" in problem.place
    assert said[:6] != "no log" or "ShareGPT" in problem.reason


@pytest.fixture
def read(tmp_path):
    """Reads these logs from a file: (demos, report)."""
    return lambda *logs: read_logs(written(tmp_path, *logs))


def test_a_damaged_wrapper_is_read_or_refused(read):
    """A value of another type, or a missing one, is no traceback; what is read can be written."""
    rng = random.Random(0)
    whole = [sharegpt(CALLS), atif(CALLS), batch(CALLS), answered(CALLS), preference(CALLS)]
    for wrapper in whole:
        demos, report = read(*(changed(wrapper, rng) for _ in range(120)))
        left_out = sum(n for note, n in report.normalised.items() if "logs that are" in note)
        assert demos and report.problems and len(demos) + len(report.problems) + left_out >= 120
        for demo in demos:
            assert from_chat(json.loads(json.dumps(to_chat(demo)))) == demo


def test_a_step_of_atif_that_another_trajectory_has_is_not_learned(read):
    log = atif(CALLS)
    said = {"source": "agent", "message": "Hm.", "is_copied_context": True}
    log["steps"][2:2] = [said, {"source": "user", "message": "go on"}]
    demos, report = read(log)
    assert report.normalised["answers of weight 0, read and not learned"] == 1
    assert actions(demos) == actions([from_chat(CALLS)])
    log["steps"][4]["is_copied_context"] = True
    demos, report = read(log)  # a call is learned, unless its weight is 0
    read_so = [len(demo.steps) for demo in demos] == [1]
    assert read_so or "it calls tools and has weight 0" in report.problems[0].reason
    del log["steps"][4]["is_copied_context"]
    log["steps"][4]["observation"]["results"][0]["subagent_trajectory_ref"] = [{"session_id": "x"}]
    _, report = read(log)
    assert "step 5: it hands over to another agent" in report.problems[0].reason


def test_what_an_agent_sees_without_a_call_is_a_message_of_the_user(read):
    seen = {"results": [{"content": "$ ls"}]}
    steps = [
        {"source": "user", "message": "list"},
        {"source": "agent", "message": "ls", "observation": seen},
        {"source": "agent", "message": "done"},
    ]
    (demo,), _ = read({"schema_version": "ATIF-v1.7", "steps": steps})
    assert demo.steps[1].state == [{"role": "user", "content": "$ ls"}]


HALL = json.dumps(TOOLS[0])


@pytest.mark.parametrize(
    ("rules", "rest"),
    [
        (f"Within <tools></tools> tags:\n<tools>\n{HALL}\n</tools>\nCall.", "<tools></tools>"),
        (f"Tools within <tools> </tools>: <tools> [{HALL}] </tools> Call.", "<tools> </tools>"),
        (f"Tools stand in <tools>.\n<tools>{HALL}</tools>", "<tools>"),
        (f"<tools>{HALL}</tools> An empty list is <tools>[]</tools>.", "<tools>[]</tools>"),
    ],
)
def test_rules_that_name_the_tags_of_their_tools_lose_the_tools_alone(rules, rest, read):
    """Qwen's and Hermes' own prompts say how the tools stand there, before they list them."""
    log = [{"role": "system", "content": rules}, *CALLS["messages"][1:]]
    (demo,), _ = read({"messages": log})
    assert demo.tools == TOOLS
    assert rest in demo.messages[0]["content"] and HALL not in demo.messages[0]["content"]


def of_conversations(key: str, *ids) -> list[dict]:
    """A question and its answer of each of these conversations: first all questions."""
    entries = [{"role": "user", "content": f"open {i}?"} | ({key: i} if i else {}) for i in ids]
    return entries + [{**entry, "role": "assistant", "content": "yes"} for entry in entries]


@pytest.mark.parametrize("key", ["conversation_id", "thread_id", "sessionId", "dialogue_id"])
@pytest.mark.parametrize("in_an_array", [False, True])
def test_messages_of_several_conversations_are_a_log_each(key, in_an_array, read):
    def logs(*ids):
        entries = of_conversations(key, *ids)
        return read(entries) if in_an_array else read(*entries)

    demos, report = logs("b", "a")
    asked = [[message["content"] for message in demo.messages] for demo in demos]
    assert asked == [["open b?", "yes"], ["open a?", "yes"]] and not report.problems
    assert len(logs("a")[0]) == len(logs("a", None)[0]) == 1
    demos, report = logs("b", "a", None)
    assert not demos and 'give each message its "conversation_id"' in report.problems[0].reason


@pytest.mark.parametrize(
    "text",
    [
        '{"text": "hello", "lang": "en"}',
        '{"message": "sent", "status": "ok"}',
        '{"content": "x"}',
        '{"answer": 42, "error": null}',
        '[{"text": "a", "id": 1}, {"text": "b", "id": 2}]',
        '{"role": "admin", "name": "Ann"}',
        '{"from": "Rome", "to": "Bern", "messages": ["late"], "instructions": "run"}',
        '{"question": "2+2?", "choices": [{"label": "A"}, {"label": "B"}]}',
    ],
)
def test_a_text_that_is_json_stays_as_it_was_said(text, read):
    """What is said may be JSON. It is opened where it is a message, or what is written around."""
    for log in (
        {"prompt": "as JSON", "completion": text},
        {"request": {"messages": [USER]}, "response": text},
        {"input": [USER], "output": text},
        {"run_type": "llm", "inputs": {"messages": [USER]}, "outputs": {"output": text}},
    ):
        assert actions(read(log)[0]) == [[joined(text, [])]]
    ((asked, answer),) = [demo.messages for demo in read({"prompt": text, "completion": "x"})[0]]
    assert (asked, answer["content"]) == ({"role": "user", "content": text}, "x")
    (demo,), _ = read({"system": text, "messages": [USER, REPLY]})
    assert demo.messages[0] == {"role": "system", "content": text}


@pytest.mark.parametrize(
    "answer",
    [
        REPLY,
        [REPLY],
        {"choices": [{"index": 0, "message": REPLY}]},
        {"choices": [{"text": "In the hall.", "finish_reason": "stop"}]},
        {"candidates": [{"content": {"role": "model", "parts": [{"text": "In the hall."}]}}]},
        {"output": [{"type": "message", **REPLY}]},
        [{"type": "text", "text": "In the "}, {"type": "text", "text": "hall."}],
    ],
)
def test_what_a_provider_returns_is_opened_as_text_too(answer, read):
    for response in (answer, json.dumps(answer)):
        demos, report = read({"request": {"messages": [USER]}, "response": response})
        assert actions(demos) == [["In the hall."]] and not report.problems
    for prompt in ([USER], {"messages": [USER]}, {"contents": [{"parts": [{"text": "where?"}]}]}):
        (demo,), _ = read({"input": json.dumps(prompt), "output": json.dumps(answer)})
        assert demo.messages[0]["content"] in ("where?", USER["content"])
    _, report = read({"prompt": "x", "response": '{"error": {"message": "overloaded"}}'})
    assert 'its "response" holds no answer' in report.problems[0].reason


ROME = [{"type": "human", "content": "and Rome?"}, {"type": "ai", "content": "rain"}]
PARIS = [{"type": "human", "content": "Paris?"}, {"type": "ai", "content": "sunny"}]


@pytest.mark.parametrize(
    ("asked", "answered", "said"),
    [
        (ROME[:1], [*PARIS, *ROME], "Paris? sunny and Rome? rain"),
        (PARIS[:1], [{"type": "system", "content": "S"}, *PARIS], "S Paris? sunny"),
        ([*PARIS, *ROME[:1]], [*PARIS, *ROME], "Paris? sunny and Rome? rain"),
        ([*PARIS, *ROME[:1]], ROME[1:], "Paris? sunny and Rome? rain"),
        ([*PARIS, *ROME[:1]], PARIS, "Paris? sunny and Rome? Paris? sunny"),
    ],
)
def test_a_response_that_holds_its_request_is_the_conversation(asked, answered, said, read):
    """A graph with a memory is asked the last question, and returns all that was ever said."""
    (demo,), _ = read({"inputs": {"messages": asked}, "outputs": {"messages": answered}})
    assert " ".join(message["content"] for message in demo.messages) == said


TOOL_RUN = {"run_type": "tool", "inputs": {"input": "{'to': 'hall'}"}, "outputs": {"output": "ok"}}
CHAIN = {"run_type": "chain", "inputs": {"input": "go"}, "outputs": {"output": "gone"}}
MODEL_RUN = {
    "run_type": "llm",
    "inputs": {"messages": [PARIS[:1]]},
    "outputs": {"generations": [[{"text": "sunny", "message": PARIS[1]}]]},
}
GRAPH = {"run_type": "chain", "inputs": {"messages": PARIS[:1]}, "outputs": {"messages": PARIS}}
ROUTER = {**GRAPH, "outputs": {"output": "tools"}}
OBSERVED = {"traceId": "t", "type": "TOOL", "input": "hall", "output": "a key"}
GENERATION = {**OBSERVED, "type": "GENERATION", "input": [USER], "output": REPLY}
OP = {"op_name": "weave:///e/p/op/look:a1", "inputs": {"prompt": "hall"}, "output": "a key"}
CREATE = {**OP, "inputs": {"messages": [USER]}, "output": {"choices": [{"message": REPLY}]}}


@pytest.mark.parametrize(
    ("spans", "logs", "left_out"),
    [
        ([TOOL_RUN, CHAIN, ROUTER, MODEL_RUN], 1, 3),
        ([GRAPH, {**TOOL_RUN, "outputs": {"output": {"type": "tool", "content": "ok"}}}], 1, 1),
        ([{**CHAIN, "child_runs": [TOOL_RUN, MODEL_RUN]}], 1, 1),
        ([{**CHAIN, "child_runs": [{**CHAIN, "child_runs": [MODEL_RUN]}]}], 1, 0),
        ([{**GRAPH, "child_runs": [TOOL_RUN]}], 1, 0),
        ([{**CHAIN, "child_runs": [TOOL_RUN]}], 0, 1),
        ([OBSERVED, {**OBSERVED, "type": "SPAN"}, GENERATION], 1, 2),
        ([{**OBSERVED, "type": "AGENT", "input": [USER], "output": json.dumps(REPLY)}], 1, 0),
        ([OP, CREATE], 1, 1),
    ],
)
@pytest.mark.parametrize("in_an_array", [False, True])
def test_spans_in_which_no_model_answers_are_counted(spans, logs, left_out, in_an_array, read):
    demos, report = read(spans) if in_an_array else read(*spans)
    assert not report.problems and len(demos) == logs
    assert report.normalised["spans without messages, left out"] == left_out
    assert all(demo.steps[0].action in ("sunny", "In the hall.") for demo in demos)


@pytest.mark.parametrize("role", ["user", "tool"])
@pytest.mark.parametrize("results", ["3", "3\n</tool_response>\n<tool_response>\n4"])
def test_what_a_user_says_behind_a_result_is_a_message_of_the_user(role, results, read):
    content = f"<tool_response>\n{results}\n</tool_response>"
    head = [*CALLS["messages"][1:2], {**CALLS["messages"][2], "tool_calls": [CALL, CALL]}]
    for behind in ("", "\nAnd the time?"):
        entries = [*head, {"role": role, "content": content + behind}, REPLY]
        (demo,), _ = read({"messages": entries, "tools": TOOLS})
        texts = [(m["role"], m["content"]) for m in demo.messages[2:-1]]
        seen = [("tool", text) for text in ("3", "4") if text in results]
        assert texts == seen + [("user", "And the time?")] * bool(behind)


def test_what_a_user_says_between_two_results_is_no_result(read):
    content = "<tool_response>\n3\n</tool_response>\nhm\n<tool_response>\n4\n</tool_response>\nwell"
    head = [*CALLS["messages"][1:2], {**CALLS["messages"][2], "tool_calls": [CALL, CALL]}]
    entries = [*head, {"role": "user", "content": content}, REPLY]
    (demo,), _ = read({"messages": entries, "tools": TOOLS})
    texts = [(m["role"], m["content"]) for m in demo.messages[2:-1]]
    assert texts == [("tool", "3"), ("tool", "4"), ("user", "hm\nwell")]


@pytest.mark.parametrize("as_text", [False, True])
def test_of_several_answers_in_a_span_the_first_is_read(as_text, read):
    """OpenTelemetry has a message for each choice, LangSmith a list of generations."""
    say = lambda role, text: {"role": role, "parts": [{"type": "text", "content": text}]}  # noqa: E731
    asked = [say("user", "Weather?")]
    answers = [say("assistant", text) | {"finish_reason": "stop"} for text in ("sun", "rain")]
    fields = {"gen_ai.input.messages": asked, "gen_ai.output.messages": answers}
    if as_text:
        fields = {key: json.dumps(field) for key, field in fields.items()}
    choices = [{"text": text, "message": {**PARIS[1], "content": text}} for text in ("sun", "rain")]
    run = {**MODEL_RUN, "outputs": {"generations": [choices]}}
    for span in ({"attributes": fields}, run):
        (demo,), report = read(span)
        assert [step.action for step in demo.steps] == ["sun"]
        assert report.normalised["requests with several answers, of which the first is read"] == 1


def test_what_an_agent_did_in_a_span_is_no_choice(read):
    """Without a reason why each ends; and a text that is no JSON is an answer by itself."""
    say = lambda role, text: {"role": role, "parts": [{"type": "text", "content": text}]}  # noqa: E731
    fields = {"gen_ai.input.messages": [say("user", "Weather?")]}
    did = [say("assistant", "I look."), say("user", "Do."), say("assistant", "sun")]
    for output, actions in ((did, ["I look.", "sun"]), ("sun, they say", ["sun, they say"])):
        (demo,), report = read({"attributes": fields | {"gen_ai.output.messages": output}})
        assert [step.action for step in demo.steps] == actions and not report.problems


# --- exports of tools that watch an agent --------------------------------------------------------

ASKED = [{"role": "system", "content": "rules"}, USER]
FIND = {"type": "function", "function": {"name": "find", "parameters": {"type": "object"}}}
CALLED = {"id": "c1", "function": {"name": "find", "arguments": '{"a.b": 1}'}}
OPENINFERENCE = {
    "llm.input_messages.0.message.role": "system",
    "llm.input_messages.0.message.content": "rules",
    "llm.input_messages.1.message.role": "user",
    "llm.input_messages.1.message.contents.0.message_content.type": "text",
    "llm.input_messages.1.message.contents.0.message_content.text": USER["content"],
    "llm.output_messages.0.message.role": "assistant",
    "llm.output_messages.0.message.tool_calls.0.tool_call.id": "c1",
    "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "find",
    "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": '{"a.b": 1}',
    "llm.tools.0.tool.json_schema": json.dumps(FIND),
}
PHOENIX = {
    "attributes.llm.input_messages": [
        {"message.role": message["role"], "message.content": message["content"]}
        for message in ASKED
    ],
    "attributes.llm.output_messages": [
        {
            "message.role": "assistant",
            "message.tool_calls": [
                {"tool_call.id": "c1", "tool_call.function.name": "find",
                 "tool_call.function.arguments": '{"a.b": 1}'}
            ],
        }
    ],
    "attributes.llm.tools": [{"tool.json_schema": json.dumps(FIND)}],
}  # fmt: skip
OPENLLMETRY = {
    "gen_ai.prompt.0.role": "system",
    "gen_ai.prompt.0.content": "rules",
    "gen_ai.prompt.1.role": "user",
    "gen_ai.prompt.1.content": USER["content"],
    "gen_ai.completion.0.role": "assistant",
    "gen_ai.completion.0.finish_reason": "tool_calls",
    "gen_ai.completion.0.tool_calls.0.id": "c1",
    "gen_ai.completion.0.tool_calls.0.name": "find",
    "gen_ai.completion.0.tool_calls.0.arguments": '{"a.b": 1}',
    "llm.request.functions.0.name": "find",
    "llm.request.functions.0.parameters": '{"type": "object"}',
}
SPOKEN = [{"role": "user", "parts": [{"type": "text", "content": USER["content"]}]}]
GEN_AI = {
    "gen_ai.system_instructions": [{"type": "text", "content": "rules"}],
    "gen_ai.input.messages": SPOKEN,
    "gen_ai.output.messages": [
        {
            "role": "assistant",
            "parts": [
                {"type": "tool_call", "id": "c1", "name": "find", "arguments": {"a.b": 1}},
            ],
        }
    ],
    "gen_ai.tool.definitions": [{**FIND["function"], "type": "function"}],
}
GEN_AI_TEXT = {key: json.dumps(field) for key, field in GEN_AI.items()}
CREATED = {"choices": [{"message": {"role": "assistant", "content": None, "tool_calls": [CALLED]}}]}
MLFLOW = {
    "mlflow.spanType": '"CHAT_MODEL"',
    "mlflow.spanInputs": json.dumps({"messages": ASKED, "tools": [FIND]}),
    "mlflow.spanOutputs": json.dumps(CREATED),
}
OTLP = [{"key": key, "value": {"stringValue": text}} for key, text in GEN_AI_TEXT.items()]
DETAILS = {"name": "gen_ai.client.inference.operation.details", "attributes": OTLP}
TAGS = [{"key": key, "type": "string", "value": text} for key, text in GEN_AI_TEXT.items()]
TOOL_SPAN = {"name": "find", "attributes": {"gen_ai.operation.name": "execute_tool"}}


@pytest.mark.parametrize(
    "exported",
    [
        {"name": "chat", "attributes": GEN_AI},
        {"batches": [{"scopeSpans": [{"spans": [TOOL_SPAN, {"attributes": OTLP}]}]}]},
        {"trace": {"resourceSpans": [{"scopeSpans": [{"spans": [{"attributes": OTLP}]}]}]}},
        {"resourceLogs": [{"scopeLogs": [{"logRecords": [{"attributes": OTLP}]}]}]},
        {"name": "chat", "attributes": {"gen_ai.system": "x"}, "events": [DETAILS]},
        {"data": [{"spans": [{"operationName": "chat", "tags": TAGS}]}], "total": 0},
        {"traceId": "t", "name": "chat", "tags": GEN_AI_TEXT},
        {"name": "chat", "attributes": OPENINFERENCE},
        {"data": [{"name": "chat", "span_kind": "LLM", "attributes": OPENINFERENCE}]},
        {"name": "chat", "context.span_id": "s", **PHOENIX},
        {"name": "chat", "attributes": OPENLLMETRY},
        {"info": {"trace_id": "t"}, "data": {"spans": [TOOL_SPAN, {"attributes": MLFLOW}]}},
    ],
)
def test_a_call_of_a_model_is_the_same_log_in_every_export_of_its_span(exported, read):
    (demo,), report = read(exported)
    assert not report.problems and demo.messages[:2] == ASKED
    (step,) = demo.steps
    assert step.action == '{"name": "find", "arguments": {"a.b": 1}}'
    assert demo.messages[2]["tool_calls"][0]["id"] == "c1"
    assert [tool["function"]["parameters"] for tool in demo.tools] == [{"type": "object"}]


def test_tags_and_attributes_that_are_of_no_span_are_bookkeeping(read):
    for beside in ({"tags": ["monkey"]}, {"attributes": {"gen_ai.request.model": "m"}}):
        (demo,), report = read({**TEXT, **beside})
        assert not report.problems and demo.messages == TEXT["messages"]


def test_an_observation_of_a_session_in_langfuse_is_no_event_of_claude_code(read):
    observed = {"id": "o", "trace_id": "t", "session_id": "s", "type": "GENERATION"}
    demos, report = read(*({**observed, **io} for io in (
        {"input": json.dumps([USER]), "output": json.dumps(REPLY)},
        {"input": json.dumps(ASKED), "output": json.dumps(REPLY)},
    )))  # fmt: skip
    assert actions(demos) == [["In the hall."]] * 2 and not report.problems


def test_the_tools_that_langfuse_writes_as_messages_are_tools(read):
    asked = [*ASKED, {"role": "tool", "content": FIND}]
    (demo,), _ = read({"type": "GENERATION", "traceId": "t", "input": asked, "output": REPLY})
    assert [message["role"] for message in demo.messages] == ["system", "user", "assistant"]
    assert demo.tools == [FIND]
    result = {"role": "tool", "content": {"function": "f(x)", "found": 2}}  # is no tool
    (demo,), _ = read({"input": [*CALLS["messages"][:3], result], "output": REPLY})
    assert json.loads(demo.messages[3]["content"]) == result["content"]


@pytest.mark.parametrize("beside", [
    {"metadata": {"tools": [FIND], "task_id": "7"}},
    {"metadata": json.dumps({"tools": [FIND], "task_id": "7"})},
    {"extra": {"invocation_params": {"tools": [FIND]}, "metadata": {}}, "task_id": "7"},
])  # fmt: skip
def test_tools_in_the_metadata_of_a_call_are_its_tools(beside, read):
    """As Braintrust, Nemotron and LangSmith have them; what else is there stays."""
    (demo,), _ = read({"input": ASKED, "output": [CREATED["choices"][0]], **beside})
    assert demo.tools == [FIND] and demo.task == "7"


def test_the_answers_to_several_prompts_are_not_lost_in_silence(read):
    second = {"generations": [*MODEL_RUN["outputs"]["generations"], [{"text": "rain"}]]}
    _, report = read({**MODEL_RUN, "outputs": second})
    assert report.normalised["requests with several answers, of which the first is read"] == 1


def test_what_a_refusal_says_to_drop_leaves_out_that_field_alone(tmp_path):
    log = {**CALLS, "tool_calls": [CALL], "attributes": {"raw": {"request": {"prompt": "x"}}}}
    path = written(tmp_path, log)
    reason = read_logs(path)[1].problems[0].reason
    drop = reason.split("--drop ")[1].split(" leaves")[0].split()
    assert drop == [".tool_calls", "request.prompt"]
    (demo,), report = read_logs(path, Reading(drop=drop))
    assert not report.problems and len(demo.steps) == len(
        read_logs(written(tmp_path, CALLS))[0][0].steps
    )
    assert demo.messages == read_logs(written(tmp_path, CALLS))[0][0].messages


@pytest.mark.parametrize("key", ["messages", "conversations"])
@pytest.mark.parametrize(
    "roles", [("tool_call", "tool_response"), ("function_call", "observation")]
)
def test_a_role_of_calls_holds_calls(key, roles, read):
    """As ms-swift and LLaMA-Factory write them."""
    calls, results = roles
    entries = [USER, {"role": calls, "content": json.dumps(GO)}, {"role": results, "content": "ok"}]
    (demo,), _ = read({key: [*entries, REPLY]})
    assert [step.action for step in demo.steps] == [f"{json.dumps(GO)}", "In the hall."]
    assert demo.messages[2] == {"role": "tool", "content": "ok"}
    demos, report = read({key: [USER, {"role": calls, "content": "go hall"}, REPLY]})
    assert not demos and "its function_call is no JSON" in report.problems[0].reason


def test_a_conversation_that_python_printed_is_read(read):
    """A column of a table that was written as CSV."""
    (demo,), _ = read({"prompt": str([USER]), "completion": str([REPLY])})
    assert demo.messages == [USER, REPLY]


def test_a_conversation_that_numpy_printed_is_read(read):
    """An array of messages, without commas between them; a text in it may look like its ends."""
    said = {"role": "user", "content": "it's }\n {"}
    (demo,), _ = read({"messages": f"[{said}\n {REPLY}]"})
    assert demo.messages == [said, REPLY]


def test_a_text_that_is_only_like_a_printed_object_stays_a_text(read):
    for text in (
        "{'a': 1}",
        "['a', 'b']",
        "[{'role': 'user', 'content': x}]",
        "{'a': " + "-" * 9999,
    ):
        (demo,), _ = read({"prompt": text, "completion": "ok"})
        assert demo.messages[0]["content"] == text


@pytest.mark.parametrize("depth", [90, 5000])
def test_a_printed_object_that_is_too_deep_is_no_crash(depth, read):
    deep = "{'a': " * depth + "1" + "}" * depth
    demos, report = read({"messages": [USER, {"role": "function_call", "content": deep}]})
    assert not demos and report.problems


def test_a_call_that_python_printed_is_a_call(read):
    call = {"name": "go", "arguments": {"to": "hall", "fast": True, "by": None}}
    spelled = {"role": "assistant", "content": f"<tool_call>\n{call}\n</tool_call>"}
    for answer in (spelled, {"role": "function_call", "content": str(call)}):
        (demo,), report = read({"messages": [USER, answer]})
        assert [json.loads(step.action) for step in demo.steps] == [call]
        assert not any(note.startswith("not learned") for note in report.normalised)


@pytest.mark.parametrize("rules", [[], [{"role": "system", "content": "Be brief."}]])
def test_a_prompt_that_the_messages_repeat_is_read_once(rules, read):
    """As in UltraChat."""
    row = {"prompt": USER["content"], "prompt_id": "x", "messages": [*rules, USER, REPLY]}
    (demo,), _ = read(row)
    assert demo.messages == [*rules, USER, REPLY]
    _, report = read(row | {"prompt": "where is it?"})
    assert '"prompt" of a log: not understood' in report.problems[0].reason


def test_a_preference_pair_with_messages_and_scores_beside_is_read_once(read):
    """As in UltraFeedback."""
    row = {"prompt": USER["content"], "messages": [USER, REPLY], "chosen": [USER, REPLY]}
    row |= {"rejected": [USER, {**REPLY, "content": "No."}], "score_chosen": 8.0}
    (demo,), report = read(row | {"score_rejected": 2.0})
    assert demo.messages == [USER, REPLY] and report.formats == {"preference": 1}


def test_a_request_that_a_proxy_kept_twice_is_read_once_with_its_tools(read):
    """As in LiteLLM."""
    body = {"model": "m", "messages": [USER], "tools": TOOLS}
    kept = {"url": "u", "method": "POST", "headers": {}, "body": body}
    log = {"messages": [USER], "response": {"choices": [{"message": REPLY}]}}
    for beside in ({}, {"model_parameters": {"tools": TOOLS}}):
        (demo,), _ = read(log | beside | {"proxy_server_request": kept})
        assert demo.messages == [USER, REPLY] and len(demo.tools) == 1
    body["messages"] = [{"role": "user", "content": "else"}]
    _, report = read(log | {"proxy_server_request": kept})
    assert "proxy_server_request" in report.problems[0].reason


def test_a_table_in_csv_is_refused_with_how_it_becomes_lines(tmp_path):
    (tmp_path / "logs.csv").write_text("prompt,completion\nhi,ho\n", encoding="utf-8")
    _, report = read_logs(tmp_path / "logs.csv")
    assert 'to_json(OUT, orient="records", lines=True)' in report.problems[0].reason


def test_a_file_that_cannot_be_read_is_no_bad_line(tmp_path, capsys):
    (tmp_path / "logs.csv").write_text("prompt,completion\nhi,ho\n", encoding="utf-8")
    for path in (tmp_path / "logs.csv", f"{tmp_path}//logs.csv"):
        for way in (read_demos, lambda path: main([str(path)])):
            with pytest.raises(SystemExit):
                way(path)
            out, error = capsys.readouterr()
            assert "a table in CSV" in error and "--skip-bad" not in error and not out


def test_what_was_read_of_a_file_before_it_cannot_be_read_on_is_kept_by_skip_bad(tmp_path, capsys):
    path = tmp_path / "logs.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.jsonl", json.dumps(TEXT))
        archive.writestr("b.jsonl", b"\xff")
    demos, report = read_demos(path, skip_bad=True)
    assert len(demos) == len(report.problems) == 1
    with pytest.raises(SystemExit):
        read_demos(path)
    assert "--skip-bad" in capsys.readouterr().err


def test_an_error_beside_a_result_is_not_lost(read):
    """Inspect's model reads the error alone; of others, their user says what it is."""
    call = {"id": "c", "type": "function", "function": "run", "arguments": {}}
    failed = {"role": "tool", "tool_call_id": "c", "content": "a\nb", "function": "run"}
    turns = [
        {**USER, "source": "input"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
    ]
    timeout = {"type": "timeout", "message": "too slow"}
    sample = {"epoch": 1, "input": "q", "messages": [*turns, {**failed, "error": timeout}, REPLY]}
    assert read(sample)[0][0].messages[2]["content"] == "too slow"
    sample["messages"] = [*turns, {**failed, "error": "too slow"}, REPLY]
    assert '"error" of a message of the tool' in read(sample)[1].problems[0].reason


def test_an_answer_without_a_question_is_a_batchs_only_where_it_is(read):
    _, report = read({"outputs": {"generations": [[{"text": "Hi"}]]}, "run_type": "llm"})
    assert "there is no list of messages in it" in report.problems[0].reason
    for number in (5, True):
        _, report = read({"messages": number})
        assert "there is no list of messages in it" in report.problems[0].reason


@pytest.mark.parametrize(
    "stream",
    [
        'data: {"choices": [{"delta": {"content": "He"}}]}\n\ndata: [DONE]\n',
        'event: message_start\ndata: {"type": "message_start"}\n\n',
        ': wait\n\n: wait\n\nid: 1\r\ndata:{"text": "He"}\r\n\r\n',
    ],
)
@pytest.mark.parametrize("key", ["response", "response_body", "output"])
def test_a_stream_as_it_came_over_the_line_is_refused(stream, key, read):
    demos, report = read({"request": {"messages": [USER]}, key: stream})
    assert not demos and "its answer is a stream in pieces" in report.problems[0].reason
    assert read({"request": {"messages": [USER]}, key: "data: {x}"})[0]


# --- files ----------------------------------------------------------------------------------------


def test_a_folder_and_a_pattern_are_all_their_files_in_order(tmp_path, capsys):
    (tmp_path / "b" / "c").mkdir(parents=True)
    logs = [{**TEXT, "task": task} for task in "1234"]
    written(tmp_path, logs[2], name="b/c/z.json")
    written(tmp_path, logs[1], name="b/a.jsonl")
    written(tmp_path, logs[0], name="a.jsonl")
    (tmp_path / "b" / "notes.txt").write_text("no log")
    tasks = lambda path: [demo.task for demo in read_demos(path)[0]]  # noqa: E731
    assert tasks(tmp_path) == ["1", "2", "3"]
    assert tasks(f"{tmp_path}/*/*.jsonl") == ["2"] and tasks(f"{tmp_path}/b*") == ["2", "3"]
    assert tasks(f"{tmp_path}/**/*.js*") == ["1", "2", "3"]
    written(tmp_path, logs[3], name="[x].jsonl")  # a name is no pattern where a file has it
    assert tasks(tmp_path / "[x].jsonl") == ["4"]
    (tmp_path / "empty").mkdir()
    for path, said in (("nowhere", "no such file"), ("empty", "ends in"), ("x*", "pattern")):
        with pytest.raises(SystemExit):
            read_demos(tmp_path / path)
        error = capsys.readouterr().err
        assert said in error and error.count("\n") == 1
        assert error.startswith(f"{tmp_path / path}: ")


@pytest.mark.parametrize("indent", [None, 1])
def test_a_file_may_be_one_array_or_one_object(indent, tmp_path):
    for value, count in (([CALLS, TEXT], 2), (TEXT, 1), ([TEXT], 1), (TEXT["messages"], 1)):
        path = tmp_path / "logs.json"
        path.write_text("\n" + json.dumps(value, indent=indent))
        demos, report = read_demos(path)
        assert len(demos) == count and not report.problems
        assert demos[-1].steps == from_chat(TEXT).steps


def test_an_array_of_a_log_a_line_is_an_array(tmp_path):
    path = tmp_path / "logs.json"
    for logs in ([TEXT, CALLS], [TEXT, CALLS, TEXT]):
        inside = ",\n".join(map(json.dumps, logs))
        for text in (f"[{inside}]", f"[\n{inside}\n]", f"[{inside}\n]\n"):
            path.write_text(text)
            demos, report = read_demos(path)
            assert len(demos) == len(logs) and not report.problems


def test_a_bad_log_of_an_array_is_named_by_its_number(tmp_path):
    path = tmp_path / "logs.json"
    path.write_text(json.dumps([TEXT, {**TEXT, "tools": 5}, TEXT], indent=2))
    demos, report = read_logs(path)
    assert len(demos) == 2 and report.problems[0].place == f"{path}, log 2"


@pytest.mark.parametrize("broken", ["{", '{"messages": [}', '[{"messages"', "nothing"])
def test_a_broken_line_is_one_problem_wherever_it_stands(broken, tmp_path):
    good = json.dumps(TEXT)
    for number in (1, 2, 3):
        lines = [good, good, good]
        lines[number - 1] = broken
        if broken == "{" and number == 1:
            continue  # so begins an object over several lines, and then all of it is broken
        path = tmp_path / "logs.jsonl"
        path.write_text("\n".join(lines) + "\n")
        demos, report = read_logs(path)
        assert len(demos) == 2
        (problem,) = report.problems
        assert problem.place.startswith(f"{path}, line {number}, column ")
        assert problem.reason.startswith("no JSON: ")


def test_an_object_that_is_cut_off_is_one_problem(tmp_path):
    path = tmp_path / "log.json"
    text = json.dumps(TEXT, indent=2)[:-30]
    path.write_text(text)
    demos, report = read_logs(path)
    assert not demos and len(report.problems) == 1
    assert report.problems[0].place.startswith(f"{path}, line {text.count(chr(10)) + 1}, column")


# --- one form -------------------------------------------------------------------------------------


def exchange(asked: dict = USER, answer: dict = REPLY, **fields) -> dict:
    return {"task": "t", "messages": [asked, answer], "tools": [], **fields}


def calling(function: dict | None = None, **fields) -> dict:
    """A message with one call."""
    call = {"id": "c1", "type": "function", "function": function or CALL["function"]}
    return {"role": "assistant", "content": None, "tool_calls": [call], **fields}


PART = {"type": "text", "text": "In the hall."}
OLD = {"role": "assistant", "content": None, "function_call": CALL["function"]}
THINK = "thoughts that end in </think>, taken out of content"


@pytest.mark.parametrize(
    ("answer", "read_as", "note"),
    [
        (REPLY, REPLY, None),
        (REPLY | {"refusal": None, "annotations": [], "tool_calls": None}, REPLY, None),
        (REPLY | {"content": [PART]}, REPLY, "content in parts, joined as they stand"),
        (
            REPLY | {"content": [PART, {"type": "output_text", "text": "Look."}]},
            REPLY | {"content": "In the hall.Look."},
            "content in parts, joined as they stand",
        ),
        (REPLY | {"content": ["In the hall."]}, REPLY, "content in parts, joined as they stand"),
        (REPLY | {"content": None, "refusal": "No."}, REPLY | {"content": "No."},
         "refusals, read as text"),
        (REPLY | {"content": "<think>\nit says so\n</think>\n\nIn the hall."},
         REPLY | {"reasoning_content": "it says so"}, THINK),
        (REPLY | {"content": "<think>\n\n</think>\n\nIn the hall."}, REPLY, THINK),
        (REPLY | {"reasoning": "why"}, REPLY | {"reasoning_content": "why"},
         "reasoning, read as reasoning_content"),
        (REPLY | {"weight": 1}, REPLY, None),
        (REPLY | {"seconds": 3}, REPLY, '"seconds" of a message of the assistant, left out'),
        (OLD, calling() | {"tool_calls": [{"type": "function", "function": CALL["function"]}]},
         "function_call, read as tool_calls"),
        (calling(content=""), calling(), None),
        (calling({"name": "go", "arguments": {"to": "hall"}}), calling(),
         "arguments that are an object, written as JSON"),
        *[
            (calling({"name": "go", **nothing}), calling({"name": "go", "arguments": "{}"}),
             "calls without arguments, read as {}")
            for nothing in ({}, *({"arguments": text} for text in (None, "", " ", "null")))
        ],
        (calling(tool_calls=[{"id": "c1", "status": "done", **CALL["function"]}]), calling(),
         '"status" of a call, left out'),
    ],
)  # fmt: skip
def test_an_answer_in_another_form_is_counted(answer, read_as, note):
    log, notes = noted(exchange(answer=answer))
    assert log["messages"][1] == read_as and (notes.get(note) == 1 if note else not notes)
    assert set(notes.values()) <= {1}
    assert noted(log) == (log, {})  # in the one form nothing is changed


@pytest.mark.parametrize(
    ("message", "read_as", "note"),
    [
        ({"role": "developer", "content": "x"}, {"role": "system", "content": "x"},
         "role developer, read as system"),
        ({"role": "function", "name": "go", "content": "x"},
         {"role": "tool", "name": "go", "content": "x"}, "role function, read as tool"),
        ({"role": "tool", "content": None}, {"role": "tool", "content": ""},
         "tool answers without content, read as empty"),
        ({"role": "tool", "content": {"ok": 1}}, {"role": "tool", "content": '{"ok": 1}'},
         "tool answers in JSON, written as text"),
        ({"role": "tool", "content": [{"type": "refund"}]},
         {"role": "tool", "content": '[{"type": "refund"}]'},
         "tool answers in JSON, written as text"),
        ({"role": "tool", "content": [PART]}, {"role": "tool", "content": PART["text"]},
         "content in parts, joined as they stand"),
        ({"role": "user", "content": "x", "name": "Ann", "time": 5},
         {"role": "user", "content": "x", "name": "Ann"},
         '"time" of a message of the user, left out'),
    ],
)  # fmt: skip
def test_a_message_in_another_form_is_counted(message, read_as, note):
    log, notes = noted({"messages": [message, REPLY]})
    of_no_call = {"answers to no call": 1} if read_as["role"] == "tool" else {}
    assert log["messages"][0] == read_as and notes == {note: 1} | of_no_call


def test_tools_in_another_form_are_counted():
    bare_tool = {"name": "go", "parameters": {}}
    whole = [{"type": "function", "function": bare_tool}]
    for fields, note in [
        ({"tools": [bare_tool]}, "tools without a function around name and parameters"),
        ({"tools": json.dumps(whole)}, '"tools" as text, read as JSON'),
        ({"tools": None, "functions": [bare_tool]}, '"functions", read as "tools"'),
        ({"tools": {}, "functions": json.dumps(whole)}, '"tools" as text, read as JSON'),
        ({"tools": whole, "seed": 4}, '"seed" of a log, left out'),
    ]:
        log, notes = noted(exchange(**fields))
        assert log["tools"] == whole and notes[note] == 1
    assert noted(exchange(tools={}))[0]["tools"] == []


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("hi", "message 0: it is no object"),
        ({"role": "critic", "content": "x"}, 'message 0: its role is none of system, user, assis'),
        ({"role": ["user"], "content": "x"}, 'none of system, user, assistant, tool, but ["user"]'),
        ({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]},
         'message 0 (user): it holds an image, audio or a file, or what its provider ran'),
        ({"role": "tool", "content": [PART, {"type": "image"}]},
         'message 0 (tool): it holds an image'),
        ({"role": "user", "content": "x", "images": ["a.png"]}, 'it holds an image'),
        ({"role": "user", "content": [{"type": "text"}]}, "a part of its list holds none"),
        ({"role": "user", "content": []}, "it has no text content"),
        ({"role": "user", "content": "x", "name": 5}, "its name is no text"),
        ({"role": "tool", "content": "x", "tool_call_id": [5]}, "its tool_call_id is no text"),
    ],
)  # fmt: skip
def test_a_message_that_cannot_be_read_is_refused(message, said):
    with pytest.raises(ValueError, match="message 0") as refused:
        from_chat({"messages": [message, REPLY]})
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"role": "assistant", "audio": {"id": "x"}}, "it holds an image, audio or a file"),
        ({"role": "assistant", "content": [{"type": "tool_use"}]}, 'it holds "tool_use"'),
        ({"role": "assistant", "refusal": 5}, "its refusal is no text"),
        ({"role": "assistant", "content": None}, "an empty action: neither text content nor tool"),
        ({"role": "assistant", "content": "<think>why</think>"}, "an empty action"),
        (REPLY | {"weight": "half"}, "its weight is neither yes nor no"),
        (REPLY | {"loss_weight": -1}, "its loss_weight is neither yes nor no"),
        (calling(function_call=CALL["function"]), "both tool_calls and function_call"),
        (calling(tool_calls=[{"type": "custom", "custom": {}}]), 'a call of type "custom"'),
        (calling(tool_calls=[{**CALL, "id": [5]}]), "whose id is no text"),
        (calling({"name": "go", "arguments": "{}, {}"}), "arguments that are no object"),
        (calling({"name": "go", "arguments": 5}), "arguments that are no object"),
    ],
)
def test_an_answer_that_cannot_be_learned_is_refused(answer, said):
    with pytest.raises(ValueError, match=r"message 1 \(assistant\): ") as refused:
        from_chat({"messages": [USER, answer]})
    assert said in str(refused.value)


@pytest.mark.parametrize("tools", [[{"name": ""}], [{"function": 5}], "{", "[5]", 5])
def test_tools_that_cannot_be_called_are_refused(tools):
    with pytest.raises(ValueError):
        from_chat(exchange(tools=tools))


def test_calls_nested_as_deep_as_may_be_are_still_calls():
    for depth in (98, 99, 100):
        arguments = '{"to": ' + "[" * depth + "]" * depth + "}"
        try:
            demo = from_chat(exchange(answer=calling({"name": "go", "arguments": arguments})))
        except ValueError as error:
            assert "nested" in str(error) and depth > 98
            continue
        assert parts(demo.steps[0].action)[1] and depth == 98


# --- which messages are actions -------------------------------------------------------------------


def test_calls_that_an_answer_spells_are_calls():
    spelled = f"<tool_call>\n{json.dumps(GO)}\n</tool_call>"
    said = f"<think>so</think>On it.\n{spelled}\n{spelled}\n"
    messages = [USER, {"role": "assistant", "content": said}]
    notes = Counter()
    (step,) = from_chat({"messages": messages, "tools": TOOLS}, notes=notes).steps
    assert step.action == joined("On it.", [GO, GO]) and step.thought == "so"
    assert notes["calls between <tool_call> and </tool_call>, taken out of content"] == 1
    for text in ("Write <tool_call> for a call.", "<tool_call> is closed by </tool_call>, I say."):
        messages[1]["content"] = text
        assert from_chat({"messages": messages}).steps[0].action == text
    messages[1]["content"] = "<tool_call>\n<function=go>\n</function>\n</tool_call>"
    with pytest.raises(ValueError, match=r"message 1 \(assistant\): what stands behind a <tool_ca"):
        from_chat({"messages": messages})


def test_a_log_mixes_calls_and_answers_and_may_end_in_a_tools_answer():
    tool = {"role": "tool", "content": "x", "tool_call_id": "c1"}
    two = calling(content="Both.")
    two["tool_calls"] *= 2
    messages = [USER, REPLY, USER, calling(), tool, REPLY, USER, two, tool, tool]
    log, notes = noted({"task": "t", "messages": messages, "tools": TOOLS})
    assert log["messages"] == messages and notes == {"logs that go on after their last action": 1}
    said = [step.action for step in from_chat(log).steps]
    assert said == [joined("In the hall.", []), joined("", [GO]), "In the hall.",
                    joined("Both.", [GO, GO])]  # fmt: skip


@pytest.mark.parametrize("rules", [[], [{"role": "system", "content": "be brief"}]])
def test_a_greeting_is_read_and_not_learned(rules):
    hello = {"role": "assistant", "content": "Hello, how can I help?"}
    messages = [*rules, hello, USER, REPLY, USER, REPLY]
    log, notes = noted(exchange(messages=messages))
    demo = from_chat(log)
    assert actions([demo]) == [["In the hall."] * 2] and demo.steps[0].state == messages[:-3]
    assert notes == {"greetings before the user's first message, read and not learned": 1}
    assert to_chat(demo)["messages"] == messages
    assert demo.until(1).messages == messages[:-1] and demo.until(0).messages == messages[:-3]
    chat = Chat(tokenizer("qwen3"), "think")
    state = chat.text(chat.state(demo.steps[0].state, [], None))
    assert state.index("Hello, how can") < state.index("where is my parcel?")


def test_a_log_that_begins_with_a_call_is_refused_and_one_of_rules_alone_is_not():
    for first in (calling(), REPLY):
        tool = {"role": "tool", "content": "x"}
        with pytest.raises(ValueError, match="begins with what it answers"):
            from_chat({"messages": [first, tool, REPLY]})
        rules = {"role": "system", "content": "find the key"}
        assert len(from_chat({"messages": [rules, first, tool, REPLY]}).steps) == 2


def test_an_answer_of_weight_0_is_read_and_not_learned():
    wrong = {"role": "assistant", "content": "In the garden.", "weight": 0}
    messages = [USER, wrong, USER, REPLY, USER, wrong]
    log, notes = noted(exchange(messages=messages))
    demo = from_chat(log)
    assert log["messages"] == messages and actions([demo]) == [["In the hall."]]
    assert demo.steps[0].state == messages[:3]
    assert notes["answers of weight 0, read and not learned"] == 2
    with pytest.raises(ValueError, match="no message of the assistant to learn"):
        from_chat({"messages": [USER, wrong]})


# --- tools that nobody declared -------------------------------------------------------------------


def test_a_schema_is_what_the_calls_of_all_logs_show(read):
    def calls(*arguments: dict) -> dict:
        made = [calling({"name": "find", "arguments": json.dumps(each)}) for each in arguments]
        return {"messages": [USER, *made]}

    talk = {"messages": [USER, REPLY]}  # of the same agent, who called nothing
    logs = calls({"id": 1, "price": 2}, {"id": 3, "price": 0.5}), calls({"id": "a", "gone": None})
    demos, report = read(*logs, talk, exchange(task="x"))
    properties = {"id": {"type": ["integer", "string"]}, "price": {"type": "number"},
                  "gone": {"type": "null"}}  # fmt: skip
    parameters = {"type": "object", "properties": properties, "required": ["id"]}
    function = {"name": "find", "description": "", "parameters": parameters}
    tool = {"type": "function", "function": function}
    assert [demo.tools for demo in demos] == [[tool]] * 3 + [[]]
    assert report.normalised == {
        'logs without "tools", given those of the calls: find': 3,
        "turns in several messages, made one": 1,
        "calls with nulls, kept: no schema says whether they are asked for": 1,
    }
    nothing = schema("find", [{}])["function"]["parameters"]
    assert nothing == {"type": "object", "properties": {}, "required": []}


def test_a_call_of_a_tool_that_the_log_lacks_adds_it(read):
    other = calling({"name": "stop", "arguments": '{"now": true}'})
    lacking = {**CALLS, "messages": [*CALLS["messages"], other]}
    undeclared = {"messages": [USER, calling()]}
    demos, report = read(lacking, undeclared)
    assert [tool["function"]["name"] for tool in demos[0].tools] == ["go", "stop"]
    assert demos[1].tools == TOOLS  # another log's schema, where there is one
    assert report.normalised['calls of tools that "tools" lacks, added to it: stop'] == 1
    many = [calling({"name": name, "arguments": "{}"}) for name in "jihgfedcba"]
    _, report = read({"messages": [USER, *many]})
    assert any(note.endswith(": a, b, c, d, e, f, g, h and 2 more") for note in report.normalised)


# --- there and back -------------------------------------------------------------------------------


@settings(max_examples=60)
@given(TURNS)
def test_what_is_read_is_written_and_read_again_alike(turns):
    demo = from_chat(conversation(turns))
    again = from_chat(json.loads(json.dumps(to_chat(demo))))
    assert again == demo and to_chat(again) == to_chat(demo)
    for (_, answer, _), step in zip(turns, demo.steps, strict=True):
        # its first line keeps the spaces that it begins with
        said = parts(step.action)[0]
        assert said.strip() == answer["content"].strip() and said in answer["content"]
        assert step.thought == answer.get("reasoning_content")
        assert [{"function": call} for call in parts(step.action)[1]] == [
            {"function": call["function"]} for call in answer.get("tool_calls", [])
        ]


def test_logs_in_another_programs_form_are_the_same_logs(tmp_path, capsys):
    named = {"role": "tool", "content": "x", "tool_call_id": "c1", "name": "go"}
    greeted = [{"role": "assistant", "content": "Hello."}, {**USER, "name": "Ann"}, mixed()]
    greeted[2:] = [calling(content="So."), named, REPLY | {"weight": 0}, USER, REPLY]
    logs = [CALLS, mixed(), TEXT, {"task": "g", "messages": greeted, "tools": TOOLS}]
    path = written(tmp_path, *logs)
    out = tmp_path / "out.jsonl"
    main([str(path), "--to", "openai", str(out)])
    before, after = read_demos(path)[0], read_demos(out)[0]
    assert [demo.steps for demo in after] == [demo.steps for demo in before]
    assert [demo.tools for demo in after] == [demo.tools for demo in before]
    kept = out.read_bytes()
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main([str(path), "--to", "openai", str(out)])
    assert "name a new one" in capsys.readouterr().err and out.read_bytes() == kept


def test_calls_without_ids_are_given_some_and_their_answers_too():
    nameless = {"type": "function", "function": CALL["function"]}
    tool = {"role": "tool", "content": "x"}
    messages = [USER, calling(tool_calls=[nameless, nameless]), tool, tool, calling(), tool]
    made = to_openai(from_chat({"messages": messages, "tools": TOOLS}))["messages"]
    assert [call["id"] for call in made[1]["tool_calls"]] == ["call_1", "call_2"]
    assert [made[i]["tool_call_id"] for i in (2, 3, 5)] == ["call_1", "call_2", "c1"]
    assert "tools" not in to_openai(from_chat(TEXT))  # an empty list is refused there


# --- minprm logs, and --skip-bad ------------------------------------------------------------------


def shown(*flags: str, capsys) -> tuple[int, str, str]:
    """(exit code, what is printed, what is complained of)."""
    try:
        main([*map(str, flags)])
        code = 0
    except SystemExit as stop:
        code = stop.code
    return code, *capsys.readouterr()


def rows(text: str) -> dict[str, str]:
    return dict(row.split(None, 1) for row in text.split("\n\n")[0].splitlines())


def test_the_summary_counts_what_is_there(tmp_path, capsys):
    twice = {**TEXT, "messages": [*TEXT["messages"], USER, REPLY | {"content": "x" * 99}]}
    path = written(tmp_path, mixed(), {**CALLS, "task": "t3"}, twice, {**TEXT, "task": "t4"})
    code, text, error = shown(path, "--held-out", "2", capsys=capsys)
    found = rows(text)
    assert code == 0 and not error
    assert found["logs"] == "4 of 4 tasks, in 1 file (chat 4)"
    assert found["steps"] == "9, 4 of them with a thought"
    assert found["actions"] == "3 calls alone, 5 replies alone, 1 both"
    assert found["tools"] == "go 4" and found["messages"] == "assistant 9, user 7, tool 4, system 2"
    assert found["split"] == "--held-out 2: 2 training, 1 held out, 1 test"
    assert found["characters"].endswith("the longest action 99")
    assert "tokens" not in found
    for held_out, said in (
        ("16", "leaves nothing to learn from"),
        ("1", "is too few"),
        ("0", "is"),
    ):
        _, text, _ = shown(path, "--held-out", held_out, capsys=capsys)
        assert f"--held-out {held_out} {said}" in rows(text)["split"]
    _, text, _ = shown(written(tmp_path, TEXT), capsys=capsys)
    assert "add logs of other tasks" in text and "--held-out" not in rows(text)["split"]


def test_with_a_model_the_summary_counts_its_tokens(tmp_path, capsys, model):
    long = line("Rome")
    long["messages"][1] = {"role": "user", "content": "how big is Rome? " * 40}
    path = written(tmp_path, line("Paris"), line("Oslo"), long)
    chat = Chat(tokenizer("qwen3_instruct_2507"), tools=VISIT)
    steps = []  # of each log: the tokens of each step
    actions = []
    for demo in read_demos(path)[0]:
        steps.append([])
        for i, step in enumerate(demo.steps):
            after = demo.action_before(i)
            ids = chat.state(step.state, demo.tools, after)
            action = chat.action(step.action)
            steps[-1].append(len(ids + chat.turn([], action)))
            actions.append(len(chat.turn(None, action)) - len(chat.end))
    _, middle, longest = sorted(map(sum, steps))
    roomy = str(longest + 2 * 512)
    code, text, _ = shown(path, "--model", model, "--context", roomy, capsys=capsys)
    found = rows(text)
    assert code == 0 and f"{middle:,} (median)" in found["tokens"]
    assert f"{longest:,} (longest); the longest action {max(actions)};" in found["tokens"]
    assert "cuts 0 logs short and leaves 0 out" in found["context"]
    tight = str(max(steps[0][0], steps[1][0]) + 512)  # holds a first step of the short logs
    _, text, _ = shown(path, "--model", model, "--context", tight, capsys=capsys)
    assert "cuts 2 logs short and leaves 1 out" in rows(text)["context"]


def test_every_problem_is_listed_once_with_its_count_and_first_places(tmp_path, capsys):
    empty = exchange(answer=REPLY | {"reasoning_content": 5})
    late = exchange(messages=[USER, REPLY, *empty["messages"]])
    path = written(
        tmp_path, empty, TEXT, empty, late, late, late, {"tools": 5, **exchange(tools=5)}
    )
    code, text, error = shown(path, capsys=capsys)
    assert code == 2 and error.count("\n") == 1 and "bad lines (6)" in error
    listed = text.split("by --skip-bad:\n")[1].splitlines()
    assert listed[0] == "       5  its reasoning_content is no text"
    assert listed[1].strip() == (
        f"{path}, line 1, message 1; {path}, line 3, message 1; {path}, line 4, message 3"
        " and 2 more"
    )
    assert listed[2] == '       1  "tools" is no list of objects; --drop .tools leaves it out'
    code, _, error = shown(path, "--skip-bad", capsys=capsys)
    assert code == 0 and not error
    bad = written(tmp_path, empty, name="bad.jsonl")
    code, _, error = shown(bad, "--skip-bad", capsys=capsys)
    assert code == 2 and "no log in it that can be read" in error


def test_a_name_from_a_log_is_shown_and_not_obeyed(tmp_path, capsys):
    _, text, _ = shown(written(tmp_path, exchange(**{"\x1b[31m": 1})), capsys=capsys)
    assert "\x1b" not in text and "x1b[31m" in text


@pytest.mark.parametrize("knob", ["--context 9", "--layout think"])
def test_a_knob_that_counts_tokens_needs_a_model(knob, tmp_path, capsys):
    code, _, error = shown(written(tmp_path, TEXT), *knob.split(), capsys=capsys)
    assert code == 2 and "has no effect here: it needs a --model" in error


def test_training_refuses_bad_lines_or_leaves_them_out(tmp_path, capsys):
    bad = exchange(answer={"role": "assistant", "content": ""})
    path = written(tmp_path, TEXT, bad, bad, CALLS)
    cfg = Config(demos=str(path), arms=["base"])
    with pytest.raises(SystemExit):
        logs_of(cfg, seed=0)
    error = capsys.readouterr().err
    assert error.startswith(f"{path}, line 2: message 1 (assistant): it has an empty action")
    assert "1 more" in error and "--skip-bad" in error and error.count("\n") == 1
    kept, _ = logs_of(replace(cfg, skip_bad=True), seed=0)
    assert [demo.task for demo in kept] == ["t2", "t1"]
    bad = written(tmp_path, bad, name="bad.jsonl")
    with pytest.raises(SystemExit):
        logs_of(replace(cfg, demos=str(bad), skip_bad=True), seed=0)


@pytest.mark.slow
def test_the_plan_of_a_run_says_what_is_in_the_logs(
    tmp_path,
    model,
    monkeypatch,
    capsys,
):
    logs = [line(page) for page in ("Paris", "Oslo", "Rome")]
    path = written(tmp_path, *logs, exchange(tools=5))
    flags = f"--preset logs --demos {path} --model {model} --held-out 2 --skip-bad --dry-run"
    monkeypatch.chdir(tmp_path)
    train([*flags.split(), "--lora", "0"])
    text = capsys.readouterr().out
    assert "logs        3 of 3 tasks" in text and "tokens      a log" in text
    assert "1 training, 1 held out, 1 test" in text and '"tools" is no list of objects' in text


def test_training_says_in_a_line_what_was_changed(tmp_path):
    said = []
    sink = logger.add(said.append, format="{message}")
    log = exchange(answer=REPLY | {"content": [PART]})
    path = written(tmp_path, log, log, {"messages": 5})
    logs_of(Config(demos=str(path), arms=["base"], skip_bad=True), seed=0)
    logger.remove(sink)
    assert said == [
        f"--demos {path}: 2 x content in parts, joined as they stand; 1 bad line left out\n"
    ]


def test_content_thought_reaches_training(tmp_path):
    log = mixed()
    del log["messages"][2]["reasoning_content"]
    cfg = Config(demos=str(written(tmp_path, log)), arms=["base"])
    assert logs_of(cfg, 0)[0][0].steps[0].thought is None
    assert logs_of(replace(cfg, content="thought"), 0)[0][0].steps[0].thought == "This way, please."


def test_the_page_about_logs_names_every_format_and_only_flags_that_exist():
    page = (ROOT / "docs" / "logs.md").read_text(encoding="utf-8")
    for name in ("ShareGPT", "ATIF", "batch", "preference", "chat"):
        assert name in page
    for flag in re.findall(r"--[a-z][a-z-]+", page):
        assert flag[2:].replace("-", "_") in {*Logs.__annotations__, *Config.__annotations__}


def test_what_a_template_cannot_write_is_told_of_each_log(tmp_path, capsys):
    """Llama's has one call a turn."""
    words = tokenizer("llama3_1")
    words.save_pretrained(tmp_path / "words")
    both = line("Rome")
    both["messages"][2]["tool_calls"] *= 2
    path = written(tmp_path, line("Oslo"), both, line("Bern"), both)
    code, out, error = shown(path, "--model", tmp_path / "words", capsys=capsys)
    assert code == 2 and "mend the bad lines (2)" in error
    assert "logs        2 of 2 tasks" in out and "one tool call a turn" in out
    assert f"{path}, line 2, message 2; {path}, line 4, message 2" in out
    code, out, _ = shown(path, "--model", tmp_path / "words", "--skip-bad", capsys=capsys)
    assert code == 0 and "logs        2 of 2 tasks" in out


def test_training_refuses_what_its_template_cannot_write_or_leaves_it_out(tmp_path, capsys):
    both = line("Rome")
    both["messages"][2]["tool_calls"] *= 2
    logs = [from_chat({**log, "task": f"t{i}"}) for i, log in enumerate([line("Oslo"), both])]
    cfg = Config(demos="mine.jsonl", model="llama", instruction="none", context=9999)
    prompter = make_prompter(tokenizer("llama3_1"), cfg, tools=logs[0].tools)
    with pytest.raises(SystemExit):
        fitting_demos(measured(logs, prompter.chat), prompter, cfg)
    error = capsys.readouterr().err
    assert "the log of task 't1', message 2 (assistant): " in error and "--skip-bad" in error
    skipping = replace(cfg, skip_bad=True)
    assert [
        demo.task for demo in fitting_demos(measured(logs, prompter.chat), prompter, skipping)
    ] == ["t0"]
    with pytest.raises(SystemExit):
        fitting_demos(measured(logs[1:], prompter.chat), prompter, skipping)
    assert "can write none of 1 logs" in capsys.readouterr().err


def test_an_action_for_which_there_are_too_few_tokens_is_told(said):
    cfg = Config(demos="mine.jsonl", model="llama", instruction="none", context=9999)
    prompter = make_prompter(tokenizer("llama3_1"), cfg, tools=[])
    logs = measured([from_chat(TEXT)], prompter.chat)
    tags = len(prompter.chat.act) + len(prompter.chat.act_end)
    longest = max(logs[0].actions) + tags
    for limit, told in ((longest, 0), (longest - 1, 1)):
        fitting_demos(logs, prompter, replace(cfg, action_tokens=limit))
        assert sum("longer than --action-tokens" in line for line in said) == told


def test_a_form_that_is_not_known_is_refused(tmp_path, capsys):
    code, _, error = shown(written(tmp_path, TEXT), "--to", "csv", "x", capsys=capsys)
    assert code == 2
    assert error == "--to csv: no such form; use --to openai FILE or --to atif FILE\n"


# --- what an agent's traces say, to the letter ----------------------------------------------------


def gemini(result: dict) -> dict:
    parts = [
        ("user", {"text": "where?"}),
        ("model", {"functionCall": {"name": "go", "args": {"to": "hall"}}}),
        ("user", {"functionResponse": {"name": "go", "response": result}}),
        ("model", {"text": "In the hall."}),
    ]
    return {"contents": [{"role": role, "parts": [part]} for role, part in parts]}


def responses(output) -> dict:
    items = [
        {"role": "user", "content": "where?"},
        {"type": "function_call", "call_id": "1", "name": "go", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "1", "output": output},
        {"type": "message", "role": "assistant", "content": [PART | {"type": "output_text"}]},
    ]
    return {"input": items}


def vercel(output) -> dict:
    parts = [
        {"type": "tool-go", "toolCallId": "c", "state": "output-available", "input": {},
         "output": output},
        {"type": "step-start"},
        PART,
    ]  # fmt: skip
    asked = {"role": "user", "parts": [{"type": "text", "text": "where?"}]}
    return {"messages": [asked, {"role": "assistant", "parts": parts}]}


def langchain(content) -> dict:
    call = {"name": "go", "args": {}, "id": "1"}
    return {
        "messages": [
            {"type": "human", "content": "where?"},
            {"type": "ai", "content": "", "tool_calls": [call]},
            {"type": "tool", "tool_call_id": "1", "name": "go", "content": content},
            {"type": "ai", "content": "In the hall."},
        ]
    }


def bedrock(*content: dict) -> dict:
    use = {"toolUse": {"toolUseId": "1", "name": "go", "input": {}}}
    turns = [
        ("user", {"text": "where?"}),
        ("assistant", use),
        ("user", {"toolResult": {"toolUseId": "1", "content": [*content]}}),
        ("assistant", {"text": "In the hall."}),
        ("user", {"text": "thanks"}),
        ("assistant", {"text": "Bye."}),
    ]
    return {"messages": [{"role": role, "content": [block]} for role, block in turns]}


def codex(*events: tuple[str, dict]) -> list[dict]:
    return [{"timestamp": "t", "type": kind, "payload": payload} for kind, payload in events]


def item(role: str, text: str) -> tuple[str, dict]:
    kind = "output_text" if role == "assistant" else "input_text"
    block = {"type": kind, "text": text}
    return "response_item", {"type": "message", "role": role, "content": [block]}


TWEET = {"text": "hello", "likes": 40}
FAILED = {"content": "written", "success": False}
HEAT = {"type": "fahrenheit", "value": 70}
PICTURE = {"image": {"format": "png", "source": {"bytes": "iVBORw0KGgo="}}}


@pytest.mark.parametrize(
    ("log", "result"),
    [
        *[
            (form(returned), json.dumps(returned))
            for form in (gemini, responses, vercel, langchain)
            for returned in (TWEET, FAILED, HEAT)
        ],
        (langchain([TWEET, TWEET]), json.dumps([TWEET, TWEET])),
        (gemini({"text": "hello"}), "hello"),
        (responses([{"type": "output_text", "text": "a"}, {"type": "text", "text": "b"}]), "a\nb"),
        (vercel({"type": "json", "value": TWEET}), json.dumps(TWEET)),
        (vercel({"type": "text", "value": "hello"}), "hello"),
        (bedrock({"text": "see"}, {"json": TWEET}), f"see\n{json.dumps(TWEET)}"),
        (bedrock({"text": "see"}, PICTURE), "see\n[image]"),
        (bedrock({"json": {"image": "a.png"}}), '{"image": "a.png"}'),
    ],
)
def test_what_a_tool_returned_is_whole_and_only_a_block_is_opened(log, result, read):
    (demo,), report = read(log)
    (answer,) = (m["content"] for m in demo.messages if m["role"] == "tool")
    assert answer == result and not report.problems
    unseen = any("images" in note for note in report.normalised)
    assert unseen == (result == "see\n[image]")


def test_a_result_that_comes_late_is_not_that_of_a_later_call():
    def called(*ids: str) -> dict:
        return calling(tool_calls=[{**CALL, "id": i, "function": GO | {"name": i}} for i in ids])

    def result(i: str) -> dict:
        return {"role": "tool", "tool_call_id": i, "content": f"of {i}"}

    behind = "answers that come behind a later call, left there"
    for late in ([result("a")], [result("a"), result("c")]):
        messages = [USER, called("a", "b"), result("b"), called("c"), *late, REPLY]
        log, notes = noted({"messages": messages, "tools": TOOLS})
        answers = [m for m in log["messages"] if m["role"] == "tool"]
        assert {m["tool_call_id"]: m["content"] for m in answers} == {
            i: f"of {i}" for i in ("a", "b", "c")[: len(late) + 1]
        }
        assert answers[-1]["name"] == "a" and notes[behind] == 1
        assert "answers to no call" not in notes


def test_a_result_without_an_id_is_given_that_of_the_call_of_its_name():
    calls = [{"type": "function", "function": GO | {"name": name}} for name in "ab"]
    tool = {"role": "tool", "content": "x", "name": "b"}
    log = {"messages": [USER, calling(tool_calls=calls), tool, REPLY], "tools": TOOLS}
    made = to_openai(from_chat(log))["messages"]
    assert made[2]["tool_call_id"] == made[1]["tool_calls"][1]["id"]


def test_two_calls_of_one_response_of_openhands_are_one_turn(read):
    calls = [{"id": f"t{i}", "function": {"name": "run", "arguments": "{}"}} for i in (0, 1)]
    response = {"id": "r", "choices": [{"message": {"tool_calls": calls}}]}
    events = [{"source": "user", "action": "message", "args": {"content": "do"}, "id": 0}]
    for i in (0, 1):
        metadata = {"function_name": "run", "tool_call_id": f"t{i}", "model_response": response}
        events += [
            {"id": 2 * i + 1, "source": "agent", "action": "run",
             "args": {"thought": "" if i else "both"}, "tool_call_metadata": metadata},
            {"id": 2 * i + 2, "source": "agent", "observation": "run", "content": f"o{i}",
             "cause": 2 * i + 1, "tool_call_metadata": metadata},
        ]  # fmt: skip
    done = {"source": "agent", "action": "message", "args": {"content": "Done."}, "id": 5}
    (demo,), _ = read([*events, done])
    assert actions([demo]) == [[joined("", [{"name": "run", "arguments": {}}] * 2), "Done."]]
    assert [m["content"] for m in demo.steps[1].state] == ["o0", "o1"]
    assert demo.steps[0].thought == "both"


def inspect(*blocks: dict) -> dict:
    asked = {"role": "user", "content": "q", "source": "input"}
    said = {"role": "assistant", "source": "generate", "content": [*blocks, PART]}
    return {"id": "s", "epoch": 1, "input": "q", "target": "t", "messages": [asked, said]}


def reasoned(**fields) -> dict:
    said = {"type": "message", "role": "assistant", "content": [PART | {"type": "output_text"}]}
    return {"input": "q", "output": [{"type": "reasoning", "id": "r", **fields}, said]}


SECRET = {"type": "reasoning", "reasoning": "gAAA"}
SUMMARY = [{"type": "summary_text", "text": "short"}]


@pytest.mark.parametrize(
    ("log", "thought"),
    [
        (inspect({**SECRET, "summary": "I look.", "redacted": True}), "I look."),
        (inspect({**SECRET, "redacted": True}), None),
        (inspect({**SECRET, "summary": "I look.", "redacted": False}), "gAAA"),
        (reasoned(summary=SUMMARY, content=[{"type": "reasoning_text", "text": "all of it"}]),
         "all of it"),
        (reasoned(summary=SUMMARY, content=None), "short"),
    ],
)  # fmt: skip
def test_a_thought_is_the_text_in_full_and_never_its_cipher(log, thought, read):
    (demo,), _ = read(log)
    assert [step.thought for step in demo.steps] == [thought]


def test_a_call_that_the_provider_answers_keeps_its_result(read):
    use = {"type": "tool_use", "tool_type": "web_search", "id": "w", "name": "web_search",
           "arguments": "{}"}  # fmt: skip
    (demo,), _ = read(inspect({**use, "result": "FOUND 42"}))
    assert [m["content"] for m in demo.messages] == ["q", None, "FOUND 42", "In the hall."]
    assert demo.messages[2]["tool_call_id"] == "w"


CUT = "not learned: thoughts that are cut off, shown as text"


@pytest.mark.parametrize(
    "text", ["<think>\nI count: 1, 2", " [THINK]so", "<|channel|>analysis<|message|>so"]
)
def test_a_thought_that_is_cut_off_is_a_flaw_and_not_an_action(text):
    cut = REPLY | {"content": text}
    log, notes = noted({"messages": [USER, cut, USER, REPLY]})
    assert log["messages"][1]["weight"] == 0 and notes[CUT] == 1
    assert actions([from_chat(log)]) == [["In the hall."]]
    with pytest.raises(ValueError, match="its thought was cut off"):
        from_chat({"messages": [USER, cut]})
    tool = {"role": "tool", "tool_call_id": "c1", "content": "x"}
    log, _ = noted({"messages": [USER, calling(content=text), tool, REPLY]})
    assert [m["role"] for m in log["messages"]] == ["user", "assistant", "user", "assistant"]


XML = "<refund>\n<reason>damaged</reason>\n</refund>"


@pytest.mark.parametrize(
    ("text", "thought", "action"),
    [
        (f"Here:\n```xml\n{XML}\n```\nSend it.", None, None),
        (XML, None, None),
        ("Here:\n```\n<think>a</think>\n<b/>\n```\nSend it.", None, None),
        (f"<think>I write {XML}</think>\nSent.", f"I write {XML}", "Sent."),
        ("<reason>it is near</reason>\nSent.", "it is near", "Sent."),
        ("Sure. <think>I look.</think> sun", "I look.", "Sure. sun"),
        ("New price: <s>10 EUR</s>", None, None),
        ("In the hall.</s>", None, "In the hall."),
    ],
)
def test_tags_that_are_of_the_answer_stay_in_it(text, thought, action):
    (step,) = from_chat(exchange(answer=REPLY | {"content": text})).steps
    assert (step.thought, step.action) == (thought, action or text)


def nulled(schema, arguments: str = '{"to": null, "price": 129.90, "n": 1e5}', **fields) -> str:
    """These arguments of a call as they are read, where a tool's "to" has this schema."""
    properties = {"price": {"type": "number"}, "n": {"type": "number"}}
    properties |= {} if schema is None else {"to": schema}
    parameters = {"type": "object", "properties": properties, **fields}
    tool = {"type": "function", "function": {"name": "go", "parameters": parameters}}
    answer = calling({"name": "go", "arguments": arguments})
    log, _ = noted(exchange(answer=answer, tools=[tool]))
    return log["messages"][1]["tool_calls"][0]["function"]["arguments"]


@pytest.mark.parametrize(
    "schema",
    [{"type": "string", "nullable": True}, {}, {"$ref": "#/$defs/A"}, {"enum": ["a", None]},
     {"type": ["string", "null"]}, {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/A"}]}, True],
)  # fmt: skip
def test_a_null_that_the_schema_may_allow_stays(schema):
    assert nulled(schema).startswith('{"to": null')
    assert nulled(None, additionalProperties=True).startswith('{"to": null')


@pytest.mark.parametrize(
    "schema",
    [{"type": "string"}, {"enum": ["a"]}, {"anyOf": [{"type": "string"}, {"type": "integer"}]},
     None],
)  # fmt: skip
def test_a_null_that_the_schema_forbids_goes_and_numbers_keep_their_spelling(schema):
    assert nulled(schema) == '{"price": 129.90, "n": 1e5}'


def claude(uuid: str, parent: str | None, role: str, content, **fields) -> dict:
    message = {"role": role, "content": content}
    event = {"uuid": uuid, "parentUuid": parent, "type": role, "sessionId": "s"}
    return {**event, "isSidechain": False, "message": message, **fields}


def test_agents_of_claude_code_without_ids_are_logs_of_their_own(read):
    events = [claude("u", None, "user", "two things"), claude("a", "u", "assistant", "All done.")]
    for name in ("A", "B"):
        events += [
            claude(f"{name}1", None, "user", f"Task {name}", isSidechain=True),
            claude(f"{name}2", f"{name}1", "assistant", f"{name} done.", isSidechain=True),
        ]
    demos, report = read(*events)
    assert actions(demos) == [["All done."], ["A done."], ["B done."]]
    assert not any("went back" in note for note in report.normalised)


def test_what_a_user_of_claude_code_says_in_mid_turn_is_read(read):
    queued = {"type": "queued_command", "prompt": "also delete b.py"}
    beside = {"uuid": "x", "parentUuid": "r", "type": "attachment", "sessionId": "s"}
    use = {"type": "tool_use", "id": "t", "name": "Bash", "input": {}}
    (demo,), report = read(
        claude("u", None, "user", "fix it"),
        claude("a", "u", "assistant", [use]),
        claude("r", "a", "user", [{"type": "tool_result", "tool_use_id": "t", "content": "ok"}]),
        {**beside, "attachment": queued},
        {**beside, "uuid": "y", "attachment": {"type": "todo_reminder", "content": []}},
        claude("b", "x", "assistant", "Deleted."),
    )
    assert [m["content"] for m in demo.steps[1].state] == ["ok", "also delete b.py"]
    assert report.normalised["attachments of Claude Code, left out: todo_reminder"] == 1


SHORTER = "events behind a summary of the conversation, left out"
DO = {"id": 0, "source": "user", "action": "message", "args": {"content": "do"}}
DONE = {"source": "agent", "action": "message", "args": {"content": "Done."}}


def spoken(role: str, text: str) -> dict:
    """A message as an event of OpenHands' SDK."""
    message = {"role": role, "content": [{"type": "text", "text": text}]}
    source = "agent" if role == "assistant" else role
    return {"id": text, "kind": "MessageEvent", "source": source, "llm_message": message}


@pytest.mark.parametrize(
    ("events", "later", "left_out"),
    [
        (codex(item("user", "do"), item("assistant", "Done."), ("compacted", {"message": "short"}),
               item("assistant", "Again.")), [], 2),
        ([DO, DONE, {"source": "agent", "action": "condensation", "args": {}}, DONE],
         [["Done."]], 0),
        ([spoken("user", "do"), spoken("assistant", "Done."), {"kind": "Condensation", "id": "4"},
          spoken("assistant", "Again.")], [["Again."]], 0),
    ],
)  # fmt: skip
def test_behind_a_summary_no_answer_is_learned_from_what_its_model_did_not_see(
    events, later, left_out, read
):
    demos, report = read(*events)
    assert actions(demos) == [["Done."], *later] and report.normalised[SHORTER] == left_out


def test_turns_that_a_user_of_codex_took_back_are_refused_in_a_sentence(read):
    back = ("event_msg", {"type": "thread_rolled_back", "num_turns": 1})
    turns = [item("user", "wrong"), item("assistant", "bad"), back, item("user", "right")]
    _, report = read(*codex(*turns, item("assistant", "good")))
    (problem,) = report.problems
    assert problem.reason.endswith("delete their lines and thread_rolled_back")


def test_a_table_with_dates_and_decimal_numbers_is_read_and_shown(tmp_path, capsys):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    row = {**TEXT, "created_at": datetime(2026, 1, 2), "cost": Decimal("1.20")}
    row["task_id"] = Decimal(12)
    del row["tools"]
    parquet.write_table(arrow.Table.from_pylist([row]), tmp_path / "logs.parquet")
    code, out, _ = shown(tmp_path / "logs.parquet", capsys=capsys)
    assert code == 0 and "created_at: " in out and '"2026-01-02 00:00:00"' in out
    reading = Reading(keep=["cost>=1.1"], drop=["created_at", "cost"])
    demos, _ = read_demos(str(tmp_path / "logs.parquet"), reading)
    assert len(demos) == 1


def test_a_table_with_bytes_and_no_numbers_is_read(tmp_path):
    """Some programs write texts as bytes; NaN is null in tables as it is in lines."""
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    made = {"role": "assistant", "content": "", "tool_calls": [{"function": None}]}
    made["tool_calls"][0]["function"] = {"name": "go", "arguments": {"to": float("nan"), "by": 1.5}}
    called = {"messages": [USER, made, {"role": "tool", "content": "ok"}, REPLY]}
    texts = {"prompt": b"hall?", "completion": "é".encode()}
    for row, asked in ((texts, ["é"]), (called, [None, "In the hall."])):
        parquet.write_table(arrow.Table.from_pylist([row]), tmp_path / "logs.parquet")
        demos, report = read_logs(tmp_path / "logs.parquet")
        said = [one["content"] for one in demos[0].messages if one["role"] == "assistant"]
        assert said == asked and not report.problems
    assert actions(demos)[0][0] == joined("", [{"name": "go", "arguments": {"by": 1.5}}])
    assert any("values with NaN" in note for note in report.normalised)
    # as a reader of one's own may give it
    reply = from_chat({"messages": [USER, made, USER, REPLY]}).messages[1]
    assert reply["weight"] == 0 and "NaN" in reply["content"]
