"""A file's content before its meaning: sections, lists and scalars, each with its place.

XML and YAML are both brought into this form, and `config.build` makes the model of it.
"""

from typing import Final, NamedTuple

from config.errors import ConfigurationError, Problem
from config.records import record

MAX_BYTES: Final = 2**20
MAX_DEPTH: Final = 12
MAX_KEYS: Final = 1000
"""Of one section, or attributes of one element; no section of ours has a hundred settings."""

UNTYPED: Final = "untyped"
"""Tag of a scalar whose format has text only, such as an XML attribute."""


class Mark(NamedTuple):
    """A place in a file; both count from 1, the column in characters."""

    line: int
    column: int


@record
class ScalarNode:
    """`tag`: text, integer, number, boolean, null, or untyped."""

    text: str
    tag: str
    mark: Mark


@record
class ListNode:
    items: tuple["Node", ...]
    mark: Mark
    strays: tuple["Stray", ...] = ()


@record
class Entry:
    """One key and its value; `misplaced` says how the key would be right where the file has it wrong."""

    key: str
    mark: Mark
    node: "Node"
    misplaced: str = ""


@record
class SectionNode:
    entries: tuple[Entry, ...]
    mark: Mark
    strays: tuple["Stray", ...] = ()


class Stray(NamedTuple):
    """Something that has no place where it stands, and what would be right."""

    mark: Mark
    message: str


Node = ScalarNode | ListNode | SectionNode


class Unreadable(Exception):
    """The file ends here: it is not of its format, or exceeds a limit."""

    def __init__(self, message: str, mark: Mark | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.mark = mark


def decode(data: bytes | str, most: int = MAX_BYTES) -> str:
    """Return the text of a file, which must be UTF-8 of at most `most` bytes; raise `Unreadable`."""
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    if len(raw) > most:
        raise Unreadable(f"the file has {len(raw)} bytes: expected at most {most}")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode("utf-8", "replace")
        line = before.count("\n") + 1
        column = len(before) - (before.rfind("\n") + 1) + 1
        raise Unreadable("this byte is not UTF-8: save the file as UTF-8", Mark(line, column)) from None


def failure(file: str, unreadable: Unreadable) -> ConfigurationError:
    """The error that tells a caller about `unreadable`."""
    line, column = unreadable.mark or (None, None)
    return ConfigurationError([Problem(unreadable.message, file, line, column)])
