"""What a node says of itself, where it cannot say everything."""

from types import SimpleNamespace
from typing import Any

from broker.api.status import troubled_first


def test_of_thousands_of_children_those_in_trouble_are_among_the_first() -> None:
    states = {7: "down", 1999: "blocked", 1000: "connecting"}
    links: Any = [
        SimpleNamespace(name=f"store-{number:04}", state=states.get(number, "running"))
        for number in range(2000)
    ]
    names = [link.name for link in troubled_first(links)]
    assert names[:5] == ["store-0007", "store-1999", "store-1000", "store-0000", "store-0001"]
    assert len(names) == 2000
