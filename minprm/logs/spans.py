"""Exports of spans, of OpenTelemetry and its kin: each span holds the conversation up to it.
Langfuse keeps a span's attributes beside what it made of them."""

from collections.abc import Iterator
from typing import Any

from minprm.logs.books import (
    as_list,
    field_at,
    fields_of,
    first,
    is_list_of,
    objects_in,
    parsed,
    without,
)
from minprm.logs.envelopes import unwrapped

# What exports wrap spans in; how attributes of a model begin, and those that spell a tree.
EXPORTS = ("resourceSpans", "batches", "trace", "data", "scopeSpans", "spans", "events",
           "resourceLogs", "scopeLogs", "logRecords")  # fmt: skip
OF_MODELS = ("gen_ai.", "llm.", "openinference", "mlflow.", "ai.")
NESTED = ("llm", "gen_ai.prompt.", "gen_ai.completion.")
WRAPPERS = {"message", "message_content", "tool_call", "tool"}  # of OpenInference


def spans_of(value: dict) -> list[dict] | None:
    """The logs in an export of spans; None where no span is of a model."""
    spans = [*_spans_in(value)]
    of_a_model = any(key.startswith(OF_MODELS) for span in spans for key in span)
    return [log for log in map(_log_of, spans) if log["messages"]] if of_a_model else None


def _spans_in(exported: Any) -> Iterator[dict]:
    """The attributes of each span, and of each event or record that stands by itself."""
    for span in objects_in(as_list(exported)):
        attributes = _attributes_of(span)
        is_answer = calls_a_model(span)
        events = objects_in(as_list(span.get("events"))) if is_answer else []
        halves = [_attributes_of(event) for event in events]
        asked = [half for half in halves if "gen_ai.input.messages" in half]
        answered = [half for half in halves if "gen_ai.output.messages" in half]
        if len(asked) == len(answered) == 1 and asked != answered:  # of Strands, an event each
            yield {**attributes, **asked[0], **answered[0]}
            events = []
        elif is_answer:
            yield attributes
        else:  # it tells that the export is of a model's program
            yield {key: attributes[key] for key in attributes if key == "gen_ai.operation.name"}
        for key in EXPORTS:
            yield from _spans_in(events if key == "events" else span.get(key))


def calls_a_model(span: dict) -> bool:
    """May an answer of a model be in it? A tool's span has none, and that of an agent without calls
    holds the last one alone: other spans say how it came there."""
    attributes = _attributes_of(span)
    operation = str(attributes.get("gen_ai.operation.name"))
    calls = "tool_call" in str([attributes, span.get("events")])
    return not operation.startswith("execute_") and (operation != "invoke_agent" or calls)


def _attributes_of(span: dict) -> dict:
    columns = {key.removeprefix("attributes."): span[key] for key in span if "." in key}
    attributes = first(span, ("attributes", "tags")) or columns
    if isinstance(attributes, list):
        pairs = [one for one in objects_in(attributes) if isinstance(one.get("key"), str)]
        attributes = {pair["key"]: _otlp(pair.get("value")) for pair in pairs}
    return fields_of(attributes)


def _log_of(span: dict) -> dict:
    """The log in a span's attributes, by OpenTelemetry, OpenInference, OpenLLMetry or MLflow."""
    tree = {key: span[key] for key in span if key.startswith(NESTED)}
    lists = [key for key in tree if key.endswith(".content") and str(tree[key])[:1] == "["]
    tree = _nested(tree | {key: unwrapped(tree[key]) for key in lists})  # OpenLLMetry has texts
    llm, older = fields_of(tree.get("llm")), tree.get("gen_ai", {})
    prompt = llm.get("input_messages") or older.get("prompt")
    answered = llm.get("output_messages") or older.get("completion")
    if str(span.get("mlflow.spanType")).strip('"') in ("CHAT_MODEL", "LLM"):
        prompt, answered = span.get("mlflow.spanInputs"), span.get("mlflow.spanOutputs")
    if "ai.prompt.messages" in span:
        prompt, answered = span["ai.prompt.messages"], _of_vercel(span)
    tools = llm.get("tools") or llm.get("request", {}).get("functions")
    tools = tools or first(span, ("mlflow.chat.tools", "ai.prompt.tools"))
    asked = parsed(span.get("model_request_parameters"))  # of pydantic-ai
    tools = tools or field_at(asked, "function_tools")
    return {
        "messages": span.get("gen_ai.input.messages", prompt),
        "instructions": span.get("gen_ai.system_instructions"),
        "tools": span.get("gen_ai.tool.definitions", tools),
        "output": _answers(span.get("gen_ai.output.messages", answered)),
    }


def _of_vercel(span: dict) -> list[dict]:
    """What a span of Vercel's AI SDK returned: a text, and calls that say no type."""
    content = [{"type": "text", "text": span.get("ai.response.text") or ""}]
    for one in parsed(span.get("ai.response.toolCalls")) or []:
        content.append({"type": "tool-call", **one})
    reason = span.get("ai.response.finishReason")
    return [{"role": "assistant", "content": content, "finish_reason": reason}]


def observed(log: dict) -> dict:
    """An observation of Langfuse, with the rules and tools that it keeps beside what was said. What
    else is in a span's attributes it has in its own fields, too."""
    if "traceId" not in log or not ("input" in log or "output" in log):
        return log
    log = without(log, "toolCalls", "toolCallNames")
    if log.get("output") == "null":
        log["output"] = None
    definitions = log.pop("toolDefinitions", None)
    metadata = parsed(log.get("metadata"))
    attributes = parsed(field_at(metadata, "attributes"))
    beside = {}
    if isinstance(attributes, dict):
        log["metadata"] = without(metadata, "attributes")
        beside = _log_of(attributes)
    if isinstance(definitions, dict):
        schemas = {name: fields_of(parsed(definitions[name])) for name in definitions}
        listed = [{"name": name, **schema} for name, schema in schemas.items() if schema]
        beside["tools"] = beside.get("tools") or listed
    for key in ("instructions", "tools"):
        if beside.get(key) and not log.get(key):
            log[key] = beside[key]
    return log


def _nested(tree: Any) -> Any:
    """What keys with dots spell: {"a.0.message.b": 1} is {"a": [{"b": 1}]}, without the wrapper."""
    if not isinstance(tree, dict | list):
        return tree
    inside: dict[str, dict] = {}
    for key, field in tree.items() if isinstance(tree, dict) else enumerate(tree):
        name, _, inner = str(key).partition(".")
        inside.setdefault(name, {})[inner] = field
    fields = {name: _nested(keys.get("", keys)) for name, keys in inside.items()}
    if fields and all(map(str.isdigit, fields)):
        return [fields[number] for number in sorted(fields, key=int)]
    return next(iter(fields.values())) if fields and fields.keys() <= WRAPPERS else fields


def _answers(output: Any) -> Any:
    """What a span returned. Several messages that each say why they end are answers to choose from;
    without that they are what an agent did, one after the other."""
    answers = parsed(output)
    if output == "null":
        return None
    if is_list_of(answers, "finish_reason") and len(answers) > 1:
        return {"choices": [{"message": answer} for answer in answers]}
    return output


def _otlp(value: Any) -> Any:
    """A value of OTLP, which names its type: {"stringValue": "x"}."""
    inside = next(iter(value.values()), None) if isinstance(value, dict) else value
    if not isinstance(inside, dict) or "values" not in inside:
        return inside
    if "kvlistValue" in value:
        return {one["key"]: _otlp(one["value"]) for one in inside["values"]}
    return [_otlp(one) for one in inside["values"]]
