"""Reads a site's file in XML. Values are attributes, sections are elements, lists are elements of elements.

Law: no document type, no entities but the five of XML, UTF-8 only, bounded size, depth and number of
attributes.

Wrinkle: expat tells where an element begins but not where its attributes stand, so the bytes of each
start tag are scanned again for that.
"""

import re
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final
from xml.parsers import expat

from config import build
from config.document import (
    MAX_DEPTH,
    MAX_KEYS,
    UNTYPED,
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
from config.fields import XML, Parts, Scalar, Setting, Values, settings
from config.kinds import shown
from config.model import Site

ROOT: Final = "broker"
_ATTRIBUTE: Final = re.compile(rb"""\s+([^\s=/>]+)\s*=\s*(?:"[^"]*"|'[^']*')""")
_TAG_NAME: Final = re.compile(rb"<[^\s/>]+")
_ACTIVEMQ: Final = "http://activemq.apache.org/schema/"
_SCHEMA_HINTS: Final = frozenset({"xmlns:xsi", "xsi:noNamespaceSchemaLocation"})


@dataclass(slots=True)
class Attribute:
    """One attribute of a start tag."""

    name: str
    text: str
    mark: Mark
    value_mark: Mark


@dataclass(slots=True)
class Element:
    """One element, its attributes and children in the file's order."""

    name: str
    mark: Mark
    attributes: list[Attribute]
    children: list["Element"] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.texts)


def read(data: bytes | str, file: str = "") -> Site:
    """Return the site that `data` describes; `file` names it in errors.

    Raises `ConfigurationError` with every mistake and its place.
    """
    try:
        root = parse(decode(data))
        if root.name == "beans" or any(map(_is_of_activemq, root.attributes)):
            advice = "this is ActiveMQ's own file: `sapwood config convert FILE` makes a site's file of it"
            raise Unreadable(advice, root.mark)
        if root.name != ROOT:
            raise Unreadable(f"<{root.name[:80]}>: expected the element <{ROOT}>", root.mark)
    except Unreadable as error:
        raise failure(file, error) from None
    root.attributes = [one for one in root.attributes if one.name not in _SCHEMA_HINTS]
    return build.site(_section(root, Site), XML, file)


def _is_of_activemq(attribute: Attribute) -> bool:
    return attribute.text.startswith(_ACTIVEMQ) or attribute.name == "brokerName"


def parse(text: str) -> Element:
    """Return the root of any XML that has no document type. Raises `Unreadable`."""
    return _Parser(text).parse()


class _Parser:
    """One run of expat over a whole file."""

    def __init__(self, text: str) -> None:
        self.data = text.encode()
        self.line_starts = [0, *(match.end() for match in re.finditer(b"\n", self.data))]
        self.last_index, self.last_column = 0, 1
        self.open: list[Element] = []
        self.root: Element | None = None
        self.expat = expat.ParserCreate("utf-8")
        self.expat.ordered_attributes = True
        self.expat.buffer_text = True
        self.expat.XmlDeclHandler = self.declaration
        self.expat.StartDoctypeDeclHandler = self.document_type
        self.expat.StartElementHandler = self.start
        self.expat.EndElementHandler = self.end
        self.expat.CharacterDataHandler = self.characters

    def parse(self) -> Element:
        try:
            self.expat.Parse(self.data, True)
        except expat.ExpatError as error:
            mark = self.mark(self.expat.ErrorByteIndex)
            raise Unreadable(f"this is not well-formed XML: {expat.ErrorString(error.code)}", mark) from None
        assert self.root is not None  # expat refuses a file without an element
        return self.root

    def mark(self, index: int) -> Mark:
        """The place of the byte at `index`."""
        index = max(index, 0)  # expat says -1 of a file without an element
        line = bisect_right(self.line_starts, index)
        start, column = self.line_starts[line - 1], 1
        if start <= self.last_index <= index:  # a file may be one long line: count on from the last place
            start, column = self.last_index, self.last_column
        column += len(self.data[start:index].decode("utf-8", "replace"))
        self.last_index, self.last_column = index, column
        return Mark(line, column)

    def here(self) -> Mark:
        return self.mark(self.expat.CurrentByteIndex)

    def declaration(self, version: str, encoding: str | None, standalone: int) -> None:
        if encoding and encoding.lower() not in ("utf-8", "us-ascii", "ascii"):
            raise Unreadable(f"encoding {shown(encoding)}: expected UTF-8", self.here())

    def document_type(self, *_: Any) -> None:
        begin = self.data.rfind(b"<!DOCTYPE", 0, self.expat.CurrentByteIndex + 1)
        raise Unreadable("a document type (<!DOCTYPE) is not allowed: leave it out", self.mark(begin))

    def start(self, name: str, attributes: list[str]) -> None:
        mark = self.here()
        if len(self.open) >= MAX_DEPTH:
            raise Unreadable(f"elements stand in each other deeper than {MAX_DEPTH}", mark)
        if len(attributes) > 2 * MAX_KEYS:
            raise Unreadable(f"<{name[:80]}> has more than {MAX_KEYS} attributes", mark)
        places = self.attribute_places(self.expat.CurrentByteIndex) if attributes else []
        pairs = zip(attributes[::2], attributes[1::2], strict=True)
        found = [Attribute(*pair, *place) for pair, place in zip(pairs, places, strict=True)]
        element = Element(name, mark, found)
        if self.open:
            self.open[-1].children.append(element)
        else:
            self.root = element
        self.open.append(element)

    def attribute_places(self, index: int) -> list[tuple[Mark, Mark]]:
        """Where each attribute of the start tag at `index` stands: its name, and its value."""
        name = _TAG_NAME.match(self.data, index)
        places = []
        match = _ATTRIBUTE.match(self.data, name.end() if name else index)
        while match:
            quote = re.compile(rb"=\s*.").search(self.data, match.end(1))
            places.append((self.mark(match.start(1)), self.mark(quote.end() if quote else match.start(1))))
            match = _ATTRIBUTE.match(self.data, match.end())
        return places

    def end(self, name: str) -> None:
        self.open.pop()

    def characters(self, text: str) -> None:
        if self.open:
            self.open[-1].texts.append(text)


def _section(element: Element, cls: type[Any]) -> SectionNode:
    known = {XML(setting.name): setting for setting in settings(cls)}
    bare = {XML(each.item): each for each in known.values() if isinstance(each, Parts) and each.bare}
    entries = [_attribute(one, known.get(one.name)) for one in element.attributes]
    entries += [_child(one, known.get(one.name), element.name) for one in _wrapped(element, bare)]
    return SectionNode(tuple(entries), element.mark, _stray_text(element))


def _wrapped(element: Element, bare: dict[str, Parts]) -> list[Element]:
    """Its children; those that stand bare are in a list's element, where the first of them stands."""
    children: list[Element] = []
    made: dict[str, Element] = {}
    for child in element.children:
        if child.name not in bare:
            children.append(child)
            continue
        if child.name not in made:
            made[child.name] = Element(XML(bare[child.name].name), child.mark, [])
            children.append(made[child.name])
        made[child.name].children.append(child)
    return children


def _attribute(one: Attribute, setting: Setting | None) -> Entry:
    wrong = setting is not None and not isinstance(setting, Scalar)
    advice = f"{one.name!r} is an element, not an attribute: write <{one.name}> below" if wrong else ""
    return Entry(one.name, one.mark, ScalarNode(one.text, UNTYPED, one.value_mark), advice)


def _child(element: Element, setting: Setting | None, around: str) -> Entry:
    node: Node = ScalarNode(element.text, UNTYPED, element.mark)
    advice = ""
    match setting:
        case Scalar():
            advice = f'{element.name!r} is an attribute, not an element: write <{around} {element.name}="…">'
        case Values(item=item):
            node = _list(element, XML(item), _value)
        case Parts(item=item, section=cls):
            node = _list(element, XML(item), lambda child: _section(child, cls))
        case None:
            pass
        case _:
            node = _section(element, setting.section)
    return Entry(element.name, element.mark, node, advice)


def _list(element: Element, item: str, convert: Callable[[Element], Node]) -> ListNode:
    expected = f"expected <{item}> elements in <{element.name}>"
    strays = [Stray(one.mark, f"attribute {one.name!r}: {expected}") for one in element.attributes]
    strays += [Stray(one.mark, f"<{one.name}>: {expected}") for one in element.children if one.name != item]
    items = tuple(convert(one) for one in element.children if one.name == item)
    return ListNode(items, element.mark, (*_stray_text(element), *strays))


def _value(element: Element) -> Node:
    """An element that should hold nothing but one value."""
    if element.attributes or element.children:
        return SectionNode((), element.mark)
    return ScalarNode(element.text, UNTYPED, element.mark)


def _stray_text(element: Element) -> tuple[Stray, ...]:
    text = element.text.strip()
    return (
        (Stray(element.mark, f"text {shown(text)} in <{element.name}> has no meaning here"),) if text else ()
    )
