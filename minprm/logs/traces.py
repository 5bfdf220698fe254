"""Which spans of a trace are logs: each call of a model, once.

LangSmith, Langfuse, Weave and Braintrust write a trace as spans that stand side by side, each with
the id of the one around it: calls of models, calls of tools, and chains around them, which say
again what the models said.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from minprm.logs.blocks import is_message
from minprm.logs.books import as_list, field_at, fields_of, first, parsed
from minprm.logs.envelopes import MESSAGES, REQUESTS, RESPONSES, is_envelope, unwrapped

FAILED = "calls of a model that failed, left out"
# Spans in which no model answers, and those in which one may: its answer is then a message.
OTHER_SPANS = ("tool", "retriever", "embedding", "prompt", "parser", "evaluator", "guardrail")
CHAINS = ("chain", "agent", "span", "op", "event")
MODELS = ("llm", "generation", "chat_model")
OF_BRAINTRUST = ("tool", "score", "facet")  # the same there
CHAINS_OF_BRAINTRUST = ("task", "function", "eval")
# Where a span names its trace, and the span around it.
TRACES = ("trace_id", "traceId", "root_span_id")
IDS = ("span_id", "id")
PARENTS = ("parentObservationId", "parent_run_id", "parent_id", "span_parents")
# Where somebody says something.
SAID = ("content", "text", "input", "inputs", "output", "outputs", "prompt", "response")


def is_span(value: Any) -> bool:
    """Is it a span of LangSmith, Langfuse, Weave or Braintrust, which names its trace?"""
    if not isinstance(value, dict) or first(value, TRACES) is None or is_message(value):
        return False
    return _kind_of(value) in (*MODELS, *CHAINS, *OTHER_SPANS, *CHAINS_OF_BRAINTRUST)


def _kind_of(span: dict) -> str:
    """What a span says that it is of."""
    named = span.get("type") if "traceId" in span or "trace_id" in span else None
    kind = span.get("run_type") or named or field_at(span, "span_attributes.type")
    return str(kind or ("op_name" in span and "op")).lower()


def is_no_chat(span: dict) -> bool:
    """Is it a span of LangSmith, Langfuse or Weave, and no model's answer is what it returned?"""
    if first(span, MESSAGES):
        return False
    kind, theirs = _kind_of(span), field_at(span, "span_attributes.type")
    if kind in OTHER_SPANS or theirs in OF_BRAINTRUST:
        return True
    may_answer = kind in CHAINS or theirs in CHAINS_OF_BRAINTRUST
    return may_answer and not is_envelope(unwrapped(first(span, ("outputs", "output"))))


def calls_of_models(spans: list, notes: Counter) -> list:
    """Those of these spans that are logs: without the calls that failed, and without the spans that
    only say again what calls of models in them said."""
    succeeded = [span for span in spans if not has_failed(span)]
    if len(succeeded) < len(spans):
        notes[FAILED] += len(spans) - len(succeeded)
    parents = {_name_of(span): _name_of(span, PARENTS) for span in succeeded if is_span(span)}
    inside: dict[tuple, list[dict]] = {}  # of each span, the calls in it
    for span in succeeded:
        if _is_answered_call(span):
            for name in _around(_name_of(span), parents):
                inside.setdefault(name, []).append(span)
    kept = []
    for span in succeeded:
        name = _name_of(span) if is_span(span) else None
        if name and _is_said_by(span, inside.get(name, [])):
            notes["spans around calls that say the same, left out"] += 1
        else:
            kept.append(span)
    return kept


def has_failed(span: Any) -> bool:
    """Is it a call of Langfuse's whose output says what went wrong?"""
    if not is_span(span) or span.get("level") != "ERROR":
        return False
    return isinstance(span.get("output"), str) and span["output"] == span.get("statusMessage")


def _is_answered_call(span: Any) -> bool:
    """Is it a call of a model, or of a program that may hold one, with a question and an answer?"""
    if not is_span(span) or _kind_of(span) not in ("op", *MODELS):
        return False
    asked, answered = first(span, REQUESTS), first(span, RESPONSES)
    return bool(asked and answered) and not is_no_chat(span)


def _name_of(span: dict, keys: Sequence[str] = IDS) -> tuple[str, str]:
    """Its trace, and there its id, or with PARENTS that of the span around it."""
    return str(first(span, TRACES)), str(as_list(first(span, keys))[0])


def _around(name: tuple[str, str], parents: dict) -> list[tuple[str, str]]:
    """The names of the spans around the one of this name; in a damaged trace they may go round."""
    names = [name]
    above = parents[name]
    while above in parents and above not in names:
        names.append(above)
        above = parents[above]
    return names[1:]


def _is_said_by(span: dict, calls: list[dict]) -> bool:
    """Is all that a span returned among what these calls were asked and answered?"""
    returned = parsed(first(span, RESPONSES))
    texts = {*_texts_in(returned)}
    if not texts:
        return any(parsed(first(call, RESPONSES)) == returned for call in calls)
    said = set()
    for call in calls:
        for keys in (REQUESTS, RESPONSES):
            said.update(_texts_in(parsed(first(call, keys))))
    return texts <= said


def _texts_in(tree: Any, key: str = "text") -> Iterator[str]:
    """What is said in it, at whatever depth; not ids and roles."""
    tree = parsed(tree)
    if isinstance(tree, str) and key in SAID and tree.strip():
        yield tree.strip()
    for entry in tree if isinstance(tree, list) else ():
        yield from _texts_in(entry, key)
    for inner, entry in fields_of(tree).items():
        yield from _texts_in(entry, inner)
