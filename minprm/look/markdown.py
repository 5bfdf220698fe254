"""A run's texts in Markdown, for TensorBoard.

Text of a model, a world or a user stays text: every letter that Markdown or HTML could obey becomes
a reference to it.
"""

from collections.abc import Iterable

from minprm.look.picture import one_line

OBEYED = r"\`*_{}[]()<>#+-.!|&~=:^$@\"'"


def escaped(text: object) -> str:
    """The text in one line of letters that mean nothing to Markdown.

    >>> escaped("<b> | *now*")
    '&#60;b&#62; &#124; &#42;now&#42;'
    """
    line = one_line(str(text))
    return "".join(f"&#{ord(letter)};" if letter in OBEYED else letter for letter in line)


def table(columns: list[str], rows: Iterable[Iterable[object]]) -> str:
    """A table with these names of its columns."""
    lines = ["|" + "|".join(columns) + "|", "|" + "-|" * len(columns)]
    for row in rows:
        lines.append("|" + "|".join(map(escaped, row)) + "|")
    return "\n".join(lines)
