"""ATIF v1.7, the trajectories of Harbor (harborframework.com/docs/trajectory-format), both ways.

A step is a message; an agent's step also holds what its tools answered, as its `observation`. What
the agent says is `message`, what it thinks is `reasoning_content`.
"""

import json
from collections import Counter

from minprm.logs.books import note_unread, without

SOURCES = {"system": "system", "user": "user", "agent": "assistant"}
# Read here, or bookkeeping whose loss changes nothing.
READ = ("step_id", "source", "message", "reasoning_content", "tool_calls", "observation",
        "is_copied_context", "metrics", "extra")  # fmt: skip
OF_MESSAGES = ("name", "weight")  # what to_atif puts into `extra`
READ_OF_A_LOG = ("schema_version", "session_id", "agent", "steps", "final_metrics", "notes",
                 "extra")  # fmt: skip


def from_atif(log: dict, notes: Counter) -> dict:
    """A trajectory as a line of chat. Raises ValueError where it is none.

    A tool's answer follows its call. What is observed without a call is a message of the user.
    """
    version = log.get("schema_version")
    if not isinstance(version, str) or not version.startswith("ATIF-v1."):
        raise ValueError(f'"steps", but no schema_version ATIF-v1: {json.dumps(version)[:40]}')
    messages = []
    for i, step in enumerate(log["steps"], start=1):
        try:
            messages += _from_step(step)
        except (AttributeError, TypeError, LookupError) as error:
            raise ValueError(f"step {i} is no step of ATIF ({error!r})") from error
        except ValueError as error:
            raise ValueError(f"step {i}: {error}") from error
    agent = log.get("agent") or {}
    extra = log["extra"] if isinstance(log.get("extra"), dict) else {}
    note_unread(log, READ_OF_A_LOG, "a log", notes)
    tools = agent.get("tool_definitions") if isinstance(agent, dict) else None
    return {"task": None, **extra, "messages": messages, "tools": tools}


def _from_step(step: dict) -> list[dict]:
    """The messages of one step: its own, and one for each thing that was observed."""
    if step["source"] not in SOURCES:
        raise ValueError(f"its source is none of {', '.join(SOURCES)}")
    role = SOURCES[step["source"]]
    calls = step.get("tool_calls") or []
    message = without(step, *READ)
    extra = step.get("extra") or {}
    message |= {key: extra[key] for key in OF_MESSAGES if key in extra}
    others = without(extra, *OF_MESSAGES)
    message |= {"extra": others, "role": role, "content": step.get("message")}
    if role == "assistant":
        message["reasoning_content"] = step.get("reasoning_content")
        message["tool_calls"] = [_from_call(call) for call in calls]
    if step.get("is_copied_context") and role == "assistant":
        message["weight"] = 0
    answers = (step.get("observation") or {}).get("results") or []
    return [message, *(_from_answer(answer, bool(calls)) for answer in answers)]


def _from_call(call: dict) -> dict:
    arguments = call.get("arguments")
    if isinstance(arguments, dict):  # as the format has it
        arguments = json.dumps(arguments, ensure_ascii=False)
    function = {"name": call["function_name"], "arguments": arguments}
    return {"id": call["tool_call_id"], "type": "function", "function": function}


def _from_answer(answer: dict, called: bool) -> dict:
    """What was observed; `called`: after a call."""
    if answer.get("subagent_trajectory_ref"):
        raise ValueError("it hands over to another agent, whose trajectory is not read here")
    if not called:
        return {"role": "user", "content": answer.get("content") or ""}
    extra = answer.get("extra") or {}
    call_id = answer.get("source_call_id")
    return {**extra, "role": "tool", "content": answer.get("content"), "tool_call_id": call_id}


def to_atif(line: dict) -> dict:
    """A line of chat, in the one form (normalise.py) and with ids of calls, as a trajectory.

    Raises ValueError where a tool answers no call: ATIF cannot say that.
    """
    steps: list[dict] = []
    for i, message in enumerate(line["messages"]):
        if message["role"] != "tool":
            steps.append(_to_step(message, len(steps) + 1))
            continue
        if not steps or "tool_calls" not in steps[-1]:
            raise ValueError(
                f"message {i} of a log is a tool's answer to no call, which ATIF cannot say: use"
                " --to openai"
            )
        answer = {"source_call_id": message.get("tool_call_id"), "content": message["content"]}
        if "name" in message:
            answer["extra"] = {"name": message["name"]}
        steps[-1].setdefault("observation", {"results": []})["results"].append(answer)
    agent = {"name": "expert", "version": "unknown", "tool_definitions": line.get("tools", [])}
    extra = without(line, "messages", "tools")
    return {"schema_version": "ATIF-v1.7", "agent": agent, "steps": steps, "extra": extra}


def _to_step(message: dict, number: int) -> dict:
    sources = {role: source for source, role in SOURCES.items()}
    step = {"step_id": number, "source": sources[message["role"]]}
    step["message"] = message["content"] or ""
    if message.get("reasoning_content"):
        step["reasoning_content"] = message["reasoning_content"]
    if message.get("tool_calls"):
        step["tool_calls"] = [_to_call(call) for call in message["tool_calls"]]
    extra = {key: message[key] for key in OF_MESSAGES if key in message}
    return step | ({"extra": extra} if extra else {})


def _to_call(call: dict) -> dict:
    function = call["function"]
    arguments = json.loads(function["arguments"])
    return {"tool_call_id": call["id"], "function_name": function["name"], "arguments": arguments}
