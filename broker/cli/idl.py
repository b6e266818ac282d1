"""`sapwood idl`: definitions of interfaces, read from files and folders that the command line names."""

import stat
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from broker.cli.errors import FAILED, WELL, WRONG_USE, CommandError, make_given
from broker.cli.output import note, print_json, printable
from config.whole_files import put
from treeconnector.wording import counted

try:
    from interfaces.check import problems_in
    from interfaces.compare import Comparison, Version, compare
    from interfaces.errors import InterfaceError, Problem
    from interfaces.layout import format_text
    from interfaces.load import Catalogue, load, names_in, read
    from interfaces.ocaml.libraries import write_libraries
    from interfaces.python.modules import write_modules
    from interfaces.site.pages import write_pages
except ModuleNotFoundError as error:
    if error.name != "lark":
        raise
    raise CommandError("the Python package 'lark' is missing: pip install 'sapwood-node[idl]'") from None


def check_definitions(paths: list[Path], *, as_json: bool) -> int:
    """Print all that is wrong. Returns an exit code."""
    folders = _folders(paths).items()
    problems = [each for folder, names in folders for each in _below(folder, problems_in(folder, names))]
    _print_problems(problems, as_json=as_json)
    if not problems and not as_json:
        print("all is well")
    return FAILED if problems else WELL


def format_files(paths: list[Path], *, only_check: bool, as_json: bool) -> int:
    """Write files anew where that changes them. Nothing is written if the form of any is wrong."""
    changed: dict[Path, str] = {}
    problems: list[Problem] = []
    files = [(folder, name) for folder, names in _folders(paths).items() for name in names]
    for folder, name in files:
        try:
            text = read(folder, name)
            if (formatted := format_text(text, name)) != text:
                changed[folder / name] = formatted
        except InterfaceError as error:
            problems += _below(folder, error.problems)
    if problems:
        _print_problems(problems, as_json=as_json)
        return WRONG_USE
    if not only_check:
        for file, text in changed.items():
            _replace(file, text)
    if as_json:
        print_json({"changed": [str(file) for file in changed]})
    else:
        for file in changed:
            print(f"{file} {'would change' if only_check else 'changed'}")
        note(f"{counted(len(files), 'file')}, {len(changed)} to change")
    return FAILED if only_check and changed else WELL


def _replace(file: Path, text: str) -> None:
    """Write it anew, whole or not at all: it is somebody's own. Raises `CommandError`."""
    there = file.resolve()
    try:
        put(there, text.encode(), stat.S_IMODE(there.stat().st_mode))
    except OSError as error:
        raise CommandError(f"{file} stays as it was: {error.strerror or error}") from None


def write_python(path: Path, folder: Path, *, as_json: bool) -> int:
    """Write the modules of definitions into a package. Nothing is written if anything is wrong."""
    return _write_code(path, folder, write_modules, as_json=as_json)


def write_ocaml(path: Path, folder: Path, *, package: str, as_json: bool) -> int:
    """Write the libraries of definitions into a folder for dune. Nothing is written if anything is wrong."""
    return _write_code(path, folder, lambda catalogue: write_libraries(catalogue, package), as_json=as_json)


def _write_code(
    path: Path, folder: Path, write: Callable[[Catalogue], dict[str, str]], *, as_json: bool
) -> int:
    if (catalogue := _right(path, as_json=as_json)) is None:
        return WRONG_USE
    try:
        modules = write(catalogue)
    except InterfaceError as error:
        _print_problems(_below(path if path.is_dir() else path.parent, error.problems), as_json=as_json)
        return WRONG_USE
    _write(modules, folder, as_json=as_json)
    return WELL


def write_documents(path: Path, folder: Path, *, since: Path | None, package: str, as_json: bool) -> int:
    """Write the pages of definitions into a folder. Nothing is written if anything is wrong."""
    catalogue = _right(path, as_json=as_json)
    earlier = _right(since, as_json=as_json) if since and catalogue is not None else None
    if catalogue is None or (since and earlier is None):
        return WRONG_USE
    _write(write_pages(catalogue, package=package, since=earlier), folder, as_json=as_json)
    return WELL


def _right(path: Path, *, as_json: bool = False) -> Catalogue | None:
    """The definitions of a file or folder; None if anything is wrong, which is printed."""
    ((folder, names),) = _folders([path]).items()
    if problems := problems_in(folder, names):
        _print_problems(_below(folder, problems), as_json=as_json)
        return None
    return load(folder, names)


def _write(texts: Mapping[str, str], folder: Path, *, as_json: bool) -> None:
    _check_place(texts, folder)
    make_given(folder)
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
        if not as_json:
            print(folder / name)
    if as_json:
        print_json({"written": [str(folder / name) for name in texts]})


def _check_place(texts: Mapping[str, str], folder: Path) -> None:
    """The folder is not somebody's own: of what was written, one file says so. Raises `CommandError`."""
    for name in texts.keys() & {"__init__.py", "dune-project", "index.html"}:
        try:
            there = (folder / name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue  # no such file, or what writing it will tell
        if there.strip() and "`sapwood idl " not in there:
            raise CommandError(
                f"{folder / name} is not of `sapwood idl`: nothing is written. Name a folder of its own after"
                " --out, or move that file away",
                WRONG_USE,
            )


def compare_definitions(old: Path, new: Path, *, as_json: bool) -> int:
    """Print whom the changes would break. Fails if the version of an interface does not say so."""
    before = _right(old, as_json=as_json)
    after = _right(new, as_json=as_json) if before is not None else None
    if before is None or after is None:
        return WRONG_USE
    found = compare(before, after)
    if as_json:
        print_json({"interfaces": [_as_json(each) for each in found]})
    else:
        for each in found:
            _print_comparison(each)
    return WELL if all(each.is_said for each in found) else FAILED


def _print_comparison(each: Comparison) -> None:
    wanted = f"expected {_version(each.wanted)} or later" if each.wanted else "keep it until nobody calls it"
    verdict = "well" if each.is_said else f"the version does not say it: {wanted}"
    print(f"{each.name} {_version(each.old)} → {_version(each.new) or 'gone'}: {verdict}")
    for change in each.changes:
        print(f"  {change.breaks.value} would not survive: {change.where}: {change.text}")


def _as_json(each: Comparison) -> dict[str, Any]:
    """Versions are texts; null = gone, or no version could say it."""
    changes = [{"breaks": one.breaks.value, "where": one.where, "text": one.text} for one in each.changes]
    versions = {name: _version(getattr(each, name)) or None for name in ("old", "new", "wanted")}
    return {"name": each.name, **versions, "is_said": each.is_said, "changes": changes}


def _version(version: Version | None) -> str:
    return ".".join(map(str, version or ()))


def _folders(paths: list[Path]) -> dict[Path, list[str]]:
    """The names of files, by the folder out of which their imports may not lead. Raises `CommandError`."""
    found: dict[Path, list[str]] = {}
    for path in paths:
        if path.is_dir():
            found.setdefault(path, []).extend(names_in(path))
        elif path.exists():
            found.setdefault(path.parent, []).append(path.name)
        else:
            raise CommandError(f"{path} is not there: name a file of definitions, or a folder", WRONG_USE)
    return found


def _below(folder: Path, problems: Iterable[Problem]) -> list[Problem]:
    """The same problems, with paths as the command line would name their files."""
    return [replace(each, file=str(folder / each.file)) for each in problems]


def _print_problems(problems: list[Problem], *, as_json: bool) -> None:
    if as_json:
        print_json({"problems": [asdict(each) for each in problems]})
    else:
        for each in problems:
            print(printable(str(each)))
