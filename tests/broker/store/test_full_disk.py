"""A disk that fills: a clear error, nothing acknowledged is lost, and after space is made it goes on."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.core.rows import CopyRow, Transaction
from broker.store import Store, StoreFull

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
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(place)], check=True)
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_disk_that_fills(small_disk, make):
    store = Store.open(small_disk, tree="acme", node="store-1")
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(600_000))
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


def test_a_start_on_a_full_disk_says_so(small_disk):
    (small_disk / "ballast").write_bytes(bytes(2 * 1024 * 1024 - 16_384))
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
