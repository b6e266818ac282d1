"""Each topic is of one exchange, and each exchange has the topics below its prefix."""

import pytest

from bridges.site_brokers.rabbitmq.exchanges import Binding, Exchanges, through
from sapwood.protocol.errors import PatternError

EXCHANGES = Exchanges("amq.topic", [("sales", "sales/"), ("stock", "sites/stock/")])


def test_the_usual_one_comes_first() -> None:
    assert list(EXCHANGES) == ["amq.topic", "sales", "stock"]
    assert ("stock" in EXCHANGES, "amq.direct" in EXCHANGES, None in EXCHANGES) == (True, False, False)
    assert repr(EXCHANGES) == "<Exchanges amq.topic, sales, stock>"


@pytest.mark.parametrize(
    ("topic", "exchange", "key"),
    [
        ("prices/tea", "amq.topic", "prices.tea"),
        ("sales/tea/v1.2", "sales", "tea.v1%2E2"),
        ("sites/stock/tea", "stock", "tea"),
        ("sales", "amq.topic", "sales"),
        ("sales/", "amq.topic", "sales."),
        ("salesmen/tea", "amq.topic", "salesmen.tea"),
        ("sites/tea", "amq.topic", "sites.tea"),
    ],
)
def test_a_message_goes_through_the_exchange_of_its_topic_and_comes_under_it(
    topic: str, exchange: str, key: str
) -> None:
    assert EXCHANGES.address(topic) == (exchange, key)
    assert EXCHANGES.topic(exchange, key) == topic


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("prices/#", ["amq.topic prices.#"]),
        ("sales/#", ["sales #", "amq.topic sales", "amq.topic sales."]),
        ("sales/+", ["sales *", "amq.topic sales."]),
        ("sites/stock/tea/#", ["stock tea.#"]),
        ("sales/+/tea", ["sales *.tea"]),
        ("#", ["amq.topic #", "sales #", "stock #"]),
        ("+/tea", ["amq.topic *.tea", "sales tea"]),
        ("+/+/tea/#", ["amq.topic *.*.tea.#", "sales *.tea.#", "stock tea.#"]),
        ("sites/#", ["amq.topic sites.#", "stock #"]),
        ("#/tea", ["amq.topic #.tea", "sales #", "stock #"]),
        ("+", ["amq.topic *"]),
    ],
)
def test_a_filter_is_bound_at_each_exchange_that_has_topics_for_it(pattern: str, expected: list[str]) -> None:
    assert [" ".join(each) for each in EXCHANGES.bindings(pattern)] == expected


def test_a_binding_reads_below_the_prefix_of_its_exchange() -> None:
    assert EXCHANGES.pattern(Binding("sales", "*.#")) == "sales/+/#"
    assert EXCHANGES.pattern(Binding("amq.topic", "#.tea")) == "#/tea"


def test_topics_of_another_exchange_are_none_of_the_usual_one() -> None:
    with pytest.raises(PatternError, match=r"below 'sales/' are of exchange 'sales', not of 'amq\.topic'"):
        EXCHANGES.pattern(Binding("amq.topic", "sales.#"))
    with pytest.raises(PatternError, match=r"not of 'amq\.topic'"):
        EXCHANGES.topic("amq.topic", "sites.stock.tea")
    with pytest.raises(PatternError):
        EXCHANGES.topic("sales", "tea.*")


@pytest.mark.parametrize(
    ("key", "kind", "own", "expected"),
    [
        ("a.#", "fanout", "x", "a.#"),
        ("a.#", "headers", "", "a.#"),
        ("a.#", "x-consistent-hash", "1", "a.#"),
        ("#", "topic", "a.*", "a.*"),
        ("a.#", "topic", "*.b", "a.b"),
        ("a.#", "topic", "b.#", None),
        ("a.*", "direct", "a.b", "a.b"),
        ("a.*", "direct", "b", None),
        ("a.#", "direct", "#", "a.#"),
    ],
)
def test_what_comes_through_another_exchange(key: str, kind: str, own: str, expected: str | None) -> None:
    assert through(key, kind, own) == expected
