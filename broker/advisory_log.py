"""The advisory log: what consumers came and went, which advisories that cost, and what links did.

The contract between nodes, simulation and audit, described in docs/advisory-log.md. One row an event, one
line of JSON a row, all columns in every row, null where a column does not apply.

Law: the log never stops a node. What cannot be written, on a full disk say, is dropped and counted. Rows
are gathered in memory and written when the loop's turn ends, or at `flush`; never synced, since a lost tail
costs an audit little. A line that a crash cut is removed at the next start.

Law: each row has a number, one more than the row before, across files and starts. A row that was dropped had
one too: so an audit sees each hole.
"""

import asyncio
import logging
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from broker.advisory_files import LogFiles, current_file, finished_files, log_files
from sapwood.protocol.errors import SapwoodError
from treeconnector.frames import Advice
from treeconnector.wording import counted

_log = logging.getLogger("sapwood.advisories")
SCHEMA: Final = 2
DEFAULT_MAX_BYTES: Final = 16 * 1024 * 1024
DEFAULT_MAX_FILES: Final = 10
_BUFFER_BYTES: Final = 256 * 1024


class LogError(SapwoodError):
    """A file of the advisory log that cannot be read; the text names it and the line."""


class LogRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row. The columns are the contract: they are only ever added to, and then `schema` grows."""

    event: str
    at: str
    tree: str
    node: str
    role: str
    depth: int | None = None
    region: str | None = None
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


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(LogRow)
_advice_encoder = msgspec.msgpack.Encoder()


def iso_time(seconds: float) -> str:
    """Seconds since 1970 as ISO 8601 in UTC, always with six digits of fraction, as Spark reads it."""
    at = datetime.fromtimestamp(0, UTC) if seconds < 0 else datetime.fromtimestamp(seconds, UTC)
    return at.isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


class AdvisoryLog:
    """Writes one node's log. Call from the node's thread only; end with `close`.

    `max_bytes`: size from which a new file begins. `max_files`: most files kept, the current one counted;
    the oldest goes. `gzip`: whether finished files are compressed, in a thread. `clock`: wall clock, seconds
    since 1970. `dropped` counts rows that could not be written, `last_error` says why the last one was not.
    """

    def __init__(
        self,
        directory: Path | str,
        *,
        tree: str,
        node: str,
        role: str,
        max_bytes: int = DEFAULT_MAX_BYTES,
        max_files: int = DEFAULT_MAX_FILES,
        gzip: bool = True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._files = LogFiles(Path(directory), node, max_bytes, max_files, gzip)
        self._tree, self._node, self._role = tree, node, role
        self._clock = clock
        self._depth: int | None = 0 if role == "root" else None
        self._region: str | None = None
        self._buffer = bytearray()
        self._rows = 0
        self._scheduled = False
        self._closed = False
        self._series, self._seq = self._last_number()
        self.written = 0
        self.dropped = 0
        self._said = ""
        self._say()

    def _last_number(self) -> tuple[int, int]:
        """Where the numbers go on; a log without any begins a series, which is named by the time."""
        try:
            row = _decoder.decode(self._files.last_line())
        except (msgspec.DecodeError, ValueError, RecursionError):
            row = None
        if row is None or row.series is None or row.seq is None:
            return int(self._clock()), 0
        return row.series, row.seq

    def __repr__(self) -> str:
        return f"<AdvisoryLog {self._files.path} written={self.written} dropped={self.dropped}>"

    @property
    def last_error(self) -> str:
        """Why rows were dropped; '' if none were, or what is written again since."""
        return self._files.error

    def set_chain(self, chain: Sequence[str]) -> None:
        """Say where the node stands: names from this node up to the root, this one first.

        Rows from now on carry depth and region. A chain of one is the root's own; from any other node it
        says that the way up is not known.
        """
        if len(chain) > 1:
            self._depth, self._region = len(chain) - 1, chain[-2]
        else:
            self._depth, self._region = (0 if self._role == "root" else None), None

    def write_consumer(self, op: str, kind: str, destination: str, cause: str) -> None:
        """A local consumer came ('add') or went ('remove'). `cause`: this event's id, unique in the tree."""
        self._write("consumer", op, kind=kind, destination=destination, cause=cause, origin=self._node)

    def write_advisories(self, peer: str, direction: str, advices: Iterable[Advice]) -> None:
        """This node received advisories from `peer`; `direction` 'up' (from a child), 'down' or 'mesh'."""
        at = iso_time(self._clock())
        for advice in advices:
            self._write(
                "advisory",
                advice.op,
                at=at,
                kind=str(advice.kind),
                destination=advice.name,
                peer=peer,
                direction=direction,
                cause=advice.cause or None,
                origin=advice.origin or None,
                bytes=len(_advice_encoder.encode(advice)),
            )

    def write_link(self, op: str, peer: str, direction: str) -> None:
        """A link went 'up', 'down' or is 'blocked'. `direction` as for what is received on it."""
        self._write("link", op, peer=peer, direction=direction)

    def write_node(self, op: str) -> None:
        """This node starts ('start') or stops ('stop')."""
        self._write("node", op)

    def _write(self, event: str, op: str, *, at: str = "", **columns: Any) -> None:
        """`columns`: those that this event has, beside those that all have."""
        self._seq += 1
        row = LogRow(
            event=event,
            at=at or iso_time(self._clock()),
            tree=self._tree,
            node=self._node,
            role=self._role,
            depth=self._depth,
            region=self._region,
            op=op,
            series=self._series,
            seq=self._seq,
            **columns,
        )
        self._append(row)

    def _append(self, row: LogRow) -> None:
        try:
            line = _encoder.encode(row)
        except UnicodeEncodeError:
            self.dropped += 1
            return
        self._buffer += line
        self._buffer += b"\n"
        self._rows += 1
        if len(self._buffer) >= _BUFFER_BYTES or self._closed:
            self.flush()
        elif not self._scheduled:
            self._schedule()

    def _schedule(self) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        self._scheduled = True
        loop.call_soon(self._turn_ends)

    def _turn_ends(self) -> None:
        self._scheduled = False
        self.flush()

    def flush(self) -> None:
        """Write what has gathered. Never raises for the disk's sake, and never waits for it to be synced."""
        if not self._buffer:
            return
        if not self._closed and self._files.write(self._buffer):
            self.written += self._rows
        else:
            self.dropped += self._rows
        self._buffer.clear()
        self._rows = 0
        self._say()

    def _say(self) -> None:
        """Once when rows cannot be written any more, and once when they can again."""
        error = self.last_error
        if error and not self._said:
            _log.warning("! the advisory log cannot be written: %s: its rows are dropped and counted", error)
        elif self._said and not error:
            _log.info(
                "+ the advisory log is written again, after %s dropped",
                counted(self.dropped, "row", "was", "were"),
            )
        self._said = error

    def close(self) -> None:
        """Write what has gathered and stop. A compression under way is left to the next start. Idempotent."""
        self.flush()
        self._closed = True
        self._files.close()

    def settle(self) -> None:
        """Wait until finished files are compressed. For tools and tests."""
        self._files.settle()


def read_log(directory: Path | str, node: str = "") -> Iterator[LogRow]:
    """Yield the rows of all logs in a directory, or one node's: node by node, oldest first.

    A last line without an end is one that is being written, and is left out. Raises `LogError` on any other
    line that is no row. Columns that are not known are ignored.
    """
    directory = Path(directory)
    names = [node] if node else sorted({name for name, _, _ in log_files(directory)})
    for name in names:
        finished = finished_files(directory, name)
        for number in sorted(finished):
            yield from _read_file(finished[number])
        yield from _read_file(current_file(directory, name))


def _read_file(path: Path) -> Iterator[LogRow]:
    """Rows of one file; none if it was removed meanwhile, and from its compressed twin if it became that."""
    import gzip  # only who reads a log needs it

    for found in (path, path.with_name(path.name + ".gz")):
        opener = gzip.open if found.suffix == ".gz" else open
        try:
            with opener(found, "rb") as file:
                for place, line in enumerate(file, 1):
                    if line.endswith(b"\n"):
                        yield _row(found, place, line)
            return
        except FileNotFoundError:
            continue
        except (OSError, EOFError, zlib.error) as error:
            raise LogError(f"{found} cannot be read: {error}") from error


def _row(path: Path, place: int, line: bytes) -> LogRow:
    try:
        return _decoder.decode(line)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise LogError(f"{path}, line {place}: not a row of the advisory log: {error}") from None
