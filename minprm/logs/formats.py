"""Which format a log is in, and the log in the chat format: {"messages", "tools", ...}.

A log is told by what is in it. Here its envelope is opened: where the messages stand, the rules and
the tools beside them, and the answer, where a program keeps a request and its response. What one
message says is in blocks.py, what agents write event by event in events.py, ATIF in atif.py. What
is not read stays under its own key, and normalise.py names it. docs/logs.md has a table of all.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any

from minprm import own as users
from minprm.logs.atif import from_atif
from minprm.logs.blocks import (
    answer,
    call,
    is_cut,
    is_message,
    is_opencodes,
    is_plain,
    is_record,
    messages_of,
    thought_of,
)
from minprm.logs.books import ARGUMENTS, CUT_OFF, TOOL_NAMES, field_at, first, is_nothing, parsed
from minprm.logs.events import (
    EVENTS,
    calls_a_model,
    is_event,
    is_gemini_session,
    is_row,
    spans_of,
    split_events,
)
from minprm.logs.files import Problem, Row, values_of
from minprm.logs.schemas import from_flat

FORMATS = (
    'a chat ("messages") of any provider, a request with its response, a batch, ShareGPT, ATIF, a'
    " session of an agent, and what else docs/logs.md lists; another format is read by --format"
    " FILE.py:NAME, a function of yours"
)
# Where programs keep a conversation, what was asked, what was answered, the rules and the tools.
MESSAGES = ("messages", "conversations", "conversation", "traj", "history", "contents", "turns")
REQUESTS = ("request", "body", "request_body", "responses_create_params", "inputs", "input",
            "values", "kwargs", "proxy_server_request", "prompt", "inputBodyJson")  # fmt: skip
RESPONSES = ("response", "completion", "choices", "candidates", "output", "outputs",
             "response_body")  # fmt: skip
STREAM = re.compile(r"(?:(?:event|id)?:.*\n\s*)*data: ?\{.*\n\s*\n")  # as it came over the line
# an object of a client, as Python prints it
PRINTED = re.compile(r"(ChatCompletion|ModelResponse|Message|Response)\w*\(id=['\"]")
PIECES = {"delta", "done", "choices"}  # of an answer that was streamed
ANSWERS = ("choices", "candidates", "generations", "message", "output", "messages", "body",
           "content", "text", "outputBodyJson")  # fmt: skip
# What may hold a text by itself; and what tells messages and answers of a provider from other JSON.
SAID = {"prompt", "input", "inputs", "completion", "output", "outputs", "response"}
MARKS = {"delta", "finish_reason", "finishReason", "tool_calls", "lc"}
BLOCKS = {"text", "input_text", "output_text", "thinking", "reasoning", "tool_use", "tool_call"}
SEVERAL = ("choices", "candidates", "generations")
RULES = ("system", "system_prompt", "systemPrompt", "systemInstruction", "system_instruction",
         "system_message", "instructions")  # fmt: skip
TOOLS = ("tools", "toolConfig", "tool_config", "tool_defs", "oai_tools", "available_tools")
# Spans in which no model answers, and those in which one may: its answer is then a message.
OTHER_SPANS = ("tool", "retriever", "embedding", "prompt", "parser", "evaluator", "guardrail")
CHAINS = ("chain", "agent", "span", "op", "event")
OF_BRAINTRUST = ("tool", "score", "facet", "task", "function", "eval")
# Of a message: which conversation it is of, where a file holds those of several.
CONVERSATION_IDS = ("conversation_id", "conversationId", "thread_id", "threadId", "session_id",
                    "sessionId", "chat_id", "chatId")  # fmt: skip
PARAMETERS = ("model_parameters", "optional_params", "modelParameters", "invocation_params", "info",
              "config", "kwargs")  # fmt: skip
# By which a family is known that has no envelope of its own: a block's kind or a message's key.
SIGNS = {
    "tool_use": "Anthropic", "tool_result": "Anthropic", "signature": "Anthropic",
    "toolUse": "Bedrock", "toolResult": "Bedrock", "functionCall": "Gemini",
    "functionResponse": "Gemini", "tool_call": "OpenTelemetry", "finish_reason": "OpenTelemetry",
    "tool_call_response": "OpenTelemetry", "toolCallId": "Vercel", "toolInvocations": "Vercel",
    "step-start": "Vercel", "part_kind": "pydantic-ai", "function_call": "Responses",
    "function_call_output": "Responses", "output_text": "Responses", "human": "LangChain",
    "ai": "LangChain", "kwargs": "LangChain", "additional_kwargs": "LangChain", "from": "ShareGPT",
    "toolRequest": "Goose", "blocks": "LlamaIndex", "items": "Semantic Kernel",
}  # fmt: skip
# A pair of tags with no other one inside.
TOOLS_LISTED = re.compile(r"<tools>((?:(?!<tools>).)*?)</tools>", re.DOTALL)
# Of a request: what says how to sample or to bill, and nothing of the conversation.
OF_REQUESTS = ("truncation", "include", "background", "stop_sequences", "betas", "cachedContent",
               "safetySettings", "generationConfig", "inferenceConfig", "keep_alive", "logit_bias",
               "cache_hit", "model_group", "api_base", "model_map_information", "usageDetails",
               "error_information", "guardrail_information", "costDetails", "statusMessage",
               "unit", "headers", "serialized", "child_runs", "dotted_order", "feedback_stats",
               "model_parameters", "optional_params", "modelParameters",
               "invocation_params", "llmSchema")  # fmt: skip
OF_ROO = ("isSummary", "condenseId", "condenseParent")
OF_SWE_AGENT = ("agent", "message_type", "thought", "action", "tool_call_ids", "is_demo", "tags",
                "cache_control", "thinking_blocks", "provider_specific_fields")  # fmt: skip


# --- the logs of a file ---------------------------------------------------------------------------


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
        if theirs is not None:
            yield from logs_in(place, theirs, notes)
        elif isinstance(value, dict) and value.get("role") == "_system_prompt":  # of Kimi
            events.append({**value, "role": "system"})
        elif isinstance(value, dict) and _is_of_program(value.get("role")):
            notes[f"lines of role {value['role']}, left out"] += 1
        elif _is_of_session(value) or (isinstance(value, dict) and is_gemini_session(events)):
            events.append(value)
        elif not alone and isinstance(value, dict) and _is_settings(value, is_table):
            notes[f"files without a conversation, not read: {file.name}"] += 1
        else:
            yield from logs_in(place, value, notes)
    if events:
        yield from logs_in(str(file), events, notes)


def _take_out_filled(row: Row, notes: Counter) -> None:
    """Takes out the nulls that a table puts into a call under the names that other calls have:
    those that are null in all calls of that tool. Where the row says what tools there are, their
    schemas decide (normalise.py)."""
    inside = [fields for fields in (row, *row.values()) if isinstance(fields, dict)]
    if any(first(fields, (*TOOLS, "functions")) for fields in inside):
        return
    calls: dict[str, list[tuple[dict, str]]] = {}
    for fields in _objects_in(row):
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


def _objects_in(tree: Any) -> Iterator[dict]:
    if isinstance(tree, dict):
        yield tree
    for entry in tree.values() if isinstance(tree, dict) else tree:
        if isinstance(entry, dict | list):
            yield from _objects_in(entry)


def _without_filled(arguments: dict, calls: list[dict]) -> dict:
    """These arguments without those that are null in all calls, at whatever depth."""
    own = {}
    for key, field in arguments.items():
        others = [call[key] for call in calls if call.get(key) is not None]
        if isinstance(field, dict):
            field = _without_filled(field, [one for one in others if isinstance(one, dict)])
        if others:
            own[key] = field
    return own


def _is_of_session(value: Any) -> bool:
    """Is it an event of an agent, a message, or an item of Responses? A line holds one of them."""
    if not isinstance(value, dict) or any(key in value for key in MESSAGES):
        return False
    speaks = isinstance(value.get("role"), str) or is_record(value)
    return is_event(value) or (speaks and "prompt" not in value)


def _is_of_program(role: Any) -> bool:
    """Is it the role of what a program notes for itself, as Kimi's does?"""
    return isinstance(role, str) and (role == "meta" or role.startswith("_"))


def _is_settings(value: dict, is_row: bool) -> bool:
    """Is it what a program keeps beside its logs? A log may be of texts alone, as in the rows of a
    table; an object alone in a file needs a prompt and a completion, or a list of objects."""
    texts = {key: field for key, field in value.items() if isinstance(field, str)}
    speaks = {"prompt", "completion"} <= texts.keys()
    if is_row:
        speaks = speaks or first(texts, MESSAGES) or any(is_of(texts) for _, is_of, _ in FAMILIES)
        speaks = speaks or (first(texts, REQUESTS) and first(texts, RESPONSES))
    return not (speaks or any(_holds_objects(parsed(field)) for field in value.values()))


def _holds_objects(value: Any) -> bool:
    """Is there a list of objects in it, at whatever depth? Settings have none."""
    if isinstance(value, list):
        return any(isinstance(entry, dict) or _holds_objects(entry) for entry in value)
    return isinstance(value, dict) and any(map(_holds_objects, value.values()))


def logs_in(place: str, logs: Any, notes: Counter) -> Iterator[tuple[str, Any]]:
    """(place, log) of each log in a JSON value: one log, a list of them, or what holds many."""
    try:
        several = _many(logs, notes)
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


def _many(value: Any, notes: Counter) -> list | None:
    """The logs of a value that holds many of them; None where it is one log."""
    is_session = isinstance(value, list) and any(map(is_event, value))
    if is_session and (is_gemini_session(value) or all(map(_is_of_session, value))):
        sessions = split_events(value)
        return None if sessions == [value] else sessions
    if _is_smolagents({"steps": value}):
        return None
    if isinstance(value, list) and any(field_at(one, "isSummary") is True for one in value):
        return _parts_of_roo(value)
    if isinstance(value, list):
        speaks = any(_is_of_session(one) and "role" in one for one in value)
        return _by_conversation(value) if speaks or all(map(is_message, value)) else value
    if not isinstance(value, dict):
        return None
    if isinstance(value.get("simulations"), list):  # tau2-bench
        environment = (value.get("info") or {}).get("environment_info") or {}
        beside = {"system": environment.get("policy"), "tools": environment.get("tool_defs")}
        return [{**beside, **log} for log in value["simulations"]]
    if _is_adk(value):
        return _parts_of_adk(value, notes)
    messages = value.get("messages")
    if isinstance(messages, list) and any(map(_summarises, messages)):
        return _parts_of_opencode(value)
    if isinstance(value.get("samples"), list) and "eval" in value:  # Inspect
        return value["samples"]
    if isinstance(value.get("observations"), list):  # Langfuse
        answered = [log for log in value["observations"] if log.get("type") == "GENERATION"]
        return answered or [{key: value[key] for key in value if key != "observations"}]
    if value.get("child_runs"):  # LangSmith: its model is called in one of them, or in none
        deep = any(run.get("child_runs") or not _is_no_chat(run) for run in value["child_runs"])
        return value["child_runs"] if deep else [{**value, "child_runs": None}]
    if _is_no_chat(value):
        notes["spans without messages, left out"] += 1
        return []
    if not calls_a_model(value) and not first(value, MESSAGES):
        notes["spans of tools, or of agents with their last answer alone, left out"] += 1
        return []
    for key, inside in value.items():  # the events of a session, with an object around them
        if isinstance(inside, list) and inside and all(map(is_event, inside)):
            sessions = split_events(inside)
            if not is_row(value):
                return sessions
            return [{**value, key: own} for own in sessions] if sessions != [inside] else None
    if first(value, MESSAGES):
        return None
    logs = spans_of(value)
    answered = any(log["output"] for log in logs or ())
    if first(value, REQUESTS) and not answered:
        return None
    if logs == []:
        notes["spans without messages, left out"] += 1
    return logs


def _is_no_chat(span: dict) -> bool:
    """Is it a span of LangSmith, Langfuse or Weave, and no model's answer is what it returned?"""
    named = span.get("type") if "traceId" in span or "trace_id" in span else None
    kind = str(span.get("run_type") or named or ("op_name" in span and "op")).lower()
    returned = _unwrapped(first(span, ("outputs", "output")))
    if field_at(span, "span_attributes.type") in OF_BRAINTRUST and not first(span, MESSAGES):
        return True
    return kind in OTHER_SPANS or (kind in CHAINS and not _is_envelope(returned))


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


# --- one log --------------------------------------------------------------------------------------


def opened(log: Any, notes: Counter) -> tuple[str, dict]:
    """(name of the format, the log as a line of chat). Raises ValueError where it is none."""
    if isinstance(log, list) and log and not is_event(log[0]):
        is_sharegpt = isinstance(log[0], dict) and "from" in log[0]
        log = {"conversations" if is_sharegpt else "messages": log}
    text = field_at(log, "messages")
    log = dict(log, messages=parsed(text)) if isinstance(text, str) else log
    name = "chat"
    try:
        for family, is_of, opener in FAMILIES:
            if is_of(log):
                name = family
                return name, opener(log, notes)
        if isinstance(log, dict) and any(key in log for key in (*MESSAGES, *REQUESTS, *RESPONSES)):
            return _named(log, notes)
    except (AttributeError, KeyError, IndexError, TypeError) as error:
        raise ValueError(f"it is damaged as a log of {name} ({error!r})") from error
    raise ValueError(f"no log, but {_in_short(log)}: what is read is {FORMATS}")


def _in_short(log: Any) -> str:
    """What stands there instead of a log, in a few words."""
    if isinstance(log, dict):
        keys = ", ".join(json.dumps(key) for key in list(log)[:6])
        return f"an object with {keys[:120] or 'nothing in it'}"
    return f"{json.dumps(log)[:40]}"


def _named(log: dict, notes: Counter, of_a_program: bool = False) -> tuple[str, dict]:
    """(name of the family, the log as a line of chat). of_a_program: see `messages_of`."""
    others = dict(log)
    tools = _tools_beside(others)
    answered = [_unwrapped(others.get(key)) for key in RESPONSES]
    responses = [response for response in answered if isinstance(response, dict)]
    for fields in (others, *responses):
        answers = first(fields, SEVERAL)
        if isinstance(answers, list) and answers and isinstance(answers[0], list):
            answers = [one for prompt in answers for one in prompt]  # as LangSmith lists them
        several = isinstance(answers, list) and len(answers) > 1
        if several and not any("delta" in one for one in answers):
            notes["requests with several answers, of which the first is read"] += 1
    for response in responses:  # OpenAI's Responses say the rules and the tools again
        _take_over(response, others, tools)
    entries = _entries(others, tools)
    visible = [entry for entry in entries if field_at(entry, "metadata.agentVisible") is not False]
    if len(visible) < len(entries):  # of Goose
        notes["messages that the model does not see, left out"] += len(entries) - len(visible)
    schemas = [entry["content"] for entry in visible if _is_schema(entry)]
    tools += [tool for tool in schemas if tool not in tools]
    entries = [entry for entry in visible if not _is_schema(entry)]
    others = {key: others[key] for key in others if key not in OF_REQUESTS}
    family = _family_of(entries)
    in_parts = sum(isinstance(e, dict) and isinstance(e.get("content"), list) for e in entries)
    if family == "chat" and in_parts:
        notes["content in parts, joined as they stand"] += in_parts
    glue = "" if family in ("chat", "Gemini") else "\n"
    chat: dict = {**others, "messages": messages_of(entries, glue, of_a_program)}
    if tools:
        chat["tools"] = tools
    return family, _tools_once(chat, notes)


def _is_schema(entry: Any) -> bool:
    """Is it a tool, which Langfuse writes as a message where LangChain was traced?"""
    tool = entry.get("content") if isinstance(entry, dict) else None
    if not isinstance(tool, dict) or tool.keys() != {"type", "function"}:
        return False
    return tool["type"] == "function"


def _family_of(entries: list) -> str:
    """The name of the format of these messages."""
    for entry in entries:
        if is_plain(entry) and "finish_reason" not in entry:
            continue
        if is_opencodes(entry):
            return "opencode"
        inside = first(entry, ("parts", "content")) if isinstance(entry, dict) else None
        for block in [entry, *(inside if isinstance(inside, list) else [])]:
            fields = block if isinstance(block, dict) else {}
            filled = [key for key in reversed(fields) if not is_nothing(fields[key])]
            for key in [fields.get("type"), *filled]:
                if isinstance(key, str) and key in SIGNS:
                    return SIGNS[key]
        if isinstance(entry, dict) and "parts" in entry and inside:
            block = inside[0] if isinstance(inside[0], dict) else {}
            if "type" in block:
                return "OpenTelemetry" if "content" in block else "Vercel"
            return "Gemini"
    return "chat"


def _entries(others: dict, tools: list) -> list:
    """The messages of a log as they are written, with its rules before and its answer behind them;
    what is read is taken out of `others`, and tools of a request go to `tools`."""
    for key in {*MESSAGES, *REQUESTS, *RESPONSES} & others.keys() - SAID:
        others[key] = parsed(others[key])
    entries = None
    for key in (*MESSAGES, *REQUESTS):
        entries = _asked(others.get(key), others, tools)
        if entries is not None:
            del others[key]
            break
    if entries is None and isinstance(others.get("response"), dict):
        raise ValueError(
            "an answer without its request; if it is of a batch, what was asked is in the requests:"
            ' put each request\'s "body" beside the "response" of the same custom_id'
        )
    if entries is None:
        raise ValueError(
            "there is no list of messages in it: --map KEY=messages says which key holds them"
        )
    for key in RULES:
        rules = _text_of(others.get(key))
        if rules:
            del others[key]
            opening = entries[0] if entries and isinstance(entries[0], dict) else {}
            if rules != _text_of(first(opening, ("content", "value"))):
                entries = [{"role": "system", "content": rules}, *entries]
    _take_out_repeats(entries, others, tools)
    for key in RESPONSES:
        if not others.get(key):
            others.pop(key, None)
            continue
        answered = _answered(others[key])
        if answered is None and key != "output":
            raise ValueError(f'its "{key}" holds no answer: leave the log out')
        last = entries[-1] if entries and isinstance(entries[-1], dict) else {}
        if answered is None or (isinstance(others[key], str) and last.get("role") == "assistant"):
            continue  # it may be no part of the conversation: it stays, and is named
        del others[key]
        requests = [_core(message) for message in messages_of(entries)]
        answers = [_core(message) for message in messages_of(answered)]
        rest = iter(answers)
        if all(message in rest for message in requests):  # the request is in the response too
            entries = answered
        elif answers != requests[-len(answers) :]:
            entries = [*entries, *answered]
    return entries


def _take_out_repeats(entries: list, others: dict, tools: list) -> None:
    """Takes out of `others` each request that asks again what the messages say."""
    for key in [key for key in REQUESTS if key in others]:
        declared: list = []
        with suppress(AttributeError, LookupError, TypeError, ValueError):  # it is no request
            again = [*map(_core, messages_of(_asked(others[key], others, declared) or []))]
            rest = map(_core, messages_of(entries))  # `in` reads it on: they stand in this order
            if again and all(core in rest for core in again):
                del others[key]
                _add_tools(declared, tools)


def _core(message: Any) -> Any:
    """What a message says, without ids and empty fields: the same however it is written."""
    if not isinstance(message, dict):
        return message
    calls = []
    for one in message.get("tool_calls") or []:
        function = one.get("function", one)
        calls.append((function.get("name"), str(function.get("arguments"))))
    return message.get("role"), message.get("content") or "", calls


def _asked(request: Any, others: dict, tools: list) -> list | None:
    """The messages of a request, which may be a text, a list, or an object around them. What else
    an object holds goes to `others`."""
    request = _unwrapped(request)
    if isinstance(request, str) and request.strip():
        return [{"role": "user", "content": request}]
    if isinstance(request, list):
        if len(request) > 1 and all(isinstance(one, list) for one in request):
            raise ValueError("it holds several lists of messages: write each as a log of its own")
        return request[0] if request and isinstance(request[0], list) else request  # LangSmith's
    if not isinstance(request, dict) or not first(request, (*MESSAGES, *REQUESTS)):
        return None
    inside = dict(request)
    tools += _tools_beside(inside)
    entries = _entries(inside, tools)
    for key, field in inside.items():
        others.setdefault(key, field)
    return entries


def _answered(response: Any) -> list | None:
    """The messages of an answer: a text, a message, or what a provider returns around one."""
    response = _unwrapped(response)
    if isinstance(response, str):
        if STREAM.match(response):
            raise ValueError("its answer is a stream in pieces: join them to one message")
        if PRINTED.match(response):
            raise ValueError("its answer is an object as Python prints it: --drop that field")
        return [{"role": "assistant", "content": response}]
    if isinstance(response, list):
        kinds = {str(one.get("type")) for one in response if isinstance(one, dict)}
        if kinds and kinds <= BLOCKS:
            return [{"role": "assistant", "content": response}]
        if any(map(is_message, response)):
            return response
        pieces = [one for one in response if isinstance(one, dict) and PIECES & one.keys()]
        if len(response) > 1 and pieces:
            raise ValueError("its answer is a stream in pieces: join them to one message")
        return _answered(response[0]) if response else None
    if is_message(response):
        return [response]
    inside = first(response, ANSWERS) if isinstance(response, dict) else None
    if inside and is_cut(response):
        *before, last = _answered(inside) or [None]
        return [*before, {**last, CUT_OFF: True}] if isinstance(last, dict) else None
    if isinstance(inside, str) and response.keys() - {"text", "content"}:  # it lacks its role
        beside = {key: response[key] for key in response if response[key] is not inside}
        return [{**beside, "role": "assistant", "content": inside}]
    return _answered(inside) if inside else None


def _unwrapped(field: Any) -> Any:
    """A text that is JSON of a program, parsed. Other JSON is what was said, and stays a text."""
    tree = parsed(field)
    return tree if not isinstance(field, str) or _is_envelope(tree) else field


def _is_envelope(tree: Any) -> bool:
    """Is it a message, a block of one, what a provider returns, or what holds one of these?"""
    if isinstance(tree, list):
        return any(map(_is_envelope, tree))
    if not isinstance(tree, dict):
        return False
    speaks = is_message(tree) and {"content", "parts", "data", "arguments"} & tree.keys()
    is_block = str(tree.get("type")) in BLOCKS
    if speaks or is_block or MARKS & tree.keys() or isinstance(tree.get("error"), dict):
        return True
    return any(_is_envelope(tree.get(key)) for key in (*MESSAGES, *REQUESTS, *ANSWERS))


def _text_of(rules: Any) -> str:
    """The text of rules that stand beside the messages: a text, blocks, or parts."""
    rules = _unwrapped(rules)
    if isinstance(rules, dict):
        rules = first(rules, ("parts", "content", "text"))
    if isinstance(rules, list):
        rules = "\n".join(one if isinstance(one, str) else _text_of(one) for one in rules)
    return rules if isinstance(rules, str) else ""


def _tools_beside(others: dict) -> list:
    """The tools that a log or its request declares, taken out of it."""
    tools: list = []
    for key in TOOLS:
        listed = parsed(others.get(key))
        if not listed or not isinstance(listed, dict | list):
            continue
        inside = listed.values() if isinstance(listed, dict) else listed
        if all(isinstance(tool, dict | list) for tool in inside):
            tools += _declared(listed)
            del others[key]
    for key in ("metadata", "extra"):
        inside = parsed(others.get(key))
        left = dict(inside) if isinstance(inside, dict) else {}
        if left and (listed := _tools_beside(left)):
            _add_tools(listed, tools)
            others[key] = left
    for key in PARAMETERS:
        parameters = parsed(others.get(key))
        beside = isinstance(parameters, dict) and not first(parameters, (*MESSAGES, *REQUESTS))
        if beside and first(parameters, (*TOOLS, *RULES)):
            _take_over(parameters, others, tools)
            # what says how to sample is not looked into any further
            taken = [*parameters] if key in OF_REQUESTS else [*TOOLS, *RULES]
            others[key] = {k: parameters[k] for k in parameters if k not in taken}
    return tools


def _take_over(inside: dict, others: dict, tools: list) -> None:
    """Takes tools and rules that stand in an object inside a log, where the log has none."""
    _add_tools(_tools_beside(dict(inside)), tools)
    for name in RULES:
        others[name] = others.get(name) or inside.get(name)


def _add_tools(listed: list, tools: list) -> None:
    """Adds those whose name no other tool has; the same one may be written in two notations."""
    names = [_name_of(tool) for tool in tools]
    tools += [tool for tool in listed if tool not in tools and _name_of(tool) not in names]


def _name_of(tool: dict) -> Any:
    """The name of a tool; a provider's own has none, and is itself the name."""
    function = tool.get("function")
    return first(function if isinstance(function, dict) else tool, ("name",)) or tool


def _declared(listed: Any) -> list:
    """The tools of a list, without what a provider writes around them."""
    if isinstance(listed, dict):
        listed = listed.get("tools") or [{"name": name, **listed[name]} for name in listed]
    tools = []
    for tool in listed:
        several = first(tool, ("functionDeclarations", "function_declarations"))
        if several:  # Gemini's, which writes types as STRING
            tools += _in_lower_case(several)
        else:
            tools.append(tool.get("toolSpec") or parsed(tool.get("json_schema")) or tool)
    return tools


def _in_lower_case(schema: Any) -> Any:
    """A schema with its types in lower case."""
    if isinstance(schema, list):
        return [_in_lower_case(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    lowered = {key: _in_lower_case(field) for key, field in schema.items()}
    kind = lowered.get("type")
    return {**lowered, "type": kind.lower()} if isinstance(kind, str) else lowered


def _tools_once(chat: dict, notes: Counter) -> dict:
    """Rules of Hermes list the tools between <tools> and </tools>, and its answers stand between
    <tool_response> and </tool_response>; the template writes both."""
    messages: list = []
    for message in chat["messages"]:
        content = message.get("content") if isinstance(message, dict) else None
        if isinstance(content, str) and content.lstrip().startswith("<tool_response>"):
            _, *answers = content.split("<tool_response>")  # some write them as the user's
            texts = []
            for answer in answers:
                inside, _, behind = answer.rpartition("</tool_response>")
                if "</tool_response>" not in answer:  # it was cut
                    inside, behind = answer, ""
                messages.append({**message, "role": "tool", "content": inside.strip("\n ")})
                texts += [behind.strip()] * bool(behind.strip())
            if texts:
                messages.append({**message, "role": "user", "content": "\n".join(texts)})
        else:
            messages.append(message)
    text = messages[0].get("content") if messages and isinstance(messages[0], dict) else None
    pairs = [*TOOLS_LISTED.finditer(text)] if isinstance(text, str) else []
    for pair in reversed(pairs):  # the rules may name the tags before
        tools = parsed(pair[1].strip())
        if isinstance(tools, str):  # one a line
            tools = [parsed(line) for line in pair[1].split("\n") if line.strip()]
        tools = tools if isinstance(tools, list) else [tools]
        if tools and all(isinstance(tool, dict) for tool in tools):
            notes["tools that the rules list in <tools>, taken out of the rules"] += 1
            rules = pair.string[: pair.start()] + pair.string[pair.end() :]
            messages[0] = {**messages[0], "content": rules}
            return {"tools": _declared(tools), **chat, "messages": messages}
    return {**chat, "messages": messages}


# --- formats with an envelope of their own --------------------------------------------------------


def _from_preference(log: dict, notes: Counter) -> dict:
    """The conversation with the answer that was preferred."""
    conversation = log.get("input", {"messages": _asked(log.get("prompt"), {}, []) or []})
    if not isinstance(conversation, dict) or not isinstance(conversation.get("messages"), list):
        raise ValueError('a preference pair whose "input" has no list "messages"')
    notes["preference pairs, of which the preferred answer is read alone"] += 1
    pair = ("input", "prompt", "preferred_output", "non_preferred_output", "chosen", "rejected")
    others = {key: log[key] for key in log if key not in pair}
    best = _answered(first(log, ("preferred_output", "chosen"))) or []
    prompt = conversation["messages"]
    prompt = [] if best[: len(prompt)] == prompt else prompt
    return _named({**others, **conversation, "messages": [*prompt, *best]}, notes)[1]


def _from_batch(log: dict, notes: Counter) -> dict:
    """A batch request, with its answer where the line holds that too."""
    others = {key: log[key] for key in log if key not in ("method", "url", "error")}
    return _named(others, notes)[1]


def _of_a_program(log: dict, entries: list, notes: Counter, *keys: str) -> dict:
    """A log of a program whose other fields are known: beside the messages, these keys of it."""
    keys = ("task_id", "instance_id", "reward", "score", "success", "won", "resolved", "tools",
            "system", *keys)  # fmt: skip
    others = {key: log[key] for key in keys if key in log}
    for key in log:
        if key not in (*keys, *MESSAGES, "prompt", "completion") and log[key]:
            notes[f'"{key}" of a log, left out'] += 1
    return _named({**others, "messages": entries}, notes, of_a_program=True)[1]


def _from_xlam(log: dict, notes: Counter) -> dict:
    """xLAM's question with the calls that answer it; a tool's parameters are named flat."""
    tools = []
    for tool in parsed(log["tools"]):
        schema = from_flat(tool.get("parameters") or {})
        tools.append({"type": "function", "function": {**tool, "parameters": schema}})
    calls = [call(one["name"], one.get("arguments")) for one in parsed(log["answers"])]
    others = {key: log[key] for key in log if key not in ("query", "tools", "answers")}
    question = {"role": "user", "content": log["query"]}
    answered = {"role": "assistant", "content": None, "tool_calls": calls}
    return {**others, "messages": [question, answered], "tools": tools}


def _from_swe_agent(log: dict, notes: Counter) -> dict:
    """SWE-agent's history; the demonstration is shown and not learned."""
    entries = []
    for entry in first(log, ("history", "messages")):
        message = {key: entry[key] for key in entry if key not in OF_SWE_AGENT}
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
    entries = [one | one["content"] for one in log["events"] if field_at(one, "content.parts")]
    entries = [{key: one[key] for key in one if key != "start"} for one in entries]
    authors = {str(entry.get("author")) for entry in entries} - {"user"}
    if len(authors) > 1:
        notes[f"sessions of several agents, read as one: {', '.join(sorted(authors))}"] += 1
    return _of_a_program({**log, "events": None}, entries, notes)


def _parts_of_adk(session: dict, notes: Counter) -> list[dict] | None:
    """The part of a session up to each summary, and what its model read behind it; None where it
    was neither summarised nor taken back. What its user took back is in none."""
    events: list[dict] = []
    parts = []
    for event in session["events"]:
        actions = event.get("actions") or {}
        back_to = first(actions, ("rewindBeforeInvocationId", "rewind_before_invocation_id"))
        names = [first(one, ("invocationId", "invocation_id")) for one in events]
        if back_to and back_to in names:
            notes["events that its user took back, left out"] += len(events) - names.index(back_to)
            events = events[: names.index(back_to)]
        summary = actions.get("compaction")
        if not summary:
            events.append(event)
            continue
        parts.append(events)
        start = first(summary, ("startTimestamp", "start_timestamp")) or 0
        end = first(summary, ("endTimestamp", "end_timestamp")) or 0
        content = first(summary, ("compactedContent", "compacted_content"))
        others = []
        for one in events:  # an older summary goes where a later one holds all of it
            time = one.get("timestamp", 0)
            if not (start <= one.get("start", time) and time <= end):
                others.append({**one, "weight": 0})
        summed = {"author": "user", "timestamp": end, "start": start,
                  "content": {**content, "role": "user"}}  # fmt: skip
        events = sorted([*others, summed], key=lambda one: one.get("timestamp", 0))
    if not parts and events == session["events"]:
        return None
    answered = [part for part in (*parts, events) if any(map(_answers_now, part))]
    return [{**session, "events": part} for part in answered or [events]]


def _answers_now(event: dict) -> bool:
    return event.get("author") != "user" and "weight" not in event


def _summarises(message: Any) -> bool:
    """Is it what opencode asks its model when the conversation is too long?"""
    parts = (message["parts"] if is_opencodes(message) else None) or []
    return any(isinstance(part, dict) and part.get("type") == "compaction" for part in parts)


def _parts_of_opencode(session: dict) -> list[dict]:
    """The part of a session up to each summary, and what its model read behind it."""
    parts: list[list] = [[]]
    for message in session["messages"]:
        if _summarises(message):
            question = {"type": "text", "text": "What did we do so far?"}
            parts.append([])
            message = {**message, "parts": [question]}
        parts[-1].append(message)
    answered = [part for part in parts if any(map(_is_answer_of_opencode, part))]
    return [{**session, "messages": part} for part in answered or parts[:1]]


def _is_answer_of_opencode(message: Any) -> bool:
    fields = message["info"] if is_opencodes(message) else {}
    return fields.get("role") == "assistant" and fields.get("summary") is not True


def _parts_of_roo(messages: list) -> list[list]:
    """Of Roo Code: the messages up to each summary, and what its model read behind it."""
    parts: list[list] = [[]]
    for message in messages:
        if message.get("isSummary"):
            summarised = message.get("condenseId")
            stays = [one for one in parts[-1] if one.get("condenseParent") != summarised]
            parts.append([{**one, "weight": 0} for one in stays])
        parts[-1].append(message)
    plain = []
    for part in parts:
        if any(one.get("role") == "assistant" and "weight" not in one for one in part):
            plain.append([{key: one[key] for key in one if key not in OF_ROO} for one in part])
    return plain


def _from_smolagents(log: dict, notes: Counter) -> dict:
    """The steps that an agent of smolagents remembers, as its model read them."""
    steps = first(log, ("steps", "messages"))
    entries = []
    for step in steps:
        entries += _of_smolagents(step)
    if not any(entry["role"] == "system" for entry in entries):
        prompt = next(filter(None, (step.get("model_input_messages") for step in steps)), [])
        entries = [message for message in prompt if message.get("role") == "system"] + entries
    return _of_a_program({**log, "steps": None, "messages": None}, entries, notes)


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


def _from_mini(log: dict, notes: Counter) -> dict:
    """mini-swe-agent's messages; the last one, of role exit, only says that it ended."""
    entries = []
    for entry in log["messages"]:
        if entry.get("role") == "exit":
            notes["messages of role exit, left out"] += 1
            continue
        entries.append({key: entry[key] for key in entry if key not in ("extra", "timestamp")})
    return _of_a_program(log, entries, notes)


def _from_tau(log: dict, notes: Counter) -> dict:
    """tau-bench's or tau2-bench's conversation. What a simulated user calls on its own phone is no
    part of what the agent sees."""
    several = [one.get("tool_messages") or [one] for one in first(log, ("traj", "messages"))]
    entries = []
    for entry in (entry for entries in several for entry in entries):
        entry = {key: entry[key] for key in entry if key not in ("cost", "raw_data", "timestamp")}
        of_the_user = entry.pop("requestor", None) == "user" or entry.get("role") == "user"
        if of_the_user and (entry.get("tool_calls") or entry["role"] == "tool"):
            notes["calls of the user's own and their answers, left out"] += 1
            entry.pop("tool_calls", None)
            if entry["role"] == "tool" or not entry.get("content"):
                continue
        entries.append(entry)
    ended = log.get("reward_info")
    reward = {"reward": ended.get("reward")} if isinstance(ended, dict) else {}
    return _of_a_program(reward | log, entries, notes)


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
    entries = [*(_asked(log["prompt"], {}, []) or []), *(_answered(log["completion"]) or [])]
    spoken = [i for i, entry in enumerate(entries) if field_at(entry, "role") == "assistant"]
    if log.get("is_truncated") is True and spoken:
        entries[spoken[-1]] = {**entries[spoken[-1]], CUT_OFF: True}
    beside: dict = {"tools": _tools_beside(dict(log))}
    if "example_id" in log:
        beside["task"] = f"{log.get('task', '')} {log['example_id']}".strip()
    return _of_a_program(log | beside, entries, notes, "task")


def _has(*keys: str) -> Callable[[Any], bool]:
    """Is it an object with all of these keys?"""
    return lambda log: isinstance(log, dict) and all(key in log for key in keys)


def _speaks(key: str, sign: str, *values: str) -> Callable[[Any], bool]:
    """Is it an object with a list of messages under this key, one of which has this sign?"""

    def is_of(log: Any) -> bool:
        entries = log.get(key) if isinstance(log, dict) else None
        if not isinstance(entries, list):
            return False
        signs = [entry.get(sign) for entry in entries if isinstance(entry, dict)]
        return any(one in values if values else one is not None for one in signs)

    return is_of


_is_adk = _speaks("events", "author", "user")


def _is_smolagents(log: Any) -> bool:
    return any(_speaks(key, "model_output")(log) for key in ("steps", "messages"))


def _is_swe_agent(log: Any) -> bool:
    asks = _has("prompt")(log) or _has("completion")(log)  # then its history is the one before
    return _speaks("history", "role")(log) and not asks


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
