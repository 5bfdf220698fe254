"""What a log holds beside its conversation: the books that programs keep, and what users say of it.

Each field of a log is read, or is bookkeeping by its name (an id, a time, a cost), or is not
understood. A log with a field that is not understood is refused, because the field may be a part of
the conversation: its users leave it out by --drop KEY, or say by --map KEY=NAME what it is.
"""

import ast
import json
import operator
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple, TypeGuard

from minprm.constants import Content, fail
from minprm.text.actions import parse_json

TO_DROP = "; if it is no part of the conversation, --drop"  # requests of an agent know no flags
# Marks of an answer, under names that no log has: it was cut off; it says that it ends in calls.
CUT_OFF, ENDS_IN_CALLS = "\0cut", "\0calls"
# Names that programs have for the parts of a call.
CALL_IDS = ("tool_call_id", "call_id", "toolCallId", "tool_use_id", "toolUseId", "toolUseID")
TOOL_NAMES = ("name", "tool_name", "toolName", "function_name")
ARGUMENTS = ("arguments", "args", "parameters", "params", "input", "inputs", "tool_input", "kwargs")
# What an account counts, in what is written and in what is read.
COUNTS = ("messages", "calls", "arguments", "results", "thoughts", "tools")
OUTCOMES = ("reward", "score", "success", "won", "resolved")  # how a log ended
TASK_KEYS = ("task_id", "instance_id", "item_id", "problem_id", "example_id", "question_id",
             "scenario_id", "task_index", "task_idx")  # fmt: skip
# The last word of a name that says: this is bookkeeping. created_at and finishReason have such.
BOOKS = frozenset(
    """id ids uuid guid key hash sha checksum fingerprint signature timestamp timestamps ts time
    times date datetime at created updated started ended finished modified duration latency elapsed
    seconds ms usage tokens cost costs price spend model models engine provider version revision
    source origin split subset fold seed temperature p k n max min count counts total index idx
    number position rank iteration attempt attempts retry retries trial trials epoch epochs length
    size bytes url urls uri link file filename path dir cwd branch commit repo repository license
    language lang locale domain category categories topic topics tag tags label labels difficulty
    level type kind object status reason logprobs logprob annotations user username org by generator
    organization project session run env environment platform host hostname ip device client agent
    name title author annotator timezone tz cache cached stream tier credits choice calls format
    stop effort mode verbosity penalty dataset benchmark method requestor lc
    config directory sec window family citations""".split()
)
# Names that end in such a word and may hold a part of the conversation all the same.
NO_BOOKS = frozenset("tool_calls function_calls calls tool_choice_reason".split())
# Written beside relabelled logs (stages/relabel.py), and other names without such a word.
NAMED_BOOKS = frozenset(
    """rewards rewards_without_thought learned is_error ok store region identity operation
    score_chosen score_rejected gen_ai_system raw_messages raw_response error_code span_parents
    is_root execution_order trace_upgrade inputs_preview outputs_preview cost_currency is_success
    response_status_code total_units subcategory gts rollout_log_probs used_in_training
    remaining_steps inference_region request_metadata""".split()
)
# What may hold anything; inside, a name of the conversation is looked for.
CONTAINERS = frozenset(
    """metadata meta extra extra_info info attributes details response_metadata usage_metadata
    additional_kwargs provider_specific_fields provider_metadata hidden_params litellm_params
    extra_body metrics timing stats usage_details cost_details events self state_delta""".split()
)
CONVERSATION = frozenset(
    """messages conversation conversations history system system_prompt instructions prompt
    completion response output choices system_message system_instruction calls tools functions
    tool_calls function_call reasoning reasoning_content thinking thought content arguments
    observation""".split()
)
NOT_RENAMED = ("arguments", "parameters", "args", "input", "tools", "functions", "content")
COMPARISONS = {"==": operator.eq, "!=": operator.ne, ">=": operator.ge, "<=": operator.le,
               ">": operator.gt, "<": operator.lt}  # fmt: skip
CONDITION = re.compile(r"\s*([\w.-]+)\s*(?:(==|!=|>=|<=|>|<)\s*(.+?))?\s*")


class Reading(NamedTuple):
    """How logs are read, as the flags of these names say."""

    content: Content = "reply"
    drop: Sequence[str] = ()
    map: Sequence[str] = ()
    task_key: str = ""
    keep: Sequence[str] = ()
    thought: str = ""
    format: str = ""


AS_THEY_ARE = Reading()


class Unread(NamedTuple):
    """A note of a field that is not understood, for which a log is refused."""

    path: str
    of: str  # what it is a field of


class Note(str):
    """What was changed in a log, as people read it; `counts` are those of the account (account.py)
    in which it makes a difference between what is written and what is read."""

    counts: tuple[str, ...]

    def __new__(cls, text: str, *counts: str) -> "Note":
        note = super().__new__(cls, text)
        note.counts = counts
        return note


def reading_of(knobs: Any) -> Reading:
    """The knobs of this configuration that say how logs are read. Exits where one cannot be."""
    fields = []
    for name in Reading._fields:
        field = getattr(knobs, name)
        fields.append(tuple(field) if isinstance(field, list) else field)
    reading = Reading(*fields)
    for pair in reading.map:
        key, _, name = pair.partition("=")
        if not key or not name:
            fail(f"--map {pair}: write KEY=NAME, the key of your logs and the name it is read as")
    for condition in reading.keep:
        if not CONDITION.fullmatch(condition):
            fail(f"--keep {condition}: write a key of your logs, or 'KEY>=NUMBER'")
    if reading.thought:
        try:
            groups = re.compile(reading.thought).groups
        except re.error as error:
            fail(f"--thought {reading.thought}: this is no pattern ({error})")
        if groups != 1:
            fail(f"--thought {reading.thought}: the thought stands in one pair of brackets")
    return reading


def is_nothing(field: Any) -> bool:
    """Null or empty: programs write out fields that they do not use."""
    return field is None or field == "" or field == [] or field == {}


def first(fields: dict, keys: Sequence[str]) -> Any:
    """The first of these fields that holds something; null and empty ones are passed over."""
    for key in keys:
        if not is_nothing(fields.get(key)):
            return fields[key]
    return None


def without(fields: dict, *keys: str) -> dict:
    """These fields, without those under these keys."""
    return {key: fields[key] for key in fields if key not in keys}


def fields_of(tree: Any) -> dict:
    """An object as it is; an empty one for anything else."""
    return tree if isinstance(tree, dict) else {}


def as_list(tree: Any) -> list:
    """A list as it is; anything else as the only entry of one."""
    return tree if isinstance(tree, list) else [tree]


def objects_in(tree: Any) -> list[dict]:
    """The objects in a list; none in anything else."""
    return [one for one in tree if isinstance(one, dict)] if isinstance(tree, list) else []


def nodes(tree: Any) -> Iterator[Any]:
    """All that is in a tree of JSON, itself first."""
    yield tree
    for one in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from nodes(one)


def parse_printed(text: str) -> Any:
    """What this JSON says, or what Python or NumPy (without commas) prints. Raises ValueError."""
    if re.match(r"\s*\[?\s*\{\s*'", text):
        with suppress(ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            text = json.dumps(ast.literal_eval(text.strip().replace("}\n {", "}, {")))
    return parse_json(text)


def parsed(field: Any) -> Any:
    """A field that holds JSON as text, parsed; any other field as it is."""
    if isinstance(field, str) and field.lstrip()[:1] in ("{", "["):
        with suppress(ValueError):
            return parse_printed(field)
    return field


def unread_in(fields: dict, read: Sequence[str]) -> list[str]:
    """The names of the fields that say something and are not among these."""
    return [key for key in fields if key not in read and not is_nothing(fields[key])]


def note_unread(fields: dict, keys: Sequence[str], of: str, notes: Counter) -> None:
    """Counts the fields that have none of these keys: bookkeeping, or not understood."""
    for key in unread_in(fields, keys):
        path = next(_not_understood(key, fields[key]), None)
        if path is None:
            notes[f'"{key}" of {of}, left out'] += 1
        else:
            notes[Unread(path, of)] += 1


def refuse_unread(notes: Counter) -> None:
    """Raises ValueError where a field was not understood, with what its users may say of it."""
    fields = [note for note in notes if isinstance(note, Unread)]
    if not fields:
        return
    keys = as_thought = ""
    for path, of in fields:
        key = _short(path)
        if of == "a message of the assistant":
            as_thought = f", a thought by --map {key}=reasoning_content"
        keys += f" .{key}" if key in CONVERSATION and of == "a log" else f" {key}"
    listed = ", ".join(f'"{path}" of {of}' for path, of in fields)
    raise ValueError(
        f"{listed}: not understood{TO_DROP}{keys} leaves it out, and else --map"
        f" KEY=NAME says under which name it is read{as_thought}"
    )


def _short(path: str) -> str:
    return ".".join(path.split(".")[-2:])


def _not_understood(key: str, field: Any) -> Iterator[str]:
    """The path of what may be a part of the conversation in this field; none in bookkeeping."""
    if is_container(key) or (is_book(key) and isinstance(field, dict)):
        yield from _of_conversation(key, parsed(field))
    elif snake(key).endswith("_calls") and isinstance(field, list):
        yield key
    elif not is_book(key):
        if isinstance(field, dict):
            for inner, inside in field.items():
                if not is_nothing(inside):
                    for path in _not_understood(inner, inside):
                        yield f"{key}.{path}"
        else:
            yield key


def _of_conversation(path: str, field: Any) -> Iterator[str]:
    if isinstance(field, list):
        for one in field:
            yield from _of_conversation(path, one)
    if not isinstance(field, dict) or (field.get("type") == "object" and "properties" in field):
        return  # a schema names what is asked for
    for key, inside in field.items():
        if not is_nothing(inside):
            if snake(key) in CONVERSATION and not isinstance(inside, int | float):
                yield f"{path}.{key}"
            yield from _of_conversation(f"{path}.{key}", inside)


@lru_cache(maxsize=4096)
def is_book(key: str) -> bool:
    """Does the name of a field say that it is bookkeeping?"""
    name = snake(key)
    return name not in NO_BOOKS and (name.split("_")[-1] in BOOKS or name in NAMED_BOOKS)


@lru_cache(maxsize=4096)
def is_container(key: str) -> bool:
    return snake(key) in CONTAINERS


def snake(key: str) -> str:
    """finishReason and gen_ai.finish-reason as words with _ between them."""
    words = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", key)
    return re.sub(r"[^a-z0-9]+", "_", words.lower()).strip("_")


def renamed(tree: Any, reading: Reading, parent: str = "") -> Any:
    """The log without the keys of --drop, and with those of --map under their other names.

    A key is meant wherever it stands but in arguments, tools and contents that are no blocks;
    KEY.KEY names it by the one above it.
    """
    if not reading.drop and not reading.map:
        return tree
    if isinstance(tree, list):
        return [renamed(entry, reading, parent) for entry in tree]
    if not isinstance(tree, dict):
        return tree
    names = dict(pair.split("=", 1) for pair in reading.map)
    fields = {}
    for key, field in tree.items():
        if key in reading.drop or _short(f"{parent}.{key}") in reading.drop:
            continue
        name = names.get(key, names.get(f"{parent}.{key}", key))
        if name in fields or (name != key and not is_nothing(tree.get(name))):
            raise ValueError(f"--map {key}={name}: there is a {json.dumps(name)} beside it")
        of_a_log = key == "input" and not parent  # and no arguments of a call
        is_others = key in NOT_RENAMED and not of_a_log
        is_others = is_others and not (key == "content" and is_list_of(field, "type"))
        fields[name] = field if is_others else renamed(field, reading, key)
    return fields


def is_list_of(content: Any, key: str) -> TypeGuard[list[dict]]:
    """Is it a list of objects, and not an empty one, all of which have this key?"""
    entries = content if isinstance(content, list) else []
    return bool(entries) and all(isinstance(one, dict) and key in one for one in entries)


def field_at(log: Any, path: str) -> Any:
    """What stands under KEY or KEY.KEY; None where nothing does."""
    if isinstance(log, dict) and path in log:
        return log[path]
    for key in path.split("."):
        log = log.get(key) if isinstance(log, dict) else None
    return log


def is_kept(log: Any, condition: str) -> bool | None:
    """Does a log meet a condition of --keep? None: it does not say.

    >>> is_kept({"reward": 0.7}, "reward>=0.5"), is_kept({"won": False}, "won"), is_kept({}, "won")
    (True, False, None)
    """
    match = CONDITION.fullmatch(condition)
    field = field_at(log, match[1]) if match else None
    if not match or field is None:
        return None
    if not match[2]:
        return field not in (False, 0, "", "false", "False", "0")
    try:
        other = json.loads(match[3])
    except ValueError:
        other = match[3].strip("'")
    try:
        return COMPARISONS[match[2]](field, other)
    except TypeError:
        return None
