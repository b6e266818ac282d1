"""A kill leaves what is committed to the journal, and losses of it are noticed."""

import os
import random
import shutil
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.core.rows import (
    BundleRow,
    CopyRow,
    LinkRow,
    MetaRow,
    PageRow,
    QueueRow,
    RejectedRow,
    SeenRow,
    Transaction,
)
from broker.store import Store, StoreCorrupt, StoreFull, StoreIOFailed, files, journal, migrations
from broker.store.recovery import recover
from broker.store.store import AFTER_COMMIT, BEFORE_COMMIT

FILES = ("node.db", "node.db-wal", "node.db-shm", "node.mark", "node.journal", "node.journal-index")
SMALL = 16 * 1024


def left_by_a_kill(store, directory, *, without=()):
    """What lies on the disk at this moment, in another directory."""
    directory.mkdir()
    for name in FILES:
        if name not in without and (file := store.path.with_name(name)).exists():
            shutil.copyfile(file, directory / name)
    return directory


def rows(store) -> list[int]:
    return [copy.row for copy in store.load().rows(CopyRow)]


def taken(*numbers: int) -> Transaction:
    """The duties of these rows are fulfilled."""
    transaction = Transaction()
    for number in numbers:
        transaction.delete(BundleRow, number)
        transaction.delete(CopyRow, number)
    return transaction


def in_the_database(store, table: str = "copy") -> int:
    return store._writing().execute(f"SELECT count(*) FROM {table}").fetchone()[0]


def test_at_every_moment_a_kill_leaves_what_was_committed(opened, make, tmp_path):
    store, folds, there = opened(tmp_path / "data", journal_limit=SMALL), set(), []
    for number in range(1, 81):
        transaction = make(number, 1, b"x" * 900)
        there.append(number)
        if number % 3 == 0:
            transaction.changes.update(taken(number - 2).changes | transaction.changes)
            transaction.delete(CopyRow, number - 2)
            transaction.delete(BundleRow, number - 2)
            there.remove(number - 2)
        store.apply(transaction)
        folds.add(store._journal.generation)
        place = left_by_a_kill(store, tmp_path / f"killed-{number}")
        found = opened(place)
        assert rows(found) == there
        assert [bundle.row for bundle in found.load().bundles] == there
        found.close()
        assert not list(place.glob("node.journal*"))
    assert len(folds) > 3


@pytest.mark.parametrize("moment", [BEFORE_COMMIT, AFTER_COMMIT])
def test_a_kill_around_a_commit_leaves_the_state_before_or_after_it(opened, make, tmp_path, moment):
    """Also between the database's commit of a fold and the journal that begins anew."""
    store, places = opened(tmp_path / "data", journal_limit=SMALL), []

    def kill(now: str) -> None:
        if now == moment:
            places.append(left_by_a_kill(store, tmp_path / f"killed-{len(places)}"))

    store.hook = kill
    for number in range(1, 41):
        store.apply(make(number, 1, b"x" * 900))
    assert store._journal.generation > 2
    for before, place in enumerate(places):
        assert len(rows(opened(place))) in (
            (before, before + 1) if moment == BEFORE_COMMIT else (before + 1,)
        )


def test_a_message_that_came_and_went_never_reaches_the_database(opened, make):
    store = opened()
    store.apply(make(1, 3))
    for number in range(4, 200):
        store.apply(make(number, 1))
        store.apply(taken(number))
    assert store._writing().total_changes < 10
    assert rows(store) == [1, 2, 3]
    assert in_the_database(store, "bundle") == 3


def test_a_row_that_the_database_has_goes_from_it(opened, make):
    store = opened()
    store.apply(make(1, 3))
    store.load()
    store.apply(taken(2))
    assert store.bodies([1, 2, 3]).keys() == {1, 3}
    assert in_the_database(store) == 3
    assert rows(store) == [1, 3]
    assert in_the_database(store) == 2


def test_a_clean_stop_leaves_the_database_alone(opened, make, tmp_path):
    store = opened()
    store.apply(make(1, 3))
    store.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["node.db", "node.lock"]
    assert rows(opened()) == [1, 2, 3]


@pytest.mark.parametrize("left", [0, 1])
def test_a_clean_stop_that_is_cut_short_anywhere_is_no_loss(opened, make, tmp_path, monkeypatch, left):
    """Also where all that the journal has came and went, so that no row of it is for the database."""
    store, places, unlink = opened(tmp_path / "data"), [], Path.unlink
    store.apply(make(1, 2))
    store.apply(taken(*range(1 + left, 3)))

    def cut_short(path: Path, missing_ok: bool = False) -> None:
        unlink(path, missing_ok=missing_ok)
        places.append(left_by_a_kill(store, tmp_path / f"cut-{len(places)}"))

    monkeypatch.setattr(Path, "unlink", cut_short)
    store.close()
    monkeypatch.undo()
    assert len(places) == 3
    for place in places:
        assert rows(opened(place)) == [1][:left]


def test_a_clean_stop_has_the_mark_removed_on_disk_before_the_journal(opened, make, monkeypatch):
    """A mark that came back without a journal, after a power cut, would say that somebody removed that."""
    store, order, unlink = opened(), [], Path.unlink
    store.apply(make(1, 1))

    def noted(path: Path, missing_ok: bool = False) -> None:
        order.append(path.name)
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", noted)
    monkeypatch.setattr(journal, "sync_directory", lambda directory: order.append("synced"))
    store.close()
    assert order == ["node.mark", "synced", "node.journal", "node.journal-index"]


def test_what_was_written_and_not_committed_is_gone(opened, make):
    store = opened()
    store.apply(make(1, 1))
    store.write(make(2, 1))
    assert store.bodies([2]) == {}
    store.close()
    assert rows(opened()) == [1]


def test_a_transaction_that_is_larger_than_the_journal_is_the_databases_own(opened, make):
    store = opened()
    store.apply(make(1, 1))
    store.apply(make(2, 1, b"x" * 2_000_000))
    assert store._journal.length == 0
    assert in_the_database(store) == 2
    store.apply(make(3, 1))
    assert store._journal.length > 0
    assert rows(store) == [1, 2, 3]


def test_several_writes_are_one_commit(opened, make):
    store = opened()
    for number in range(1, 4):
        store.write(make(number, 1))
    store.commit()
    assert store.commits == 1
    assert rows(store) == [1, 2, 3]


# --- what was lost is noticed


def committed(directory) -> int:
    return journal._INDEX.unpack((directory / "node.journal-index").read_bytes())[1]


@pytest.fixture
def killed(opened, make, tmp_path):
    """The folder of a node that was killed with eight messages in its journal."""
    store = opened(tmp_path / "data")
    for number in range(1, 9):
        store.apply(make(number, 1, b"x" * 300))
    return left_by_a_kill(store, tmp_path / "killed")


def test_at_every_length_a_journal_that_was_cut_is_noticed(killed, opened):
    path = killed / "node.journal"
    data = path.read_bytes()
    for length in range(0, committed(killed), 97):
        path.write_bytes(data[:length])
        for _ in range(2):
            with pytest.raises(StoreCorrupt, match=r"its journal node\.journal was cut short \(put it back"):
                opened(killed)
    path.write_bytes(data)
    assert len(rows(opened(killed))) == 8


def test_other_bytes_within_a_journal_are_noticed(killed, opened):
    path = killed / "node.journal"
    data, choice = path.read_bytes(), random.Random(7)
    for _ in range(60):
        at = choice.randrange(committed(killed))
        path.write_bytes(data[:at] + bytes([data[at] ^ choice.randrange(1, 256)]) + data[at + 1 :])
        with pytest.raises(StoreCorrupt, match="was cut short"):
            opened(killed)


@pytest.mark.parametrize("gone", [["node.journal"], ["node.journal", "node.journal-index"]])
def test_a_journal_that_was_removed_is_noticed_and_may_be_put_back(killed, opened, tmp_path, gone):
    for name in gone:
        (killed / name).rename(tmp_path / name)
    for _ in range(2):
        with pytest.raises(StoreCorrupt, match=r"its journal node\.journal was removed \(put it back"):
            opened(killed)
    for name in gone:
        (tmp_path / name).rename(killed / name)
    assert len(rows(opened(killed))) == 8


def test_without_its_index_a_journal_is_read_as_far_as_it_is_whole(killed, opened):
    """As after a power cut, since the index is not synced."""
    (killed / "node.journal-index").unlink()
    assert len(rows(opened(killed))) == 8


@pytest.fixture
def outdated(opened, make, tmp_path):
    """The folder of a node that was killed, in which somebody has put an older copy of its database."""
    store = opened(tmp_path / "data", journal_limit=SMALL)
    store.apply(make(1, 1))
    old = left_by_a_kill(store, tmp_path / "old")
    while store._journal.generation < 4 or not store._journal.length:
        store.apply(make(store.commits + 1, 1, b"x" * 900))
    place = left_by_a_kill(store, tmp_path / "killed")
    for name in ("node.db", "node.db-wal", "node.db-shm"):
        shutil.copyfile(old / name, place / name)
    return place, store.commits


def test_an_older_database_beside_its_journal_is_refused(outdated, opened):
    place, _ = outdated
    (place / "node.mark").unlink()
    for _ in ("with its index", "without"):
        with pytest.raises(StoreCorrupt, match=r"it is older than its journal node\.journal"):
            opened(place)
        (place / "node.journal-index").unlink(missing_ok=True)


def test_a_database_from_before_the_journal_has_none_to_miss(opened, make, tmp_path):
    store = opened(tmp_path / "data", journal_limit=0)
    store.apply(make(1, 2))
    store._writing().execute("DELETE FROM meta WHERE name = 'store.journal'")
    migrations.set_version(store._writing(), 7)
    place = left_by_a_kill(store, tmp_path / "killed", without=("node.journal", "node.journal-index"))
    assert (place / "node.mark").exists()
    assert rows(opened(place)) == [1, 2]


# --- what the database would refuse


@pytest.mark.parametrize(
    "row",
    [
        QueueRow("a", 1 << 63),
        QueueRow("a", -(1 << 63) - 1),
        QueueRow(None, 1),
        SeenRow(b"i", None),
        MetaRow("ticks", None),
        BundleRow(7, b"header", None),
        BundleRow(7, None, b"body"),
    ],
)
def test_nothing_comes_into_the_journal_that_the_database_would_refuse(opened, make, row):
    store = opened()
    store.apply(make(1, 1))
    transaction = make(2, 1)
    transaction.put(row)
    with pytest.raises(StoreIOFailed):
        store.apply(transaction)
    store.close()
    assert rows(opened()) == [1]


@pytest.mark.parametrize(
    ("table", "key"), [(BundleRow, 1 << 63), (PageRow, 1 << 63), (RejectedRow, ("p", 1 << 63))]
)
def test_nor_does_a_key_that_the_database_would_refuse(opened, make, table, key):
    store = opened()
    store.apply(make(1, 1))
    transaction = make(2, 1)
    transaction.delete(table, key)
    with pytest.raises(StoreIOFailed):
        store.apply(transaction)
    store.close()
    assert rows(opened()) == [1]


@pytest.mark.parametrize(
    "change",
    [
        ("BundleRow", [[1 << 63, b"", b""]], []),
        ("BundleRow", [], [1 << 63]),
        ("CopyRow", [["x"] * 10], []),
        ("QueueRow", [["a", 1, None]], []),
        ("QueueRow", [["a"]], []),
        ("QueueRow", [], [{"a": 1}]),
        ("Nothing", [], [1]),
    ],
)
def test_a_record_of_something_else_is_refused(killed, opened, change):
    """Its sum is right, so another version has written it, or somebody who knows the store."""
    with closing(files.connect(killed / "node.db")) as connection:
        own = files.own_values(connection)
    store_id, generation = own[files.STORE_ID], files.number(own, files.GENERATION)
    payload = journal._encode([change])
    check = journal._check(store_id, generation, 0, payload)
    record = journal._HEADER.pack(len(payload), generation, check) + payload
    (killed / "node.journal").write_bytes(record)
    (killed / "node.journal-index").unlink()
    with pytest.raises(StoreCorrupt, match="a record of it is not one of this version"):
        opened(killed)


def test_a_start_takes_every_kind_of_value_that_a_commit_takes(opened, tmp_path):
    store, transaction = opened(tmp_path / "data"), Transaction()
    transaction.put(QueueRow("a", True))
    transaction.put(SeenRow(b"i", 1.0))
    store.apply(transaction)
    found = opened(left_by_a_kill(store, tmp_path / "killed")).load()
    assert found.rows(QueueRow) == [QueueRow("a", 1)]
    assert found.rows(SeenRow) == [SeenRow(b"i", 1)]


def test_new_headers_are_written_without_reading_the_bodies(opened, make):
    store = opened()
    store.apply(make(1, 8, b"x" * 2_000_000))
    transaction = Transaction()
    for row in range(1, 9):
        transaction.put(BundleRow(row, b"header", None))
    asked = []
    store._reading().set_trace_callback(asked.append)
    store.apply(transaction)
    assert len([query for query in asked if "bundle" in query]) == 8
    assert not [query for query in asked if "body" in query]
    assert {each.header for each in store.copies(range(1, 9), False)} == {b"header"}


def test_a_record_that_was_written_in_part_is_a_full_disk(opened, make, monkeypatch):
    store, write = opened(), os.pwrite
    store.apply(make(1, 1))
    monkeypatch.setattr(os, "pwrite", lambda file, data, at: write(file, data[:50], at))
    with pytest.raises(StoreFull):
        store.apply(make(2, 1))
    monkeypatch.undo()
    store.try_again()
    store.apply(make(2, 1))
    assert rows(opened(left_by_a_kill(store, store.path.parent / "killed"))) == [1, 2]


def test_a_fold_for_which_there_is_no_space_keeps_the_journal(opened, make):
    store = opened(journal_limit=SMALL)
    store._writing().execute("PRAGMA max_page_count = 60")
    last = 0
    with pytest.raises(StoreFull):  # noqa: PT012
        while True:
            store.apply(make(last + 1, 1, b"x" * 900))
            last += 1
    assert store.try_again() is False
    assert store.bodies(range(1, last + 2)).keys() == set(range(1, last + 1))
    store._writing().execute("PRAGMA max_page_count = 6000")
    store.apply(make(last + 1, 1, b"x" * 900))
    assert rows(store) == list(range(1, last + 2))


# --- it answers as the database would


def link(row: int) -> LinkRow:
    return LinkRow("north", "parent", b"s", 1, 1, row, row, 0, 1, 0, b"")


changes = st.lists(
    st.tuples(st.sampled_from(("come", "go", "move", "header", "other")), st.integers(0, 30)),
    min_size=1,
    max_size=4,
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(changes, st.sampled_from(("", "load", "again"))), max_size=25), st.data())
def test_a_journal_changes_no_answer(tmp_path_factory, plan, data):
    place = tmp_path_factory.mktemp("stores")
    limits = {"with": 3000, "without": 0}
    stores = {
        name: Store.open(place / name, tree="t", node="n", journal_limit=limit)
        for name, limit in limits.items()
    }
    there: dict[int, str] = {}
    next_row = 1
    for steps, then in plan:
        transaction = Transaction()
        for what, which in steps:
            if what == "come":
                there[next_row] = "queue:a"
                transaction.put(BundleRow(next_row, b"header", b"b" * (which * 10)))
                transaction.put(CopyRow(next_row, next_row, "queue:a", 0, b"", "", 0, 0, 0, ""))
                next_row += 1
            elif what == "other":
                transaction.put(link(which))
                transaction.put(QueueRow(f"q{which % 3}", 0))
                transaction.delete(QueueRow, f"q{(which + 1) % 3}")
            elif there:
                row = sorted(there)[which % len(there)]
                if what == "go":
                    transaction.delete(BundleRow, row)
                    transaction.delete(CopyRow, row)
                    del there[row]
                elif what == "move":
                    transaction.put(CopyRow(row, row, f"queue:{which}", 0, b"", "", 0, 0, 0, ""))
                elif row not in transaction.changes[BundleRow]:
                    transaction.put(BundleRow(row, b"header %d" % which, None))
        for store in stores.values():
            store.apply(transaction)
        if then == "again":
            for name, store in stores.items():
                store.close()
                stores[name] = Store.open(place / name, tree="t", node="n", journal_limit=limits[name])
        asked = [range(1, next_row + 1), sorted(data.draw(st.sets(st.integers(1, next_row + 1))))]
        for rows_asked in asked:
            with_it, without = (
                [store.bodies(rows_asked), *(store.copies(rows_asked, bodies) for bodies in (False, True))]
                for store in stores.values()
            )
            assert with_it == without
        if then == "load":
            found, expected = (
                [*s.load().bundles, *s.load().copies(), *s.load().rows(QueueRow)] for s in stores.values()
            )
            assert found == expected
    for store in stores.values():
        store.close()


# --- a recovery


def test_a_recovery_reads_the_journal_over_a_damaged_database(opened, make, tmp_path):
    store = opened(tmp_path / "data")
    store.apply(make(1, 50, b"x" * 300))
    store.load()
    store.apply(taken(7))
    store.apply(make(51, 2))
    place = left_by_a_kill(store, tmp_path / "killed")
    with (place / "node.db").open("r+b") as file:
        file.seek(100)
        file.write(b"\xa5" * 100)
    report = recover(place, force=True, tree="acme", node="store-1")
    assert rows(opened(place)) == [row for row in range(1, 53) if row != 7]
    assert report.journal_lost == 0
    assert (place / "node.db.broken-1.journal").exists()


def test_a_recovery_says_how_much_of_the_journal_is_missing(killed, opened):
    path = killed / "node.journal"
    path.write_bytes(path.read_bytes()[: committed(killed) // 2])
    report = recover(killed)
    assert not report.complete
    assert 0 < report.as_dict()["journal_lost"] <= committed_before(report)
    assert "its journal was cut short" in str(report)
    assert 0 < len(rows(opened(killed))) < 8


def committed_before(report) -> int:
    return journal._INDEX.unpack(report.broken.with_name(report.broken.name + ".journal-index").read_bytes())[
        1
    ]


@pytest.mark.parametrize("gone", [["node.journal"], ["node.journal", "node.journal-index"]])
def test_a_recovery_says_that_the_journal_was_removed(killed, opened, gone):
    for name in gone:
        (killed / name).unlink()
    report = recover(killed)
    assert not report.complete
    assert "its journal was" in str(report)
    assert report.as_dict()["journal_removed"]


def test_a_recovery_after_a_clean_stop_misses_no_journal(opened, make, tmp_path):
    store = opened()
    store.apply(make(1, 1))
    store.close()
    report = recover(tmp_path, force=True)
    assert report.complete
    assert not report.journal_removed


def test_a_recovery_leaves_a_sound_store_with_its_journal_alone(killed, opened):
    with pytest.raises(Exception, match="is sound"):
        recover(killed)
    assert len(rows(opened(killed))) == 8


def test_a_recovery_of_an_older_database_takes_what_its_journal_has(outdated, opened):
    place, last = outdated
    report = recover(place)
    assert report.later
    assert not report.complete
    assert "older than its journal" in str(report)
    assert rows(opened(place))[-1] == last


def test_a_recovery_without_a_database_takes_what_its_journal_has(killed, opened):
    for name in ("node.db", "node.db-wal", "node.db-shm"):
        (killed / name).unlink()
    report = recover(killed, tree="acme", node="store-1")
    assert report.saved["bundle"] == 8
    assert not report.complete
    assert rows(opened(killed)) == list(range(1, 9))


def test_a_recovery_reads_no_more_of_a_large_file_than_a_journal_has(killed, opened):
    """Also of one that is of a later state."""
    with closing(files.connect(killed / "node.db")) as connection:
        files.set_value(connection, files.GENERATION, files.encode_number(0))
    with (killed / "node.journal").open("r+b") as file:
        file.truncate(1 << 40)
    assert recover(killed).later
    assert rows(opened(killed)) == list(range(1, 9))


@pytest.mark.parametrize("moment", ["a fold", "a start"])
def test_a_recovery_does_not_bring_back_what_a_former_generation_had(opened, make, tmp_path, moment):
    """Where it cannot read which generation comes next: the database is newer than what lies there."""
    store = opened(tmp_path / "data")
    store.apply(make(1, 3))
    if moment == "a start":
        store = opened(left_by_a_kill(store, tmp_path / "before"))
    larger_than_the_journal = make(4, 1, random.Random(1).randbytes(2_000_000))
    for table, changes in taken(2).changes.items():
        larger_than_the_journal.changes[table].update(changes)
    store.apply(larger_than_the_journal)
    (root,) = store._writing().execute("SELECT rootpage FROM sqlite_schema WHERE name = 'meta'").fetchone()
    store._writing().execute("PRAGMA wal_checkpoint(TRUNCATE)")
    place = left_by_a_kill(store, tmp_path / "killed")
    with (place / "node.db").open("r+b") as file:
        file.seek((root - 1) * 4096)
        file.write(b"\xa5" * 4096)
    recover(place, tree="acme", node="store-1", force=True)
    assert rows(opened(place)) == [1, 3, 4]
