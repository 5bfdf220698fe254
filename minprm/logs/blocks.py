"""A message of any program -> messages of chat.

Programs write a turn as a text, as a list of blocks (text, thought, call, answer), or as one record
for each of these. Their names for the same thing differ: a call is `tool_use`, `toolUse`,
`functionCall`, `tool-call`; its arguments are `input`, `args`, `arguments`. All of these names are
matched here; a block of another kind (an image) stays as it is, and normalise.py says what it is.
"""

import json
import re
from typing import Any

from minprm.logs.books import (
    ARGUMENTS,
    CALL_IDS,
    CUT_OFF,
    ENDS_IN_CALLS,
    TOOL_NAMES,
    as_list,
    field_at,
    fields_of,
    first,
    is_nothing,
    objects_in,
    parse_printed,
    parsed,
    unread_in,
    without,
)
from minprm.logs.normalise import RAN, TEXTS, text_of_document

CHAT_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
OF_CALLS = ("function_call", "tool_call")  # roles of a text that is a call
ROLES = {"human": "user", "ai": "assistant", "model": "assistant", "gpt": "assistant",
         "chatgpt": "assistant", "bot": "assistant", "function_call": "assistant",
         "tool_call": "assistant", "observation": "tool", "tool_response": "tool"}  # fmt: skip
UNLIKE = {"parts", "additional_kwargs", "toolInvocations", "toolCalls", "value", "text", "contents",
          "blocks", "items"}  # fmt: skip
# Kinds of blocks, asked in this order; retry-prompt is pydantic-ai's answer to a bad call.
ANSWER = re.compile("(tool|function|shell).*(result|response|return|output)$", re.IGNORECASE)
CALL = re.compile("(tool|function|shell|mcp).*(use|call)$|toolRequest$", re.IGNORECASE)
THOUGHT = re.compile("think|reason|^thought$", re.IGNORECASE)
TEXT = re.compile("text$|prompt$|^refusal$", re.IGNORECASE)
# Blocks that hold nothing which the model reads; of opencode by their kind and a field of theirs.
EMPTY = re.compile("^(step-|cachePoint|thoughtSig|source|data-|toolConfirm|fallback$|usage$)")
OF_OPENCODE = {"snapshot": "snapshot", "patch": "hash", "retry": "attempt", "agent": "name"}
SAID_AGAIN = ("text/plain", "application/x-directory")  # files that it also writes as a text
OUTPUTS = ("text", "json", "content", "error-text", "error-json")  # of Vercel's tools
BEDROCKS = ("image", "document", "video")  # of which it writes the bytes into a tool's answer
IMAGE = re.compile(r"^(inline_?data|file_?data|image|binary$|\w+-url$)", re.IGNORECASE)
IDS = (*CALL_IDS, "id")
NAMES = (*TOOL_NAMES, "function")
CONTENTS = ("content", "output", "response", "result", "errorText", "error", "text", "value",
            "data", "stdout", "message", "tools")  # fmt: skip
THOUGHTS = ("thinking", "reasoning", "thought", "think", "reasoning_content", "reasoningContent",
            "reasoningText", "reasoning_text", "text", "content", "value", "details",
            "summary")  # fmt: skip
# Why an answer ended, as programs call it, where it had not come to its end.
REASONS = ("finish_reason", "finishReason", "stop_reason", "stopReason", "done_reason")
CUT = ("length", "max_tokens", "max_output_tokens", "model_length", "refusal", "content_filter",
       "model_context_window_exceeded", "content_filtered", "guardrail_intervened", "safety",
       "recitation", "prohibited_content", "blocklist", "spii", "error",
       "malformed_function_call", "malformed_tool_use", "malformed_model_output")  # fmt: skip
IN_CALLS = ("tool_calls", "tool_use", "function_call")
# Where programs keep what they know of an answer.
AROUND = ("response_metadata", "meta", "generation_info")
OF_A_CALL = ("type", "kind", "part_kind", "index", "status", "caller", "cache_control",
             "server_name", *IDS, *NAMES, *ARGUMENTS, "action")  # fmt: skip
OF_AN_ANSWER = (*OF_A_CALL, *CONTENTS, "is_error", "isError", "state", "outcome", "timestamp")
# What to say of a field that may be what an answer or a call lacks.
MAYBE_IT = '"{key}" of {} without {name}: not understood; --map {key}={name} reads it'
# Fields of a message that are read here, or that hold nothing of the conversation.
READ = ("role", "content", "parts", "type", "id", "tool_calls", "tool_call_chunks",
        "response_metadata", "usage_metadata", "createdAt", "lc", "status", "turn_idx", "source",
        "stop_sequence", "stop_reason", "finish_reason", "annotations", "model", "usage",
        "toolInvocations", "phase", "example")  # fmt: skip
# Where a message has its text.
SAID = ("content", "contents", "value", "text")


def role_of(name: Any) -> Any:
    """The role of chat that a name means; any other name as it is.

    >>> role_of("HumanMessage"), role_of("model")
    ('user', 'assistant')
    """
    if not isinstance(name, str):
        return name
    word = name.lower().removesuffix("chunk").removesuffix("message")
    return word if word in CHAT_ROLES else ROLES.get(word, name)


def is_message(entry: Any) -> bool:
    """Is this a message, or a record of one turn's part, in any of the forms read here?"""
    if not isinstance(entry, dict):
        return False
    if any(key in entry for key in ("role", "from", "kwargs")) or is_record(entry):
        return True
    spoken = role_of(entry.get("type")) in CHAT_ROLES and ("content" in entry or "data" in entry)
    return spoken or isinstance(entry.get("parts"), list | dict)


def is_record(entry: dict) -> bool:
    """Is it a thought, a call or an answer that stands by itself, as OpenAI's Responses have it?"""
    kind = entry.get("type")
    if not isinstance(kind, str) or "role" in entry or "from" in entry or "content" in entry:
        return kind == "reasoning"
    return any(pattern.search(kind) for pattern in (ANSWER, CALL, THOUGHT, RAN))


def is_plain(message: Any) -> bool:
    """Is it a message of chat already, with a text as its content?"""
    fields = fields_of(message)
    if fields.get("role") not in CHAT_ROLES or UNLIKE & fields.keys():
        return False
    content = message.get("content")
    if not isinstance(content, list):
        return True
    return message["role"] in ("tool", "function") and not _holds_answers(content)


def is_cut(answer: dict) -> bool:
    """Did it end at a limit, by a filter or by an error? Then it is marked, and not learned.

    >>> is_cut({"finish_reason": "length"}), is_cut({"finish_reason": "stop"})
    (True, False)
    """
    of_responses = is_record(answer) or answer.get("type") == "message" or "output" in answer
    # of a call that failed it is the tool that did
    broken = ("incomplete",) if is_record(answer) else ("incomplete", "failed")
    if of_responses and answer.get("status") in broken:
        return True
    return ended_early(answer)


def ended_early(fields: dict) -> bool:
    """Does a reason say that an answer did not come to its end?"""
    return not _reasons(fields).isdisjoint(CUT)


def ending_of(answer: dict) -> dict:
    """How an answer ended, as a mark: cut off, or in calls, which it may lack."""
    if is_cut(answer):
        return {CUT_OFF: True}
    return {} if _reasons(answer).isdisjoint(IN_CALLS) else {ENDS_IN_CALLS: True}


def _reasons(answer: dict) -> set[str]:
    """Why an answer ended, in the words of its provider."""
    reasons = []
    for fields in (answer, *(fields_of(answer.get(key)) for key in AROUND)):
        reasons += [fields[key] for key in REASONS if key in fields]
    return {str(field_at(one, "unified") or one).lower().replace("-", "_") for one in reasons}


# --- blocks ---------------------------------------------------------------------------------------


def call(name: Any, arguments: Any, call_id: Any = None) -> dict:
    """A call as chat has it."""
    if not isinstance(arguments, str):
        arguments = json.dumps({} if arguments is None else arguments, ensure_ascii=False)
    form = {"type": "function", "function": {"name": name, "arguments": arguments}}
    return {"id": str(call_id), **form} if call_id is not None else form


def answer(content: Any, call_id: Any = None, name: Any = None) -> dict:
    """A tool's answer as chat has it."""
    form = {"role": "tool", "content": _answer_text(content)}
    if call_id is not None:
        form["tool_call_id"] = str(call_id)
    return form | {"name": name} if isinstance(name, str) else form


def _content(block: dict) -> Any:
    """What a tool answered. Raises ValueError where only fields that are not read say something."""
    content = first(block, CONTENTS)
    unread = [key for key in unread_in(block, OF_AN_ANSWER) if block[key] is not False]
    if content is None and unread:
        raise ValueError(MAYBE_IT.format("an answer", key=unread[0], name="content"))
    return content


def _answer_text(content: Any) -> Any:
    """The text of an answer's blocks; anything else stays, and is written as JSON later. What a
    tool returned may have a key "text" too: a block has no other, or says its type."""
    if fields_of(content).keys() == {"type", "value"} and content["type"] in OUTPUTS:
        content = content["value"]
    if isinstance(content, list) and content:
        content = [block for block in content if not _is_for_the_user(block)] or ""
    parts = []
    for block in as_list(content):
        fields = fields_of(block)
        if fields.keys() <= {"text", "json", *BEDROCKS}:  # of Bedrock, whose client may write nulls
            fields = {key: field for key, field in fields.items() if field is not None}
        text = _text_of_part(fields)
        media = [key for key in BEDROCKS if isinstance(fields.get(key), dict)]
        if text is not None:
            parts.append({"type": "text", "text": text})
        elif media and fields.keys() == {*media} and "source" in fields[media[0]]:
            parts.append({"type": media[0]})
        else:
            return content
    if all("text" in part for part in parts):
        return "\n".join(part["text"] for part in parts) if parts else content
    return parts


def _text_of_part(part: dict) -> str | None:
    """The text of a part of an answer; None where it has none."""
    if part.keys() == {"json"}:  # of Bedrock
        return json.dumps(part["json"], ensure_ascii=False)
    is_text = part.keys() == {"text"} or first(part, ("type", "block_type")) in TEXTS
    if is_text and isinstance(part.get("text"), str):
        return part["text"]
    resource = field_at(part, "resource.text")  # a file that MCP put into its answer
    if part.get("type") == "resource" and isinstance(resource, str):
        return resource
    return text_of_document(part)


def _is_for_the_user(block: Any) -> bool:
    """Is it shown to the user alone, as MCP marks it?"""
    audience = field_at(block, "annotations.audience")
    return isinstance(audience, list) and bool(audience) and "assistant" not in audience


def blocks(block: Any) -> list[tuple[str, Any]]:
    """(kind, content) of what a block says: text, thought, call, answer, end or other."""
    if not isinstance(block, dict):
        return [("text", block)]
    kind = _kind_of(block)
    block = _unwrapped(block, kind)
    invocation = _invocation_in(block, kind)
    if invocation is not None:
        return _invocation(invocation, kind)
    if _says_nothing(block, kind):
        return [("end", None)]
    if ANSWER.search(kind) or (kind == "retry-prompt" and block.get("tool_name")):
        origin = block.get("origin") if kind == "tool_call_result" else None  # Haystack's call
        named = fields_of(origin) | block
        return [("answer", answer(_content(block), first(named, IDS), first(named, NAMES)))]
    if CALL.search(kind):
        content = first(block, ("result", "output", "error"))  # of a tool that the provider runs
        return _with_answer(_call(block, kind), content)
    if THOUGHT.search(kind) or block.get("thought") is True:
        return [("thought", thought_of(block))]
    if TEXT.search(kind) and "parts" not in block:
        text = first(block, ("text", "content", "refusal", "value")) or ""
        if isinstance(text, dict):  # of OpenAI's threads
            text = text.get("value", text)
        if isinstance(text, list):  # of pydantic-ai's user
            return [part for one in text for part in blocks(one)]
        return [("text", text)]
    is_image = IMAGE.search(kind) or block.get("type") in ("uri", "blob")  # of OpenTelemetry
    return [("other", {**block, "type": "image" if is_image else kind})]


def _kind_of(block: dict) -> str:
    """What a block says that it is; or the key by which Gemini's and Bedrock's are named."""
    kind = first(block, ("type", "part_kind", "kind", "block_type", "content_type"))
    is_mime = "/" in str(kind) and kind == block.get("content_type")
    if isinstance(kind, str) and not is_mime:
        return kind
    patterns = (ANSWER, CALL, THOUGHT, TEXT, IMAGE)
    filled = [key for key in block if block[key] not in (None, False, "", [], {})]
    keys = [key for key in filled if any(pattern.search(key) for pattern in patterns)]
    return [*keys, *filled, *block, ""][0]


def _unwrapped(block: dict, kind: str) -> dict:
    """The block inside the key that is named as its kind, or inside what Goose puts around it."""
    opens = "type" not in block or CALL.search(kind) or ANSWER.search(kind)
    if isinstance(block.get(kind), dict) and opens and not IMAGE.search(kind):
        block = block[kind]
    nested = first(block, ("toolCall", "toolResult"))
    if not isinstance(nested, dict) or "status" not in nested:
        return block
    inside = nested.get("value", nested)
    return {**(inside if isinstance(inside, dict) else {"content": inside}), "id": block.get("id")}


def _says_nothing(block: dict, kind: str) -> bool:
    """Is nothing in it that the model reads, or is it said in another block too?"""
    is_said_again = kind == "file" and "url" in block and block.get("mime") in SAID_AGAIN
    is_own = "type" in block and OF_OPENCODE.get(kind) in block  # kept beside what was said
    is_empty = EMPTY.search(kind) is not None or block.get("ignored") is True
    return is_empty or is_said_again or is_own


def _with_answer(form: dict, content: Any, is_answered: bool = False) -> list[tuple[str, Any]]:
    """A call, and the answer that stands in it, if any does."""
    if content is None and not is_answered:
        return [("call", form)]
    return [("call", form), ("answer", answer(content, form.get("id"), form["function"]["name"]))]


def thought_of(thought: Any) -> str:
    """The text of a thought, which may be a list of summaries, or stand two levels down."""
    if isinstance(thought, dict):
        texts = {key: one for key, one in thought.items() if not isinstance(one, bool)}
        is_cipher = thought.get("redacted") is True  # of Inspect
        return thought_of(first(texts, THOUGHTS[-1:] if is_cipher else THOUGHTS))
    if isinstance(thought, list):
        return "\n".join(map(thought_of, thought))
    return thought if isinstance(thought, str) else ""


def _call(block: dict, kind: str = "") -> dict:
    """The call of a block; one with a text for its arguments (a patch) has them named `input`."""
    name = parsed(first(block, NAMES))
    arguments = first(block, (*ARGUMENTS, "tool_kwargs", "action"))
    if isinstance(name, dict):  # as chat nests it
        name, arguments = name.get("name"), first(name, ARGUMENTS)
    if arguments is None:
        unread = unread_in(block, OF_A_CALL)
        if "partial_json" in unread:
            arguments = block["partial_json"]
        elif unread and "tool" in kind.lower() and not any(block.get(k) == {} for k in ARGUMENTS):
            raise ValueError(MAYBE_IT.format("a call", key=unread[0], name="arguments"))
    if kind == "custom_tool_call":
        arguments = {"input": arguments}
    return call(name or kind.removesuffix("_call"), arguments, first(block, IDS))


def _invocation_in(block: dict, kind: str) -> dict | None:
    """A call with its answer in it, as Vercel writes it, or opencode under other names; None where
    the block is none."""
    names_no_tool = "toolCallId" in block and "toolName" not in block
    if names_no_tool or kind in ("tool-invocation", "dynamic-tool"):
        return block.get("toolInvocation") or block
    state = block.get("state")
    if kind == "tool" and "callID" in block and isinstance(state, dict):
        named = {"toolCallId": block["callID"], "toolName": block.get("tool"), **state}
        return {**named, "state": state.get("status")}
    return None


def _invocation(block: dict, kind: str) -> list[tuple[str, Any]]:
    """Vercel's call and its answer, of a block that is named `tool-NAME` or says the name."""
    name = block.get("toolName") or kind.removeprefix("tool-")
    arguments = first(block, (*ARGUMENTS, "rawInput"))  # raw where they were not what it takes
    content = first(block, CONTENTS)
    if block.get("state") == "output-denied":  # by its user
        content = field_at(block, "approval.reason") or "denied"
    is_answered = block.get("state") in ("result", "output-available", "completed")
    return _with_answer(call(name, arguments, block.get("toolCallId")), content, is_answered)


# --- messages -------------------------------------------------------------------------------------


class Conversation:
    """Messages of chat that grow block by block. Answers wait for the end of the turn, so that a
    call behind an answer is still of the turn that it was made in."""

    def __init__(self, glue: str):
        self.glue = glue  # between texts of one message; an assistant's are pieces of one text
        self.begins = False  # does a message begin that is of the same turn as the one before it
        self.messages: list = []
        self.turn: dict | None = None
        self.answers: list[dict] = []

    def end_turn(self) -> None:
        self.messages += self.answers
        self.answers = []
        self.turn = None

    def add(self, role: str, kind: str, content: Any, fields: dict) -> None:
        """Adds one block; `fields` go to the message that it begins."""
        if kind == "answer":
            is_users = self.turn is not None and self.turn["role"] == "user"
            if is_users and self.messages[-1] is self.turn and len(self.messages) > 1:
                self.messages.insert(-1, content)  # behind its call, before what the user says
            else:
                self.answers.append(content)
            return
        if (self.answers and kind != "call") or (self.turn and self.turn["role"] != role):
            self.end_turn()
        if kind == "end" or (kind == "thought" and not content):  # encrypted, say
            return
        if self.turn is None:
            self.end_turn()  # answers without a call may wait
            self.turn = {**fields, "role": role, "content": None}
            self.messages.append(self.turn)
        turn = self.turn
        turn.pop(CUT_OFF, None)
        if fields.get(CUT_OFF):  # the last of its records says so
            turn[CUT_OFF] = True
        before = turn["content"]
        if kind == "call":
            _add_call(turn.setdefault("tool_calls", []), content)
        elif kind == "thought":
            thoughts = [turn.get("reasoning_content"), content]
            turn["reasoning_content"] = "\n".join(one for one in thoughts if one)
        elif kind == "text" and not isinstance(before, list):
            joined = bool(before) and isinstance(content, str)
            glue = self.glue if role != "assistant" or (self.begins and content) else ""
            self.begins = False
            turn["content"] = f"{before}{glue}{content}" if joined else content or before
        else:
            block = {"type": "text", "text": content} if kind == "text" else content
            before = [{"type": "text", "text": before}] if isinstance(before, str) else before
            turn["content"] = [*(before or []), block]


def _add_call(calls: list[dict], new: dict) -> None:
    """Adds a call to those of its turn, once: LangChain writes it twice, and a stream first without
    its arguments."""
    for one in calls:
        if "id" in new and one.get("id") == new["id"] and _is_same(one, new):
            if one["function"]["arguments"] == "{}":
                one["function"] = new["function"]
            return
    calls.append(new)


def _is_same(one: dict, other: dict) -> bool:
    """Are two calls of one id the same call, written twice? One of them may lack its arguments."""
    names = [call["function"]["name"] for call in (one, other)]
    arguments = [call["function"]["arguments"] for call in (one, other)]
    if names[0] != names[1] or "{}" in arguments:
        return names[0] == names[1]
    try:
        return json.loads(arguments[0]) == json.loads(arguments[1])
    except (TypeError, ValueError):
        return arguments[0] == arguments[1]


def messages_of(entries: list, glue: str = "\n", of_a_program: bool = False) -> list:
    """The messages of chat that these entries say: messages, or records of a turn's parts.

    of_a_program: also a message of chat has the fields by which a program keeps its books.
    """
    conversation = Conversation(glue)
    message_id = None
    rules = None  # which pydantic-ai repeats in each request
    for i, entry in enumerate(one for whole in entries for one in _messages_in(whole)):
        if not isinstance(entry, dict) or (is_plain(entry) and not of_a_program):
            conversation.end_turn()
            is_answer = field_at(entry, "role") == "assistant"
            conversation.messages.append({**entry, **ending_of(entry)} if is_answer else entry)
            continue
        if entry.get("kind") == "request":
            rules, before = entry.get("instructions"), rules
            entry = {**entry, "instructions": rules if rules != before else None}
        try:
            parts, fields = _parts(entry)
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"message {i}: it is damaged ({error!r})") from error
        except ValueError as error:
            raise ValueError(f"message {i}: {error}") from error
        # OpenAI's Responses write a turn as several records, until a tool answers; Claude Code
        # writes it as several messages of one id
        speaks = (entry.get("type"), entry.get("role")) == ("message", "assistant")
        of_a_turn = is_record(entry) or speaks
        if any(kind != "answer" for _, kind, _ in parts):
            same_message = entry.get("id") is not None and entry["id"] == message_id
            if not same_message and (not of_a_turn or conversation.answers):
                conversation.end_turn()
            message_id = entry.get("id")
            conversation.begins = of_a_turn and not same_message and not is_record(entry)
        if any(kind == "call" for _, kind, _ in parts):
            fields.pop(ENDS_IN_CALLS, None)
        for part in parts:
            conversation.add(*part, fields)
    conversation.end_turn()
    return conversation.messages


def _messages_in(entry: Any) -> list:
    """The messages in an entry, without what a program puts around each."""
    message, content, answers = map(fields_of(entry).get, ("message", "content", "tool_responses"))
    if is_opencodes(entry):
        about = entry["info"]
        is_other = about.get("error") or about.get("summary") is True  # a failure, or a summary
        mark = {"weight": 0} if is_other else {}
        entry = {**entry, "role": about.get("role"), **mark}
    elif isinstance(message, dict) and "content" in message and content is None:  # of Cursor
        entry = {**entry, "message": None} | message
    if answers and objects_in(answers) == answers:
        texts = [str(one.get("content", "")) for one in answers]
        if is_nothing(content) or content == "\n\n".join(texts):  # of AG2, which says them again
            return answers
    return [entry]


def is_opencodes(entry: Any) -> bool:
    """Is it a message of opencode, whose role stands in its `info`?"""
    return isinstance(field_at(entry, "info"), dict) and "parts" in entry and "role" not in entry


def _parts(entry: dict) -> tuple[list[tuple[str, str, Any]], dict]:
    """([(role, kind, content)] of one entry, the fields that its message has beside)."""
    said_before = {key: True for key in (CUT_OFF, ENDS_IN_CALLS) if key in entry}
    if isinstance(entry.get("kwargs"), dict):  # LangChain's, with its class around
        entry = {**entry["kwargs"], "type": (entry.get("id") or ["ai"])[-1]}
    if isinstance(entry.get("data"), dict):
        entry = {**entry["data"], "type": entry["type"]}
    if isinstance(entry.get("parts"), dict):
        entry = {**entry, "parts": [entry["parts"]]}
    if ("from" in entry and "role" not in entry) or entry.get("role") in OF_CALLS:
        entry = from_turn(entry)
    kind = entry.get("type")
    mark = said_before or ending_of(entry)
    if "weight" in entry:
        mark["weight"] = entry["weight"]
    if is_record(entry):
        return [("assistant", *part) for part in blocks(entry)], mark
    if entry.get("kind") in ("request", "response"):
        return _request(entry), mark
    role = role_of(entry.get("role", "user" if kind is None and "parts" in entry else kind))
    fields = without(entry, *READ)
    if role == "assistant":
        fields |= mark
    content = first(entry, SAID)
    fields = {key: one for key, one in fields.items() if key not in SAID or one != content}
    content = content or fields.pop("blocks", None) or fields.pop("items", None)
    said = entry["parts"] if isinstance(entry.get("parts"), list) else []
    in_parts = {kind for part in said for kind, _ in blocks(part)} - {"end"}
    if in_parts:
        beside = isinstance(content, str) and content and "text" not in in_parts
        content = [*said, content] if beside else said
        fields.pop("metadata", None)
    if role in ("tool", "function") and not _holds_answers(content):
        return [(role, "answer", _tool_message(content, entry, fields))], {}
    parts = []
    step = None
    for one in [] if in_parts else entry.get("toolInvocations") or []:
        if one.get("step") != step:
            parts.append((role, "end", None))
        step = one.get("step")
        parts += [(role, *part) for part in _invocation(one, "")]
    if content is not None or not parts:  # else it only calls
        parts += _said([(role, block) for block in as_list(content)])
    if role == "user" and entry.get("tool_calls"):
        fields["tool_calls"] = entry["tool_calls"]
    elif role == "assistant":
        for one in _calls_beside(entry, fields):
            content = first(one, ("result", "output"))  # some write a call's answer into it
            parts += [(role, *part) for part in _with_answer(_call(one), content)]
    return parts, fields


def _request(entry: dict) -> list[tuple[str, str, Any]]:
    """The parts of pydantic-ai's request or response; `instructions` are the rules."""
    parts = []
    if entry.get("instructions"):
        parts.append(("system", "text", entry["instructions"]))
    said = []
    for block in entry["parts"]:
        role = "assistant" if entry["kind"] == "response" else "user"
        role = "system" if block.get("part_kind") == "system-prompt" else role
        said.append((role, block))
    return parts + _said(said)


def _said(said: list[tuple[str, Any]]) -> list[tuple[str, str, Any]]:
    """The parts of the blocks of a message, each with its role. Answers in the assistant's own
    message are of tools that the provider runs. Once all calls have theirs, the turn ends: what
    comes behind was written after they were read."""
    parts = []
    waiting = 0  # calls without an answer so far
    for role, block in said:
        inside = blocks(block)
        parts += [(role, *part) for part in inside]
        kinds = [kind for kind, _ in inside]
        waiting = max(waiting + kinds.count("call") - kinds.count("answer"), 0)
        if role == "assistant" and kinds == ["answer"] and not waiting:
            parts.append((role, "end", None))
    return parts


def _calls_beside(entry: dict, fields: dict) -> list[dict]:
    """The calls that stand beside an assistant's content; LangChain also keeps what was sent."""
    sent = fields.pop("additional_kwargs", None) or {}
    calls = entry.get("tool_calls") or fields.pop("toolCalls", None) or sent.get("tool_calls")
    calls = parsed(calls) or []
    for key in sent:
        if key == "reasoning_content" or (key == "function_call" and not calls):
            fields[key] = sent[key]
    calls = [*calls, *(fields.pop("invalid_tool_calls", None) or [])]
    return [one for one in map(parsed, calls) if one]  # verifiers writes each as a text


def _holds_answers(content: Any) -> bool:
    """Are answers to calls among the blocks of a message?"""
    listed = content if isinstance(content, list) else []
    return any(kind == "answer" for block in listed for kind, _ in blocks(block))


def _tool_message(content: Any, entry: dict, fields: dict) -> dict:
    """The answer of one tool; what its error says, if it has no content or is of Inspect."""
    sent = entry.get("additional_kwargs") or {}
    for key in (*IDS, *NAMES, "additional_kwargs", "artifact"):
        fields.pop(key, None)
    error = fields.pop("error", None)
    if error and (not content or (isinstance(error, dict) and error.keys() == {"type", "message"})):
        content = first(error, ("message",)) or error if isinstance(error, dict) else str(error)
    elif not isinstance(error, bool):  # a mark
        fields["error"] = error
    return {**fields, **answer(content, first(sent | entry, IDS), first(entry, NAMES))}


def from_turn(turn: dict) -> dict:
    """A turn of ShareGPT as a message; `loss` is AgentGym's mark of what is learned."""
    speaker = turn.get("role", turn.get("from"))
    role = role_of(speaker)
    if role not in CHAT_ROLES:
        names = ", ".join((*CHAT_ROLES, *ROLES))
        raise ValueError(f'its "from" is none of {names}, but {json.dumps(speaker)[:40]}')
    message = without(turn, "from") | {"role": role}
    called = first(turn, ("value", "content"))
    is_text = is_nothing(called) or str(called).lstrip()[:1] == "<"  # its tags are read later
    if speaker not in OF_CALLS or is_text:
        return message
    try:
        called = parse_printed(called) if isinstance(called, str) else called
    except ValueError as error:
        raise ValueError(f"its function_call is no JSON: {error}") from error
    calls = as_list(called)
    if not calls or objects_in(calls) != calls:
        raise ValueError("its function_call is no object with name and arguments")
    return {**without(message, "value"), "content": None, "tool_calls": calls}
