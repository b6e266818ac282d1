"""What a person means by 'these destinations'."""

import pytest

from broker.api.filters import DestinationFilter
from broker.core.errors import BadRequest
from sapwood.protocol.destinations import Destination, Kind, queue, topic


@pytest.mark.parametrize(
    ("text", "destination"),
    [
        ("", queue("sales")),
        ("#", topic("a/b")),
        ("sales", queue("sales")),
        ("sales", queue("sales", "york")),
        ("queue:sales", queue("sales")),
        ("queue:sales@york", queue("sales", "york")),
        ("queue:+", queue("anything")),
        ("queue:#", queue("sales", "york")),
        ("topic:a/+", topic("a/b")),
        ("a/#", topic("a/b/c")),
        ("topic:a/b", Destination(Kind.TOPIC, "a/b", "york")),
    ],
)
def test_what_holds(text: str, destination: Destination) -> None:
    assert DestinationFilter(text).holds(destination)


@pytest.mark.parametrize(
    ("text", "destination"),
    [
        ("sales", queue("sale")),
        ("sales", topic("sales")),
        ("queue:sales@york", queue("sales")),
        ("queue:sales@york", queue("sales", "leeds")),
        ("topic:a/+", topic("a/b/c")),
        ("topic:#", queue("sales")),
        ("queue:#", topic("sales")),
    ],
)
def test_what_does_not(text: str, destination: Destination) -> None:
    assert not DestinationFilter(text).holds(destination)


@pytest.mark.parametrize("text", ["a/#/b#", "queue:", "topic:"])
def test_what_is_no_filter_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="filter"):
        DestinationFilter(text)
