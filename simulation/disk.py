"""A disk that is a dictionary: what survives a crash of the core above it.

Law: after each commit it is as the real store would want it: a header changes only where its bundle is, and
no copy refers to a bundle that has gone.
"""

import copy
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from typing import Any, NamedTuple, cast

from broker.core.messages.pages import Covered, rows_of
from broker.core.rows import KEYS, BundleRow, CopyRow, PageRow, RouteRow, StoredEntry, Transaction
from sapwood.protocol.destinations import Destination, Kind
from treeconnector.routes import Route


class DiskBundle(NamedTuple):
    """A bundle as a start reads it: the size of its body instead of the body."""

    row: int
    header: bytes
    size: int


Find = Callable[[Destination, str], Route | None]
Key = tuple[str, str, str]


class Routes(MutableMapping[Key, RouteRow]):
    """The table of routes, most of what a node at rest has on disk. Where `find` says that the core has the
    same route in its memory, that object is kept, and not another one.
    """

    __slots__ = ("_by_gateway", "find")

    def __init__(self) -> None:
        self._by_gateway: dict[str, dict[Destination, Route | RouteRow]] = {}
        self.find: Find | None = None

    def __repr__(self) -> str:
        return f"<Routes {len(self)}>"

    def __len__(self) -> int:
        return sum(map(len, self._by_gateway.values()))

    def __iter__(self) -> Iterator[Key]:
        for gateway, routes in self._by_gateway.items():
            for key in routes:
                yield key.kind, key.name, gateway

    def __getitem__(self, key: Key) -> RouteRow:
        kind, name, gateway = key
        found = self._by_gateway[gateway][_destination(kind, name)]
        return found if isinstance(found, RouteRow) else _row(found)

    def __setitem__(self, key: Key, row: RouteRow) -> None:
        kind, name, gateway = key
        destination = _destination(kind, name)
        routes = self._by_gateway.get(gateway)
        if routes is None:
            routes = self._by_gateway[gateway] = {}
        route = self.find(destination, gateway) if self.find is not None else None
        if route is not None and _row(route) == row:
            routes.pop(destination, None)
            routes[route.key] = route
        else:
            routes[destination] = row

    def __delitem__(self, key: Key) -> None:
        kind, name, gateway = key
        routes = self._by_gateway[gateway]
        del routes[_destination(kind, name)]
        if not routes:
            del self._by_gateway[gateway]

    def share(self, find: Find) -> None:
        """A core has started from this table: keep what it has made of it."""
        self.find = find
        for key, row in list(self.items()):
            self[key] = row

    def copy(self) -> "Routes":
        made = Routes()
        made._by_gateway = {gateway: dict(routes) for gateway, routes in self._by_gateway.items()}
        return made


def _destination(kind: str, name: str) -> Destination:
    """Looked up only: the word of a kind is equal to the kind."""
    return Destination(cast("Kind", kind), name)


def _row(route: Route) -> RouteRow:
    key = route.key
    return RouteRow(
        key.kind, key.name, route.gateway, int(route.live), route.origin, route.cause, route.reads, 0
    )


class Disk:
    """What survives a crash: tables of committed rows, and who they belong to."""

    def __init__(self, store_id: bytes = b"") -> None:
        self.routes = Routes()
        self.tables: defaultdict[type[Any], MutableMapping[Any, Any]] = defaultdict(dict)
        self.tables[RouteRow] = self.routes
        self.store_id = store_id or uuid.uuid4().bytes
        self.start = 0
        self._copies: dict[int, int] = {}
        self._paged: dict[int, int] = {}

    def __repr__(self) -> str:
        counts = (f"{table.__name__}={len(rows)}" for table, rows in self.tables.items() if rows)
        return f"<Disk start={self.start} {' '.join(counts)}>"

    def backup(self) -> "Disk":
        """A copy, as a disk image or yesterday's backup is one."""
        made = copy.copy(self)
        made.routes = self.routes.copy()
        made.tables = defaultdict(dict)
        made.tables.update(
            (table, dict(rows)) for table, rows in self.tables.items() if table is not RouteRow
        )
        made.tables[RouteRow] = made.routes
        made._copies = dict(self._copies)
        made._paged = dict(self._paged)
        return made

    def apply(self, transaction: Transaction) -> None:
        """Commit, and check what a real store would check."""
        for table, rows, gone in transaction.tables():
            found, keys = self.tables[table], KEYS[table]
            if table is CopyRow:
                self._count_copies(rows, gone)
            if table is PageRow:
                self._note_pages(rows, gone)
            for key in gone:
                found.pop(key, None)
            for row in rows:
                if table is BundleRow and row.body is None:
                    assert row.row in found, f"a header changes whose bundle is not there: {row}"
                    row = row._replace(body=found[row.row].body)
                found[row[0] if keys == 1 else row[:keys]] = row
        self._check(transaction)

    def _count_copies(self, rows: list[CopyRow], gone: list[int]) -> None:
        """How many copies each bundle has: before they are written."""
        table, copies = self.tables[CopyRow], self._copies
        for key in [*gone, *(row.row for row in rows)]:
            before = table.get(key)
            if before is not None:
                copies[before.bundle] -= 1
                if not copies[before.bundle]:
                    del copies[before.bundle]
        for row in rows:
            copies[row.bundle] = copies.get(row.bundle, 0) + 1

    def _note_pages(self, rows: list[PageRow], gone: list[int]) -> None:
        """Which copies stand in which page: before they are written."""
        for first in (*gone, *(page.first for page in rows)):
            for row in rows_of(self.tables[PageRow][first]) if first in self.tables[PageRow] else ():
                del self._paged[row]
        for page in rows:
            self._paged.update(dict.fromkeys(rows_of(page), page.first))

    def _check(self, transaction: Transaction) -> None:
        """Only a bundle that goes, or a copy that comes, can leave a copy without its bundle. And a copy that
        changes stands in no page any more.
        """
        bundles = self.tables.get(BundleRow, {})
        for number, row in transaction.changes.get(CopyRow, {}).items():
            assert number not in self._paged, f"copy {number} changes, page {self._paged[number]} stays"
            assert row is None or row.bundle in bundles, f"a copy of a bundle that is not there: {row}"
        for number, bundle in transaction.changes.get(BundleRow, {}).items():
            assert bundle is not None or number not in self._copies, f"bundle {number} goes, its copies stay"

    @property
    def bundles(self) -> list[DiskBundle]:
        rows = sorted(self.tables[BundleRow].values())
        return [DiskBundle(row.row, row.header, len(row.body)) for row in rows]

    def rows(self, table: type[Any]) -> list[Any]:
        found = self.tables.get(table, {})
        return [found[key] for key in sorted(found)]

    def copies(self, but: Covered) -> Iterator[StoredEntry]:
        return iter(
            self.read_copies(sorted(row for row in self.tables.get(CopyRow, ()) if row not in but), False)
        )

    def read_copies(self, rows: Sequence[int], with_bodies: bool) -> list[StoredEntry]:
        copies, bundles = self.tables.get(CopyRow, {}), self.tables.get(BundleRow, {})
        found = [(copies[row], bundles[copies[row].bundle]) for row in rows if row in copies]
        return [
            StoredEntry(copy, bundle.header, len(bundle.body), bundle.body if with_bodies else None)
            for copy, bundle in found
        ]

    def shared_bundles(self) -> list[int]:
        return [bundle for bundle, count in self._copies.items() if count > 1]

    def lone_bundles(self) -> list[int]:
        return [bundle for bundle in self.tables.get(BundleRow, ()) if bundle not in self._copies]

    def bodies(self, rows: Iterable[int]) -> dict[int, bytes]:
        found = self.tables.get(BundleRow, {})
        return {row: found[row].body for row in rows if row in found}
