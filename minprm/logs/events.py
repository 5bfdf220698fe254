"""Logs that an agent writes event by event: a file, or a trace, is one log.

    Claude Code   {"type": "assistant", "message": {...}, "sessionId", "uuid"}, one a line
    Codex         {"type": "response_item", "payload": {...}}, one a line
    Gemini CLI    {"id", "type": "gemini", "content", "toolCalls"}, one a line, or in one object
    OpenHands     {"action", "args"} and {"observation", "content"}; newer ones say their "kind"

Each becomes messages, or records of a turn's parts, that blocks.py reads.
"""

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

from minprm.logs.blocks import answer, is_cut, is_record, messages_of, thought_of
from minprm.logs.books import (
    CUT_OFF,
    as_list,
    field_at,
    fields_of,
    first,
    is_list_of,
    objects_in,
    without,
)
from minprm.logs.normalise import RAN

CLAUDE_CODE = ("parentUuid", "sessionId", "session_id", "leafUuid", "isSnapshotUpdate",
               "snapshotMessageId")  # fmt: skip
SPEAKERS = ("user", "assistant", "tool_result")  # the last is of Qwen Code
# Where Claude Code names the lines that an answer by another model stands for.
RETRACTED = ("retractedMessageUuids", "retracted_message_uuids", "supersedesUuids", "supersedes")
MESSAGE = {"id", "type", "content"}  # of Gemini CLI
# What a request of a model and its response are called, which no event holds.
EXCHANGE = {"messages", "request", "response", "completion", "choices"}
OPENHANDS = ("Event", "Observation", "Condensation", "CondensationRequest")  # ends of its kinds
# What OpenHands notes of itself, which its model does not see.
OWN_EVENTS = ("change_agent_state", "recall", "condensation", "condensation_request", "null",
              "agent_state_changed", "start", "stop", "pause", "resume")  # fmt: skip
CONDENSED = ("compacted", "Condensation", "condensation")
OWN_ARGUMENTS = ("thought", "is_input", "hidden", "confirmation_state", "security_risk", "blocking",
                 "keep_prompt", "is_static", "cwd", "kernel_init_code")  # fmt: skip
REASONED = ("reasoning_content", "thinking_blocks", "responses_reasoning_item")
OF_A_ROW = ("history", "trajectory", "metadata", "metrics", "test_result", "instruction",
            "git_patch", "report", "error", "instance", "attempt")  # fmt: skip


def is_event(value: Any) -> bool:
    """Is this one event of an agent's log, and not a log?"""
    if not isinstance(value, dict) or {"messages", "role"} & value.keys():
        return False
    programs = (_is_claude_code, _is_codex, _is_gemini_cli, _is_openhands)
    return any(is_of(value) for is_of in programs)


def _is_claude_code(value: dict) -> bool:
    spoken = value.get("type") in ("user", "assistant") and isinstance(value.get("message"), dict)
    observed = {"trace_id", "traceId"} & value.keys()  # an observation of Langfuse
    is_own = isinstance(value.get("type"), str) and any(key in value for key in CLAUDE_CODE)
    answers = EXCHANGE & value.keys() or {"input", "output"} <= value.keys()
    return spoken or (is_own and not observed and not answers)


def _is_codex(value: dict) -> bool:
    header = {"id", "timestamp"} <= value.keys() <= {"id", "timestamp", "instructions", "git"}
    state = value.keys() == {"record_type"}  # both of its oldest versions
    payload = value.get("payload")
    is_item = isinstance(payload, dict) and not EXCHANGE & payload.keys()
    return header or state or (is_item and isinstance(value.get("type"), str))


def _is_gemini_cli(value: dict) -> bool:
    """Is it the first line of a session? The lines behind it say nothing of their program."""
    return {"sessionId", "projectHash"} <= value.keys() and "messages" not in value


def is_gemini_session(log: Any) -> bool:
    """Is it a session of Gemini CLI, as its lines or as an object with its messages?"""
    if isinstance(log, dict):
        says = all(one.keys() >= MESSAGE for one in objects_in(log.get("messages")))
        return says and "projectHash" in log and isinstance(log.get("messages"), list)
    is_list = isinstance(log, list) and len(log) > 0
    return is_list and _is_gemini_cli(fields_of(log[0])) and all(map(is_gemini_line, log[1:]))


def is_gemini_line(value: Any) -> bool:
    """Is it a line behind the first one of such a session?"""
    keys = fields_of(value).keys()
    says = keys >= MESSAGE or not keys.isdisjoint(("$set", "$rewindTo", "$patch"))
    return says and "message" not in keys


def _is_openhands(value: dict) -> bool:
    older = "source" in value and ("action" in value or "observation" in value)
    return older or str(value.get("kind")).endswith(OPENHANDS)


def split_events(events: list[dict]) -> list[list[dict]]:
    """The events of each session, of each agent that a session has started, and of each part behind
    a summary."""
    sessions = [events] if is_gemini_session(events) else _sessions_in(events)
    parts = [part for own in sessions for part in split_at_summaries(own, _read_behind)]
    answered = [part for part in parts if any(map(_says_something, part))]
    return answered or parts


def _sessions_in(events: list[dict]) -> list[list[dict]]:
    """The events of each session, and of each agent that one has started, up to each summary of
    Claude Code or Qwen Code and behind it."""
    parts: dict[tuple, list[dict]] = {}  # by session, agent and how many summaries came before
    summaries: Counter[str] = Counter()  # behind one, the model has no longer read what was before
    for event, session, agent in zip(events, _names(events), _agents(events), strict=True):
        is_boundary = event.get("subtype") in ("compact_boundary", "chat_compression")
        summaries[session] += bool(event.get("isCompactSummary") or is_boundary)
        parts.setdefault((session, agent, summaries[session]), []).append(event)
    return [*parts.values()]


def _names(events: list[dict]) -> list[str]:
    """The session of each event: that of the event that it goes on; or the one that it names; or
    that of the event beside it."""
    named = [event.get("sessionId") or event.get("session_id") for event in events]
    session = next((str(name) for name in named if name), "")
    of_uuid: dict[str, str] = {}
    sessions = []
    for event, name in zip(events, named, strict=True):
        session = of_uuid.get(str(event.get("parentUuid")), str(name) if name else session)
        if event.get("uuid"):
            of_uuid[str(event["uuid"])] = session
        sessions.append(session)
    return sessions


def _agents(events: list[dict]) -> list[str]:
    """The agent of each event. In older versions it has no id, and is known by its first event."""
    of_uuid: dict[Any, Any] = {}
    agents = []
    for event in events:
        agent = event.get("agentId") or event.get("parent_tool_use_id")
        if not agent and event.get("isSidechain"):
            agent = of_uuid.get(event.get("parentUuid")) or event.get("uuid") or True
            of_uuid[event.get("uuid")] = agent
        agents.append(str(agent or None))
    return agents


def _says_something(event: dict) -> bool:
    if event.get("remembered") or event.get("isCompactSummary"):
        return False
    is_own = event.get("action") in OWN_EVENTS or event.get("observation") in OWN_EVENTS
    is_message = event.get("type") in ("user", "assistant", "gemini", "response_item")
    return is_message or (event.get("source") == "agent" and not is_own)


def split_at_summaries(entries: list, read_behind: Callable) -> list[list]:
    """The entries up to each summary; the next part begins with what its model went on from.

    read_behind: of (the part so far, an entry), what that is; None where the entry is no summary.
    """
    parts: list[list] = [[]]
    for entry in entries:
        history = read_behind(parts[-1], entry)
        if history is None:
            parts[-1].append(entry)
        else:
            parts.append(history)
    return parts


def _read_behind(before: list[dict], event: dict) -> list[dict] | None:
    """What the model of Codex, Gemini CLI or OpenHands went on from after this event; None where it
    is no summary. One whose history is encrypted, or not in the log, stays, with what follows."""
    condenses = any(event.get(key) in CONDENSED for key in ("type", "kind", "action"))
    changed = fields_of(event.get("$set"))  # of Gemini CLI
    if not condenses and "messages" not in changed:
        return None
    if "$set" in event:
        history = event["$set"]["messages"]
        return [before[0], *({**message, "remembered": True} for message in history)]
    if "payload" not in event:
        return _remembered(before, event)
    items = event["payload"].get("replacement_history") or []  # of Codex
    if not items or any("compaction" in str(one.get("type")) for one in items):
        return None
    history = [{"type": "response_item", "payload": one, "remembered": True} for one in items]
    return [one for one in before if one.get("type", "session_meta") == "session_meta"] + history


def _remembered(before: list[dict], event: dict) -> list[dict]:
    """Of OpenHands: the events that were not forgotten, and the last summary in the place of the
    others. None of them is learned again."""
    condensed = event.get("args", event)
    ids = ["summary", *(condensed.get("forgotten_event_ids") or [])]
    start = condensed.get("forgotten_events_start_id")
    if start is not None:
        ids += range(start, condensed["forgotten_events_end_id"] + 1)
    gone = [one.get("id") in ids for one in before]
    history = [{**before[i], "remembered": True} for i in range(len(before)) if not gone[i]]
    if condensed.get("summary"):
        turn = {"role": "user", "content": [condensed["summary"]]}
        summary = {"kind": "MessageEvent", "id": "summary", "llm_message": turn, "remembered": True}
        history.insert(gone.index(True) if any(gone) else len(gone), summary)
    return history


def from_claude_code(events: list[dict], notes: Counter) -> dict:
    """A session of Claude Code. What it says itself, as of an error of the API, is no answer of the
    model."""
    entries = []
    seen = set()
    taken_back = _taken_back(events)
    retracted = _retracted(events)
    stopped = {event["message"].get("id") for event in events if _is_stopped(event)} - {None}
    for event in events:
        uuid = event.get("uuid")
        if uuid is not None and uuid in seen:
            notes["events that are written twice, read once"] += 1
        elif uuid is not None and uuid in taken_back:
            notes["events of a branch that its user went back from, left out"] += 1
        elif uuid in retracted:
            notes["answers that another one has replaced, left out"] += 1
        elif event["type"] in SPEAKERS and isinstance(event.get("message"), dict):
            message = event["message"]
            is_own = message.get("model") == "<synthetic>" or event.get("isApiErrorMessage")
            is_stopped = message.get("id") in stopped or _is_stopped(event)
            marks = {"weight": 0} if is_own else {CUT_OFF: True} if is_stopped else {}
            if message.get("id") is not None:  # by which its pieces are known
                message = without(message, "type")
            entries.append({**message, **marks})
        elif event["type"] in SPEAKERS and event.get("message"):
            raise ValueError("the message of an event is no object")
        elif event.get("subtype") == "chat_compression":
            for message in field_at(event, "systemPayload.compressedHistory") or []:
                entries.append({**message, "weight": 0} if message["role"] == "model" else message)
        elif event["type"] in ("tool_call", "tool_use", "message"):
            raise ValueError(f"a stream of Cursor or Gemini CLI: its {event['type']} is not read")
        elif event["type"] == "attachment":
            attached = event.get("attachment") or {}
            if attached.get("type") == "queued_command":  # what its user says in mid-turn
                entries.append({"role": "user", "content": attached.get("prompt")})
            else:
                notes[f"attachments of Claude Code, left out: {attached.get('type')}"] += 1
        seen.add(uuid)
    return {"messages": messages_of(entries, of_a_program=True)}


def _is_stopped(event: dict) -> bool:
    """Is it a piece of an answer that did not come to its end?"""
    if event["type"] != "assistant" or not isinstance(event.get("message"), dict):
        return False
    return is_cut(event["message"]) or event.get("isAbortedMidStream") is True


def _retracted(events: list[dict]) -> set[str]:
    """The uuids of answers that another one stands for, and of the results of their calls."""
    uuids: set[str] = set()
    for event in events:
        for key in RETRACTED:
            uuids.update(uuid for uuid in as_list(event.get(key)) if isinstance(uuid, str))
    calls = set()
    for event in events:
        if event.get("uuid") in uuids:
            calls.update(str(block.get("id")) for block in _blocks_of(event))
    for event in events:
        results = [block for block in _blocks_of(event) if "tool_use_id" in block]
        if results and all(str(block["tool_use_id"]) in calls for block in results):
            uuids.add(str(event.get("uuid")))
    return uuids


def _taken_back(events: list[dict]) -> set[str]:
    """The uuids of what its user went back from: of several prompts behind one event the last one
    stands, and with the others goes all that follows them."""
    prompts: dict[Any, str] = {}  # behind each event, the last prompt
    parents = {event.get("parentUuid") for event in events}
    gone = set()
    for event in events:
        parent = event.get("parentUuid")
        if _is_prompt(event):
            before = prompts.get(parent, event["uuid"])
            prompts[parent] = event["uuid"]
            # some programs write events without parents, which are no beginnings
            if before != event["uuid"] and (parent is not None or before in parents):
                gone.add(before)
    for event in events:
        if event.get("parentUuid") in gone:
            gone.add(event["uuid"])
    return gone


def _is_prompt(event: dict) -> bool:
    """Did its user type it? Results of tools and what the program says are events of a user too."""
    is_typed = event["type"] == "user" and {"uuid", "parentUuid"} <= event.keys()
    is_result = any("tool_use_id" in block for block in _blocks_of(event))
    return is_typed and not is_result and not event.get("isMeta")


def _blocks_of(event: dict) -> list[dict]:
    """The blocks of what an event says."""
    return objects_in(field_at(event, "message.content"))


def from_codex(events: list[dict], notes: Counter) -> dict:
    """A rollout of Codex: its response items; the other events say the same for the screen."""
    entries = []
    remembered = 0  # how many of them a new history holds, and were learned where they were said
    for i, event in enumerate(events):
        payload = event.get("payload", event)  # the oldest versions wrote items as they are
        kind = payload.get("type")
        if event.get("type") == "compacted":
            notes["events behind a summary of the conversation, left out"] += len(events) - i
            break
        if kind == "thread_rolled_back":
            raise ValueError("its user took turns back: delete their lines and thread_rolled_back")
        rules = first(payload, ("base_instructions", "instructions"))
        if event.get("type", "session_meta") == "session_meta" and rules and not entries:
            entries.append({"role": "system", "content": first(rules, ("text",))
                            if isinstance(rules, dict) else rules})  # fmt: skip
        elif "payload" in event and event.get("type") != "response_item":
            continue
        elif is_record(payload) and not RAN.search(kind):
            output = payload.get("output")
            if isinstance(output, dict) and output.keys() == {"content", "success"}:
                payload = {**payload, "output": output["content"]}  # the model reads it alone
            entries.append(payload)
        elif kind == "message":
            entries.append({key: payload[key] for key in ("type", "role", "content")})
        elif kind == "agent_message" and is_list_of(payload.get("content"), "text"):
            entries.append({"role": "user", "content": payload["content"]})  # another agent's
        elif kind:
            notes[f"{kind} of Codex, left out"] += 1
        remembered = len(entries) if event.get("remembered") else remembered
    before = messages_of(entries[:remembered])
    unlearned = [one | {"weight": 0} if one["role"] == "assistant" else one for one in before]
    return {"messages": unlearned + messages_of(entries[remembered:])}


def from_gemini_cli(log: Any, notes: Counter) -> dict:
    """A session of Gemini CLI. A message is written again as it grows: the last line of an id
    stands, in the place of the first."""
    messages: dict[str, dict] = {}
    for line in log["messages"] if isinstance(log, dict) else log:
        if "$patch" in line:
            raise ValueError("it holds changes of messages ($patch), which are not read")
        if "$rewindTo" in line:
            ids = [*messages]
            place = ids.index(line["$rewindTo"]) if line["$rewindTo"] in ids else 0
            for number in ids[place:]:
                del messages[number]
            notes["messages that its user took back, left out"] += len(ids) - place
        elif "content" in line:
            before = messages.get(line["id"]) or line
            messages[line["id"]] = {**line, "remembered": before.get("remembered")}
    entries = []
    for message in messages.values():
        entries += _of_gemini_cli(message, notes)
    return {"messages": messages_of(entries, of_a_program=True)}


def _of_gemini_cli(message: dict, notes: Counter) -> list[dict]:
    """What a message says; then what its tools answered."""
    of_tools = {"functionCall", "functionResponse"}  # these stand in toolCalls, too
    said = [one for one in as_list(message["content"]) if not of_tools & fields_of(one).keys()]
    if message["type"] == "user":
        return [{"role": "user", "content": said}] if said else []
    if message["type"] != "gemini":
        notes[f"{message['type']} of Gemini CLI, left out"] += 1
        return []
    thoughts = []
    for thought in message.get("thoughts") or []:
        lines = [thought.get("subject"), thought.get("description")]
        thoughts.append({"type": "thinking", "thinking": "\n".join(filter(None, lines))})
    calls, answers = [], []
    for one in message.get("toolCalls") or []:
        calls.append({"type": "tool_use", "id": one["id"], "name": one["name"],
                      "input": one.get("args")})  # fmt: skip
        parts = [_response(part) for part in as_list(one.get("result")) if part is not None]
        if len(parts) > 1:
            parts = [_block_of(part) for part in parts]
        if parts:
            answers.append(answer(parts[0] if len(parts) == 1 else parts, one["id"]))
    mark = {"weight": 0} if message.get("remembered") else {}
    return [{"role": "assistant", "content": [*thoughts, *said, *calls], **mark}, *answers]


def _response(part: Any) -> Any:
    """What a tool's result says: the text that it gave its model, or a part of another kind."""
    if {"inlineData", "fileData"} & fields_of(part).keys():
        return {"type": "image"}
    if "functionResponse" not in fields_of(part):
        return part
    response = part["functionResponse"].get("response")
    said = [response[key] for key in ("output", "error") if key in fields_of(response)]
    return said[0] if said else response


def _block_of(part: Any) -> dict:
    """One of several parts of a result: text, JSON as text, or what is a block already."""
    if not fields_of(part).keys().isdisjoint(("type", "text")):
        return part
    text = part if isinstance(part, str) else json.dumps(part, ensure_ascii=False)
    return {"type": "text", "text": text}


def from_openhands(log: Any, notes: Counter) -> dict:
    """The events of OpenHands, by themselves or as the history of a row of its results."""
    others = without(fields_of(log), *OF_A_ROW)
    events = _flat(log) if isinstance(log, dict) else log
    entries: list[dict] = []
    calls: dict[Any, str] = {}  # of older versions: the id of the call of each event
    for event in events:
        new = _newer(event, others) if "kind" in event else _older(event, others, calls)
        mark = {"weight": 0} if event.get("remembered") else {}
        entries += [{**entry, **mark} for entry in new]
    return {**others, "messages": messages_of(entries, of_a_program=True)}


def _flat(row: Any) -> list[dict]:
    """The events of a row of results; older ones have pairs of an action and its observation."""
    flat = []
    for event in first(row, ("history", "trajectory")) or []:
        flat += as_list(event)
    return objects_in(flat)


def _older(event: dict, others: dict, calls: dict[Any, str]) -> list[dict]:
    """{"action", "args"} or {"observation", "content", "cause"}."""
    metadata = event.get("tool_call_metadata") or {}
    arguments = event.get("args") or {}
    action = event.get("action")
    if action in OWN_EVENTS or event.get("observation") in OWN_EVENTS:
        return []
    if "observation" in event:
        call_id = calls.get(event.get("cause")) or metadata.get("tool_call_id")
        if call_id is None:
            return [{"role": "user", "content": event.get("content")}]
        return [answer(event.get("content"), call_id)]
    if action in ("message", "system"):
        if arguments.get("tools"):
            others["tools"] = arguments["tools"]
        role = "assistant" if event.get("source") == "agent" else "user"
        return [{"role": "system" if action == "system" else role,
                 "content": arguments.get("content")}]  # fmt: skip
    inside = without(arguments, *OWN_ARGUMENTS)
    thoughts = [arguments.get("thought")]
    for choice in (metadata.get("model_response") or {}).get("choices") or []:
        message = choice.get("message") or {}
        for i, one in enumerate(message.get("tool_calls") or []):
            if one.get("id") == metadata.get("tool_call_id"):  # as the model wrote it
                inside = one["function"]["arguments"]
                reasoned = thought_of(message.get("reasoning_content"))
                thoughts = [reasoned, *thoughts] if i == 0 else thoughts
    call_id = metadata.get("tool_call_id") or f"event_{event.get('id')}"
    name = metadata.get("function_name") or action
    calls[event.get("id")] = call_id
    record = {"type": "tool_use", "id": call_id, "name": name, "input": inside}
    thought = "\n".join(dict.fromkeys(one for one in thoughts if one))
    content = [{"type": "thinking", "thinking": thought}, record] if thought else [record]
    # calls of one response are one turn, though each is answered before the next is an event
    response_id = (metadata.get("model_response") or {}).get("id")
    return [{"role": "assistant", "content": content, "id": response_id}]


def _newer(event: dict, others: dict) -> list[dict]:
    """An event of OpenHands' SDK, which names its kind."""
    kind = event["kind"]
    if kind == "SystemPromptEvent":
        tools = [tool for tool in event.get("tools") or [] if "function" in tool]
        others.update({"tools": tools} if tools else {})
        rules = [event["system_prompt"], event.get("dynamic_context")]
        return [{"role": "system", "content": rules}]
    turn = event.get("llm_message") or event
    thought = {"type": "thinking", "thinking": first(turn, REASONED)}
    if kind == "MessageEvent":
        content = [thought, *as_list(turn["content"]), *(event.get("extended_content") or [])]
        return [{"role": turn["role"], "content": content, "tool_calls": turn.get("tool_calls")}]
    call_id = event.get("tool_call_id")
    if kind == "ActionEvent":
        called = event.get("tool_call") or {}
        called = {**called, **(called.get("function") or {})}
        action = {key: one for key, one in (event.get("action") or {}).items() if key != "kind"}
        record = {"type": "tool_use", "id": call_id, "name": event.get("tool_name"),
                  "input": called.get("arguments") or action}  # fmt: skip
        content = [thought, *(event.get("thought") or []), record]
        return [{"role": "assistant", "content": content, "id": event.get("llm_response_id")}]
    output = event.get("observation") or {}
    content = first(event, ("error", "rejection_reason")) or first(output, ("content", "output"))
    return [answer(content or output, call_id)] if call_id else []


def _events_of(is_of: Callable[[dict], bool]) -> Callable[[Any], bool]:
    """Is it a list of events, of which one is of this program?"""
    return lambda log: any(map(is_of, objects_in(log)))


def is_row(log: Any) -> bool:
    """Is it a row of OpenHands' results, with its events in it?"""
    return isinstance(log, dict) and any(map(_is_openhands, _flat(log)))


EVENTS = [
    ("Claude Code", _events_of(_is_claude_code), from_claude_code),
    ("Codex", _events_of(_is_codex), from_codex),
    ("Gemini CLI", is_gemini_session, from_gemini_cli),
    ("OpenHands", _events_of(_is_openhands), from_openhands),
    ("OpenHands", is_row, from_openhands),
]
