"""Neighbours can make a node keep so much and no more."""

import pytest

from broker.core.neighbours import admission, advertising
from broker.core.policies import loans
from broker.core.rows import FORMER, MetaRow, RouteRow
from simulation.forest import Forest
from treeconnector.bundles import Flag, Header, Message, encode_message
from treeconnector.destinations import Kind, queue
from treeconnector.frames import Advice


def test_a_node_knows_so_many_others_and_says_how_room_is_made(
    forest: Forest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that it knows come and go as before."""
    monkeypatch.setattr(admission, "_MOST_CHILDREN", 2)
    hq = forest.add("hq")
    for name in ("york", "leeds"):
        forest.add(name, "hq")
    forest.heal(2)
    forest["york"].crash()
    forest.add("bath", "hq")
    forest.heal(2)
    assert set(hq.core.neighbours) == {"york", "leeds"}
    assert hq.core.neighbours["york"].up
    text = "'hq' knows 2 others: it forgets some first (sapwood node forget NAME)"
    assert any(text in error for error in forest["bath"].errors)
    hq.core.relocation.forget(hq.core.neighbours["leeds"], moved=False)
    forest["leeds"].crash()
    for _ in range(3):
        forest.dial("bath")
        forest.settle(1.0)
    assert hq.core.neighbours["bath"].up


def test_of_very_many_nodes_that_have_left_a_child_the_latest_are_known(
    forest: Forest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(advertising, "_MAX_FORMER", 3)
    hq = forest.add("hq")
    forest.add("north", "hq", "branch")
    forest.heal(2)
    north = hq.core.neighbours["north"]
    names = [f"shop{number}" for number in range(8)]
    for op in ("add", "remove"):
        hq.core.advertising.advised(north, [Advice(op, Kind.DOMAIN, name, name, "c") for name in names])
    forest.settle(1.0)
    assert list(north.former) == names[-3:]
    rows = [row for row in hq.disk.rows(RouteRow) if row.declined == FORMER]
    assert {row.name for row in rows} == set(names[-3:])


def test_of_very_many_bundles_that_were_lent_the_latest_are_known(
    forest: Forest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In memory and on disk, lent and come back."""
    monkeypatch.setattr(loans, "_MOST", 3)
    hq = forest.add("hq")
    forest.add("york", "hq")
    forest.heal(2)
    york, lent, body = hq.core.neighbours["york"], hq.core.loans, encode_message(Message(b"x"))

    def header(number: int) -> Header:
        return Header(
            id=bytes([number]) * 16,
            destination=queue("till"),
            flags=Flag.REROUTED | Flag.PERSISTENT,
            origin="hq",
            size=len(body),
        )

    for number in range(9):
        lent.sent(york, header(number), body)
    assert [lent.take(york, header(number), body) for number in range(9)] == [False] * 6 + [True] * 3
    for number in range(20, 30):
        lent.sent(york, header(number), body)
        assert lent.take(york, header(number), body)
    hq.run()
    assert len(lent._digests) <= len(lent._taken) == 3
    assert len([row for row in hq.disk.rows(MetaRow) if row.name.startswith("given ")]) == 3
