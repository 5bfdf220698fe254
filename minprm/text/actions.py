"""Actions as text: what is said and what is called, when two are the same, and whether a thought
merely names one.

An action is one text. First comes what the assistant says, if anything; then each tool call, as a
line of JSON with a name and arguments:

    I will look that up.
    {"name": "find_order", "arguments": {"number": "A-17"}}
"""

import json
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from minprm.data import Demo

# A letter of a script with spaces between words: not Thai, Lao, Burmese, Khmer, Japanese, Chinese.
LETTER = r"[^\W\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]"
MAX_DEPTH = 100  # levels of objects and lists in one another; Python's recursion ends near 1,000


def parse_json(text: str, an_object: Callable[[list], Any] | None = None) -> Any:
    """What this JSON says. Raises ValueError where it is none, or could not be written again.
    an_object: makes one of its fields, (name, value) each.

    json.loads takes what no program can write: NaN, half a character (a lone surrogate), and
    nesting so deep that the next reader fails.

    >>> parse_json('{"title": "Paris"}')
    {'title': 'Paris'}
    """
    try:
        tree = json.loads(text, object_pairs_hook=an_object)
    except RecursionError:
        raise ValueError(f"its JSON is nested more than {MAX_DEPTH} levels deep") from None
    if text.count("{") + text.count("[") > MAX_DEPTH and _is_deeper(tree, MAX_DEPTH):
        raise ValueError(f"its JSON is nested more than {MAX_DEPTH} levels deep")
    try:
        json.dumps(tree, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        raise ValueError(
            "a \\ud800 to \\udfff in it is half a character: write both halves"
        ) from None
    except ValueError:
        raise ValueError("its JSON holds NaN or Infinity, which are no JSON") from None
    return tree


def joined(reply: str, calls: list[dict]) -> str:
    """The action of this reply and these calls, {"name", "arguments"} each.

    Raises ValueError where the reply itself ends in what would be read as a call.

    >>> joined("", [{"name": "visit", "arguments": {"title": "Paris"}}])
    '{"name": "visit", "arguments": {"title": "Paris"}}'
    """
    reply = _trimmed(reply)
    if parts(reply)[1]:
        raise ValueError("its text ends in what reads as a tool call: write it in tool_calls")
    # in ASCII, so that no character of an argument is a line break to splitlines()
    lines = [json.dumps({"name": c["name"], "arguments": c["arguments"]}) for c in calls]
    return "\n".join([reply, *lines] if reply else lines)


@lru_cache(maxsize=1024)
def parts(action: str) -> tuple[str, list[dict]]:
    """(reply, calls) of an action. They are kept, and not to be changed: whoever writes, scores or
    shows a step asks for them.

    >>> parts('On it.\\n{"name": "visit", "arguments": {}}')
    ('On it.', [{'name': 'visit', 'arguments': {}}])
    """
    lines = action.splitlines(keepends=True)
    calls = []
    while lines:
        call = _call(lines[-1])
        if call is None:
            break
        calls.insert(0, call)
        lines.pop()
    return _trimmed("".join(lines)), calls


def _trimmed(reply: str) -> str:
    """The reply without empty lines around it; its first line keeps the spaces that it begins with.

    >>> _trimmed("\\n    return 1\\n")
    '    return 1'
    """
    return re.sub(r"^\s*\n", "", reply).rstrip() if reply[:1].isspace() else reply.rstrip()


def all_tools(demos: list[Demo]) -> list[dict]:
    """The schemas of all tools of these logs, each once."""
    tools = []
    for demo in demos:
        tools += [tool for tool in demo.tools if tool not in tools]
    return tools


def _call(line: str) -> dict | None:
    """The tool call that this line is, if it is one."""
    try:
        call = parse_json(line)
    except ValueError:
        return None
    if not isinstance(call, dict) or call.keys() != {"name", "arguments"}:
        return None
    named = isinstance(call["name"], str) and call["name"].strip()
    return call if named and isinstance(call["arguments"], dict) else None


def _is_deeper(tree: Any, levels: int) -> bool:
    """Are more than so many objects and lists in one another?"""
    level = [tree]
    for _ in range(levels):
        inner = []
        for node in level:
            if isinstance(node, dict | list):
                inner += node.values() if isinstance(node, dict) else node
        level = inner
    return any(isinstance(node, dict | list) for node in level)


def exact_match(action: str | None, expert: str) -> float:
    """r(z) = 1 if the model, after its own thought, wrote the expert's action, else 0.

    >>> exact_match('{"y": 1,  "x": 2}', '{"x": 2, "y": 1}'), exact_match("open  c", "open c")
    (1.0, 1.0)
    """
    return float(action is not None and normalise(action) == normalise(expert))


def normalise(action: str) -> str:
    """Without what does not matter: white space, and the order of keys in a line of JSON."""
    words = []
    for line in action.splitlines():
        try:
            tree = json.loads(line)
        except (ValueError, RecursionError):
            tree = None
        if isinstance(tree, dict | list):
            words.append(json.dumps(tree, sort_keys=True))
        else:  # a number by itself stands as it is spelled
            words += line.split()
    return " ".join(words)


def copies(thought: str, action: str, state: str) -> bool:
    """Does the thought name the action, where the state does not?

    Of tool calls it is all arguments that count. What is said beside them is no part of it.

    A reward that rises together with the share of such thoughts is worth nothing.

    >>> copies("so I open c .", "open c", "ball under a ."), copies("bare", "open c", "")
    (True, False)
    """
    if not thought.strip():  # an empty text would be found in it
        return False
    _, calls = parts(action)
    arguments = [argument for call in calls for argument in call["arguments"].values()]
    names = [a if isinstance(a, str) else json.dumps(a, ensure_ascii=False) for a in arguments]
    words = [name for name in names if name.strip()] or [normalise(action)]
    named = all(_says(thought, word) for word in words)
    return named and any(not _says(state, word) for word in words)


def _says(text: str, words: str) -> bool:
    """Do these words stand in the text? "open c" does not in "open cup", and does in "open c.".
    Where a script has no spaces between words, as Chinese has none, each place counts."""
    pattern = r"\s+".join(re.escape(word) for word in words.split())
    return re.search(rf"(?<!{LETTER}){pattern}(?!{LETTER})", text) is not None
