"""Actions as text: does a thought merely name the one that the expert took?"""

import json

from minprm.algorithms import normalise


def copies(thought: str, action: str, state: str) -> bool:
    """Does the thought name the action (or all its arguments), where the state does not?

    A reward that rises together with the share of such thoughts is worth nothing.

    >>> copies("so I open c .", "open c", "ball under a ."), copies("bare", "open c", "")
    (True, False)
    """
    try:
        values = [str(value) for value in json.loads(action).get("arguments", {}).values()]
    except (ValueError, AttributeError):
        values = []
    thought = _padded(thought)
    state = _padded(state)
    words = [_padded(value) for value in values or [normalise(action)]]
    return all(word in thought for word in words) and any(word not in state for word in words)


def _padded(text: str) -> str:
    return f" {' '.join(text.split())} "  # so that "open c" is not found in "open cup"
