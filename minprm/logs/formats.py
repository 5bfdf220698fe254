"""Which format a log is in, and the log in the chat format: {"messages", "tools", ...}.

    chat          {"messages", "tools"}, as OpenAI's fine-tuning takes it; or the bare list
    batch         {"custom_id", "body": {"messages", ...}}, OpenAI's batch request
    preference    {"input": {"messages", ...}, "preferred_output", ...}, OpenAI's pairs
    ShareGPT      {"conversations": [{"from", "value"}, ...], "tools"}
    ATIF          {"schema_version": "ATIF-v1.7", "agent", "steps"}, Harbor's (atif.py)

Here the envelope is opened. What is in it is checked in normalise.py.
"""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from minprm.logs.atif import from_atif
from minprm.logs.files import values_of
from minprm.logs.normalise import note_unread
from minprm.text.actions import parse_json

FORMATS = (
    'chat ("messages"), OpenAI batch requests ("body") and preference pairs ("input"), ShareGPT '
    '("conversations"), ATIF ("steps"), or a list of messages'
)
SHAREGPT_ROLES = {
    "human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant",
    "function_call": "assistant", "system": "system", "tool": "tool", "observation": "tool",
}  # fmt: skip


def logs_of(
    file: Path, notes: Counter, own: str = "", alone: bool = True
) -> Iterator[tuple[str, Any]]:
    """(place, log) of each log in a file; a Problem where there is none.

    own: a user's opener, FILE.py:NAME, which is asked first. alone: no other file is read, so that
    one without a conversation is a mistake, and not a program's settings beside its logs.
    """
    for place, value in values_of(file):
        yield from logs_in(place, value)


def logs_in(place: str, logs: Any) -> Iterator[tuple[str, Any]]:
    """(place, log) of each log in a JSON value, which is one log or a list of them."""
    messages = isinstance(logs, list) and all(_is_message(log) for log in logs)
    if not isinstance(logs, list) or messages:
        yield place, logs
        return
    for number, log in enumerate(logs, start=1):
        yield f"{place}, log {number}", log


def _is_message(log: Any) -> bool:
    return isinstance(log, dict) and ("role" in log or "from" in log)


def opened(log: Any, notes: Counter) -> tuple[str, dict]:
    """(name of the format, the log as a line of chat). Raises ValueError where it is none."""
    if isinstance(log, list) and log:
        key = "conversations" if "from" in log[0] else "messages"
        return opened({key: log}, notes)
    if not isinstance(log, dict):
        raise ValueError(f"no log, but {_in_short(log)}: what is read is {FORMATS}")
    if isinstance(log.get("messages"), list):
        return "chat", log
    if isinstance(log.get("conversations"), list):
        return "ShareGPT", _from_sharegpt(log, notes)
    if isinstance(log.get("steps"), list):
        return "ATIF", from_atif(log, notes)
    if isinstance(log.get("preferred_output"), list):
        return "preference", _from_preference(log, notes)
    if isinstance(log.get("body"), dict) or isinstance(log.get("response"), dict):
        return "batch", _from_batch(log, notes)
    raise ValueError(f"no log, but {_in_short(log)}: what is read is {FORMATS}")


def _in_short(log: Any) -> str:
    """What stands there instead of a log, in a few words."""
    if isinstance(log, dict):
        keys = ", ".join(json.dumps(key) for key in list(log)[:6])
        return f"an object with {keys[:120] or 'nothing in it'}"
    return f"{json.dumps(log)[:40]}"


def _from_batch(log: dict, notes: Counter) -> dict:
    """A batch request; with what was answered, where the line holds that too."""
    body = log.get("body")
    if not isinstance(body, dict) or not isinstance(body.get("messages"), list):
        raise ValueError(
            "a batch's answer without its request: what was answered stands in the requests, so"
            ' put each request\'s "body" beside the "response" of the same custom_id'
        )
    note_unread(log, ("method", "url", "body", "id", "response", "error"), "a log", notes)
    response = log.get("response")
    if not response:
        return body
    try:
        answer = response["body"]["choices"][0]["message"]
    except (KeyError, IndexError, TypeError):
        raise ValueError('its "response" holds no answer: leave the log out') from None
    return {**body, "messages": [*body["messages"], answer]}


def _from_preference(log: dict, notes: Counter) -> dict:
    """The conversation with the answer that was preferred."""
    conversation = log.get("input")
    if not isinstance(conversation, dict) or not isinstance(conversation.get("messages"), list):
        raise ValueError('a preference pair whose "input" has no list "messages"')
    notes["preference pairs, of which the preferred answer is read alone"] += 1
    note_unread(log, ("input", "preferred_output", "non_preferred_output"), "a log", notes)
    return {**conversation, "messages": [*conversation["messages"], *log["preferred_output"]]}


def _from_sharegpt(log: dict, notes: Counter) -> dict:
    """A conversation of {"from", "value"}; a function_call's value is the call as JSON."""
    messages = []
    if log.get("system"):  # some programs write the rules beside the conversation
        messages.append({"role": "system", "content": log["system"]})
    for i, turn in enumerate(log["conversations"]):
        try:
            messages.append(_from_turn(turn))
        except ValueError as error:
            raise ValueError(f"message {i}: {error}") from error
    others = {key: log[key] for key in log if key not in ("conversations", "system")}
    return {**others, "messages": messages}


def _from_turn(turn: Any) -> dict:
    """A turn of ShareGPT as a message."""
    speaker = turn.get("from") if isinstance(turn, dict) else None
    if not isinstance(speaker, str) or speaker not in SHAREGPT_ROLES:
        roles = ", ".join(SHAREGPT_ROLES)
        raise ValueError(f'its "from" is none of {roles}, but {json.dumps(speaker)[:40]}')
    others = {key: turn[key] for key in turn if key not in ("from", "value")}
    message = {**others, "role": SHAREGPT_ROLES[speaker], "content": turn.get("value")}
    if speaker != "function_call":
        return message
    try:
        called = parse_json(turn["value"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"its function_call is no JSON: {error}") from error
    calls = called if isinstance(called, list) else [called]
    if not calls or not all(isinstance(call, dict) for call in calls):
        raise ValueError("its function_call is no object with name and arguments")
    functions = [{"function": call} for call in calls]
    return {**message, "content": None, "tool_calls": functions}
