"""Sessions that outlive their connections, their values and their end; crashes in between."""

import pytest

from broker.core.clients import kept_sessions
from broker.core.clients.kept_sessions import AT_ONCE, NEVER, READS, SHARES, KeptSessions
from broker.core.errors import Busy
from broker.core.rows import ClientRow
from simulation.forest import Forest
from simulation.site import Site


@pytest.fixture
def hq(forest: Forest) -> Site:
    return forest.add("hq", subscription_retention=100.0)


def crash(forest: Forest, hq: Site) -> None:
    forest.settle()
    hq.crash()
    hq.boot()


def test_values_come_back_after_a_crash(forest: Forest, hq: Site) -> None:
    session = hq.core.kept_sessions.keep("mqtt/till", 50)
    for name, value in (("a", b"1"), ("b", b"2"), ("a", b"3")):
        session.put(name, value)
    session.drop("b")
    crash(forest, hq)
    again = hq.core.kept_sessions.get("mqtt/till")
    assert again is not None
    assert (again.expires_in, again.values) == (50, {"a": b"3"})
    assert repr(hq.core.kept_sessions) == "<KeptSessions 1 with 1 values of 2 bytes>"


def test_it_ends_when_its_time_is_over_and_not_while_its_client_is_there(forest: Forest, hq: Site) -> None:
    kept = hq.core.kept_sessions
    kept.keep("mqtt/till", 10)
    forest.settle(60)
    assert kept.get("mqtt/till") is not None
    kept.leave("mqtt/till")
    forest.settle(5)
    assert kept.get("mqtt/till") is not None
    forest.settle(10)
    assert kept.get("mqtt/till") is None
    crash(forest, hq)
    assert len(hq.core.kept_sessions) == 0


def test_a_crash_ends_its_connection_and_it_is_kept_for_as_long_as_subscriptions_are(
    forest: Forest, hq: Site
) -> None:
    hq.core.kept_sessions.keep("mqtt/till", NEVER)
    crash(forest, hq)
    forest.settle(90)
    assert len(hq.core.kept_sessions) == 1
    forest.settle(20)
    assert len(hq.core.kept_sessions) == 0


def test_one_that_is_not_to_be_kept_ends_with_its_connection(forest: Forest, hq: Site) -> None:
    kept = hq.core.kept_sessions
    kept.keep("mqtt/till", NEVER).expires_in = 0
    kept.leave("mqtt/till")
    assert kept.get("mqtt/till") is None


def test_its_durable_subscriptions_end_with_it(forest: Forest, hq: Site) -> None:
    forest.consumer("hq", "topic:prices/#", durable="p")
    forest.settle()
    (token,) = (each.session for each in hq.core.topics.subscriptions.values())
    hq.core.kept_sessions.keep(token, 10).put(READS + "p", b"")
    assert hq.core.topics.durable(token, "p") is not None
    hq.core.kept_sessions.end(token)
    forest.settle()
    assert hq.core.topics.durable(token, "p") is None


def test_so_many_sessions_are_kept_and_no_more(
    forest: Forest, hq: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_sessions, "MOST", 3)
    monkeypatch.setattr(kept_sessions, "MOST_OF_ONE", 2)
    kept = hq.core.kept_sessions
    for token in ("till/a", "till/b"):
        kept.keep(token, NEVER)
    kept.keep("till/a", NEVER)
    with pytest.raises(Busy):
        kept.keep("till/c", NEVER)
    kept.keep("desk/a", NEVER)
    with pytest.raises(Busy):
        kept.keep("desk/b", NEVER)
    kept.end("till/a")
    kept.keep("till/c", NEVER)


def test_what_is_kept_of_sessions_is_bounded(
    forest: Forest, hq: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_sessions, "MOST_VALUES", 3)
    monkeypatch.setattr(kept_sessions, "MOST_BYTES", 100)
    one, other = (hq.core.kept_sessions.keep(f"till/{name}", NEVER) for name in "ab")
    one.put("a", bytes(40))
    other.put("a", bytes(40))
    with pytest.raises(Busy, match="bytes"):
        other.put("b", bytes(40))
    one.put("a", b"")
    other.put("b", bytes(40))
    with pytest.raises(Busy, match="values"):
        one.put("b", b"")
    other.drop("b")
    one.put("b", b"")


def test_what_is_kept_of_one_account_s_sessions_is_bounded(
    forest: Forest, hq: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its sessions count together, with the names of values; others have their room."""
    monkeypatch.setattr(kept_sessions, "MOST_VALUES_OF_ONE", 3)
    monkeypatch.setattr(kept_sessions, "MOST_BYTES_OF_ONE", 100)
    one, two, other = (hq.core.kept_sessions.keep(token, NEVER) for token in ("till/a", "till/b", "desk/a"))
    one.put("n" * 80, b"")
    with pytest.raises(Busy, match="bytes"):
        two.put("n" * 30, b"")
    other.put("n" * 30, b"")
    two.put("b", b"")
    two.put("c", b"")
    crash(forest, hq)
    kept = hq.core.kept_sessions
    again = [kept.get(token) for token in ("till/b", "desk/a")]
    two, other = (each for each in again if each is not None)
    with pytest.raises(Busy, match="values"):
        two.put("d", b"")
    two.put("b", b"x")
    other.put("d", b"")
    kept.end("till/a")
    two.put("d", b"")


def test_a_shared_subscription_lasts_as_long_as_a_session_that_has_it(forest: Forest, hq: Site) -> None:
    """Its readers share it by their group, whatever their sessions; each account has groups of its own."""
    one = forest.consumer("hq", "topic:prices/#", durable="p", group="g")
    two = forest.consumer("hq", "topic:prices/#", "another", durable="p", group="g")
    producer = forest.producer("hq")
    forest.settle()
    (shared,) = hq.core.topics.subscriptions.values()
    hq.core.kept_sessions.keep("mqtt/till", NEVER).put(f"{SHARES}{shared.session}\np", b"")
    for number in range(4):
        producer.send("topic:prices/1", b"%d" % number)
        forest.settle()
    assert sorted(one.payloads + two.payloads) == [b"0", b"1", b"2", b"3"]
    for reader in (one, two):
        reader.disconnect()
    crash(forest, hq)
    forest.settle(70)
    (shared,) = hq.core.topics.subscriptions.values()
    assert (shared.name, shared.holders, shared.attached) == ("p", 1, False)
    hq.core.kept_sessions.end("mqtt/till")
    assert not hq.core.topics.subscriptions


def with_very_many(hq: Site) -> KeptSessions:
    kept = hq.core.kept_sessions
    session = kept.keep("mqtt/till", NEVER)
    for number in range(3 * AT_ONCE):
        session.put(f"given {number}", b"")
    return kept


def test_one_that_keeps_very_much_ends_a_part_at_a_time_and_after_a_crash(forest: Forest, hq: Site) -> None:
    kept = with_very_many(hq)
    forest.settle()
    kept.end("mqtt/till")
    assert kept.get("mqtt/till") is None
    assert repr(kept).startswith(f"<KeptSessions 0 with {2 * AT_ONCE} values of")
    crash(forest, hq)
    kept = hq.core.kept_sessions
    assert kept.is_ending("mqtt/till")
    assert repr(kept).startswith(f"<KeptSessions 0 with {2 * AT_ONCE} values of")
    forest.settle(3.0)
    assert not kept.is_ending("mqtt/till")
    assert repr(kept) == "<KeptSessions 0 with 0 values of 0 bytes>"
    assert hq.disk.rows(ClientRow) == []


def test_a_new_session_has_nothing_of_the_one_of_that_name_that_ends(forest: Forest, hq: Site) -> None:
    kept = with_very_many(hq)
    kept.end("mqtt/till")
    assert kept.is_ending("mqtt/till")
    session = kept.keep("mqtt/till", NEVER)
    session.put("given 1", b"new")
    forest.settle(3.0)
    crash(forest, hq)
    again = hq.core.kept_sessions.get("mqtt/till")
    assert again is not None
    assert again.values == {"given 1": b"new"}


def test_many_that_end_at_one_moment_end_no_more_than_a_part(forest: Forest, hq: Site) -> None:
    kept, count = hq.core.kept_sessions, AT_ONCE // 10
    for number in range(count):
        session = kept.keep(f"mqtt/{number}", NEVER)
        for each in range(20):
            session.put(f"given {each}", b"")
    for number in range(count):
        kept.end(f"mqtt/{number}")
    assert sum(kept.is_ending(f"mqtt/{number}") for number in range(count)) > count // 3
    forest.settle(3.0)
    assert repr(kept) == "<KeptSessions 0 with 0 values of 0 bytes>"
