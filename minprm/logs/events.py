"""Logs that an agent writes event by event: a file, or a trace, is one log.

    Claude Code   {"type": "assistant", "message": {...}, "sessionId", "uuid"}, one a line
    Codex         {"type": "response_item", "payload": {...}}, one a line; older ones the bare items
    OpenHands     {"action", "args"} and {"observation", "content"}; the newer ones name their kind
    spans         OpenTelemetry's with gen_ai attributes: each holds the conversation up to it
"""

import json
from collections import Counter
from typing import Any

from minprm.logs.blocks import RECORDS, Conversation, answer, blocks, call, first, messages_of
from minprm.text.actions import parse_json

SESSION = ("user", "assistant")
CLAUDE_CODE = ("parentUuid", "sessionId", "session_id", "leafUuid", "isSnapshotUpdate")
OPENHANDS_KINDS = ("SystemPromptEvent", "MessageEvent", "ActionEvent", "ObservationEvent",
                   "AgentErrorEvent", "UserRejectObservation", "ConversationStateUpdateEvent",
                   "CondensationRequest", "Condensation", "PauseEvent", "TokenEvent",
                   "ConversationErrorEvent", "CondensationSummaryEvent")  # fmt: skip
# What OpenHands notes of itself, which its model does not see.
OWN_ACTIONS = ("change_agent_state", "recall", "condensation", "condensation_request", "null",
               "agent_state_changed", "user_rejected", "start", "stop", "pause", "resume")
OWN_ARGUMENTS = ("thought", "is_input", "hidden", "confirmation_state", "security_risk", "blocking",
                 "keep_prompt", "is_static", "cwd", "wait_for_response", "image_urls", "file_urls",
                 "include_extra", "kernel_init_code")  # fmt: skip


def is_event(value: Any) -> bool:
    """Is this one event of an agent's log, and not a log?"""
    if not isinstance(value, dict) or "messages" in value or "role" in value:
        return False
    return _is_claude_code(value) or _is_codex(value) or _is_openhands(value)


def _is_claude_code(value: dict) -> bool:
    if not isinstance(value.get("type"), str):
        return False
    return any(key in value for key in CLAUDE_CODE)


def _is_codex(value: dict) -> bool:
    kind = value.get("type")
    if "payload" in value and isinstance(kind, str):
        return True
    return kind in RECORDS and ("call_id" in value or "summary" in value) or "record_type" in value


def _is_openhands(value: dict) -> bool:
    if value.get("kind") in OPENHANDS_KINDS:
        return True
    return "source" in value and ("action" in value or "observation" in value)


def split_events(events: list[dict]) -> list[list[dict]]:
    """The events of each session, and of each agent that a session has started."""
    sessions: dict[tuple, list[dict]] = {}
    for event in events:
        agent = event.get("agentId") or event.get("parent_tool_use_id") or event.get("isSidechain")
        key = (event.get("sessionId") or event.get("session_id"), agent or None)
        sessions.setdefault(key, []).append(event)
    said = [own for own in sessions.values() if any(map(_says_something, own))]
    return said or list(sessions.values())


def _says_something(event: dict) -> bool:
    return not _is_claude_code(event) or event["type"] in SESSION


def _events_of(is_of) -> Any:
    """Is it a list of events, of which one is of this program?"""
    return lambda log: isinstance(log, list) and any(isinstance(e, dict) and is_of(e) for e in log)


# --- Claude Code ----------------------------------------------------------------------------------


def from_claude_code(events: list[dict], notes: Counter) -> dict:
    """A session of Claude Code. Lines of one message id are one turn, also where the answers of
    its first calls stand between them."""
    conversation = Conversation(joins_calls=True)
    message_id = None
    for event in _without_abandoned(events, notes):
        if event["type"] not in SESSION:
            continue
        message = event["message"]
        role = message["role"]
        content = message.get("content")
        content = content if isinstance(content, list) else [content]
        parts = [part for block in content for part in blocks(block)]
        if role == "assistant" and message.get("id") != message_id or not message.get("id"):
            if role == "assistant" or any(kind != "answer" for kind, _ in parts):
                conversation.end_turn()
        message_id = message.get("id") if role == "assistant" else message_id
        fields = {"weight": 0} if event.get("isApiErrorMessage") else {}
        for kind, inside in parts:
            if kind != "end":
                conversation.add(role, kind, inside, fields if role == "assistant" else {})
    conversation.end_turn()
    return {"messages": [m for m in conversation.messages if _is_filled(m)]}


def _is_filled(message: dict) -> bool:
    return message["role"] != "assistant" or len(message) > 2 or bool(message["content"])


def _without_abandoned(events: list[dict], notes: Counter) -> list[dict]:
    """The events without those that the user has gone back behind, to ask in other words."""
    kept: list[dict] = []
    for event in events:
        parent = event.get("parentUuid")
        content = (event.get("message") or {}).get("content")
        if event["type"] == "user" and parent and isinstance(content, str):
            places = [i for i, other in enumerate(kept) if other.get("uuid") == parent]
            after = kept[places[0] + 1 :] if places else []
            if any(isinstance((e.get("message") or {}).get("content"), str) for e in after):
                notes["events that the user has gone back behind, left out"] += len(after)
                del kept[places[0] + 1 :]
        kept.append(event)
    return kept


# --- Codex ----------------------------------------------------------------------------------------


def from_codex(events: list[dict], notes: Counter) -> dict:
    """A rollout of Codex: its response items; the other events say the same for the screen."""
    entries = []
    for event in events:
        payload = event.get("payload", event)
        kind = event.get("type")
        if kind == "session_meta":
            rules = first(payload, ("base_instructions", "instructions"))
            rules = rules.get("text") if isinstance(rules, dict) else rules
            if rules:
                entries.append({"role": "system", "content": rules})
        elif kind == "response_item" or "payload" not in event:
            if payload.get("type") in (*RECORDS, "message"):
                entries.append(payload)
            elif isinstance(payload.get("type"), str):
                notes[f"{payload['type']} of Codex, left out"] += 1
        elif kind == "compacted":
            notes["histories that Codex has shortened, read whole"] += 1
    return {"messages": messages_of(entries)}


# --- OpenHands ------------------------------------------------------------------------------------


def from_openhands(log: Any, notes: Counter) -> dict:
    """The events of OpenHands, by themselves or as the history of a row of its results."""
    others: dict = {}
    events = log
    if isinstance(log, dict):
        key = "history" if "history" in log else "trajectory"
        events = log[key]
        others = {k: log[k] for k in log if k not in (key, *ROW)}
    conversation = Conversation()
    response = None
    for event in _flat(events):
        if event.get("kind") in OPENHANDS_KINDS:
            if event.get("llm_response_id") != response:
                conversation.end_turn()
            response = event.get("llm_response_id")
            conversation.joins_calls = True
            _add_newer(conversation, event, others)
        else:
            _add_older(conversation, event, others)
    conversation.end_turn()
    return {**others, "messages": conversation.messages}


ROW = ("metadata", "metrics", "test_result", "instruction", "git_patch", "report", "error",
       "instance", "attempt")  # fmt: skip


def _flat(events: list) -> list[dict]:
    """Older rows have pairs of an action and what was observed."""
    flat = []
    for event in events:
        flat += event if isinstance(event, list) else [event]
    return [event for event in flat if isinstance(event, dict)]


def _add_older(conversation: Conversation, event: dict, others: dict) -> None:
    """{"action", "args"} or {"observation", "content", "cause"}."""
    metadata = event.get("tool_call_metadata") or {}
    arguments = event.get("args") or {}
    action = event.get("action")
    if action in OWN_ACTIONS or event.get("observation") in OWN_ACTIONS:
        return
    if "observation" in event:
        call_id = metadata.get("tool_call_id") or event.get("tool_call_id") or event.get("cause")
        answers = {m["id"]: m for turn in conversation.messages for m in turn.get("tool_calls", [])}
        by_cause = f"event_{event.get('cause')}"
        if str(call_id) not in answers:
            call_id = by_cause if by_cause in answers else None
        if call_id is None:  # of no call, but shown
            calls = [c["id"] for m in conversation.messages[-1:] for c in m.get("tool_calls", [])]
            call_id = calls[0] if calls else None
        kind = "answer" if call_id is not None else "text"
        content = event.get("content")
        content = answer(content, call_id) if kind == "answer" else content
        conversation.add("tool" if kind == "answer" else "user", kind, content)
    elif action in ("message", "system"):
        role = {"user": "user", "agent": "assistant"}.get(event.get("source", ""), "user")
        conversation.end_turn()
        conversation.add("system" if action == "system" else role, "text", arguments.get("content"))
        if arguments.get("tools"):
            others["tools"] = arguments["tools"]
    elif event.get("source") == "agent" and isinstance(action, str):
        call_id = metadata.get("tool_call_id") or f"event_{event.get('id')}"
        conversation.end_turn()
        conversation.add("assistant", "thought", _thought_of(arguments))
        name = metadata.get("function_name") or action
        conversation.add("assistant", "call", call(name, _arguments(metadata, arguments), call_id))


def _thought_of(arguments: dict) -> Any:
    thought = arguments.get("thought")
    return thought.get("text") if isinstance(thought, dict) else thought


def _arguments(metadata: dict, arguments: dict) -> Any:
    """A call's arguments as the model wrote them, where the event holds its response."""
    for choice in (metadata.get("model_response") or {}).get("choices") or []:
        for one in (choice.get("message") or {}).get("tool_calls") or []:
            if one.get("id") == metadata.get("tool_call_id"):
                return one["function"]["arguments"]
    return {key: arguments[key] for key in arguments if key not in OWN_ARGUMENTS}


def _add_newer(conversation: Conversation, event: dict, others: dict) -> None:
    """An event of OpenHands' SDK, which names its kind."""
    kind = event["kind"]
    if kind == "SystemPromptEvent":
        for part in blocks(event["system_prompt"]):
            conversation.add("system", *part)
        tools = [tool for tool in event.get("tools") or [] if "function" in tool]
        if tools:
            others["tools"] = tools
    elif kind == "MessageEvent":
        conversation.end_turn()
        conversation.messages += messages_of([event["llm_message"]])
    elif kind == "ActionEvent":
        called = event.get("tool_call") or {}
        called = {**called, **(called.get("function") or {})}
        arguments = called.get("arguments")
        if arguments is None:
            arguments = {k: v for k, v in (event.get("action") or {}).items() if k != "kind"}
        conversation.add("assistant", "thought", event.get("reasoning_content"))
        for part in event.get("thought") or []:
            conversation.add("assistant", "text", blocks(part)[0][1])
        call_id = event.get("tool_call_id") or called.get("id")
        one = call(event.get("tool_name") or called.get("name"), arguments, call_id)
        conversation.add("assistant", "call", one)
    elif "tool_call_id" in event:
        seen = event.get("observation") or {}
        content = first(event, ("error", "rejection_reason")) or first(seen, ("content", "output"))
        conversation.add("tool", "answer", answer(content or seen, event["tool_call_id"]))


# --- spans ----------------------------------------------------------------------------------------


def spans_of(value: dict) -> list[dict] | None:
    """The logs in spans of OpenTelemetry; None where it is none. A span without messages, as of a
    tool, is none."""
    if isinstance(value.get("resourceSpans"), list):
        spans = []
        for resource in value["resourceSpans"]:
            for scope in first(resource, ("scopeSpans", "instrumentationLibrarySpans")) or []:
                spans += scope.get("spans") or []
        return [log for span in spans for log in spans_of(span) or []]
    attributes = value.get("attributes")
    if isinstance(attributes, list):
        attributes = {one["key"]: _otlp(one.get("value")) for one in attributes if "key" in one}
    if not isinstance(attributes, dict) or not any(key.startswith("gen_ai.") for key in attributes):
        return None
    if "gen_ai.input.messages" not in attributes:
        return []
    log = {"gen_ai.system_instructions": attributes.get("gen_ai.system_instructions")}
    log["tools"] = attributes.get("gen_ai.tool.definitions")
    log["messages"] = _json(attributes["gen_ai.input.messages"])
    log["output"] = attributes.get("gen_ai.output.messages")
    return [log]


def _otlp(value: Any) -> Any:
    """A value of OTLP, which names its type: {"stringValue": "x"}."""
    inside = next(iter(value.values()), None) if isinstance(value, dict) else value
    if isinstance(inside, dict) and "values" in inside:
        if isinstance(value, dict) and "kvlistValue" in value:
            return {one["key"]: _otlp(one["value"]) for one in inside["values"]}
        return [_otlp(one) for one in inside["values"]]
    return inside


def _json(text: Any) -> Any:
    return parse_json(text) if isinstance(text, str) else text


def _is_row(log: Any) -> bool:
    """Is it a row of OpenHands' results, with its events as a history?"""
    events = first(log, ("history", "trajectory")) if isinstance(log, dict) else None
    if not isinstance(events, list):
        return False
    return any(_is_openhands(event) for event in _flat(events))


EVENTS = [
    ("Claude Code", _events_of(_is_claude_code), from_claude_code),
    ("Codex", _events_of(_is_codex), from_codex),
    ("OpenHands", _events_of(_is_openhands), from_openhands),
    ("OpenHands", _is_row, from_openhands),
]
