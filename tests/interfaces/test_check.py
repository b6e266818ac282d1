"""Each mistake of definitions whose form is right is found, with its place, and right ones have none."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interfaces.check import check, problems_in
from interfaces.load import Catalogue, load
from interfaces.parse import parse, understand
from interfaces.scope import MAX_ALIASES
from interfaces.tokens import read_words

FORMS = "expected array<T>, option<T>, dict<K, V> or pair<A, B>"
EXAMPLES = Path(__file__).parents[2] / "examples" / "interfaces"


def said(**texts: str) -> list[str]:
    """What is wrong with files that have these names and texts; imported ones first."""
    files = {f"{name}.idl": parse(text, name) for name, text in texts.items()}
    return [str(each) for each in check(Catalogue(files))]


def types(text: str) -> list[str]:
    return [each.removeprefix("a.idl:") for each in said(a=text)]


def test_the_examples_are_right() -> None:
    catalogue = load(EXAMPLES)
    assert check(catalogue) == []
    assert sorted(each.name for _, each in catalogue.interfaces()) == [
        "administration",
        "prices",
        "stock",
        "tills",
    ]
    assert all(each.owners for _, each in catalogue.interfaces())


def test_an_interface_has_owners_and_a_function() -> None:
    assert said(a='interface a 1.0 "A." { }') == [
        """a.idl:1:11: 'a' has no function: add one, or move its types to the file""",
        """a.idl:1:11: 'a' has no owners: say who answers for it, as owners "Stock\"""",
    ]
    text = 'interface a 1.0 "A." { owners " " namespace b "B." { function c "C." { } } }'
    assert said(a=text) == ["a.idl:1:11: an owner of 'a' has an empty name: say it, or take it out"]


def test_a_program_serves_one_version_of_each_major() -> None:
    one = 'interface a {} "A." {{ owners "B" function c "C." {{ }} }}'
    assert said(a=one.format("1.0"), b=one.format("2.0")) == []
    assert said(a=one.format("1.0"), b=one.format("1.2")) == [
        "b.idl:1:11: a 1.2 stands beside a 1.0 of a.idl:1: "
        "expected one version of each major; keep the later one"
    ]


@pytest.mark.parametrize(
    ("text", "mistakes"),
    [
        ('type a = b "A."', ["1:10: there is no type 'b': define it, or import the file that does"]),
        ('type a = b.c "A."', ["1:10: there is no type 'b.c': define it, or import the file that does"]),
        ('type a = e "A." error e "E."', ["1:10: 'e' is no type, it is the error of that name: name a type"]),
        ('type a = array "A."', [f"1:10: 'array' of what? {FORMS}"]),
        (
            'type a = pair<unit> "A."',
            [f"1:10: 'pair' takes 2 types in < >, and has 1 here: {FORMS}"],
        ),
        (
            'type a = string<unit> "A."',
            [f"1:10: 'string' takes no types in < >, and has 1 here: {FORMS}"],
        ),
        ('type int64 = string "A."', ["1:6: 'int64' is a type of the language: choose another name"]),
        ('error channel "A."', ["1:7: 'channel' is a type of the language: choose another name"]),
        (
            'interface a 1.0 "A" { owners "B" namespace string "C" { function d "D" { out e: int64 "E" } } }',
            ["1:44: 'string' is a type of the language: choose another name"],
        ),
        (
            'type a = int64 "A." error a "E."',
            ["1:27: the definition 'a' stands in line 1 already: rename one"],
        ),
        (
            'struct a "A." { x: unit "X." x: unit "X." }',
            ["1:30: the field 'x' stands in line 1 already: rename one"],
        ),
        ('variant a "A." { x "X." x "X." }', ["1:25: the case 'x' stands in line 1 already: rename one"]),
        ('type Ab = int64 "A."', ["1:6: 'Ab': expected small letters, digits and single _, as 'unit_price'"]),
        (f'type {"a" * 65} = int64 "A."', ["1:6: a name of 65 characters: expected 64 at most"]),
        ('type a = int64 " "', ["1:6: 'a' has an empty description: say in a sentence what it is"]),
        (
            'type k = double "K." type a = dict<k, int64> "A."',
            ["1:31: keys of a dict are string or int64, not double: use an array of pairs"],
        ),
        ('type k = string "K." type a = dict<k, int64> "A."', []),
        (
            'type k = option<int64> "K." type a = option<k> "A."',
            ["1:38: an option of option<int64> cannot say whether it is there: use a variant"],
        ),
        (
            'type a = option<unit> "A."',
            ["1:10: an option of unit cannot say whether it is there: use a variant"],
        ),
        (
            'type a = array<b> "A." type b = a "B." type c = unit "C."',
            [
                "1:29: 'b' is a name for itself in the end: name a type that is not it",
                "1:6: 'a' is a name for itself in the end: name a type that is not it",
            ],
        ),
        (
            'struct a "A." { b: pair<int64, b> "B." } variant b "B." { a: a "A." }',
            [
                "1:50: 'b' has no end, since it needs itself: put an option or array between",
                "1:8: 'a' has no end, since it needs itself: put an option or array between",
            ],
        ),
        ('struct a "A." { b: array<a> "B." c: option<a> "C." d: dict<string, a> "D." }', []),
        ('variant a "A." { none "N." more: a "M." }', []),
    ],
)
def test_mistakes_of_types(text: str, mistakes: list[str]) -> None:
    assert sorted(types(text)) == sorted(mistakes)


@pytest.mark.parametrize(
    ("form", "fields", "last", "said"),
    [
        ("{}", "ab", 12, "'t13' has more than 10000 parts in each value: put an option or array between"),
        ("{}", "a", 99, "'t100' has more than 100 types in each other: put fewer into each other"),
        ("array<{}>", "ab", 99, "'t100' has more than 100 types in each other: put fewer into each other"),
    ],
)
def test_types_hold_so_much_and_no_more(form: str, fields: str, last: int, said: str) -> None:
    """Structs that each hold the one before, in each of their fields; what is too large is told once."""

    def chain(count: int) -> str:
        def struct(number: int) -> str:
            inner = " ".join(f'{each}: {form.format(f"t{number - 1}")} "A."' for each in fields)
            return f'struct t{number} "T." {{ {inner} }} '

        return (
            "".join(map(struct, range(count, 0, -1))) + 'struct t0 "T." { a: unit "A." b: option<t0> "B." }'
        )

    assert types(chain(last)) == []
    (found,) = types(chain(last + 20))
    assert found.endswith(said)


def test_names_for_names_have_an_end() -> None:
    def chain(count: int) -> str:
        return "".join(f'type a{n} = a{n + 1} "A." ' for n in range(count)) + f'type a{count} = int64 "A."'

    assert types(chain(MAX_ALIASES)) == []
    said = f"'a0' leads through more than {MAX_ALIASES} names: name the type itself"
    assert types(chain(MAX_ALIASES + 1)) == [f"1:6: {said}"]


def test_mistakes_of_functions() -> None:
    text = """\
interface a 1.0 "A." {
  owners "B"
  error e "E."
  struct s "S." { x: int64 "X." }
  namespace n "N." { error f "F." type t = s "T." }
  function f "F." {
    in x: n.t "X."
    in x: t "X."
    out y: s "Y."
    out y: n "Y."
    raises e, n.f, e, s, n.g
  }
}
"""
    assert said(a=text) == [
        "a.idl:8:8: the input 'x' stands in line 7 already: rename one",
        "a.idl:8:11: there is no type 't': define it, or import the file that does",
        "a.idl:10:9: the output 'y' stands in line 9 already: rename one",
        "a.idl:10:12: 'n' is no type, it is the namespace of that name: name a type",
        "a.idl:11:20: 'e' is raised already: say it once, or rename one",
        "a.idl:11:23: 's' is no error: define it, as error s \"…\"",
        "a.idl:11:26: 'n.g' is no error: define it, as error g \"…\"",
    ]


def test_the_nearest_name_is_meant() -> None:
    text = """\
type key = double "Far."
interface a 1.0 "A." {
  owners "B"
  type key = string "Near."
  namespace n "N." { function f "F." { in x: dict<key, unit> "X." } }
}
type other = dict<key, unit> "The far one."
"""
    assert said(a=text) == [
        "a.idl:7:14: keys of a dict are string or int64, not double: use an array of pairs"
    ]


def test_names_of_imported_files() -> None:
    a = 'type key = string "K." struct s "S." { x: array<own> "X." } type own = int64 "O."'
    b = 'import "a.idl" type d = dict<key, s> "D." type own = double "O."'
    assert said(a=a, b=b) == ["b.idl:1:48: 'own' is imported from a.idl already: rename one"]
    assert said(a=a, b='import "a.idl" type d = dict<key, s> "D."', c='import "b.idl" type e = key "E."') == [
        "c.idl:1:25: there is no type 'key': define it, or import the file that does"
    ]


def found(folder: Path, **texts: str) -> list[str]:
    for name, text in texts.items():
        (folder / f"{name}.idl").write_text(text, "utf-8")
    return [str(each) for each in problems_in(folder)]


def test_mistakes_of_form_hide_none_of_names(tmp_path: Path) -> None:
    assert found(
        tmp_path,
        a='struct shelf "A shelf." { place int64 "Where." article: artikel "Which." }\n'
        'type Size = "How large."\ninterface stock 1 "Stock." { }\n',
        b='import "a.idl"\nimport "c.idl"\ntype c = shelves "A shelf."\ntype c = size "A size."\n',
        c="",
    ) == [
        "a.idl:1:33: expected :, found 'int64': a name is followed by its type, as `count: int64`",
        "a.idl:1:57: there is no type 'artikel': define it, or import the file that does",
        "a.idl:2:6: 'Size': expected small letters, digits and single _, as 'unit_price'",
        "a.idl:2:13: expected a name, found '\"How large.\"': words of the language are no names",
        "a.idl:3:11: 'stock' has no function: add one, or move its types to the file",
        "a.idl:3:11: 'stock' has no owners: say who answers for it, as owners \"Stock\"",
        "a.idl:3:17: '1' is no version: expected MAJOR.MINOR, as 1.0",
        "b.idl:3:10: there is no type 'shelves': define it, or import the file that does",
        "b.idl:4:6: the definition 'c' stands in line 3 already: rename one",
        "b.idl:4:10: there is no type 'size': define it, or import the file that does",
    ]


def test_whatever_could_not_be_read_may_define_what_is_missing(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    assert found(
        folder,
        a='function shelf "A shelf." {}\ntype place = shelf "Where."\nerror Full "Full."\n',
        b='import "a.idl"\ntype c = shelf "A shelf."\ntype d = dict<shelf, place> "D."\n'
        'error unknown: place "A place." type e = unknown "E."',
        c='import "gone.idl"\ntype d = shelf "D."',
        d='import "b.idl"\ntype f = shelf "F."',
    ) == [
        "a.idl:1:1: expected error, import, interface, struct, the end of the file, type or variant, "
        "found 'function': a file begins with its imports; functions and namespaces stand in an interface",
        "a.idl:3:7: 'Full': expected small letters, digits and single _, as 'unit_price'",
        "b.idl:4:42: 'unknown' is no type, it is the error of that name: name a type",
        "c.idl:1:8: 'gone.idl' is not there, or is no plain file: expected a path from this file",
        "d.idl:2:10: there is no type 'shelf': define it, or import the file that does",
    ]


@given(st.data())
def test_a_mistake_of_form_makes_none_of_names(data: st.DataObject) -> None:
    """No name is another one, and none is gone."""
    text = data.draw(st.sampled_from(sorted(EXAMPLES.glob("*.idl")))).read_text("utf-8")
    words = [word for word in read_words(text).words if word.type != "COMMENT"]
    texts = [str(word) for word in words]
    place = data.draw(st.integers(0, len(words) - 1))
    put = data.draw(st.sampled_from(["{", "}", ":", '"x"', ">", "=", ","]))
    texts[place] = f"{texts[place]} {put}" if words[place].type == "NAME" else put
    made, _, is_whole = understand(" ".join(texts))
    if made is not None and not made.imports:
        assert check(Catalogue({"a.idl": made}, frozenset() if is_whole else frozenset({"a.idl"}))) == []
