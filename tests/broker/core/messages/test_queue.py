"""What waits beyond a cache is on disk alone, and comes back in order, whatever happens to it meanwhile."""

import secrets

import pytest
from backlogs import SMALL, Crowded, forest_of, payloads, read, send, warm

from broker.core.messages.deduplication import IdentitySet
from broker.core.rows import BundleRow, CopyRow
from sapwood.protocol.bundles import Flag
from simulation.clients import SimulatedConsumer
from simulation.forest import Forest
from simulation.site import Site


@pytest.fixture
def hq() -> Site:
    return Forest(SMALL).add("hq")


def test_many_wait_with_few_in_memory_and_come_in_order(hq: Site) -> None:
    send(hq, 200)
    assert (hq.waiting(), len(hq.core.custody.queues["queue:sales"].waiting)) == (200, 200)
    assert warm(hq) <= 17
    assert len(hq.core.custody.kept) == 200
    assert read(hq, 200, credit=7) == payloads(200)
    forest_of(hq).settle(1.0)
    assert not hq.core.custody.kept
    assert set(hq.core.custody.spools.values()) == {0}
    assert not hq.disk.tables[CopyRow]
    assert not hq.disk.tables[BundleRow]


def test_a_start_keeps_few_in_memory(hq: Site) -> None:
    send(hq, 200)
    spools = dict(hq.core.custody.spools)
    hq.crash()
    hq.boot()
    forest_of(hq).settle()
    assert (hq.waiting(), dict(hq.core.custody.spools)) == (200, spools)
    assert warm(hq) <= 17
    send(hq, 50, first=200)
    assert read(hq, 250) == payloads(250)


def test_what_is_on_disk_alone_expires_in_time(hq: Site) -> None:
    send(hq, 100, expires_in=5000)
    send(hq, 50, first=100)
    assert warm(hq) <= 17
    forest_of(hq).settle(3.0)
    assert hq.dead() == []
    forest_of(hq).settle(4.0)
    assert [reason for reason, _ in hq.dead()] == ["EXPIRED"] * 100
    assert read(hq, 50) == payloads(50, first=100)


def test_a_deleted_queue_leaves_nothing(hq: Site) -> None:
    send(hq, 100)
    doomed = hq.core.removal.delete_queue("sales")
    assert len(doomed) == 100
    while part := doomed.take(30):
        hq.core.removal.discard(part)
    forest_of(hq).settle()
    assert (hq.waiting(), len(hq.core.custody.kept)) == (0, 0)
    assert not hq.disk.tables[CopyRow]
    assert not hq.disk.tables[BundleRow]


def test_several_subscribers_share_what_is_in_memory_of_a_bundle(hq: Site) -> None:
    forest = forest_of(hq)
    for name in ("one", "two"):
        forest.consumer("hq", "topic:news", name=name, durable="daily").disconnect()
        forest.settle()
    send(hq, 100, "topic:news")
    places = [place for name, place in hq.core.custody.queues.items() if name.startswith("subscription:")]
    assert [len(place.waiting) for place in places] == [100, 100]
    assert all(len(place.waiting.warm) <= 17 for place in places)
    again = [client for client in forest.clients if isinstance(client, SimulatedConsumer)]
    for reader in again:
        reader.connect()
    forest.settle(1.0)
    assert [reader.payloads for reader in again] == [payloads(100), payloads(100)]
    assert not hq.disk.tables[BundleRow]


def test_looking_at_a_queue_brings_nothing_into_memory(hq: Site) -> None:
    send(hq, 100)
    place, before = hq.core.custody.queues["queue:sales"], warm(hq)
    rows = [copy.row for copy in place.waiting.look()]
    assert rows == sorted(rows)
    assert (len(rows), warm(hq), place.waiting.since) == (100, before, place.waiting[0].since)
    middle = rows[50]
    assert [copy.row for copy in place.waiting.look(middle)] == rows[50:]
    found = place.waiting.wake(middle)
    assert found is not None
    hq.core.removal.delete_message(found, 0)
    assert read(hq, 99) == [payload for payload in payloads(100) if payload != b"50"]


def test_who_holds_a_copy_that_left_memory_finds_nothing_open(hq: Site) -> None:
    send(hq, 12)
    held = list(hq.core.custody.queues["queue:sales"].waiting.warm)[-1]
    send(hq, 50, first=12)
    assert held not in hq.core.custody.queues["queue:sales"].waiting
    assert (held.open, hq.waiting()) == (0, 62)


def test_what_may_have_arrived_is_marked_when_it_comes_back(hq: Site) -> None:
    send(hq, 60)
    hq.crash()
    hq.boot()
    hq.core.custody.doubt_old()
    forest_of(hq).settle()
    hq.crash()
    hq.boot()
    send(hq, 1, first=60)
    place = hq.core.custody.queues["queue:sales"]
    flags = [copy.stored.header.flags & Flag.MAYBE_DUPLICATE for copy in place.waiting]
    assert flags == [Flag.MAYBE_DUPLICATE] * 60 + [0]


def test_ids_of_what_waits_take_a_bit_each() -> None:
    maker = secrets.token_bytes(12)
    found = IdentitySet()
    ids = [maker + number.to_bytes(4, "big") + b"york" for number in range(2000)]
    for each in ids:
        found.add(each)
    assert (len(found), all(each in found for each in ids)) == (2000, True)
    assert maker + (2000).to_bytes(4, "big") + b"york" not in found
    assert ids[0].removesuffix(b"york") + b"bath" not in found
    for each in ids[::2]:
        found.remove(each)
    assert [each in found for each in ids[:4]] == [False, True, False, True]
    for each in ids[1::2]:
        found.remove(each)
    assert (len(found), repr(found)) == (0, "<IdentitySet 0 of 0 makers>")


@pytest.mark.parametrize("seed", range(6))
def test_the_account_holds_with_hardly_anything_in_memory(seed: int) -> None:
    Crowded(seed, frozenset(("crash", "move", "restore", "replace"))).run()


def test_a_small_message_counts_with_what_its_rows_take(hq: Site) -> None:
    send(hq, 40)
    assert sum(hq.core.custody.spools.values()) > 40 * 170


def test_small_messages_fill_a_spool_and_are_refused() -> None:
    forest = Forest(SMALL)
    site = forest.add("hq", spool_up=20_000)
    producer = forest.producer("hq", "producer")
    for number in range(200):
        producer.send("queue:sales", b"%d" % number)
        forest.settle()
    assert 100 < site.waiting() < 120
    assert producer.rejected


def test_a_start_amid_the_copies_of_one_bundle_keeps_it_for_all_of_them(hq: Site) -> None:
    """A start lets copies go after so many rows: of a bundle, too, whose other copy is in the next row."""
    forest = forest_of(hq)
    long = forest.consumer("hq", "topic:news", name="one", durable="daily")
    forest.settle()
    long.disconnect()
    send(hq, 1018, "topic:news")
    short = forest.consumer("hq", "topic:news", name="two", durable="daily")
    forest.settle()
    short.disconnect()
    send(hq, 1, "topic:news", first=1018)
    if hq.disk.tables[CopyRow][1019].place != "subscription:one/daily":
        send(
            hq, 1, "queue:other"
        )  # which of the two has the first row is chance: row 1025 is to be the long one's
    send(hq, 5, "topic:news", first=1019)
    assert hq.disk.tables[CopyRow][1025].place == "subscription:one/daily"
    hq.crash()
    hq.boot()
    for reader in (long, short):
        reader.connect()
        forest.settle(1.0)
    assert (long.payloads, short.payloads) == (payloads(1024), payloads(6, first=1018))
    forest.settle(1.0)
    assert all(row.place == "queue:other" for row in hq.disk.tables[CopyRow].values())
    assert len(hq.disk.tables[BundleRow]) == len(hq.disk.tables[CopyRow])


def test_a_row_that_is_used_again_is_not_in_doubt(hq: Site) -> None:
    send(hq, 60)
    hq.crash()
    hq.boot()
    hq.core.custody.doubt_old()
    read(hq, 60)
    forest_of(hq).clients[-1].disconnect()
    forest_of(hq).settle(1.0)
    hq.crash()
    hq.boot()
    send(hq, 40, first=60)
    copies = hq.core.custody.queues["queue:sales"].waiting
    assert {copy.stored.header.flags & Flag.MAYBE_DUPLICATE for copy in copies} == {0}


def test_what_rests_again_after_it_has_left_memory_is_not_lost() -> None:
    """A copy rests, leaves memory before its time is over, comes back as another object and rests again."""
    forest = Forest(SMALL)
    hq = forest.add("hq")
    forest.add("york", "hq")
    forest.heal()
    send(hq, 40, "queue:up")
    place, forwarder, york = hq.core.custody.queues["queue:up"], hq.core.forwarder, hq.core.neighbours["york"]
    first = place.waiting.popleft()
    forwarder._rest(first, york)
    place.end_rest()
    place.waiting.room = 0
    hq.core.custody.paging.window = 0
    hq.core.custody.paging.crowded[place] = None
    hq.core.custody.paging.cool()
    assert first.open == 0
    again = place.waiting.popleft()
    assert again.row == first.row
    place.resting[again.row] = again
    forest.pass_time(0.2)
    forest.settle()
    assert again in place.waiting
    assert read(hq, 40, "queue:up") == payloads(40)
