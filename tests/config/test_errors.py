from config.errors import LISTED, ConfigurationError, Problem, did_you_mean
from sapwood.protocol.errors import SapwoodError


def test_a_problem_says_where_it_is_as_far_as_known() -> None:
    assert str(Problem("wrong", "f.xml", 3, 14)) == "f.xml:3:14: wrong"
    assert str(Problem("wrong", "f.csv", 3, "parent")) == "f.csv:3:parent: wrong"
    assert str(Problem("wrong", "f.xml")) == "f.xml: wrong"
    assert str(Problem("wrong")) == "wrong"


def test_an_error_lists_all_problems_up_to_a_bound() -> None:
    error = ConfigurationError(Problem(f"wrong {i}") for i in range(LISTED + 5))
    assert isinstance(error, SapwoodError)
    assert len(error.problems) == LISTED + 5
    assert str(error).splitlines()[0] == "wrong 0"
    assert str(error).splitlines()[-1] == "and 5 more"
    assert ConfigurationError("one").problems == (Problem("one"),)


def test_a_near_miss_is_offered() -> None:
    known = ["site_broker", "tree_connectors", "name"]
    assert did_you_mean("site_brokr", known) == "; did you mean 'site_broker'?"
    assert did_you_mean("siteBroker", known) == "; did you mean 'site_broker'?"
    assert did_you_mean("colour", known) == ""
    shops = ["store-1", "store-2", "hq"]
    assert did_you_mean("store-9", shops, 3) == "; did you mean 'store-2' or 'store-1'?"
