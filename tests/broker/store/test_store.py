import _sqlite3
import ctypes
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import get_type_hints

import pytest

from broker.core.rows import (
    KEYS,
    BundleRow,
    CopyRow,
    LinkRow,
    MetaRow,
    ProducerRow,
    QueueRow,
    RejectedRow,
    RetainedRow,
    RouteRow,
    SeenRow,
    SubscriptionRow,
    Transaction,
)
from broker.store import Store, StoreBusy, StoreCorrupt, StoreIOFailed, StoreMismatch, migrations
from broker.store.store import AFTER_COMMIT, BEFORE_COMMIT

LINK = LinkRow(
    **{name: {str: "north", int: 7, bytes: b"s"}[kind] for name, kind in get_type_hints(LinkRow).items()}
)
OTHERS = [
    RouteRow("queue", "prices", "local", 1, "store-1", "c1", 1, 0),
    RouteRow("queue", "prices", "north", 0, "store-9", "c2", 1, 1),
    LINK,
    QueueRow("prices", 1),
    SubscriptionRow("sub", "till", "sales/#", 77),
    ProducerRow("till-1", 12, 99),
    RejectedRow("till-1", 7, 9, "QUEUE_FULL", "no room"),
    RetainedRow("sales/today", b"head", b"body"),
    SeenRow(b"b" * 16, 5),
    MetaRow("ticks", b"\x01"),
]


def put(*rows) -> Transaction:
    transaction = Transaction()
    for row in rows:
        transaction.put(row)
    return transaction


def test_every_row_type_comes_back_as_it_was_put(opened):
    bundle, copy = (
        BundleRow(1, b"header", b"body of it"),
        CopyRow(1, 1, "queue:p", 2, b"\x01", "hq", 1, 7, 8, "n"),
    )
    store = opened()
    store.apply(put(bundle, copy, *OTHERS))
    store.close()
    loaded = opened().load()
    assert [tuple(row) for row in loaded.bundles] == [(1, b"header", 10)]
    assert loaded.rows(CopyRow) == [copy]
    found = [row for table in KEYS if table not in (BundleRow, CopyRow) for row in loaded.rows(table)]
    assert found == OTHERS


def test_a_new_row_of_a_key_replaces_the_old_and_a_deleted_one_goes(opened):
    store = opened()
    store.apply(put(QueueRow("a", 0), QueueRow("b", 0), *OTHERS[:2]))
    transaction = put(QueueRow("a", 1), OTHERS[0]._replace(live=0))
    transaction.delete(QueueRow, "b")
    transaction.delete(RouteRow, ("queue", "prices", "north"))
    store.apply(transaction)
    loaded = store.load()
    assert loaded.rows(QueueRow) == [QueueRow("a", 1)]
    assert loaded.rows(RouteRow) == [OTHERS[0]._replace(live=0)]


def test_a_bundle_without_a_body_changes_only_its_header(opened):
    store = opened()
    store.apply(put(BundleRow(1, b"old", b"x" * 300_000), BundleRow(2, b"two", b"y")))
    store.apply(put(BundleRow(1, b"newer", None), BundleRow(3, b"three", b"")))
    assert [tuple(row) for row in store.load().bundles] == [
        (1, b"newer", 300_000),
        (2, b"two", 1),
        (3, b"three", 0),
    ]
    assert store.bodies([1, 3, 4]) == {1: b"x" * 300_000, 3: b""}


def test_a_header_for_a_bundle_that_is_not_there_is_an_error_and_ends_the_store(opened):
    store = opened()
    with pytest.raises(StoreIOFailed, match="1 of 1 bundles whose header changes are not in the store"):
        store.apply(put(BundleRow(9, b"new", None)))
    with pytest.raises(StoreIOFailed):
        store.apply(put(QueueRow("a", 0)))


def test_bodies_are_seen_once_committed(opened):
    store = opened()
    store.write(put(BundleRow(1, b"h", b"body")))
    assert store.bodies([1]) == {}
    store.commit()
    assert store.bodies([1]) == {1: b"body"}


def test_load_reads_more_rows_than_a_page(opened):
    store = opened()
    rows = [SeenRow(number.to_bytes(16, "big"), number) for number in range(9000)]
    routes = [
        RouteRow("topic", f"t/{number // 7:05}", f"gate-{number % 7}", 1, "", "", 0, 0)
        for number in range(9000)
    ]
    store.apply(put(*rows, *routes))
    loaded = store.load()
    assert loaded.rows(SeenRow) == rows
    assert loaded.rows(RouteRow) == routes
    assert repr(loaded) == "<Loaded RouteRow=9000 SeenRow=9000>"


def test_the_store_id_stays_and_the_start_number_grows(opened):
    first = opened()
    identity = first.store_id
    assert (len(identity), first.start, first.recovered_from) == (16, 1, b"")
    first.close()
    second = opened()
    assert (second.store_id, second.start) == (identity, 2)
    assert second.load().rows(MetaRow) == []


def test_another_directory_has_another_store_id(opened, tmp_path):
    assert opened(tmp_path / "a").store_id != opened(tmp_path / "b").store_id


@pytest.mark.parametrize(("tree", "node"), [("other", "store-1"), ("acme", "store-2")])
def test_another_tree_or_node_is_refused_and_no_start_is_counted(opened, tree, node):
    opened().close()
    with pytest.raises(StoreMismatch, match="belongs to node 'store-1' of tree 'acme'"):
        opened(tree=tree, node=node)
    assert opened().start == 2


def test_a_second_opener_is_told_who_has_it(opened):
    opened()
    with pytest.raises(StoreBusy, match=rf"in use by process {os.getpid()}"):
        opened()


def test_another_process_is_refused(opened, tmp_path):
    opened()
    program = (
        "import sys; from broker.store import Store, StoreBusy\n"
        "try: Store.open(sys.argv[1], tree='acme', node='store-1')\n"
        "except StoreBusy: print('busy')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "busy\n"


def test_the_lock_goes_with_the_store_and_after_a_refusal(opened):
    opened().close()
    with pytest.raises(StoreMismatch):
        opened(node="other")
    opened()


def test_settings_of_the_database(opened, tmp_path):
    store = opened()
    store.apply(put(QueueRow("a", 0)))
    store.close()
    connection = sqlite3.connect(tmp_path / "node.db")
    wanted = {"auto_vacuum": 2, "journal_mode": "wal", "user_version": migrations.VERSION, "page_size": 4096}
    assert {name: connection.execute(f"PRAGMA {name}").fetchone()[0] for name in wanted} == wanted
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
    assert oct((tmp_path / "node.db").stat().st_mode & 0o777) == "0o600"


def test_the_writer_is_fully_synchronous(opened):
    writer = opened()._writing()
    assert writer.execute("PRAGMA synchronous").fetchone() == (2,)
    assert writer.execute("PRAGMA wal_autocheckpoint").fetchone() == (0,)


def test_what_was_written_and_not_committed_is_gone(opened):
    store = opened()
    store.write(put(QueueRow("a", 0)))
    store.close()
    assert opened().load().rows(QueueRow) == []


def test_closed_is_refused(opened):
    store = opened()
    store.close()
    store.close()
    with pytest.raises(StoreIOFailed, match=r"node\.db is closed"):
        store.apply(put(QueueRow("a", 0)))


@pytest.mark.parametrize(("moment", "kept"), [(BEFORE_COMMIT, []), (AFTER_COMMIT, [QueueRow("a", 0)])])
def test_an_injected_fault_ends_the_store_and_leaves_all_or_nothing(opened, moment, kept):
    def hook(now: str) -> None:
        if now == moment:
            raise OSError(5, "Input/output error")

    store = opened()
    store.hook = hook
    for _ in range(2):
        with pytest.raises(StoreIOFailed, match="Input/output error"):
            store.apply(put(QueueRow("a", 0)))
    assert "failed" in repr(store)
    store.close()
    assert opened().load().rows(QueueRow) == kept


def test_a_value_that_cannot_be_kept_ends_the_store_without_a_half_transaction(opened):
    store = opened()
    with pytest.raises(StoreIOFailed, match="too large"):
        store.apply(put(QueueRow("a", 0), QueueRow("b", 1 << 70)))
    store.close()
    assert opened().load().rows(QueueRow) == []


def test_used_bytes_fall_when_bundles_go_and_tidy_gives_them_back(opened, tmp_path):
    store = opened(journal_limit=0)
    empty = store.used_bytes()
    store.apply(put(*(BundleRow(row, b"h", b"x" * 50_000) for row in range(200))))
    full = store.used_bytes()
    assert full > empty + 200 * 50_000
    transaction = Transaction()
    for row in range(200):
        transaction.delete(BundleRow, row)
    store.apply(transaction)
    assert store.used_bytes() < full / 100
    assert store.untidy()
    while store.tidy():
        pass
    store.close()
    assert (tmp_path / "node.db").stat().st_size < full / 2
    assert opened().disk_free() > 0


def test_repr(opened, tmp_path):
    store = opened()
    store.apply(put(QueueRow("a", 0)))
    assert repr(store) == f"<Store {tmp_path}/node.db open start=1 commits=1>"
    store.close()
    assert "closed" in repr(store)


def damaged(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def test_garbage_is_refused_and_left_as_it_is(opened, tmp_path):
    path = tmp_path / "node.db"
    for content in (b"", b"SQLite", b"\xff" * 8192):
        path.write_bytes(content)
        with pytest.raises(StoreCorrupt, match="sapwood node recover"):
            opened()
        assert path.read_bytes() == content


def test_a_cut_file_is_refused(opened, tmp_path, make):
    store = opened()
    store.apply(make(1, 200))
    store.close()
    os.truncate(tmp_path / "node.db", 40_960)
    with pytest.raises(StoreCorrupt, match=r"node\.db is damaged"):
        opened()


def test_a_broken_root_page_is_found_at_the_start(opened, tmp_path, make):
    store = opened()
    store.apply(make(1, 200))
    (root,) = store._writing().execute("SELECT rootpage FROM sqlite_schema WHERE name = 'seen'").fetchone()
    store.close()
    damaged(tmp_path / "node.db", (root - 1) * 4096, b"\xa5" * 4096)
    with pytest.raises(StoreCorrupt):
        opened()


def test_a_broken_page_that_a_load_meets_ends_the_store(opened, tmp_path, make):
    store = opened(journal_limit=0)
    store.apply(make(1, 2000))
    pages = store.used_bytes() // 4096
    store.close()
    for page in range(30, pages):
        if page % 5 == 0:
            damaged(tmp_path / "node.db", page * 4096, b"\xa5" * 4096)
    with pytest.raises(StoreCorrupt, match="recover"):
        opened().load()


def test_a_foreign_database_is_refused(opened, tmp_path):
    connection = sqlite3.connect(tmp_path / "node.db")
    connection.execute("CREATE TABLE queue (name TEXT)")
    connection.close()
    with pytest.raises(StoreCorrupt, match="not one of Sapwood's"):
        opened()


def test_a_missing_column_is_named(opened, tmp_path):
    opened().close()
    connection = sqlite3.connect(tmp_path / "node.db")
    connection.execute("ALTER TABLE queue DROP COLUMN home")
    connection.close()
    with pytest.raises(
        StoreCorrupt,
        match=r"table queue has the columns \('name', 'maker'\), expected \('name', 'home', 'maker'\)",
    ):
        opened()


def test_a_log_without_its_database_is_not_taken_for_that_of_a_new_one(opened, tmp_path):
    (tmp_path / "node.db-wal").write_bytes(b"x" * 100)
    with pytest.raises(StoreCorrupt, match=r"gone while its log node\.db-wal is there"):
        opened()


def test_an_interrupted_recovery_is_not_taken_for_a_new_node(opened, tmp_path):
    (tmp_path / "node.db.broken-1").write_bytes(b"x")
    with pytest.raises(StoreCorrupt, match=r"recovery of node\.db\.broken-1 has not ended"):
        opened()


def test_a_creation_cut_short_is_begun_again(opened, tmp_path):
    (tmp_path / "node.db.new").write_bytes(b"half")
    assert opened().start == 1


def test_a_directory_that_cannot_be_made_is_an_error_of_ours(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreIOFailed, match="Not a directory"):
        Store.open(tmp_path / "file" / "inside", tree="acme", node="store-1")


def sqlite_memory() -> int:
    """Bytes that SQLite has in this process."""
    used = ctypes.CDLL(_sqlite3.__file__).sqlite3_memory_used
    used.restype = ctypes.c_int64
    return int(used())


def test_a_connection_that_reads_has_no_pages_before_it_needs_them(opened):
    store = opened()
    before = sqlite_memory()
    store.used_bytes()
    assert sqlite_memory() - before < 64 * 1024
