"""Types and errors as modules, each behind those that it needs; a circle of them is recursive modules."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import indent
from typing import Final

from interfaces.errors import InterfaceError, Problem
from interfaces.finite import references
from interfaces.model import Alias, Case, Error, Field, Path, Struct, Type, Variant
from interfaces.ocaml.names import capital, of_definition, of_file, value
from interfaces.ocaml.text import comment, listed, literal, structure
from interfaces.python.types import may_be_none, types_of
from interfaces.scope import Found, Key, Scope, plain

_BASIC: Final = {
    "int64": "int64",
    "string": "string",
    "double": "float",
    "boolean": "bool",
    "unit": "unit",
    "channel": "Sapwood.Channel.t",
}
_MODULES: Final = {"channel": "Sapwood.Channel"}
"""Types that write and read themselves."""


@dataclass(eq=False)
class OcamlLibrary:
    """The text of one library. `package`: whose subpackages all are. `file`: where its definitions stand.

    `within`: the interface, as scopes say it; '' = the file itself. `used`: other subpackages.
    """

    package: str
    file: str
    within: str = ""
    used: set[str] = field(default_factory=set)
    _owners: dict[str, str] = field(default_factory=dict)

    def own(self, found: Found) -> str:
        """Take the name of a definition. Raises `InterfaceError` where another one has it."""
        name = of_definition(self.package, found)
        file, *blocks = found.scope.where
        owner = f"{'.'.join((*blocks, found.definition.name))} of {file}"
        first = self._owners.setdefault(name, owner)
        if first != owner:
            said = f"{owner} and {first} would both be called {name} in OCaml: rename one"
            raise InterfaceError([Problem(self.file, found.definition.at.line, 1, said)])
        return name

    def module(self, found: Found) -> str:
        """The module of a definition, as the functions of this library name it."""
        file, *blocks = found.scope.where
        name = of_definition(self.package, found)
        if blocks:
            return f"Types.{name}"
        if file == self.file and not self.within:
            return name
        self.used.add(of_file(file))
        return f"{capital(self.package, of_file(file))}.{name}"


@dataclass(frozen=True, eq=False)
class TypeWords:
    """How types are written at one place. `own`: the definition in whose module that is."""

    library: OcamlLibrary
    scope: Scope
    own: Key | None = None
    in_types: bool = False

    def _member(self, found: Found, name: str) -> str:
        if found.key == self.own:
            return name
        module = self.library.module(found)
        return f"{module.removeprefix('Types.') if self.in_types else module}.{name}"

    def type(self, type_: Type) -> str:
        """A type."""
        if isinstance(type_, Path):
            found = self.scope.find(type_)
            return self._member(found, "t") if found is not None else _BASIC[str(type_)]
        inner = [self.type(each) for each in type_.arguments]
        forms = {"array": "{} list", "dict": "({} * {}) list", "option": "{} option", "pair": "({} * {})"}
        return forms[type_.name].format(*inner)

    def write(self, type_: Type) -> str:
        """The function that makes JSON of a value, as an argument."""
        return self._function(type_, "Write", "to_json")

    def read(self, type_: Type) -> str:
        return self._function(type_, "Read", "of_json")

    def _function(self, type_: Type, house: str, name: str) -> str:
        if isinstance(type_, Path):
            found = self.scope.find(type_)
            if found is not None:
                return self._member(found, name)
            own = _MODULES.get(str(type_))
            return f"{own}.{name}" if own else f"Sapwood.{house}.{type_}"
        inner = [self._function(each, house, name) for each in type_.arguments]
        if type_.name == "dict":
            key, _ = plain(type_.arguments[0], self.scope)
            inner[0] = f"Sapwood.{house}.{'number' if str(key) == 'int64' else 'text'}_key"
        return f"(Sapwood.{house}.{type_.name} {' '.join(inner)})"

    # --- records

    def record(self, fields: Sequence[Field]) -> str:
        """The type of one; unit without fields."""
        if not fields:
            return "unit"
        lines = [
            f"  {value(each.name)} : {self.type(each.type)};  {comment(each.description)}" for each in fields
        ]
        return "\n".join(("{", *lines, "}"))

    def written(self, fields: Sequence[Field]) -> str:
        """The fields of `v`, as a list for `Sapwood.Write.obj`."""
        parts = [
            f"Sapwood.Write.field {literal(each.name)} {self.write(each.type)} v.{value(each.name)}"
            for each in fields
        ]
        return listed("[", parts, "]")

    def made(self, fields: Sequence[Field]) -> str:
        """A record out of `fields`."""
        parts = []
        for each in fields:
            kind = "optional" if may_be_none(each.type, self.scope) else "field"
            read = f"Sapwood.Read.{kind} fields {literal(each.name)} {self.read(each.type)}"
            parts.append(f"{value(each.name)} = {read}")
        return listed("{", parts, "}")


def has_value(error: Error, scope: Scope) -> bool:
    """Does the error say more than its name?"""
    return error.type is not None and str(plain(error.type, scope)[0]) != "unit"


def write_types(library: OcamlLibrary, found: Sequence[Found]) -> list[str]:
    """The modules of definitions."""
    known = {each.key: each for each in found}
    needs = {
        key: [one.key for type_ in types_of(each.definition) for one in references(type_, each.scope)]
        for key, each in known.items()
    }
    needs = {key: [one for one in several if one in known] for key, several in needs.items()}
    modules = []
    for group in _together(needs):
        written = [_module(library, known[key], key in needs[key], len(group) > 1) for key in group]
        modules.append("\n\n".join(written) if len(group) == 1 else "\n\nand ".join(written))
        if len(group) > 1:
            modules[-1] = f"module rec {modules[-1]}"
    return [each for each in modules if each]


def _together(needs: Mapping[Key, Sequence[Key]]) -> Iterator[list[Key]]:
    """Those that need each other in one list, behind all others that they need."""
    order = _finished(needs, needs)
    users: dict[Key, list[Key]] = {key: [] for key in needs}
    for key, several in needs.items():
        for one in several:
            users[one].append(key)
    seen: set[Key] = set()
    place = {key: number for number, key in enumerate(needs)}
    groups = [sorted(_finished(users, [key], seen), key=place.__getitem__) for key in reversed(order)]
    yield from (group for group in reversed(groups) if group)


def _finished(
    ways: Mapping[Key, Sequence[Key]],
    starts: Sequence[Key] | Mapping[Key, Sequence[Key]],
    seen: set[Key] | None = None,
) -> list[Key]:
    """All that can be reached, each behind what can be reached from it."""
    seen = set() if seen is None else seen
    done: list[Key] = []
    for start in starts:
        if start in seen:
            continue
        seen.add(start)
        waiting = [(start, iter(ways[start]))]
        while waiting:
            key, further = waiting[-1]
            for each in further:
                if each not in seen:
                    seen.add(each)
                    waiting.append((each, iter(ways[each])))
                    break
            else:
                done.append(key)
                waiting.pop()
    return done


def _module(library: OcamlLibrary, found: Found, is_recursive: bool, in_a_group: bool) -> str:
    """A definition's module; '' of an error without value. In a group: without the word `module`."""
    name, words = library.own(found), TypeWords(library, found.scope, found.key, in_types=True)
    let = "let rec" if is_recursive else "let"
    match found.definition:
        case Struct(fields=fields):
            body = [f"type t = {words.record(fields)}", _struct(words, fields, let)]
        case Variant(cases=cases):
            body = [_cases(words, cases), _variant(words, cases, let)]
        case Alias(type=type_):
            write, read = _applied(words.write(type_)), _applied(words.read(type_))
            body = [f"type t = {words.type(type_)}", _functions(let, f"{write} v", f"{read} json")]
        case Error() as error:
            body = _error(words, error) if has_value(error, found.scope) else []
        case _:
            body = []
    if not body:
        return ""
    about = comment(found.definition.description)
    if not in_a_group:
        return structure(f"{about}\nmodule {name} =", *body)
    signature = structure(
        f"{name} :",
        body[0],
        "val to_json : t -> Sapwood.Json.t\nval of_json : Sapwood.Json.t -> t",
        opened="sig",
    )
    return structure(f"{signature} =", *body)


def _applied(function: str) -> str:
    """A function that stands before its argument needs no brackets around it."""
    return function[1:-1] if function.startswith("(") else function


def _functions(let: str, written: str, made: str) -> str:
    return f"{let} to_json (v : t) : Sapwood.Json.t = {written}\n\n{let} of_json json : t = {made}"


def _struct(words: TypeWords, fields: Sequence[Field], let: str) -> str:
    made = f"\n  let fields = Sapwood.Read.obj json in\n{indent(words.made(fields), '  ')}"
    return _functions(let, f"Sapwood.Write.obj\n{indent(words.written(fields), '  ')}", made)


def _cases(words: TypeWords, cases: Sequence[Case]) -> str:
    lines = []
    for each in cases:
        of = f" of {words.type(each.type)}" if each.type is not None else ""
        lines.append(f"  | {capital(each.name)}{of}  {comment(each.description)}")
    return "\n".join(("type t =", *lines))


def _variant(words: TypeWords, cases: Sequence[Case], let: str) -> str:
    written, made = [], []
    for each in cases:
        name, said = capital(each.name), literal(each.name)
        if each.type is None:
            written.append(f"  | {name} -> Sapwood.Write.case {said}")
            made.append(f"  | {said}, _ -> {name}")
        else:
            written.append(f"  | {name} value -> Sapwood.Write.case_of {said} {words.write(each.type)} value")
            made.append(f"  | {said}, value -> {name} (Sapwood.Read.value {words.read(each.type)} value)")
    made.append("  | name, _ -> Sapwood.Read.unknown_case name")
    to_json = "\n".join(("\n  match v with", *written))
    return _functions(let, to_json, "\n".join(("\n  match Sapwood.Read.case json with", *made)))


def _error(words: TypeWords, error: Error) -> list[str]:
    assert error.type is not None
    about = f"{literal(error.name.upper())} {literal(error.description.rstrip('.'))}"
    read = f'Sapwood.Json.within "data" (fun () -> {_applied(words.read(error.type))} fault.data)'
    return [
        f"type t = {words.type(error.type)}",
        f"let fault_of (v : t) = Sapwood.Fault.declared {about} ({_applied(words.write(error.type))} v)",
        f"let of_fault (fault : Sapwood.Fault.t) : t = {read}",
    ]
