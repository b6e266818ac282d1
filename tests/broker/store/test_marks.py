"""A log that is removed after a kill is noticed whenever something was in it, and never else."""

import shutil

import pytest

from broker.core.rows import CopyRow
from broker.store import StoreCorrupt, marks
from broker.store.recovery import recover


def left_by_a_kill(store, directory, *, with_log: bool):
    """What lies on the disk at this moment, in another directory."""
    if store._checkpoints._aside is not None:
        store._checkpoints._aside.result(60)
    directory.mkdir()
    for name in ("node.db", "node.mark", "node.journal", *(["node.db-wal"] if with_log else [])):
        shutil.copyfile(store.path.with_name(name), directory / name)
    return directory


@pytest.fixture
def opened(opened_without_a_journal):
    return opened_without_a_journal


def test_at_every_moment_a_removed_log_is_noticed_or_took_nothing_with_it(opened, make, tmp_path):
    store = opened(tmp_path / "data", log_limit=64 * 1024)
    noticed = copied = 0
    for number in range(1, 121):
        store.apply(make(number, 1, b"x" * 3000))
        place = left_by_a_kill(store, tmp_path / f"without-{number}", with_log=False)
        refused = ""
        try:
            found = opened(place)
        except StoreCorrupt as error:
            refused = str(error)
            noticed += 1
        else:
            assert len(found.load().rows(CopyRow)) == number
            copied += 1
            found.close()
        assert not refused or "node.db-wal was removed" in refused
        shutil.rmtree(place)
    assert store._checkpoints.count > 3
    assert min(noticed, copied) > 20


def test_with_its_log_there_is_no_alarm(opened, make, tmp_path):
    store = opened(tmp_path / "data", log_limit=64 * 1024)
    for number in range(1, 61):
        store.apply(make(number, 1, b"x" * 3000))
        place = left_by_a_kill(store, tmp_path / f"with-{number}", with_log=True)
        found = opened(place)
        assert len(found.load().rows(CopyRow)) == number
        found.close()
        assert not (place / "node.mark").exists()


def test_a_store_that_was_refused_is_refused_again(opened, make, tmp_path):
    store = opened(tmp_path / "data")
    store.apply(make(1, 1))
    place = left_by_a_kill(store, tmp_path / "killed", with_log=False)
    for _ in range(2):
        with pytest.raises(StoreCorrupt, match="had confirmed state 1"):
            opened(place)
    report = recover(place)
    assert report.older
    assert not report.complete
    assert "which is not there" in str(report)
    opened(place)


def test_the_log_may_be_put_back(opened, make, tmp_path):
    store = opened(tmp_path / "data")
    store.apply(make(1, 1))
    place = left_by_a_kill(store, tmp_path / "killed", with_log=True)
    (place / "node.db-wal").rename(tmp_path / "kept")
    with pytest.raises(StoreCorrupt, match="put it back if you have it"):
        opened(place)
    (tmp_path / "kept").rename(place / "node.db-wal")
    assert len(opened(place).load().rows(CopyRow)) == 1


def test_a_mark_that_is_torn_or_of_another_store_says_nothing(opened, tmp_path):
    mark = marks.Mark(b"\x07" * 16, 5, 1_700_000_000_000, recovering=True)
    data = marks.encode(mark)
    assert marks.decode(data) == mark
    for length in range(len(data) - 1):
        assert marks.decode(data[:length]) is None
    assert marks.decode(data.replace(b"5", b"6", 1)) is None
    opened().close()
    marks.write(tmp_path, mark._replace(number=1 << 40))
    assert opened().start == 2


def test_a_recovery_that_ended_is_not_taken_up_where_the_new_database_goes(opened, make, tmp_path):
    """It is the log of the new one that is read, not the file that was set aside long ago."""
    store = opened(tmp_path / "data")
    store.apply(make(1, 3))
    store.close()
    recover(tmp_path / "data", force=True)
    store = opened(tmp_path / "data")
    store.apply(make(4, 50))
    place = left_by_a_kill(store, tmp_path / "killed", with_log=True)
    shutil.copyfile(tmp_path / "data" / "node.db.broken-1", place / "node.db.broken-1")
    (place / "node.db").unlink()
    with pytest.raises(StoreCorrupt, match=r"it is gone while its log"):
        opened(place)
    assert recover(place, tree="acme", node="store-1").broken.name == "node.db.broken-2"
    assert len(opened(place).load().bundles) >= 50
