"""A request and its response, or any object that holds messages -> the log in the chat format.

Where the messages stand, the rules and the tools beside them, and the answer, where a program keeps
a request and its response. What one message says is in blocks.py. What is not read stays under its
own key, and normalise.py names it.
"""

import re
from collections import Counter
from contextlib import suppress
from typing import Any

from minprm.logs.blocks import (
    ended_early,
    ending_of,
    is_message,
    is_opencodes,
    is_plain,
    messages_of,
)
from minprm.logs.books import (
    CUT_OFF,
    as_list,
    field_at,
    fields_of,
    first,
    is_book,
    is_nothing,
    objects_in,
    parsed,
    without,
)
from minprm.logs.schemas import tool_name

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
# How a chat template begins a prompt.
TEMPLATED = re.compile(
    r"\s*(?:<s>|<bos>|<BOS_TOKEN>|\[gMASK\]|\[INST\]|<start_of_turn>|<\|turn>"
    r"|<[|\uff5c][^<>|\uff5c\s]{1,40}[|\uff5c]>)"
)
ENDS_OF_TURNS = re.compile(
    r"\[/INST\]|<\|(?:im_end|eot_id|eot|end|end_of_role)\|>|<end_of_turn>|<turn\|>"
    r"|<[|\uff5c]\w*assistant[|\uff5c]>|<\|end_of_turn_token\|>",
    re.IGNORECASE,
)
# What may hold a text by itself; and what tells messages and answers of a provider from other JSON.
SAID = {"prompt", "input", "inputs", "completion", "output", "outputs", "response"}
SIGNS_OF_ANSWERS = {"delta", "finish_reason", "finishReason", "tool_calls", "lc"}
BLOCKS = {"text", "input_text", "output_text", "thinking", "reasoning", "tool_use", "tool_call",
          "tool_result"}  # fmt: skip
SEVERAL = ("choices", "candidates", "generations")
OF_A_CHOICE = {"message", "delta", "index", "finish_reason", "content"}
RULES = ("system", "system_prompt", "systemPrompt", "systemInstruction", "system_instruction",
         "system_message", "instructions")  # fmt: skip
TOOLS = ("tools", "toolConfig", "tool_config", "tool_defs", "oai_tools", "available_tools")
# How to call, beside the tools of Bedrock and Gemini.
SETTINGS = ("tools", "toolChoice", "functionCallingConfig", "function_calling_config",
            "retrievalConfig", "retrieval_config", "mode")  # fmt: skip
PARAMETERS = ("generationConfig", "generation_config", "model_parameters", "optional_params",
              "modelParameters", "invocation_params", "info", "config", "kwargs")  # fmt: skip
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
               "error_information", "guardrail_information", "costDetails",
               "providedCostDetails", "providedUsageDetails", "statusMessage",
               "unit", "headers", "serialized", "child_runs", "dotted_order", "feedback_stats",
               "model_parameters", "optional_params", "modelParameters",
               "invocation_params", "llmSchema")  # fmt: skip
# Of a request that is a text: what it may hold beside its prompt and settings.
ASKED = {"prompt", "contents", "messages", "tools", *RULES, "config", "generationConfig"}


def in_chat_form(log: dict, notes: Counter, of_a_program: bool = False) -> tuple[str, dict]:
    """(name of the family, the log as a line of chat). of_a_program: see `messages_of`."""
    others = dict(log)
    tools = tools_beside(others)
    answered = [unwrapped(others.get(key)) for key in RESPONSES]
    responses = [response for response in answered if isinstance(response, dict)]
    if any(map(_offers_several, [*answered, *(first(one, SEVERAL) for one in responses)])):
        notes["requests with several answers, of which the first is read"] += 1
    for response in responses:  # OpenAI's Responses say the rules and the tools again
        _take_rules(response, others)
    entries = _entries(others, tools)
    for response in responses:
        _add_tools(tools_beside(dict(response)), tools)
    visible = [entry for entry in entries if field_at(entry, "metadata.agentVisible") is not False]
    if len(visible) < len(entries):  # of Goose
        notes["messages that the model does not see, left out"] += len(entries) - len(visible)
    _add_tools([entry["content"] for entry in visible if _is_schema(entry)], tools)
    entries = [entry for entry in visible if not _is_schema(entry)]
    for i, entry in enumerate(entries):
        if field_at(entry, "role") in ("system", "developer") and entry.get("tools"):
            entries[i] = dict(entry)
            _add_tools(tools_beside(entries[i]), tools)
    others = without(others, *OF_REQUESTS)
    effort = others.get("reasoning")  # of OpenAI's Responses: how much of it was asked for
    if isinstance(effort, dict) and effort.keys() <= {"effort", "summary", "generate_summary"}:
        del others["reasoning"]
    family = _family_of(entries)
    in_parts = sum(isinstance(entry.get("content"), list) for entry in objects_in(entries))
    if family == "chat" and in_parts:
        notes["content in parts, joined as they stand"] += in_parts
    glue = "" if family in ("chat", "Gemini") else "\n"
    chat: dict = {**others, "messages": messages_of(entries, glue, of_a_program)}
    if tools:
        chat["tools"] = tools
    # of what is no text, the status is of more than the answer
    in_text = any(isinstance(response, str) for response in answered)
    is_stopped = in_text and others.get("status") in ("truncated", "aborted")
    is_cut = ended_early(others) or is_stopped
    last = fields_of(chat["messages"][-1]) if chat["messages"] else {}
    if is_cut and last.get("role") == "assistant":
        chat["messages"][-1] = {**last, CUT_OFF: True}
    return family, _without_tags(chat, notes)


def _offers_several(answers: Any) -> bool:
    """Are there answers to choose from, and not the pieces of one?"""
    if not isinstance(answers, list):
        return False
    if answers and isinstance(answers[0], list):
        answers = [one for prompt in answers for one in prompt]  # as LangSmith lists them
    is_one = any(is_message(one) or _is_block(one) or "delta" in fields_of(one) for one in answers)
    return len(answers) > 1 and not is_one


def _is_schema(entry: Any) -> bool:
    """Is it a tool, which Langfuse writes as a message where LangChain was traced?"""
    tool = fields_of(field_at(entry, "content"))
    return tool.keys() == {"type", "function"} and tool["type"] == "function"


def _family_of(entries: list) -> str:
    """The name of the format of these messages."""
    for entry in entries:
        if is_plain(entry) and "finish_reason" not in entry:
            continue
        if is_opencodes(entry):
            return "opencode"
        inside = first(fields_of(entry), ("parts", "content"))
        for fields in [*objects_in([entry]), *objects_in(inside)]:
            filled = [key for key in reversed(fields) if not is_nothing(fields[key])]
            for key in [fields.get("type"), *filled]:
                if isinstance(key, str) and key in SIGNS:
                    return SIGNS[key]
        if inside and "parts" in entry:
            opening = fields_of(as_list(inside)[0])
            if "type" in opening:
                return "OpenTelemetry" if "content" in opening else "Vercel"
            return "Gemini"
    return "chat"


def _entries(others: dict, tools: list) -> list:
    """The messages of a log as they are written, with its rules before and its answer behind them;
    what is read is taken out of `others`, and tools of a request go to `tools`."""
    for key in {*MESSAGES, *REQUESTS, *RESPONSES} & others.keys() - SAID:
        others[key] = parsed(others[key])
    entries = _asked(others, tools)
    for key in reversed(RULES):  # each goes before the others
        rules = _text_of(others.get(key))
        if rules:
            del others[key]
            opening = fields_of(entries[0]) if entries else {}
            if rules != _text_of(first(opening, ("content", "value", "parts"))):
                entries = [{"role": "system", "content": rules}, *entries]
    _take_out_repeats(entries, others, tools)
    for key in RESPONSES:
        entries = _with_answer(entries, key, others)
    return entries


def _asked(others: dict, tools: list) -> list:
    """The messages of a log, or of its request, taken out of `others`."""
    for key in (*MESSAGES, *REQUESTS):
        is_id = key == "conversation" and isinstance(others.get(key), str)
        if is_id and not others.keys().isdisjoint(REQUESTS):
            continue
        entries = request_messages(others.get(key), others, tools)
        if entries is not None:
            del others[key]
            return entries
    if isinstance(others.get("response"), dict):
        raise ValueError(
            "an answer without its request; if it is of a batch, what was asked is in the requests:"
            ' put each request\'s "body" beside the "response" of the same custom_id'
        )
    raise ValueError(
        "there is no list of messages in it: --map KEY=messages says which key holds them"
    )


def _with_answer(entries: list, key: str, others: dict) -> list:
    """The messages with the response under this key, which may say them again."""
    if not others.get(key):
        others.pop(key, None)
        return entries
    offered = as_list(others[key])
    if key in SEVERAL and not any(OF_A_CHOICE & fields_of(one).keys() for one in offered):
        return entries  # what a question lets choose from
    answered = response_messages(others[key])
    if answered is None and key != "output":
        raise ValueError(f'its "{key}" holds no answer: leave the log out')
    last = fields_of(entries[-1]) if entries else {}
    goes_on = last.get("role") == "assistant"
    if answered is None or (goes_on and isinstance(unwrapped(others[key]), str)):
        return entries  # it may be no part of the conversation: it stays, and is named
    del others[key]
    requests = [_core(message) for message in messages_of(entries)]
    answers = [_core(message) for message in messages_of(answered)]
    rest = iter(answers)
    if all(message in rest for message in requests):  # the request is in the response too
        return answered
    if answers == requests[-len(answers) :]:
        return entries
    opening = fields_of(answered[0]) if goes_on else {}
    if opening.get("type") == "message" and "stop_reason" in opening:
        # Anthropic's answer goes on with the message that ends the request, without a break
        content = [*as_list(last.get("content")), *as_list(opening.get("content"))]
        return [*entries[:-1], {**last, **opening, "content": content}, *answered[1:]]
    return [*entries, *answered]


def _take_out_repeats(entries: list, others: dict, tools: list) -> None:
    """Takes out of `others` each request that asks again what the messages say."""
    for key in [key for key in REQUESTS if key in others]:
        declared: list = []
        with suppress(AttributeError, LookupError, TypeError, ValueError):  # it is no request
            asked = request_messages(others[key], others, declared) or []
            again = [_core(message) for message in messages_of(asked)]
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


def request_messages(request: Any, others: dict, tools: list) -> list | None:
    """The messages of a request, which may be a text, a list, or an object around them. What else
    an object holds goes to `others`."""
    tree = parsed(request)
    request = tree if _is_request(tree) else unwrapped(request)
    match tree:
        case {"args": [str(text)]} if text and tree.keys() <= {"args", "kwargs"}:
            request = request if tree.get("kwargs") else text  # Python was called with it alone
    if isinstance(request, str) and TEMPLATED.match(request) and ENDS_OF_TURNS.search(request):
        raise ValueError(
            "its prompt was written by a chat template: keep its messages, or write them again by"
            " --format FILE.py:NAME"
        )
    if isinstance(request, str) and request.strip():
        return [{"role": "user", "content": request}]
    if isinstance(request, list):
        request = [*map(parsed, request)]
        if len(request) > 1 and all(isinstance(one, list) for one in request):
            raise ValueError("it holds lists and no messages: write each list as a log of its own")
        return request[0] if request and isinstance(request[0], list) else request  # LangSmith's
    if not isinstance(request, dict):
        return None
    if not first(request, (*MESSAGES, *REQUESTS)):
        return [request] if is_message(request) else None
    inside = dict(request)
    _add_tools(tools_beside(inside), tools)
    entries = _entries(inside, tools)
    for key, field in inside.items():
        others.setdefault(key, field)
    return entries


def _is_request(tree: Any) -> bool:
    """Is it a request for a model, and not JSON that somebody said? It names a model, or is a
    prompt with its rules alone."""
    asked = first(tree, ("prompt", "contents", "messages")) if isinstance(tree, dict) else None
    if isinstance(asked, list) and not any(isinstance(one, dict) for one in asked):
        return False
    if not isinstance(asked, str | list):
        return False
    if tree.keys() <= {"prompt", "messages", "system"}:
        return True
    return "model" in tree and all(key in ASKED or is_book(key) for key in tree)


def response_messages(response: Any) -> list | None:
    """The messages of an answer: a text, a message, or what a provider returns around one."""
    response = unwrapped(response)
    if isinstance(response, str):
        if STREAM.match(response):
            raise ValueError("its answer is a stream in pieces: join them to one message")
        if PRINTED.match(response):
            raise ValueError("its answer is an object as Python prints it: --drop that field")
        return [{"role": "assistant", "content": response}]
    if isinstance(response, list):
        if response and all(map(_is_block, response)):
            blocks = [{"type": "tool-call", **one} for one in response]
            return [{"role": "assistant", "content": blocks}]
        if any(map(is_message, response)):
            return response
        pieces = [one for one in objects_in(response) if PIECES & one.keys()]
        if len(response) > 1 and pieces:
            raise ValueError("its answer is a stream in pieces: join them to one message")
        return response_messages(response[0]) if response else None
    if is_message(response):
        return [response]
    fields = fields_of(response)
    inside = first(fields, ANSWERS)
    if first(fields, ("tool_calls", "function_call")) and inside in (None, fields.get("content")):
        return [{**fields, "role": "assistant"}]
    ending = ending_of(response) if inside else {}
    if ending:
        *before, last = response_messages(inside) or [None]
        if field_at(last, "role") == "tool":  # what was called has answered already
            ending = {}
        return [*before, {**last, **ending}] if isinstance(last, dict) else None
    if isinstance(inside, str) and response.keys() - {"text", "content"}:  # it lacks its role
        beside = {key: response[key] for key in response if response[key] is not inside}
        return [{**beside, "role": "assistant", "content": inside}]
    return response_messages(inside) if inside else None


def unwrapped(field: Any) -> Any:
    """A text that is JSON of a program, parsed. Other JSON is what was said, and stays a text."""
    tree = parsed(field)
    return tree if not isinstance(field, str) or is_envelope(tree) else field


def is_envelope(tree: Any) -> bool:
    """Is it a message, a block of one, what a provider returns, or what holds one of these?"""
    if isinstance(tree, list):
        return any(map(is_envelope, tree))
    if not isinstance(tree, dict):
        return False
    speaks = is_message(tree) and {"content", "parts", "data", "arguments"} & tree.keys()
    is_answer = SIGNS_OF_ANSWERS & tree.keys() or isinstance(tree.get("error"), dict)
    if speaks or is_answer or _is_block(tree):
        return True
    return any(is_envelope(tree.get(key)) for key in (*MESSAGES, *REQUESTS, *ANSWERS))


def _is_block(tree: Any) -> bool:
    """Is it a block of an answer, or a call of Vercel's that says no type?"""
    fields = fields_of(tree)
    return str(fields.get("type")) in BLOCKS or {"toolCallId", "toolName"} <= fields.keys()


def _text_of(rules: Any) -> str:
    """The text of rules that stand beside the messages: a text, blocks, or parts."""
    rules = unwrapped(rules)
    if isinstance(rules, dict):
        rules = first(rules, ("parts", "content", "text"))
    if isinstance(rules, list):
        texts = [one if isinstance(one, str) else _text_of(one) for one in rules]
        rules = "\n".join(text for text in texts if text)  # a mark for a cache has none
    return rules if isinstance(rules, str) else ""


def tools_beside(others: dict) -> list:
    """The tools that a log or its request declares, taken out of it."""
    tools: list = []
    for key in TOOLS:
        listed = parsed(others.get(key))
        of_both = key in ("toolConfig", "tool_config") and isinstance(listed, dict)
        if of_both and not listed.keys().isdisjoint(SETTINGS):
            listed = others[key] = listed.get("tools")
        if not listed or not isinstance(listed, dict | list):
            continue
        if isinstance(listed, list):  # Vercel writes each as a text
            listed = [parsed(tool) for tool in listed]
        inside = listed.values() if isinstance(listed, dict) else listed
        if all(isinstance(tool, dict | list) for tool in inside):
            tools += _declared(listed)
            del others[key]
    for key in ("metadata", "extra"):
        left = dict(fields_of(parsed(others.get(key))))
        listed = tools_beside(left) if left else []
        if listed:
            _add_tools(listed, tools)
            others[key] = left
    for key in PARAMETERS:
        parameters = fields_of(parsed(others.get(key)))
        if "traceId" in others:  # of Langfuse, where that is the name of the provider
            parameters = without(parameters, "system")
        says = parameters and first(parameters, (*TOOLS, *RULES))
        if says and not first(parameters, (*MESSAGES, *REQUESTS)):
            _add_tools(tools_beside(dict(parameters)), tools)
            _take_rules(parameters, others)
            # what says how to sample is not looked into any further
            taken = [*parameters] if key in OF_REQUESTS else [*TOOLS, *RULES]
            others[key] = without(parameters, *taken)
    return tools


def _take_rules(inside: dict, others: dict) -> None:
    """Takes rules that stand in an object inside a log, where the log has none."""
    for name in RULES:
        others[name] = others.get(name) or inside.get(name)


def _add_tools(listed: list, tools: list) -> None:
    """Adds those whose name no other tool has; the same one may be written in two notations."""
    names = [tool_name(tool) or tool for tool in tools]  # a provider's own may have none
    tools += [tool for tool in listed if (tool_name(tool) or tool) not in names]


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
            schema = fields_of(parsed(tool.get("json_schema")))  # of OpenInference: all of the tool
            tools.append(tool.get("toolSpec") or (schema if tool_name(schema) else tool))
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


def _without_tags(chat: dict, notes: Counter) -> dict:
    """A log of Hermes without the tags that its template writes: its rules list the tools between
    <tools> and </tools>, its answers stand between <tool_response> and </tool_response>."""
    messages: list = []
    for message in chat["messages"]:
        messages += _answers_in_tags(message)
    text = field_at(messages[0], "content") if messages else None
    pairs = [*TOOLS_LISTED.finditer(text)] if isinstance(text, str) else []
    for pair in reversed(pairs):  # the rules may name the tags before
        tools = parsed(pair[1].strip())
        if isinstance(tools, str):  # one a line
            tools = [parsed(line) for line in pair[1].split("\n") if line.strip()]
        tools = as_list(tools)
        if tools and objects_in(tools) == tools:
            notes["tools that the rules list in <tools>, taken out of the rules"] += 1
            rules = pair.string[: pair.start()] + pair.string[pair.end() :]
            messages[0] = {**messages[0], "content": rules}
            return {"tools": _declared(tools), **chat, "messages": messages}
    return {**chat, "messages": messages}


def _answers_in_tags(message: Any) -> list:
    """The answers between tags in a message, which may be the user's; or else the message."""
    content = field_at(message, "content")
    if not isinstance(content, str) or not content.lstrip().startswith("<tool_response>"):
        return [message]
    messages = []
    texts = []
    for answer in content.split("<tool_response>")[1:]:
        inside, tag, behind = answer.rpartition("</tool_response>")
        inside = inside if tag else answer  # it was cut
        messages.append({**message, "role": "tool", "content": inside.strip("\n ")})
        texts.append(behind.strip() if tag else "")
    text = "\n".join(filter(None, texts))
    return [*messages, {**message, "role": "user", "content": text}] if text else messages
