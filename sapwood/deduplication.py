"""Telling what was handled before, so that what comes twice is done once.

A message may be given again after a crash in the wrong moment (docs/services.md); it then has the same
`key`. `Seen` remembers keys in memory, for as long as the process runs. `SeenInDatabase` keeps them in
SQLite, in the transaction of the application's own work: then both are on disk, or neither is, whatever
crashes when.

    seen = SeenInDatabase(database)
    async for delivery in client.subscribe("queue:sales"):
        with database:  # commits, or rolls back
            if seen.add(delivery.key):
                book(database, delivery.payload)
        delivery.ack()

A handler of calls that must give the same answer again keeps it beside the key:

    def reserve(article: int) -> str:
        with database:
            key = current_request().key
            if not seen.add(key):
                return seen.note(key)
            number = book_reservation(database, article)
            seen.put_note(key, number)
            return number

Law: bounded. The oldest keys are forgotten first; keep more than can come again, that is, more than what may
be unacknowledged or on its way when something breaks.
"""

import re
import sqlite3
from collections import OrderedDict
from typing import Final

DEFAULT_MOST: Final = 100_000
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}", re.ASCII)


class Seen:
    """The last `most` keys, in memory. For one thread or one event loop."""

    def __init__(self, most: int = DEFAULT_MOST) -> None:
        if most < 1:
            raise ValueError(f"{most} keys to remember: expected 1 or more")
        self.most = most
        self._keys: OrderedDict[str, str] = OrderedDict()

    def __repr__(self) -> str:
        return f"<Seen {len(self._keys)} of at most {self.most}>"

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, key: str) -> bool:
        """Remember a key. True: it is new, do the work; False: that was done before."""
        if key in self._keys:
            return False
        self._keys[key] = ""
        if len(self._keys) > self.most:
            self._keys.popitem(last=False)
        return True

    def discard(self, key: str) -> None:
        """Forget a key whose work failed: it will be done when the message comes again."""
        self._keys.pop(key, None)

    def put_note(self, key: str, note: str) -> None:
        """Keep something with a key that was added, an answer for instance."""
        if key in self._keys:
            self._keys[key] = note

    def note(self, key: str) -> str:
        """What was kept with a key; '' = nothing."""
        return self._keys.get(key, "")


class SeenInDatabase:
    """The last `most` keys, in a table of the application's own SQLite database.

    Caller's duty: `add` and the work are within one transaction of `database`, which the caller commits or
    rolls back. With a rollback the key is forgotten, too. `table` is made at once if it is not there.
    """

    def __init__(
        self, database: sqlite3.Connection, *, most: int = DEFAULT_MOST, table: str = "sapwood_seen"
    ) -> None:
        if most < 1:
            raise ValueError(f"{most} keys to remember: expected 1 or more")
        if not _NAME.fullmatch(table):
            raise ValueError(f"{table[:80]!r} is no name of a table: expected letters, digits and '_'")
        self.most = most
        self._database = database
        self._table = table
        with database:
            database.execute(
                f"CREATE TABLE IF NOT EXISTS {table} (number INTEGER PRIMARY KEY AUTOINCREMENT,"
                " key TEXT NOT NULL UNIQUE, note TEXT NOT NULL DEFAULT '')"
            )

    def __repr__(self) -> str:
        return f"<SeenInDatabase {self._table} of at most {self.most}>"

    def __contains__(self, key: str) -> bool:
        return self._one("SELECT 1 FROM {} WHERE key = ?", key) is not None

    def __len__(self) -> int:
        (count,) = self._database.execute(f"SELECT count(*) FROM {self._table}").fetchone()  # noqa: S608
        return int(count)

    def add(self, key: str) -> bool:
        """Remember a key, within the caller's transaction. True: it is new, do the work."""
        if key in self:  # a number that an insertion in vain had used up would be missing from the bound
            return False
        cursor = self._database.execute(
            f"INSERT INTO {self._table} (key) VALUES (?) ON CONFLICT DO NOTHING",  # noqa: S608
            (key,),
        )
        if cursor.rowcount < 1:
            return False
        number = cursor.lastrowid or 0
        self._database.execute(
            f"DELETE FROM {self._table} WHERE number <= ?",  # noqa: S608
            (number - self.most,),
        )
        return True

    def put_note(self, key: str, note: str) -> None:
        """Keep something with a key that was added, an answer for instance; within the same transaction."""
        self._database.execute(
            f"UPDATE {self._table} SET note = ? WHERE key = ?",  # noqa: S608
            (note, key),
        )

    def note(self, key: str) -> str:
        """What was kept with a key; '' = nothing."""
        found = self._one("SELECT note FROM {} WHERE key = ?", key)
        return str(found[0]) if found else ""

    def _one(self, query: str, key: str) -> tuple[object, ...] | None:
        found: tuple[object, ...] | None = self._database.execute(
            query.format(self._table), (key,)
        ).fetchone()
        return found
