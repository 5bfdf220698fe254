"""Which format a log is in, and the log in the chat format: {"messages", "tools", ...}.

A log is told by what is in it. Here its envelope is opened: where the messages stand, the rules and
the tools beside them, and the answer, where a program keeps a request and its response. What one
message says is in blocks.py, what agents write event by event in events.py, ATIF in atif.py. What
is not read stays under its own key, and normalise.py names it. docs/logs.md has a table of all.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from math import isfinite
from pathlib import Path
from typing import Any

from minprm import own as users
from minprm.constants import fail
from minprm.logs.atif import from_atif
from minprm.logs.blocks import call, first, is_message, is_plain, messages_of
from minprm.logs.events import EVENTS, is_event, spans_of, split_events
from minprm.logs.files import Problem, values_of
from minprm.text.actions import parse_json

FORMATS = (
    'a chat ("messages") of OpenAI, Anthropic, Gemini, Bedrock, LangChain, pydantic-ai, Vercel and Ollama, requests'
    " with responses, batches, ShareGPT, ATIF, sessions of Claude Code, Codex and OpenHands,"
    " SWE-agent, Inspect, verifiers, tau-bench, OpenTelemetry and Langfuse; another one is read by"
    " --format FILE.py:NAME, a function of yours"
)
# Where programs keep a conversation, its rules, what was answered to it, and its tools.
MESSAGES = ("messages", "conversations", "conversation", "traj", "history", "contents", "turns")
RULES = ("system", "system_prompt", "systemPrompt", "systemInstruction", "system_instruction",
         "instructions", "gen_ai.system_instructions")  # fmt: skip
RESPONSES = ("response", "completion", "choices", "candidates", "output", "outputs", "response_body")
REQUESTS = ("request", "body", "request_body", "responses_create_params", "inputs", "input",
            "values", "kwargs", "proxy_server_request")  # fmt: skip
TOOLS = ("tools", "functions", "toolConfig", "tool_config", "tool_defs", "oai_tools",
         "available_tools", "gen_ai.tool.definitions")  # fmt: skip
PARAMETERS = ("model_parameters", "optional_params", "modelParameters", "invocation_params", "info",
              "invocationParameters", "generation_config", "config")  # fmt: skip
BESIDE = (*RULES, *RESPONSES, *PARAMETERS[:5], "toolConfig", "tool_config", "tool_defs")
ANSWERS = ("choices", "candidates", "generations", "message", "output", "messages", "body", "content",
           "text", "outputs", "response", "completion")  # fmt: skip
SCHEMAS = ("input_schema", "inputSchema", "parametersJsonSchema", "parameters_json_schema")
PAIR = ("input", "preferred_output", "non_preferred_output", "chosen", "rejected", "prompt")
SWE_AGENT = ("agent", "message_type", "thought", "action", "tool_call_ids", "is_demo", "tags",
             "cache_control", "thinking_blocks", "provider_specific_fields")  # fmt: skip
XLAM_TYPES = {"int": "integer", "float": "number", "bool": "boolean", "list": "array",
              "List": "array", "Dict": "object", "dict": "object"}  # fmt: skip
SIGNS = {
    "tool_use": "Anthropic", "tool_result": "Anthropic", "thinking": "Anthropic",
    "toolUse": "Bedrock", "toolResult": "Bedrock", "functionCall": "Gemini",
    "functionResponse": "Gemini", "tool_call": "OpenTelemetry",
    "tool_call_response": "OpenTelemetry", "toolCallId": "Vercel", "toolInvocation": "Vercel",
    "step-start": "Vercel", "part_kind": "pydantic-ai", "function_call": "Responses",
    "function_call_output": "Responses", "output_text": "Responses", "human": "LangChain",
    "ai": "LangChain", "kwargs": "LangChain", "additional_kwargs": "LangChain", "from": "ShareGPT",
    "tool_name": "Ollama",
}  # fmt: skip
# Fields by which a program keeps its books, of formats that are told by their content.
BOOKS = {
    "Inspect": ("input", "target", "choices", "epoch", "metadata", "sandbox", "files", "setup",
                "store", "events", "output", "model_usage", "role_usage", "started_at",
                "completed_at", "total_time", "working_time", "uuid", "error_retries", "timelines",
                "attachments", "id", "limit", "scores"),
    "mini-swe-agent": ("info", "trajectory_format"),
    "SWE-agent": ("info", "trajectory", "environment", "replay_config", "attempts"),
    "tau-bench": ("info", "trial"),
    "tau2-bench": ("info", "trial", "seed", "timestamp", "start_time", "end_time", "duration",
                   "termination_reason", "agent_cost", "user_cost", "reward_info", "id", "mode",
                   "ticks", "speech_environment", "policy"),
    "verifiers": ("answer", "metrics", "timing", "is_completed", "is_truncated", "stop_condition",
                  "token_usage", "example_id", "trajectory"),
    "batch": ("method", "url", "error"),
}  # fmt: skip


# --- the logs of a file ---------------------------------------------------------------------------


def logs_of(
    file: Path, notes: Counter, own: str = "", alone: bool = True
) -> Iterator[tuple[str, Any]]:
    """(place, log) of each log in a file; a Problem where there is none.

    own: a user's opener, FILE.py:NAME, which is asked first: it takes a JSON value, and returns a
    log in any form that is read here, a list of logs, or None where it is not its format. alone: no other file is read, so that
    one without a conversation is a mistake, and not a program's settings beside its logs.
    """
    events = []
    theirs = _opener(own) if own else None
    for place, value in values_of(file):
        if isinstance(value, dict) and spans_of(value) == []:
            notes["spans without messages, left out"] += 1
            continue
        mine = theirs(value) if theirs and not isinstance(value, Problem) else None
        if mine is not None:
            yield from logs_in(place, mine)
        elif is_event(value):
            events.append(value)
        elif not alone and isinstance(value, dict) and not _holds_objects(value):
            notes[f"files without a conversation, not read: {file.name}"] += 1
        else:
            yield from logs_in(place, value)
    if events:
        yield from logs_in(str(file), events)


def _opener(name: str) -> Callable[[Any], Any]:
    """The user's opener of this name. Exits where it is no function of one argument."""
    if not users.is_own(name):
        fail(
            f"--format {name}: it names a reader of your own, FILE.py:NAME; formats that are known"
            " are told by their content, without a flag"
        )
    users.require("--format", name, (), {1: "a JSON value alone"})
    return users.function(name, {})


def _holds_objects(value: Any) -> bool:
    """Is there a list of objects in it, at whatever depth? Settings have none."""
    if isinstance(value, list):
        return any(isinstance(entry, dict) or _holds_objects(entry) for entry in value)
    return isinstance(value, dict) and any(map(_holds_objects, value.values()))


def logs_in(place: str, logs: Any) -> Iterator[tuple[str, Any]]:
    """(place, log) of each log in a JSON value: one log, a list of them, or what holds many."""
    if isinstance(logs, dict):
        logs = _many(logs)
    if isinstance(logs, list) and logs and all(is_event(log) for log in logs):
        logs = split_events(logs)
    elif not isinstance(logs, list) or all(is_message(log) for log in logs):
        yield place, logs
        return
    for number, log in enumerate(logs, start=1):
        at = f"{place}, log {number}" if len(logs) > 1 or not is_event(log) else place
        if isinstance(log, dict) and _many(log) is not log:
            yield from logs_in(at, log)
        else:
            yield at, log


def _many(value: dict) -> Any:
    """The logs of a value that holds many of them; any other value as it is."""
    if isinstance(value.get("simulations"), list):  # tau2-bench
        environment = (value.get("info") or {}).get("environment_info") or {}
        beside = {"policy": environment.get("policy"), "tools": environment.get("tool_defs")}
        return [{**beside, **log} for log in value["simulations"]]
    if isinstance(value.get("samples"), list) and "eval" in value:  # Inspect
        return value["samples"]
    if isinstance(value.get("observations"), list):  # Langfuse
        answered = [log for log in value["observations"] if log.get("type") == "GENERATION"]
        return answered or {key: value[key] for key in value if key != "observations"}
    return spans_of(value) or value


# --- one log --------------------------------------------------------------------------------------


def opened(log: Any, notes: Counter) -> tuple[str, dict]:
    """(name of the format, the log as a line of chat). Raises ValueError where it is none."""
    name, chat = _opened(log, notes)
    if _is_writable(chat):
        return name, chat
    messages = []
    for message in chat["messages"]:
        if not _is_writable(message):
            message = _mended(message, notes)
            if isinstance(message, dict) and message.get("role") == "assistant":
                message["weight"] = 0
        messages.append(message)
    return name, {**_mended(chat, Counter()), "messages": messages}


def _is_writable(tree: Any) -> bool:
    try:
        json.dumps(tree, ensure_ascii=False, allow_nan=False).encode()
    except ValueError:
        return False
    return True


def _mended(tree: Any, notes: Counter) -> Any:
    """The same without what no JSON in UTF-8 can hold: NaN, infinity, and half a character."""
    if isinstance(tree, dict):
        return {_mended(key, notes): _mended(field, notes) for key, field in tree.items()}
    if isinstance(tree, list):
        return [_mended(entry, notes) for entry in tree]
    if isinstance(tree, str) and not _is_writable(tree):
        notes["texts with half a character, read with \ufffd in its place"] += 1
        return tree.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(tree, float) and not isfinite(tree):
        notes["numbers that are NaN or infinite, read as null"] += 1
        return None
    return tree


def _opened(log: Any, notes: Counter) -> tuple[str, dict]:
    if isinstance(log, list) and log and not is_event(log[0]):
        first_one = log[0] if isinstance(log[0], dict) else {}
        log = {"conversations" if "from" in first_one else "messages": log}
    name = "chat"
    try:
        for name, is_of, opener in FAMILIES:
            if is_of(log):
                return name, opener(log, notes)
        if _is_request(log):
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


def family_of(entries: list) -> str:
    """The name of the format of these messages, by the first key or kind of block that tells it."""
    for entry in entries:
        if not isinstance(entry, dict):
            continue
        inside = entry["parts"] if "parts" in entry else entry.get("content")
        for block in [entry, *(inside if isinstance(inside, list) else [])]:
            if not isinstance(block, dict):
                continue
            kind = block.get("type")
            for key in [kind, *block]:
                if isinstance(key, str) and key in SIGNS and (key == kind or key != "thinking"):
                    return SIGNS[key]
        if "parts" in entry and isinstance(inside, list) and inside:
            block = inside[0] if isinstance(inside[0], dict) else {}
            if "type" not in block:
                return "Gemini"
            return "OpenTelemetry" if "content" in block else "Vercel"
    return "chat"


def _from_envelope(log: dict, notes: Counter, books: tuple[str, ...] = ()) -> dict:
    """A log in which the messages stand under a key of their own, whatever is beside them."""
    return _named(log, notes, books)[1]


def _named(log: dict, notes: Counter, books: tuple[str, ...] = ()) -> tuple[str, dict]:
    """(name of the family, the log as a line of chat)."""
    plain = isinstance(log.get("messages"), list) and all(map(is_plain, log["messages"]))
    if plain and not books and not any(key in log for key in BESIDE):
        return family_of(log["messages"]), _tools_once(log, notes)
    others = {key: log[key] for key in log if key not in books}
    tools = _tools_beside(others)
    entries = _entries(others, tools)
    family = family_of(entries)
    in_parts = sum(isinstance(e, dict) and isinstance(e.get("content"), list) for e in entries)
    if family == "chat" and in_parts:
        notes["content in parts, joined as they stand"] += in_parts
    glue = "" if family in ("chat", "Gemini") else "\n"
    chat: dict = {**others, "messages": messages_of(entries, glue, bool(books))}
    if tools:
        chat["tools"] = tools
    return family, _tools_once(chat, notes)


def _entries(others: dict, tools: list) -> list:
    """The messages of a log as they are written, with its rules before and its answer behind them;
    what is read is taken out of `others`, and tools of a request go to `tools`."""
    entries = None
    for key in (*MESSAGES, *REQUESTS, "prompt"):
        entries = _asked(others.get(key), others, tools)
        if entries is not None:
            others.pop(key)
            break
    if entries is None:
        if any(key in others for key in RESPONSES):
            raise ValueError(
                "a batch's answer without its request: what was answered stands in the requests, so"
                ' put each request\'s "body" beside the "response" of the same custom_id'
            )
        raise ValueError("there is no conversation in it: name the key that holds one by --map")
    for key in RULES:
        rules = _text_of(others.get(key))
        if rules:
            others.pop(key)
            if not (entries and isinstance(entries[0], dict) and entries[0].get("content") == rules):
                entries = [{"role": "system", "content": rules}, *entries]
    for key in RESPONSES:
        if others.get(key) in (None, "", [], {}):
            others.pop(key, None)
            continue
        answered = _answered(others[key])
        last = entries[-1] if entries else {}
        ended = isinstance(last, dict) and last.get("role") in ("assistant", "model")
        if answered is None and key != "output":
            raise ValueError(f'its "{key}" holds no answer: leave the log out')
        if answered is not None and not (ended and isinstance(others[key], str)):
            others.pop(key)
            if answered[: len(entries)] == entries:  # the request is in the response too
                entries = answered
            elif answered != entries[-len(answered) :]:
                entries = [*entries, *answered]
        elif ended and last.get("content") == others[key]:
            others.pop(key)
    return entries


def _asked(request: Any, others: dict, tools: list) -> list | None:
    """The messages of a request, which may be a text, a list, or an object around them. What else
    an object holds goes to `others`."""
    request = _parsed(request)
    if isinstance(request, str) and request.strip():
        return [{"role": "user", "content": request}]
    if isinstance(request, list):
        if request and isinstance(request[0], list):  # LangSmith's are a batch of one
            request = request[0]
        return request
    if not isinstance(request, dict) or not _holds_request(request):
        return None
    inside = dict(request)
    tools += [tool for tool in _tools_beside(inside) if tool not in tools]
    entries = _entries(inside, tools)
    for key, field in inside.items():
        others.setdefault(key, field)
    return entries


def _holds_request(request: dict) -> bool:
    return any(request.get(key) for key in (*MESSAGES, *REQUESTS, "prompt"))


def _answered(response: Any) -> list | None:
    """The messages of an answer: a text, a message, or what a provider returns around one."""
    response = _parsed(response)
    if isinstance(response, str):
        return [{"role": "assistant", "content": response}]
    if isinstance(response, list):
        if any(is_message(entry) for entry in response):
            return response
        return _answered(response[0]) if response else None
    if not isinstance(response, dict):
        return None
    if is_message(response):
        return [response]
    if isinstance(response.get("kwargs"), dict):  # of LangChain, without its name
        return [{**response["kwargs"], "role": "assistant"}]
    for key in ANSWERS:
        if response.get(key):
            return _answered(response[key])
    return None


def _parsed(field: Any) -> Any:
    """A field that holds JSON as text, parsed; any other field as it is."""
    if isinstance(field, str) and field.lstrip()[:1] in ("{", "["):
        try:
            return parse_json(field)
        except ValueError:
            return field
    return field


def _text_of(rules: Any) -> str:
    """The text of rules that stand beside the messages: a text, blocks, or parts."""
    rules = _parsed(rules)
    if isinstance(rules, dict):
        rules = first(rules, ("parts", "content", "text"))
    if isinstance(rules, list):
        texts = [block if isinstance(block, str) else first(block, ("text", "content")) for block in rules]
        return "\n".join(text for text in texts if isinstance(text, str))
    return rules if isinstance(rules, str) else ""


def _tools_beside(others: dict) -> list:
    """The tools that a log or its request declares, taken out of it."""
    tools: list = []
    for key in TOOLS:
        listed = _parsed(others.get(key))
        if isinstance(listed, list | dict):
            tools += _declared(listed)
            del others[key]
    for key in PARAMETERS:
        parameters = _parsed(others.get(key))
        if isinstance(parameters, dict) and any(name in parameters for name in (*TOOLS, *RULES)):
            tools += [tool for tool in _tools_beside(dict(parameters)) if tool not in tools]
            for name in RULES:
                if name in parameters:
                    others.setdefault(name, parameters[name])
            del others[key]
    return tools


def _declared(listed: Any) -> list:
    """Tools in the notation of any provider, as chat declares them."""
    if isinstance(listed, dict):
        listed = listed.get("tools") or [{"name": name, **tool} for name, tool in listed.items()]
    tools = []
    for tool in listed:
        several = first(tool, ("functionDeclarations", "function_declarations"))
        if several:  # Gemini's, which writes types as STRING
            tools += _declared([{"type": "function", **_in_lower_case(one)} for one in several])
            continue
        function = {**(tool.get("toolSpec") or tool)}
        schema = next((function.pop(key) for key in SCHEMAS if key in function), None)
        nested = isinstance(tool.get("function"), dict) or "name" not in function
        if nested or (schema is None and function.get("type", "function") != "function"):
            tools.append(tool)  # of chat, or of the provider's own
            continue
        if schema is not None:
            function["parameters"] = schema.get("json", schema)
        elif "type" not in function and "toolSpec" not in tool:
            tools.append(tool)
            continue
        function.pop("type", None)
        tools.append({"type": "function", "function": function})
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
    """Rules of Hermes list the tools between <tools> and </tools>; the template lists them too."""
    first_one = chat["messages"][0] if chat["messages"] else None
    rules = first_one.get("content") if isinstance(first_one, dict) else None
    if not isinstance(rules, str) or first_one.get("role") != "system":
        return chat
    before, opening, inside = rules.partition("<tools>")
    inside, closing, after = inside.partition("</tools>")
    if not opening or not closing:
        return chat
    try:
        tools = _parsed(inside.strip())
        if isinstance(tools, str):  # one a line
            tools = [parse_json(line) for line in inside.split("\n") if line.strip()]
    except ValueError:
        return chat
    tools = tools if isinstance(tools, list) else [tools]
    if not all(isinstance(tool, dict) for tool in tools):
        return chat
    notes["tools that the rules list in <tools>, taken out of the rules"] += 1
    messages = [{**first_one, "content": before + after}]
    for message in chat["messages"][1:]:
        messages += _split_answers(message)
    chat = {**chat, "messages": messages}
    return chat if chat.get("tools") or not tools else {**chat, "tools": _declared(tools)}


def _split_answers(message: Any) -> list:
    """A tool's message without <tool_response>, which the template writes; one for each answer."""
    content = message.get("content") if isinstance(message, dict) else None
    if not isinstance(content, str) or message.get("role") != "tool":
        return [message]
    if not content.strip().startswith("<tool_response>"):
        return [message]
    answers = content.replace("</tool_response>", "").split("<tool_response>")[1:]
    return [{**message, "content": text.strip("\n ")} for text in answers]


# --- formats with an envelope of their own ---------------------------------------------------------


def _from_preference(log: dict, notes: Counter) -> dict:
    """The conversation with the answer that was preferred."""
    conversation = log.get("input", {"messages": []})
    if not isinstance(conversation, dict) or not isinstance(conversation.get("messages"), list):
        raise ValueError('a preference pair whose "input" has no list "messages"')
    notes["preference pairs, of which the preferred answer is read alone"] += 1
    others = {key: log[key] for key in log if key not in PAIR}
    best = _answered(log.get("preferred_output") or log.get("chosen")) or []
    asked = conversation["messages"]
    if "prompt" in log and best[:1] != (_asked(log["prompt"], {}, []) or [])[:1]:
        asked = _asked(log["prompt"], {}, []) or []
    return _from_envelope({**others, **conversation, "messages": [*asked, *best]}, notes)


def _from_batch(log: dict, notes: Counter) -> dict:
    """A batch request, with its answer where the line holds that too."""
    if log.get("error"):
        raise ValueError('its "response" holds no answer but an "error": leave the log out')
    return _from_envelope(log, notes, ("method", "url", "error"))


def _from_xlam(log: dict, notes: Counter) -> dict:
    """xLAM's question with the calls that answer it; a tool's parameters are named flat."""
    tools = []
    for tool in _parsed(log["tools"]):
        properties = {}
        required = []
        for name, field in (tool.get("parameters") or {}).items():
            kind = str(field.get("type", "str"))
            base = kind.split(",")[0].split("[")[0].strip()
            properties[name] = {**field, "type": XLAM_TYPES.get(base, "string")}
            if "optional" not in kind and "default" not in field:
                required.append(name)
        schema = {"type": "object", "properties": properties, "required": required}
        tools.append({"type": "function", "function": {**tool, "parameters": schema}})
    calls = [call(one["name"], one.get("arguments")) for one in _parsed(log["answers"])]
    others = {key: log[key] for key in log if key not in ("query", "tools", "answers")}
    asked = {"role": "user", "content": log["query"]}
    answered = {"role": "assistant", "content": None, "tool_calls": calls}
    return {**others, "messages": [asked, answered], "tools": tools}


def _from_swe_agent(log: dict, notes: Counter) -> dict:
    """SWE-agent's history; the demonstration is shown and not learned."""
    entries = []
    for entry in log["history"]:
        ids = entry.get("tool_call_ids") or [None]
        message = {key: entry[key] for key in entry if key not in SWE_AGENT}
        message |= {"tool_call_id": ids[0]} if ids[0] else {}
        thought = entry.get("thought")
        if entry.get("role") == "assistant" and isinstance(thought, str) and thought.strip():
            text = entry.get("content")
            text = text if isinstance(text, str) else ""
            message["reasoning_content"] = thought
            message["content"] = text.removeprefix(thought).strip() or None
        if entry.get("is_demo") and entry.get("role") == "assistant":
            message["weight"] = 0
        entries.append(message)
    return _from_envelope({**log, "history": entries}, notes, BOOKS["SWE-agent"])


def _from_mini(log: dict, notes: Counter) -> dict:
    """mini-swe-agent's messages; the last one, of role exit, only says that it ended."""
    entries = []
    for entry in log["messages"]:
        if entry.get("role") == "exit":
            notes["messages of role exit, left out"] += 1
            continue
        entries.append({key: entry[key] for key in entry if key not in ("extra", "timestamp")})
    return _from_envelope({**log, "messages": entries}, notes, BOOKS["mini-swe-agent"])


def _from_tau(log: dict, notes: Counter) -> dict:
    """tau-bench's or tau2-bench's conversation. What a simulated user calls on its own phone is no
    part of what the agent sees."""
    entries = []
    for entry in first(log, MESSAGES) or []:
        for one in entry.get("tool_messages") or [entry]:
            if one.get("requestor") == "user" and one.get("role") == "tool":
                notes["answers to calls of the user's own, left out"] += 1
                continue
            message = {key: one[key] for key in one if key not in ("requestor", "error", "trial")}
            if one.get("role") == "user" and one.get("tool_calls"):
                notes["calls of the user's own, left out"] += 1
                del message["tool_calls"]
                if not message.get("content"):
                    continue
            entries.append(message)
    others = {key: log[key] for key in log if key not in MESSAGES}
    reward = (log.get("reward_info") or {}).get("reward")
    if reward is not None:
        others.setdefault("reward", reward)
    if log.get("policy"):
        others["system"] = log["policy"]
    return _from_envelope({**others, "messages": entries}, notes, BOOKS["tau2-bench"])


def _from_inspect(log: dict, notes: Counter) -> dict:
    """A sample of Inspect; long texts of it may stand in its attachments."""
    texts = log.get("attachments") or {}
    entries = json.loads(_with_attachments(json.dumps(log["messages"]), texts)) if texts else log["messages"]
    tools = [event["tools"] for event in log.get("events") or [] if event.get("tools")]
    scores = log.get("scores") or {}
    others = {"task_id": log.get("id"), "messages": entries}
    if scores:
        value = next(iter(scores.values())).get("value")
        others["score"] = {"C": 1, "I": 0}.get(value, value) if isinstance(value, str) else value
    if tools:
        others["tools"] = tools[-1]
    return _from_envelope({**log, **others}, notes, BOOKS["Inspect"])


def _with_attachments(text: str, texts: dict[str, str]) -> str:
    for key, attached in texts.items():
        text = text.replace(f"attachment://{key}", json.dumps(attached)[1:-1])
    return text


def _from_verifiers(log: dict, notes: Counter) -> dict:
    """A row of verifiers' results; rows of one example are of one task."""
    others = {}
    if "example_id" in log:
        others["task"] = f"{log.get('task', '')} {log['example_id']}".strip()
    return _from_envelope({**log, **others}, notes, BOOKS["verifiers"])


def _has(*keys: str) -> Callable[[Any], bool]:
    """Is it an object with all of these keys?"""
    return lambda log: isinstance(log, dict) and all(key in log for key in keys)


def _is_inspect(log: Any) -> bool:
    if not _has("messages")(log) or not isinstance(log["messages"], list):
        return False
    if "input" in log and ("epoch" in log or "scores" in log):
        return True
    return any(isinstance(e, dict) and e.get("source") == "generate" for e in log["messages"])


def _is_mini(log: Any) -> bool:
    if not _has("messages")(log) or not isinstance(log["messages"], list):
        return False
    return "trajectory_format" in log or any(
        isinstance(entry, dict) and entry.get("role") == "exit" for entry in log["messages"]
    )


def _is_tau2(log: Any) -> bool:
    entries = log.get("messages") if isinstance(log, dict) else None
    if not isinstance(entries, list):
        return False
    if "reward_info" in log:
        return True
    return any(isinstance(entry, dict) and "requestor" in entry for entry in entries)


def _is_swe(log: Any) -> bool:
    entries = log.get("history") if isinstance(log, dict) else None
    return isinstance(entries, list) and bool(entries) and _has("role")(entries[0])


def _is_batch(log: Any) -> bool:
    return isinstance(log, dict) and "messages" not in log and isinstance(log.get("body"), dict)


def _is_request(log: Any) -> bool:
    keys = (*MESSAGES, *REQUESTS, *RESPONSES, "prompt")
    return isinstance(log, dict) and any(key in log for key in keys)


# (name, is a log of it, its opener), asked in this order. What remains is told by its messages.
FAMILIES: list[tuple[str, Callable[[Any], bool], Callable[[Any, Counter], dict]]] = [
    *EVENTS,
    ("preference", _has("preferred_output"), _from_preference),
    ("preference", _has("chosen", "rejected"), _from_preference),
    ("xLAM", _has("query", "tools", "answers"), _from_xlam),
    ("SWE-agent", _is_swe, _from_swe_agent),
    ("ATIF", _has("steps"), from_atif),
    ("mini-swe-agent", _is_mini, _from_mini),
    ("Inspect", _is_inspect, _from_inspect),
    ("tau-bench", _has("traj"), _from_tau),
    ("tau2-bench", _is_tau2, _from_tau),
    ("verifiers", _has("prompt", "completion", "reward"), _from_verifiers),
    ("batch", _is_batch, _from_batch),
]
