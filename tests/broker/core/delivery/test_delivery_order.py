"""Order is remembered of the latest streams, and of no more names than there is room for."""

from broker.core.delivery.delivery_order import MOST_BYTES, DeliveryOrder
from sapwood.protocol.bundles import Header
from sapwood.protocol.destinations import topic


def header(number: int, name: str, start: int = 0) -> Header:
    """Each start has ids of its own."""
    ids = start.to_bytes(12) + number.to_bytes(4)
    return Header(id=ids, destination=topic(name), origin_store=b"hq", origin="hq", start=start)


def test_what_was_made_before_what_was_given_is_late() -> None:
    order = DeliveryOrder()
    late = [order.is_late(header(number, "a"), "york") for number in (1, 3, 2, 4)]
    assert late == [False, False, True, False]
    assert not order.is_late(header(1, "b"), "york")


def test_what_an_earlier_start_made_is_late_whatever_its_number() -> None:
    order = DeliveryOrder()
    made = [(1, 8), (2, 1), (1, 9), (2, 2), (2, 1), (3, 0), (2, 3)]
    late = [order.is_late(header(number, "a", start), "york") for start, number in made]
    assert late == [False, False, True, False, True, False, True]


def test_starts_of_a_store_that_was_put_back_or_of_an_older_node_are_not_compared() -> None:
    order = DeliveryOrder()
    again = Header(id=b"again" + bytes(11), destination=topic("a"), origin_store=b"hq", origin="hq", start=5)
    assert not order.is_late(header(7, "a", 5), "york")
    assert not order.is_late(again, "york")
    assert not order.is_late(Header(id=b"older" + bytes(11), destination=topic("a"), origin="hq"), "york")


def test_long_names_are_forgotten_before_they_fill_the_memory() -> None:
    order = DeliveryOrder()
    for number in range(5000):
        assert not order.is_late(header(7, f"{number}/{chr(233) * 2000}"), "york")
    assert MOST_BYTES - 10_000 < order.size <= MOST_BYTES
    assert repr(order) == f"<DeliveryOrder of {order.size // 4009} streams>"
    assert order.is_late(header(6, f"4999/{chr(233) * 2000}"), "york")
    assert not order.is_late(header(6, f"0/{chr(233) * 2000}"), "york")


def test_of_very_many_streams_the_latest_are_known() -> None:
    order = DeliveryOrder()
    for number in range(10_100):
        assert not order.is_late(header(7, f"{number}"), "york")
    assert repr(order) == "<DeliveryOrder of 10000 streams>"
    assert order.is_late(header(6, "10099"), "york")
    assert not order.is_late(header(6, "0"), "york")
