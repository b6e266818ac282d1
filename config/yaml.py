"""Reads a site's file in YAML 1.2 as far as a configuration needs it.

Law: one document, no anchors, no aliases, no tags, no key twice, bounded size, depth and number of keys.
PyYAML only splits the text into events; what a plain word is, is decided here, so `no` is a text and `0042`
is a number (write names that look like numbers in quotes).
"""

import re
from typing import Any, Final

import yaml

from config import build
from config.document import (
    MAX_DEPTH,
    MAX_KEYS,
    Entry,
    ListNode,
    Mark,
    Node,
    ScalarNode,
    SectionNode,
    Stray,
    Unreadable,
    decode,
    failure,
)
from config.errors import LISTED, ConfigurationError, Problem, did_you_mean
from config.fields import YAML, settings
from config.kinds import shown
from config.model import Site
from config.yaml_errors import told

ROOT: Final = "broker"
_PLAIN: Final = (
    ("null", re.compile(r"|~|null|Null|NULL")),
    ("boolean", re.compile(r"true|True|TRUE|false|False|FALSE")),
    ("integer", re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", re.ASCII)),
    (
        "number",
        re.compile(
            r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
        ),
    ),
)


def read(data: bytes | str, file: str = "") -> Site:
    """Return the site that `data` describes; `file` names it in errors.

    Raises `ConfigurationError` with every mistake and its place.
    """
    return build.site(section(data, file, ROOT, Site), YAML, file)


def section(data: bytes | str, file: str, root: str, model: type[Any]) -> SectionNode:
    """Return the section below `root`, the only key of the file; `model` knows what may stand in it.

    Raises `ConfigurationError` where the file is not YAML, or has no such section.
    """
    try:
        document = _Reader(decode(data), root).document()
    except Unreadable as error:
        raise failure(file, error) from None
    return _only_section(document, file, root, model)


class _Reader:
    """Makes nodes of PyYAML's events."""

    def __init__(self, text: str, root: str) -> None:
        self.text = text
        self.root = root
        self.events = yaml.parse(text, Loader=yaml.SafeLoader)

    def document(self) -> Node:
        self.next()
        if isinstance(self.next(), yaml.StreamEndEvent):
            raise Unreadable(f"the file is empty: expected the key {self.root!r}", Mark(1, 1))
        node = self.node(self.next(), 0)
        self.next()
        rest = self.next()
        if not isinstance(rest, yaml.StreamEndEvent):
            raise Unreadable("a second document begins here: expected one document", _mark(rest))
        return node

    def next(self) -> yaml.Event:
        try:
            return next(self.events)
        except yaml.reader.ReaderError as error:
            text = f"the character U+{ord(self.text[error.position]):04X} is not allowed in YAML: remove it"
            raise Unreadable(text, self.place(error.position)) from None
        except yaml.MarkedYAMLError as error:
            text, place = told(error)
            raise Unreadable(f"this is not YAML: {text}", place) from None
        except (ValueError, OverflowError):
            text = "a number after a backslash is no character: use single quotes"
            raise Unreadable(f"this is not YAML: {text}") from None

    def place(self, position: int) -> Mark:
        before = self.text[:position]
        return Mark(before.count("\n") + 1, position - before.rfind("\n"))

    def node(self, event: yaml.Event, depth: int) -> Node:
        mark = _mark(event)
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise Unreadable("anchors and aliases (&, *) are not allowed: write the value out", mark)
        if getattr(event, "tag", None):
            raise Unreadable("tags (!) are not allowed: leave it out", mark)
        if depth > MAX_DEPTH:
            raise Unreadable(f"sections stand in each other deeper than {MAX_DEPTH}", mark)
        if isinstance(event, yaml.MappingStartEvent):
            return self.mapping(mark, depth + 1)
        if isinstance(event, yaml.SequenceStartEvent):
            return self.sequence(mark, depth + 1)
        assert isinstance(event, yaml.ScalarEvent)
        return _scalar(event, mark)

    def mapping(self, mark: Mark, depth: int) -> SectionNode:
        entries: list[Entry] = []
        while not isinstance(event := self.next(), yaml.MappingEndEvent):
            key = self.node(event, depth)
            if not isinstance(key, ScalarNode):
                raise Unreadable("a key is a word here, not a list or a section", key.mark)
            if len(entries) == MAX_KEYS:
                raise Unreadable(f"a section has more than {MAX_KEYS} keys", key.mark)
            entries.append(Entry(key.text, key.mark, self.node(self.next(), depth)))
        return SectionNode(tuple(entries), mark)

    def sequence(self, mark: Mark, depth: int) -> ListNode:
        items = []
        while not isinstance(event := self.next(), yaml.SequenceEndEvent):
            items.append(self.node(event, depth))
        return ListNode(tuple(items), mark)


def _mark(event: yaml.Event) -> Mark:
    mark = event.start_mark
    return Mark(mark.line + 1, mark.column + 1) if mark else Mark(1, 1)


def _scalar(event: yaml.ScalarEvent, mark: Mark) -> ScalarNode:
    text: str = event.value
    if event.style is not None:
        return ScalarNode(text, "text", mark)
    tag = next((tag for tag, pattern in _PLAIN if pattern.fullmatch(text)), "text")
    return ScalarNode(text.lower() if tag == "boolean" else text, tag, mark)


def _only_section(document: Node, file: str, root: str, model: type[Any]) -> SectionNode:
    """Return the section under the only key of the file."""
    entries = document.entries if isinstance(document, SectionNode) else ()
    found = [entry for entry in entries if entry.key == root]
    others = [entry for entry in entries if entry.key != root][:LISTED]
    strays = [Stray(entry.mark, _stray(entry, root, model)) for entry in others]
    strays += [Stray(entry.mark, f"{root!r} stands here a second time") for entry in found[1:]]
    if not found:
        strays.insert(0, Stray(document.mark, f"expected the key {root!r} with everything below it"))
        raise ConfigurationError(Problem(stray.message, file, *stray.mark) for stray in strays)
    node = found[0].node
    section = node if isinstance(node, SectionNode) else SectionNode((), node.mark)
    if section is not node and not (isinstance(node, ScalarNode) and node.tag == "null"):
        strays.append(Stray(node.mark, f"{root!r}: expected a section with keys"))
    return SectionNode(section.entries, found[0].mark, tuple(strays))


def _stray(entry: Entry, root: str, model: type[Any]) -> str:
    if entry.key in (setting.name for setting in settings(model)):
        return f"{entry.key!r} belongs below {root!r}: indent it"
    return (
        f"{shown(entry.key)}: expected {root!r} as the only key of the file{did_you_mean(entry.key, [root])}"
    )
