"""The one way in which a file is written. Comments stay, and so do single blank lines.

A comment that stands behind something stays there; all others have lines of their own. Where nothing is to be
decided nobody decides: indentation, spaces and the blank line before a block are the same everywhere.
"""

from collections.abc import Iterator
from typing import Final

from lark import Token

from interfaces.parse import parse
from interfaces.tokens import read_words

INDENT: Final = "  "
_BLOCKS: Final = {"INTERFACE", "NAMESPACE", "STRUCT", "VARIANT", "FUNCTION"}
_CLOSE: Final = {"COLON", "COMMA", "DOT", "LESSTHAN", "MORETHAN"}
"""No space stands before these."""
_OPEN: Final = {"DOT", "LESSTHAN"}
"""No space stands behind these."""


def format_text(text: str, file: str = "") -> str:
    """The same definitions and comments, laid out. Raises `InterfaceError` where the text's form is wrong."""
    parse(text, file)
    return "".join(_pieces(read_words(text, file).words))


def _pieces(words: list[Token]) -> Iterator[str]:
    depth = 0
    last: Token | None = None  # the last word that is no comment
    before: Token | None = None  # the last word
    for word, following in zip(words, _followers(words), strict=True):
        item_ended = last is None or _ends(last, following)
        if before is None:
            pass
        elif word.type == "COMMENT" and word.line == before.end_line:
            yield "  "
        elif before.type == "COMMENT" or item_ended or word.type == "COMMENT":
            closes = following is not None and following.type == "RBRACE"
            yield "\n"
            if item_ended and not closes and _blank(before, word, last, following):
                yield "\n"
            inside = depth - (word.type == "RBRACE") + (not item_ended)
            yield INDENT * inside
        elif word.type not in _CLOSE and before.type not in _OPEN:
            yield " "
        yield word.rstrip() if word.type == "COMMENT" else str(word)
        depth += (word.type == "LBRACE") - (word.type == "RBRACE")
        before, last = word, last if word.type == "COMMENT" else word
    if before is not None:
        yield "\n"


def _followers(words: list[Token]) -> list[Token | None]:
    """For each word itself, or for a comment the first word behind it that is none."""
    found: list[Token | None] = []
    following: Token | None = None
    for word in reversed(words):
        following = following if word.type == "COMMENT" else word
        found.append(following)
    return found[::-1]


def _ends(last: Token, following: Token | None) -> bool:
    """Does something end with the word `last`, so that the next has a line of its own?"""
    if following is None or last.type in ("LBRACE", "RBRACE") or following.type == "RBRACE":
        return True
    return last.type == "STRING" and following.type not in ("LBRACE", "COMMA")


def _blank(before: Token, word: Token, last: Token | None, following: Token | None) -> bool:
    """One blank line stands where there was one, and before each block but the first of its own block."""
    if last is None:
        return (word.line or 0) > (before.end_line or 0) + 1
    if last.type == "LBRACE" and before is last:
        return False
    if (word.line or 0) > (before.end_line or 0) + 1:
        return True
    if last.type == "LBRACE" or following is None or following.type not in _BLOCKS:
        return False
    return before is last or before.line == last.end_line  # not between a block and the comments above it
