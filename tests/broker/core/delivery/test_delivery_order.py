"""Order is remembered of the latest streams, and of no more names than there is room for."""

from broker.core.delivery.delivery_order import MOST_BYTES, DeliveryOrder
from treeconnector.bundles import Header
from treeconnector.destinations import topic


def header(number: int, name: str) -> Header:
    return Header(id=bytes(12) + number.to_bytes(4), destination=topic(name))


def test_what_was_made_before_what_was_given_is_late() -> None:
    order = DeliveryOrder()
    late = [order.is_late(header(number, "a"), "york") for number in (1, 3, 2, 4)]
    assert late == [False, False, True, False]
    assert not order.is_late(header(1, "b"), "york")


def test_long_names_are_forgotten_before_they_fill_the_memory() -> None:
    order = DeliveryOrder()
    for number in range(5000):
        assert not order.is_late(header(7, f"{number}/{chr(233) * 2000}"), "york")
    assert MOST_BYTES - 10_000 < order.size <= MOST_BYTES
    assert repr(order) == f"<DeliveryOrder of {order.size // 4009} streams>"
    assert order.is_late(header(6, f"4999/{chr(233) * 2000}"), "york")
    assert not order.is_late(header(6, f"0/{chr(233) * 2000}"), "york")
