"""One log in the chat format -> the same log in one form: what each message of a `Demo` may be.

    system, user   {"role", "content"}                             content is a text
    assistant      {"role", "content", "reasoning_content"?, "tool_calls"?, "weight"?}
    tool           {"role", "content", "tool_call_id"?}

Any message may have a "name". `content` of an assistant is None where it only calls. A tool call is
{"id"?, "type": "function", "function": {"name", "arguments"}}, its arguments JSON as text.

Programs write the same things in other ways. Each other way is brought into this form, and counted
in `notes` by a name that people can read. What would be lost is refused in a sentence. A flaw costs
its step: an answer that cannot be read is shown as text or left out, and not learned.
"""

import hashlib
import json
import re
from collections import Counter
from typing import Any

from minprm.logs.books import (
    ARGUMENTS,
    CALL_IDS,
    CUT_OFF,
    ENDS_IN_CALLS,
    OUTCOMES,
    TASK_KEYS,
    TOOL_NAMES,
    Note,
    Reading,
    Unread,
    as_list,
    field_at,
    fields_of,
    first,
    is_container,
    is_nothing,
    note_unread,
    objects_in,
    parse_printed,
    parsed,
    refuse_unread,
    snake,
    unread_in,
    without,
)
from minprm.logs.pairing import REASONING, paired
from minprm.logs.schemas import leave_out_nulls, tools_of
from minprm.logs.thoughts import BEGINS, THOUGHTS, by_pattern, thought_beside, without_tags
from minprm.text.actions import parse_json

ROLES = ("system", "user", "assistant", "tool")
OTHER_ROLES = {"developer": "system", "function": "tool"}
# Other names of what a tool answered.
SEEN = ("error", "errors", "exception", "result", "output", "response", "stdout", "stderr",
        "message")  # fmt: skip
SEEN_LAST = ("details", "detail", "reason", "is_error", "error_type", "status")
AROUND = ("metadata", "meta", "extra", "response_metadata")  # where such a field may stand
# Is an answer learned: weight as OpenAI has it, other names as other trainers do.
MARKS = ("weight", "train", "trainable", "training", "loss", "loss_weight", "loss_mask",
         "train_mask", "training_mask")  # fmt: skip
TEXTS = ("text", "input_text", "output_text")  # parts of content that hold "text"
SAID = (*TEXTS, "refusal")
MEDIA = ("image_url", "image", "input_image", "images", "input_audio", "audio", "file",
         "input_file", "files", "video", "videos", "document", "media")  # fmt: skip
# What a provider ran itself, of which a log may not hold what came of it.
RAN = re.compile("^(web_search|file_search|code_interpreter|image_generation|computer)_call"
                 "|^executable_?code$|^code_?execution_?result$", re.IGNORECASE)  # fmt: skip
# What a tool's list of files may call its rows; and where a part holds what it shows.
FILES = ("file", "files", "document")
HELD = (*MEDIA, "source", "data", "file_id", "fileId", "file_data", "url", "uri", "mediaType",
        "media_type", "mimeType", "mime_type", "base64", "blob")  # fmt: skip
# What ends a turn in a template, at the end of a text that was written down with it.
ENDS = re.compile(
    r"\s*(?:<\|(?:im_end|eot|eot_id|eom_id|endoftext|end|return|end_of_text|END_OF_TURN_TOKEN)\|>"
    r"|<end_of_turn>|<turn\|>|<\uff5cend\u2581of\u2581sentence\uff5c>|</s>)\s*$"
)
# An answer that goes on behind its own end: with what a tool said, or with another's turn.
OBSERVED = re.compile(r"^Action:.*\n\s*Action Input:(?s:.*)^Observation:", re.MULTILINE)
OTHERS_TURN = re.compile(
    r"<\|im_end\|>\s*<\|im_start\|>|<\|eot_id\|>\s*<\|start_header_id\|>"
    r"|<end_of_turn>\s*<start_of_turn>"
)
OPENS_A_TURN = re.compile(r"<\|im_start\|>|<\|start_header_id\|>|<start_of_turn>")
QUOTED = re.compile(r"```.*?```|`[^`]{,80}`", re.DOTALL)
# Calls in a text, in JSON that is read nowhere.
SPELLS_CALLS = re.compile(r'\s*[\[{].*"(?:function|toolName|tool_calls|arguments)"', re.DOTALL)
RUN_BY_AUTOGEN = re.compile(r"exitcode: \d+ \(execution ")
CALL, END_OF_CALL = "<tool_call>", "</tool_call>"
# What is read of a message.
READ = {
    "system": ("role", "content", "name", *MARKS, *MEDIA),
    "user": ("role", "content", "name", *MARKS, *MEDIA),
    "assistant": ("role", "content", "name", *THOUGHTS, "refusal", CUT_OFF, ENDS_IN_CALLS,
                  "tool_calls", "function_call", "parsed", *MARKS, *MEDIA),
    "tool": ("role", "content", *TOOL_NAMES, *CALL_IDS, *MARKS, *MEDIA),
}  # fmt: skip
READ_OF_A_LINE = ("task", *TASK_KEYS, "messages", "tools", "functions", *OUTCOMES, *MARKS)
READ_OF_A_CALL = ("id", *CALL_IDS, "type", "function", *TOOL_NAMES, "index")
# What Gemini CLI and Qwen Code put behind the context that they give.
CANNED = ("Got it. Thanks for the context!", "Got it. Thanks for the additional context!")
FLAW = "not learned: "  # begins the notes of what costs a step


class LeftOut(ValueError):
    """The log says itself, or its users say, that it is not to be learned."""


def flaw_note(text: str, *counts: str) -> Note:
    """The note of a flaw: its step is not learned, and its calls are read as text."""
    return Note(FLAW + text, "calls", "arguments", *counts)


UNSEEN_NOTE = flaw_note("images, audio, files and what a provider ran, each read as a word")
# What is shown as it stands: (its note, what is wrong with it).
OTHERS = (flaw_note("answers that hold an observation, or a turn of somebody else"),
          "it holds what it observed behind its action, or a turn of somebody else")  # fmt: skip
OPEN = (flaw_note("thoughts that are cut off, shown as text"),
        "its thought was cut off: the tag that begins it is never closed")  # fmt: skip
CUT = (flaw_note("answers that are cut off"),
       "its answer was cut off, at a limit or by a filter, or by an error")  # fmt: skip


def normalised(line: dict, reading: Reading, notes: Counter) -> dict:
    """{"task", "messages", "tools", "outcome"} of a log, and under "flaws" a sentence for each
    answer that could not be read; "tools" is None where it does not say.

    Raises ValueError with what is wrong.
    """
    if not isinstance(line, dict) or not isinstance(line.get("messages"), list):
        raise ValueError('a log is an object with a list "messages"')
    messages: list[dict] = []
    flaws: list[str] = []
    ids: set[str] = set()  # of the calls so far
    unseen = False  # is there something that the next answer saw, and that is not read
    for i, message in enumerate(_with_one_id(_marked(line))):
        before = notes[UNSEEN_NOTE]
        role = field_at(message, "role")
        place = f"message {i} ({role}): " if role in ROLES else f"message {i}: "
        try:
            new: list[str] = []
            form = _message(_with_call_id(message, ids), reading, notes, new)
        except ValueError as error:
            raise ValueError(f"{place}{error}") from error
        if notes[UNSEEN_NOTE] > before:
            new.append("it holds an image, audio or a file, or what its provider ran")
            unseen = True
        flaws += [place + flaw for flaw in new]
        if form and form["role"] == "assistant" and unseen:
            form["weight"] = 0
            unseen = False
        if form:
            messages.append(form)
            ids.update(call["id"] for call in form.get("tool_calls", ()) if "id" in call)
    note_unread(line, READ_OF_A_LINE, "a log", notes)
    refuse_unread(notes)
    beside = [fields_of(line.get(key)) for key in ("metadata", "meta", "extra")]
    says_no = any(fields.get(key) is False for fields in beside for key in MARKS)
    if says_no or _mark(line, Counter()) == 0:
        raise LeftOut("logs that are marked as not to be learned, left out")
    tools = tools_of(line, notes)
    leave_out_nulls(messages, tools or [], notes)
    task = _task(line, messages, reading)
    outcome = {key: line[key] for key in OUTCOMES if not is_nothing(line.get(key))}
    _refuse_other_side(messages)
    messages = paired(messages, notes)
    flaws += _of_missing_calls(messages, notes)
    log = {"task": task, "messages": messages, "tools": tools, "outcome": outcome}
    return log | {"flaws": flaws}


def _marked(line: dict) -> list:
    """The messages; a mark that is a list at the log holds one entry for each of them."""
    messages = line["messages"]
    for key in MARKS:
        marks = line.get(key)
        if isinstance(marks, list):
            if len(marks) == len(messages) - 1 and messages[0].get("role") == "system":
                marks = [0, *marks]  # rules that stand beside the messages have no mark
            if len(marks) != len(messages):
                raise ValueError(f'"{key}" does not hold one mark for each message')
            pairs = zip(messages, marks, strict=True)
            messages = [{**one, key: mark} if isinstance(one, dict) else one for one, mark in pairs]
    return messages


def _with_one_id(messages: list) -> list:
    """The messages, where each call has one id: of two, as those of an item and of the call in it,
    the one that an answer names."""
    named = {str(first(one, CALL_IDS)) for one in objects_in(messages)}
    with_one = []
    for message in messages:
        listed = parsed(field_at(message, "tool_calls"))  # a table may hold them as a text
        if isinstance(listed, list):
            calls = []
            for call in map(parsed, listed):
                other = first(fields_of(call), CALL_IDS)
                is_named = other is not None and str(other) in named
                calls.append({**call, "id": other} if is_named else call)
            message = {**message, "tool_calls": calls}
        with_one.append(message)
    return with_one


# --- messages -------------------------------------------------------------------------------------


def _message(message: Any, reading: Reading, notes: Counter, flaws: list[str]) -> dict | None:
    """One message in the one form; None where there is nothing in it."""
    if not isinstance(message, dict):
        raise ValueError("it is no object")
    role = _role(message, notes)
    if role == "tool":
        message = _with_content(message)
    note_unread(message, READ[role], f"a message of the {role}", notes)
    form = {"role": role}
    for key, names, kinds in (("name", TOOL_NAMES, str), ("tool_call_id", CALL_IDS, str | int)):
        field = first(message, names)
        if key in READ[role] and field is not None:
            if not isinstance(field, kinds):
                raise ValueError(f"its {key} is no text")
            form[key] = str(field)
    if role == "assistant":
        return _of_assistant(form, message, reading, notes, flaws)
    content = message.get("content")
    text = _answer(content, notes) if role == "tool" else _text(content, notes)
    text = _with_media(text, message, notes)
    if text is None:
        raise ValueError("it has no text content")
    return form | {"content": text}


def _role(message: dict, notes: Counter) -> str:
    role = message.get("role")
    if isinstance(role, str) and role in OTHER_ROLES:
        notes[f"role {role}, read as {OTHER_ROLES[role]}"] += 1
        return OTHER_ROLES[role]
    if role not in ROLES:
        raise ValueError(f"its role is none of {', '.join(ROLES)}, but {json.dumps(role)[:40]}")
    return role


def _text(content: Any, notes: Counter, glue: str = "") -> str | None:
    """The text of `content`, which may be a list of parts; None where there is none."""
    if content is None or isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise ValueError("it has no text content")
    texts = [_text_of_part(part, notes) for part in content]
    if not texts:
        return None
    notes["content in parts, joined as they stand"] += 1
    return glue.join(texts)


def _text_of_part(part: Any, notes: Counter) -> str:
    """The text of a part of content, or a word for a medium."""
    kind = field_at(part, "type")
    text = part
    if isinstance(part, dict):
        key = "refusal" if kind == "refusal" else "text"
        text = part.get(key, part.get("content")) if kind in SAID else None
        text = text_of_document(part) if kind == "document" else text
    if isinstance(text, str):
        return text
    if isinstance(kind, str) and (kind in MEDIA or RAN.search(kind)):
        notes[UNSEEN_NOTE] += 1
        return f"[{kind}]"
    if kind is None or kind in SAID:
        raise ValueError("it has no text content: a part of its list holds none")
    raise ValueError(
        f"it holds {json.dumps(kind)[:40]}, which is not understood beside this content"
    )


def text_of_document(part: dict) -> str | None:
    """The text of a document of Cohere or Anthropic; None where it is none, or no text."""
    if part.get("type") != "document":
        return None
    inside = field_at(part, "document.data")
    if inside is None and field_at(part, "source.type") == "text":
        inside = field_at(part, "source.data")
    if isinstance(inside, dict):
        return json.dumps(inside, ensure_ascii=False)
    return inside if isinstance(inside, str) else None


def _with_media(text: str | None, message: dict, notes: Counter) -> str | None:
    """The text, and a word for each image or file that stands beside it."""
    for key in MEDIA if message.keys() & MEDIA else ():
        if not is_nothing(message.get(key)):
            notes[UNSEEN_NOTE] += 1
            text = f"{text}\n[{key}]" if text else f"[{key}]"
    return text


def _with_call_id(message: Any, ids: set[str]) -> Any:
    """A tool's message whose own id is that of a call answers this call."""
    is_answer = field_at(message, "role") in ("tool", "function")
    if not is_answer or str(message.get("id")) not in ids or first(message, CALL_IDS) is not None:
        return message
    return without(message, "id") | {"tool_call_id": message["id"]}


def _with_content(message: dict) -> dict:
    """A tool's message whose content is what it says in another field, where it has none."""
    if not is_nothing(message.get("content")):
        return message
    around = [(fields_of(message.get(key)), SEEN, key) for key in AROUND]
    for fields, names, place in [(message, SEEN, ""), *around, (message, SEEN_LAST, "")]:
        name = _that_says(fields, names)
        if name is not None:
            said = field_at(fields[name], "message")
            said = said if isinstance(said, str) else fields[name]
            return without(message, place or name) | {"content": said}
    return message


def _that_says(fields: dict, names: tuple[str, ...]) -> str | None:
    """The first of these fields that says something; a yes or no to an error says nothing."""
    for name in names:
        answers_yes_or_no = isinstance(fields.get(name), bool) and name not in ("result", "output")
        if not is_nothing(fields.get(name)) and not answers_yes_or_no:
            return name
    return None


def _answer(content: Any, notes: Counter) -> str:
    """The text of a tool's answer: often it is JSON that was never written as text."""
    if isinstance(content, str):
        return content
    if content is None or content == []:
        notes["tool answers without content, read as empty"] += 1
        return ""
    if any(map(_is_part, objects_in(content))):
        return _text(content, notes, "\n") or ""
    notes["tool answers in JSON, written as text"] += 1
    return json.dumps(content, ensure_ascii=False)


def _is_part(part: dict) -> bool:
    """Is it a text or a medium, and not a file in a list that a tool returned?"""
    kind = part.get("type")
    of_a_list = kind in FILES and len(part) > 1 and part.keys().isdisjoint(HELD)
    return kind in (*TEXTS, *MEDIA) and not of_a_list


def _of_assistant(
    form: dict, message: dict, reading: Reading, notes: Counter, flaws: list[str]
) -> dict | None:
    """Text, thought, calls and weight of an assistant's message; None where it has nothing."""
    for key in filter(is_container, message):
        inside = fields_of(message[key])
        marks = {mark: inside[mark] for mark in MARKS if mark in inside and mark != "loss"}
        message = {**marks, **message}  # a loss beside metrics is a number that was measured
    text, thought = _text_and_thought(message, reading, notes)
    found = ((_holds_others(text), OTHERS), (BEGINS.match(text), OPEN), (message.get(CUT_OFF), CUT))
    for is_found, (note, flaw) in found:
        if is_found:
            flaws.append(flaw)
            notes[note] += 1
            form["weight"] = 0
    if text.strip() in CANNED:
        form["weight"] = 0
        notes["answers that a program put in the place of its model's, not learned"] += 1
    try:
        calls = _calls(message, notes)
        if not calls:
            text, calls = _spelled_calls(text, notes)
    except ValueError as error:
        flaws.append(str(error))
        notes[flaw_note("calls that cannot be read, shown as text")] += 1
        broken = message.get("tool_calls") or message.get("function_call")
        lines = [text, *map(_as_written, as_list(broken))]
        text = "\n".join(line for line in lines if line) or json.dumps(broken)
        text = _with_media(text, message, notes)
        return form | {"content": text, "weight": 0, "tool_calls": []}  # so the answers are its own
    if calls and text.strip() and reading.content == "thought" and not thought:
        notes[Note("text beside a call, taken for its thought", "thoughts")] += 1
        text, thought = "", text
    text = _with_media(text.strip() and text, message, notes)
    form["content"] = text or None
    if thought:
        form[REASONING] = thought
    if calls:
        form["tool_calls"] = calls
    if message.get(ENDS_IN_CALLS):
        form[ENDS_IN_CALLS] = True
    if not text and not calls:
        flaws.append("it has an empty action: neither text content nor tool_calls")
        if not thought:
            notes[flaw_note("empty answers, left out", "messages")] += 1
            return None
    if _mark(message, notes) == 0:
        unweighted = "answers of weight 0, read and not learned"
        notes[Note(unweighted, "calls", "arguments", "thoughts")] += 1
        form["weight"] = 0
    return form


def _holds_others(text: str) -> bool:
    """Does an answer go on with what others said, and not quote it?"""
    if OBSERVED.search(text):
        return True
    plain = QUOTED.sub("", text)
    turn = OTHERS_TURN.search(plain)
    return turn is not None and not OPENS_A_TURN.search(plain[: turn.start()])


def _refuse_other_side(messages: list[dict]) -> None:
    """Raises ValueError where the roles are seen from the other side, as in AutoGen's history of
    whoever began the conversation: it is the assistant that runs the code of the user."""
    opening = next((one for one in messages if one["role"] != "system"), None)
    if opening is None or opening["role"] != "assistant":
        return
    if any(RUN_BY_AUTOGEN.match(one["content"] or "") for one in messages[1:]):
        raise ValueError(
            "its roles are seen from the other side, as AutoGen keeps them: write user for"
            " assistant, and assistant for user"
        )


def _as_written(call: Any) -> str:
    """A call that cannot be read, as a line of text."""
    function = call.get("function", call) if isinstance(call, dict) else call
    if isinstance(field_at(function, "name"), str):
        arguments = next((function[key] for key in ARGUMENTS if key in function), "")
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments, ensure_ascii=False)
        return f"{function['name']} {arguments}"
    return "" if function is None else json.dumps(function, ensure_ascii=False)


def _mark(fields: dict, notes: Counter) -> float:
    """0 where a mark says that this is not learned, and else 1."""
    if fields.get("label") is False:  # of KTO; a label that is a number may be a class
        return 0.0
    learned = 1.0
    for key in MARKS if fields.keys() & MARKS else ():
        mark = fields.get(key)
        if is_nothing(mark) or isinstance(mark, list):
            continue
        if isinstance(mark, str):
            mark = {"false": 0, "no": 0, "true": 1, "yes": 1}.get(mark.lower(), mark)
            if isinstance(mark, str) and mark.replace(".", "", 1).isdigit():
                mark = float(mark)
        if not isinstance(mark, bool | int | float) or mark < 0:
            raise ValueError(f"its {key} is neither yes nor no, nor a weight of 0 or more")
        if mark not in (0, 1):
            notes["weights that are neither 0 nor 1, learned as 1"] += 1
        learned = min(learned, float(mark > 0))
    return learned


def _text_and_thought(message: dict, reading: Reading, notes: Counter) -> tuple[str, str]:
    """(text, thought) of an assistant's message; each is empty where there is none."""
    text = _text(message.get("content"), notes) or ""
    end = ENDS.search(text)
    if end and not (end[0].strip() == "</s>" and "<s>" in text):  # which strikes through in HTML
        notes["ends of a turn that a template writes, taken out of content"] += 1
        text = text[: end.start()]
    refusal = message.get("refusal")
    if not is_nothing(refusal):
        if not isinstance(refusal, str):
            raise ValueError("its refusal is no text")
        notes["refusals, read as text"] += 1
        text = f"{text}\n{refusal}" if text.strip() else refusal
    thought = thought_beside(message, notes)
    if reading.thought:
        text, inside = by_pattern(reading.thought, text)
        if inside:
            notes[Note("thoughts taken out of content by --thought", "thoughts")] += 1
            thought = f"{thought}\n{inside}" if thought else inside
    calls = not is_nothing(message.get("tool_calls")) or bool(message.get("function_call"))
    return without_tags(text, thought, calls, notes)


# --- tool calls -----------------------------------------------------------------------------------


def _calls(message: dict, notes: Counter) -> list[dict]:
    """The tool calls of an assistant's message."""
    calls = message.get("tool_calls") or []
    if not isinstance(calls, list):
        raise ValueError("its tool_calls are no list")
    calls = [call for call in calls if not _is_padding(call)]
    old = message.get("function_call")
    if is_nothing(old) or _is_padding(old):
        return [_call(call, notes) for call in calls]
    if calls:
        raise ValueError("it has both tool_calls and function_call: keep one")
    notes["function_call, read as tool_calls"] += 1
    return [_call({"function": old}, notes)]


def _is_padding(call: Any) -> bool:
    """Is it no call, but the nulls that a table fills in where a row has none?"""
    fields = [*call.values()] if isinstance(call, dict) else []
    return bool(fields) and all(field is None or _is_padding(field) for field in fields)


def _of_missing_calls(messages: list[dict], notes: Counter) -> list[str]:
    """A flaw for each turn that says that it ends in calls, and has them in its text, in a form
    that is not read: it is not learned."""
    flaws = []
    for message in messages:
        says_calls = message.pop(ENDS_IN_CALLS, False) and "tool_calls" not in message
        if says_calls and SPELLS_CALLS.match(message["content"] or ""):
            message["weight"] = 0
            notes[flaw_note("answers that say they call, without a call")] += 1
            flaws.append("an answer says that it ends in calls, and holds none")
    return flaws


def _spelled_calls(text: str, notes: Counter) -> tuple[str, list[dict]]:
    """(text, calls) of an answer that ends in calls as the models of Hermes and Qwen spell them."""
    reply, *bodies = text.split(CALL)
    if not bodies or not all(body.rstrip().endswith(END_OF_CALL) for body in bodies):
        return text, []
    reply = reply.rstrip()
    between = f"calls between {CALL} and {END_OF_CALL}, taken out of content"
    notes[Note(between, "calls", "arguments")] += 1
    calls = []
    for body in bodies:
        try:
            calls.append(_call(parse_printed(body.rstrip().removesuffix(END_OF_CALL)), notes))
        except ValueError as error:
            raise ValueError(f"what stands behind a {CALL} is no call: {error}") from error
    return reply, calls


def _call(call: Any, notes: Counter) -> dict:
    """One tool call in the one form."""
    kind = call.get("type") or "function" if isinstance(call, dict) else "function"
    if kind not in ("function", "tool_call"):
        raise ValueError(f"it has a call of type {json.dumps(kind)[:40]}, and not of a function")
    function = parsed(call.get("function", call)) if isinstance(call, dict) else None
    if isinstance(function, str) and not call.keys().isdisjoint(ARGUMENTS):  # of Inspect: its name
        function = call = {**call, "name": function}
    if not isinstance(function, dict) or not function.keys() & TOOL_NAMES:
        raise ValueError("it has a tool call without name and arguments")
    name = first(function, TOOL_NAMES)
    if not isinstance(name, str) or not name.strip():
        raise ValueError("it has a tool call whose name is no text")
    filled = [key for key in ARGUMENTS if not is_nothing(function.get(key))]
    full = [key for key in filled if function[key] != "{}"]
    key = (full or filled or ["arguments"])[0]
    if key != "arguments":
        notes[f"{key} of a call, read as its arguments"] += 1
    read = {"name": name, "arguments": _arguments(function.get(key), notes)}
    form = {"type": "function", "function": read}
    call_id = first(call, ("id", *CALL_IDS))
    if call_id is not None:
        if not isinstance(call_id, str | int):
            raise ValueError("it has a tool call whose id is no text")
        form = {"id": str(call_id), **form}
    if function is call:
        notes["calls without a function around name and arguments"] += 1
    for fields in [call] if function is call else [call, function]:
        if is_nothing(function.get(key)):  # what is unread may be the arguments
            for other in unread_in(fields, READ_OF_A_CALL):
                notes[Unread(other, "a call without arguments")] += 1
        else:
            empty = [key for key in filled if key not in full]
            note_unread(fields, (*READ_OF_A_CALL, key, *empty), "a call", notes)
    return form


def _arguments(arguments: Any, notes: Counter) -> str:
    """The arguments of a call as JSON."""
    if arguments is None or (isinstance(arguments, str) and arguments.strip() in ("", "null")):
        notes["calls without arguments, read as {}"] += 1
        return "{}"
    if isinstance(arguments, dict):
        notes["arguments that are an object, written as JSON"] += 1
        return json.dumps(arguments, ensure_ascii=False, allow_nan=False)
    if not isinstance(arguments, str):
        raise ValueError("it has a tool call with arguments that are no object")
    try:
        objects = parse_json(f"[{arguments}]")  # an action holds them one level deeper too
    except ValueError as error:
        printed = parsed(arguments) if isinstance(error, json.JSONDecodeError) else None
        if isinstance(printed, dict):  # as Python prints them
            return _arguments(printed, notes)
        raise ValueError(f"it has a tool call with bad arguments: {error}") from error
    if len(objects) == 1 and isinstance(objects[0], str):
        notes["arguments that were written as JSON twice"] += 1
        return _arguments(objects[0], notes)
    if len(objects) != 1 or not isinstance(objects[0], dict):
        raise ValueError("it has a tool call with arguments that are no object")
    return arguments


def _task(line: dict, messages: list[dict], reading: Reading) -> str:
    """What a split goes by: the task that the log names, or else a hash of the first system and
    the first user message."""
    if reading.task_key:
        task = field_at(line, reading.task_key)
        if task is None:
            raise ValueError(f"--task-key {reading.task_key}: the log has no such field")
        return task if isinstance(task, str) else json.dumps(task, sort_keys=True)
    task = line.get("task")
    inside = [fields_of(line[key]) for key in line if is_container(key)]
    for fields in (line, *inside):
        if task in (None, ""):
            task = first({snake(key): field for key, field in fields.items()}, TASK_KEYS)
    if isinstance(task, float) and task.is_integer():  # as pandas writes a column with gaps
        task = int(task)
    if isinstance(task, str | int):
        return str(task)
    if isinstance(task, dict):
        return json.dumps(task, sort_keys=True)
    if task is not None:
        raise ValueError('"task" is neither a text nor a whole number')
    head = [m["content"] for m in messages if m["role"] == "system"][:1]
    head += [m["content"] for m in messages if m["role"] == "user"][:1]
    return hashlib.sha256(json.dumps(head).encode()).hexdigest()[:16]
