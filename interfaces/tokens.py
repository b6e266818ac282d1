"""A text as its words and comments, with what is wrong with single words.

Law: this takes time in proportion to the text, whatever the text is. Every text has words: characters that
have no place in the language are problems here, and nobody sees them further on.
"""

import functools
import re
from importlib.resources import files
from typing import Final, NamedTuple

from lark import Lark, Token

from interfaces.errors import MOST, InterfaceError, Problem

MAX_CHARACTERS: Final = 64 * 1024
MAX_DEPTH: Final = 32
"""Blocks in blocks, and types in types, together."""
_OPENS: Final = {"LBRACE": 1, "LESSTHAN": 1, "RBRACE": -1, "MORETHAN": -1}
_STRING: Final = re.compile(r'"(?:[^"\\]|\\["\\n])*"')
_VERSION: Final = re.compile(r"(0|[1-9][0-9]{0,5})\.(0|[1-9][0-9]{0,5})")


class Words(NamedTuple):
    """`words` in their order, comments among them; `problems` as far as single words have any."""

    words: list[Token]
    problems: list[Problem]


@functools.cache
def parser() -> Lark:
    """The parser of the grammar, made once."""
    grammar = files("interfaces").joinpath("grammar.lark").read_text("utf-8")
    return Lark(grammar, start="file", parser="lalr", lexer="basic", maybe_placeholders=True)


def read_words(text: str, file: str = "") -> Words:
    """All words of a text. Raises `InterfaceError` where it is too long, or too deep."""
    if len(text) > MAX_CHARACTERS:
        said = f"{len(text)} characters: expected {MAX_CHARACTERS} at most; divide it into several files"
        raise InterfaceError([Problem(file, 0, 0, said)])
    words = [word for word in parser().lex(text, dont_ignore=True) if word.type != "SPACE"]
    problems: list[Problem] = []
    depth = 0
    for word in words:
        depth = max(0, depth + _OPENS.get(word.type, 0))
        if depth > MAX_DEPTH:
            said = f"more than {MAX_DEPTH} levels: give a part of it a name, and use the name here"
            raise InterfaceError([*problems[:MOST], problem(file, word, said)])
        if wrong := _wrong(word):
            problems.append(problem(file, word, wrong))
    return Words([word for word in words if word.type != "OTHER"], problems[:MOST])


def problem(file: str, word: Token, message: str) -> Problem:
    return Problem(file, word.line or 0, word.column or 0, message)


def is_version(word: str) -> bool:
    return _VERSION.fullmatch(word) is not None


def _wrong(word: Token) -> str:
    match word.type:
        case "OTHER":
            return f"unexpected {shown(word)}: take it out, or put it into a text or behind a #"
        case "STRING" if not _STRING.fullmatch(word):
            closed = len(word) > 1 and word.endswith('"')
            how = r"use \", \\ and \n only" if closed else 'end it with " on the same line'
            return f"the text {shown(word)} is not right: {how}"
        case "VERSION" if not is_version(word):
            return f"{shown(word)} is no version: expected MAJOR.MINOR, as 1.0"
    return ""


def shown(word: str) -> str:
    """A word as it stands in a message: short, and printable."""
    return repr(str(word) if len(word) <= 40 else f"{word[:39]}…")
