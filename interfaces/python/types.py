"""Types and errors, in an order in which Python can read them.

Classes come first: what their fields are is looked up when it is needed. Other names of types, and unions,
are values that need those that they are made of; errors need the types of their values.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from typing import Final

from interfaces.errors import InterfaceError, Problem
from interfaces.finite import references
from interfaces.model import (
    Alias,
    Applied,
    Case,
    Definition,
    Error,
    Field,
    Function,
    Namespace,
    Path,
    Struct,
    Type,
    Variant,
)
from interfaces.python.names import class_name, member, of_definition
from interfaces.python.text import WIDTH, block, documentation, literal
from interfaces.scope import Found, Key, Scope, plain

_BASIC: Final = {
    "int64": "Int64",
    "string": "str",
    "double": "float",
    "boolean": "bool",
    "unit": "None",
    "channel": "Channel",
}


@dataclass(eq=False)
class Module:
    """The names of one module: those that it has, and those that it imports from others.

    `file`: where its definitions stand. `within`: the interface, as scopes say it; '' = the file itself.
    """

    file: str
    within: str = ""
    imported: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    _owners: dict[str, str] = field(default_factory=dict)

    def own(self, name: str, owner: str, line: int) -> str:
        """Take a name in Python. Raises `InterfaceError` where another definition has it."""
        first = self._owners.setdefault(name, owner)
        if first != owner:
            said = f"{owner} and {first} would both be called {name} in Python: rename one"
            raise InterfaceError([Problem(self.file, line, 1, said)])
        return name

    def name(self, found: Found) -> str:
        """The name of a definition, which is imported if another module has it."""
        name = of_definition(found)
        file, *blocks = found.scope.where
        self.own(name, f"{'.'.join((*blocks, found.definition.name))} of {file}", found.definition.at.line)
        if not blocks and (file != self.file or self.within):
            self.imported[file].add(name)
        return name

    def type(self, type_: Type, scope: Scope) -> str:
        """A type as an annotation."""
        if isinstance(type_, Path):
            found = scope.find(type_)
            return self.name(found) if found is not None else _BASIC[str(type_)]
        inner = [self.type(each, scope) for each in type_.arguments]
        if type_.name == "option":
            return f"{inner[0]} | None"
        kind = {"array": "list", "dict": "dict", "pair": "tuple"}[type_.name]
        return f"{kind}[{', '.join(inner)}]"


def may_be_none(type_: Type, scope: Scope) -> bool:
    """Is no value one of its values?"""
    inner, _ = plain(type_, scope)
    return inner.name == "option" if isinstance(inner, Applied) else str(inner) == "unit"


def types_of(definition: Definition) -> list[Type]:
    """The types that a definition is made of."""
    match definition:
        case Struct(fields=parts) | Variant(cases=parts):
            return [part.type for part in parts if part.type is not None]
        case Alias(type=type_) | Error(type=type_) if type_ is not None:
            return [type_]
        case Function():
            return [each.type for each in (*definition.inputs, *definition.outputs)]
    return []


def defined(definitions: Sequence[Definition], scope: Scope) -> Iterator[Found]:
    """The types and errors of a block, and of the namespaces in it. `channels`: also those that have one."""
    for each in definitions:
        match each:
            case Namespace():
                yield from defined(each.members, scope.inside(each))
            case Struct() | Variant() | Alias() | Error():
                yield Found(each, scope, None)


def write_types(module: Module, found: Sequence[Found]) -> list[str]:
    """The classes and other names of definitions."""
    classes: list[str] = []
    values: dict[Key, str] = {}
    errors: list[str] = []
    for each in found:
        name, scope = module.name(each), each.scope
        match each.definition:
            case Struct(description=about, fields=fields):
                classes.append(struct(module, name, about, fields, scope))
            case Variant(description=about, cases=cases) as variant:
                made = [_case_name(module, each, case) for case in variant.cases]
                classes += [_case(module, one, case, scope) for one, case in zip(made, cases, strict=True)]
                values[each.key] = _value(_union(name, made), about)
            case Alias(type=type_, description=about):
                values[each.key] = _value(f"{name}: TypeAlias = {module.type(type_, scope)}", about)
            case Error() as error:
                errors.append(_error(module, name, error, scope))
    needs = {
        each.key: [one.key for type_ in types_of(each.definition) for one in references(type_, each.scope)]
        for each in found
        if isinstance(each.definition, Alias)
    }
    order = TopologicalSorter({key: [one for one in needs.get(key, ()) if one in values] for key in values})
    return [*classes, *(values[key] for key in order.static_order()), *errors]


def struct(
    module: Module, name: str, about: str, fields: Sequence[Field], scope: Scope, options: str = ""
) -> str:
    """A class with fields by name. Those that may be none are none unless they are said."""
    head = f"class {name}(Struct, frozen=True, kw_only=True, omit_defaults=True{options}):"
    lines = [documentation(about) + ("\n" if fields else "")]
    lines += [_field(module, each, scope) + "\n" + documentation(each.description) for each in fields]
    return block(head, "\n".join(lines))


def _field(module: Module, each: Field, scope: Scope) -> str:
    written = f"{member(each.name)}: {module.type(each.type, scope)}"
    default = "None" if may_be_none(each.type, scope) else ""
    if member(each.name) != each.name:
        parts = [f"default={default}"] if default else []
        return f"{written} = _field({', '.join((*parts, f'name={literal(each.name)}'))})"
    return f"{written} = {default}" if default else written


def _case_name(module: Module, variant: Found, case: Case) -> str:
    name = class_name(*variant.scope.where[2:], variant.definition.name, case.name)
    return module.own(name, f"case {case.name} of {variant.definition.name}", case.at.line)


def _case(module: Module, name: str, case: Case, scope: Scope) -> str:
    head = (
        f'class {name}(Struct, frozen=True, omit_defaults=True, tag_field="case", tag={literal(case.name)}):'
    )
    if case.type is None:
        return block(head, documentation(case.description))
    value = Field("value", case.type, "", case.at)
    return block(head, documentation(case.description) + "\n", _field(module, value, scope))


def _union(name: str, made: Sequence[str]) -> str:
    """Brackets let it go on in further lines."""
    line = f"{name}: TypeAlias = {' | '.join(made)}"
    return line if len(line) < WIDTH else block(f"{name}: TypeAlias = (", "\n| ".join(made)) + "\n)"


def _value(line: str, about: str) -> str:
    return f"{line}\n{documentation(about)}"


def _error(module: Module, name: str, error: Error, scope: Scope) -> str:
    lines = [f"name = {literal(error.name)}", f"about = {literal(error.description)}"]
    if error.type is None or str(plain(error.type, scope)[0]) == "unit":
        body = ["def __init__(self) -> None:", "    super().__init__()"]
    else:
        type_ = module.type(error.type, scope)
        lines += [f"type = {type_}", f"value: {type_}"]
        body = [f"def __init__(self, value: {type_}) -> None:", "    super().__init__(value)"]
    said = documentation(error.description) + "\n"
    return block(f"class {name}(DeclaredError):", said, "\n".join(lines), "\n" + "\n".join(body))
