"""The modules of a catalogue: one for each file that others share, one for each version of an interface."""

import re
from collections.abc import Iterable, Iterator, Sequence
from posixpath import dirname, relpath
from typing import Final

from interfaces.errors import InterfaceError, Problem
from interfaces.load import SUFFIX, Catalogue
from interfaces.model import Interface
from interfaces.python.blocks import Block, write_block, write_call
from interfaces.python.names import member, of_module
from interfaces.python.text import WIDTH, bracketed, documentation, literal
from interfaces.python.types import Module, defined, write_types

_HEAD: Final = "Written by `sapwood idl python`: change the definition, and write it again."
_FROM: Final = {"Awaitable": "collections.abc", "Protocol": "typing", "TypeAlias": "typing"}
_LIBRARY: Final = (
    "Caller",
    "Channel",
    "DeclaredError",
    "Function",
    "Int64",
    "Interface",
    "Rpc",
    "Struct",
    "SyncCaller",
    "SyncRpc",
    "Unimplemented",
    "handlers",
)
_HIDDEN: Final = {"_field": "sapwood.stubs", "_sample": "sapwood.stub_samples"}
"""Functions under names that no field and no input has: one of their own name would hide them."""


def write_modules(catalogue: Catalogue) -> dict[str, str]:
    """The texts of all modules, by their paths in a package. The catalogue must be without mistakes.

    Raises `InterfaceError` where Python would have one name for two definitions.
    """
    written: dict[str, str] = {}
    for file in catalogue.files:
        if any(defined(catalogue.files[file].definitions, catalogue.scopes[file])):
            _put(written, f"{_module_of(file)}.py", _shared(catalogue, file), file)
    for file, each in catalogue.interfaces():
        _put(written, f"{of_module(each)}.py", _interface(catalogue, file, each), file)
    for path in list(written):
        while path := dirname(path):
            written.setdefault(f"{path}/__init__.py", "")
    written["__init__.py"] = documentation("Interfaces as modules.", _HEAD) + "\n"
    return written


def _put(written: dict[str, str], path: str, text: str, file: str) -> None:
    if path in written:
        said = f"{path} would be written for it and for another file: rename one"
        raise InterfaceError([Problem(file, 0, 0, said)])
    name = path.removesuffix(".py")
    for other in written:
        if other.startswith(f"{name}/") or name.startswith(f"{other.removesuffix('.py')}/"):
            said = f"{path} and {other}: no module can have the name of a folder of modules; rename one"
            raise InterfaceError([Problem(file, 0, 0, said)])
    written[path] = text


def _module_of(file: str) -> str:
    """The path of a file's module. Raises `InterfaceError` for a path that cannot be one."""
    parts = file.removesuffix(SUFFIX).split("/")
    if not all(re.fullmatch(r"[a-zA-Z]\w*", part, re.ASCII) for part in parts):
        said = "it has no name for Python: expected letters, digits and _ in its path"
        raise InterfaceError([Problem(file, 0, 0, said)])
    return "/".join(map(member, parts))


def _shared(catalogue: Catalogue, file: str) -> str:
    module = Module(file)
    parts = write_types(module, list(defined(catalogue.files[file].definitions, catalogue.scopes[file])))
    about = documentation(f"The types and errors of {file}, which several interfaces share.", _HEAD)
    return _text(about, [], parts, module, dirname(_module_of(file)))


def _interface(catalogue: Catalogue, file: str, each: Interface) -> str:
    scope = catalogue.scopes[file].inside(each)
    module, block = Module(file, str(each)), Block(each, scope, (each.name,))
    calls = list(block.everything())
    parts = write_types(module, list(defined(each.members, scope)))
    parts += [write_call(module, call) for call in calls]
    functions = [call.constant for call in calls]
    alone = len(functions) == 1
    parts.append(f"FUNCTIONS = ({functions[0]},)" if alone else bracketed("FUNCTIONS = (", functions, ")"))
    parts += write_block(module, block)
    parts.append('if __name__ == "__main__":\n    raise SystemExit(main(INTERFACE, VERSION, FUNCTIONS))')
    owners = ", ".join(each.owners)
    about = documentation(each.description, f"Interface {each}, for which answer: {owners}.", _HEAD)
    version = ".".join(map(str, each.version))
    constants = [f"INTERFACE = {literal(each.name)}\nVERSION = {literal(version)}"]
    return _text(about, constants, parts, module, "")


def _text(about: str, constants: Sequence[str], parts: Sequence[str], module: Module, folder: str) -> str:
    """A module: its documentation, its imports, and all else."""
    body = "\n\n\n".join(parts) + "\n"
    blocks = [about, "from __future__ import annotations", *_imports(body, module, folder), *constants]
    return "\n\n".join(blocks) + "\n\n\n" + body


def _imports(body: str, module: Module, folder: str) -> Iterator[str]:
    """Groups of lines: Python's, the library's, those of other modules of the package."""
    used = set(re.findall(r"\w+", body))
    standard = sorted({_FROM[name] for name in used & _FROM.keys()})
    if standard:
        yield _lines(
            (place, [name for name in used & _FROM.keys() if _FROM[name] == place]) for place in standard
        )
    library = {"sapwood.stubs": used.intersection(_LIBRARY)}
    if "SystemExit" in used:
        library |= {"sapwood.stub_commands": {"main"}}
    hidden = [(_HIDDEN[name], [f"{name[1:]} as {name}"]) for name in _HIDDEN.keys() & used]
    yield _lines([*library.items(), *hidden])
    if module.imported:
        yield _lines((_relative(_module_of(file), folder), names) for file, names in module.imported.items())


def _lines(imports: Iterable[tuple[str, Iterable[str]]]) -> str:
    """Import statements, in the order of their modules."""
    lines = []
    for place, names in sorted((place, sorted(names)) for place, names in imports):
        line = f"from {place} import {', '.join(names)}"
        lines.append(line if len(line) <= WIDTH else bracketed(f"from {place} import (", names, ")"))
    return "\n".join(lines)


def _relative(path: str, folder: str) -> str:
    """`common` as `.common`, seen from a module in `folder`."""
    parts = relpath(path, folder or ".").split("/")
    ups = sum(part == ".." for part in parts)
    return "." * (ups + 1) + ".".join(parts[ups:])
