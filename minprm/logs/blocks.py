"""A message of any program -> messages of chat.

Programs write a turn as a text, as a list of blocks (text, thought, call, answer), or as one record
for each of these. Their names for the same thing differ: a call is `tool_use`, `toolUse`,
`functionCall`, `tool-call`; its arguments are `input`, `args`, `arguments`. All of these names are
listed here; a block of another kind (an image) stays as it is, and normalise.py says what it is.
"""

import json
from typing import Any

from minprm.text.actions import parse_json

ROLES = {
    "human": "user", "HumanMessage": "user", "HumanMessageChunk": "user", "ai": "assistant",
    "AIMessage": "assistant", "AIMessageChunk": "assistant", "model": "assistant",
    "gpt": "assistant", "chatgpt": "assistant", "bot": "assistant", "agent": "assistant",
    "SystemMessage": "system", "ToolMessage": "tool", "FunctionMessage": "tool",
    "function_call": "assistant", "observation": "tool", "tool_response": "tool",
}  # fmt: skip
CHAT_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
SPEAKERS = (*CHAT_ROLES[:1], *CHAT_ROLES[2:], *ROLES)  # of a message that has its role as "type"
TEXT = ("text", "input_text", "output_text", "summary_text", "user-prompt", "system-prompt")
THOUGHT = ("thinking", "reasoning", "reasoningContent", "reasoning_text", "thought")
CALL = ("tool_use", "server_tool_use", "mcp_tool_use", "toolUse", "functionCall", "function_call",
        "tool_call", "tool-call", "custom_tool_call", "local_shell_call")  # fmt: skip
ANSWER = ("tool_result", "toolResult", "functionResponse", "function_response", "tool-return",
          "tool_call_response", "tool-result", "function_call_output", "custom_tool_call_output",
          "local_shell_call_output", "retry-prompt", "web_search_tool_result",
          "mcp_tool_result")  # fmt: skip
# Kinds that hold nothing which the model reads, or nothing that can be read here.
EMPTY = ("step-start", "redacted_thinking", "cachePoint", "source-url", "source-document",
         "item_reference", "thoughtSignature")  # fmt: skip
RECORDS = ("reasoning", *CALL, *ANSWER)  # kinds that are a record of their own, without a role
MEDIA = {"inlineData": "image", "inline_data": "image", "fileData": "file", "image-url": "image"}
IDS = ("tool_use_id", "tool_call_id", "call_id", "toolCallId", "toolUseId", "id")
NAMES = ("name", "tool_name", "toolName", "function_name", "function")
ARGUMENTS = ("input", "arguments", "args", "parameters", "action")
CONTENTS = ("content", "output", "response", "result", "value")
# Fields of a message that hold nothing of the conversation.
BOOKKEEPING = ("response_metadata", "usage_metadata", "provider_metadata", "providerMetadata",
               "createdAt", "lc", "status", "turn_idx", "source", "agent", "message_type",
               "stop_sequence", "stop_reason", "finish_reason", "annotations", "model", "usage",
               "object")  # fmt: skip
OF_A_SCREEN = ("metadata", "toolInvocations", "content", "experimental_attachments")


def is_message(entry: Any) -> bool:
    """Is this a message, or a record of one turn's part, in any of the forms read here?"""
    if not isinstance(entry, dict):
        return False
    if "role" in entry or "from" in entry or _constructor(entry) is not None:
        return True
    kind = entry.get("type")
    if entry.get("kind") in ("request", "response") and isinstance(entry.get("parts"), list):
        return True
    return isinstance(kind, str) and (kind in RECORDS or (kind in SPEAKERS and "content" in entry))


def is_plain(message: Any) -> bool:
    """Is it a message of chat already, with a text as its content?"""
    if not isinstance(message, dict) or message.get("role") not in CHAT_ROLES:
        return False
    if "parts" in message or "additional_kwargs" in message or "requestor" in message:
        return False
    content = message.get("content")
    if not isinstance(content, list):
        return "toolInvocations" not in message
    return message["role"] in ("tool", "function") and not _holds_answers(content)


class Conversation:
    """Messages of chat that grow block by block.

    joins_calls: a call after an answer is of the same turn until `end_turn`, as where a program
    writes the answer into the turn.
    """

    def __init__(self, glue: str = "\n", joins_calls: bool = False):
        self.messages: list[dict] = []
        self.glue = glue  # between texts of one message; an assistant's are pieces of one text
        self.joins_calls = joins_calls
        self.turn: dict | None = None
        self.answers: list[dict] = []

    def end_turn(self) -> None:
        """What comes next begins a message of its own."""
        self.messages += self.answers
        self.answers = []
        self.turn = None

    def add(self, role: str, kind: str, content: Any, fields: dict | None = None) -> None:
        """Adds one block; `fields` go to the message that it begins."""
        if kind == "answer":
            self.answers.append(content)
            return
        if self.answers and not (kind == "call" and self.joins_calls):
            self.end_turn()
        if self.turn is None or self.turn["role"] != role:
            self.end_turn()
            self.turn = {**(fields or {}), "role": role, "content": None}
            self.messages.append(self.turn)
        if kind == "call":
            self.turn.setdefault("tool_calls", []).append(content)
        elif kind == "thought":
            if content:
                before = self.turn.get("reasoning_content")
                self.turn["reasoning_content"] = f"{before}\n{content}" if before else content
        elif kind == "text":
            self._add_text(role, content)
        else:
            self._add_block(content)

    def _add_text(self, role: str, text: Any) -> None:
        assert self.turn is not None
        before = self.turn["content"]
        if isinstance(before, list):
            before.append({"type": "text", "text": text})
        elif before and isinstance(text, str):
            self.turn["content"] = before + ("" if role == "assistant" else self.glue) + text
        else:
            self.turn["content"] = text if text or not before else before

    def _add_block(self, block: dict) -> None:
        """A block that is no text: content becomes a list."""
        assert self.turn is not None
        before = self.turn["content"]
        if not isinstance(before, list):
            before = [{"type": "text", "text": before}] if before else []
        self.turn["content"] = [*before, block]


def first(fields: dict, keys: tuple[str, ...]) -> Any:
    """The first of these fields that holds something; null and empty ones are passed over."""
    for key in keys:
        if fields.get(key) not in (None, "", [], {}):
            return fields[key]
    return None


def call(name: Any, arguments: Any, call_id: Any = None) -> dict:
    """A call as chat has it."""
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    form = {"type": "function", "function": {"name": name, "arguments": arguments}}
    return {"id": str(call_id), **form} if call_id not in (None, "") else form


def answer(content: Any, call_id: Any = None, name: Any = None) -> dict:
    """A tool's answer as chat has it."""
    form = {"role": "tool", "content": _answer_text(content)}
    if call_id not in (None, ""):
        form["tool_call_id"] = str(call_id)
    return form | {"name": name} if isinstance(name, str) and name else form


def _answer_text(content: Any) -> Any:
    """The text of an answer's blocks; anything else stays, and is written as JSON later."""
    if isinstance(content, dict) and {"type", "value"} == content.keys():  # Vercel's
        content = content["value"]
    if isinstance(content, dict) and isinstance(content.get("text"), str) and len(content) <= 2:
        return content["text"]
    if isinstance(content, dict) and content.keys() <= {"content", "success", "content_items"}:
        content = content.get("content")  # Codex's
    if not isinstance(content, list) or not content:
        return content
    texts = []
    for block in content:
        if isinstance(block, dict) and set(block) == {"json"}:  # Bedrock's
            texts.append(json.dumps(block["json"], ensure_ascii=False))
        elif isinstance(block, dict) and isinstance(block.get("text"), str):
            texts.append(block["text"])
        else:
            return content
    return "\n".join(texts)


def blocks(block: Any) -> list[tuple[str, Any]]:
    """(kind, content) of what a block says: text, thought, call, answer, end or other."""
    if isinstance(block, str):
        return [("text", block)]
    if not isinstance(block, dict):
        return [("other", block)]
    kind = block.get("type") or block.get("part_kind")
    if not isinstance(kind, str):  # Gemini's and Bedrock's blocks are named by their key
        names = (*CALL, *ANSWER, "reasoningContent", "text", *MEDIA)
        kind = next((key for key in names if key in block), next(iter(block), ""))
        if kind in (*CALL, *ANSWER) and isinstance(block[kind], dict):
            block = block[kind]
    if kind in TEXT:
        text = first(block, ("text", "content")) or ""
        if isinstance(text, list):  # pydantic-ai's user may send several
            return [part for inner in text for part in blocks(inner)]
        return [("thought" if block.get("thought") is True else "text", text)]
    if kind == "refusal":
        return [("text", block.get("refusal"))]
    if kind in THOUGHT:
        return [("thought", _thought(block))]
    if kind in CALL:
        return [("call", _call(block, kind))]
    if kind == "retry-prompt" and not block.get("tool_name"):  # pydantic-ai asks again
        return [("text", _answer_text(block.get("content")))]
    if kind in ANSWER:
        return [("answer", answer(first(block, CONTENTS), first(block, IDS), first(block, NAMES)))]
    if kind == "tool-invocation" or kind == "dynamic-tool" or "toolCallId" in block:
        return _invocation(block, kind)
    if kind in EMPTY:
        return [("end", None)]
    return [("other", {"type": MEDIA.get(kind, kind), **{k: block[k] for k in block if k != "type"}})]


def _thought(block: dict) -> str:
    """The text of a thought, which may be a list of summaries, or stand two levels down."""
    inside = first(block, ("thinking", "reasoning", "reasoningContent", "reasoningText", "text",
                           "summary", "content"))  # fmt: skip
    if isinstance(inside, dict):
        return _thought(inside)
    if isinstance(inside, list):
        return "\n".join(_thought(part) if isinstance(part, dict) else str(part) for part in inside)
    return inside if isinstance(inside, str) else ""


def _call(block: dict, kind: str) -> dict:
    """The call of a block; one with a text for its arguments (a patch) has them named `input`."""
    name = first(block, NAMES)
    arguments = first(block, ARGUMENTS)
    if isinstance(name, dict):  # as chat nests it
        name, arguments = name.get("name"), first(name, ARGUMENTS)
    if kind == "custom_tool_call":
        arguments = {"input": arguments}
    if kind == "local_shell_call":
        name = name or "local_shell"
    call_id = block.get("call_id") or first(block, IDS)
    return call(name, arguments, call_id)


def _invocation(block: dict, kind: str) -> list[tuple[str, Any]]:
    """Vercel's call with its answer in one block, which is named `tool-NAME` or says the name."""
    block = block.get("toolInvocation") or block
    name = block.get("toolName") or kind.removeprefix("tool-")
    parts: list[tuple[str, Any]] = []
    parts.append(("call", call(name, first(block, ARGUMENTS), block.get("toolCallId"))))
    content = first(block, ("output", "result", "errorText"))
    if content is not None or block.get("state") in ("result", "output-available"):
        parts.append(("answer", answer(content, block.get("toolCallId"), name)))
    return parts


def messages_of(entries: list, glue: str = "\n", of_a_program: bool = False) -> list:
    """The messages of chat that these entries say: messages, or records of a turn's parts.

    of_a_program: also a message of chat has the fields by which a program keeps its books.
    """
    conversation = Conversation(glue)
    for i, entry in enumerate(entries):
        try:
            _add_entry(conversation, entry, of_a_program)
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"message {i}: it is damaged ({error!r})") from error
        except ValueError as error:
            raise ValueError(f"message {i}: {error}") from error
    conversation.end_turn()
    return conversation.messages


def _add_entry(conversation: Conversation, entry: Any, of_a_program: bool) -> None:
    """One message, or one record of a turn's part."""
    if (is_plain(entry) and not of_a_program) or not isinstance(entry, dict):
        conversation.end_turn()
        conversation.messages.append(entry)
        return
    constructor = _constructor(entry)
    if constructor is not None:
        entry = constructor
    if isinstance(entry.get("parts"), list) and entry.get("kind") in ("request", "response"):
        _add_request(conversation, entry)
        return
    if "role" not in entry and "from" not in entry and entry.get("type") in RECORDS:
        # a turn of OpenAI's Responses is several records, which go on until a tool answers
        role = "assistant"
        for kind, content in blocks(entry):
            conversation.add(role, kind, content)
        return
    if entry.get("type") != "message":  # a record of Responses is of the turn that has begun
        conversation.end_turn()
    if "from" in entry and "role" not in entry:
        conversation.messages.append(from_turn(entry))
        return
    _add_message(conversation, entry)


def _constructor(entry: dict) -> dict | None:
    """LangChain's message out of what LangChain writes around it; None where there is nothing."""
    if isinstance(entry.get("kwargs"), dict) and isinstance(entry.get("id"), list):
        return {"type": entry["id"][-1], **{k: v for k, v in entry["kwargs"].items() if k != "type"}}
    if isinstance(entry.get("data"), dict) and entry.get("type") in SPEAKERS:
        return {**entry["data"], "type": entry["type"]}
    return None


def _add_request(conversation: Conversation, entry: dict) -> None:
    """pydantic-ai's request or response."""
    conversation.end_turn()
    rules = entry.get("instructions")
    if rules and not any(m["content"] == rules for m in conversation.messages):
        conversation.add("system", "text", rules)
    for part in entry["parts"]:
        role = "assistant" if entry["kind"] == "response" else "user"
        if part.get("part_kind") == "system-prompt":
            role = "system"
        for kind, content in blocks(part):
            conversation.add(role, kind, content)
    conversation.end_turn()


def _add_message(conversation: Conversation, entry: dict) -> None:
    """A message with a role, its content in blocks or not."""
    role = entry["role"] if "role" in entry else entry.get("type")
    role = ROLES.get(role, role) if isinstance(role, str) else role
    fields = {}
    unread = ("role", "content", "parts", "type", "id", "tool_calls", *BOOKKEEPING)
    in_parts = isinstance(entry.get("parts"), list)
    for key in entry:
        if key not in unread and not (in_parts and key in OF_A_SCREEN):
            fields[key] = entry[key]
    calls = _calls_beside(entry, fields)
    content = entry["parts"] if in_parts else entry.get("content")
    if "toolInvocations" in fields:  # Vercel's older messages
        several = [{"type": "tool-invocation", **one} for one in fields.pop("toolInvocations")]
        content = [*several, content] if content else several
    if role in ("tool", "function") and not _holds_answers(content):
        conversation.add(role, "answer", _tool_message(role, content, entry, fields))
        return
    joins_calls, conversation.joins_calls = conversation.joins_calls, True
    for block in content if isinstance(content, list) else [content]:
        for kind, inside in [("text", None)] if block is None else blocks(block):
            if kind == "end":
                if conversation.answers:
                    conversation.end_turn()
            else:
                conversation.add(role, kind, inside, fields)
    turn = conversation.turn or {}
    ids = [one.get("id") for one in turn.get("tool_calls", [])]
    for one in calls:
        if one.get("id") not in ids or one.get("id") is None:  # LangChain writes a call twice
            conversation.add(role, "call", one, fields)
    conversation.joins_calls = joins_calls
    if entry.get("type") != "message":
        conversation.end_turn()


def _calls_beside(entry: dict, fields: dict) -> list[dict]:
    """The calls that stand beside an assistant's content; LangChain also keeps what was sent."""
    if entry.get("role") == "user":
        fields.update({key: entry[key] for key in ("tool_calls",) if key in entry})
        return []
    sent = fields.pop("additional_kwargs", None) or {}
    calls = entry.get("tool_calls") or sent.pop("tool_calls", None) or []
    for key in sent:
        if key == "reasoning_content" or (key == "function_call" and not calls):
            fields[key] = sent[key]
    fields.pop("tool_call_chunks", None)
    calls = [*calls, *(fields.pop("invalid_tool_calls", None) or [])]
    return [_call(one, "call") for one in calls]


def _holds_answers(content: Any) -> bool:
    """Are answers to calls among the blocks of a message?"""
    if not isinstance(content, list):
        return False
    return any(kind == "answer" for block in content for kind, _ in blocks(block))


def _tool_message(role: str, content: Any, entry: dict, fields: dict) -> dict:
    """The answer of one tool as a message; where it has no content, what its error says."""
    error = fields.pop("error", None)
    if content in (None, "", []) and isinstance(error, dict | str) and error:
        content = error.get("message") or error if isinstance(error, dict) else error
    call_id = first(fields, ("tool_call_id", "toolCallId", "call_id")) or entry.get("id")
    name = first(fields, ("name", "tool_name", "function"))
    for key in ("tool_call_id", "toolCallId", "call_id", "name", "tool_name", "function"):
        fields.pop(key, None)
    if isinstance(content, list) and any(isinstance(block, str) for block in content):
        content = "\n".join(str(block) for block in content)
    return {**fields, **answer(content, call_id, name), "role": role}


def from_turn(turn: Any) -> dict:
    """A turn of ShareGPT as a message; `loss` is AgentGym's mark of what is learned."""
    roles = {**{role: role for role in CHAT_ROLES}, **ROLES}
    speaker = turn.get("from") if isinstance(turn, dict) else None
    if not isinstance(speaker, str) or speaker not in roles:
        raise ValueError(
            f'its "from" is none of {", ".join(roles)}, but {json.dumps(speaker)[:40]}'
        )
    message = {key: turn[key] for key in turn if key not in ("from", "value", "loss")}
    message |= {"role": roles[speaker], "content": turn.get("value")}
    if turn.get("loss") is False and message["role"] == "assistant":
        message["weight"] = 0
    if speaker != "function_call":
        return message
    try:
        called = parse_json(turn["value"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"its function_call is no JSON: {error}") from error
    calls = called if isinstance(called, list) else [called]
    if not calls or not all(isinstance(one, dict) for one in calls):
        raise ValueError("its function_call is no object with name and arguments")
    return {**message, "content": None, "tool_calls": [{"function": one} for one in calls]}
