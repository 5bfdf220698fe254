"""Logs of programs whose fields are known, and of trainers' data sets -> the chat format.

What agents write event by event is in events.py, ATIF in atif.py.
"""

import json
from collections import Counter
from collections.abc import Callable
from itertools import chain
from typing import Any

from minprm.logs.atif import from_atif
from minprm.logs.blocks import answer, call, is_opencodes, thought_of
from minprm.logs.books import CUT_OFF, OUTCOMES, field_at, first, objects_in, parsed, without
from minprm.logs.envelopes import (
    MESSAGES,
    in_chat_form,
    request_messages,
    response_messages,
    tools_beside,
)
from minprm.logs.events import EVENTS, split_at_summaries
from minprm.logs.schemas import from_flat

OF_CONTINUE = ("id", "editorState", "promptLogs", "message")
OF_ROO = ("isSummary", "condenseId", "condenseParent")
OF_SWE_AGENT = ("agent", "message_type", "thought", "action", "tool_call_ids", "is_demo", "tags",
                "cache_control", "thinking_blocks", "provider_specific_fields")  # fmt: skip


def _from_preference(log: dict, notes: Counter) -> dict:
    """The conversation with the answer that was preferred."""
    key = next((key for key in ("input", "prompt", *MESSAGES) if log.get(key) is not None), "")
    said = log.get(key)
    conversation = said if key == "input" else {"messages": request_messages(said, {}, []) or []}
    if not isinstance(conversation, dict) or not isinstance(conversation.get("messages"), list):
        raise ValueError('a preference pair whose "input" has no list "messages"')
    notes["preference pairs, of which the preferred answer is read alone"] += 1
    others = without(log, key, "preferred_output", "non_preferred_output", "chosen", "rejected")
    best = response_messages(first(log, ("preferred_output", "chosen"))) or []
    prompt = conversation["messages"]
    prompt = [] if best[: len(prompt)] == prompt else prompt
    again = others.get("messages") or []
    if again != [*prompt, *best][: len(again)]:
        raise ValueError('its "messages" are not those of its preference pair: --drop .messages')
    return in_chat_form({**others, **conversation, "messages": [*prompt, *best]}, notes)[1]


def _from_batch(log: dict, notes: Counter) -> dict:
    """A batch request, with its answer where the line holds that too."""
    return in_chat_form(without(log, "method", "url", "error"), notes)[1]


def _of_a_program(log: dict, entries: list, notes: Counter, *keys: str) -> dict:
    """A log of a program whose other fields are known: beside the messages, these keys of it."""
    keys = ("task_id", "instance_id", *OUTCOMES, "tools", "system", "system_prompt", *keys)
    others = {key: log[key] for key in keys if key in log}
    for key in log:
        if key not in (*keys, *MESSAGES, "prompt", "completion") and log[key]:
            notes[f'"{key}" of a log, left out'] += 1
    return in_chat_form({**others, "messages": entries}, notes, of_a_program=True)[1]


def _from_xlam(log: dict, notes: Counter) -> dict:
    """xLAM's question with the calls that answer it; a tool's parameters are named flat."""
    tools = []
    for tool in parsed(log["tools"]):
        schema = from_flat(tool.get("parameters") or {})
        tools.append({"type": "function", "function": {**tool, "parameters": schema}})
    calls = [call(one["name"], one.get("arguments")) for one in parsed(log["answers"])]
    others = without(log, "query", "tools", "answers")
    question = {"role": "user", "content": log["query"]}
    answered = {"role": "assistant", "content": None, "tool_calls": calls}
    return {**others, "messages": [question, answered], "tools": tools}


def _from_swe_agent(log: dict, notes: Counter) -> dict:
    """SWE-agent's history; the demonstration is shown and not learned."""
    entries = []
    for entry in first(log, ("history", "messages")):
        message = without(entry, *OF_SWE_AGENT)
        if entry.get("tool_call_ids"):
            message["tool_call_id"] = entry["tool_call_ids"][0]
        thought = entry.get("thought")
        if entry.get("role") == "assistant" and isinstance(thought, str):
            thoughts = [thought_of(entry.get("thinking_blocks")), thought]
            reasoning = "\n".join(one for one in thoughts if one.strip())
            message["reasoning_content"] = reasoning or message.get("reasoning_content")
            if thought.strip() and isinstance(entry.get("content"), str):
                message["content"] = entry["content"].removeprefix(thought).strip() or None
        if entry.get("role") == "assistant" and entry.get("is_demo"):
            message["weight"] = 0
        entries.append(message)
    return _of_a_program(log, entries, notes)


def _from_adk(log: dict, notes: Counter) -> dict:
    """A session of Google's ADK; an event without content changes its state alone."""
    spoken = [one for one in log["events"] if field_at(one, "content.parts")]
    entries = [without(one | one["content"], "start") for one in spoken]
    authors = {str(entry.get("author")) for entry in entries} - {"user"}
    if len(authors) > 1:
        notes[f"sessions of several agents, read as one: {', '.join(sorted(authors))}"] += 1
    return _of_a_program({**log, "events": None}, entries, notes)


def parts_of(value: Any, notes: Counter) -> list | None:
    """The logs of a session in which a program has summarised the conversation: behind a summary
    its model has no longer read what was before. None where it has not."""
    if isinstance(value, list):
        if _is_smolagents({"steps": value}):
            return [{"steps": value}]
        is_summarised = any(field_at(one, "isSummary") is True for one in value)
        return _parts_of_roo(value) if is_summarised else None
    if _is_adk(value):
        return _parts_of_adk(value, notes)
    messages = field_at(value, "messages")
    is_summarised = isinstance(messages, list) and any(map(_summarises, messages))
    return _parts_of_opencode(value) if is_summarised else None


def _parts_of_adk(session: dict, notes: Counter) -> list[dict] | None:
    """Of Google's ADK; None also where nothing was taken back. What was, is in none."""

    def read_behind(before: list[dict], event: dict) -> list[dict] | None:
        actions = event.get("actions") or {}
        back_to = first(actions, ("rewindBeforeInvocationId", "rewind_before_invocation_id"))
        names = [first(one, ("invocationId", "invocation_id")) for one in before]
        if back_to and back_to in names:
            notes["events that its user took back, left out"] += len(names) - names.index(back_to)
            del before[names.index(back_to) :]
        summary = actions.get("compaction")
        return _compacted(before, summary) if summary else None

    parts = split_at_summaries(session["events"], read_behind)
    if parts == [session["events"]]:
        return None
    answered = []
    for part in parts:
        if any(one.get("author") != "user" and "weight" not in one for one in part):
            answered.append(part)
    return [{**session, "events": part} for part in answered or parts[-1:]]


def _compacted(before: list[dict], summary: dict) -> list[dict]:
    """The summary among the events that it does not stand for. An older one goes where a later one
    holds all of it."""
    start = first(summary, ("startTimestamp", "start_timestamp")) or 0
    end = first(summary, ("endTimestamp", "end_timestamp")) or 0
    content = first(summary, ("compactedContent", "compacted_content"))
    others = []
    for event in before:
        time = event.get("timestamp", 0)
        if not (start <= event.get("start", time) and time <= end):
            others.append({**event, "weight": 0})
    summed = {"author": "user", "timestamp": end, "start": start,
              "content": {**content, "role": "user"}}  # fmt: skip
    return sorted([*others, summed], key=lambda event: event.get("timestamp", 0))


def _summarises(message: Any) -> bool:
    """Is it what opencode asks its model when the conversation is too long?"""
    parts = (message["parts"] if is_opencodes(message) else None) or []
    return any(field_at(part, "type") == "compaction" for part in parts)


def _parts_of_opencode(session: dict) -> list[dict]:
    question = {"type": "text", "text": "What did we do so far?"}

    def read_behind(before: list, message: Any) -> list[dict] | None:
        return [{**message, "parts": [question]}] if _summarises(message) else None

    parts = split_at_summaries(session["messages"], read_behind)
    answered = []
    for part in parts:
        about = [message["info"] for message in part if is_opencodes(message)]
        if any(one.get("role") == "assistant" and one.get("summary") is not True for one in about):
            answered.append(part)
    return [{**session, "messages": part} for part in answered or parts[:1]]


def _parts_of_roo(messages: list) -> list[list]:
    """Of Roo Code, which marks the messages that a summary stands for."""

    def read_behind(before: list[dict], message: dict) -> list[dict] | None:
        if not message.get("isSummary"):
            return None
        summarised = message.get("condenseId")
        stays = [one for one in before if one.get("condenseParent") != summarised]
        return [*({**one, "weight": 0} for one in stays), message]

    plain = []
    for part in split_at_summaries(messages, read_behind):
        if any(one.get("role") == "assistant" and "weight" not in one for one in part):
            plain.append([without(one, *OF_ROO) for one in part])
    return plain


def _from_smolagents(log: dict, notes: Counter) -> dict:
    """The steps that an agent of smolagents remembers, as its model read them."""
    steps = first(log, ("steps", "messages"))
    entries = [*chain.from_iterable(map(_of_smolagents, steps))]
    if not any(entry["role"] == "system" for entry in entries):
        prompt = next(filter(None, (step.get("model_input_messages") for step in steps)), [])
        entries = [message for message in prompt if message.get("role") == "system"] + entries
    return _of_a_program({**log, "steps": None}, entries, notes)


def _of_smolagents(step: dict) -> list[dict]:
    """The messages of one step: the rules, the task, a plan, or an action and what came of it."""
    for key, role in (("system_prompt", "system"), ("task", "user"), ("plan", "assistant")):
        if step.get(key):
            before = "New task:\n" if key == "task" else ""
            said = [{"role": role, "content": before + step[key]}]
            go_on = {"role": "user", "content": "Now proceed and carry out this plan."}
            return [*said, go_on] if key == "plan" else said
    calls = field_at(step, "model_output_message.tool_calls") or []
    entries = [{"role": "assistant", "content": step.get("model_output"), "tool_calls": calls}]
    if step.get("observations") and calls:
        entries.append(answer(step["observations"], calls[0].get("id")))
    elif step.get("observations"):
        entries.append({"role": "user", "content": f"Observation:\n{step['observations']}"})
    if step.get("error"):
        error = first(step["error"], ("message",)) or str(step["error"])
        entries.append({"role": "user", "content": f"Error:\n{error}"})
    return entries


def _from_continue(log: dict, notes: Counter) -> dict:
    """A session of Continue, which keeps what a tool answered beside the call, and may write it as
    a message, too."""
    turns = [{**turn, **turn.get("message", {}), "message": None} for turn in log["history"]]
    answered = {turn["toolCallId"] for turn in turns if turn.get("toolCallId")}
    entries = []
    for turn in turns:
        states = turn.pop("toolCallStates", None) or [turn.pop("toolCallState", None)]
        if turn.get("role") == "thinking":
            turn |= {"role": "assistant", "content": None, "thinking": turn.get("content")}
        entries.append(without(turn, *OF_CONTINUE))
        for state in filter(None, states):
            if state.get("output") and state.get("toolCallId") not in answered:
                texts = [one.get("content") or "" for one in state["output"]]
                entries.append(answer("\n".join(texts), state.get("toolCallId")))
    return _of_a_program(log, entries, notes)


def _from_mini(log: dict, notes: Counter) -> dict:
    """mini-swe-agent's messages; the last one, of role exit, only says that it ended."""
    entries = []
    for entry in log["messages"]:
        if entry.get("role") == "exit":
            notes["messages of role exit, left out"] += 1
            continue
        entries.append(without(entry, "extra", "timestamp"))
    return _of_a_program(log, entries, notes)


def _from_tau(log: dict, notes: Counter) -> dict:
    """tau-bench's or tau2-bench's conversation. What a simulated user calls on its own phone is no
    part of what the agent sees."""
    several = [one.get("tool_messages") or [one] for one in first(log, ("traj", "messages"))]
    entries = []
    for entry in chain.from_iterable(several):
        entry = without(entry, "cost", "raw_data", "timestamp")
        of_the_user = entry.pop("requestor", None) == "user" or entry.get("role") == "user"
        if of_the_user and (entry.get("tool_calls") or entry["role"] == "tool"):
            notes["calls of the user's own and their answers, left out"] += 1
            entry.pop("tool_calls", None)
            if entry["role"] == "tool" or not entry.get("content"):
                continue
        entries.append(entry)
    if isinstance(log.get("reward_info"), dict):
        log = {"reward": log["reward_info"].get("reward")} | log
    return _of_a_program(log, entries, notes)


def _from_inspect(log: dict, notes: Counter) -> dict:
    """A sample of Inspect; long texts of it may stand in its attachments."""
    text = json.dumps(log["messages"])
    for key, attached in (log.get("attachments") or {}).items():
        text = text.replace(f"attachment://{key}", json.dumps(attached)[1:-1])
    others = {"task_id": log.get("id")}
    scores = [score.get("value") for score in (log.get("scores") or {}).values()]
    if scores:
        others["score"] = {"C": 1, "I": 0}.get(str(scores[0]), scores[0])
    tools = [event["tools"] for event in log.get("events") or [] if event.get("tools")]
    if tools:
        others["tools"] = [{"type": "function", **tool} for tool in tools[-1]]
    return _of_a_program(others, json.loads(text), notes)


def _from_verifiers(log: dict, notes: Counter) -> dict:
    """A row of verifiers' results; rows of one example are of one task."""
    entries = request_messages(log["prompt"], {}, []) or []
    entries = entries + (response_messages(log["completion"]) or [])
    spoken = [i for i, entry in enumerate(entries) if field_at(entry, "role") == "assistant"]
    if log.get("is_truncated") is True and spoken:
        entries[spoken[-1]] = {**entries[spoken[-1]], CUT_OFF: True}
    beside: dict = {"tools": tools_beside(dict(log))}
    if "example_id" in log:
        beside["task"] = f"{log.get('task', '')} {log['example_id']}".strip()
    return _of_a_program(log | beside, entries, notes, "task")


def _has(*keys: str) -> Callable[[Any], bool]:
    """Is it an object with all of these keys?"""
    return lambda log: isinstance(log, dict) and all(key in log for key in keys)


def _speaks(key: str, sign: str, *values: str) -> Callable[[Any], bool]:
    """Is it an object with a list of messages under this key, one of which has this sign?"""

    def is_of(log: Any) -> bool:
        if not isinstance(log, dict) or key not in log:
            return False  # each log is asked many times
        signs = [entry.get(sign) for entry in objects_in(log[key])]
        return any(one in values if values else one is not None for one in signs)

    return is_of


_is_adk = _speaks("events", "author", "user")


def _is_smolagents(log: Any) -> bool:
    return any(_speaks(key, "model_output")(log) for key in ("steps", "messages"))


def _is_swe_agent(log: Any) -> bool:
    signs = ("agent", "message_type", "thought", "action")
    is_its_own = _has("trajectory")(log) or any(_speaks("history", sign)(log) for sign in signs)
    return is_its_own and _speaks("history", "role")(log)


def _is_batch(log: Any) -> bool:
    return _has("body")(log) and isinstance(log["body"], dict) and "messages" not in log


# (name, is a log of it, its opener), asked in this order. What remains is told by its messages.
FAMILIES: list[tuple[str, Callable[[Any], bool], Callable[[Any, Counter], dict]]] = [
    *EVENTS,
    ("preference", _has("preferred_output"), _from_preference),
    ("preference", _has("chosen", "rejected"), _from_preference),
    ("xLAM", _has("query", "tools", "answers"), _from_xlam),
    ("SWE-agent", _is_swe_agent, _from_swe_agent),
    ("SWE-agent", _speaks("messages", "message_type", "action"), _from_swe_agent),
    ("Continue", _speaks("history", "contextItems"), _from_continue),
    ("smolagents", _is_smolagents, _from_smolagents),
    ("ATIF", _has("steps"), from_atif),
    ("mini-swe-agent", _has("messages", "trajectory_format"), _from_mini),
    ("mini-swe-agent", _speaks("messages", "role", "exit"), _from_mini),
    ("Inspect", _has("messages", "input", "epoch"), _from_inspect),
    ("Inspect", _speaks("messages", "source", "input", "generate"), _from_inspect),
    ("Google ADK", _is_adk, _from_adk),
    ("tau-bench", _has("traj"), _from_tau),
    ("tau2-bench", _has("messages", "reward_info"), _from_tau),
    ("tau2-bench", _speaks("messages", "requestor"), _from_tau),
    ("verifiers", _has("prompt", "completion", "reward"), _from_verifiers),
    ("batch", _is_batch, _from_batch),
]
