"""A node below a new parent: topics that the former one wanted are wanted until the new one has spoken."""

import pytest

from sapwood.protocol.destinations import parse
from simulation.forest import Forest


@pytest.fixture
def forest() -> Forest:
    return Forest().grow(
        ("hq",), ("north", "hq", "branch"), ("south", "hq", "branch"), ("york", "north"), seconds=2
    )


def go_south(forest: Forest) -> None:
    """The way to the first parent fails; the next one of york's leads elsewhere."""
    wire = forest.wire_of("york")
    assert wire is not None
    forest.cut(wire)
    forest["york"].parent = "south"
    forest.dial_all()


def one_packet_each(forest: Forest) -> None:
    """A step in which each line carries as little as it can."""
    for site in forest.sites.values():
        site.run()
    for wire in forest.wires:
        wire.pull(1)
        for _, target, way in wire.sides():
            wire.deliver(way, target, 1)
    for client in forest.clients:
        client.act()


def test_what_is_published_while_a_store_meets_its_next_parent_is_not_lost(forest: Forest) -> None:
    """It matched nothing, as what the former parent had said was void, and the next one had said nothing."""
    reader = forest.consumer("hq", "topic:sales/#")
    till = forest.producer("york")
    forest.settle(2)
    go_south(forest)
    sent = []
    for number in range(200):
        sent.append(str(number).encode())
        till.send("topic:sales/york", sent[-1])
        one_packet_each(forest)
    forest.settle(5)
    assert forest["york"].core.ancestry.chain == ["york", "south", "hq"]
    assert forest["york"].core.context.counters["unmatched"] == 0
    assert reader.payloads == sent


@pytest.mark.parametrize("others", [(), ("topic:news/#",)])
def test_the_next_parent_s_word_takes_its_place(forest: Forest, others: tuple[str, ...]) -> None:
    """Whether it has something to say, or offers nothing and so says nothing."""
    forest.consumer("north", "topic:sales/#")
    for destination in others:
        forest.consumer("hq", destination)
    forest.settle(2)
    go_south(forest)
    forest.settle(forest.settings.reattach_time + 2)
    table = forest["york"].core.context.table
    assert [table.route(parse(each), "south") is not None for each in ("topic:sales/#", "topic:news/#")] == [
        False,
        bool(others),
    ]
