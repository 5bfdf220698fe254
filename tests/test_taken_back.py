"""What a program or its user took back, cut off or summarised is not learned as an expert's turn;
and the answer of a tool goes to its own call, however a program writes it."""

import json

import pytest

from minprm.logs.reader import read_logs
from shared.logs import state, steps

OTHER = {"role": "user", "content": "do B"}
CUT = "not learned: answers that are cut off"
SAID = {"role": "assistant", "content": "First, I wi"}
CALL = {"type": "function", "id": "c1", "function": {"name": "ls", "arguments": "{}"}}


def replies(demos) -> list[list[str]]:
    return [[reply for _, reply, _ in steps(demo)] for demo in demos]


# --- Claude Code and Qwen Code --------------------------------------------------------------------


def spoken(uuid: str, role: str, said: str, **fields) -> dict:
    """A line of a session; `fields` of it, and under `message` of what it says."""
    content = [{"type": "text", "text": said}]
    message = {"role": role, "content": content, **fields.pop("message", {})}
    return {"sessionId": "S", "uuid": uuid, "type": role, "message": message, **fields}


ASKS = spoken("u1", "user", "do A")
REFUSED = spoken("a1", "assistant", "I will start by", message={"stop_reason": "refusal"})


@pytest.mark.parametrize(
    "others",
    [
        [spoken("a2", "assistant", "A.", supersedesUuids=["a1"])],
        [spoken("a2", "assistant", "A.", supersedes=["a1"])],
        [
            {"sessionId": "S", "type": "system", "uuid": "s", "retractedMessageUuids": ["a1"]},
            spoken("a2", "assistant", "A."),
        ],
        [
            spoken("a2", "assistant", "A."),
            {"session_id": "S", "type": "system", "uuid": "s", "retracted_message_uuids": ["a1"]},
        ],
    ],
)
def test_an_answer_that_another_one_replaced_is_left_out_and_counted(others, read):
    demos, report = read(ASKS, REFUSED, *others)
    assert replies(demos) == [["A."]] and state(demos[0]) == [("user", "do A")]
    assert report.normalised["answers that another one has replaced, left out"] == 1


def test_the_result_of_a_call_that_was_replaced_goes_with_it(read):
    called = [{"type": "tool_use", "id": "c", "name": "ls", "input": {}}]
    result = [{"type": "tool_result", "tool_use_id": "c", "content": "x"}]
    first = spoken("a1", "assistant", "", message={"content": called})
    demos, report = read(ASKS, first, spoken("u2", "user", "", message={"content": result}),
                         spoken("a2", "assistant", "A.", supersedes="a1"))  # fmt: skip
    assert replies(demos) == [["A."]] and state(demos[0]) == [("user", "do A")]
    assert report.normalised["answers that another one has replaced, left out"] == 2


@pytest.mark.parametrize(
    "event",
    [
        {"type": "system", "isAbortedMidStream": True},
        {"type": "system", "supersedes": True},
        {"type": "tool_result", "tool_id": "x", "output": "o"},
    ],
)
def test_an_event_that_says_nothing_costs_no_session(event, read):
    demos, report = read(ASKS, {"sessionId": "S", **event}, spoken("a", "assistant", "A."))
    assert replies(demos) == [["A."]] and not report.problems


@pytest.mark.parametrize("named", [0, 1])
def test_an_event_without_a_session_is_of_the_one_beside_it(named, read):
    events = [{"type": "user", "message": {"role": "user", "content": "do A"}},
              {"type": "assistant", "message": {**SAID, "content": "A."}}]  # fmt: skip
    events[named]["session_id"] = "s"
    assert replies(read(*events)[0]) == [["A."]]


def test_what_an_event_says_is_never_passed_over_in_silence(read):
    odd = {"type": "user", "sessionId": "S", "uuid": "3", "message": "do B"}
    demos, report = read(ASKS, spoken("a", "assistant", "A."), odd, spoken("b", "assistant", "B."))
    assert not demos and "the message of an event is no object" in report.problems[0].reason


def test_of_a_turn_that_was_stopped_no_line_is_learned(read):
    first = spoken("a1", "assistant", "I will ", message={"id": "m"})
    last = spoken("a2", "assistant", "first del", message={"id": "m"}, isAbortedMidStream=True)
    demos, report = read(ASKS, first, last, spoken("u2", "user", "do B"),
                         spoken("a3", "assistant", "B.", message={"id": "n"}))  # fmt: skip
    assert replies(demos) == [["B."]]
    assert report.normalised[CUT] == 1


def test_a_line_about_files_is_an_event_of_its_session(read):
    about = {"type": "file-history-delta", "messageId": "x", "snapshotMessageId": "y"}
    demos, report = read(ASKS, about, spoken("a", "assistant", "A."))
    assert replies(demos) == [["A."]] and not report.problems


def in_parts(uuid: str, kind: str, role: str, *parts: dict) -> dict:
    message = {"role": role, "parts": [*parts]}
    return {"sessionId": "S", "uuid": uuid, "type": kind, "message": message}


def test_a_session_of_qwen_code_has_its_tools_answers_and_goes_on_behind_a_summary(read):
    called = {"functionCall": {"id": "c", "name": "ls", "args": {"p": "/"}}}
    answered = {"functionResponse": {"id": "c", "name": "ls", "response": {"output": "a.txt"}}}
    history = [{"role": "user", "parts": [{"text": "did A"}]},
               {"role": "model", "parts": [{"text": "Got it."}]}]  # fmt: skip
    summary = {"sessionId": "S", "uuid": "5", "type": "system", "subtype": "chat_compression",
               "systemPayload": {"compressedHistory": history}}  # fmt: skip
    demos, _ = read(
        in_parts("1", "user", "user", {"text": "do A"}),
        in_parts("2", "assistant", "model", {"text": "I look.", "thought": True}, called),
        in_parts("3", "tool_result", "user", answered),
        in_parts("4", "assistant", "model", {"text": "A."}),
        summary,
        in_parts("6", "user", "user", {"text": "do B"}),
        in_parts("7", "assistant", "model", {"text": "B."}),
    )
    assert replies(demos) == [["", "A."], ["B."]]
    assert demos[0].messages[2]["tool_call_id"] == "c" and demos[0].steps[0].thought == "I look."
    assert state(demos[1]) == [("user", "did A"), ("assistant", "Got it."), ("user", "do B")]


# --- answers that were cut ------------------------------------------------------------------------

ASKED = {"messages": [{"role": "user", "content": "do A"}]}
ITEM = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I"}]}


@pytest.mark.parametrize(
    "response",
    [
        {"choices": [{"finish_reason": "length", "message": SAID}]},
        {"choices": [{"finish_reason": "content_filter", "message": SAID}]},
        {**SAID, "id": "m", "type": "message", "stop_reason": "max_tokens"},
        {"candidates": [{"finishReason": "MAX_TOKENS",
                         "content": {"role": "model", "parts": [{"text": "I"}]}}]},
        {"output": {"message": SAID}, "stopReason": "malformed_model_output"},
        {"message": SAID, "finishReason": {"unified": "length", "raw": "max_tokens"}},
        {"status": "incomplete", "output": [ITEM]},
        {"output": [{"type": "reasoning", "summary": [{"text": "so"}]},
                    {**ITEM, "status": "incomplete"}]},
    ],
)  # fmt: skip
def test_an_answer_that_a_limit_cut_is_not_learned_and_the_sentence_says_why(response, read):
    whole = {"request": ASKED, "response": {"choices": [{"message": SAID}]}}
    demos, report = read({"request": ASKED, "response": response}, whole)
    assert replies(demos) == [["First, I wi"]]
    (problem,) = report.problems
    assert "its answer was cut off, at a limit or by a filter" in problem.reason


def langchain(**kwargs) -> dict:
    return {"lc": 1, "type": "constructor", "id": ["langchain", "AIMessage"], "kwargs": kwargs}


@pytest.mark.parametrize(
    "message",
    [
        langchain(content="I", response_metadata={"finish_reason": "length"}),
        {"type": "ai", "data": {"content": "I", "response_metadata": {"stop_reason": "refusal"}}},
        langchain(content="I", response_metadata={"finish_reason": "content-filter"}),
        {**SAID, "finishReason": "content-filter"},
        {**SAID, "done_reason": "length"},
        {**SAID, "meta": {"finish_reason": "length"}},
    ],
)
def test_why_an_answer_ended_is_found_wherever_a_program_says_it(message, read):
    question = {"type": "human", "data": {"content": "do A"}}
    whole = {"role": "assistant", "content": "A."}
    demos, report = read({"messages": [question, message, question, whole]})
    assert replies(demos) == [["A."]] and report.normalised[CUT] == 1


@pytest.mark.parametrize(
    "log",
    [
        {"messages": [*ASKED["messages"], {**SAID, "status": "incomplete"}]},
        {"conversations": [{"from": "human", "value": "do A", "status": "incomplete"},
                           {"from": "gpt", "value": "First, I wi"}]},
        {"input": "do A", "output": [
            {"type": "reasoning", "status": "incomplete", "summary": [{"text": "so"}]},
            {**ITEM, "status": "completed",
             "content": [{"type": "output_text", "text": "First, I wi"}]}]},
        {"messages": [{"id": "1", "timestamp": "t", "type": "human", "content": "do A"},
                      {"id": "2", "timestamp": "t", "type": "ai", "content": "First, I wi"}]},
        {"id": "1", "timestamp": "t", "type": "completion", "prompt": "do A",
         "completion": "First, I wi"},
        {"trace_id": "x", "type": "eval", "messages": [*ASKED["messages"], SAID]},
        {"span_attributes": {"type": "task"}, "messages": [*ASKED["messages"], SAID]},
    ],
)  # fmt: skip
def test_a_field_that_means_something_else_costs_no_answer(log, read):
    demos, report = read(log)
    assert replies(demos) == [["First, I wi"]] and not report.problems


def test_the_last_answer_of_a_rollout_that_was_truncated_is_not_learned(read):
    turns = [{"role": "assistant", "content": "A."}, {"role": "user", "content": "on"}, SAID]
    row = {"prompt": ASKED["messages"], "completion": turns, "reward": 1.0}
    demos, report = read({**row, "is_truncated": True})
    assert replies(demos) == [["A."]] and report.normalised[CUT] == 1
    assert replies(read({**row, "is_truncated": False})[0]) == [["A.", "First, I wi"]]


# --- sessions of Google's ADK ---------------------------------------------------------------------


def adk(author: str, said: str, invocation: str, time: float = 1.0) -> dict:
    role = "user" if author == "user" else "model"
    content = {"role": role, "parts": [{"text": said}]}
    return {"author": author, "invocationId": invocation, "timestamp": time, "content": content}


def test_turns_that_a_user_of_adk_took_back_are_left_out(read):
    back = {"author": "user", "invocationId": "i3", "actions": {"rewindBeforeInvocationId": "i2"}}
    demos, report = read({"events": [
        adk("user", "do A", "i1"), adk("root", "A.", "i1"), adk("user", "do B", "i2"),
        adk("root", "B is wrong.", "i2"), back, adk("user", "do C", "i4"), adk("root", "C.", "i4"),
    ]})  # fmt: skip
    assert replies(demos) == [["A.", "C."]]
    assert report.normalised["events that its user took back, left out"] == 2


def test_what_follows_a_summary_of_adk_is_a_log_of_its_own(read):
    content = {"role": "model", "parts": [{"text": "did A"}]}
    summary = {"startTimestamp": 1, "endTimestamp": 1, "compactedContent": content}
    demos, _ = read({"events": [
        adk("user", "do A", "i1"), adk("root", "A.", "i1"),
        {"author": "user", "invocationId": "i", "actions": {"compaction": summary}},
        adk("user", "do B", "i2", 2.0), adk("root", "B.", "i2", 2.0),
    ]})  # fmt: skip
    assert replies(demos) == [["A."], ["B."]]
    assert state(demos[1]) == [("user", "did A"), ("user", "do B")]


def test_an_older_summary_of_adk_stays_where_no_later_one_holds_all_of_it(read):
    def summary(start: float, end: float, said: str) -> dict:
        content = {"role": "model", "parts": [{"text": said}]}
        compaction = {"startTimestamp": start, "endTimestamp": end, "compactedContent": content}
        return {"author": "user", "timestamp": end, "actions": {"compaction": compaction}}

    def turn(number: int) -> list[dict]:
        return [adk("user", f"q{number}", "i", 2.0 * number),
                adk("root", f"a{number}", "i", 2.0 * number + 1)]  # fmt: skip

    demos, _ = read({"events": [*turn(1), summary(2, 3, "one"), *turn(2), summary(4, 5, "two"),
                                *turn(3)]})  # fmt: skip
    assert replies(demos) == [["a1"], ["a2"], ["a3"]]
    assert [said for _, said in state(demos[2])] == ["one", "two", "q3"]


def test_several_agents_in_one_session_of_adk_are_told(read):
    events = [adk("user", "do A", "i1"), adk("root", "A.", "i1"), adk("sub", "B.", "i1")]
    _, report = read({"events": events})
    assert "sessions of several agents, read as one: root, sub" in report.normalised


def of_opencode(role: str, *parts: dict, **fields) -> dict:
    return {"info": {"id": "m", "role": role, **fields}, "parts": [*parts]}


def text(said: str) -> dict:
    return {"type": "text", "text": said}


def test_what_follows_a_summary_of_opencode_is_a_log_of_its_own(read):
    demos, report = read({"info": {"id": "s"}, "messages": [
        of_opencode("user", text("do A")), of_opencode("assistant", text("A.")),
        of_opencode("user", {"type": "compaction", "auto": True}),
        of_opencode("assistant", text("did A"), summary=True),
        of_opencode("user", text("do B")), of_opencode("assistant", text("B.")),
    ]})  # fmt: skip
    assert replies(demos) == [["A."], ["B."]] and not report.problems
    asked = [("user", "What did we do so far?"), ("assistant", "did A"), ("user", "do B")]
    assert state(demos[1]) == asked


def test_a_session_of_opencode_that_ends_with_its_summary_is_one_log(read):
    demos, report = read({"info": {"id": "s"}, "messages": [
        of_opencode("user", text("do A")), of_opencode("assistant", text("A.")),
        of_opencode("user", {"type": "compaction", "auto": True}),
        of_opencode("assistant", text("did A"), summary=True),
    ]})  # fmt: skip
    assert replies(demos) == [["A."]] and not report.problems


def test_what_a_program_says_for_its_model_is_not_learned(read):
    demos, _ = read({"contents": [
        {"role": "user", "parts": [{"text": "This is the Gemini CLI."}]},
        {"role": "model", "parts": [{"text": "Got it. Thanks for the context!"}]},
        {"role": "user", "parts": [{"text": "do A"}]},
        {"role": "model", "parts": [{"text": "A."}]},
    ]})  # fmt: skip
    assert replies(demos) == [["A."]]


def test_what_follows_a_summary_of_roo_code_is_a_log_of_its_own(read):
    demos, report = read([
        {"role": "user", "content": [text("do A")], "condenseParent": "K"},
        {"role": "assistant", "content": [text("A.")], "condenseParent": "K"},
        {"role": "user", "content": [text("did A")], "isSummary": True, "condenseId": "K"},
        {"role": "assistant", "content": [text("B.")]},
    ])  # fmt: skip
    assert replies(demos) == [["A."], ["B."]] and not report.problems
    assert state(demos[1]) == [("user", "did A")]


# --- sessions of Gemini CLI -----------------------------------------------------------------------


def of_gemini(number: str, kind: str, said, **fields) -> dict:
    return {"id": number, "timestamp": "t", "type": kind, "content": said, **fields}


RESPONSE = {"id": "c", "name": "ls", "response": {"output": "a.txt"}}
CALLS = [{"id": "c", "name": "ls", "args": {"p": "/"}, "result": [{"functionResponse": RESPONSE}]}]
HEADER = {"sessionId": "s", "projectHash": "h", "startTime": "t"}
THOUGHTS = [{"subject": "Listing", "description": "I look.", "timestamp": "t"}]
LISTS = of_gemini("2", "gemini", "Let me look.", thoughts=THOUGHTS, toolCalls=CALLS)
SESSION = [of_gemini("1", "user", [{"text": "do A"}]), LISTS, of_gemini("3", "gemini", "A.")]


def test_a_session_of_gemini_cli_is_read_from_one_object_and_from_its_lines(read):
    info = of_gemini("4", "info", "Request cancelled.")
    growing = [SESSION[0], of_gemini("2", "gemini", "Let me look."), *SESSION[1:], info]
    for rows in ([{**HEADER, "messages": [*SESSION, info]}], [HEADER, *growing, {"$set": {}}]):
        demos, report = read(*rows)
        assert replies(demos) == [["Let me look.", "A."]] and not report.problems
        assert demos[0].steps[0].thought == "Listing\nI look."
        assert demos[0].messages[2]["content"] == "a.txt"
        assert report.normalised["info of Gemini CLI, left out"] == 1


def test_what_lies_in_one_file_with_a_session_of_gemini_cli_is_read_by_itself(read):
    chat = {"messages": [{"role": "user", "content": "do D"}, {**SAID, "content": "D."}]}
    other = [spoken("u", "user", "do E"), spoken("a", "assistant", "E.")]
    demos, report = read(HEADER, *SESSION, HEADER, *SESSION[:1], SESSION[2], chat, *other)
    assert sorted(replies(demos)) == [["A."], ["D."], ["E."], ["Let me look.", "A."]]
    assert not report.problems


def test_an_image_that_a_tool_of_gemini_cli_gave_is_a_word_and_costs_its_answer(read):
    parts = [{"functionResponse": RESPONSE}, {"inlineData": {"mimeType": "image/png", "data": "i"}}]
    lists = {**LISTS, "toolCalls": [{**CALLS[0], "result": parts}]}
    demos, _ = read({**HEADER, "messages": [SESSION[0], lists, SESSION[2], *again("B.")]})
    assert demos[0].messages[2]["content"] == "a.txt\n[image]"
    assert replies(demos) == [["Let me look.", "B."]]


def test_a_result_of_gemini_cli_in_several_parts_has_each_of_them(read):
    other = {"functionResponse": {**RESPONSE, "response": {"rows": 1}}}
    lists = {**LISTS, "toolCalls": [{**CALLS[0], "result": [*CALLS[0]["result"], other]}]}
    demos, report = read({**HEADER, "messages": [SESSION[0], lists, SESSION[2]]})
    assert demos[0].messages[2]["content"] == 'a.txt\n{"rows": 1}' and not report.problems


def again(said: str) -> list[dict]:
    return [of_gemini("8", "user", "go on"), of_gemini("9", "gemini", said)]


def test_messages_that_a_user_of_gemini_cli_took_back_are_left_out(read):
    wrong = [of_gemini("4", "user", "do B"), of_gemini("5", "gemini", "B is wrong.")]
    again = [of_gemini("6", "user", "do C"), of_gemini("7", "gemini", "C.")]
    demos, report = read(HEADER, *SESSION, *wrong, {"$rewindTo": "4"}, *again)
    assert replies(demos) == [["Let me look.", "A.", "C."]]
    assert report.normalised["messages that its user took back, left out"] == 2


def test_what_follows_a_new_history_of_gemini_cli_is_a_log_of_its_own(read):
    called = [{"text": "Let me look."}, {"functionCall": {"id": "c", "name": "ls", "args": {}}}]
    results = of_gemini("9", "user", [{"functionResponse": RESPONSE}])
    history = [of_gemini("8", "user", [{"text": "did A"}]), {**LISTS, "content": called}, results]
    again = [of_gemini("6", "user", "do C"), of_gemini("7", "gemini", "C.")]
    demos, report = read(HEADER, *SESSION, {"$set": {"messages": history}}, *again)
    assert replies(demos) == [["Let me look.", "A."], ["C."]] and not report.problems
    assert [text for _, text in state(demos[1])][0::3] == ["did A", "do C"]


# --- answers of tools, and thoughts ---------------------------------------------------------------


def test_results_of_haystack_go_to_the_calls_that_they_name(read):
    calls = [{"tool_name": "weather", "arguments": {"city": city}, "id": city}
             for city in ("Bern", "Rome")]  # fmt: skip
    answers = [{"role": "tool", "content": [{"tool_call_result": {
        "result": f"sun in {call['id']}", "origin": call, "error": False}}]}
        for call in reversed(calls)]  # fmt: skip
    asks = {"role": "assistant", "content": [{"tool_call": call} for call in calls]}
    question = {"role": "user", "content": [{"text": "both?"}]}
    last = {"role": "assistant", "content": [{"text": "Sun."}]}
    demos, _ = read({"messages": [question, asks, *answers, last]})
    assert [m["content"] for m in demos[0].messages[2:4]] == ["sun in Bern", "sun in Rome"]


def test_what_a_tool_shows_to_the_user_alone_is_no_part_of_its_answer(read):
    told = [{"type": "text", "text": "a.txt", "annotations": {"audience": ["assistant"]}},
            {"type": "text", "text": "Listed 1.", "annotations": {"audience": ["user"]}},
            {"type": "text", "text": "b.txt", "annotations": {"priority": 0.0}}]  # fmt: skip
    result = {"status": "success", "value": {"content": told, "isError": False}}
    call = {"status": "success", "value": {"name": "ls", "arguments": {}}}
    called = {"type": "toolRequest", "id": "c", "toolCall": call}
    demos, _ = read({"messages": [
        {"role": "user", "content": [{"type": "text", "text": "do A"}]},
        {"role": "assistant", "content": [called]},
        {"role": "user", "content": [{"type": "toolResponse", "id": "c", "toolResult": result}]},
        {"role": "assistant", "content": [{"type": "text", "text": "A."}]},
    ]})  # fmt: skip
    assert demos[0].messages[2]["content"] == "a.txt\nb.txt"


def test_a_call_that_its_user_denied_has_the_denial_as_its_answer(read):
    denied = {"type": "tool-rm", "toolCallId": "c", "state": "output-denied", "input": {},
              "approval": {"id": "a", "approved": False, "reason": "keep it"}}  # fmt: skip
    parts = [{"type": "step-start"}, denied, {"type": "step-start"},
             {"type": "text", "text": "I left it."}]  # fmt: skip
    demos, _ = read([{"role": "user", "parts": [{"type": "text", "text": "delete it"}]},
                     {"role": "assistant", "parts": parts}])  # fmt: skip
    assert replies(demos) == [["", "I left it."]]
    assert demos[0].messages[2]["content"] == "keep it"


def test_a_context_of_kimi_has_its_rules_and_its_thoughts(read):
    thinks = {"type": "think", "think": "plan", "encrypted": None}
    demos, _ = read(
        {"role": "_system_prompt", "content": "rules"},
        {"role": "_checkpoint", "id": 0},
        {"role": "user", "content": [{"type": "text", "text": "do A"}]},
        {"role": "assistant", "content": [thinks, {"type": "text", "text": "A."}]},
    )
    assert state(demos[0]) == [("system", "rules"), ("user", "do A")]
    assert demos[0].steps[0].thought == "plan"


def test_what_an_agent_of_smolagents_remembers_is_read_as_its_model_read_it(read):
    called = {"tool_calls": [CALL], "role": "assistant", "content": None}
    steps_of_agent = [
        {"task": "do A", "task_images": None},
        {"plan": "1. look", "model_input_messages": [{"role": "system", "content": "rules"}]},
        {"step_number": 1, "model_output": "I print. <code>print(1)</code>", "observations": "1"},
        {"step_number": 2, "model_output": "", "model_output_message": called,
         "observations": "a.txt"},
        {"step_number": 3, "model_output": "<code>1 +</code>", "observations": None,
         "error": {"type": "AgentParsingError", "message": "no code"}},
        {"step_number": 4, "model_output": "Done.", "is_final_answer": True},
    ]  # fmt: skip
    for rows in ([steps_of_agent], [{"output": None, "steps": steps_of_agent}]):
        demos, report = read(*rows)
        assert report.formats == {"smolagents": 1}
        said = ["1. look", "I print. <code>print(1)</code>", "", "<code>1 +</code>", "Done."]
        assert replies(demos) == [said]
        assert state(demos[0]) == [("system", "rules"), ("user", "New task:\ndo A")]
        others = [m["content"] for m in demos[0].messages[2:] if m["role"] != "assistant"]
        go_on = "Now proceed and carry out this plan."
        assert others == [go_on, "Observation:\n1", "a.txt", "Error:\nno code"]


def test_calls_that_verifiers_wrote_as_texts_are_calls(read):
    turns = [{"role": "assistant", "content": "", "tool_calls": [json.dumps(CALL)]},
             {"role": "tool", "tool_call_id": "c1", "content": "a.txt"},
             {"role": "assistant", "content": "A."}]  # fmt: skip
    demos, _ = read({"prompt": ASKED["messages"], "completion": turns, "reward": 1.0})
    assert demos[0].steps[0].action == '{"name": "ls", "arguments": {}}'


def test_what_a_table_fills_into_calls_is_taken_out(tmp_path):
    table, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    calls = [("ls", {"path": "/"}), ("grep", {"pattern": "x", "flags": {"deep": True}})]
    listed = [{"id": name, "type": "function", "function": {"name": name, "arguments": arguments}}
              for name, arguments in calls]  # fmt: skip
    messages = [*ASKED["messages"], {"role": "assistant", "content": "", "tool_calls": listed}]
    parquet.write_table(table.Table.from_pylist([{"messages": messages}]), tmp_path / "a.parquet")
    demos, report = read_logs(tmp_path / "a.parquet")
    arguments = [json.loads(call["function"]["arguments"])
                 for call in demos[0].messages[1]["tool_calls"]]  # fmt: skip
    assert arguments == [arguments for _, arguments in calls]
    assert report.normalised["nulls that a table filled into a call, taken out"] == 2


# --- spans ----------------------------------------------------------------------------------------


def test_a_request_and_its_answer_in_two_events_of_a_span_are_one_log(read):
    halves = [{"input": [{"role": "user", "parts": [{"type": "text", "content": "do A"}]}]},
              {"output": [{"role": "assistant", "parts": [{"type": "text", "content": "A."}],
                           "finish_reason": "stop"}]}]  # fmt: skip
    events = [{"name": "details", "attributes": {f"gen_ai.{key}.messages": json.dumps(messages)}}
              for half in halves for key, messages in half.items()]  # fmt: skip
    span = {"name": "chat", "attributes": {"gen_ai.operation.name": "chat"}, "events": events}
    tool = {"name": "ls", "attributes": {"gen_ai.operation.name": "execute_tool"}, "events": events}
    agent = {**span, "attributes": {"gen_ai.operation.name": "invoke_agent"}}
    demos, report = read(span, tool, agent)
    assert replies(demos) == [["A."]] and not report.problems
    other = "spans of tools, or of agents with their last answer alone, left out"
    assert report.normalised[other] == 2


def test_a_span_of_a_model_inside_of_an_agents_is_read(read):
    messages = {"gen_ai.input.messages": json.dumps(ASKED["messages"]),
                "gen_ai.output.messages": json.dumps([SAID])}  # fmt: skip
    chat = {"attributes": {"gen_ai.operation.name": "chat", **messages}}
    for operation in ("invoke_agent", "execute_tool"):
        around = {"attributes": {"gen_ai.operation.name": operation}, "spans": [chat]}
        assert replies(read({"spans": [around]})[0]) == [["First, I wi"]]
        alone = {"resourceSpans": [{"scopeSpans": [{"spans": [{**around, "spans": []}]}]}]}
        demos, report = read({"spans": [chat]}, alone)
        assert replies(demos) == [["First, I wi"]] and not report.problems


def test_a_task_of_braintrust_that_holds_a_conversation_is_read(read):
    row = {"span_attributes": {"type": "task"}, "input": ASKED["messages"], "output": SAID}
    assert replies(read(row)[0]) == [["First, I wi"]]


def test_of_braintrust_the_spans_of_models_are_read(read):
    def span(kind: str, asked, answered) -> dict:
        return {"id": kind, "span_id": kind, "root_span_id": "r", "input": asked,
                "span_attributes": {"name": kind, "type": kind}, "output": answered}  # fmt: skip

    choice = {"finish_reason": "stop", "message": {"role": "assistant", "content": "A."}}
    demos, report = read(
        span("task", "do A", "A."),
        span("llm", ASKED["messages"], [choice]),
        span("tool", "/", "a.txt"),
        span("score", "do A", '{"score": 1}'),
    )
    assert replies(demos) == [["A."]] and not report.problems
    assert report.normalised["spans without messages, left out"] == 3


def test_what_another_agent_of_codex_said_is_what_its_model_read(read):
    payloads = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "do A"}]},
        {"type": "agent_message", "author": "/root/sub", "recipient": "/root",
         "content": [{"type": "input_text", "text": "it is 42"}]},
        {"type": "message", "role": "assistant",
         "content": [{"type": "output_text", "text": "42."}]},
    ]  # fmt: skip
    demos, _ = read(*[{"type": "response_item", "payload": payload} for payload in payloads])
    assert state(demos[0]) == [("user", "do A"), ("user", "it is 42")]


# --- what an answer is, and where it ends ---------------------------------------------------------


@pytest.mark.parametrize("error_first", [False, True])
def test_an_error_of_the_program_is_no_part_of_the_models_answer(error_first, read):
    """Messages of the API say their type, too; their pieces are known by their id."""

    def said(uuid: str, text: str, model: str) -> dict:
        about = {"id": f"msg_{uuid}", "type": "message", "model": model}
        return spoken(uuid, "assistant", text, message=about)

    events = [said("a", "I begin.", "claude"), said("e", "API Error: 529", "<synthetic>")]
    demos, _ = read(ASKS, *(events[::-1] if error_first else events))
    assert replies(demos) == [["I begin."]]


CALLED = [
    {"type": "mcp_tool_use", "id": "1", "name": "list", "server_name": "files", "input": {}},
    {"type": "mcp_tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "a.py"}]},
    {"type": "mcp_tool_use", "id": "2", "name": "owner", "server_name": "files",
     "input": {"of": "a.py"}},
    {"type": "mcp_tool_result", "tool_use_id": "2", "content": [{"type": "text", "text": "ada"}]},
    {"type": "text", "text": "Ada."},
]  # fmt: skip
OF_PYDANTIC = [
    {"part_kind": "builtin-tool-call", "tool_name": "list", "args": {}, "tool_call_id": "1"},
    {"part_kind": "builtin-tool-return", "tool_name": "list", "content": "a", "tool_call_id": "1"},
    {"part_kind": "tool-call", "tool_name": "owner", "args": {"of": "a"}, "tool_call_id": "2"},
]
PYDANTIC = [
    {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "do A"}]},
    {"kind": "response", "parts": OF_PYDANTIC},
]


@pytest.mark.parametrize(
    "messages", [[*ASKED["messages"], {"role": "assistant", "content": CALLED}], PYDANTIC]
)
def test_a_call_behind_the_result_of_a_provider_s_tool_was_made_after_it(messages, read):
    demos, report = read({"messages": messages})
    assert not report.problems
    roles = [message["role"] for message in demos[0].messages[:4]]
    assert roles == ["user", "assistant", "tool", "assistant"]
    (first,), (second,) = [demos[0].messages[i]["tool_calls"] for i in (1, 3)]
    assert [first["function"]["name"], second["function"]["name"]] == ["list", "owner"]


def test_an_answer_goes_on_with_the_words_that_were_put_into_the_models_mouth(read):
    begun = {"role": "assistant", "content": "It is ("}
    answer = {"type": "message", "role": "assistant", "stop_reason": "end_turn",
              "content": [{"type": "text", "text": "B)."}]}  # fmt: skip
    asked = {"messages": [*ASKED["messages"], begun]}
    demos, _ = read({"request": asked, "response": answer})
    assert replies(demos) == [["It is (B)."]]
    more = [OTHER, {"role": "assistant", "content": "C."}]
    demos, _ = read({"request": asked, "response": [answer, *more]})
    assert replies(demos) == [["It is (B).", "C."]]
    of_chat = {"choices": [{"message": {"role": "assistant", "content": "B."}}]}
    demos, _ = read({"request": asked, "response": of_chat})  # of OpenAI: a message of its own
    assert replies(demos) == [["It is (\nB."]]


def test_two_messages_of_one_turn_do_not_run_into_each_other(read):
    def message(*texts: str) -> dict:
        parts = [{"type": "output_text", "text": text} for text in texts]
        return {"type": "message", "role": "assistant", "content": parts}

    output = [message("I look ", "at both."), message("It is in a.py.")]
    demos, _ = read({"input": "do A", "output": output})
    assert replies(demos) == [["I look at both.\nIt is in a.py."]]


@pytest.mark.parametrize(
    "response",
    [
        {"choices": [{"message": SAID, "finish_reason": "error"}]},
        {"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL",
                         "content": {"role": "model", "parts": [{"text": "I"}]}}]},
        {"status": "failed", "output": [ITEM]},
    ],
)  # fmt: skip
def test_an_answer_that_an_error_ended_is_not_learned(response, read):
    demos, report = read({"request": ASKED, "response": response})
    assert not demos and "by an error" in report.problems[0].reason


def test_arguments_that_no_tool_took_are_what_was_called(read):
    failed = {"type": "tool-find", "toolCallId": "1", "state": "output-error",
              "rawInput": {"town": "Bern"}, "errorText": "city is required"}  # fmt: skip
    asked = {"role": "user", "parts": [{"type": "text", "text": "do A"}]}
    parts = [failed, {"type": "step-start"}, {"type": "text", "text": "A."}]
    demos, _ = read({"messages": [asked, {"role": "assistant", "parts": parts}]})
    (call,) = demos[0].messages[1]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {"town": "Bern"}


def test_a_call_between_the_answers_to_parallel_ones_is_one_of_them(read):
    """As it stood: the answers came while the model went on calling."""

    def use(number: str) -> dict:
        return {"type": "server_tool_use", "id": number, "name": "go", "input": {"n": number}}

    def result(number: str) -> dict:
        return {"type": "web_search_tool_result", "tool_use_id": number, "content": number}

    blocks = [use("a"), use("b"), result("a"), use("d"), result("b"), result("d")]
    said = {"type": "text", "text": "A."}
    demos, report = read(
        {"messages": [*ASKED["messages"], {"role": "assistant", "content": [*blocks, said]}]}
    )
    assert len(demos[0].messages[1]["tool_calls"]) == 3
    assert "calls without an answer" not in report.normalised


def test_a_call_whose_tool_failed_is_learned(read):
    called = {"type": "function_call", "call_id": "c", "name": "ls", "arguments": "{}",
              "status": "failed"}  # fmt: skip
    demos, report = read({"input": "do A", "output": [called, ITEM]})
    assert CUT not in report.normalised and demos[0].messages[1]["tool_calls"]


def test_an_empty_message_of_a_turn_adds_nothing(read):
    empty = {**ITEM, "content": [{"type": "output_text", "text": ""}]}
    demos, _ = read({"input": "do A", "output": [ITEM, empty]})
    assert replies(demos) == [["I"]]


def test_a_list_of_files_that_a_tool_returned_is_no_medium(read):
    listed = [{"type": "file", "name": "a.py"}, {"type": "dir", "name": "src"}]
    called = {"role": "assistant", "content": None, "tool_calls": [CALL | {"id": "1"}]}
    result = {"role": "tool", "tool_call_id": "1", "content": listed}
    demos, report = read({"messages": [*ASKED["messages"], called, result, SAID]})
    assert json.loads(demos[0].messages[2]["content"]) == listed and len(demos[0].steps) == 2
    assert not any("images" in note for note in report.normalised)


def test_two_thoughts_of_one_answer_are_both_read(read):
    answer = SAID | {"reasoning_content": "It is B.", "thought": "Say so."}
    demos, _ = read({"messages": [*ASKED["messages"], answer]})
    assert demos[0].steps[0].thought == "It is B.\nSay so."
    longer = SAID | {"reasoning_content": "It is", "thought": "It is B."}
    demos, _ = read({"messages": [*ASKED["messages"], longer]})
    assert demos[0].steps[0].thought == "It is B."


@pytest.mark.parametrize(
    "fields",
    [
        {"reasoning": "It is B.", "reasoning_details": [{"text": "**It is B.**"}]},
        {"reasoning": "It is B.", "reasoning_details": [{"type": "reasoning.text", "id": "s"}]},
        {"reasoning_content": "It is B.", "thinking_blocks": [{"thinking": ""}]},
        {"reasoning_content": "It is B.", "reasoning": [{"text": "It is"}, {"text": "B."}]},
        {"reasoning_content": "It is B.", "thought": "It is\nB."},
        {"reasoning_content": "It is B.", "thinking": True},
    ],
)
def test_a_thought_that_another_field_says_again_is_read_once(fields, read):
    demos, report = read({"messages": [*ASKED["messages"], SAID | fields]})
    assert not report.problems and demos[0].steps[0].thought == "It is B."


# --- what stands around a request -----------------------------------------------------------------


@pytest.mark.parametrize("key", ["contents", "messages", "history", "conversation"])
def test_a_request_may_be_a_text(key, read):
    demos, _ = read({key: "do A", "response": {"choices": [{"message": SAID}]}})
    assert state(demos[0]) == [("user", "do A")]


def test_the_id_of_a_conversation_is_not_what_its_user_said(read):
    demos, report = read({"conversation": "conv_1", "input": "do A", "output": [ITEM]})
    assert not demos and '"conversation"' in report.problems[0].reason


def test_how_much_reasoning_was_asked_for_is_no_thought(read):
    asked = {"reasoning": {"effort": "low", "summary": "auto"}, "input": "do A"}
    demos, report = read({**asked, "output": [ITEM]})
    assert replies(demos) == [[ITEM["content"][0]["text"]]] and not report.problems


def test_a_row_of_a_request_is_no_event_for_its_session_s_id(read):
    row = {"type": "llm_call", "session_id": "s", "request": ASKED,
           "response": {"choices": [{"message": SAID}]}}  # fmt: skip
    demos, _ = read(row, {**row, "request": {"messages": [OTHER]}})
    assert replies(demos) == [["First, I wi"], ["First, I wi"]]
    for asked, answered in (("prompt", "completion"), ("input", "output")):
        rows = [{"type": "chat", "session_id": "s", asked: one, answered: "A."} for one in "ab"]
        assert replies(read(*rows)[0]) == [["A."], ["A."]]


def test_a_search_that_gemini_offers_has_no_schema(read):
    log = {"messages": [*ASKED["messages"], SAID], "tools": [{"googleSearch": {}}]}
    demos, report = read(log)
    assert len(demos) == 1
    assert any("googleSearch" in note for note in report.normalised)


def test_a_call_of_a_server_that_the_provider_asked_holds_its_answer(read):
    called = {"type": "mcp_call", "id": "m", "server_label": "s", "name": "ls", "arguments": "{}",
              "output": "a.txt"}  # fmt: skip
    demos, _ = read({"input": "do A", "output": [called, ITEM]})
    roles = [message["role"] for message in demos[0].messages]
    assert roles == ["user", "assistant", "tool", "assistant"]
    assert demos[0].messages[2]["content"] == "a.txt"


def test_a_file_in_the_answer_of_a_server_is_read_as_its_text(read):
    file = {"type": "resource", "resource": {"uri": "file:///a", "text": "BODY"}}
    result = {"type": "tool_result", "tool_use_id": "1",
              "content": [{"type": "text", "text": "here:"}, file]}  # fmt: skip
    use = {"type": "tool_use", "id": "1", "name": "read", "input": {}}
    messages = [
        *ASKED["messages"], {"role": "assistant", "content": [use]},
        {"role": "user", "content": [result]}, SAID,
    ]  # fmt: skip
    demos, _ = read({"messages": messages})
    assert demos[0].messages[2]["content"] == "here:\nBODY"


def test_values_that_are_printed_one_below_the_other_are_logs(tmp_path):
    logs = [{"messages": [asked, SAID]} for asked in (*ASKED["messages"], OTHER)]
    texts = [json.dumps(log, indent=2) for log in logs]
    (tmp_path / "logs.json").write_text("\n".join(texts), encoding="utf-8")
    demos, report = read_logs(tmp_path / "logs.json")
    assert len(demos) == 2 and not report.problems
    broken = f"{texts[0]}\n\n{texts[1].replace('null', '')}".replace('"do B"', '"do B')
    (tmp_path / "logs.json").write_text(broken, encoding="utf-8")
    demos, report = read_logs(tmp_path / "logs.json")
    line = 1 + broken[: broken.index("do B")].count("\n")
    assert len(demos) == 1 and f"line {line}," in report.problems[0].place
