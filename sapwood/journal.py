"""A producer's journal: write locally first, publish when the node can be reached, trim what it has.

    with Journal("sales.journal") as journal:
        journal.append("queue:sales", sale)  # on this disk when it returns
        async with connect(session="till-7", producer="till-7-sales") as client:
            await journal.publish(client)

Law: an entry stays until the node has it on disk. Entries go out in the order in which they were written,
and carry one message id for ever (`message_id`, made here unless given), so that a consumer can tell a
repetition.

The client must have a `session` and a `producer` that are always the same, and everything that is sent under
that producer comes from this journal. Then the node knows by its number what it has (`client.committed`),
and what was under way when the application stopped need not be sent again. But `committed` counts what the
node refused as well. So, by default, what was under way at a stop is sent again, under the same message id;
`trust=True` takes `committed` at its word: nothing is repeated, and what was refused unseen is lost.

What the node refuses as QUEUE_FULL is written at the end again, and tried later; what it will never take is
set aside (`refused`), with the reason.
"""

import asyncio
import sqlite3
import threading
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, Unpack

import msgspec

from sapwood.errors import ClientError, SendRejected, Unconfirmed
from sapwood.options import (
    SendOptions,
    check_notice,
    checked_options,
    destination_of,
    payload_of,
    seconds,
)
from sapwood.protocol.bundles import Foreign
from sapwood.protocol.errors import SapwoodError
from sapwood.waits import within

if TYPE_CHECKING:
    from sapwood.client import Client

_AT_ONCE: Final = 1000
_PAUSE: Final = 0.5
_ROUTE: Final = ("persistent", "retained", "scope", "tell")
_PATIENCE: Final = 5.0  # seconds for another process to leave the file
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS entry (
    number INTEGER PRIMARY KEY AUTOINCREMENT, destination TEXT NOT NULL, payload BLOB NOT NULL,
    properties BLOB NOT NULL, sent INTEGER NOT NULL DEFAULT 0, refused TEXT NOT NULL DEFAULT '');
CREATE INDEX IF NOT EXISTS entry_open ON entry (number) WHERE refused = '';
"""


class Refused(NamedTuple):
    """An entry that the node does not take, and why."""

    number: int
    destination: str
    payload: bytes
    reason: str


class _Entry(NamedTuple):
    number: int
    destination: str
    payload: bytes
    properties: bytes


def _opened(path: Path) -> sqlite3.Connection:
    """Raises SQLite's error, with the file's name, which it leaves out."""
    database: sqlite3.Connection | None = None
    try:
        database = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
        for pragma in ("locking_mode=EXCLUSIVE", "journal_mode=WAL", "synchronous=FULL"):
            database.execute(f"PRAGMA {pragma}")
        database.executescript(_SCHEMA)
    except sqlite3.Error as error:
        if database is not None:
            database.close()
        why = ": somebody else has it open" if error.sqlite_errorcode == sqlite3.SQLITE_BUSY else ""
        raise type(error)(f"the journal {path}: {error}{why}") from error
    return database


class Journal:
    """See the module. `path`: its SQLite file, which one process has open; any of its threads may append."""

    def __init__(self, path: Path | str, *, trust: bool = False) -> None:
        self.path = Path(path)
        self._trust = trust
        self._lock = threading.RLock()
        self._client: Client | None = None
        self._database = _opened(self.path)

    def __repr__(self) -> str:
        return f"<Journal {self.path.name} with {len(self)} entries>"

    def __len__(self) -> int:
        """Entries that the node does not have yet, as far as is known; without the refused ones."""
        ((count,),) = self._rows("SELECT count(*) FROM entry WHERE refused = ''")
        return int(count)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        with self._lock:
            self._database.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            self._database.execute("BEGIN IMMEDIATE")
            with self._database:
                yield self._database

    def _rows(self, query: str, *values: Any) -> list[Any]:
        with self._lock:
            return self._database.execute(query, values).fetchall()

    # --- writing

    def append(self, destination: str, payload: bytes | str, **options: Unpack[SendOptions]) -> int:
        """Write one message; it is on disk when this returns. Returns its number in the journal.

        Options and errors as of `Client.send`, checked and converted here.
        """
        return self.append_many([(destination, payload)], **options)

    def append_many(self, messages: Iterable[tuple[str, bytes | str]], **options: Unpack[SendOptions]) -> int:
        """Write some, in one transaction; returns the number of the last."""
        given = checked_options(options)
        rows = [(destination, payload_of(payload)) for destination, payload in messages]
        for destination, _ in rows:
            check_notice(destination_of(destination), given.get("tell", False), given.get("reply_to"))
        number = 0
        with self._transaction() as database:
            for destination, data in rows:
                own = {"message_id": uuid.uuid4().hex, **given}
                number = _insert(database, destination, data, msgspec.msgpack.encode(own))
        return number

    def refused(self) -> list[Refused]:
        """What the node does not take. `forget` it, or `append` it anew."""
        query = "SELECT number, destination, payload, refused FROM entry WHERE refused <> '' ORDER BY number"
        return [Refused(*row) for row in self._rows(query)]

    def forget(self, number: int) -> None:
        """Take an entry out."""
        with self._transaction() as database:
            database.execute("DELETE FROM entry WHERE number = ?", (number,))

    # --- publishing

    async def publish(self, client: "Client", *, timeout: float | None = None) -> int:
        """Send everything that waits, until the node has it all; returns how many entries that were.

        One task at a time. Raises what the client raises when it is over, `Unconfirmed` after `timeout`
        seconds; the entries stay.
        """
        if not client.has_producer:
            raise ValueError("a journal needs a client that is known again: connect(session=…, producer=…)")
        async with within(seconds("timeout", timeout), lambda _: Unconfirmed(len(self))):
            return await self._publish(client)

    async def _publish(self, client: "Client") -> int:
        done = await self._go_on(client)
        while entries := self._next():
            self._number(client.seal() + 1, entries)
            await self._send(client, entries)
            done += await self._wait(client)
        return done

    async def run(self, client: "Client", pause: float = _PAUSE) -> None:
        """Publish whatever is appended, looking every `pause` seconds, until cancelled."""
        while True:
            await self.publish(client)
            await asyncio.sleep(pause)

    async def _go_on(self, client: "Client") -> int:
        """What was under way: with this client it still is; else the node has it, or it goes again."""
        if self._client is client:
            return await self._wait(client)
        self._client = client
        with self._transaction() as database:
            if self._trust:
                database.execute("DELETE FROM entry WHERE sent BETWEEN 1 AND ?", (client.committed,))
            database.execute("UPDATE entry SET sent = 0 WHERE sent > 0")
        return 0

    def _next(self) -> list[_Entry]:
        query = (
            "SELECT number, destination, payload, properties FROM entry WHERE refused = ''"
            " ORDER BY number LIMIT ?"
        )
        return [_Entry(*row) for row in self._rows(query, _AT_ONCE)]

    def _number(self, first: int, entries: list[_Entry]) -> None:
        """Keep which number of the producer each entry will have, before it is sent."""
        with self._transaction() as database:
            database.executemany(
                "UPDATE entry SET sent = ? WHERE number = ?",
                [(number, entry.number) for number, entry in enumerate(entries, first)],
            )

    async def _send(self, client: "Client", entries: list[_Entry]) -> None:
        """Publish entries so that they are numbered in their order: the client keeps it within a route."""
        before: object = None
        for place, entry in enumerate(entries):
            properties = _options(entry.properties)
            route = entry.destination, *(properties.get(name) for name in _ROUTE)
            if route != before:
                client.seal()
                before = route
            try:
                await client.publish(entry.destination, entry.payload, **properties)
            except BaseException as error:
                reason = str(error) if _is_its_own_fault(error) else ""
                self._unsent(entries[place:], reason)
                if not reason:
                    raise
                return

    def _unsent(self, entries: list[_Entry], reason: str) -> None:
        """These were not sent. `reason`: why the first of them cannot be at all; '' = it can."""
        with self._transaction() as database:
            for place, entry in enumerate(entries):
                database.execute(
                    "UPDATE entry SET refused = ?, sent = 0 WHERE number = ?",
                    ("" if place else reason, entry.number),
                )

    async def _wait(self, client: "Client") -> int:
        """Wait until the node has said what becomes of what was sent, and trim. Returns how many it has."""
        rejected: dict[int, str] = {}
        try:
            await client.flush()
        except SendRejected as error:
            for rejection in error.rejections:
                numbers = range(rejection.first, rejection.last + 1)
                rejected.update(dict.fromkeys(numbers, rejection.code))
        done = self._trim(rejected)
        if "QUEUE_FULL" in rejected.values():
            await asyncio.sleep(_PAUSE)
        return done

    def _trim(self, rejected: dict[int, str]) -> int:
        """What is on the node's disk goes; what was refused is tried again at the end, or set aside."""
        done = 0
        with self._transaction() as database:
            for number, sent in self._rows("SELECT number, sent FROM entry WHERE sent > 0 ORDER BY number"):
                code = rejected.get(sent, "")
                if code and code != "QUEUE_FULL":
                    database.execute(
                        "UPDATE entry SET refused = ?, sent = 0 WHERE number = ?", (code, number)
                    )
                    continue
                if code:
                    database.execute(
                        "INSERT INTO entry (destination, payload, properties)"
                        " SELECT destination, payload, properties FROM entry WHERE number = ?",
                        (number,),
                    )
                database.execute("DELETE FROM entry WHERE number = ?", (number,))
                done += not code
        return done


def _is_its_own_fault(error: BaseException) -> bool:
    """Can this entry never be sent? Else the client is over, or the task was cancelled."""
    if isinstance(error, ClientError):
        return isinstance(error, SendRejected)
    return isinstance(error, SapwoodError | TypeError | ValueError)


def _options(encoded: bytes) -> dict[str, Any]:
    """As they were given to `append`."""
    options: dict[str, Any] = msgspec.msgpack.decode(encoded)
    if options.get("foreign") is not None:
        options["foreign"] = msgspec.convert(options["foreign"], Foreign)
    return options


def _insert(database: sqlite3.Connection, destination: str, payload: bytes, properties: bytes) -> int:
    row = (destination, payload, properties)
    cursor = database.execute("INSERT INTO entry (destination, payload, properties) VALUES (?, ?, ?)", row)
    return int(cursor.lastrowid or 0)
