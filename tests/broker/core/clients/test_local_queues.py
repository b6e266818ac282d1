"""Queues that applications made: how they are named, in order and step by step."""

from itertools import islice

import pytest

from broker.core.clients import local_queues
from broker.core.sessions.rights import Rights
from broker.core.sessions.sessions import Connection
from simulation.forest import Forest
from simulation.site import Site
from treeconnector.permits import Permit, application


@pytest.fixture
def hq(forest: Forest) -> Site:
    return forest.add("hq")


def login(site: Site, rights: Rights | None = None) -> Connection:
    made = Connection(lambda frame: None, "test", "http", rights or Rights())
    site.core.switch.login(made, "t")
    return made


def names(site: Site, line: Connection, prefix: str = "", *, read: bool = False) -> list[str]:
    return [name for name in site.core.switch.names(line, prefix, read=read) if name]


def test_queues_are_named_in_order_by_how_they_begin(hq: Site) -> None:
    line, switch = login(hq), hq.core.switch
    for name in ("b/2", "a", "z", "b/1", "b"):
        switch.create(line, name)
    fresh = switch.create(line, "").partition("@")[0]
    assert names(hq, line) == ["a", "b", "b/1", "b/2", fresh, "z"]
    assert names(hq, line, "b/") == ["b/1", "b/2"]
    assert names(hq, line, "tran") == [fresh]
    assert names(hq, line, "c") == []
    switch.subscribe(line, "b/2")
    assert names(hq, line, "b", read=True) == ["b/2"]
    switch.destroy(line, "b/1")
    switch.destroy(line, fresh)
    assert names(hq, line) == ["a", "b", "b/2", "z"]


def test_so_many_are_named_and_no_more(hq: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_queues, "MOST_NAMES", 3)
    line = login(hq)
    for number in range(5):
        hq.core.switch.create(line, f"q{number}")
    assert names(hq, line, "q") == ["q0", "q1", "q2"]


def test_whoever_may_make_none_of_very_many_stops_the_node_for_no_more_than_a_step(
    hq: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = login(hq)
    for number in range(3000):
        hq.core.switch.create(line, f"q{number:04}")
    asked: list[str] = []
    rights = Rights("account till", "till/", Permit([application("hq", "till", (), ())]))
    check = Rights.check_make

    def counted(self: Rights, name: str) -> None:
        asked.append(name)
        check(self, name)

    monkeypatch.setattr(Rights, "check_make", counted)
    found = hq.core.switch.names(login(hq, rights), "", read=False)
    assert list(islice(found, 10)) == [""] * 10
    assert len(asked) == 10
    assert not any(found)
    assert len(asked) == 3000


def test_many_fresh_queues_are_put_in_order_a_part_at_a_time(
    hq: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_queues, "_RUN", 10)
    line = login(hq)
    made = sorted(hq.core.switch.create(line, "").partition("@")[0] for _ in range(45))
    found = hq.core.switch.names(line, "", read=False)
    assert list(islice(found, 5)) == [""] * 5
    assert list(found) == made
