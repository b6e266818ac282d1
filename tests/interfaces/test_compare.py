"""Each change is told with those who would not survive it, and the version that it needs."""

from pathlib import Path

import pytest

from interfaces.check import check
from interfaces.compare import Breaks, Comparison, compare
from interfaces.load import Catalogue, load
from interfaces.parse import parse

EXAMPLES = Path(__file__).parents[2] / "examples" / "interfaces"
TEXT = """
interface {name} {version} "I." {{
  owners "O"
  error e: int64 "E."
  error f "F."
  {types}
  function g "G." {{
    {function}
  }}
  {more}
}}
"""


def catalogue(
    function: str = "", *, types: str = "", more: str = "", version: str = "1.2", name: str = "i"
) -> Catalogue:
    text = TEXT.format(name=name, version=version, types=types, function=function, more=more)
    made = Catalogue({"a.idl": parse(text)})
    assert check(made) == []
    return made


def compared(old: Catalogue, new: Catalogue) -> Comparison:
    (found,) = compare(old, new)
    return found


def told(old: Catalogue, new: Catalogue) -> list[str]:
    marks = {Breaks.OLD_CALLERS: "!", Breaks.OLD_SERVERS: "+"}
    return [f"{marks[each.breaks]} {each.where}: {each.text}" for each in compared(old, new).changes]


def test_definitions_that_stay_have_no_changes() -> None:
    catalogue = load(EXAMPLES)
    found = compare(catalogue, catalogue)
    assert len(found) == 4
    assert all(each.changes == () and each.is_said and each.old == each.new for each in found)


def test_descriptions_owners_order_and_names_of_types_are_no_changes() -> None:
    old = catalogue(
        'in a: s "A." in b: k "B."', types='struct s "S." { x: int64 "X." y: k "Y." } type k = string "K."'
    )
    new = catalogue(
        'in b: string "Other." in a: t "A."', types='struct t "T." { y: string "Y." x: int64 "Z." }'
    )
    assert told(old, new) == []


@pytest.mark.parametrize(
    ("old", "new", "changes"),
    [
        # inputs and outputs
        ("", 'in a: option<int64> "A."', ["+ function g: in a is new"]),
        ("", 'in a: int64 "A."', ["! function g: in a is new, and no option"]),
        ('in a: option<int64> "A."', "", ["! function g: in a is gone"]),
        ("", 'out a: int64 "A."', ["+ function g: out a is new"]),
        ('out a: int64 "A."', "", ["! function g: out a is gone"]),
        ('out a: option<int64> "A."', "", ["+ function g: out a is gone"]),
        (
            'in a: int64 "A."',
            'out a: int64 "A."',
            ["! function g: in a is gone", "+ function g: out a is new"],
        ),
        # types
        ('in a: int64 "A."', 'in a: double "A."', ["! function g, in a: was int64, and is double"]),
        (
            'in a: int64 "A."',
            'in a: array<int64> "A."',
            ["! function g, in a: was int64, and is array<int64>"],
        ),
        (
            'in a: array<int64> "A."',
            'in a: array<string> "A."',
            ["! function g, in a: was int64, and is string"],
        ),
        (
            'out a: dict<string, unit> "A."',
            'out a: dict<int64, channel> "A."',
            [
                "! function g, out a: was string, and is int64",
                "! function g, out a: was unit, and is channel",
            ],
        ),
        # options
        ('in a: int64 "A."', 'in a: option<int64> "A."', ["+ function g, in a: may be none now"]),
        ('out a: int64 "A."', 'out a: option<int64> "A."', ["! function g, out a: may be none now"]),
        ('in a: option<int64> "A."', 'in a: int64 "A."', ["! function g, in a: is never none now"]),
        ('out a: option<int64> "A."', 'out a: int64 "A."', ["+ function g, out a: is never none now"]),
        (
            'in a: option<int64> "A."',
            'in a: string "A."',
            ["! function g, in a: is never none now", "! function g, in a: was int64, and is string"],
        ),
        # errors
        ("", "raises e", ["+ function g: raises e, which is new to it"]),
        ("raises e", "", ["+ function g: does not raise e any more"]),
    ],
)
def test_changes_of_a_function(old: str, new: str, changes: list[str]) -> None:
    assert told(catalogue(old), catalogue(new)) == changes


@pytest.mark.parametrize(
    ("old", "new", "taken", "given"),
    [
        ('struct s "S." { x: int64 "X." }', 'struct s "S." { x: int64 "X." y: int64 "Y." }', "!", "+"),
        (
            'struct s "S." { x: int64 "X." }',
            'struct s "S." { x: int64 "X." y: option<int64> "Y." }',
            "+",
            "+",
        ),
        ('struct s "S." { x: int64 "X." y: int64 "Y." }', 'struct s "S." { x: int64 "X." }', "!", "!"),
        (
            'struct s "S." { x: int64 "X." y: option<int64> "Y." }',
            'struct s "S." { x: int64 "X." }',
            "!",
            "+",
        ),
        ('variant s "S." { x "X." }', 'variant s "S." { x "X." y "Y." }', "+", "!"),
        ('variant s "S." { x "X." y "Y." }', 'variant s "S." { x "X." }', "!", "+"),
        ('variant s "S." { x "X." }', 'variant s "S." { x: int64 "X." }', "!", "!"),
        ('variant s "S." { x: int64 "X." }', 'variant s "S." { x: double "X." }', "!", "!"),
        ('variant s "S." { x "X." }', 'struct s "S." { x: int64 "X." }', "!", "!"),
        ('struct s "S." { x: int64 "X." }', 'type s = int64 "S."', "!", "!"),
    ],
)
def test_changes_of_a_type_count_by_the_way_in_which_it_goes(
    old: str, new: str, taken: str, given: str
) -> None:
    for word, mark in (("in", taken), ("out", given)):
        function = f'{word} a: array<s> "A."'
        (change,) = told(catalogue(function, types=old), catalogue(function, types=new))
        assert change.startswith(mark), change
    both = 'in a: s "A." out b: s "B."'
    marks = [change[0] for change in told(catalogue(both, types=old), catalogue(both, types=new))]
    assert set(marks) == {taken, given}


def test_types_that_have_themselves_inside_are_compared_to_their_end() -> None:
    tree = 'struct s "S." {{ inner: array<s> "I." t: option<t> "T." }} struct t "T." {{ s: s "S." {} }}'
    function = 'out a: s "A."'
    old, new = (
        catalogue(function, types=tree.format("")),
        catalogue(function, types=tree.format('x: int64 "X."')),
    )
    assert told(old, new) == ["+ struct t: out x is new"]
    assert told(new, old) == ["! struct t: out x is gone"]


def test_the_value_of_an_error_is_an_output() -> None:
    old = catalogue("raises n.e", types='namespace n "N." { error e: option<int64> "E." }')
    new = catalogue("raises n.e", types='namespace n "N." { error e: int64 "E." }')
    assert told(old, new) == ["+ function g, error e: is never none now"]
    assert told(new, old) == ["! function g, error e: may be none now"]


def test_functions_come_and_go_by_the_names_by_which_they_are_called() -> None:
    old = catalogue(more='namespace n "N." { function h "H." { } }')
    new = catalogue(more='namespace m "M." { function h "H." { } }')
    assert told(old, new) == ["! function n.h: is gone", "+ function m.h: is new"]


@pytest.mark.parametrize(
    ("change", "version", "wanted", "is_said"),
    [
        ("", "1.2", (1, 2), True),
        ("", "1.1", (1, 2), False),
        ("", "2.0", (1, 2), True),
        ('out a: int64 "A."', "1.2", (1, 3), False),
        ('out a: int64 "A."', "1.3", (1, 3), True),
        ('out a: int64 "A."', "2.0", (1, 3), True),
        ('in a: int64 "A."', "1.3", (2, 0), False),
        ('in a: int64 "A."', "2.0", (2, 0), True),
        ('in a: int64 "A."', "0.9", (2, 0), False),
    ],
)
def test_the_version_says_what_changed(
    change: str, version: str, wanted: tuple[int, int], is_said: bool
) -> None:
    found = compared(catalogue(), catalogue(change, version=version))
    assert (found.wanted, found.is_said) == (wanted, is_said)


def test_an_interface_that_is_gone_is_said_by_no_version() -> None:
    found = compared(catalogue(), catalogue(name="other"))
    assert (found.name, found.new, found.wanted, found.is_said) == ("i", None, None, False)


def test_each_major_version_has_its_successor() -> None:
    def versions(*several: str) -> Catalogue:
        texts = [TEXT.format(name="i", version=each, types="", function="", more="") for each in several]
        return Catalogue({"a.idl": parse("".join(texts))})

    found = compare(versions("1.2", "2.0"), versions("3.0", "1.3", "2.1"))
    assert [(each.old, each.new) for each in found] == [((1, 2), (1, 3)), ((2, 0), (2, 1))]
    found = compare(versions("1.2", "4.0"), versions("3.0", "2.1"))
    assert [(each.old, each.new, each.is_said) for each in found] == [
        ((1, 2), (2, 1), True),
        ((4, 0), (3, 0), False),
    ]


def test_types_of_imported_files_are_compared() -> None:
    common = 'type money = int64 "M."', 'type money = double "M."'
    user = 'import "common.idl" interface i 1.0 "I." { owners "O" function f "F." { in a: money "A." } }'
    old, new = (Catalogue({"common.idl": parse(text), "a.idl": parse(user)}) for text in common)
    assert told(old, new) == ["! function f, in a: was int64, and is double"]


def test_names_for_pairs_of_each_other_are_compared_once() -> None:
    """Followed one by one, they would be a million million values."""
    pairs = "\n".join(f'type d{each} = array<pair<d{each - 1}, d{each - 1}>> "D."' for each in range(1, 41))
    old, new = (
        catalogue('in a: d40 "A." out b: d40 "B."', types=f'type d0 = {each} "D." {pairs}')
        for each in ("int64", "option<int64>")
    )
    assert told(old, new) == [
        "! function g, out b: may be none now",
        "+ function g, in a: may be none now",
    ]
