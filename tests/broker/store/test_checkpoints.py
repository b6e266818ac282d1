import time

import pytest

from broker.core.rows import CopyRow

LIMIT = 2 * 1024 * 1024


def log_size(store) -> int:
    return store.path.with_name("node.db-wal").stat().st_size


@pytest.fixture
def opened(opened_without_a_journal):
    return opened_without_a_journal


def test_the_log_stays_bounded_under_steady_writing(opened, make):
    store = opened(log_limit=LIMIT)
    longest = 0
    for number in range(400):
        store.apply(make(1 + number * 20, 20, b"x" * 1000))
        longest = max(longest, log_size(store))
    assert store._checkpoints.count > 3
    assert longest < 10 * LIMIT
    store.close()
    assert len(opened().load().rows(CopyRow)) == 8000


def test_the_log_is_made_longer_ahead_of_what_is_written_but_not_while_that_is_little(opened, make):
    store = opened()
    store.apply(make(1, 1))
    assert log_size(store) <= store._checkpoints.log_bytes() + 1024
    lengths = {log_size(store)}
    for number in range(300):
        store.apply(make(2 + number * 2, 2, b"x" * 1000))
        lengths.add(log_size(store))
        assert log_size(store) >= store._checkpoints.log_bytes()
    assert store._checkpoints.log_bytes() > LIMIT
    assert len(lengths) < 50
    store.close()
    assert len(opened().load().rows(CopyRow)) == 601


def test_after_a_copy_the_log_begins_anew(opened, make):
    store = opened(log_limit=LIMIT)
    row = 1
    while store._checkpoints._aside is None:
        store.apply(make(row, 20, b"x" * 1000))
        row += 20
    store._checkpoints._aside.result(60)
    before = store._checkpoints.log_bytes()
    for _ in range(3):
        store.apply(make(row, 1))
        row += 1
    assert store._checkpoints.log_bytes() < before / 10
    assert "done=" in repr(store._checkpoints)


def test_an_idle_store_cuts_its_log(opened, make):
    store = opened()
    for number in range(20):
        store.apply(make(1 + number * 100, 100, b"x" * 1000))
    assert log_size(store) > LIMIT
    assert store.untidy()
    while store.tidy():
        pass
    assert log_size(store) == 0
    assert not store.untidy()


def test_a_log_left_by_a_crash_is_folded_in_at_the_start(opened, make, tmp_path):
    import shutil

    store = opened(tmp_path / "a")
    store.apply(make(1, 2000))
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    copied = opened(tmp_path / "b")
    assert len(copied.load().bundles) == 2000
    assert log_size(copied) < 64 * 1024


def test_closing_waits_for_a_copy_under_way(opened, make):
    store = opened(log_limit=LIMIT)
    row = 1
    deadline = time.monotonic() + 60
    while store._checkpoints._aside is None and time.monotonic() < deadline:
        store.apply(make(row, 100, b"x" * 1000))
        row += 100
    copy = store._checkpoints._aside
    store.close()
    assert copy.done()
