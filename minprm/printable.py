"""Text of a model, a world or a file on a terminal: shown, not obeyed."""

import logging
import sys
import unicodedata
from typing import Any


def printable(text: str) -> str:
    r"""The text with control characters spelled out, save the ends of lines and tabs.

    A terminal obeys some of them: ESC moves the cursor, and others turn the direction of writing.

    >>> printable("red: \x1b[31m!")
    'red: \\x1b[31m!'
    """
    letters = []
    for letter in text:
        # Cc: control; Cf: format, as for the direction of writing; Cs: half a character
        if letter not in "\n\t" and unicodedata.category(letter) in ("Cc", "Cf", "Cs"):
            letter = letter.encode("unicode_escape").decode()
        letters.append(letter)
    return "".join(letters)


def say(sentence: str) -> None:
    """Prints what is no result: a refusal, a warning."""
    print(printable(sentence), file=sys.stderr, flush=True)


def as_printable(record: Any) -> None:
    """loguru's patcher: no sink is handed a message that a terminal would obey."""
    record["message"] = printable(record["message"])


class ShownRecord(logging.LogRecord):
    """The same for libraries, which use Python's own logging and quote what a checkpoint says."""

    def getMessage(self) -> str:
        return printable(super().getMessage())
