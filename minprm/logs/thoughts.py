"""Where the thought of an answer stands: in a field of its own, or in its text, between tags."""

import re
from collections import Counter
from typing import Any

from minprm.logs.books import Note, first, is_nothing
from minprm.logs.pairing import REASONING

# Other names of a thought.
THOUGHTS = (REASONING, "reasoning", "thinking", "thought", "tool_plan", "reasoning_details",
            "thinking_blocks")  # fmt: skip
COPIES = ("reasoning_details", "thinking_blocks")  # they say another field again, in parts
# Tags around a thought, as models of many families write them: <think>, [THINK], <seed:think>.
WORD = (
    "(?:(?:[a-z]+:|ant)?(?:think|thinking|thoughts?|reason|reasoning)"
    "|longcat_think|inner_thoughts|thinking_process)"
)
OPENING = re.compile(
    rf"<({WORD})(?: [^<>]*)?>|\[think\]|\u25c1think\u25b7|<\|begin_of_thought\|>"
    r"|<\|start_thinking\|>|<\|channel\|>analysis<\|message\|>|<\|channel>thought\n"
    r"|<unused94>thought\n",
    re.IGNORECASE,
)
BEGINS = re.compile(rf"\s*(?:{OPENING.pattern})", re.IGNORECASE)
CLOSING = re.compile(
    rf"</{WORD}>|\[/think\]|\u25c1/think\u25b7|<\|end_of_thought\|>|<\|end_thinking\|>"
    r"|<channel\|>|<unused95>",
    re.IGNORECASE,
)
HARMONY = re.compile(
    r"<\|channel\|>analysis<\|message\|>(.*?)<\|end\|>(?:<\|start\|>assistant)?"
    r"<\|channel\|>final<\|message\|>",
    re.DOTALL,
)


def thought_beside(message: dict, notes: Counter) -> str:
    """The thought in the fields of an answer; "": there is none. Of two that say the same the
    longer one is read, and different ones stand one below the other."""
    thought = ""
    for key in THOUGHTS:
        field = message.get(key)
        if thought and (key in COPIES or not isinstance(field, str)):
            continue  # in parts it says the same again
        inside = _thought_in(field, key)
        if not _holds(thought, inside):
            thought = inside if _holds(inside, thought) else f"{thought}\n{inside}"
            if key != REASONING:
                notes[f"{key}, read as {REASONING}"] += 1
    return thought


def _holds(text: str, other: str) -> bool:
    """Does the text say all that the other one says, white space aside?"""
    return "".join(other.split()) in "".join(text.split())


def _thought_in(field: Any, key: str) -> str:
    """The thought in a field, which may be a list of summaries or blocks; "": there is none."""
    if is_nothing(field) or isinstance(field, bool):  # was it asked for
        return ""
    if isinstance(field, str):
        return field
    if isinstance(field, dict):
        return _thought_in(first(field, ("text", "content", "thinking", "summary")), key)
    texts = []
    for block in field if isinstance(field, list) else [None]:
        text = block
        if isinstance(block, dict):
            text = block.get("text") or block.get("thinking") or block.get("summary")
            if text is None and (block.get("data") or block.get("type") == "redacted_thinking"):
                continue  # encrypted
        if not isinstance(text, str):
            raise ValueError(f"its {key} is no text")
        texts.append(text)
    return "\n".join(texts)


def by_pattern(pattern: str, text: str) -> tuple[str, str]:
    """(text without what the pattern of --thought fits at its beginning, the thought in that)."""
    match = re.match(pattern, text, re.DOTALL | re.IGNORECASE)
    if not match or not (match[1] or "").strip():
        return text, ""
    return text[match.end() :], match[1].strip()


def without_tags(text: str, thought: str, calls: bool, notes: Counter) -> tuple[str, str]:
    """(text, thought), where a thought may stand in tags: at the beginning, behind a beginning, or
    up to a closing tag whose opening one stood in the prompt. Behind a beginning only a tag that
    says "think" is one, and none in a block of code: a <reason> may be of what the user wants.
    calls: does a call come behind the text."""
    text = HARMONY.sub(r"<think>\1</think>", text)
    # an empty one may stand before it, as templates write those for agents that do not think
    while True:
        opened = BEGINS.match(text)
        own = re.compile(f"</{opened[1]}>", re.IGNORECASE) if opened and opened[1] else CLOSING
        tag = own.search(text) or CLOSING.search(text)
        if not tag:
            break
        before, after = text[: tag.start()], text[tag.end() :]
        if not opened:
            for opening in OPENING.finditer(before):
                opened = opening  # the last one
        if not opened and not (before.endswith("\n") or after.startswith("\n")):
            break  # the text speaks of the tag
        ahead = before[: opened.start()] if opened else ""
        word = opened[0].lower() if opened else ""
        of_text = ahead.strip() and (not (after.strip() or calls) or "think" not in word)
        if of_text or ahead.endswith("`") or ahead.count("```") % 2:
            break
        inside = before[opened.end() :] if opened else before
        notes[Note(f"thoughts that end in {tag[0]}, taken out of content", "thoughts")] += 1
        if inside.strip() and thought and thought.strip() != inside.strip():
            raise ValueError(f"it has more than one thought, in content or {REASONING}: keep one")
        # what follows a thought is set off by empty lines; its first line keeps its spaces
        if ahead.strip():
            text = f"{ahead}{after.lstrip()}" if after.strip() else ahead.rstrip()
        else:
            text = re.sub(r"^\s*\n|^ ", "", after)
        thought = inside.strip() or thought
    return text, thought
