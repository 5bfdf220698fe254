"""Who answers whom: the messages of a turn are made one, and answers are given to calls by id.

Programs write the parts of a turn as messages of their own, and the answers to parallel calls in
the order in which they came. Templates pair by position, so what is written is sorted here once.
"""

import json
from collections import Counter, defaultdict

from minprm.data import Demo
from minprm.logs.books import COUNTS, Note, without

REASONING = "reasoning_content"
AS_USERS = Note("answers to calls that are not learned, read as messages of the user", "results")
BEGINNINGS = Note("logs that are the beginning of another one, left out", *COUNTS)


def paired(messages: list[dict], notes: Counter) -> list[dict]:
    """The messages, each turn one of them, and each call followed by its answers in order."""
    turns = _turns_in_one(messages, notes)
    ordered: list[dict] = []
    late: dict[str, str] = {}  # the tool of each call so far that waits for its answer
    i = 0
    while i < len(turns):
        message = turns[i]
        i += 1
        ordered.append(message)
        if message["role"] == "tool":
            notes["answers to no call"] += 1
        calls = message.get("tool_calls")
        if calls is None:
            continue
        answers = []
        while i < len(turns) and turns[i]["role"] == "tool":
            answers.append(turns[i])
            i += 1
        if calls:
            answers = _in_order(calls, answers, notes, late, at_end=i == len(turns))
        if message.get("weight") == 0:
            ordered[-1] = _as_text(message)
            if answers:
                notes[AS_USERS] += len(answers)
            answers = [{"role": "user", "content": answer["content"]} for answer in answers]
        ordered += answers
    return ordered


def _turns_in_one(messages: list[dict], notes: Counter) -> list[dict]:
    """Messages of the assistant that follow each other, made one."""
    turns: list[dict] = []
    for i, message in enumerate(messages):
        last = turns[-1] if turns else message
        both = last is not message and last["role"] == message["role"] == "assistant"
        alike = both and (_is_thought_alone(last) or last.get("weight") == message.get("weight"))
        # behind a call, a text is what the agent said to its answer, unless the answer comes later
        answered = i + 1 < len(messages) and messages[i + 1]["role"] == "tool"
        if alike and ("tool_calls" not in last or "tool_calls" in message or answered):
            notes[Note("turns in several messages, made one", "messages", "thoughts")] += 1
            turns[-1] = _joined(last, message)
        else:
            turns.append(message)
    spoken = [turn for turn in turns if not _is_thought_alone(turn)]
    if len(spoken) < len(turns):
        alone = Note("thoughts without an answer, left out", "messages", "thoughts")
        notes[alone] += len(turns) - len(spoken)
    return spoken


def _is_thought_alone(message: dict) -> bool:
    is_empty = message["content"] is None and "tool_calls" not in message
    return is_empty and message["role"] == "assistant"


def _joined(first: dict, second: dict) -> dict:
    turn = {**first, **second}
    for key in ("content", REASONING):
        texts = [message[key] for message in (first, second) if message.get(key)]
        if key == REASONING:  # a program may write it beside each part
            texts = list(dict.fromkeys(texts))
        if texts or key == "content":
            turn[key] = "\n".join(texts) or None
    if "tool_calls" in turn:
        turn["tool_calls"] = [*first.get("tool_calls", []), *second.get("tool_calls", [])]
    return turn


def _in_order(
    calls: list[dict], answers: list[dict], notes: Counter, late: dict[str, str], at_end: bool
) -> list[dict]:
    """The answers in the order of their calls: by id; without one by name, and then by place.
    One that a call before these has waited for stays behind them, with the name of its tool."""
    have_ids = any(call.get("id") for call in calls)
    waiting = dict(enumerate(calls))  # those without an answer
    places: dict[int, int] = {}  # of each answer, the number of its call
    for i, answer in enumerate(answers):
        same = [n for n, call in waiting.items() if call.get("id", 0) == answer.get("tool_call_id")]
        if same:
            places[i] = same[0]
            del waiting[same[0]]
    for i, answer in enumerate(answers):
        call_id = answer.get("tool_call_id")
        if i not in places and call_id in late:
            notes["answers that come behind a later call, left there"] += 1
            answers[i] = {"name": late.pop(call_id), **answer}
            places[i] = len(calls)
        if i in places or not waiting:
            continue
        if call_id is not None and have_ids:
            if len(answers) != len(calls):
                continue
            notes["answers whose id is that of no call, paired by place"] += 1
        same = [n for n in waiting if calls[n]["function"]["name"] == answer.get("name")]
        places[i] = (same or [*waiting])[0]
        del waiting[places[i]]
    if len(places) < len(answers):
        notes["answers to no call"] += len(answers) - len(places)
    if waiting and (answers or not at_end):
        notes["calls without an answer"] += len(waiting)
        late |= {call["id"]: call["function"]["name"] for call in waiting.values() if "id" in call}
        for i, n in places.items():  # templates pair by names where an answer is missing
            if "name" not in answers[i]:
                answers[i] = {"name": calls[n]["function"]["name"], **answers[i]}
    order = [places.get(i, len(calls)) for i in range(len(answers))]
    if order != sorted(order):
        notes["answers sorted into the order of their calls"] += 1
    return [answers[i] for i in sorted(range(len(answers)), key=order.__getitem__)]


def as_line(call: dict, arguments: str) -> str:
    """A call as a line of JSON, whose arguments are JSON already."""
    return f'{{"name": {json.dumps(call["function"]["name"])}, "arguments": {arguments}}}'


def _as_text(message: dict) -> dict:
    """An answer that is not learned, with its calls as lines of its text."""
    lines = [message["content"]] if message["content"] else []
    lines += [as_line(call, call["function"]["arguments"]) for call in message["tool_calls"]]
    return without(message, "tool_calls", REASONING) | {"content": "\n".join(lines)}


def without_beginnings(demos: list[Demo]) -> list[int]:
    """The numbers of the logs that are not the beginning of a longer one, as where a program wrote
    each conversation again at each request. What only the shorter one thought goes to the longer.
    """
    ends: dict[int, list[int]] = defaultdict(list)
    chains = []
    for number, demo in enumerate(demos):
        chains.append(_chain(demo))
        ends[chains[-1][-1]].append(number)
    longest: dict[int, int] = {}  # of each log that is a beginning, the longest that goes on
    for number, chain in enumerate(chains):
        for link in chain[:-1]:
            for shorter in ends.get(link, ()):
                before = longest.get(shorter, number)
                if len(chains[before]) <= len(chain):
                    longest[shorter] = number
    for shorter, number in longest.items():
        for step, other in zip(demos[shorter].steps, demos[number].steps, strict=False):
            if other.thought is None:
                other.thought = step.thought
    return [number for number in range(len(demos)) if number not in longest]


def _chain(demo: Demo) -> list[int]:
    """A hash of each beginning of the log, the whole of it last. Thoughts and ids do not count, nor
    how arguments are spelled: who sends a call back may write its JSON anew."""
    link = hash(demo.task)
    chain = []
    for message in demo.messages:
        calls = []
        for call in message.get("tool_calls", ()):
            arguments = json.loads(call["function"]["arguments"], parse_float="\0{}".format)
            calls.append((call["function"]["name"], json.dumps(arguments, sort_keys=True)))
        learned = message.get("weight") != 0
        link = hash((link, message["role"], message["content"], learned, *calls))
        chain.append(link)
    return chain
