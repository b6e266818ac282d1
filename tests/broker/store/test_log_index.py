"""A log that was cut short after a kill is noticed at every length, and never else."""

import os
import shutil
import struct

import pytest

from broker.core.rows import CopyRow
from broker.store import Store, StoreCorrupt, log_index
from broker.store.recovery import recover

HEADER, FRAME = 32, 24 + 4096


def left_by_a_kill(store, directory):
    """Copy the files as they are at this moment to another directory."""
    if store._checkpoints._aside is not None:
        store._checkpoints._aside.result(60)
    directory.mkdir()
    for name in ("node.db", "node.mark", "node.journal", "node.db-wal", "node.db-shm"):
        shutil.copyfile(store.path.with_name(name), directory / name)
    return directory


def committed(directory) -> int:
    return struct.unpack_from("=I", (directory / "node.db-shm").read_bytes(), 16)[0]


@pytest.fixture
def opened(opened_without_a_journal):
    return opened_without_a_journal


def test_at_every_length_a_log_that_was_cut_is_noticed(opened, make, tmp_path):
    store = opened(tmp_path / "data")
    for number in range(1, 9):
        store.apply(make(number, 1, b"x" * 3000))
    place = left_by_a_kill(store, tmp_path / "killed")
    log = place / "node.db-wal"
    data = log.read_bytes()
    for length in range(HEADER, HEADER + committed(place) * FRAME, 1500):
        log.write_bytes(data[:length])
        with pytest.raises(StoreCorrupt, match=r"its log node\.db-wal was cut short \(put it back"):
            opened(place)
        with pytest.raises(StoreCorrupt, match="was cut short"):
            Store.owner(place)
    log.write_bytes(data)
    assert len(opened(place).load().rows(CopyRow)) == 8


@pytest.mark.parametrize("block", range(10))
def test_zeros_within_a_log_are_noticed(opened, make, tmp_path, block):
    store = opened(tmp_path / "data")
    for number in range(1, 9):
        store.apply(make(number, 1, b"x" * 3000))
    place = left_by_a_kill(store, tmp_path / "killed")
    with (place / "node.db-wal").open("r+b") as log:
        log.seek((HEADER + committed(place) * FRAME) // 4096 * 4096 - block * 4096)
        log.write(bytes(4096))
    with pytest.raises(StoreCorrupt, match="was cut short"):
        opened(place)


def test_with_its_whole_log_there_is_no_alarm(opened, make, tmp_path):
    """Also while the log is copied, begins anew, and its file is longer than what is in use."""
    store = opened(tmp_path / "data", log_limit=64 * 1024)
    for number in range(1, 61):
        store.apply(make(number, 1, b"x" * 3000))
        place = left_by_a_kill(store, tmp_path / f"killed-{number}")
        found = opened(place)
        assert len(found.load().rows(CopyRow)) == number
        found.close()
    assert store._checkpoints.count > 3


def test_an_index_of_another_log_or_one_half_written_says_nothing(opened, make, tmp_path):
    store = opened(tmp_path / "data")
    store.apply(make(1, 1, b"x" * 3000))
    place = left_by_a_kill(store, tmp_path / "killed")
    os.truncate(place / "node.db-wal", HEADER + FRAME)
    index = (place / "node.db-shm").read_bytes()
    assert log_index.cut(place / "node.db").committed == committed(place)
    for at in (16, 32):  # how much was committed; the salts of its log
        (place / "node.db-shm").write_bytes(index[:at] + bytes(4) + index[at + 4 :])
        assert log_index.cut(place / "node.db") is None
    (place / "node.db-shm").write_bytes(index[:32] + bytes(8) + index[40:80] + bytes(8) + index[88:])
    assert log_index.cut(place / "node.db") is None


def test_a_recovery_says_how_much_of_the_log_is_missing(opened, make, tmp_path):
    store = opened(tmp_path / "data")
    for number in range(1, 9):
        store.apply(make(number, 1, b"x" * 3000))
    place = left_by_a_kill(store, tmp_path / "killed")
    frames = committed(place)
    os.truncate(place / "node.db-wal", (HEADER + frames * FRAME) // 2)
    report = recover(place)
    assert not report.complete
    assert 0 < report.as_dict()["cut"]["lost"] == frames - report.cut.whole
    assert f"of {frames} pages that were committed to it {report.cut.whole} are left" in str(report)
    assert 0 < len(opened(place).load().rows(CopyRow)) < 8


def test_what_is_left_of_a_log_does_not_hide_what_the_database_has_already(opened, make, tmp_path):
    store = opened(tmp_path / "data")
    for number in range(1, 9):
        store.apply(make(number, 1, b"x" * 3000))
    store._checkpoints._copy(store._writer, "PASSIVE")
    place = left_by_a_kill(store, tmp_path / "killed")
    os.truncate(place / "node.db-wal", (HEADER + committed(place) * FRAME) // 2)
    report = recover(place)
    assert report.complete
    assert "nothing is lost" in str(report)
    assert (place / "node.db.broken-1.log").exists()
    assert len(opened(place).load().rows(CopyRow)) == 8


def test_what_is_left_of_a_log_is_read_where_its_database_is_gone(opened, make, tmp_path):
    store = opened(tmp_path / "data")
    for number in range(1, 9):
        store.apply(make(number, 1, b"x" * 3000))
    store._checkpoints._copy(store._writer, "PASSIVE")
    place = left_by_a_kill(store, tmp_path / "killed")
    (place / "node.db").unlink()
    frames = committed(place)
    os.truncate(place / "node.db-wal", HEADER + (frames - 2) * FRAME)
    report = recover(place, tree="acme", node="store-1")
    assert report.cut.lost == frames - report.cut.whole > 0
    assert len(opened(place).load().rows(CopyRow)) == 7
