"""The families of logs: each file in a family's own shape says the same conversation.

The files lie in families/. Their right values stand in the table here, worked out by hand from the
shapes; further shapes of a family (another tool, several calls, no thought) stand beside as dicts.
"""

import gzip
import json
import zipfile
from pathlib import Path

import pytest

from minprm.logs.reader import read_logs
from minprm.text.actions import parts

FILES = Path(__file__).parent / "families"
RULES = "Answer in one line. Never give a forecast beyond three days."
BERN = ("forecast", {"city": "Bern"})
LOOK = ("forecast", {"city": "Bern", "days": 2})


def read(*logs, folder: Path, name: str = "logs.jsonl"):
    """(demos, report) of these values, one a line."""
    path = folder / name
    path.write_text("".join(json.dumps(log) + "\n" for log in logs), encoding="utf-8")
    return read_logs(path)


def steps(demo) -> list[tuple]:
    """(thought, reply, calls) of each step."""
    said = []
    for step in demo.steps:
        reply, calls = parts(step.action)
        said.append((step.thought, reply, [(c["name"], c["arguments"]) for c in calls]))
    return said


def state(demo, number: int = 0) -> list[tuple]:
    return [(message["role"], message["content"]) for message in demo.steps[number].state]


# file: (format, logs, the steps of the first, the state of its first, the answer that it sees last)
ASKED = ("user", "Weather in Bern?")
RULED = [("system", RULES), ASKED]
SHELL = [("system", "You use a shell."), ("user", "Which files are here?")]
CASES = {
    "anthropic_messages.jsonl": (
        "Anthropic", 3, [("I need the tool.", "Let me look.", [LOOK]), (None, "Bern: sun.", [])],
        RULED, "sun"),
    "anthropic_system_beside.jsonl": (
        "chat", 3, [(None, "I only look three days ahead.", [])],
        [("system", RULES), ("user", "Weather in Bern next month?")], None),
    "sharegpt_system_prompt_key.jsonl": (
        "ShareGPT", 3, [(None, "I only look three days ahead.", [])],
        [("system", RULES), ("user", "Weather in Bern next month?")], None),
    "proxy_messages_and_response.jsonl": (
        "chat", 3, [(None, "", [BERN]), (None, "Bern: sun.", [])], RULED, "sun"),
    "proxy_request_and_response.jsonl": ("chat", 3, [(None, "", [BERN])], [ASKED], None),
    "completion_beside.jsonl": (
        "chat", 3, [(None, "Today or tomorrow?", []), (None, "sun", [])], [ASKED], None),
    "bedrock_converse.jsonl": (
        "Bedrock", 3, [(None, "I look.", [BERN]), (None, "sun", [])], RULED, '{"sky": "sun"}'),
    "text_parts_of_a_word.jsonl": ("chat", 1, [(None, "Sunny.", [])], [ASKED], None),
    "claude_code_session.jsonl": (
        "Claude Code", 1,
        [("List them.", "I list them.", [("Bash", {"command": "ls"})]),
         (None, "Two: a.py and b.py.", [])],
        [("user", "Which files are here?")], "a.py\nb.py"),
    "codex_rollout.jsonl": (
        "Codex", 1,
        [("List them.", "", [("shell", {"command": ["ls"]})]), (None, "One: a.py.", [])],
        [("system", "Be brief."), ("user", "Which files are here?")], "a.py"),
    "responses_items.jsonl": (
        "Responses", 3, [(None, "", [BERN]), (None, "Bern: sun.", [])], [ASKED], "sun"),
    "gemini_contents.jsonl": (
        "Gemini", 3, [(None, "", [BERN]), (None, "Bern: sun.", [])], RULED, '{"sky": "sun"}'),
    "langchain_types.jsonl": (
        "LangChain", 3, [(None, "", [BERN]), (None, "Bern: sun.", [])], RULED, "sun"),
    "calls_in_additional_kwargs.jsonl": (
        "LangChain", 3, [(None, "I look.", [BERN]), (None, "sun", [])], [ASKED], "sun"),
    "otel_genai_parts.jsonl": (
        "OpenTelemetry", 3, [("I look.", "", [BERN]), (None, "Bern: sun.", [])], RULED, "sun"),
    "tau_bench.json": (
        "tau-bench", 6, [(None, "", [BERN]), (None, "It is sun", [])],
        [("system", RULES), ("user", "Weather in Bern, please (0)")], "sun"),
    "tau2_simulations.json": (
        "tau2-bench", 3, [(None, "", [BERN]), (None, "Bern: sun.", [])],
        [("assistant", "Hi! How can I help?"), ASKED], "sun"),
    "user_calls_tau2.jsonl": (
        "tau2-bench", 3, [(None, "Switch the airplane mode off.", []), (None, "Good.", [])],
        [("system", RULES), ("user", "My phone in Bern has no signal.")], None),
    "verifiers_results.jsonl": (
        "verifiers", 3, [(None, "", [BERN]), (None, "Bern: sun.", [])], RULED, "sun"),
    "inspect_log.json": (
        "Inspect", 3, [("I look.", "Looking.", [BERN]), (None, "It did not answer.", [])],
        RULED, "The forecast timed out."),
    "openhands_events.json": (
        "OpenHands", 1,
        [("I look.", "", [("execute_bash", {"command": "ls"})]), (None, "One: a.py.", [])],
        [("user", "Which files?")], "a.py"),
    "swe_agent.traj": (
        "SWE-agent", 1,
        [("I look.", "", [("bash", {"command": "ls"})]), ("Done.", "", [("submit", {})])],
        [("system", "You use a shell."), ("user", "A demonstration: ls shows files."),
         ("user", "Which files are here?")], "a.py"),
    "mini_swe_v2.traj.json": (
        "mini-swe-agent", 1, None, SHELL, "a.py"),
    "conversations_with_roles.jsonl": ("chat", 3, [(None, "sun", [])], [ASKED], None),
    "agentgym_loss_flags.jsonl": (
        "ShareGPT", 3, None,
        [("user", "You act in a shop. Answer with Thought and Action."),
         ("assistant", "OK. I will."), ("user", "Find a lamp of Bern.")], None),
    "hermes_tools_in_system.jsonl": (
        "ShareGPT", 3, [(None, "", [BERN]), (None, "Bern: sun.", [])], None,
        '{"name": "forecast", "content": {"sky": "sun"}}'),
    "toolace_text_calls.jsonl": (
        "ShareGPT", 3, [(None, '[forecast(city="Bern")]', []), (None, "Bern: sun.", [])], None,
        '[{"name": "forecast", "results": {"sky": "sun"}}]'),
    "nan_in_metadata.jsonl": ("chat", 2, [(None, "Hello.", [])], [("user", "Hi there")], None),
    "gz.jsonl.gz": ("chat", 3, [(None, "sun", [])], [ASKED], None),
    "bom_crlf.jsonl": (
        "chat", 3, [(None, "sun\r\n- dry", [])], [("user", "Weather\r\nin Bern?")], None),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_each_family_is_read_as_it_is(name):
    family, count, said, shown, seen = CASES[name]
    demos, report = read_logs(FILES / name)
    assert not report.problems and report.formats == {family: count} and len(demos) == count
    assert said is None or steps(demos[0]) == said
    assert shown is None or state(demos[0]) == shown
    if seen is not None:
        answers = [m for demo in demos[:1] for m in demo.messages if m["role"] == "tool"]
        assert answers[-1]["content"] == seen and all(len(demo.steps) == 2 for demo in demos)
    assert all(step.state for demo in demos for step in demo.steps)


