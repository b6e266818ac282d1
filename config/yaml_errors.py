"""Mistakes of a file that is not YAML, in words of people who write configurations.

PyYAML speaks of scalars, block mappings and tokens. Wrinkle: it knows an error by its text only; a text that
stands in no row of the table is told as a wrong sign at its place.
"""

import re
from typing import Any, Final

import yaml

from config.document import Mark

_FALLBACK: Final = "something stands here that YAML does not allow: compare quotes, brackets and indentation"
_QUOTED: Final = "put the whole value in quotes"
_TABLE: Final = (
    (
        "mapping values are not allowed",
        f"': ' cannot stand here: {_QUOTED}, or indent this line as the one above it",
    ),
    (
        "sequence entries are not allowed",
        "a list's '- ' cannot stand here: begin a new line with it",
    ),
    ("mapping keys are not allowed", f"'? ' cannot stand here: {_QUOTED}"),
    ("character '\\\\t' that cannot start", "a tab stands here: indent with spaces"),
    (
        "character '(?P<one>.+)' that cannot start",
        "a value cannot begin with {one}: put it in quotes",
    ),
    ("could not find expected ':'", "expected ': ' after the key of {where}"),
    ("while parsing a flow mapping", "expected ',' or '}}': the '{{' of {where} is not closed"),
    ("while parsing a flow sequence", "expected ',' or ']': the '[' of {where} is not closed"),
    ("quoted scalar.*found unexpected", "the quote that begins in {where} is not closed"),
    (
        "found unknown escape character '(?P<one>.+)'",
        "\\{one} means nothing in double quotes: write \\\\{one}, or use single quotes",
    ),
    ("escape sequence of (?P<one>[0-9]+)", "expected {one} hexadecimal digits after the backslash"),
    (
        "expected <block end>",
        "this does not belong to the section that begins in {where}: look at its indentation, "
        "or for a bracket or quote too many",
    ),
    ("expected the node content", "expected a value, and found none"),
    (
        "expected '<document start>'",
        "expected '---' before this line, or that the lines above are indented as it is",
    ),
    ("while scanning (an anchor|an alias)", "'&' and '*' are not allowed: put the value in quotes"),
    ("(a tag|tag handle)", "'!' is not allowed: put the value in quotes"),
    ("while scanning a block scalar", "'|' and '>' stand alone at the end of their line"),
    ("while scanning a directive|directive|YAML document", "a line that begins with '%' is not allowed"),
)


def told(error: yaml.MarkedYAMLError) -> tuple[str, Mark | None]:
    """The mistake, and its place. No word of it is PyYAML's."""
    said = f"{error.context or ''} {error.problem or ''}"
    mark, began = error.problem_mark or error.context_mark, error.context_mark
    where = f"line {began.line + 1}" if began else "the line above"
    for pattern, text in _TABLE:
        if found := re.search(pattern, said):
            return text.format(where=where, **_named(found)), _place(mark)
    return _FALLBACK, _place(mark)


def _named(found: re.Match[str]) -> dict[str, Any]:
    return {name: value for name, value in found.groupdict().items() if value is not None}


def _place(mark: yaml.Mark | None) -> Mark | None:
    return Mark(mark.line + 1, mark.column + 1) if mark else None
