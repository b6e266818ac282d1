"""Literals, comments, and lines that are not too long."""

from collections.abc import Iterable
from textwrap import indent
from typing import Final

WIDTH: Final = 110
_IN_COMMENTS: Final = str.maketrans(
    {'"': "''", "{": "(", "}": ")", "[": "(", "]": ")", "@": " at ", "\n": " "}
)
"""Comments are read, too: texts in them end, and brackets are markup."""


def literal(text: str) -> str:
    """The text as OCaml writes it, between double quotes."""
    return '"' + "".join(map(_character, text)) + '"'


def _character(each: str) -> str:
    if each in '"\\':
        return f"\\{each}"
    return each if each.isprintable() else "".join(f"\\{byte:03d}" for byte in each.encode())


def comment(text: str) -> str:
    """Documentation of what stands below it, or before it on its line."""
    said = " ".join(text.translate(_IN_COMMENTS).split()).replace("*", "x")
    return f"(** {''.join(each for each in said if each.isprintable())} *)"


def listed(head: str, parts: Iterable[str], tail: str, between: str = "; ") -> str:
    """`head`, `parts`, `tail`: on one line if it is short."""
    several = list(parts)
    line = f"{head} {between.join(several)} {tail}"
    if not several or (len(line) < WIDTH - 10 and "\n" not in line):
        return line if several else f"{head}{tail}"
    return f"{head}\n{indent((between.rstrip() + chr(10)).join(several), '  ')}\n{tail}"


def structure(head: str, *parts: str, opened: str = "struct") -> str:
    """A module with its parts, a blank line between them."""
    body = "\n\n".join(part for part in parts if part)
    return f"{head} {opened}\n{indent(body, '  ')}\nend" if body else f"{head} {opened}\nend"
