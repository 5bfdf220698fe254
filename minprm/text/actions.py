"""Actions as text: is their JSON sound, and does a thought merely name the one that was taken?"""

import json
from typing import Any

from minprm.algorithms import normalise

MAX_DEPTH = 100  # levels of objects and lists in one another; Python's recursion ends near 1,000


def parse_json(text: str) -> Any:
    """What this JSON says. Raises ValueError where it is none, or could not be written again.

    json.loads takes what no program can write: NaN, half a character (a lone surrogate), and
    nesting so deep that the next reader fails.

    >>> parse_json('{"title": "Paris"}')
    {'title': 'Paris'}
    """
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError(f"its JSON is nested more than {MAX_DEPTH} levels deep") from None
    if _is_deeper(value, MAX_DEPTH):
        raise ValueError(f"its JSON is nested more than {MAX_DEPTH} levels deep")
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        raise ValueError(
            "a \\ud800 to \\udfff in it is half a character: write both halves"
        ) from None
    except ValueError:
        raise ValueError("its JSON holds NaN or Infinity, which are no JSON") from None
    return value


def _is_deeper(value: Any, levels: int) -> bool:
    """Are more than so many objects and lists in one another?"""
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list):
        return False
    return levels == 0 or any(_is_deeper(part, levels - 1) for part in value)


def copies(thought: str, action: str, state: str) -> bool:
    """Does the thought name the action (or all its arguments), where the state does not?

    A reward that rises together with the share of such thoughts is worth nothing.

    >>> copies("so I open c .", "open c", "ball under a ."), copies("bare", "open c", "")
    (True, False)
    """
    try:
        values = [str(value) for value in parse_json(action).get("arguments", {}).values()]
    except (ValueError, AttributeError):
        values = []
    thought = _padded(thought)
    state = _padded(state)
    words = [_padded(value) for value in values or [normalise(action)]]
    return all(word in thought for word in words) and any(word not in state for word in words)


def _padded(text: str) -> str:
    return f" {' '.join(text.split())} "  # so that "open c" is not found in "open cup"
