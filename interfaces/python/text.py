"""Literals, documentation, and lines that are not too long."""

import re
from collections.abc import Iterable
from textwrap import indent
from typing import Final

WIDTH: Final = 110
_ENDING: Final = re.compile(r'"(?=""|\Z)')
_UNSEEN: Final = re.compile(r"[^\S\n ]|[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029]")


def literal(text: str) -> str:
    """The text as Python writes it, between double quotes."""
    inner = repr(f"'{text}")[2:-1]
    return f'"{inner}"' if '"' not in inner else repr(text)


def documentation(*paragraphs: str) -> str:
    """A docstring."""
    text = "\n\n".join(each.strip() for each in paragraphs if each.strip())
    text = _ENDING.sub(lambda _: '\\"', text.replace("\\", "\\\\"))
    text = _UNSEEN.sub(lambda found: repr(found.group())[1:-1], text)
    return f'"""{text}\n"""' if "\n" in text else f'"""{text}"""'


def bracketed(head: str, parts: Iterable[str], tail: str, depth: int = 0) -> str:
    """`head`, `parts` with commas between them, `tail`: on one line if it is short. `depth`: of its block."""
    several = list(parts)
    line = f"{head}{', '.join(several)}{tail}"
    if not several or (len(line) + 4 * depth < WIDTH and "\n" not in line):
        return line
    inner = indent("".join(f"{each},\n" for each in several), "    ")
    return f"{head}\n{inner}{tail}"


def block(head: str, *parts: str) -> str:
    """`head` with what belongs to it, indented."""
    return f"{head}\n" + indent("\n".join(part for part in parts if part), "    ")
