"""The advisory log of simulated nodes: the contract's columns as Parquet, by tree, date and region.

Law: the same seed gives the same bytes. Rows of one moment at one node come in an order of their own,
whatever order the core found them in; so a file is written only up to a moment that is over, and rows get
their numbers as they are written.

Wrinkle: `tree` and `region` stand in the path, not in the files, as everything that reads partitioned Parquet
expects; the root's region, which is none, is the folder that they read as null.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import msgspec

from config.errors import ConfigurationError
from sapwood.protocol.destinations import Destination
from sapwood.protocol.errors import SapwoodError
from treeconnector.frames import Advice

SCHEMA: Final = 2
NO_REGION: Final = "__HIVE_DEFAULT_PARTITION__"
_AT_ONCE: Final = 100_000
_MOST: Final = 1_000_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_encoder = msgspec.msgpack.Encoder()


class Row(NamedTuple):
    """One row of the contract; `at` in microseconds since 1970."""

    event: str
    at: int
    tree: str
    node: str
    role: str
    depth: int | None
    region: str | None
    op: str
    kind: str | None = None
    destination: str | None = None
    peer: str | None = None
    direction: str | None = None
    cause: str | None = None
    origin: str | None = None
    bytes: int | None = None
    schema: int = SCHEMA
    series: int | None = None
    seq: int | None = None


COLUMNS: Final = Row._fields
Sink = Callable[[Row], object]


class NodeLog:
    """What one core tells; `core.Chronicle` of a simulated node. `clock`: microseconds since 1970."""

    __slots__ = ("_clock", "_sink", "depth", "node", "region", "role", "tree")

    def __init__(self, sink: Sink, clock: Callable[[], int], tree: str, node: str, role: str) -> None:
        self._sink = sink
        self._clock = clock
        self.tree, self.node, self.role = tree, node, role
        self.depth: int | None = 0 if role == "root" else None
        self.region: str | None = None

    def __repr__(self) -> str:
        return f"<NodeLog of {self.node}>"

    def _row(self, event: str, op: str, *rest: Any) -> None:
        self._sink(
            Row(event, self._clock(), self.tree, self.node, self.role, self.depth, self.region, op, *rest)
        )

    def consumer(self, op: str, key: Destination, cause: str) -> None:
        self._row("consumer", op, str(key.kind), key.name, None, None, cause, self.node)

    def advisories(self, peer: str, direction: str, advices: list[Advice]) -> None:
        for advice in advices:
            self._row(
                "advisory",
                advice.op,
                str(advice.kind),
                advice.name,
                peer,
                direction,
                advice.cause or None,
                advice.origin or None,
                len(_encoder.encode(advice)),
            )

    def link(self, op: str, peer: str, direction: str) -> None:
        self._row("link", op, None, None, peer, direction)

    def chain(self, chain: list[str]) -> None:
        if len(chain) > 1:
            self.depth, self.region = len(chain) - 1, chain[-2]
        else:
            self.depth, self.region = (0 if self.role == "root" else None), None

    def started(self) -> None:
        self._row("node", "start")

    def stopped(self) -> None:
        self._row("node", "stop")


class Counts:
    """Counts rows as they come. `advisories`: by (kind, op, direction, depth of the receiver)."""

    def __init__(self) -> None:
        self.rows = 0
        self.events: Counter[tuple[str, str]] = Counter()
        self.advisories: Counter[tuple[str, str, str, int]] = Counter()
        self.bytes = 0

    def __repr__(self) -> str:
        return f"<Counts rows={self.rows} advisories={self.advisories.total()}>"

    def __call__(self, row: Row) -> None:
        self.rows += 1
        if row.event == "advisory":
            depth = -1 if row.depth is None else row.depth
            self.advisories[row.kind or "", row.op, row.direction or "", depth] += 1
            self.bytes += row.bytes or 0
        else:
            self.events[row.event, row.op] += 1


class ParquetLog:
    """Writes rows below `folder`. Call it with rows in order of time; end with `close`.

    Raises `SapwoodError` where pyarrow is not installed, `ConfigurationError` where a log lies in `folder`.
    """

    def __init__(self, folder: Path) -> None:
        try:
            import pyarrow
            from pyarrow import parquet
        except ImportError:
            raise SapwoodError(
                "the advisory log is written as Parquet, which needs pyarrow:"
                " install the extra, pip install 'sapwood-node[simulation]'"
            ) from None
        if any(folder.rglob("*.parquet")):
            raise ConfigurationError(
                f"{folder} holds a log already: expected a new folder; name another, or remove it"
            )
        self._arrow, self._parquet = pyarrow, parquet
        self._folder = folder
        self._schema = _schema(pyarrow)
        self._waiting: dict[tuple[str, int, str | None], list[Row]] = {}
        self._writers: dict[tuple[str, int, str | None], Any] = {}
        self._count = 0
        self._numbers: dict[str, tuple[int, int]] = {}
        self.written = 0

    def __repr__(self) -> str:
        return f"<ParquetLog {self._folder} written={self.written} waiting={self._count}>"

    def __call__(self, row: Row) -> None:
        place = (row.tree, row.at // 86_400_000_000, row.region)
        rows = self._waiting.get(place)
        if rows is None:
            rows = self._waiting[place] = []
        rows.append(row)
        self._count += 1
        if len(rows) >= _AT_ONCE:
            self._write(place, row.at)
        elif self._count >= _MOST:
            for each in list(self._waiting):
                self._write(each, row.at)

    def _write(self, place: tuple[str, int, str | None], before: int | None) -> None:
        """Write what is older than `before`; everything if that is None."""
        rows = sorted(self._waiting[place], key=_order)
        ready = rows if before is None else [row for row in rows if row.at < before]
        self._waiting[place] = rows[len(ready) :]
        self._count -= len(ready)
        if not ready:
            return
        self.written += len(ready)
        columns = dict(zip(COLUMNS, zip(*map(self._numbered, ready), strict=True), strict=True))
        arrays = [self._arrow.array(columns[field.name], field.type) for field in self._schema]
        table = self._arrow.Table.from_arrays(arrays, schema=self._schema)
        self._writer(place).write_table(table)

    def _numbered(self, row: Row) -> Row:
        """With the number after that of its node's last row; a node's series is named by the first second."""
        series, seq = self._numbers.get(row.node, (row.at // 1_000_000, 0))
        self._numbers[row.node] = series, seq + 1
        return row._replace(series=series, seq=seq + 1)

    def _writer(self, place: tuple[str, int, str | None]) -> Any:
        if place not in self._writers:
            tree, day, region = place
            date = (_EPOCH + timedelta(days=day)).date()
            name = NO_REGION if region is None else quote(region, safe="")
            folder = self._folder / f"tree={quote(tree, safe='')}" / f"date={date}" / f"region={name}"
            folder.mkdir(parents=True, exist_ok=True)
            self._writers[place] = self._parquet.ParquetWriter(
                folder / "part-0.parquet", self._schema, compression="zstd"
            )
        return self._writers[place]

    def close(self) -> None:
        """Write the rest."""
        for place in list(self._waiting):
            self._write(place, None)
            del self._waiting[place]
            if place in self._writers:
                self._writers.pop(place).close()  # each keeps a tenth of a megabyte


def _order(row: Row) -> tuple[Any, ...]:
    return (
        row.at,
        row.node,
        row.event,
        row.peer or "",
        row.kind or "",
        row.destination or "",
        row.cause or "",
        row.op,
    )


def _schema(arrow: Any) -> Any:
    """The contract's columns but for those in the path."""
    types = {
        "at": arrow.timestamp("us", "UTC"),
        "depth": arrow.int32(),
        "bytes": arrow.int64(),
        "schema": arrow.int32(),
        "series": arrow.int64(),
        "seq": arrow.int64(),
    }
    return arrow.schema(
        [(name, types.get(name, arrow.string())) for name in COLUMNS if name not in ("tree", "region")]
    )


def every(sinks: Sequence[Sink]) -> Sink:
    """A sink that tells all of them."""

    def tell(row: Row) -> None:
        for sink in sinks:
            sink(row)

    return tell
