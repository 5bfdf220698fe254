"""What people's own files showed: exports of Langfuse, requests that are a text, rules, tools and
answers in odd places. Each was lost, doubled or learned wrongly once."""

import json

import pytest

from minprm.logs.books import Reading
from minprm.logs.reader import read_logs

ASKED = {"role": "user", "content": "Weather in Bern?"}
SUNNY = {"role": "assistant", "content": "Sunny."}
CITY = {"type": "object", "properties": {"city": {"type": "string"}}}
FLAT = {"type": "function", "name": "look", "parameters": CITY}  # as OpenAI's Responses have it
VERCELS = {"toolCallId": "c1", "toolName": "look", "input": '{"city":"Bern"}'}
CALLED = [("look", {"city": "Bern"})]


def generation(asked, answered, **fields) -> dict:
    """An observation of Langfuse."""
    return {"id": "1", "traceId": "t", "type": "GENERATION", "input": asked, "output": answered,
            **fields}  # fmt: skip


def said(demo) -> list[str]:
    return [f"{message['role']}: {message['content']}" for message in demo.messages]


def calls(demo) -> list[tuple[str, dict]]:
    """(name, arguments) of each call in a log."""
    made = [call for message in demo.messages for call in message.get("tool_calls", ())]
    functions = [call["function"] for call in made]
    return [(one["name"], json.loads(one["arguments"])) for one in functions]


def names(demo) -> list[str]:
    return [tool["function"]["name"] for tool in demo.tools]


# --- Langfuse -------------------------------------------------------------------------------------


@pytest.mark.parametrize("as_text", [False, True])
def test_a_call_of_vercels_that_says_no_type_is_a_call(as_text, read):
    answered = [VERCELS]
    (demo,), _ = read(generation([ASKED], json.dumps(answered) if as_text else answered))
    assert calls(demo) == CALLED and names(demo) == ["look"]


@pytest.mark.parametrize("asked", [
    {"prompt": "Weather in Bern?"}, {"model": "g", "contents": "Weather in Bern?"}, ASKED,
])  # fmt: skip
def test_a_request_that_is_json_as_text_is_the_request(asked, read):
    for written in (asked, json.dumps(asked)):
        (demo,), _ = read(generation(written, "Sunny."))
        assert said(demo) == ["user: Weather in Bern?", "assistant: Sunny."]


@pytest.mark.parametrize("asked", [
    {"prompt": "a cat", "style": "ink"}, {"city": "Bern"}, {"args": [1, 2]},
    {"title": "Dune", "language": "en", "contents": "Long text"}, {"messages": 12, "label": "in"},
])  # fmt: skip
def test_json_that_its_user_says_stays_what_was_said(asked, read):
    (demo,), _ = read(generation(json.dumps(asked), "Sunny."))
    assert said(demo)[0] == f"user: {json.dumps(asked)}"


def test_a_text_that_python_was_called_with_is_the_question(read):
    for kwargs in ({}, {"kwargs": {}}):
        (demo,), _ = read(generation(json.dumps({"args": ["What?"], **kwargs}), "Sunny."))
        assert said(demo)[0] == "user: What?"
    called = {"args": [], "kwargs": {"messages": [ASKED]}}
    (demo,), _ = read({"input": called, "output": "Sunny."})
    assert said(demo)[0] == "user: Weather in Bern?"


@pytest.mark.parametrize("as_text", [False, True])
def test_rules_and_tools_are_read_from_the_attributes_of_a_span(as_text, read):
    rules = json.dumps([{"type": "text", "content": "Answer in French."}])
    tools = json.dumps([FLAT])
    attributes = {"gen_ai.system_instructions": rules, "gen_ai.tool.definitions": tools,
                  "gen_ai.input.messages": json.dumps([ASKED])}  # fmt: skip
    metadata = {"attributes": attributes}
    log = generation([ASKED], SUNNY, metadata=json.dumps(metadata) if as_text else metadata)
    (demo,), _ = read(log)
    assert said(demo)[0] == "system: Answer in French." and names(demo) == ["look"]


def test_tools_that_stand_as_texts_in_metadata_are_read(read):
    (demo,), _ = read(generation([ASKED], SUNNY, metadata={"tools": [json.dumps(FLAT)]}))
    assert names(demo) == ["look"] and demo.tools[0]["function"]["parameters"] == CITY


def test_the_name_of_a_provider_is_no_rule(read):
    (demo,), _ = read(generation([ASKED], SUNNY, modelParameters={"system": "openai.responses"}))
    assert said(demo)[0].startswith("user")


def test_what_langfuse_says_again_is_read_once(read):
    block = {"type": "tool_use", "id": "c1", "name": "look", "input": {"city": "Bern"}}
    answered = {"role": "assistant", "content": [block]}
    beside = {"toolCalls": ['{"id":"c1"}'], "toolCallNames": ["look"],
              "toolDefinitions": {"look": '{"description":"x"}'},
              "providedCostDetails": {"input": 0.1}}  # fmt: skip
    (demo,), _ = read(generation([ASKED], answered, **beside))
    assert calls(demo) == CALLED and demo.tools[0]["function"]["description"] == "x"


def test_of_generations_around_each_other_the_calls_are_read(read):
    """The outer one has the question and the last answer alone, as if no tool had been called."""
    inner = generation([ASKED], [VERCELS], id="2", parentObservationId="span")
    span = {"id": "span", "traceId": "t", "type": "SPAN", "parentObservationId": "1"}
    around = generation({"prompt": "Weather in Bern?"}, "Sunny.")
    answered = [ASKED, {"role": "assistant", "content": [{"type": "tool-call", **VERCELS}]},
                {"role": "tool", "tool_call_id": "c1", "content": "sunny"}]  # fmt: skip
    last = generation(answered, "Sunny.", id="3", parentObservationId="span")
    (demo,), report = read({"observations": [around, span, inner, last]})
    assert calls(demo) == CALLED and said(demo)[-1] == "assistant: Sunny."
    assert report.normalised["spans around calls that say the same, left out"] == 1


def test_what_an_inner_call_did_not_say_stays(read):
    """A guard, or an agent that another one calls, is asked the same and answers otherwise."""
    rules = {"role": "system", "content": "You are a helpful bot."}
    around = generation([rules, ASKED], "Sunny.")
    guard = generation([rules, ASKED], "safe", id="2", parentObservationId="1")
    failed = generation([rules, ASKED], "429", id="3", parentObservationId="1", level="ERROR",
                        statusMessage="429")  # fmt: skip
    for inner, logs in ((guard, 2), (failed, 1)):
        demos, _ = read({"observations": [around, inner]})
        assert len(demos) == logs
    # ids are those of a trace
    of_others = [one | {"traceId": "other"} for one in (around, guard | {"output": "Sunny."})]
    assert len(read(around, *of_others)[0]) == 2


def test_messages_with_the_id_of_a_trace_are_no_spans(read):
    made = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    answered = {"type": "tool", "role": "tool", "tool_call_id": "c1", "content": "z"}
    lines = [line | {"trace_id": "x"} for line in (ASKED, made, answered, SUNNY)]
    for rows in (lines, [lines]):
        (demo,), _ = read(*rows)
        assert said(demo)[2] == "tool: z"
    of_a_model = {"type": "llm", "trace_id": "x", "messages": [ASKED, SUNNY]}
    assert len(read(of_a_model)[0]) == 1


def test_a_damaged_trace_whose_spans_go_round_is_read(read):
    around_itself = generation([ASKED], "Sunny.", parentObservationId="1")
    spans = [{"id": "x", "traceId": "t", "type": "SPAN", "parentObservationId": "y"},
             {"id": "y", "traceId": "t", "type": "SPAN", "parentObservationId": "x"}]  # fmt: skip
    round_about = [generation([ASKED], "A.", parentObservationId="x"), *spans]
    for observations in ([around_itself], round_about):
        assert len(read({"observations": observations})[0]) == 1


def test_a_generation_without_a_question_is_left_out(read):
    trace = {"observations": [generation(None, None, id="0"), generation([ASKED], "Sunny.")]}
    demos, report = read(trace)
    assert len(demos) == 1 and not report.problems


@pytest.mark.parametrize("events", [3, "3", [3], {"n": 3}])
def test_events_beside_a_prompt_are_no_damage(read, events):
    (demo,), report = read({"prompt": "q", "completion": "a", "events": events})
    assert said(demo) == ["user: q", "assistant: a"] and not report.problems


def test_a_span_of_vercels_is_a_call_of_a_model(read):
    attributes = {"ai.prompt.messages": json.dumps([ASKED]), "ai.response.text": "I look.",
                  "ai.response.toolCalls": json.dumps([VERCELS]),
                  "ai.prompt.tools": [json.dumps(FLAT)]}  # fmt: skip
    (demo,), _ = read({"spans": [{"name": "doGenerate", "attributes": attributes}]})
    assert said(demo)[1] == "assistant: I look." and calls(demo) == CALLED
    assert names(demo) == ["look"]


# --- requests and answers -------------------------------------------------------------------------


def test_tools_that_a_response_says_again_are_tools_once(read):
    said_again = {"type": "message", "role": "assistant",
                  "content": [{"type": "output_text", "text": "Sunny."}]}  # fmt: skip
    response = {"object": "response", "output": [said_again], "tools": [FLAT | {"strict": True}]}
    (demo,), _ = read({"request": {"input": "Weather?", "tools": [FLAT]}, "response": response})
    assert names(demo) == ["look"] and "strict" not in demo.tools[0]["function"]


@pytest.mark.parametrize("key", ["messages", "history"])
def test_rules_and_answer_beside_a_history_are_part_of_the_log(key, read):
    (demo,), _ = read(
        {"system_prompt": "In French.", key: [ASKED, SUNNY, ASKED], "response": "No."}
    )
    assert said(demo)[0] == "system: In French." and said(demo)[-1] == "assistant: No."


def test_the_rules_of_a_row_of_verifiers_are_its_rules(read):
    """And what else a row holds may be of the environment."""
    row = {"prompt": "Q?", "completion": "A.", "reward": 1.0, "response": "B.", "answer": "A"}
    (demo,), _ = read({"system_prompt": "In French.", **row})
    assert said(demo) == ["system: In French.", "user: Q?", "assistant: A."]


def test_a_question_beside_a_history_is_refused_where_nothing_says_what_it_is(read):
    demos, report = read({"history": [ASKED, SUNNY], "query": "Tomorrow?", "answer": "Rain."})
    assert not demos and "query" in report.problems[0].reason


@pytest.mark.parametrize("name", ["system_prompt", "system_instruction", "messages", "tool_calls"])
def test_metadata_that_is_json_as_text_is_looked_into(name, read):
    for metadata in ({name: "x"}, json.dumps({name: "x"})):
        demos, report = read({"messages": [ASKED, SUNNY], "metadata": metadata})
        assert not demos and f"metadata.{name}" in report.problems[0].reason


@pytest.mark.parametrize("settings", ["toolConfig", "tool_config"])
def test_how_gemini_calls_is_no_tool(settings, read):
    mode = {settings: {"functionCallingConfig": {"mode": "AUTO"}}}
    (demo,), _ = read({"messages": [ASKED, SUNNY], **mode})
    assert demo.tools == []


def test_an_answer_that_says_it_calls_and_holds_no_call_is_not_learned(read):
    text = {"role": "assistant", "content": '[{"function": {"name": "look"}}]'}
    broken = {"choices": [{"finish_reason": "tool_calls", "message": text}]}
    _, report = read({"messages": [ASKED], "response": broken})
    assert "holds none" in report.problems[0].reason
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    whole = {"choices": [{"finish_reason": "tool_calls", "message": text | {"tool_calls": [call]}}]}
    (demo,), _ = read({"messages": [ASKED], "response": whole})
    assert demo.steps[0].learned and calls(demo) == [("look", {})]


@pytest.mark.parametrize(("field", "content"), [
    ({"title": "List files"}, ""), ({"metrics": {"errors": 3}}, ""), ({"result": 0}, "0"),
    ({"result": False}, "false"), ({"is_error": True}, ""), ({"info": {"duration_ms": 3}}, ""),
])  # fmt: skip
def test_what_a_program_notes_of_an_answer_is_not_the_answer(field, content, read):
    (demo,), _ = read(exchange(CALL, **field))
    assert said(demo)[2] == f"tool: {content}"


def test_what_a_message_says_in_two_places_is_not_lost(read):
    invocation = {"state": "result", "toolCallId": "c1", "toolName": "look", "args": {},
                  "result": "sun"}  # fmt: skip
    parts = [{"type": "tool-invocation", "toolInvocation": invocation}]
    (demo,), _ = read({"messages": [{**ASKED, "parts": []}, {**SUNNY, "parts": parts}]})
    assert calls(demo) == [("look", {})] and said(demo)[2:] == ["tool: sun", "assistant: Sunny."]
    for text, is_read in (("Sunny.", True), ("Rain.", False)):
        demos, report = read({"messages": [ASKED, {**SUNNY, "text": text}]})
        assert bool(demos) == is_read
        assert is_read or '"text" of a message of the assistant' in report.problems[0].reason
    two = [{"from": "human", "value": "a", "content": "b"}, {"from": "gpt", "value": "Sunny."}]
    _, report = read({"conversations": two})
    assert '"value" of a message of the user' in report.problems[0].reason


@pytest.mark.parametrize("asked_for", [
    {"response_format": {"json_schema": {"schema": FLAT["parameters"]}}}, {"format": CITY},
    {"text": {"format": {"type": "json_schema", "schema": CITY}}},
])  # fmt: skip
def test_a_schema_of_the_answer_is_no_part_of_the_conversation(asked_for, read):
    asked_for = json.loads(json.dumps(asked_for).replace("city", "reasoning"))
    (demo,), report = read({"messages": [ASKED, {**SUNNY, "citations": [{"text": "Sun"}]}],
                            **asked_for})  # fmt: skip
    assert demo.steps[0].action == "Sunny." and not report.problems


def test_calls_in_the_next_message_of_a_turn_are_its_calls(read):
    text = {"role": "assistant", "content": "I look.", "finish_reason": "tool_calls"}
    thought = {"role": "assistant", "content": None, "reasoning_content": "hm"}
    made = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    answered = {"role": "tool", "tool_call_id": "c1", "content": "ok"}
    for between in ([], [thought]):
        (demo,), report = read({"messages": [ASKED, text, *between, made, answered, SUNNY]})
        assert len(demo.steps) == 2 and calls(demo) == [("look", {})] and not report.problems


def test_an_answer_that_ends_behind_its_tools_answer_is_whole(read):
    made = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    answered = {"role": "tool", "tool_call_id": "c1", "content": "ok"}
    output = {"messages": [made, answered], "finishReason": "tool-calls"}
    (demo,), report = read({"input": [ASKED], "output": output})
    assert calls(demo) == [("look", {})] and not report.problems


def test_an_answer_of_no_call_stays_behind_the_first_question(read):
    session = {"type": "user", "sessionId": "s"}
    result = [{"type": "tool_result", "tool_use_id": "t1", "content": "a.txt"}]
    (demo,), _ = read(
        {**session, "uuid": "1", "message": {"role": "user", "content": "List."}},
        {**session, "uuid": "3", "message": {"role": "user", "content": result}},
        {**session, "uuid": "4", "type": "assistant",
         "message": {"role": "assistant", "content": [{"type": "text", "text": "One file."}]}},
    )  # fmt: skip
    assert said(demo) == ["user: List.", "tool: a.txt", "assistant: One file."]


def test_what_else_a_step_of_atif_holds_is_no_part_of_its_message(read):
    steps = [{"step_id": 1, "source": "user", "message": "a"},
             {"step_id": 2, "source": "agent", "message": "b",
              "extra": {"note": "x", "invocation": {"framework": "y"}, "weight": 0}},
             {"step_id": 3, "source": "agent", "message": "c"}]  # fmt: skip
    (demo,), _ = read({"schema_version": "ATIF-v1.7", "agent": {}, "notes": "x", "steps": steps})
    assert [step.action for step in demo.steps] == ["c"]


# --- calls and their answers ----------------------------------------------------------------------


def exchange(call, **answer) -> dict:
    made = {"role": "assistant", "content": None, "tool_calls": [call]}
    answered = {"role": "tool", "tool_call_id": "c1", "content": "", **answer}
    return {"messages": [ASKED, made, answered, SUNNY]}


CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}


@pytest.mark.parametrize("answer", [
    {"metadata": {"error": "full"}}, {"response_metadata": {"stderr": "full"}},
    {"status": "failed", "reason": "full"}, {"details": "full"}, {"result": "full"},
    {"is_error": "full"}, {"error": {"message": "full"}},
])  # fmt: skip
def test_an_answer_whose_content_is_empty_says_something_elsewhere(answer, read):
    (demo,), _ = read(exchange(CALL, **answer))
    assert said(demo)[2] == "tool: full"


@pytest.mark.parametrize("call", [
    {"id": "c1", "function": "look", "arguments": {"city": "Bern"}},
    {"id": "c1", "tool_name": "look", "tool_input": {"city": "Bern"}},
    {"id": "c1", "function": {"name": "look", "arguments": "{'city': 'Bern'}"}},
    {"id": "c1", "function": {"name": "look", "arguments": "{}", "parameters": {"city": "Bern"}}},
    {"id": "c1", "function": json.dumps({"name": "look", "arguments": {"city": "Bern"}})},
])  # fmt: skip
def test_calls_in_the_notation_of_others_are_calls(call, read):
    (demo,), _ = read(exchange(call))
    assert calls(demo) == CALLED


@pytest.mark.parametrize("family", [{}, {"additional_kwargs": {}}])
def test_calls_and_messages_that_a_table_holds_as_texts_are_read(family, read):
    call = {"id": "c1", "function": {"name": "look", "arguments": {"city": "Bern"}}}
    whole = exchange(call, content="sun")["messages"]
    for written in (json.dumps([call]), [json.dumps(call)]):
        made = {"role": "assistant", "content": None, "tool_calls": written, **family}
        (demo,), report = read({"messages": [ASKED, made, *whole[2:]]})
        assert calls(demo) == CALLED and demo.steps[0].learned
        assert report.written["calls"] == report.written["arguments"] == 1
    (demo,), _ = read({"messages": [*map(json.dumps, whole)]})
    assert calls(demo) == CALLED and said(demo)[2] == "tool: sun"


@pytest.mark.parametrize("text", ["I look.", [{"type": "text", "text": "I look."}], None])
def test_an_answer_without_a_role_keeps_its_calls(text, read):
    call = {"id": "c1", "function": {"name": "look", "arguments": '{"city": "Bern"}'}}
    answer = {"content": text, "tool_calls": [call], "model": "m"}
    for response in (answer, json.dumps(answer), {"choices": [answer | {"index": 0}]}):
        (demo,), report = read({"messages": [ASKED], "response": response})
        assert calls(demo) == CALLED and not report.problems
        assert demo.messages[1]["content"] == (text and "I look.")


@pytest.mark.parametrize("kind", ["agent", "chain", "tool"])
def test_a_row_with_messages_is_a_log_whatever_it_is_called(kind, read):
    (demo,), _ = read({"trace_id": "t", "type": kind, "messages": [ASKED, SUNNY]})
    assert said(demo) == ["user: Weather in Bern?", "assistant: Sunny."]
    demos, report = read({"messages": [ASKED, SUNNY], "observations": [{"text": "It rained."}]})
    assert not demos and '"observations" of a log' in report.problems[0].reason


@pytest.mark.parametrize("answers", [["a", "b"], [{"text": "a"}, {"text": "b"}]])
def test_of_several_answers_the_first_is_read_and_counted(answers, read):
    for key in ("outputs", "completion"):
        (demo,), report = read({"prompt": "Which?", key: answers})
        assert said(demo)[1] == "assistant: a"
        assert report.normalised["requests with several answers, of which the first is read"] == 1


@pytest.mark.parametrize("choices", [
    ["Rain", "Sun"], {"text": ["Rain"], "label": ["A"]}, [{"label": "A", "text": "Rain"}],
])  # fmt: skip
def test_what_a_question_lets_choose_from_is_no_answer(choices, read):
    for log in ({"messages": [ASKED, SUNNY]}, {"prompt": "Weather?"}):
        demos, report = read({**log, "choices": choices})
        assert not demos and '"choices' in report.problems[0].reason


def test_a_call_whose_function_is_a_name_may_have_no_arguments(read):
    for key in ("args", "arguments"):
        (demo,), _ = read(exchange({"id": "c1", "function": "look", key: {}}))
        assert calls(demo) == [("look", {})]


def test_a_block_of_numbers_says_nothing(read):
    """As Microsoft's Agent Framework ends an answer."""
    blocks = [{"type": "text", "text": "Sunny."}, {"type": "usage", "details": {"tokens": 3}}]
    for key in ("content", "contents"):
        (demo,), _ = read({"messages": [ASKED, {"role": "assistant", key: blocks}]})
        assert demo.steps[0].action == "Sunny." and demo.steps[0].learned


def test_a_part_of_a_tools_answer_may_have_its_text_as_content(read):
    (demo,), _ = read(exchange(CALL, content=[{"type": "text", "content": "sun"}]))
    assert said(demo)[2] == "tool: sun"


def test_blocks_that_a_span_holds_as_a_text_are_blocks(read):
    """As OpenLLMetry writes them; JSON that a user says stays a text."""
    blocks = [[{"type": "text", "text": "Weather in Bern?"}],
              [{"type": "text", "text": "I look."},
               {"type": "tool_use", "id": "c1", "name": "look", "input": {"city": "Bern"}}],
              [{"type": "tool_result", "tool_use_id": "c1", "content": "sun"}]]  # fmt: skip
    span = {"gen_ai.completion.0.role": "assistant", "gen_ai.completion.0.content": "Sunny."}
    for i, (role, said_) in enumerate(zip(("user", "assistant", "user"), blocks, strict=True)):
        span[f"gen_ai.prompt.{i}.role"] = role
        span[f"gen_ai.prompt.{i}.content"] = json.dumps(said_)
    (demo,), _ = read({"name": "chat", "attributes": span})
    assert said(demo)[0] == "user: Weather in Bern?" and calls(demo) == CALLED
    assert said(demo)[2:] == ["tool: sun", "assistant: Sunny."]
    span |= {f"gen_ai.prompt.{i}.content": "[1, 2]" for i in range(3)}
    (demo,), _ = read({"name": "chat", "attributes": span})
    assert said(demo)[0] == "user: [1, 2]"


def test_a_preferred_answer_stands_behind_its_conversation(read):
    """As in LLaMA-Factory."""
    pair = {"chosen": {"from": "gpt", "value": "Sunny."}, "rejected": {"from": "gpt", "value": "?"}}
    asked = [{"from": "human", "value": "Weather in Bern?"}]
    for log in ({"conversations": asked}, {"messages": [ASKED]}, {"input": {"messages": [ASKED]}}):
        (demo,), report = read({**log, **pair})
        assert said(demo) == ["user: Weather in Bern?", "assistant: Sunny."]
    for beside, key in (({"history": [ASKED]}, "history"), ({"messages": [SUNNY]}, "messages")):
        _, report = read({**pair, "prompt": "Weather?", **beside})
        assert f'"{key}"' in report.problems[0].reason


def test_what_an_object_says_twice_is_refused_where_it_differs(tmp_path):
    line = '{"messages": [{"role": "user", "content": "a", "content": "%s"}, ' + json.dumps(SUNNY)
    (tmp_path / "logs.jsonl").write_text("".join(line % text + "]}\n" for text in "ab"))
    (demo,), report = read_logs(tmp_path / "logs.jsonl")
    (problem,) = report.problems
    assert said(demo)[0] == "user: a" and 'has "content" twice' in problem.reason
    assert problem.place.endswith("line 2")


def test_pairs_of_a_question_and_its_answer_are_named(read):
    _, report = read({"history": [["q1", "a1"], ["q2", "a2"]]})
    assert "lists and no messages" in report.problems[0].reason


def test_of_two_ids_of_a_call_the_one_counts_that_an_answer_names(read):
    two = [CALL | {"id": "item_1", "call_id": "A"}, CALL | {"id": "item_2", "call_id": "B"}]
    answers = [{"role": "tool", "tool_call_id": name, "content": name} for name in "BA"]
    made = {"role": "assistant", "content": None, "tool_calls": two}
    (demo,), report = read({"messages": [ASKED, made, *answers, SUNNY]})
    assert said(demo)[2:4] == ["tool: A", "tool: B"]
    assert not any("no call" in note for note in report.normalised)


@pytest.mark.parametrize("empty", [
    {"tool_calls": [{"id": None, "function": {"name": None, "arguments": None}}]},
    {"function_call": {"name": None, "arguments": None}},
])  # fmt: skip
def test_the_nulls_of_a_table_are_no_call(empty, read):
    (demo,), report = read({"messages": [ASKED, SUNNY | empty]})
    assert demo.steps[0].action == "Sunny." and not report.problems


def test_nulls_that_no_schema_speaks_of_are_counted(read):
    nulls = CALL | {"function": {"name": "look", "arguments": {"city": "Bern", "isbn": None}}}
    _, report = read(exchange(nulls))
    assert report.normalised["calls with nulls, kept: no schema says whether they are asked for"]


@pytest.mark.parametrize(("key", "schema"), [
    ("args", {"city": {"type": "string"}}), ("inputs", {"city": {"type": "string"}}),
    ("schema", CITY), ("args_schema", CITY), ("json_schema", CITY), ("input_json_schema", CITY),
    ("parameters", [{"name": "city", "type": "string"}]),
    ("parameter_definitions", {"city": {"type": "str", "required": False}}),
    ("inputSchema", {"json": CITY}), ("inputSchema", {"json": json.dumps(CITY)}),
])  # fmt: skip
def test_what_a_tool_takes_is_read_under_other_names(key, schema, read):
    (demo,), _ = read({"messages": [ASKED, SUNNY], "tools": [{"name": "look", key: schema}]})
    properties = demo.tools[0]["function"]["parameters"]["properties"]
    assert properties == {"city": {"type": "string"}}


def test_a_schema_that_is_none_is_no_traceback(read):
    for schema in (5, "x", []):
        (demo,), _ = read(
            {**exchange(CALL), "tools": [{"name": "look", "inputSchema": {"json": schema}}]}
        )
        assert names(demo) == ["look"]


@pytest.mark.parametrize("role", ["system", "developer"])
def test_tools_of_the_rules_are_tools_of_the_log(role, read):
    """As MiniMind writes them."""
    rules = {"role": role, "content": "Look first.", "tools": json.dumps([FLAT])}
    log = exchange({"name": "look", "arguments": {"city": "Bern"}})
    for key in ("messages", "conversations"):
        (demo,), report = read({key: [rules, *log["messages"]]})
        assert calls(demo) == CALLED and demo.tools[0]["function"]["parameters"] == CITY
        assert not any('without "tools"' in note for note in report.normalised)
    _, report = read({"messages": [{**rules, "tools": ["look"]}, *log["messages"]]})
    assert '"tools" of a message of the system' in report.problems[0].reason


def test_what_is_not_read_of_a_tool_without_parameters_is_counted(read):
    tool = {"name": "look", "required_parameters": [{"name": "city"}]}
    _, report = read({"messages": [ASKED, SUNNY], "tools": [tool]})
    assert report.normalised['"required_parameters" of a tool without parameters, left out'] == 1


def test_a_conversation_is_the_beginning_of_another_however_arguments_are_spelled(read):
    spelled = [CALL | {"function": {"name": "look", "arguments": text}}
               for text in ('{"a":1,"b":"é"}', '{"b": "\\u00e9", "a": 1}')]  # fmt: skip
    short = [*exchange(spelled[0])["messages"][:3], SUNNY]
    long = [*exchange(spelled[1])["messages"], ASKED, SUNNY]
    demos, _ = read({"messages": short}, {"messages": long})
    assert len(demos) == 1


# --- thoughts and marks ---------------------------------------------------------------------------


@pytest.mark.parametrize("tags", [
    "<|START_THINKING|>{}<|END_THINKING|>", "<longcat_think>{}</longcat_think>",
    "<unused94>thought\n{}<unused95>", "<|channel>thought\n{}<channel|>",
    "<thinking_process>{}</thinking_process>",
])  # fmt: skip
def test_the_tags_of_other_models_hold_thoughts(tags, read):
    (demo,), _ = read({"messages": [ASKED, SUNNY | {"content": tags.format("I look.") + "Sunny."}]})
    assert (demo.steps[0].thought, demo.steps[0].action) == ("I look.", "Sunny.")


def test_a_thought_between_a_beginning_and_a_call_is_a_thought(read):
    log = exchange(CALL)
    log["messages"][1]["content"] = "Sure. <think>I look.</think>"
    (demo,), _ = read(log)
    assert demo.steps[0].thought == "I look." and demo.steps[0].action.startswith("Sure.\n{")


@pytest.mark.parametrize("end", [
    "<|im_end|>", "<|eot|>", "<|END_OF_TURN_TOKEN|>", "<turn|>",
    "<\uff5cend\u2581of\u2581sentence\uff5c>",
])  # fmt: skip
def test_the_end_of_a_turn_of_every_template_is_no_part_of_an_answer(end, read):
    (demo,), _ = read({"messages": [ASKED, SUNNY | {"content": f"Sunny.{end}"}]})
    assert demo.steps[0].action == "Sunny."


@pytest.mark.parametrize("tag", ["cancel_reason", "final_thoughts", "critical_thinking"])
def test_a_reason_of_its_user_is_no_thought(tag, read):
    reply = f"<{tag}>I moved.</{tag}>Done."
    (demo,), _ = read({"messages": [ASKED, SUNNY | {"content": reply}]})
    assert demo.steps[0].action == reply


@pytest.mark.parametrize("thought", [{"summary": "I look."}, {"content": "I look."}])
def test_a_thought_may_stand_in_an_object(thought, read):
    (demo,), _ = read({"messages": [ASKED, SUNNY | {"reasoning": thought}]})
    assert demo.steps[0].thought == "I look."


def test_a_log_whose_metadata_says_so_is_not_learned(read):
    marked = {"messages": [ASKED, SUNNY], "metadata": {"train": False}}
    others = [{"loss": 0.0}, {"training": "sft-v2"}, {"train": "train"}, {"weight": 0}]
    logs = [{"messages": [ASKED, SUNNY], "task": str(i), "metadata": metadata}
            for i, metadata in enumerate(others)]  # fmt: skip
    demos, report = read(marked, *logs)
    assert len(demos) == len(others) and not report.problems


def test_a_task_may_be_a_number_of_pandas_or_an_object(read):
    rows = [{"task_id": 7.0}, {"task_id": 7}, {"task": {"id": 3}}]
    demos, _ = read(*({"messages": [ASKED, SUNNY], **row} for row in rows))
    assert [demo.task for demo in demos] == ["7", "7", '{"id": 3}']


# --- what a second round showed -------------------------------------------------------------------


def test_what_went_wrong_is_no_answer(read):
    said = "litellm.RateLimitError: 429"
    failed = generation([ASKED], said, level="ERROR", statusMessage=said)
    for rows in ([failed, generation([ASKED], "Sunny.", id="2")], [failed]):
        demos, report = read(*rows)
        assert len(demos) == len(rows) - 1
        assert report.normalised["calls of a model that failed, left out"] == 1


@pytest.mark.parametrize("in_an_array", [False, True])
@pytest.mark.parametrize(("chain", "call"), [
    ({"run_type": "chain", "trace_id": "t"}, {"run_type": "llm", "trace_id": "t"}),
    ({"type": "SPAN", "traceId": "t"}, {"type": "GENERATION", "traceId": "t"}),
    ({"span_attributes": {"type": "task"}, "root_span_id": "t"},
     {"span_attributes": {"type": "llm"}, "root_span_id": "t"}),
])  # fmt: skip
def test_a_chain_says_again_what_a_model_was_asked(chain, call, in_an_array, read):
    rules = {"role": "system", "content": "Be brief."}
    rows = [{"id": "1", "input": {"messages": [ASKED]}, "output": {"messages": [ASKED, SUNNY]}},
            {"id": "2", "input": {"messages": [rules, ASKED]}, "output": SUNNY}]  # fmt: skip
    above = {"parent_run_id": "1", "parentObservationId": "1", "span_parents": ["1"]}
    spans = [rows[0] | chain, rows[1] | call | above]
    (demo,), report = read(spans) if in_an_array else read(*spans)
    assert said(demo)[0] == "system: Be brief."
    assert report.normalised["spans around calls that say the same, left out"] == 1
    (alone,), _ = read(spans[0])  # where no model was observed
    assert said(alone) == ["user: Weather in Bern?", "assistant: Sunny."]


@pytest.mark.parametrize("log", [
    {"prompt": "Q", "completion": "It is cut of", "finish_reason": "length"},
    {"messages": [ASKED, SUNNY], "stop_reason": "max_tokens"},
    {"prompt": "Q", "response": "It is cut of", "status": "truncated"},
])  # fmt: skip
def test_an_answer_that_its_log_says_was_cut_off_is_not_learned(log, read):
    demos, report = read(log)
    assert not demos and "cut off" in report.problems[0].reason


def test_a_log_that_says_it_came_to_its_end_is_learned(read):
    demos, _ = read({"prompt": "Q", "completion": "A", "finish_reason": "stop"})
    assert len(demos) == 1


@pytest.mark.parametrize("document", [
    {"type": "document", "document": {"data": "18C"}},
    {"type": "document", "source": {"type": "text", "data": "18C"}},
])  # fmt: skip
def test_a_document_that_is_text_is_read(document, read):
    log = exchange(CALL, content=[document])
    (demo,), _ = read(log)
    assert said(demo)[2] == "tool: 18C" and len(demo.steps) == 2


@pytest.mark.parametrize("answer", [
    "Action: look\nAction Input: {}\nObservation: X is Y",
    "Let me look.<|im_end|>\n<|im_start|>user\n<tool_response>18C</tool_response>",
])  # fmt: skip
def test_an_answer_that_holds_what_others_said_is_not_learned(answer, read):
    messages = [ASKED, {"role": "assistant", "content": answer}, SUNNY]
    (demo,), _ = read({"messages": messages})
    assert [step.action for step in demo.steps] == ["Sunny."]


@pytest.mark.parametrize("answer", [
    "Use it so:\n```\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n```",
    "`<|im_end|>\n<|im_start|>` separates turns.", "Write Action Input: x\nObservation: y",
    "exitcode: 0 (execution succeeded)",
])  # fmt: skip
def test_an_answer_that_explains_a_format_is_an_answer(answer, read):
    (demo,), report = read({"messages": [ASKED, {"role": "assistant", "content": answer}]})
    assert demo.steps[0].action == answer.strip() and not report.problems


@pytest.mark.parametrize("prompt", ["[INST] what does this tag mean?", "<|im_start|> is of whom?"])
def test_a_question_about_a_template_is_a_question(prompt, read):
    (demo,), _ = read({"prompt": prompt, "completion": "Llama."})
    assert said(demo)[0] == f"user: {prompt}"


@pytest.mark.parametrize("prompt", [
    "<|im_start|>user\n1+1<|im_end|>\n<|im_start|>assistant\n", "<s>[INST] 1+1 [/INST]",
    "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\n1+1<|eot_id|>",
    "<\uff5cbegin\u2581of\u2581sentence\uff5c><\uff5cUser\uff5c>1+1<\uff5cAssistant\uff5c>",
    "<|start|>user<|message|>1+1<|end|><|start|>assistant",
    "[gMASK]<sop><|user|>\n1+1<|assistant|>",
    "<BOS_TOKEN><|START_OF_TURN_TOKEN|><|USER_TOKEN|>1+1<|END_OF_TURN_TOKEN|>",
    "<|im_user|>user<|im_middle|>1+1<|im_end|>", "<|turn>user\n1+1<turn|>\n<|turn>model\n",
    "<|header_start|>user<|header_end|>\n\n1+1<|eot|>",
])  # fmt: skip
def test_a_prompt_that_a_template_wrote_is_no_question(prompt, read):
    demos, report = read({"prompt": prompt, "completion": "2"})
    assert not demos and "chat template" in report.problems[0].reason


def test_roles_that_are_seen_from_the_other_side_are_refused(read):
    """AutoGen 0.2 keeps the conversation of whoever began it: there the model is the user."""
    ran = {
        "role": "assistant",
        "name": "user_proxy",
        "content": "exitcode: 0 (execution succeeded)",
    }
    wrote = {"role": "user", "name": "assistant", "content": "print(1)"}
    first = {"role": "assistant", "name": "user_proxy", "content": "Plot x"}
    demos, report = read({"messages": [first, wrote, ran, wrote]})
    assert not demos and "other side" in report.problems[0].reason


def test_a_null_that_is_a_text_is_no_answer(read):
    demos, _ = read(generation([ASKED], "null"))
    assert not demos


def test_the_header_of_a_session_of_goose_is_no_log(read):
    header = {"working_dir": "/x", "message_count": 2}
    for rows in ([header, ASKED, SUNNY], [header | {"conversation": [ASKED, SUNNY]}]):
        (demo,), report = read(*rows)
        assert len(demo.steps) == 1 and not report.problems


def test_what_stands_in_the_input_of_a_log_can_be_dropped(tmp_path):
    log = {"messages": [ASKED, SUNNY], "input": {"input_content": "Hi"}}
    (tmp_path / "logs.jsonl").write_text(json.dumps(log) + "\n", encoding="utf-8")
    demos, _ = read_logs(tmp_path / "logs.jsonl", Reading(drop=("input.input_content",)))
    assert len(demos) == 1
