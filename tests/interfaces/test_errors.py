"""Problems have their place before them, and stand in the order of files and lines."""

from interfaces.errors import InterfaceError, Problem


def test_a_problem_has_its_place_before_it() -> None:
    assert str(Problem("a.idl", 3, 14, "no")) == "a.idl:3:14: no"
    assert str(Problem("a.idl", 0, 0, "no")) == "a.idl: no"
    assert str(Problem("", 0, 0, "no")) == "no"


def test_an_error_has_all_problems_in_order() -> None:
    error = InterfaceError([Problem("b", 1, 1, "z"), Problem("a", 10, 1, "y"), Problem("a", 9, 1, "x")])
    assert str(error) == "a:9:1: x\na:10:1: y\nb:1:1: z"
