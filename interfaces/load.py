"""The files of a folder, with what they import.

Law: nothing outside of the folder is read, whatever an import says and wherever a link leads. Nothing but
plain files is read, and of each no more than a file may have.
"""

import os
import posixpath
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Final

from interfaces.errors import InterfaceError, Problem
from interfaces.model import At, File, Interface
from interfaces.parse import Understood, understand
from interfaces.scope import Scope, scopes
from interfaces.tokens import MAX_CHARACTERS, shown

SUFFIX: Final = ".idl"
MAX_FILES: Final = 1000
_MAX_BYTES: Final = 4 * MAX_CHARACTERS


@dataclass(frozen=True)
class Catalogue:
    """Files by name: their path below the folder, with `/`. Each stands behind those that it imports.

    `vague`: files that may define, or know by an import, more than what could be read of them.
    """

    files: Mapping[str, File]
    vague: frozenset[str] = frozenset()

    @cached_property
    def scopes(self) -> dict[str, Scope]:
        """The scope of each file."""
        imports = {
            name: [each for each in _targets(name, file) if each in self.files]
            for name, file in self.files.items()
        }
        return scopes(self.files, imports)

    def interfaces(self) -> Iterator[tuple[str, Interface]]:
        """All interfaces, each with its file."""
        for name, file in self.files.items():
            yield from ((name, each) for each in file.definitions if isinstance(each, Interface))


def names_in(folder: Path) -> list[str]:
    """The names of all files `*.idl` of a folder, and of those below it."""
    return [path.relative_to(folder).as_posix() for path in sorted(folder.rglob(f"*{SUFFIX}"))]


def load(folder: Path, names: Iterable[str] | None = None) -> Catalogue:
    """Read files of a folder, all `*.idl` unless `names` are given, and those that they import.

    Raises `InterfaceError` with all mistakes of their form, and of their imports.
    """
    catalogue, problems = survey(folder, names)
    if problems:
        raise InterfaceError(problems)
    return catalogue


def survey(folder: Path, names: Iterable[str] | None = None) -> tuple[Catalogue, list[Problem]]:
    """As `load`, but with the mistakes of form and of imports beside all that can be understood."""
    waiting = [(name, At(0, 0), name) for name in (names_in(folder) if names is None else names)]
    wanted = {name for name, *_ in waiting}
    files: dict[str, File] = {}
    vague: set[str] = set()
    problems: list[Problem] = []
    if not waiting:
        problems.append(Problem("", 0, 0, f"no file *{SUFFIX} here: name another folder, or a file"))
    while waiting and len(wanted) <= MAX_FILES:
        importer, at, name = waiting.pop()
        file, found, is_whole = _understood(folder, name, importer, at)
        problems += found
        if not is_whole:
            vague.add(name)
        if file is None:
            continue
        files[name] = file
        for each in file.imports:
            if (imported := target(name, each.path)) not in wanted:
                wanted.add(imported)
                waiting.append((name, each.at, imported))
    if waiting:
        problems.append(Problem("", 0, 0, f"more than {MAX_FILES} files: divide the folder"))
    return _catalogue(files, vague, problems), problems


def _understood(folder: Path, name: str, importer: str, at: At) -> Understood:
    try:
        return understand(read(folder, name, importer, at), name)
    except InterfaceError as error:
        return Understood(None, list(error.problems), is_whole=False)


def _catalogue(files: Mapping[str, File], vague: set[str], problems: list[Problem]) -> Catalogue:
    """Adds to `problems` where imports lead in a circle: then no name means anything."""
    importers = {
        name
        for name, file in files.items()
        if any(each in vague or each not in files for each in _targets(name, file))
    }
    try:
        ordered = {name: files[name] for name in _ordered(files) if name in files}
    except InterfaceError as error:
        problems += error.problems
        return Catalogue({})
    return Catalogue(ordered, frozenset(vague | importers))


def read(folder: Path, name: str, importer: str = "", at: At | None = None) -> str:
    """The text of a file of a folder. Raises `InterfaceError`, at the place where the file is asked for."""

    def refused(said: str) -> InterfaceError:
        return InterfaceError([Problem(importer or name, at.line if at else 0, at.column if at else 0, said)])

    root = folder.resolve()
    path = root / name
    try:
        if "\0" in name or not (real := Path(os.path.realpath(path))).is_relative_to(root):
            raise refused(f"{name!r} leads out of the folder: import what is in it, or name the folder above")
        if real.is_symlink():  # so a circle is left; `resolve` raises of it in some versions of Python only
            raise refused(f"{name!r} is a link that leads in a circle: expected a plain file")
        if not path.is_file():
            raise refused(f"{name!r} is not there, or is no plain file: expected a path from this file")
        with path.open("rb") as opened:
            return opened.read(_MAX_BYTES + 1).decode("utf-8")
    except UnicodeDecodeError as error:
        raise refused(f"{name!r} is not UTF-8 at byte {error.start}: save it as UTF-8") from None
    except OSError as error:
        raise refused(f"{shown(name)} cannot be read: {error.strerror or error}") from None


def target(name: str, path: str) -> str:
    """The name of the file that the file `name` means by `path`."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), path))


def _targets(name: str, file: File) -> Iterator[str]:
    yield from (target(name, each.path) for each in file.imports)


def _ordered(files: Mapping[str, File]) -> list[str]:
    """Each behind those that it imports. Raises `InterfaceError` where imports lead in a circle."""
    graph = {name: sorted(_targets(name, file)) for name, file in sorted(files.items())}
    try:
        return list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        circle: list[str] = error.args[1][::-1]
    first, second, *_ = circle
    each = next(each for each in files[first].imports if target(first, each.path) == second)
    said = f"imports lead in a circle, {' → '.join(circle)}: put what both need into a file of its own"
    raise InterfaceError([Problem(first, each.at.line, each.at.column, said)])
