"""What a child may do: rules as they are written, and grants one above the other."""

import pytest

from sapwood.protocol.destinations import Destination, cell, domain, queue, topic
from sapwood.protocol.errors import PatternError
from treeconnector.permits import NOTHING, Grant, Names, Permit, Rules, check_node_rule, read_rule


def permit(*grants: Grant) -> Permit:
    return Permit([Rules(grant) for grant in grants])


def of(consume: str = "{name}/#", send: str = "{name}/#", nodes: str = "", by: str = "uk") -> Grant:
    return Grant(by, "store-1", tuple(consume.split()), tuple(send.split()), tuple(nodes.split()))


STORE = permit(of("prices/# store/{name}/#", "store/{name}/# queue:orders till@hq", "till-{name}-*"))


@pytest.mark.parametrize(
    ("key", "may"),
    [
        (topic("prices/#"), True),
        (topic("prices/uk/+"), True),
        (topic("#"), False),
        (topic("store/store-1/#"), True),
        (topic("store/store-2/#"), False),
        (topic("store/+/stock"), False),
        (topic("store/till-store-1-7/x"), True),
        (queue("prices/today"), True),
        (queue("orders"), False),
        (cell("anything@store-1"), True),
        (cell("anything@store-2"), False),
    ],
)
def test_what_a_store_may_consume(key: Destination, may: bool) -> None:
    assert (STORE.why_not_consume(key) == "") is may


@pytest.mark.parametrize(
    ("destination", "may"),
    [
        (topic("store/store-1/sold"), True),
        (topic("store/store-2/sold"), False),
        (topic("prices/uk"), False),
        (topic("orders"), False),
        (queue("orders"), True),
        (cell("till@hq"), True),
        (cell("System@hq"), False),
        (cell("System.Zm9v@hq"), True),
        (cell("transient-Zm9v@store-9"), True),
        (cell("till@till-store-1-2"), True),
        (cell("till@store-2"), False),
    ],
)
def test_what_a_store_may_send(destination: Destination, may: bool) -> None:
    for _ in range(2):
        assert (STORE.why_not_send(destination) == "") is may


@pytest.mark.parametrize(
    ("name", "may"), [("store-1", True), ("till-store-1-2", True), ("till-store-2-2", False), ("hq", False)]
)
def test_which_nodes_a_store_may_have(name: str, may: bool) -> None:
    assert (STORE.why_not_have(name) == "") is may


def test_without_anything_written_it_has_what_is_below_its_own_name() -> None:
    default = permit(Grant("uk", "store-1"))
    assert not default.why_not_consume(topic("store-1/#"))
    assert not default.why_not_send(queue("store-1/orders"))
    assert not default.why_not_send(topic("store-1"))
    assert default.why_not_consume(topic("store-2/#"))
    assert default.why_not_send(queue("orders"))
    assert default.why_not_have("store-2")


def test_the_rule_that_refuses_is_named() -> None:
    assert STORE.why_not_send(topic("prices/uk")) == (
        "PERMIT: uk lets store-1 send to store/{name}/#, queue:orders, till@hq, not topic:prices/uk"
    )
    assert permit(of(consume=NOTHING)).why_not_consume(topic("a")) == (
        "PERMIT: uk lets store-1 consume nothing, not topic:a"
    )
    assert "have below it till-{name}-*, not x" in STORE.why_not_have("x")
    many = permit(of(" ".join(f"a{each}" for each in range(8)))).why_not_consume(queue("b"))
    assert "a0, a1, a2, a3, a4 and 3 more, not queue:b" in many


def test_without_rules_everything_may_be() -> None:
    free = permit()
    assert not free
    assert not free.why_not_consume(topic("#"))
    assert not free.why_not_send(cell("System@hq"))
    assert not free.why_not_have("hq")
    assert free.may_hear(topic("secret"))


def test_a_node_cannot_give_what_it_was_not_given() -> None:
    above = Grant("hq", "uk", ("prices/#", "{name}/#"), ("{name}/#",), ("store-*",))
    both = permit(of("prices/# secret/# {name}/#", "secret till@hq {name}/#"), above)
    assert not both.why_not_consume(topic("prices/uk"))
    assert not both.why_not_consume(topic("store-1/x"))
    assert "hq lets uk consume" in both.why_not_consume(topic("secret/#"))
    assert "hq lets uk send to" in both.why_not_send(cell("till@hq"))
    assert not both.why_not_send(topic("store-1/sold"))
    assert both.grants == (*(rules.grant for rules in both.rules[:1]), above)


def test_of_consumers_it_hears_where_it_may_send() -> None:
    assert STORE.may_hear(topic("store/#"))
    assert STORE.may_hear(queue("orders"))
    assert not STORE.may_hear(topic("prices/#"))
    assert not STORE.may_hear(queue("payroll"))


def test_a_topic_that_is_no_pattern_raises() -> None:
    with pytest.raises(PatternError):
        STORE.why_not_consume(topic("a+"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a/b+",
        "#a",
        "a\nb",
        "topic:",
        "queue:",
        "x@",
        "x@a b",
        "x@{name}*",
        "{name",
        "{name}{name}",
        "a*{name}",
        "x" * 1025,
    ],
)
def test_what_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(PatternError):
        read_rule(text)


def test_a_child_reads_no_cells_of_others() -> None:
    with pytest.raises(PatternError, match="its own nodes, and of no others"):
        read_rule("till@hq", cells=False)
    assert read_rule("topic:a@b/c", cells=False).levels == ("a@b", "c")


@pytest.mark.parametrize("text", ["", "a b", "{name}{name}", "a/b", "#"])
def test_what_is_no_name_of_nodes_is_refused(text: str) -> None:
    with pytest.raises(PatternError):
        check_node_rule(text)


def test_names_are_exact_or_alike() -> None:
    names = Names("uk", ["{name}-*", "paris", NOTHING])
    assert all(name in names for name in ("uk", "uk-1", "paris"))
    assert not any(name in names for name in ("fr", "fr-1", "nothing", 7))
    assert repr(names) == "<Names exactly=2 like=1>"


def test_reprs_say_whose_they_are() -> None:
    assert repr(STORE) == "<Permit of 1 grants>"
    assert repr(STORE.rules[0]) == "<Rules of uk for store-1>"
    assert domain("x").kind == "domain"
