"""A retained value that another node's has replaced is so where it was written, though nobody reads there."""

import pytest
from memory_broker import Broker

from broker.core.routing import earlier_writers
from broker.core.rows import MetaRow
from broker.core.settings import QueuePolicy
from sapwood.protocol.bundles import Scope
from sapwood.protocol.destinations import Kind, topic
from sapwood.protocol.session_frames import Unsubscribe
from simulation.clients import SimulatedConsumer
from simulation.forest import Forest

TREE = (QueuePolicy(Kind.TOPIC, "price/#", Scope.TREE),)


def tree(forest: Forest, *stores: str, **settings: object) -> None:
    """HQ, a region, and stores; a reader at HQ, if topics do not go there anyway."""
    forest.add("hq", **settings)
    forest.add("north", "hq", "branch", **settings)
    for name in stores or ("york",):
        forest.add(name, "north", **settings)
    forest.dial_all()
    forest.settle(3.0)
    if not settings:
        read_at_hq(forest)


def read_at_hq(forest: Forest) -> None:
    forest.consumer("hq", "topic:price/#", "office")
    forest.settle(1.0)


def restart(forest: Forest, *names: str) -> None:
    for name in names:
        forest[name].crash()
    for name in names:
        forest[name].boot()
    read_at_hq(forest)
    forest.heal(5.0)


def retain(forest: Forest, at: str, payload: bytes, name: str = "price/tea") -> None:
    forest.producer(at, f"{at} {name} {payload!r}").send(f"topic:{name}", payload, retained=True)
    forest.settle(1.0)


def late(forest: Forest, at: str) -> list[bytes]:
    """Values that are given to whoever comes later there, in order."""
    reader = forest.consumer(at, "topic:price/tea", f"late at {at}")
    forest.settle(2.0)
    given = list(dict.fromkeys(reader.payloads))
    leave(reader)
    forest.settle(15.0)
    return given


def leave(reader: SimulatedConsumer) -> None:
    reader.say(Unsubscribe(3, 7))
    reader.disconnect()


def noted(forest: Forest, *names: str) -> list[int]:
    """Values that are remembered, in memory and on disk."""
    rows = [
        [row for row in forest[name].disk.rows(MetaRow) if row.name.startswith("earlier writer:")]
        for name in names
    ]
    return [len(each) for each in rows]


@pytest.mark.parametrize("at", ["hq", "north"])
@pytest.mark.parametrize(("payload", "given"), [(b"new", [b"new"]), (b"", [])])
def test_a_value_changed_or_cleared_above_is_so_where_it_was_written(
    forest: Forest, at: str, payload: bytes, given: list[bytes]
) -> None:
    tree(forest)
    retain(forest, "york", b"old")
    retain(forest, at, payload)
    assert late(forest, "york") == given
    assert late(forest, "north") == given


def test_a_value_changed_by_a_sibling_is_so_with_scope_tree(forest: Forest) -> None:
    tree(forest, "york", "leeds", policies=TREE)
    retain(forest, "york", b"old")
    retain(forest, "leeds", b"new")
    assert [late(forest, name) for name in ("york", "leeds", "north", "hq")] == [[b"new"]] * 4
    retain(forest, "york", b"")
    assert [late(forest, name) for name in ("york", "leeds", "north", "hq")] == [[]] * 4


def test_a_sibling_changes_nothing_with_scope_vertical_and_both_are_cleared_from_above(
    forest: Forest,
) -> None:
    tree(forest, "york", "leeds")
    retain(forest, "york", b"of york")
    retain(forest, "leeds", b"of leeds")
    assert noted(forest, "hq", "north") == [1, 1]
    assert late(forest, "york") == [b"of york"]
    restart(forest, "hq", "north")
    retain(forest, "hq", b"")
    assert [late(forest, name) for name in ("york", "leeds")] == [[], []]
    assert noted(forest, "hq", "north") == [0, 0]


def test_it_waits_for_a_line_that_is_down(forest: Forest) -> None:
    tree(forest)
    retain(forest, "york", b"old")
    forest["york"].crash()
    retain(forest, "hq", b"new")
    forest["york"].boot()
    forest.heal(5.0)
    assert late(forest, "york") == [b"new"]


def test_of_two_that_write_at_once_the_one_is_last_that_came_last_to_the_node_above(forest: Forest) -> None:
    tree(forest)
    retain(forest, "york", b"old")
    forest["north"].crash()
    retain(forest, "hq", b"of hq")
    retain(forest, "york", b"of york")
    forest["north"].boot()
    forest.heal(5.0)
    assert [late(forest, name) for name in ("york", "north", "hq")] == [[b"of york"]] * 3


def test_who_reads_there_is_given_it_once(forest: Forest) -> None:
    tree(forest)
    reader = forest.consumer("york", "topic:price/#", "till")
    retain(forest, "york", b"old")
    retain(forest, "hq", b"new")
    assert reader.payloads == [b"old", b"new"]


def test_a_site_s_broker_is_given_what_replaces_its_own(forest: Forest) -> None:
    tree(forest)
    broker = Broker(forest, "york")
    broker.sends("topic:price/tea", b"old", retained=True)
    retain(forest, "hq", b"")
    assert [(each.message.payload, each.retained) for each in broker.given] == [(b"", True)]
    broker.confirm()
    assert forest["york"].waiting() == 0


def test_a_site_s_broker_above_is_listened_to_for_what_came_from_below(forest: Forest) -> None:
    for name, parent in (("hq", ""), ("york", "hq")):
        forest.add(name, parent)
    forest.dial_all()
    forest.settle(3.0)
    broker = Broker(forest, "hq")
    broker.consumers("topic:price/#")
    assert not broker.site.wanted
    retain(forest, "york", b"old")
    assert broker.site.wanted == {topic("price/tea")}
    forest["hq"].crash()
    forest["hq"].boot()
    broker.attach()
    broker.consumers("topic:price/#")
    forest.heal(5.0)
    assert broker.site.wanted == {topic("price/tea")}
    broker.sends("topic:price/tea", b"new", retained=True)
    assert not broker.site.wanted
    assert "price/tea" not in forest["hq"].core.topics.retained, "nobody would hear of another one"
    assert "price/tea" not in forest["york"].core.topics.retained


def test_a_root_s_own_broker_is_given_what_comes_from_below(forest: Forest) -> None:
    tree(forest, policies=TREE)
    broker = Broker(forest, "hq")
    reader = forest.consumer("york", "topic:price/#", "till")
    forest.settle(1.0)
    broker.sends("topic:price/tea", b"old", retained=True)
    retain(forest, "york", b"new")
    assert broker.payloads() == [b"new"]
    assert reader.payloads == [b"old", b"new"]


def test_no_more_are_remembered_than_there_is_room_for(
    forest: Forest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(earlier_writers, "MOST", 2)
    tree(forest, "york", "leeds")
    for name in "abc":
        retain(forest, "york", b"of york", f"price/{name}")
        retain(forest, "leeds", b"of leeds", f"price/{name}")
    assert noted(forest, "hq") == [2]
