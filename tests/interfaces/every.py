"""A catalogue that has every type, names that Python has for itself, and texts with any character."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from interfaces.check import check
from interfaces.load import load
from interfaces.python.modules import write_modules

SHARED = """
type number = int64 "A \\\\ number, of \\"\\"\\"some\\"\\"\\" thing\\""
struct pair_of_texts "Two." { first: string "1" second: string "2" }
error gone: number "It went."
error closed "It is closed."
error silent: unit "Nothing to say."
"""
EVERY = """
import "parts/shared.idl"
interface every 1.3 "Every type.\\nOn two lines." {
  owners "Tests"
  struct tree "Holds itself." { name: string "n" below: array<tree> "b" next: option<tree> "n" }
  variant list "Named as a type of Python." {
    class: int64 "1"
    pair: pair<string, tree> "2"
    inner: list "3"
    may_be: option<double> "4"
    nothing: unit "5"
    none "6"
  }
  type lists = array<list> "Many."
  type maybe = option<list> "One or none."
  struct import_ "x" { a: int64 "a" }
  struct all "All." {
    int: int64 "i"
    float: double "d"
    str: string "s"
    bool: boolean "b"
    self: unit "u"
    lists: lists "l"
    maybe: maybe "m"
    by_number: dict<int64, array<string>> "n"
    by_text: dict<string, option<int64>> "t"
    texts: pair_of_texts "p"
  }
  error wrong: all "All of it."
  function echo "Back." { in from: all "f" in lambda: maybe "m"
    out all: all "a" out maybe: maybe "m"
    raises wrong, gone }
  function nothing "None." { raises closed, silent }
  namespace for "A word of Python." {
    struct all "Another." { x: number "x" }
    namespace while "Another." { function list "l" { in all: all "a" out lists: lists "l" } }
  }
}
""".replace("import_", "import_of")
FILES = {"every.idl": EVERY, "parts/shared.idl": SHARED}


def package(folder: Path, files: dict[str, str], name: str) -> ModuleType:
    """The modules of definitions as a package that can be imported."""
    for file, text in files.items():
        (folder / "idl" / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / "idl" / file).write_text(text, "utf-8")
    catalogue = load(folder / "idl")
    assert check(catalogue) == []
    for file, text in write_modules(catalogue).items():
        (folder / name / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / name / file).write_text(text, "utf-8")
    return imported(folder / name)


def imported(folder: Path) -> ModuleType:
    """A package by its folder, under the folder's name."""
    spec = importlib.util.spec_from_file_location(folder.name, folder / "__init__.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[folder.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
