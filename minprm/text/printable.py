"""Text of a model, a world or a file on a terminal: shown, not obeyed."""

import unicodedata


def printable(text: str) -> str:
    r"""The text with control characters spelled out, save the ends of lines and tabs.

    A terminal obeys some of them: ESC moves the cursor, and others turn the direction of writing.

    >>> printable("red: \x1b[31m!")
    'red: \\x1b[31m!'
    """
    return "".join(_shown(letter) for letter in text)


def _shown(letter: str) -> str:
    # Cc: control; Cf: format, as for the direction of writing; Cs: half a character
    if letter in "\n\t" or unicodedata.category(letter) not in ("Cc", "Cf", "Cs"):
        return letter
    return letter.encode("unicode_escape").decode()
