"""Text of a model, a world or a file on a terminal: shown, not obeyed; and the colours it has."""

import logging
import os
import unicodedata
from typing import Any, TextIO

GREEN, GREY, YELLOW, PLAIN = "\033[32m", "\033[90m", "\033[33m", "\033[0m"


def in_colours(stream: TextIO) -> bool:
    """Does a terminal show this stream, and has nobody set NO_COLOR (no-color.org)?"""
    return stream.isatty() and not os.environ.get("NO_COLOR")


def printable(text: str) -> str:
    r"""The text with control characters spelled out, save the ends of lines and tabs.

    A terminal obeys some of them: ESC moves the cursor, and others turn the direction of writing.

    >>> printable("red: \x1b[31m!")
    'red: \\x1b[31m!'
    """
    return "".join(_shown(letter) for letter in text)


def as_printable(record: Any) -> None:
    """loguru's patcher: no sink is handed a message that a terminal would obey."""
    record["message"] = printable(record["message"])


class ShownRecord(logging.LogRecord):
    """The same for libraries, which use Python's own logging and quote what a checkpoint says."""

    def getMessage(self) -> str:
        return printable(super().getMessage())


def _shown(letter: str) -> str:
    # Cc: control; Cf: format, as for the direction of writing; Cs: half a character
    if letter in "\n\t" or unicodedata.category(letter) not in ("Cc", "Cf", "Cs"):
        return letter
    return letter.encode("unicode_escape").decode()
