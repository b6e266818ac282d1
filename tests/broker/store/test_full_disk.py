"""A disk that fills: a clear error, nothing acknowledged is lost, and after space is made it goes on."""

import asyncio
import errno
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from broker.core.rows import CopyRow, Transaction
from broker.store import GroupCommit, Store, StoreFull
from broker.store.ballast import BALLAST, Ballast

BODY = b"x" * 20_000


def write_until_full(store: Store, make, row: int) -> int:
    """Return the last row that was acknowledged."""
    with pytest.raises(StoreFull, match=r"node\.db: the disk is full\. Make space and start the node again"):  # noqa: PT012
        while True:
            store.apply(make(row + 1, 3, BODY))
            row += 3
    with pytest.raises(StoreFull):
        store.apply(Transaction())
    assert store.full
    return row


def check(store: Store, last: int) -> int:
    """Everything acknowledged is there, whole; return the last row."""
    rows = [copy.row for copy in store.load().rows(CopyRow)]
    assert rows == list(range(1, len(rows) + 1))
    assert len(rows) % 3 == 0
    assert len(rows) >= last
    assert all(len(body) > len(BODY) for body in store.bodies(rows).values())
    return len(rows)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("mounting needs root; the page limit test covers the rest")
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "none", str(place)], check=True)
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_disk_that_fills(small_disk, make):
    store = Store.open(small_disk, tree="acme", node="store-1")
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(3_000_000))
    last = write_until_full(store, make, 0)
    assert last >= 3
    store.close()
    ballast.unlink()
    again = Store.open(small_disk, tree="acme", node="store-1")
    there = check(again, last)
    last = write_until_full(again, make, there)
    again.close()
    subprocess.run(["mount", "-o", "remount,size=20m", str(small_disk)], check=True)
    last_store = Store.open(small_disk, tree="acme", node="store-1")
    check(last_store, last)
    last_store.close()


def fill(ballast: Path) -> None:
    """Another program leaves nothing."""
    with suppress(OSError), ballast.open("ab", buffering=0) as file:
        while True:
            file.write(bytes(4096))


async def test_a_commit_is_tried_again_until_there_is_space_and_nobody_hears_of_it_before(small_disk, make):
    store = Store.open(small_disk, tree="acme", node="store-1")
    full: list[object] = []
    committer = GroupCommit(store, on_full=full.append)
    await committer.commit(make(1, 3, BODY))
    fill(small_disk / "ballast")
    row, waiting = 1, []
    while not full:
        row += 3
        waiting.append(asyncio.ensure_future(committer.commit(make(row, 3, BODY))))
        await asyncio.sleep(0)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(waiting[-1]), 0.1)
    assert committer.failure is None
    (small_disk / "ballast").unlink()
    await asyncio.gather(*waiting)
    check(store, row + 2)
    await committer.close()
    store.close()


async def test_a_store_is_asked_between_a_commit_that_finds_no_space_and_its_answer(opened, make):
    """The commit is in a thread, and the loop has other work before it hears: the node stopped by it."""
    store = opened()
    store.apply(make(1, 3, BODY))
    no_space = True

    def find_no_space(_step: str) -> None:
        if no_space:
            raise OSError(errno.ENOSPC, "No space left on device")

    store.hook = find_no_space
    committer = GroupCommit(store, threshold=0.0)
    waiting = asyncio.ensure_future(committer.commit(make(4, 3, BODY)))
    while not store.full:
        if committer.moves():
            await asyncio.sleep(0)
        else:
            time.sleep(0.001)
    assert store.disk_free() > 0
    assert len(store.bodies([1, 2, 3])) == 3
    assert store.used_bytes() > 0
    no_space = False
    await waiting
    await committer.close()
    check(store, 6)


async def test_the_ballast_is_let_go_for_a_commit_and_laid_again(small_disk, make):
    subprocess.run(["mount", "-o", "remount,size=8m", str(small_disk)], check=True)
    store = Store.open(small_disk, tree="acme", node="store-1")
    before = store.disk_free()
    store.lay_ballast()
    assert before - BALLAST // 2 < store.disk_free() <= before
    committer = GroupCommit(store)
    fill(small_disk / "ballast")
    await committer.commit(make(1, 30, BODY))
    assert store.disk_free() == 0
    (small_disk / "ballast").unlink()
    store.lay_ballast()
    assert (small_disk / "node.ballast").stat().st_size >= BALLAST
    await committer.close()
    store.close()


def test_the_ballast_is_enough_for_a_long_log_that_has_to_be_copied(small_disk, make):
    """The copy made the database longer until the ballast was used up, and nothing was committed any more."""
    subprocess.run(["mount", "-o", "remount,size=20m", str(small_disk)], check=True)
    store = Store.open(small_disk, tree="acme", node="store-1", journal_limit=0)
    for row in range(1, 241, 3):
        store.apply(make(row, 3, BODY))
    assert store.lay_ballast()
    fill(small_disk / "ballast")
    more = [make(row, 3, BODY) for row in range(241, 271, 3)]
    while more:
        try:
            store.apply(more[0])
            more.pop(0)
        except StoreFull:
            assert store.try_again()
    check(store, 270)
    store.close()


def test_a_ballast_that_finds_no_room_to_grow_takes_none(tmp_path, monkeypatch):
    """As on ext4 with a quota: it took the last bytes, and the next commit had none."""

    def fallocate(descriptor: int, _start: int, length: int) -> None:
        os.ftruncate(descriptor, length // 2)
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    ballast = Ballast(tmp_path)
    assert ballast.lay(0)
    monkeypatch.setattr(os, "posix_fallocate", fallocate)
    assert not ballast.lay(4 * BALLAST)
    assert (tmp_path / "node.ballast").stat().st_size == BALLAST
    assert ballast.drop()
    assert not ballast.lay(0)
    assert not list(tmp_path.iterdir())


def test_a_start_on_a_full_disk_says_so(small_disk):
    (small_disk / "ballast").write_bytes(bytes(6 * 1024 * 1024 - 16_384))
    with pytest.raises(StoreFull):
        Store.open(small_disk, tree="acme", node="store-1")
    (small_disk / "ballast").unlink()
    Store.open(small_disk, tree="acme", node="store-1").close()


def test_a_database_at_its_page_limit(opened, make):
    store = opened()
    store._writing().execute("PRAGMA max_page_count = 200")
    last = write_until_full(store, make, 0)
    assert last >= 3
    store.close()
    again = opened()
    there = check(again, last)
    again.apply(make(there + 1, 3, BODY))
    assert check(again, there + 3) == there + 3
