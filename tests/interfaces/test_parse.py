"""Texts become the model, or all their mistakes; nothing else comes of any text."""

import contextlib
from collections.abc import Callable, Sequence
from cProfile import Profile
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interfaces.check import check
from interfaces.errors import InterfaceError, Problem
from interfaces.load import Catalogue
from interfaces.model import Applied, At, Case, Field, File, Function, Interface, Path, Variant
from interfaces.parse import parse

GOOD = """\
interface stock 1.2 "Stock." {
  owners "Planning"
  variant why "Why." { sold: int64 "Pieces." counted "It was \\"counted\\"." }
  function level "How many." {
    in article: string "Which."
    out pieces: dict<string, int64> "So many."
  }
}
"""
FRAGMENTS = [
    "{",
    "}",
    "<",
    ">",
    ":",
    ",",
    ".",
    "=",
    '"',
    "\\",
    "#",
    "@",
    '"a"',
    '"a\\x"',
    "1.0",
    "1",
    "x0",
    "Ä",
    "interface",
    "struct",
    "variant",
    "type",
    "error",
    "function",
    "namespace",
    "owners",
    "in",
    "out",
    "raises",
    "import",
    "array",
    "option",
    "int64",
    "name",
]


def mistakes(text: str) -> list[str]:
    with pytest.raises(InterfaceError) as caught:
        parse(text, "a.idl")
    assert str(caught.value) == "\n".join(map(str, caught.value.problems))
    return [f"{each.line}:{each.column} {each.message}" for each in caught.value.problems]


def test_the_model_of_a_text() -> None:
    at = At(0, 0)
    text, int64 = Path(("string",), at), Path(("int64",), at)
    why = Variant(
        "why",
        "Why.",
        (Case("sold", int64, "Pieces.", at), Case("counted", None, 'It was "counted".', at)),
        at,
    )
    pieces = Field("pieces", Applied("dict", (text, int64), at), "So many.", at)
    level = Function("level", "How many.", (Field("article", text, "Which.", at),), (pieces,), (), at)
    assert parse(GOOD) == File((), (Interface("stock", (1, 2), "Stock.", ("Planning",), (why, level), at),))


def test_each_definition_knows_its_place() -> None:
    (stock,) = parse(GOOD).definitions
    assert isinstance(stock, Interface)
    why, level = stock.members
    assert isinstance(level, Function)
    assert (stock.at, why.at, level.at) == (At(1, 11), At(3, 11), At(4, 12))
    assert level.outputs[0].type.at == At(6, 17)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            'struct a "b" { x int64 "c" }',
            ["1:18 expected :, found 'int64': a name is followed by its type, as `count: int64`"],
        ),
        (
            'struct a "b" { x: int64 }\nstruct b "c" { in: int64 "x" }\n@',
            [
                "1:25 expected ., < or a text in \"…\", found '}': "
                "whatever has a name has a description behind it",
                "2:16 expected a name, found 'in': words of the language are no names",
                "3:1 unexpected '@': take it out, or put it into a text or behind a #",
            ],
        ),
        (
            'interface a 1 "x" { owners "a',
            [
                "1:13 '1' is no version: expected MAJOR.MINOR, as 1.0",
                "1:28 the text '\"a' is not right: end it with \" on the same line",
                "1:30 expected ,, error, function, namespace, struct, type, variant or }, "
                "found the end of the file: each { needs its }",
            ],
        ),
        ('import "\\x"', ['1:8 the text \'"\\\\x"\' is not right: use \\", \\\\ and \\n only']),
        (
            'interface a 1.0 "x" {\n',
            [
                "2:1 expected error, function, namespace, owners, struct, type, variant or }, "
                "found the end of the file: each { needs its }"
            ],
        ),
        (
            'function a "x" {}',
            [
                "1:1 expected error, import, interface, struct, the end of the file, type or variant, found "
                "'function': a file begins with its imports; functions and namespaces stand in an interface"
            ],
        ),
        (
            "type a = " + "array<" * 40,
            ["1:207 more than 32 levels: give a part of it a name, and use the name here"],
        ),
        ("#" * 65537, ["0:0 65537 characters: expected 65536 at most; divide it into several files"]),
    ],
)
def test_mistakes_are_found_all_at_once(text: str, said: list[str]) -> None:
    assert mistakes(text) == said


def outcome(text: str) -> Sequence[Problem] | None:
    """What is wrong with a text; None if nothing is."""
    try:
        parse(text)
    except InterfaceError as error:
        return error.problems
    return None


@given(st.text() | st.lists(st.sampled_from(FRAGMENTS), max_size=40).map(" ".join))
def test_any_text_is_read_or_refused(text: str) -> None:
    assert outcome(text) is None or outcome(text)


@given(st.data())
def test_a_text_with_a_word_less_or_more_is_read_or_refused(data: st.DataObject) -> None:
    words = GOOD.split()
    place = data.draw(st.integers(0, len(words) - 1))
    words[place] = data.draw(st.sampled_from(["", *FRAGMENTS]))
    changed = " ".join(words)
    assert outcome(changed) is None or outcome(changed)


def calls(work: Callable[[], Any]) -> int:
    """How many functions are called."""
    profile = Profile()
    profile.runcall(work)
    return sum(each.callcount for each in profile.getstats())


def work_on(text: str) -> None:
    with contextlib.suppress(InterfaceError):
        check(Catalogue({"a.idl": parse(text)}))


@pytest.mark.parametrize(
    "shape",
    [
        "{",
        "{}",
        "<",
        '"\\',
        "@ ",
        "a ",
        "type a = ",
        "type a = a.",
        'struct a "b" { x: a "y" } ',
        'type b<number> = b<next> "c" ',
        'struct b<number> "c" { x: b<next> "x" y: b<next> "y" } ',
        'variant b<number> "c" { x: b<next> "x" y: b<next> "y" } ',
        'type c<number> = dict<b1, c<next>> "c" ',
    ],
)
def test_the_work_grows_with_the_text_and_no_faster(shape: str) -> None:
    def text(count: int) -> str:
        return "".join(shape.replace("<number>", str(n)).replace("<next>", str(n + 1)) for n in range(count))

    parse("")  # the parser itself is made once
    few, many = (calls(lambda count=count: work_on(text(count))) for count in (300, 1200))
    assert 0 < many <= 5 * few + 10_000
