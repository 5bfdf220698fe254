"""Logs of coding agents and of frameworks, in the forms that these write today: events, rows of
results, requests. The right answers are worked out by hand from what each program sends its model.
"""

import json

import pytest

from minprm.logs.books import Reading
from minprm.logs.reader import read_logs
from shared.logs import TOOLS, state, steps

ASKED = [{"role": "user", "content": "do A"}]
SHORTER = "events behind a summary of the conversation, left out"


def replies(demos) -> list[list[str]]:
    return [[reply for _, reply, _ in steps(demo)] for demo in demos]


# --- Codex ----------------------------------------------------------------------------------------


def item(role: str, text: str) -> dict:
    return {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}


def response(payload: dict) -> dict:
    return {"timestamp": "t", "type": "response_item", "payload": payload}


def compacted(**payload) -> dict:
    return {"timestamp": "t", "type": "compacted", "payload": {"message": "short", **payload}}


META = {"type": "session_meta", "payload": {"id": "1", "base_instructions": {"text": "Be brief."}}}
TURN = [META, response(item("user", "do A")), response(item("assistant", "A."))]
GOES_ON = [response(item("user", "do B")), response(item("assistant", "B."))]


def test_what_follows_a_new_history_of_codex_is_a_log_of_its_own(read):
    history = [item("user", "do A"), item("user", "short")]
    demos, report = read(*TURN, compacted(replacement_history=history), *GOES_ON)
    assert replies(demos) == [["A."], ["B."]] and SHORTER not in report.normalised
    rules = ("system", "Be brief.")
    assert state(demos[0]) == [rules, ("user", "do A")]
    said = [("user", text) for text in ("do A", "short", "do B")]
    assert state(demos[1]) == [rules, *said]


def test_a_session_of_codex_that_ends_with_its_summary_is_one_log(read):
    demos, report = read(*TURN, compacted(replacement_history=[item("user", "short")]))
    assert replies(demos) == [["A."]] and not report.problems


@pytest.mark.parametrize(
    "history",
    [None, [item("user", "do A"), {"type": "compaction", "encrypted_content": "gAAA"}]],
)
def test_behind_a_history_of_codex_that_cannot_be_read_nothing_is_learned(history, read):
    demos, report = read(*TURN, compacted(replacement_history=history), *GOES_ON)
    assert replies(demos) == [["A."]] and report.normalised[SHORTER] == 3


def test_a_session_of_codex_that_goes_on_another_one_has_its_rules_once(read):
    demos, _ = read(META, *TURN)
    assert state(demos[0]) == [("system", "Be brief."), ("user", "do A")]


# --- OpenHands ------------------------------------------------------------------------------------


def text(said: str) -> list[dict]:
    return [{"type": "text", "text": said}]


def spoken(number: str, role: str, said: str, **fields) -> dict:
    message = {"role": role, "content": text(said)}
    source = "agent" if role == "assistant" else "user"
    event = {"id": number, "kind": "MessageEvent", "source": source, "llm_message": message}
    return event | fields


def called(number: str, command: str) -> list[dict]:
    """An action of OpenHands' SDK, and what was observed."""
    call = {"id": f"c{number}", "name": "go", "arguments": json.dumps({"to": command})}
    names = {"tool_name": "go", "tool_call_id": call["id"]}
    seen = {"content": text(f"saw {command}"), "kind": "GoObservation"}
    return [
        {"id": number, "kind": "ActionEvent", "source": "agent", "tool_call": call, **names},
        {"id": f"o{number}", "kind": "ObservationEvent", "source": "environment",
         "observation": seen, **names},
    ]  # fmt: skip


def forgets(*ids: str, summary: str | None = None) -> dict:
    event = {"kind": "Condensation", "source": "environment", "forgotten_event_ids": list(ids)}
    return event | {"id": "s", "summary": summary}


BEGUN = [spoken("1", "user", "do A"), *called("2", "hall"), *called("3", "attic")]
DONE = spoken("9", "assistant", "Done.")


def test_behind_a_condensation_the_model_goes_on_from_what_was_not_forgotten(read):
    events = [*BEGUN, forgets("2", "o2", summary="Went to the hall."), DONE]
    demos, report = read(events)
    assert SHORTER not in report.normalised
    assert [len(demo.steps) for demo in demos] == [2, 1]
    assert state(demos[1]) == [
        ("user", "do A"),
        ("user", "Went to the hall."),
        ("assistant", '{"name": "go", "arguments": {"to": "attic"}}'),
        ("user", "saw attic"),
    ]
    assert replies(demos)[1] == ["Done."]


def test_of_two_summaries_the_last_one_stands(read):
    first = forgets("2", "o2", summary="Hall.")
    second = forgets("3", "o3", summary="Hall and attic.")
    demos, _ = read([*BEGUN, first, *called("4", "loft"), second, DONE])
    assert [len(demo.steps) for demo in demos] == [2, 1, 1]
    said = [content for _, content in state(demos[2])]
    assert said[:2] == ["do A", "Hall and attic."] and "saw loft" in said


def test_a_condensation_of_older_versions_names_the_first_and_the_last_that_it_forgets(read):
    events = [{"id": 0, "source": "user", "action": "message", "args": {"content": "do A"}}]
    for number in (1, 3):
        run = {"id": number, "source": "agent", "action": "run", "args": {"command": "ls"}}
        seen = {"source": "agent", "observation": "run", "content": f"saw {number}"}
        events += [run, {"id": number + 1, "cause": number, **seen}]
    ends = {"forgotten_events_start_id": 1, "forgotten_events_end_id": 2, "summary": "Looked."}
    done = {"id": 9, "source": "agent", "action": "message", "args": {"content": "Done."}}
    condensed = {"id": 5, "source": "agent", "action": "condensation", "args": ends}
    demos, _ = read([*events, condensed, done])
    assert [len(demo.steps) for demo in demos] == [2, 1]
    assert [content for _, content in state(demos[1])] == [
        "do A", "Looked.", '{"name": "run", "arguments": {"command": "ls"}}', "saw 3",
    ]  # fmt: skip


@pytest.mark.parametrize("forgotten", [[], [forgets("2", "o2", summary="Hall.")]])
def test_a_row_of_openhands_says_its_task_and_how_it_ended(forgotten, read):
    row = {"instance_id": "django-1", "history": [*BEGUN, *forgotten, DONE], "resolved": True}
    demos, _ = read(row, reading=Reading(keep=["resolved"]))
    assert len(demos) == 1 + len(forgotten)
    assert {demo.task for demo in demos} == {"django-1"}
    assert all(demo.outcome == {"resolved": True} for demo in demos)


def test_what_openhands_adds_to_rules_and_messages_is_read_with_them(read):
    rules = {"id": "0", "kind": "SystemPromptEvent", "source": "agent", "tools": []}
    rules |= {"system_prompt": text("Be brief.")[0], "dynamic_context": text("In a house.")[0]}
    asked = spoken("1", "user", "do A", extended_content=text("A skill."))
    demos, _ = read([rules, asked, DONE])
    assert state(demos[0]) == [("system", "Be brief.\nIn a house."), ("user", "do A\nA skill.")]


@pytest.mark.parametrize(
    "fields",
    [
        {"reasoning_content": "Plan."},
        {"thinking_blocks": [{"type": "thinking", "thinking": "Plan.", "signature": "x"}]},
        {"responses_reasoning_item": {"summary": ["Plan."], "encrypted_content": "gAAA"}},
    ],
)
def test_a_thought_of_openhands_is_read_wherever_its_model_put_it(fields, read):
    asked, action, seen, *_ = BEGUN
    said = spoken("9", "assistant", "Done.")
    said["llm_message"] |= fields
    demos, _ = read([asked, action | fields, seen, said])
    assert [thought for thought, _, _ in steps(demos[0])] == ["Plan.", "Plan."]


def test_what_a_model_of_old_openhands_thought_stands_before_the_first_call_of_its_response(read):
    calls = []
    for number in (1, 2):
        function = {"name": "bash", "arguments": json.dumps({"command": f"ls {number}"})}
        calls.append({"id": f"c{number}", "type": "function", "function": function})
    said = {"content": "I look.", "reasoning_content": "Plan.", "tool_calls": calls}
    events = [{"id": 0, "source": "user", "action": "message", "args": {"content": "do A"}}]
    for number, thought in ((1, "I look."), (2, "")):
        metadata: dict = {"function_name": "bash", "tool_call_id": f"c{number}"}
        metadata["model_response"] = {"id": "r", "choices": [{"message": said}]}
        run = {"id": number, "source": "agent", "action": "run", "tool_call_metadata": metadata}
        seen = {"id": number + 2, "source": "agent", "observation": "run", "content": "a"}
        events += [run | {"args": {"thought": thought}}, seen | {"cause": number}]
    demos, _ = read(events)
    ran = [("bash", {"command": "ls 1"}), ("bash", {"command": "ls 2"})]
    assert steps(demos[0]) == [("Plan.\nI look.", "", ran)]


# --- Claude Code, and who writes streams of its shape ---------------------------------------------


def streamed(role: str, said: str, **fields) -> dict:
    """An event of the stream that the program prints, which has no parents."""
    message = {"role": role, "content": text(said), **fields}
    return {"type": role, "message": message, "session_id": "s"}


def test_what_follows_a_summary_in_a_stream_of_claude_code_is_a_log_of_its_own(read):
    boundary = {"type": "system", "subtype": "compact_boundary", "session_id": "s"}
    before = [streamed("user", "do A"), streamed("assistant", "A.")]
    demos, _ = read(*before, boundary, streamed("user", "short"), streamed("assistant", "B."))
    assert replies(demos) == [["A."], ["B."]] and state(demos[1]) == [("user", "short")]


def test_a_session_of_claude_code_that_ends_with_its_summary_is_one_log(read):
    summary = streamed("user", "short") | {"isCompactSummary": True}
    demos, report = read(streamed("user", "do A"), streamed("assistant", "A."), summary)
    assert replies(demos) == [["A."]] and not report.problems


def test_what_claude_code_says_in_the_place_of_its_model_is_not_learned(read):
    own = streamed("assistant", "No response requested.", model="<synthetic>")
    asked = [streamed("user", "do A"), streamed("assistant", "A."), streamed("user", "/cost")]
    demos, _ = read(*asked, own, streamed("user", "do B"), streamed("assistant", "B."))
    assert replies(demos) == [["A.", "B."]]
    assert ("assistant", "No response requested.") in state(demos[0], 1)


def test_a_stream_whose_calls_are_events_is_refused_and_not_read_without_them(read):
    inside = {"readToolCall": {"args": {"path": "a.md"}}}
    call = {"type": "tool_call", "subtype": "started", "session_id": "s", "tool_call": inside}
    asked = [streamed("user", "read it"), streamed("assistant", "I read.")]
    demos, report = read(*asked, call, streamed("assistant", "It is short."))
    assert not demos and "tool_call" in report.problems[0].reason


def test_a_stream_of_gemini_cli_is_refused_and_not_read_as_claude_codes(read):
    turn = {"type": "message", "role": "user", "content": "read it"}
    call = {"type": "tool_use", "tool_name": "read", "tool_id": "1", "parameters": {}}
    for event in (turn, call):
        _, report = read({"type": "init", "session_id": "s", "model": "g"}, event)
        assert "a stream of Cursor or Gemini CLI" in report.problems[0].reason


def test_what_stands_around_the_events_of_a_session_is_of_the_log(read):
    events = [streamed("user", "do A"), streamed("assistant", "A.")]
    (demo,), report = read({"task_id": "t9", "reward": 1, "version": "2", "transcript": events})
    assert (demo.task, demo.outcome) == ("t9", {"reward": 1})
    assert report.normalised['"version" of a log, left out'] == 1
    _, report = read({"notes": "It went well.", "transcript": events})
    assert '"notes" of a log' in report.problems[0].reason
    shown = [{"type": "shown", "payload": {"width": 80}}]
    (demo,), _ = read({"messages": CHAT, "events": shown})
    assert replies([demo]) == replies(read({"messages": CHAT})[0])


# --- SWE-agent ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("said", "thought"), [("I look.", "Plan.\nI look."), ("", "Plan.")])
def test_what_the_model_of_swe_agent_thought_stands_before_what_it_said(said, thought, read):
    call = {"id": "c", "type": "function", "function": {"name": "go", "arguments": "{}"}}
    blocks = [{"type": "thinking", "thinking": "Plan.", "signature": "x"}]
    entry = {"role": "assistant", "content": said, "thought": said, "tool_calls": [call]}
    demos, _ = read({"history": [*ASKED, entry | {"action": "go", "thinking_blocks": blocks}]})
    assert steps(demos[0]) == [(thought, "", [("go", {})])]


@pytest.mark.parametrize("as_text", [False, True])
def test_of_swe_smith_a_thought_that_repeats_the_content_is_learned_once(as_text, read):
    call = {"id": "c", "type": "function", "function": {"name": "go", "arguments": "{}"}}
    said = {"role": "assistant", "content": "I look.", "thought": "I look.", "action": "go"}
    seen = {"role": "tool", "content": "a", "message_type": "observation", "tool_call_ids": ["c"]}
    messages = [*ASKED, said | {"message_type": "action", "tool_calls": [call]}, seen]
    row = {"messages": json.dumps(messages) if as_text else messages, "instance_id": "x"}
    demos, report = read(row | {"resolved": True, "patch": "diff"})
    assert steps(demos[0]) == [("I look.", "", [("go", {})])]
    assert demos[0].messages[-1]["tool_call_id"] == "c" and demos[0].outcome == {"resolved": True}
    assert report.formats == {"SWE-agent": 1}


# --- messages with an envelope around each --------------------------------------------------------

CALLED = {"id": "c", "type": "function", "function": {"name": "go", "arguments": '{"to": "hall"}'}}
WENT = [("Plan.", "I look.", [("go", {"to": "hall"})]), (None, "Done.", [])]
GOOSE = {"role": "assistant", "created": 1, "metadata": {"agentVisible": True}}
ENVELOPES = {
    "opencode": [
        {"info": {"role": "user", "time": {"created": 1}},
         "parts": [*text("do A"), {"type": "file", "mime": "text/plain", "url": "file:///a"}]},
        {
            "info": {"role": "assistant", "cost": 0.1, "tokens": {"input": 5, "output": 7}},
            "parts": [
                {"type": "step-start", "snapshot": "s"},
                {"type": "reasoning", "text": "Plan.", "time": {"start": 1}},
                *text("I look."),
                {
                    "type": "tool",
                    "callID": "c",
                    "tool": "go",
                    "state": {"status": "completed", "input": {"to": "hall"}, "output": "a hall",
                              "title": "Went", "metadata": {"output": "a hall"}},
                },
                {"type": "step-finish", "reason": "tool-calls", "cost": 0.1},
                {"type": "patch", "hash": "x", "files": ["a"]},
            ],
        },
        {
            "info": {"role": "assistant"},
            "parts": [*text("Done."), {"type": "text", "text": "3 s", "ignored": True}],
        },
    ],
    "Goose": [
        GOOSE | {"role": "user", "content": text("do A")},
        GOOSE
        | {
            "content": [
                {"type": "thinking", "thinking": "Plan."},
                *text("I look."),
                {
                    "type": "toolRequest",
                    "id": "c",
                    "toolCall": {"status": "success",
                                 "value": {"name": "go", "arguments": {"to": "hall"}}},
                },
            ]
        },
        GOOSE
        | {
            "role": "user",
            "content": [
                {
                    "type": "toolResponse",
                    "id": "c",
                    "toolResult": {"status": "success",
                                   "value": {"content": text("a hall"), "isError": False}},
                }
            ],
        },
        GOOSE | {"content": text("12 tokens"), "metadata": {"agentVisible": False}},
        GOOSE | {"content": text("Done.")},
    ],
    "LlamaIndex": [
        {"role": "user", "additional_kwargs": {},
         "blocks": [{"block_type": "text", "text": "do A"}]},
        {
            "role": "assistant",
            "additional_kwargs": {"tool_calls": [CALLED]},
            "blocks": [
                {"block_type": "thinking", "content": "Plan."},
                {"block_type": "text", "text": "I look."},
                {"block_type": "tool_call", "tool_call_id": "c", "tool_name": "go",
                 "tool_kwargs": {"to": "hall"}},
            ],
        },
        {"role": "tool", "additional_kwargs": {"tool_call_id": "c"},
         "blocks": [{"block_type": "text", "text": "a hall"}]},
        {"role": "assistant", "blocks": [{"block_type": "text", "text": "Done."}]},
    ],
    "Semantic Kernel": [
        {"content_type": "message", "role": "user",
         "items": [{"content_type": "text", "text": "do A"}]},
        {
            "content_type": "message",
            "role": "assistant",
            "items": [
                {"content_type": "reasoning", "text": "Plan."},
                {"content_type": "text", "text": "I look."},
                {"content_type": "function_call", "id": "c", "name": "go",
                 "function_name": "go", "arguments": '{"to": "hall"}'},
            ],
        },
        {"content_type": "message", "role": "tool",
         "items": [{"content_type": "function_result", "id": "c", "name": "go",
                    "result": "a hall"}]},
        {"content_type": "message", "role": "assistant",
         "items": [{"content_type": "text", "text": "Done."}]},
    ],
    "chat": [
        {"message": ASKED[0], "contextItems": []},
        {"message": {"role": "assistant", "content": "I look.", "toolCalls": [CALLED],
                     "reasoning": "Plan."}},
        {"message": {"role": "tool", "content": "a hall", "toolCallId": "c"}},
        {"role": "assistant", "message": {"content": text("Done.")}},
    ],
}  # fmt: skip


@pytest.mark.parametrize("family", ENVELOPES)
def test_a_message_is_read_without_what_a_program_puts_around_it(family, read):
    demos, report = read({"messages": ENVELOPES[family]})
    assert not report.problems and report.formats == {family: 1}
    assert steps(demos[0]) == WENT and state(demos[0]) == [("user", "do A")]
    seen = demos[0].messages[2]
    assert seen["content"] == "a hall" and seen["tool_call_id"] == "c"
    hidden = "messages that the model does not see, left out"
    assert report.normalised[hidden] == (family == "Goose")


@pytest.mark.parametrize("result", [{"value": text("no hall")}, {"error": "no hall"}])
def test_older_results_of_goose_and_its_errors_are_read(result, read):
    messages = ENVELOPES["Goose"].copy()
    answer = {"type": "toolResponse", "id": "c", "toolResult": {"status": "x", **result}}
    messages[2] = {"role": "user", "content": [answer]}
    demos, _ = read({"messages": messages})
    assert demos[0].messages[2]["content"] == "no hall"


def test_what_a_field_beside_the_content_holds_is_not_left_out_in_silence(read):
    _, report = read([ASKED[0] | {"items": [{"content_type": "text", "text": "do B"}]}])
    assert "items" in report.problems[0].reason


def test_a_session_of_googles_adk_is_its_events_with_content(read):
    said = {
        "role": "model",
        "parts": [
            {"text": "Plan.", "thought": True},
            {"text": "I look."},
            {"functionCall": {"id": "c", "name": "go", "args": {"to": "hall"}}, "text": None},
        ],
    }
    seen = {"id": "c", "name": "go", "response": {"result": "a hall"}}
    contents = [
        ("user", {"role": "user", "parts": [{"text": "do A"}]}),
        ("guide", said),
        ("guide", {"role": "user", "parts": [{"functionResponse": seen}]}),
        ("guide", None),
        ("guide", {"role": "model", "parts": [{"text": "Done."}]}),
    ]
    actions = {"stateDelta": {"place": "hall"}, "artifactDelta": {}}
    events = [{"author": author, "invocationId": "i", "content": content, "actions": actions}
              for author, content in contents]  # fmt: skip
    demos, report = read({"id": "s", "appName": "house", "state": {"k": 1}, "events": events})
    assert not report.problems and report.formats == {"Google ADK": 1}
    assert steps(demos[0]) == WENT and state(demos[0]) == [("user", "do A")]


def test_several_answers_of_ag2_in_one_message_go_to_their_calls(read):
    calls = [CALLED, CALLED | {"id": "d"}]
    answers = [{"tool_call_id": one["id"], "role": "tool", "content": one["id"]} for one in calls]
    both = {"role": "tool", "name": "house", "content": "c\n\nd", "tool_responses": answers}
    demos, _ = read([*ASKED, {"role": "assistant", "content": "", "tool_calls": calls}, both])
    seen = [(one["tool_call_id"], one["content"]) for one in demos[0].messages[2:]]
    assert seen == [("c", "c"), ("d", "d")]


# --- frameworks -----------------------------------------------------------------------------------


def test_an_answer_that_python_printed_is_refused_and_what_stands_beside_it_is_read(read):
    printed = "ModelResponse(id='x', choices=[Choices(message=Message(content='A.'))])"
    log = {"messages": ASKED, "response": printed, "outputs": ["A."]}
    demos, report = read(log)
    assert not demos and "--drop" in report.problems[0].reason
    demos, _ = read(log, reading=Reading(drop=["response"]))
    assert replies(demos) == [["A."]]


@pytest.mark.parametrize(
    "log",
    [
        {"assistant_id": "agent", "system_message": "Be brief.", "input": {"messages": ASKED}},
        {"messages": ASKED, "system_message": {"type": "system", "content": "Be brief."}},
    ],
)
def test_a_system_message_beside_the_messages_is_the_rules(log, read):
    demos, _ = read({**log, "output": {"messages": [{"role": "assistant", "content": "A."}]}})
    assert state(demos[0]) == [("system", "Be brief."), ("user", "do A")]


@pytest.mark.parametrize("inside", [True, False])
def test_tools_of_a_call_of_a_client_are_read_beside_its_messages_or_without_them(inside, read):
    arguments = {"tools": TOOLS, "temperature": 0} | ({"messages": ASKED} if inside else {})
    log = {"kwargs": arguments, "response": {"choices": [{"message": {"content": "A."}}]}}
    log["response"]["choices"][0]["message"]["role"] = "assistant"
    demos, _ = read(log if inside else log | {"messages": ASKED})
    assert state(demos[0]) == [("user", "do A")] and len(demos[0].tools) == 1


def test_a_thought_of_haystack_is_a_thought(read):
    content = [{"reasoning": {"reasoning_text": "A it is.", "extra": {}}}, {"text": "A."}]
    answered = {"role": "assistant", "meta": {}, "name": None, "content": content}
    demos, _ = read([{"role": "user", "content": [{"text": "do A"}]}, answered])
    assert steps(demos[0]) == [("A it is.", "A.", [])]


def test_a_list_with_a_call_that_is_not_read_is_still_one_conversation(read):
    for kind in ("web_search_call", "code_interpreter_call", "local_tool"):
        ran = {"type": kind, "id": "w", "action": {"query": "A"}}
        _, report = read([*ASKED, ran, item("assistant", "A.")])
        (problem,) = report.problems
        assert (kind if kind == "local_tool" else "what its provider ran") in problem.reason


def test_what_a_provider_ran_costs_the_answer_that_saw_it(read):
    ran = {"type": "web_search_call", "id": "w", "action": {"query": "A"}}
    asked = {"role": "user", "content": "do B"}
    demos, report = read([*ASKED, ran, item("assistant", "A."), asked, item("assistant", "B.")])
    assert replies(demos) == [["B."]] and not report.problems
    assert state(demos[0])[1] == ("assistant", "[web_search_call]A.")
    parts = [{"executableCode": {"code": "A"}}, {"codeExecutionResult": {"output": "A"}}]
    model = {"role": "model", "parts": [*parts, {"text": "A."}]}
    demos, _ = read({"contents": [{"parts": [{"text": "do A"}]}, model,
                                  {"parts": [{"text": "do B"}]},
                                  {"role": "model", "parts": [{"text": "B."}]}]})  # fmt: skip
    assert state(demos[0])[1] == ("assistant", "[executableCode][codeExecutionResult]A.")
    image = {"data": "aGk=", "media_type": "image/png", "kind": "binary"}
    for one in (image, {"url": "a.mp3", "kind": "audio-url"}, {"url": "a", "kind": "document-url"}):
        said = {"part_kind": "user-prompt", "content": ["What is it?", one]}
        again = {"part_kind": "user-prompt", "content": "Sure?"}
        answer = {"kind": "response", "parts": [{"part_kind": "text", "content": "A cat."}]}
        demos, _ = read([{"kind": "request", "parts": [said]}, answer,
                         {"kind": "request", "parts": [again]}, answer])  # fmt: skip
        assert len(demos[0].steps) == 1 and state(demos[0])[0][1] == "What is it?[image]"


def test_the_mode_in_which_a_program_ran_is_no_part_of_the_conversation(read):
    answered = {"role": "assistant", "content": "A.", "modelInfo": {"modelId": "m", "mode": "act"}}
    demos, _ = read([*ASKED, answered])
    assert replies(demos) == [["A."]]


@pytest.mark.parametrize("in_an_array", [True, False])
def test_a_row_whose_type_is_a_word_of_a_block_is_a_log(in_an_array, read):
    rows = [
        {"type": kind, "prompt": f"do {kind}", "completion": "A."} for kind in ("reasoning", "math")
    ]
    demos, report = read(*([rows] if in_an_array else rows))
    assert replies(demos) == [["A."], ["A."]] and not report.problems


# --- what was read before these forms were, and is read as it was ---------------------------------

ANSWER = {"role": "assistant", "content": "A."}
CHAT = [*ASKED, ANSWER]


def test_a_message_of_openhands_may_be_a_text_or_have_no_content(read):
    event = {"kind": "MessageEvent", "source": "user"}
    answered = {"kind": "MessageEvent", "source": "agent", "llm_message": ANSWER}
    demos, _ = read({**event, "llm_message": ASKED[0]}, answered)
    assert state(demos[0]) == [("user", "do A")] and replies(demos) == [["A."]]


def test_a_log_that_begins_with_a_summary_is_what_the_model_read(read):
    history = [item("user", "do A"), item("assistant", "old"), item("user", "short")]
    demos, report = read(META, compacted(replacement_history=history), *GOES_ON)
    assert state(demos[0])[-1] == ("user", "do B") and not report.problems
    assert replies(demos) == [["B."]] and ("assistant", "old") in state(demos[0])


def test_a_header_of_codex_without_a_type_is_no_damage(read):
    oldest = {"id": "1", "instructions": "Be brief."}
    demos, _ = read(oldest, *TURN[1:], compacted(replacement_history=[item("user", "x")]), *GOES_ON)
    assert replies(demos) == [["A."], ["B."]]


@pytest.mark.parametrize(
    "row",
    [
        {"kwargs": {"model": "m", "input": ASKED, "tools": TOOLS}, "output": [ANSWER]},
        {"kwargs": {"prompt": "do A", "system": "Be brief."}, "output": "A."},
        {"messages": [*ASKED, {"role": "assistant", "content": "Click(id='b12')"}]},
        {"messages": ASKED, "response": "Order(id='3') is on its way"},
    ],
)
def test_requests_of_a_client_and_actions_with_an_id_are_read(row, read):
    demos, report = read(row)
    assert len(demos) == 1 and not report.problems


def test_a_record_with_a_body_beside_its_attributes_is_a_span(read):
    said = json.dumps([{"role": "user", "parts": [{"type": "text", "content": "do A"}]}])
    answered = json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": "A."}]}])
    messages = {"gen_ai.input.messages": said, "gen_ai.output.messages": answered}
    for other in ({}, {"llm": "gpt"}):
        demos, _ = read({"body": "x", "attributes": messages | other})
        assert replies(demos) == [["A."]]


def test_what_stands_beside_tools_or_rules_in_a_request_is_never_lost_in_silence(read):
    _, report = read({"messages": CHAT, "info": {"system": "R", "foo": {"content": "lost"}}})
    assert "info.foo" in report.problems[0].reason
    inside = {"invocation_params": {"tools": TOOLS, "system": "R"}}
    _, report = read({"messages": CHAT, "extra": inside})
    assert "system" in report.problems[0].reason


def test_an_answer_of_a_tool_that_looks_like_a_schema_is_an_answer(read):
    calls = [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    called = {"role": "assistant", "content": None, "tool_calls": calls}
    seen = {"type": "method", "function": "foo"}
    answered = {"role": "tool", "tool_call_id": "1", "content": seen}
    demos, _ = read({"messages": [*ASKED, called, answered, ANSWER], "tools": TOOLS})
    assert len(demos[0].steps) == 2


def test_a_thought_beside_an_empty_one_of_swe_agent_stays(read):
    answered = {**ANSWER, "thought": "", "action": "ls", "reasoning_content": "hm"}
    demos, _ = read({"history": [{"role": "user", "content": "do A", "agent": "main"}, answered]})
    assert [thought for thought, _, _ in steps(demos[0])] == ["hm"]


def test_settings_of_a_program_are_no_logs(tmp_path):
    (tmp_path / "logs.jsonl").write_text(json.dumps({"messages": CHAT}) + "\n", encoding="utf-8")
    settings = ({"input": "data/in.jsonl", "output": "out/"}, {"steps": "100"}, {"history": "h"})
    for i, one in enumerate(settings):
        (tmp_path / f"config{i}.json").write_text(json.dumps(one), encoding="utf-8")
    demos, report = read_logs(tmp_path)
    assert replies(demos) == [["A."]] and not report.problems


def test_only_what_opencode_keeps_for_itself_is_left_out_of_a_content(read):
    said = {"type": "text", "text": "page:"}
    for block in ({"type": "snapshot", "text": "<p>"}, {"type": "patch", "text": "+"}):
        _, report = read([{"role": "user", "content": [said, block]}, ANSWER])
        assert block["type"] in report.problems[0].reason
    untyped = [{"text": "page:"}, {"snapshot": "<p>"}]
    _, report = read([{"role": "user", "content": untyped}, ANSWER])
    assert "snapshot" in report.problems[0].reason
    typed = said | {"mime": "text/plain"}
    demos, _ = read([{"role": "user", "content": [typed]}, ANSWER])
    assert state(demos[0]) == [("user", "page:")]
    file = {"type": "file", "mime": "text/plain", "data": "SGk="}
    _, report = read([{"role": "user", "content": [said, file]}, ANSWER])
    assert "audio or a file" in report.problems[0].reason


def test_a_block_may_say_the_mime_type_of_its_text(read):
    said = {"text": "do A", "content_type": "text/plain"}
    demos, _ = read([{"role": "user", "content": [said]}, ANSWER])
    assert state(demos[0]) == [("user", "do A")]


def test_an_info_beside_a_role_is_no_envelope(read):
    asked = {"role": "user", "parts": [{"text": "do A"}], "info": {"id": 1}}
    demos, report = read({"messages": [asked, {"role": "model", "parts": [{"text": "A."}]}]})
    assert state(demos[0]) == [("user", "do A")] and report.formats == {"Gemini": 1}


@pytest.mark.parametrize("beside", [{"info": {"id": 1}}, {"items": None}, {"blocks": []}])
def test_an_empty_field_or_an_info_makes_no_other_format_of_a_chat(beside, read):
    asked = {"role": "user", "content": [*text("do "), *text("A")], **beside}
    demos, report = read({"messages": [asked, ANSWER]})
    assert state(demos[0]) == [("user", "do A")] and report.formats == {"chat": 1}


def test_a_content_is_not_lost_beside_answers_that_say_something_else(read):
    called = {"role": "assistant", "content": None, "tool_calls": [CALLED]}
    answers = [{"role": "tool", "tool_call_id": "c", "content": "a hall"}]
    both = {"role": "tool", "content": "a hall\n\nNow do B.", "tool_responses": answers}
    _, report = read([*ASKED, called, both, ANSWER])
    assert "tool_responses" in report.problems[0].reason


def test_an_answer_inside_of_a_call_is_read(read):
    called = {"id": "c", "name": "go", "args": {"to": "hall"}, "result": "a hall"}
    demos, _ = read([*ASKED, {"role": "assistant", "content": "", "toolCalls": [called]}, ANSWER])
    assert demos[0].messages[2]["content"] == "a hall"


def test_a_call_of_goose_without_an_id_is_no_damage(read):
    value = {"name": "go", "arguments": {}}
    block = {"type": "toolRequest", "toolCall": {"status": "success", "value": value}}
    demos, _ = read([*ASKED, {"role": "assistant", "content": [block]}])
    assert steps(demos[0]) == [(None, "", [("go", {})])]


def test_tools_that_metadata_says_again_are_read_once(read):
    demos, report = read({"messages": CHAT, "tools": TOOLS, "metadata": {"tools": TOOLS}})
    assert len(demos[0].tools) == 1 and not report.problems


@pytest.mark.parametrize("key", ["thinking", "reasoning"])
def test_how_langsmith_says_that_a_model_thinks_is_no_conversation(key, read):
    run = {"run_type": "llm", "inputs": {"messages": ASKED}, "outputs": {"output": ANSWER}}
    sampled = {"model": "m", "tools": TOOLS, key: {"effort": "high"}}
    demos, _ = read({**run, "extra": {"invocation_params": sampled}})
    assert replies(demos) == [["A."]] and len(demos[0].tools) == 1


@pytest.mark.parametrize("key", ["events", "attributes"])
def test_messages_come_before_spans_beside_them(key, read):
    said = {f"gen_ai.{way}.messages": json.dumps(one)
            for way, one in (("input", ASKED), ("output", [ANSWER]))}  # fmt: skip
    beside = [{"attributes": said}] if key == "events" else said
    demos, _ = read({"messages": [*CHAT, *CHAT], key: beside})
    assert replies(demos) == [["A.", "A."]]


def test_rows_of_an_array_are_logs_though_one_has_the_type_of_a_block(tmp_path):
    rows = [{"type": "reasoning", "input": "a", "output": "A."},
            {"type": "math", "input": "b", "output": "B."}]  # fmt: skip
    (tmp_path / "logs.json").write_text(json.dumps(rows), encoding="utf-8")
    demos, report = read_logs(tmp_path)
    assert replies(demos) == [["A."], ["B."]] and not report.problems


def test_texts_in_files_that_end_in_json_are_logs(tmp_path):
    row = {"prompt": "do A", "response": "A."}
    (tmp_path / "a.json").write_text(2 * f"{json.dumps(row)}\n", encoding="utf-8")
    alone = {"b": {"prompt": "do B", "completion": "B."}, "c": {"messages": json.dumps(CHAT)}}
    for name, one in alone.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(one), encoding="utf-8")
    demos, _ = read_logs(tmp_path)
    assert sorted(replies(demos)) == [["A."], ["A."], ["A."], ["B."]]


def test_a_tool_in_two_notations_is_one_tool(read):
    function = TOOLS[0]["function"]
    other = {"name": function["name"], "input_schema": function["parameters"]}
    again = {"messages": ASKED, "tools": [other]}
    demos, _ = read({"messages": CHAT, "tools": TOOLS, "request": again})
    assert demos[0].tools == TOOLS[:1]


def test_json_of_a_tool_that_looks_like_a_block_of_opencode_is_its_answer(read):
    called = {"role": "assistant", "content": None, "tool_calls": [CALLED]}
    seen = [{"type": "tool", "callID": "x"}]
    answered = {"role": "tool", "tool_call_id": "c", "content": seen}
    demos, _ = read([*ASKED, called, answered, ANSWER])
    assert json.loads(demos[0].messages[2]["content"]) == seen


def test_a_log_of_no_family_that_is_damaged_is_called_a_chat(read):
    _, report = read({"messages": CHAT, "tools": [{"functionDeclarations": 5}]})
    assert "damaged as a log of chat" in report.problems[0].reason


@pytest.mark.parametrize("reasoned", ["Plan.", [{"text": "Plan."}]])
def test_a_thought_that_old_openhands_keeps_twice_is_read_once(reasoned, read):
    call = {"id": "c", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
    said = {"content": "Plan.", "reasoning_content": reasoned, "tool_calls": [call]}
    metadata = {"function_name": "bash", "tool_call_id": "c"}
    metadata |= {"model_response": {"id": "r", "choices": [{"message": said}]}}
    run = {"id": 1, "source": "agent", "action": "run", "args": {"thought": "Plan."}}
    asked = {"id": 0, "source": "user", "action": "message", "args": {"content": "do A"}}
    demos, _ = read([asked, run | {"tool_call_metadata": metadata}])
    assert steps(demos[0]) == [("Plan.", "", [("bash", {})])]


def test_a_span_without_its_answer_does_not_hide_what_stands_beside_it(read):
    said = {"llm.input_messages": [{"message.role": "user", "message.content": "do A"}]}
    demos, _ = read({"input": ASKED, "output": ANSWER, "attributes": said})
    assert replies(demos) == [["A."]]


def test_what_opencode_notes_beside_a_text_costs_no_answer(read):
    folder = {"type": "file", "mime": "application/x-directory", "url": "file:///a"}
    parts = [*text("do A"), folder, {"type": "agent", "name": "build"}]
    asked = {"info": {"role": "user"}, "parts": parts}
    demos, report = read(
        {"messages": [asked, {"info": {"role": "assistant"}, "parts": text("A.")}]}
    )
    assert state(demos[0]) == [("user", "do A")] and report.formats == {"opencode": 1}


def test_a_new_answer_of_codex_is_no_part_of_one_that_was_remembered(read):
    call = {"type": "function_call", "call_id": "c", "name": "go", "arguments": "{}"}
    seen = {"type": "function_call_output", "call_id": "c", "output": "ok"}
    history = [item("user", "do A"), call, seen, item("assistant", "old")]
    behind = compacted(replacement_history=history)
    demos, _ = read(*TURN, behind, response(item("assistant", "B.")))
    assert replies(demos) == [["A."], ["B."]]


@pytest.mark.parametrize("speaker", [("role", "content"), ("from", "value")])
def test_a_role_of_calls_may_hold_tags_or_an_object(speaker, read):
    role, content = speaker
    call = {"name": "go", "arguments": {"to": "hall"}}
    for said in (f"<tool_call>{json.dumps(call)}</tool_call>", call):
        log = [{role: "user", content: "do A"}, {role: "function_call", content: said}]
        demos, _ = read({"conversations" if role == "from" else "messages": log})
        assert [json.loads(step.action) for step in demos[0].steps] == [call]


def test_an_answer_of_opencode_that_failed_is_not_learned(read):
    def said(role, text, **info):
        return {"info": {"role": role, **info}, "parts": [{"type": "text", "text": text}]}

    turns = [said("user", "do A"), said("assistant", "half", error={"name": "APIError"})]
    demos, _ = read({"messages": [*turns, said("user", "go on"), said("assistant", "A.")]})
    assert replies(demos) == [["A."]]
