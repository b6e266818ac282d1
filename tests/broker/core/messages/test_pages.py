"""A start reads what is in the cache, not what waits; and knows afterwards all that it would have read."""

import secrets
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from backlogs import SMALL, Crowded, forest_of, payloads, read, send, warm

from broker.core.custody.custody import Custody
from broker.core.custody.shared import Cold, Shared
from broker.core.messages.deduplication import IdentitySet
from broker.core.messages.pages import BLOCK, Covered, summary_of
from broker.core.messages.queue import Page, QueueEntry, entry_row
from broker.core.node import NodeCore
from broker.core.rows import CopyRow, PageRow, StoredEntry, Transaction
from broker.store import Store
from sapwood.protocol.destinations import Kind
from simulation.actions import Action
from simulation.clients import SimulatedConsumer
from simulation.disk import Disk
from simulation.forest import Forest
from simulation.site import Site


class Counting(Disk):
    """Counts the copies that a start reads."""

    read = 0

    def copies(self, but: Covered) -> Iterator[StoredEntry]:
        for self.read, found in enumerate(super().copies(but), 1):
            yield found


@pytest.fixture
def hq() -> Site:
    site = Forest(SMALL).add("hq")
    site.crash()
    site.disk = Counting()
    site.boot()
    return site


def again(site: Site) -> int:
    """Crash and start; the number of copies that were read."""
    site.crash()
    site.boot()
    forest_of(site).settle()
    assert isinstance(site.disk, Counting)
    return site.disk.read


# --- what a start reads


@pytest.mark.parametrize("count", [100, 400])
def test_a_start_reads_the_same_few_copies_however_many_wait(hq: Site, count: int) -> None:
    send(hq, count)
    forest_of(hq).settle(20.0)
    assert again(hq) <= 17
    assert warm(hq) <= 17
    assert hq.waiting() == count
    assert read(hq, count) == payloads(count)
    forest_of(hq).settle(1.0)
    assert not any(hq.disk.tables[table] for table in (CopyRow, PageRow))


def test_two_places_whose_rows_alternate_are_told_apart(hq: Site) -> None:
    for number in range(100):
        send(hq, 1, f"queue:{'ab'[number % 2]}", first=number)
    forest_of(hq).settle(20.0)
    assert again(hq) <= 34
    assert read(hq, 50, "queue:a") == payloads(100)[::2]
    assert read(hq, 50, "queue:b") == payloads(100)[1::2]


def test_what_expires_unread_does_so_after_a_start(hq: Site) -> None:
    send(hq, 100, expires_in=30_000)
    forest_of(hq).settle(20.0)
    again(hq)
    assert hq.dead() == []
    forest_of(hq).settle(25.0)  # the running time of the last seconds before the crash is not known
    assert [reason for reason, _ in hq.dead()] == ["EXPIRED"] * 100


def test_a_start_without_pages_makes_them(hq: Site) -> None:
    send(hq, 100)
    forest_of(hq).settle(20.0)
    hq.disk.tables[PageRow].clear()
    hq.disk._paged.clear()
    assert again(hq) == 100
    assert again(hq) <= 17


# --- topics with several absent readers


def absent(site: Site, *names: str) -> list[SimulatedConsumer]:
    found = []
    for name in names:
        found.append(forest_of(site).consumer("hq", "topic:news", name=name, durable="daily"))
        forest_of(site).settle()
        found[-1].disconnect()
    return found


def test_a_topics_bundles_leave_memory_however_many_readers_are_absent(hq: Site) -> None:
    readers = absent(hq, "one", "two", "three")
    send(hq, 200, "topic:news")
    custody = hq.core.custody
    assert len(custody.paging.parted) <= 34
    assert len(custody.paging.shared) >= 160
    assert len(custody.kept._subscribed) <= 34
    assert len(custody.kept) == 200
    spools = dict(custody.spools)
    forest_of(hq).settle(20.0)
    assert again(hq) <= 60
    custody = hq.core.custody
    assert (hq.waiting(), dict(custody.spools), len(custody.kept)) == (600, spools, 200)
    for reader in readers:
        reader.connect()
        forest_of(hq).settle(2.0)
        assert reader.payloads == payloads(200)
    assert (set(custody.spools.values()), len(custody.kept), len(custody.paging.shared)) == ({0}, 0, 0)
    assert not any(hq.disk.tables[table] for table in (CopyRow, PageRow))
    assert not hq.disk.bundles


def test_what_one_of_two_absent_readers_has_read_leaves_memory_again(hq: Site) -> None:
    one, two = absent(hq, "one", "two")
    send(hq, 200, "topic:news")
    one.connect()
    forest_of(hq).settle(2.0)
    custody = hq.core.custody
    assert one.payloads == payloads(200)
    assert len(custody.paging.parted) <= 17
    again(hq)
    two.connect()
    forest_of(hq).settle(2.0)
    assert two.payloads == payloads(200)


# --- random histories


class Backlogs(Crowded):
    """More is sent than is read, each message alone, so that much waits in pages."""

    def _choices(self) -> list[tuple[int, Callable[[], Action | None]]]:
        often: list[tuple[int, Callable[[], Action | None]]] = [
            (60, self._choose_send),
            (60, lambda: Action("turn", (self._site(), "run"))),
        ]
        return [*super()._choices(), *often]


def figures(custody: Custody) -> dict[str, Any]:
    """All that a start has to know of what waits."""
    places = {
        place.name: (
            place.messages,
            place.size,
            place.together,
            dict(sorted(place.senders.items())),
            [
                (*entry_row(copy), copy.stored.entries, copy.spool, copy.stored.uses)
                for copy in place.waiting.look()
            ],
        )
        for place in custody.queues.values()
        if place.messages
    }
    headers = [copy.stored.header for place in custody.queues.values() for copy in place.waiting.look()]
    kept = {header.identity: header.identity in custody.kept for header in headers}
    here = {
        header.identity: bool(custody.kept.which(header.identity))
        for header in headers
        if header.destination.kind == Kind.QUEUE
    }
    came = {name: count for name, count in custody.spools.came.items() if count}
    return {"places": places, "kept": kept, "here": here, "spools": dict(custody.spools), "came": came}


class Compared(Site):
    """Each of its starts comes to what another comes to that reads all copies."""

    compared = 0

    def boot(self) -> NodeCore:
        before = self.disk
        if before.start and before.tables[PageRow]:
            self.disk = before.backup()
            self.disk.tables[PageRow].clear()
            self.disk._paged.clear()
            self.disk.apply = lambda transaction: None  # type: ignore[method-assign]
            expected = figures(super().boot().custody)
            self.maybe_core, self.disk = None, before
            core = super().boot()
            assert figures(core.custody) == expected
            Compared.compared += 1
            return core
        return super().boot()


class ComparedForest(Forest):
    site_type = Compared


class ComparedStarts(Backlogs):
    forest_type = ComparedForest


@pytest.mark.parametrize("seed", range(100, 112, 3))
def test_a_start_from_pages_comes_to_what_reading_every_copy_comes_to(seed: int) -> None:
    Compared.compared = 0
    for each in range(seed, seed + 3):
        ComparedStarts(each, frozenset(("crash", "move"))).run()
    assert Compared.compared


class Doubled(Disk):
    """Whatever is written goes into a real store as well, and all that is read must be the same in both."""

    def __init__(self, directory: Path, name: str) -> None:
        super().__init__()
        self._where = directory, name
        self._store = self._open()

    def _open(self) -> Store:
        directory, name = self._where
        return Store.open(directory / name, tree="test", node=name)

    def apply(self, transaction: Transaction) -> None:
        super().apply(transaction)
        self._store.apply(transaction)

    def copies(self, but: Covered) -> Iterator[StoredEntry]:
        self._store.close()
        self._store = self._open()
        loaded = self._store.load()
        assert loaded.rows(PageRow) == self.rows(PageRow)
        found = list(loaded.copies(but))
        assert found == list(super().copies(but))
        return iter(found)

    def read_copies(self, rows: Sequence[int], with_bodies: bool) -> list[StoredEntry]:
        found = super().read_copies(rows, with_bodies)
        if rows:
            assert self._store.copies(rows, with_bodies) == found
        return found


class Stored(Site):
    """What it has is in a real store as well. `folder`: where."""

    folder: Path

    def boot(self) -> NodeCore:
        if not isinstance(self.disk, Doubled):
            self.disk = Doubled(self.folder, self.name)
        return super().boot()

    def end(self) -> None:
        assert isinstance(self.disk, Doubled)
        self.disk._store.close()


class StoredForest(Forest):
    site_type = Stored


class StoredHistory(Backlogs):
    forest_type = StoredForest


@pytest.mark.parametrize("seed", range(200, 203))
def test_a_real_store_gives_back_in_pages_what_it_was_given(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Stored, "folder", tmp_path, raising=False)
    history = StoredHistory(seed, frozenset(("crash", "move")), steps=200)
    try:
        history.run()
    finally:
        for site in history.forest.sites.values():
            assert isinstance(site, Stored)
            site.end()


# --- the parts


def page_of(hq: Site, rows: Sequence[int]) -> Page:
    """A page of copies that have these rows."""
    place = hq.core.custody.queues["queue:sales"]
    template = place.waiting[0]
    copies = [QueueEntry(row, template.stored, place, "", 0.0) for row in rows]
    return Page(place, rows[0], summary_of(place, copies))


@pytest.mark.parametrize("rows", [range(5, 261), range(5, 700, 3), [5, 9, 70_000, 1 << 31], [7]])
def test_a_page_knows_its_rows(hq: Site, rows: Sequence[int]) -> None:
    send(hq, 1)
    page = page_of(hq, rows)
    assert list(page.rows) == list(rows)
    assert len(page) == len(rows)
    covered = Covered([page])
    assert all(row in covered for row in rows)
    around = {row + step for row in rows for step in (-1, 1)} - set(rows)
    assert not any(row in covered for row in around)
    assert sum(bits.bit_count() for bits in covered.blocks.values()) == len(rows)


def test_rows_of_several_blocks_are_covered(hq: Site) -> None:
    send(hq, 1)
    page = page_of(hq, range(BLOCK - 2, BLOCK + 2))
    assert Covered([page]).blocks == {0: 0b11 << BLOCK - 2, 1: 0b11}


def test_ids_that_are_there_twice_are_counted() -> None:
    maker = secrets.token_bytes(12)
    one, two = (maker + number.to_bytes(4, "big") + b"york" for number in (300, 301))
    found, more = IdentitySet(), IdentitySet()
    for each in (one, two):
        found.add(each)
        more.add(each)
    found.add(one)
    found.add_all(more.as_bytes(), [two])
    assert len(found) == 6
    for each in (one, one, two, two):
        found.remove(each)
        assert each in found
    found.remove(one)
    assert (one in found, two in found) == (False, True)
    found.remove(two)
    assert repr(found) == "<IdentitySet 0 of 0 makers>"


def test_bundles_that_nobody_has_in_memory_take_next_to_nothing() -> None:
    shared, plain, odd = Shared(), Cold(2, 2, 2), Cold(3, 1 << 20, 0)
    for row in range(1, 1001):
        shared.put(row, odd if row == 500 else plain)
    assert (len(shared), len(shared._runs)) == (1000, 4)
    assert (shared.find(500), shared.find(501), shared.find(1001)) == (odd, plain, None)
    assert [shared.take(row) for row in (500, 500)] == [odd, None]
    for row in range(1, 1001):
        shared.take(row)
    assert (len(shared), shared._runs) == (0, {})
