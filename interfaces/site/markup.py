"""Elements of HTML, and types with links to their definitions."""

from collections.abc import Iterable, Mapping
from html import escape
from typing import Final

from interfaces.model import Applied, Path, Type
from interfaces.scope import Found, Scope

_EMPTY: Final = ("input", "link", "meta")


class Markup(str):
    """Text that is HTML already. All other text is escaped where it gets into an element."""

    __slots__ = ()


def element(name: str, /, *inner: str, **attributes: str | bool) -> Markup:
    """`class_` is the attribute `class`, `data_x` is `data-x`; True = an attribute without a value."""
    words = [name]
    for key, value in attributes.items():
        said = key.rstrip("_").replace("_", "-")
        if value is True:
            words.append(said)
        elif value is not False:
            words.append(f'{said}="{escape(value)}"')
    opened = f"<{' '.join(words)}>"
    return Markup(opened if name in _EMPTY else f"{opened}{joined(inner)}</{name}>")


def joined(parts: Iterable[str]) -> Markup:
    return Markup("".join(each if isinstance(each, Markup) else escape(each) for each in parts))


def paragraphs(text: str) -> Markup:
    """A description: each of its lines is one."""
    return joined(element("p", line) for line in text.splitlines() if line.strip())


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> Markup:
    """Nothing where there are no rows."""
    lines = [element("tr", *(element("td", cell) for cell in row)) for row in rows]
    if not lines:
        return Markup()
    head = element("thead", element("tr", *(element("th", each) for each in heads)))
    return element("div", element("table", head, element("tbody", *lines)), class_="table")


def anchor(found: Found) -> str:
    """Where the page of a definition's block has it."""
    return "-".join(("type", *found.scope.where[2:], found.definition.name))


def link(found: Found, page: str, pages: Mapping[tuple[str, ...], str], said: str) -> Markup:
    """A definition's name, which leads to it. `page`: the one that has the link."""
    there = pages[found.scope.where[:2]] if found.scope.where[:2] in pages else pages[found.scope.where[:1]]
    return element("a", said, href=f"{'' if there == page else there}#{anchor(found)}")


def type_(said: Type | None, scope: Scope, page: str, pages: Mapping[tuple[str, ...], str]) -> Markup:
    """A type as its definition writes it."""
    match said:
        case None:
            return Markup()
        case Applied(name=name, arguments=arguments):
            inner = (type_(each, scope, page, pages) for each in arguments)
            return joined((name, "<", Markup(", ".join(inner)), ">"))
        case Path() if (found := scope.find(said)) is not None:
            return link(found, page, pages, str(said))
    return joined((str(said),))
