"""Which format a log is in, and the log in the chat format: {"messages", "tools", ...}.

A log is told by what is in it. Here a file's values are sorted into logs, and each log goes to who
opens it: events.py, spans.py, programs.py, or envelopes.py, which knows what requests, responses
and other objects with messages have in common. docs/logs.md has a table of all.
"""

import json
from collections import Counter
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

from minprm import own as users
from minprm.logs.blocks import is_message, is_record
from minprm.logs.books import (
    ARGUMENTS,
    TOOL_NAMES,
    field_at,
    fields_of,
    first,
    nodes,
    objects_in,
    parsed,
    without,
)
from minprm.logs.envelopes import MESSAGES, REQUESTS, RESPONSES, TOOLS, in_chat_form
from minprm.logs.events import is_event, is_gemini_line, is_gemini_session, is_row, split_events
from minprm.logs.files import Problem, Row, values_of
from minprm.logs.programs import FAMILIES, parts_of
from minprm.logs.spans import calls_a_model, observed, spans_of
from minprm.logs.traces import FAILED, calls_of_models, has_failed, is_no_chat, is_span

FORMATS = (
    'a chat ("messages") of any provider, a request with its response, a batch, ShareGPT, ATIF, a'
    " session of an agent, and what else docs/logs.md lists; another format is read by --format"
    " FILE.py:NAME, a function of yours"
)
# Where there is a conversation, or a part of one.
SPOKEN = (*MESSAGES, *REQUESTS, *RESPONSES)
SILENT = "spans without messages, left out"
# Of a message: which conversation it is of, where a file holds those of several.
CONVERSATION_IDS = ("conversation_id", "conversationId", "thread_id", "threadId", "session_id",
                    "sessionId", "chat_id", "chatId", "dialog_id", "dialogue_id")  # fmt: skip


def logs_of(
    file: Path, notes: Counter, own: str = "", alone: bool = True
) -> Iterator[tuple[str, Any]]:
    """(place, log) of each log in a file; a Problem where there is none.

    own: a user's opener, FILE.py:NAME, which is asked first: it takes a JSON value, and returns a
    log in any form that is read here, a list of logs, or None where it is not its format. alone: no
    other file is read, so that one without a conversation is a mistake, and not settings of a
    program beside its logs.
    """
    events: list = []
    spans: list[tuple[str, dict]] = []
    behind_header = False  # are the events lines of Gemini CLI, which do not say so themselves
    if own:
        users.require("--format", own, (), {1: "a JSON value alone"})
    opener = users.users(own, ()) if own else None
    values = values_of(file, notes)
    beginning = [*islice(values, 2)]
    is_table = file.suffix != ".json" or len(beginning) > 1
    for place, value in chain(beginning, values):
        if isinstance(value, Row):
            _take_out_filled(value, notes)
        theirs = opener(value) if opener and not isinstance(value, Problem) else None
        fields = fields_of(value)
        role = fields.get("role")
        if theirs is not None:
            yield from logs_in(place, theirs, notes)
        elif role == "_system_prompt":  # of Kimi, which notes things for itself under other roles
            events.append({**fields, "role": "system"})
        elif isinstance(role, str) and (role == "meta" or role.startswith("_")):
            notes[f"lines of role {role}, left out"] += 1
        elif is_span(value):
            spans.append((place, fields))
        elif {"working_dir", "message_count"} <= fields.keys() and not first(fields, SPOKEN):
            notes["headers of sessions of Goose, left out"] += 1
        elif _is_of_session(value) or (behind_header and is_gemini_line(value)):
            if behind_header and not is_gemini_line(value):  # another session begins
                yield from logs_in(str(file), events, notes)
                events = []
            behind_header = is_gemini_session([value]) or (behind_header and bool(events))
            events.append(value)
        elif not alone and isinstance(value, dict) and _is_settings(value, is_table):
            notes[f"files without a conversation, not read: {file.name}"] += 1
        else:
            yield from logs_in(place, value, notes)
    if events:
        yield from logs_in(str(file), events, notes)
    kept = {id(span) for span in calls_of_models([span for _, span in spans], notes)}
    for place, span in spans:
        if id(span) in kept:
            yield from logs_in(place, span, notes)


def _take_out_filled(row: Row, notes: Counter) -> None:
    """Takes out the nulls that a table puts into a call under the names that other calls have:
    those that are null in all calls of that tool. Where the row says what tools there are, their
    schemas decide (normalise.py)."""
    if any(first(fields, (*TOOLS, "functions")) for fields in objects_in([row, *row.values()])):
        return
    calls: dict[str, list[tuple[dict, str]]] = {}
    for fields in objects_in([*nodes(row)]):
        name = first(fields, TOOL_NAMES)
        for key in ARGUMENTS if isinstance(name, str) else ():
            if isinstance(fields.get(key), dict) and not first(fields[key], MESSAGES):
                calls.setdefault(name, []).append((fields, key))
    for places in calls.values():
        filled = [fields[key] for fields, key in places]
        for fields, key in places:
            own = _without_filled(fields[key], filled)
            if own != fields[key]:
                notes["nulls that a table filled into a call, taken out"] += 1
            fields[key] = own


def _without_filled(arguments: dict, calls: list[dict]) -> dict:
    """These arguments without those that are null in all calls, at whatever depth."""
    own = {}
    for key, field in arguments.items():
        others = [call[key] for call in calls if call.get(key) is not None]
        if isinstance(field, dict):
            field = _without_filled(field, objects_in(others))
        if others:
            own[key] = field
    return own


def _is_of_session(value: Any) -> bool:
    """Is it an event of an agent, a message, or an item of Responses? A line holds one of them."""
    if not isinstance(value, dict) or any(key in value for key in MESSAGES):
        return False
    speaks = isinstance(value.get("role"), str) or is_record(value)
    return is_event(value) or (speaks and "prompt" not in value)


def _is_settings(value: dict, is_row: bool) -> bool:
    """Is it what a program keeps beside its logs? A log may be of texts alone, as in the rows of a
    table; an object alone in a file needs a prompt and a completion, or a list of objects."""
    texts = {key: field for key, field in value.items() if isinstance(field, str)}
    speaks = {"prompt", "completion"} <= texts.keys()
    if is_row:
        speaks = speaks or first(texts, MESSAGES) or any(is_of(texts) for _, is_of, _ in FAMILIES)
        speaks = speaks or (first(texts, REQUESTS) and first(texts, RESPONSES))
    inside = (node for field in value.values() for node in nodes(parsed(field)))
    return not (speaks or any(map(objects_in, inside)))


def logs_in(place: str, logs: Any, notes: Counter) -> Iterator[tuple[str, Any]]:
    """(place, log) of each log in a JSON value: one log, a list of them, or what holds many."""
    try:
        several = None
        if isinstance(logs, list):
            several = _several_in_list(logs, notes)
        elif isinstance(logs, dict):
            several = _several_in_object(logs, notes)
    except (AttributeError, KeyError, IndexError, TypeError) as error:
        yield place, Problem(place, f"it is damaged, and what logs it holds is unclear ({error!r})")
        return
    except ValueError as error:
        yield place, Problem(place, str(error))
        return
    if several is None:
        yield place, logs
        return
    for number, log in enumerate(several, start=1):
        yield from logs_in(f"{place}, log {number}", log, notes)


def _several_in_list(entries: list, notes: Counter) -> list | None:
    """The sessions in a list of events, the spans of models in a trace, the conversations in a list
    of messages, or what is listed; None where it is one log."""
    is_session = any(map(is_event, entries))
    if is_session and (is_gemini_session(entries) or all(map(_is_of_session, entries))):
        sessions = split_events(entries)
        return None if sessions == [entries] else sessions
    parts = parts_of(entries, notes)
    if parts is not None:
        return parts
    if any(map(is_span, entries)):
        return calls_of_models(entries, notes)
    speaks = any(_is_of_session(one) and "role" in one for one in entries)
    return _by_conversation(entries) if speaks or all(map(is_message, entries)) else entries


def _several_in_object(value: dict, notes: Counter) -> list | None:
    """The logs in an export of a program's; none in a span of something else than a model; None
    where it is one log."""
    parts = parts_of(value, notes)
    if parts is not None:
        return parts
    if isinstance(value.get("simulations"), list):  # tau2-bench
        environment = (value.get("info") or {}).get("environment_info") or {}
        beside = {"system": environment.get("policy"), "tools": environment.get("tool_defs")}
        return [{**beside, **log} for log in value["simulations"]]
    if isinstance(value.get("samples"), list) and "eval" in value:  # Inspect
        return value["samples"]
    observations = value.get("observations")  # of Langfuse, which may list their ids alone
    if objects_in(observations) == observations and not first(value, MESSAGES):
        answered = _generations(objects_in(observations), notes)
        return answered or [without(value, "observations")]
    if value.get("child_runs"):  # LangSmith: its model is called in one of them, or in none
        deep = any(run.get("child_runs") or not is_no_chat(run) for run in value["child_runs"])
        return value["child_runs"] if deep else [{**value, "child_runs": None}]
    left_out = _why_no_log(value)
    if left_out:
        notes[left_out] += 1
        return []
    key = _key_of_events(value)
    if key:
        sessions = split_events(value[key])
        return None if sessions == [value[key]] else [{**value, key: own} for own in sessions]
    if first(value, MESSAGES):
        return None
    logs = spans_of(value)
    answered = any(log["output"] for log in logs or ())
    if first(value, REQUESTS) and not answered:
        return None
    if logs == []:
        notes[SILENT] += 1
    return logs


def _key_of_events(value: dict) -> str:
    """Where an object holds the events of a session, and no messages beside them; else empty."""
    lists = (key for key in value if objects_in(value[key]))
    key = next((key for key in lists if all(map(is_event, value[key]))), "")
    return "" if first(without(value, key), MESSAGES) else key


def _generations(observations: list[dict], notes: Counter) -> list[dict]:
    """The observations of Langfuse in which a model was asked."""
    kept = calls_of_models(observations, notes)
    generations = [one for one in kept if one.get("type") == "GENERATION"]
    asked = [one for one in generations if first(one, (*MESSAGES, *REQUESTS))]
    if len(asked) < len(generations):
        notes[SILENT] += len(generations) - len(asked)
    return asked


def _why_no_log(value: dict) -> str:
    """The note of a span that is no log; empty where it may be one."""
    if has_failed(value):
        return FAILED
    if is_no_chat(value):
        return SILENT
    if not first(value, MESSAGES) and not calls_a_model(value):
        return "spans of tools, or of agents with their last answer alone, left out"
    return ""


def _by_conversation(messages: list[dict]) -> list[list[dict]] | None:
    """The messages of each conversation, if they name several; None where they are one log."""
    conversations: dict[Any, list[dict]] = {}
    for message in messages:
        name = first(message, CONVERSATION_IDS) if isinstance(message, dict) else None
        conversations.setdefault(name, []).append(message)
    if len(conversations.keys() - {None}) < 2:
        return None
    if None in conversations:
        raise ValueError('of several conversations: give each message its "conversation_id"')
    return list(conversations.values())


def opened(log: Any, notes: Counter) -> tuple[str, dict]:
    """(name of the format, the log as a line of chat). Raises ValueError where it is none."""
    if isinstance(log, list) and log and not is_event(log[0]):
        log = {"conversations" if "from" in fields_of(log[0]) else "messages": log}
    text = field_at(log, "messages")
    log = dict(log, messages=parsed(text)) if isinstance(text, str) else log
    name = "chat"
    try:
        key = _key_of_events(log) if isinstance(log, dict) else ""
        if key and not is_row(log):  # what stands around them is of the log
            name, line = opened(log[key], notes)
            return name, {**without(log, key), **line}
        log = observed(log) if isinstance(log, dict) else log
        for family, is_of, opener in FAMILIES:
            if is_of(log):
                name = family
                return name, opener(log, notes)
        if isinstance(log, dict) and not log.keys().isdisjoint(SPOKEN):
            return in_chat_form(log, notes)
    except (AttributeError, KeyError, IndexError, TypeError) as error:
        raise ValueError(f"it is damaged as a log of {name} ({error!r})") from error
    in_short = json.dumps(log)[:40]
    if isinstance(log, dict):
        keys = ", ".join(json.dumps(key) for key in list(log)[:6])
        in_short = f"an object with {keys[:120] or 'nothing in it'}"
    raise ValueError(f"no log, but {in_short}: what is read is {FORMATS}")
