"""The libraries of a catalogue: one for each file that others share, one for each version of an interface."""

import re
from typing import Final

from interfaces.errors import InterfaceError, Problem
from interfaces.load import Catalogue
from interfaces.model import Interface
from interfaces.ocaml.blocks import (
    write_answers,
    write_calls,
    write_clients,
    write_dispatcher,
    write_signature,
)
from interfaces.ocaml.names import of_file, of_interface
from interfaces.ocaml.text import literal, structure
from interfaces.ocaml.types import OcamlLibrary, write_types
from interfaces.python.blocks import Block
from interfaces.python.types import defined

_SAYS: Final = "Written by `sapwood idl ocaml`: change the definition, and write it again."
_HEAD: Final = f"(* {_SAYS} *)\n"
_PACKAGE: Final = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


def write_libraries(catalogue: Catalogue, package: str = "chain") -> dict[str, str]:
    """The texts of all files, by their paths in a folder. The catalogue must be without mistakes.

    `package`: whose subpackages the libraries are. Raises `InterfaceError` where OCaml would have one name
    for two definitions, or none for a file.
    """
    if not _PACKAGE.fullmatch(package):
        said = (
            f"{package!r} is no name for a package: expected small letters, digits and single _, as 'chain'"
        )
        raise InterfaceError([Problem("", 0, 0, said)])
    project = f"(lang dune 2.9)\n; {_SAYS}\n(name {package})\n"
    written = {"dune-project": project, f"{package}.opam": _OPAM}
    for file in catalogue.files:
        found = list(defined(catalogue.files[file].definitions, catalogue.scopes[file]))
        if found:
            library = OcamlLibrary(package, file)
            parts = write_types(library, found)
            _put(written, library, of_file(file), parts, file)
    for file, each in catalogue.interfaces():
        library = OcamlLibrary(package, file, str(each))
        parts = _interface(library, catalogue, file, each)
        _put(written, library, of_interface(each), parts, file)
    return written


_OPAM: Final = (
    'opam-version: "2.0"\nsynopsis: "Interfaces"\ndepends: ["dune" {>= "2.9"} "sapwood"]\n'
    'build: [["dune" "build" "-p" name "-j" jobs]]\n'
)


def _interface(library: OcamlLibrary, catalogue: Catalogue, file: str, each: Interface) -> list[str]:
    scope = catalogue.scopes[file].inside(each)
    block = Block(each, scope, (each.name,))
    version = ".".join(map(str, each.version))
    types = write_types(library, list(defined(each.members, scope)))
    return [
        f"let interface = {literal(each.name)}\nlet version = {literal(version)}",
        structure("module Types =", *types) if types else "",
        write_calls(library, block),
        write_signature(library, block),
        write_dispatcher(library, block),
        *write_answers(library, block),
        *write_clients(library, block, literal(version)),
    ]


def _put(written: dict[str, str], library: OcamlLibrary, name: str, parts: list[str], file: str) -> None:
    folder = f"{library.package}_{name}"
    if not _PACKAGE.fullmatch(name) or f"{name}/{folder}.ml" in written:
        said = (
            f"it would be the library {name!r}, which is no name for one, or that of another file: rename it"
        )
        raise InterfaceError([Problem(file, 0, 0, said)])
    libraries = " ".join(("sapwood", *sorted(f"{library.package}.{each}" for each in library.used)))
    written[f"{name}/{folder}.ml"] = _HEAD + "\n" + "\n\n".join(part for part in parts if part) + "\n"
    written[f"{name}/dune"] = (
        f"(library\n (name {folder})\n (public_name {library.package}.{name})\n (libraries {libraries}))\n"
    )
