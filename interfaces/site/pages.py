"""The pages of a catalogue: one for each interface, one for each file with types, a list of all."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

from interfaces.compare import Comparison, between, compare
from interfaces.load import Catalogue
from interfaces.model import (
    Alias,
    Case,
    Definition,
    Error,
    Field,
    Function,
    Interface,
    Namespace,
    Shared,
    Struct,
    Variant,
)
from interfaces.python.blocks import Block, Call
from interfaces.python.names import of_module
from interfaces.scope import Found, Scope
from interfaces.site import programs_in_ocaml, programs_in_python
from interfaces.site.markup import Markup, anchor, element, joined, link, paragraphs, table, type_

_STATIC: Final = ("style.css", "search.js")
_PROGRAMS: Final = (
    ("Client", "Python", programs_in_python.client),
    ("Server", "Python", programs_in_python.server),
    ("Client", "OCaml", programs_in_ocaml.client),
    ("Server", "OCaml", programs_in_ocaml.server),
)


@dataclass(frozen=True, slots=True)
class _Entry:
    """Something that can be searched for."""

    name: str
    kind: str
    about: str
    page: str


def write_pages(
    catalogue: Catalogue, *, package: str = "chain", since: Catalogue | None = None
) -> dict[str, str]:
    """The texts of all files, by their names in a folder. The catalogues must be without mistakes.

    `package`: the generated package that examples in both languages import. `since`: an earlier state of the
    same definitions; each page tells then what has changed.
    """
    site = _Site(catalogue, package, since)
    written = {page: site.interface(file, each) for page, file, each in site.interfaces()}
    written |= {page: site.shared(file) for file, page in site.files()}
    written["index.html"] = site.index()
    written["entries.js"] = f"const ENTRIES = {json.dumps([_as_json(each) for each in site.entries])};\n"
    static = files("interfaces.site")
    return written | {name: static.joinpath(name).read_text("utf-8") for name in _STATIC}


def _as_json(each: _Entry) -> list[str]:
    return [each.name, each.kind, each.about, each.page]


class _Site:
    def __init__(self, catalogue: Catalogue, package: str, since: Catalogue | None) -> None:
        self.entries: list[_Entry] = []
        self._catalogue = catalogue
        self._package = package
        self._changes = {(each.name, each.new): each for each in compare(since, catalogue)} if since else {}
        self._pages: dict[tuple[str, ...], str] = {
            (file, str(each)): page for page, file, each in self.interfaces()
        }
        self._pages |= {(file,): page for file, page in self.files()}

    def interfaces(self) -> Iterator[tuple[str, str, Interface]]:
        """Page, file and interface, in the order of names and versions."""
        for file, each in sorted(
            self._catalogue.interfaces(), key=lambda pair: (pair[1].name, pair[1].version)
        ):
            yield f"{of_module(each)}.html", file, each

    def files(self) -> Iterator[tuple[str, str]]:
        """The files that define what others share, with their pages."""
        for file, read in self._catalogue.files.items():
            if any(not isinstance(each, Interface) for each in read.definitions):
                name = file.removesuffix(".idl").replace("_", "__").replace("/", "_-")  # no two are alike
                yield file, f"file-{name}.html"

    # --- pages

    def index(self) -> str:
        rows = [
            (element("a", each.name, href=page), _version(each), each.description, ", ".join(each.owners))
            for page, _, each in self.interfaces()
        ]
        shared = [(element("a", file, href=page), str(self._count(file))) for file, page in self.files()]
        body = joined(
            (
                element("h1", "Interfaces"),
                table(("Interface", "Version", "", "Owners"), rows),
                element("h2", "Shared by several"),
                table(("File", "Definitions"), shared),
            )
        )
        return _page("Interfaces", Markup(), body)

    def _count(self, file: str) -> int:
        definitions = self._catalogue.files[file].definitions
        return sum(not isinstance(each, Interface) for each in definitions)

    def shared(self, file: str) -> str:
        page, scope = self._pages[(file,)], self._catalogue.scopes[file]
        shared = [each for each in self._catalogue.files[file].definitions if not isinstance(each, Interface)]
        parts = [element("h1", file), self._types(shared, scope, page)]
        outline = [self._outline(each, scope, page) for each in shared]
        return _page(file, element("ul", *outline), joined(parts))

    def interface(self, file: str, each: Interface) -> str:
        page, scope = self._pages[(file, str(each))], self._catalogue.scopes[file].inside(each)
        self.entries.append(_Entry(str(each), "interface", each.description, page))
        parts = [
            element("h1", each.name, " ", element("span", _version(each), class_="version")),
            paragraphs(each.description),
            element("p", "Owners: ", ", ".join(each.owners), class_="owners"),
            self._changed(file, each),
            *self._block(each, Block(each, scope, (each.name,)), page),
        ]
        return _page(str(each), element("ul", *self._outlines(each.members, scope, page)), joined(parts))

    # --- changes

    def _changed(self, file: str, each: Interface) -> Markup:
        """Against the earlier state, and against the major version before."""
        found = [self._changes[key] for key in [(each.name, each.version)] if key in self._changes]
        found += self._from_the_major_before(file, each)
        parts: list[Markup] = []
        for one in found:
            lines = [
                element("li", f"{change.where}: {change.text}", element("em", f" ({change.breaks.value})"))
                for change in one.changes
            ]
            said = (
                element("ul", *lines)
                if lines
                else element("p", "Nothing that a caller or server would notice.")
            )
            parts.append(element("h3", f"Since {'.'.join(map(str, one.old))}"))
            parts.append(said)
        return joined((element("h2", "Changes", id="changes"), *parts)) if parts else Markup()

    def _from_the_major_before(self, file: str, each: Interface) -> list[Comparison]:
        earlier = [
            (one, scope)
            for one, scope in (
                (one, self._catalogue.scopes[name]) for name, one in self._catalogue.interfaces()
            )
            if one.name == each.name and one.version < each.version
        ]
        if not earlier:
            return []
        before, scope = max(earlier, key=lambda pair: pair[0].version)
        return [between(before, scope, each, self._catalogue.scopes[file])]

    # --- outlines

    def _outlines(self, members: Sequence[Definition], scope: Scope, page: str) -> Iterator[Markup]:
        for each in sorted(members, key=_rank):
            if isinstance(each, Namespace):
                inner = self._outlines(each.members, scope.inside(each), page)
                yield element("li", each.name, element("ul", *inner))
            elif isinstance(each, Function):
                name = ".".join((*scope.where[2:], each.name))
                yield element("li", element("a", each.name, href=f"#{name}"), class_="function")
            elif not isinstance(each, Interface):
                yield self._outline(each, scope, page)

    def _outline(self, each: Shared, scope: Scope, page: str) -> Markup:
        return element("li", link(Found(each, scope, None), page, self._pages, each.name))

    # --- definitions

    def _block(self, whole: Interface, each: Block, page: str) -> Iterator[Markup]:
        members = each.definition.members
        functions = [one for one in members if isinstance(one, Function)]
        shared = [one for one in members if isinstance(one, Struct | Variant | Alias | Error)]
        if functions:
            yield element(
                "h2", "Functions" if len(each.path) == 1 else f"Functions of {'.'.join(each.path[1:])}"
            )
        for one in functions:
            yield self._function(whole, Call(one, each), page)
        if shared:
            yield element(
                "h2", "Types and errors" if len(each.path) == 1 else f"Types of {'.'.join(each.path[1:])}"
            )
            yield self._types(shared, each.scope, page)
        for member in members:
            if isinstance(member, Namespace):
                inner = Block(member, each.scope.inside(member), (*each.path, member.name))
                yield joined((element("h2", ".".join(inner.path[1:])), paragraphs(member.description)))
                yield from self._block(whole, inner, page)

    def _function(self, whole: Interface, call: Call, page: str) -> Markup:
        function, name, scope = call.function, ".".join(call.path), call.block.scope
        self.entries.append(_Entry(name, "function", function.description, f"{page}#{name}"))
        errors = [
            link(found, page, self._pages, found.definition.name)
            for path in function.raises
            if (found := scope.find(path)) is not None
        ]
        raises = Markup(", ".join(errors))
        parts = [
            element("h3", name),
            paragraphs(function.description),
            table(("In", "Type", ""), self._rows(function.inputs, scope, page)),
            table(("Out", "Type", ""), self._rows(function.outputs, scope, page)),
            element("p", "Raises ", raises, ".", class_="raises") if errors else Markup(),
            *(
                _example(f"{side} in {language}", write(whole, call, self._package))
                for side, language, write in _PROGRAMS
            ),
        ]
        return element("section", *parts, id=name, class_="function")

    def _rows(self, parts: Sequence[Field | Case], scope: Scope, page: str) -> list[tuple[str, str, str]]:
        return [
            (
                element("code", each.name),
                element("code", type_(each.type, scope, page, self._pages)) if each.type else "",
                paragraphs(each.description),
            )
            for each in parts
        ]

    def _types(self, shared: Sequence[Shared], scope: Scope, page: str) -> Markup:
        return joined(self._type(Found(each, scope, None), page) for each in shared)

    def _type(self, found: Found, page: str) -> Markup:
        each, scope = found.definition, found.scope
        name, kind = ".".join((*scope.where[2:], each.name)), _kind(each)
        self.entries.append(_Entry(name, kind, each.description, f"{page}#{anchor(found)}"))
        body = Markup()
        match each:
            case Struct(fields=parts) | Variant(cases=parts):
                body = table(
                    ("Field" if kind == "struct" else "Case", "Type", ""), self._rows(parts, scope, page)
                )
            case Alias(type=said) | Error(type=said) if said is not None:
                body = element("p", element("code", type_(said, scope, page, self._pages)))
        title = element("h3", name, " ", element("span", kind, class_="kind"))
        return element("section", title, paragraphs(each.description), body, id=anchor(found), class_=kind)


def _of(said: str, each: Block) -> str:
    return said if len(each.path) == 1 else f"{said} of {'.'.join(each.path[1:])}"


def _rank(each: Definition) -> int:
    """Functions come first, namespaces last."""
    return 0 if isinstance(each, Function) else 2 if isinstance(each, Namespace) else 1


def _kind(each: Definition) -> str:
    return "type" if isinstance(each, Alias) else type(each).__name__.lower()


def _version(each: Interface) -> str:
    return ".".join(map(str, each.version))


def _example(title: str, program: str) -> Markup:
    copy = element("button", "Copy", type="button", class_="copy")
    return element("details", element("summary", title), copy, element("pre", element("code", program)))


def _page(title: str, outline: Markup, body: Markup) -> str:
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", title),
        element("link", rel="stylesheet", href="style.css"),
        element("script", src="entries.js", defer=True),
        element("script", src="search.js", defer=True),
    )
    search = element("input", type="search", id="search", placeholder="Search", aria_label="Search")
    top = element(
        "header",
        element("a", "Interfaces", href="index.html"),
        search,
        element("ol", id="found", hidden=True),
    )
    page = element("body", top, element("nav", outline, aria_label="On this page"), element("main", body))
    whole = element("html", head, page, lang="en")
    return f"<!DOCTYPE html>\n<!-- Written by `sapwood idl docs` -->\n{whole}\n"
