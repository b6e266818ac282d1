import sqlite3

import pytest

from broker.core.rows import ClientRow, MemberRow, PageRow, QueueRow, RejectedRow, SeenRow, Transaction
from broker.store import StoreMismatch, migrations, schema

ALL = migrations.MIGRATIONS


def rename_queue(connection: sqlite3.Connection) -> None:
    connection.execute("UPDATE queue SET name = 'new ' || name")


def break_down(connection: sqlite3.Connection) -> None:
    connection.execute("DELETE FROM queue")
    raise RuntimeError("power cut")


def with_queue(opened) -> None:
    store = opened()
    transaction = Transaction()
    transaction.put(QueueRow("prices", 0))
    store.apply(transaction)
    store.close()


def without_makers(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE queue DROP COLUMN maker")


def without_clients(connection: sqlite3.Connection) -> None:
    without_makers(connection)
    connection.execute("DROP TABLE client")


def without_pages(connection: sqlite3.Connection) -> None:
    without_clients(connection)
    connection.execute("DROP TABLE page")


def without_parts(connection: sqlite3.Connection) -> None:
    without_pages(connection)
    connection.execute("ALTER TABLE seen DROP COLUMN part")


def test_an_older_database_is_brought_up_step_by_step(opened, monkeypatch):
    with_queue(opened)
    monkeypatch.setattr(migrations, "MIGRATIONS", (*ALL, rename_queue, rename_queue))
    store = opened()
    assert store.load().rows(QueueRow) == [QueueRow("new new prices", 0)]
    assert migrations.version_of(store._writing()) == len(ALL) + 3
    store.close()
    assert opened().load().rows(QueueRow) == [QueueRow("new new prices", 0)]


def test_a_migration_cut_short_leaves_the_version_before_it(opened, monkeypatch):
    with_queue(opened)
    monkeypatch.setattr(migrations, "MIGRATIONS", (*ALL, rename_queue, break_down))
    with pytest.raises(RuntimeError, match="power cut"):
        opened()
    monkeypatch.setattr(migrations, "MIGRATIONS", (*ALL, rename_queue))
    store = opened()
    assert store.load().rows(QueueRow) == [QueueRow("new prices", 0)]
    assert migrations.version_of(store._writing()) == len(ALL) + 2


def test_a_newer_database_is_refused_and_untouched(opened, monkeypatch):
    with_queue(opened)
    with monkeypatch.context() as later:
        later.setattr(migrations, "MIGRATIONS", (*ALL, rename_queue))
        opened().close()
    with pytest.raises(StoreMismatch, match=r"newer Sapwood \(schema 9, this one knows 8\)"):
        opened()


def test_a_database_of_the_first_version_remembers_rejections_from_now_on(opened):
    with_queue(opened)
    store = opened()
    connection = store._writing()
    for table in ("rejected", "invitation", "member"):
        connection.execute(f"DROP TABLE {table}")
    without_parts(connection)
    migrations.set_version(connection, 1)
    store.close()
    store = opened()
    assert schema.missing(store._writing()) == ""
    (made,) = store._writing().execute("SELECT sql FROM sqlite_schema WHERE name = 'rejected'").fetchone()
    assert made == f'CREATE TABLE "rejected" {schema.TABLES["rejected"]}'
    transaction = Transaction()
    transaction.put(RejectedRow("till", 3, 4, "QUEUE_FULL", "no room"))
    store.apply(transaction)
    assert store.load().rows(RejectedRow) == [RejectedRow("till", 3, 4, "QUEUE_FULL", "no room")]
    assert store.load().rows(QueueRow) == [QueueRow("prices", 0)]


def test_a_database_of_the_second_version_remembers_members_from_now_on(opened):
    with_queue(opened)
    store = opened()
    connection = store._writing()
    for table in ("invitation", "member"):
        connection.execute(f"DROP TABLE {table}")
    without_parts(connection)
    migrations.set_version(connection, 2)
    store.close()
    store = opened()
    assert schema.missing(store._writing()) == ""
    for table in ("invitation", "member"):
        (made,) = (
            store._writing().execute("SELECT sql FROM sqlite_schema WHERE name = ?", (table,)).fetchone()
        )
        assert made == f'CREATE TABLE "{table}" {schema.TABLES[table]}'
    row = MemberRow("york", "leaf", b"key", b"", 1_800_000_000, 0)
    transaction = Transaction()
    transaction.put(row)
    store.apply(transaction)
    assert store.load().rows(MemberRow) == [row]


def test_a_database_of_the_third_version_knows_whole_bundles_again(opened):
    with_queue(opened)
    store = opened()
    connection = store._writing()
    without_parts(connection)
    connection.execute("INSERT INTO seen VALUES (?, ?)", (b"i" * 16 + b"york", 7000))
    migrations.set_version(connection, 3)
    store.close()
    store = opened()
    assert schema.missing(store._writing()) == ""
    assert store.load().rows(SeenRow) == [SeenRow(b"i" * 16 + b"york", 7000, b"")]


def test_a_database_of_the_fourth_version_has_pages_from_now_on(opened):
    with_queue(opened)
    store = opened()
    without_pages(store._writing())
    migrations.set_version(store._writing(), 4)
    store.close()
    store = opened()
    assert schema.missing(store._writing()) == ""
    (made,) = store._writing().execute("SELECT sql FROM sqlite_schema WHERE name = 'page'").fetchone()
    assert made == f'CREATE TABLE "page" {schema.TABLES["page"]}'
    transaction = Transaction()
    transaction.put(PageRow(7, "queue:prices", b"summary"))
    store.apply(transaction)
    assert store.load().rows(PageRow) == [PageRow(7, "queue:prices", b"summary")]


def test_a_database_of_the_fifth_version_keeps_clients_sessions_from_now_on(opened):
    with_queue(opened)
    store = opened()
    without_clients(store._writing())
    migrations.set_version(store._writing(), 5)
    store.close()
    store = opened()
    assert schema.missing(store._writing()) == ""
    (made,) = store._writing().execute("SELECT sql FROM sqlite_schema WHERE name = 'client'").fetchone()
    assert made == f'CREATE TABLE "client" {schema.TABLES["client"]}'
    transaction = Transaction()
    transaction.put(ClientRow("mqtt/till", "", b"value"))
    store.apply(transaction)
    assert store.load().rows(ClientRow) == [ClientRow("mqtt/till", "", b"value")]


def test_a_database_of_the_sixth_version_knows_who_makes_a_queue_from_now_on(opened):
    with_queue(opened)
    store = opened()
    without_makers(store._writing())
    migrations.set_version(store._writing(), 6)
    store.close()
    store = opened()
    assert schema.missing(store._writing()) == ""
    transaction = Transaction()
    transaction.put(QueueRow("sales", 1, "till/"))
    store.apply(transaction)
    assert store.load().rows(QueueRow) == [QueueRow("prices", 0, ""), QueueRow("sales", 1, "till/")]
