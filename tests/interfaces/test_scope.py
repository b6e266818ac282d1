"""A name means the nearest definition, outwards from where it stands."""

from interfaces.load import Catalogue
from interfaces.model import At, Interface, Path
from interfaces.parse import parse
from interfaces.scope import MAX_ALIASES, Scope, plain

TEXT = """
type a = int64 "Far."
interface i 1.0 "I." {
  owners "O"
  type a = string "Near."
  namespace n "N." { type b = a "B." namespace m "M." { type c = b "C." } function f "F." { } }
}
"""


def scope(text: str) -> Scope:
    return Catalogue({"x.idl": parse(text)}).scopes["x.idl"]


def inside(text: str) -> Scope:
    """The scope of the last interface."""
    *_, interface = (each for each in parse(text).definitions if isinstance(each, Interface))
    return scope(text).inside(interface)


def name(text: str) -> Path:
    return Path(tuple(text.split(".")), At(0, 0))


def test_names_are_found_outwards_and_along_paths() -> None:
    interface = inside(TEXT)
    asked = {each: interface.find(name(each)) for each in ("a", "n", "n.b", "n.m.c", "n.f", "m", "a.b", "i")}
    found = {each: value.key for each, value in asked.items() if value is not None}
    keys = {"a": ("a",), "n": ("n",), "n.b": ("n", "b"), "n.m.c": ("n", "m", "c")}
    assert found == {each: ("x.idl", "i 1.0", *key) for each, key in keys.items()}
    far = scope(TEXT).find(name("a"))
    assert far is not None
    assert far.key == ("x.idl", "a")


def test_aliases_are_followed_in_their_own_scopes() -> None:
    assert str(plain(name("n.m.c"), inside(TEXT))[0]) == "string"


def test_aliases_without_end_are_followed_for_a_while() -> None:
    endless = "".join(f'type a{n} = a{n + 1} "A." ' for n in range(MAX_ALIASES + 5))
    assert str(plain(name("a0"), scope(endless))[0]) == f"a{MAX_ALIASES}"
    assert str(plain(name("a"), scope('type a = a "A."'))[0]) == "a"
