"""What is written in the one way says the same, is written so for ever, and keeps its comments."""

from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from string import ascii_lowercase, digits

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interfaces.check import check
from interfaces.errors import InterfaceError, Problem
from interfaces.layout import format_text
from interfaces.load import Catalogue
from interfaces.model import (
    Alias,
    Applied,
    At,
    Case,
    Definition,
    Error,
    Field,
    File,
    Function,
    Import,
    Interface,
    Namespace,
    Struct,
    Type,
    Variant,
)
from interfaces.model import Path as Name
from interfaces.parse import parse
from interfaces.tokens import read_words

EXAMPLES = Path(__file__).parents[2] / "examples" / "interfaces"
SOMEWHERE = st.just(At(0, 0))


TEXTS = st.text(st.characters(exclude_characters="\r", exclude_categories=["Cs"]), max_size=12)
WORDS = (*ascii_lowercase, *map("".join, product(ascii_lowercase, repeat=2)))
NAMES = st.sampled_from(
    [word + end for word in WORDS for end in ("", *(f"_{digit}" for digit in digits)) if word + end != "in"]
)
NUMBERS = st.integers(0, 999_999)


def some(each: st.SearchStrategy, least: int = 0) -> st.SearchStrategy:
    return st.lists(each, min_size=least, max_size=3).map(tuple)


PATHS = st.builds(Name, some(NAMES, 1), SOMEWHERE)
BASIC = st.sampled_from(["int64", "string", "unit", "channel"]).map(lambda name: Name((name,), At(0, 0)))
GENERIC = st.sampled_from(["array", "option", "dict", "pair"])
TYPES = st.recursive(
    BASIC | PATHS, lambda inner: st.builds(Applied, GENERIC, some(inner, 1), SOMEWHERE), max_leaves=4
)
FIELDS = st.builds(Field, NAMES, TYPES, TEXTS, SOMEWHERE)
CASES = st.builds(Case, NAMES, st.none() | TYPES, TEXTS, SOMEWHERE)
SHARED = st.one_of(
    st.builds(Struct, NAMES, TEXTS, some(FIELDS, 1), SOMEWHERE),
    st.builds(Variant, NAMES, TEXTS, some(CASES, 1), SOMEWHERE),
    st.builds(Alias, NAMES, TYPES, TEXTS, SOMEWHERE),
    st.builds(Error, NAMES, st.none() | TYPES, TEXTS, SOMEWHERE),
)
FUNCTIONS = st.builds(Function, NAMES, TEXTS, some(FIELDS), some(FIELDS), some(PATHS), SOMEWHERE)
MEMBERS = st.recursive(
    SHARED | FUNCTIONS,
    lambda inner: st.builds(Namespace, NAMES, TEXTS, some(inner), SOMEWHERE),
    max_leaves=4,
)
INTERFACES = st.builds(
    Interface, NAMES, st.tuples(NUMBERS, NUMBERS), TEXTS, some(TEXTS), some(MEMBERS), SOMEWHERE
)
IMPORTS = st.builds(Import, TEXTS, SOMEWHERE)
FILES = st.builds(File, some(IMPORTS), some(SHARED | INTERFACES))
GAPS = st.sampled_from(
    [" ", "\n", "\r\n", "\n\n\n", "\t", "  # behind\n", "\n# above  \n", "\n\n#\n#two\n\n"]
)


def quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def listed(each: Iterable[str]) -> Iterator[str]:
    for number, word in enumerate(each):
        yield from (",", word) if number else (word,)


def type_words(type_: Type | None) -> Iterator[str]:
    if isinstance(type_, Applied):
        yield f"{type_.name} <"
        for number, each in enumerate(type_.arguments):
            yield from ("," if number else "", *type_words(each))
        yield ">"
    else:
        yield str(type_)


def valued(each: Field | Case | Error) -> Iterator[str]:
    """A name, its type if it has one, its description."""
    yield each.name
    if each.type is not None:
        yield from (":", *type_words(each.type))
    yield quoted(each.description)


def words(each: Definition) -> Iterator[str]:
    """The words of a definition, as this test understands the grammar."""
    match each:
        case Alias():
            yield from ("type", each.name, "=", *type_words(each.type), quoted(each.description))
            return
        case Error():
            yield from ("error", *valued(each))
            return
        case Interface():
            yield from ("interface", each.name, f"{each.version[0]}.{each.version[1]}")
        case _:
            yield from (type(each).__name__.lower(), each.name)
    yield from (quoted(each.description), "{")
    match each:
        case Struct(fields=parts) | Variant(cases=parts):
            for part in parts:
                yield from valued(part)
        case Function():
            for word, values in (("in", each.inputs), ("out", each.outputs)):
                for value in values:
                    yield from (word, *valued(value))
            if each.raises:
                yield from ("raises", *listed(map(str, each.raises)))
        case Interface() | Namespace():
            if isinstance(each, Interface) and each.owners:
                yield from ("owners", *listed(map(quoted, each.owners)))
            for member in each.members:
                yield from words(member)
    yield "}"


@st.composite
def written(draw: st.DrawFn) -> tuple[File, str]:
    """A file, and a text that says it, with comments and blanks anywhere."""
    file = draw(FILES)
    said = [word for each in file.imports for word in ("import", quoted(each.path))]
    said += [word for each in file.definitions for word in words(each)]
    gaps = draw(st.lists(GAPS, min_size=len(said) + 1, max_size=len(said) + 1))
    return file, gaps[0] + "".join(word + gap for word, gap in zip(said, gaps[1:], strict=True))


def comments(text: str) -> list[str]:
    return [word.rstrip() for word in read_words(text).words if word.type == "COMMENT"]


@given(written())
def test_a_text_says_the_same_before_and_after(given_: tuple[File, str]) -> None:
    file, text = given_
    assert parse(text) == file
    formatted = format_text(text)
    assert parse(formatted) == file
    assert format_text(formatted) == formatted
    assert comments(formatted) == comments(text)
    assert not any(line != line.rstrip() for line in formatted.split("\n"))
    assert "\n\n\n" not in formatted


@given(FILES)
def test_whatever_has_the_right_form_is_checked(file: File) -> None:
    problems = check(Catalogue({"a.idl": File((), file.definitions)}))
    assert all(isinstance(each, Problem) and each.file == "a.idl" for each in problems)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.idl")), ids=lambda path: path.name)
def test_the_examples_are_laid_out(path: Path) -> None:
    text = path.read_text("utf-8")
    assert format_text(text) == text


def test_the_layout() -> None:
    assert format_text(UNTIDY) == TIDY
    assert format_text("") == ""
    assert format_text("\n# only this\n\n") == "# only this\n"


def test_a_text_with_mistakes_is_not_laid_out() -> None:
    with pytest.raises(InterfaceError, match=r"^a\.idl:1:8: expected"):
        format_text("struct {", "a.idl")


UNTIDY = """
# head
import "a.idl" # behind
type article=int64 "An article."
interface stock 1.2 "Stock." { owners "A" ,"B"
 # about f
 function f "F." { in a:array< option<x . y>> "a" out b : dict<string,int64> "b"  # b
   raises no , c # end

 # last
 }
 struct s "S." {

 x:int64 "x"


 y # its type
 : string "y"}}
"""
TIDY = """\
# head
import "a.idl"  # behind
type article = int64 "An article."

interface stock 1.2 "Stock." {
  owners "A", "B"

  # about f
  function f "F." {
    in a: array<option<x.y>> "a"
    out b: dict<string, int64> "b"  # b
    raises no, c  # end
    # last
  }

  struct s "S." {
    x: int64 "x"

    y  # its type
      : string "y"
  }
}
"""
