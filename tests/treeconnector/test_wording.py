"""One is one, and several are several."""

import pytest

from treeconnector.wording import counted


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ((1, "message"), "1 message"),
        ((0, "message"), "0 messages"),
        ((2, "delivery"), "2 deliveries"),
        ((1, "delivery"), "1 delivery"),
        ((2, "relay"), "2 relays"),
        ((1, "row", "was", "were"), "1 row was"),
        ((7, "entry", "waits", "wait"), "7 entries wait"),
    ],
)
def test_a_number_stands_before_the_noun_in_its_form(said: tuple[int, str], text: str) -> None:
    assert counted(*said) == text
