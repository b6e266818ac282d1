import hashlib
import sqlite3
from typing import get_type_hints

from broker.core.rows import KEYS
from broker.store import migrations, schema

KINDS = {int: "INTEGER", str: "TEXT", bytes: "BLOB", bytes | None: "BLOB"}
VERSION_8 = "81b3f7f0ef49ce68ad7927a7f2378048b6fd9d84fc9c00efcd7bd8fe3b8b5b13"


def test_tables_are_the_row_types_column_by_column():
    connection = sqlite3.connect(":memory:")
    schema.create_tables(connection)
    assert list(schema.TABLES) == [schema.table_name(table) for table in KEYS]
    for table, keys in KEYS.items():
        hints = get_type_hints(table)
        found = connection.execute(
            "SELECT name, type, pk FROM pragma_table_info(?)", (schema.table_name(table),)
        )
        expected = [
            (name, KINDS[hints[name]], at if at <= keys else 0) for at, name in enumerate(table._fields, 1)
        ]
        assert found.fetchall() == expected
    assert schema.missing(connection) == ""
    connection.close()


def test_every_table_is_one_tree():
    connection = sqlite3.connect(":memory:")
    schema.create_tables(connection)
    (trees,) = connection.execute("SELECT count(*) FROM sqlite_schema WHERE rootpage > 0").fetchone()
    connection.close()
    assert trees == len(KEYS)


def test_the_tables_of_a_version_never_change():
    """If this fails: write a migration, which raises the version, and put the new digest here."""
    digest = hashlib.sha256(repr(schema.TABLES).encode()).hexdigest()
    assert (migrations.VERSION, digest) == (8, VERSION_8)


def test_a_missing_table_is_named():
    connection = sqlite3.connect(":memory:")
    schema.create_tables(connection)
    connection.execute("DROP TABLE link")
    assert schema.missing(connection).startswith("table link has the columns ()")
    connection.close()
