"""The latest samples of some series, in a file that never grows: a ring for each step of time.

A *row* is one moment: when it was, and a number for each series, NaN where there was none. Rows of one step
stand in as many places as the ring has; a new row takes the place of the oldest. All are in memory too,
packed: who looks at them waits for no disk.

Law: each row has a checksum and a running number. One that was cut by a crash, or that the disk has spoilt,
is not there; the others are. So a write needs no fsync, and a killed process loses nothing.
Law: times are the wall clock's and may go back. Rows are found by number, never by time.
"""

import math
import os
import struct
import zlib
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

_HEAD: Final = 4096
_MODE: Final = 0o600
_LONGEST_STEP: Final = 1e6
_MOST_ROWS: Final = 100_000
_MOST_SERIES: Final = 256


class Level(msgspec.Struct, frozen=True):
    """A step of time in seconds, and how many rows of it are kept."""

    step: float
    rows: int

    @property
    def span(self) -> float:
        return self.step * self.rows


class Row(NamedTuple):
    """`at`: seconds since 1970; the row tells of the step that began then."""

    at: float
    values: tuple[float, ...]


class _Head(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: int
    names: list[str]
    levels: list[Level]


class Ring:
    """Of some series. Caller's duty: `load`, `add`, `close` one at a time, where one may wait for a disk."""

    def __init__(self, path: Path, names: Sequence[str], levels: Sequence[Level]) -> None:
        self._path = path
        self._head = _Head(1, list(names), list(levels))
        self._row = struct.Struct(f"<IId{len(names)}f")
        self._body = struct.Struct(f"<Id{len(names)}f")
        self._file = -1
        self._next = [0] * len(levels)
        self._rows = [deque[bytes](maxlen=level.rows) for level in levels]

    def __repr__(self) -> str:
        return f"<Ring {self._path} series={len(self._head.names)} rows={self._next}>"

    @property
    def levels(self) -> list[Level]:
        return self._head.levels

    def load(self) -> None:
        """Read what is there, or make the file. Does nothing the second time. Raises `OSError`."""
        if self._file >= 0:
            return
        if _head_of(self._path) != self._head:
            self._renew()
        self._file = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        for level, rows in enumerate(self._rows):
            found = self._read(level)
            rows.extend(found[number] for number in sorted(found))
            self._next[level] = max(found, default=-1) + 1

    def add(self, level: int, row: Row) -> None:
        """Keep a row. Raises `OSError`: it is not kept."""
        self.load()
        number = self._next[level]
        body = self._body.pack(number, row.at, *row.values)
        place = number % self.levels[level].rows
        os.pwrite(self._file, struct.pack("<I", zlib.crc32(body)) + body, self._start(level, place))
        self._next[level] = number + 1
        self._rows[level].append(body)

    def rows(self, level: int) -> list[Row]:
        """Those that are kept, in the order in which they came. For any thread."""
        return [self._unpacked(body) for body in list(self._rows[level])]

    def latest(self) -> Row | None:
        """The last row of the shortest step."""
        return self._unpacked(self._rows[0][-1]) if self._rows[0] else None

    def _unpacked(self, body: bytes) -> Row:
        _, at, *values = self._body.unpack(body)
        return Row(at, tuple(values))

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    # --- the file

    def _start(self, level: int, place: int) -> int:
        before = sum(each.rows for each in self.levels[:level])
        return _HEAD + (before + place) * self._row.size

    def _read(self, level: int) -> dict[int, bytes]:
        """Packed rows by their number."""
        rows = self.levels[level].rows
        data = os.pread(self._file, rows * self._row.size, self._start(level, 0))
        found = {}
        for start in range(0, len(data) - self._row.size + 1, self._row.size):
            part = data[start : start + self._row.size]
            check, number, at, *_ = self._row.unpack(part)
            is_whole = check == zlib.crc32(part[4:]) and math.isfinite(at)
            if is_whole and number % rows == start // self._row.size:
                found[number] = part[4:]
        return found

    def _renew(self) -> None:
        """Make the file. Rows of one that had other series or steps go on, by their names."""
        old = _rows_of(self._path)
        part = self._path.with_name(f".{self._path.name}.part")
        part.unlink(missing_ok=True)
        fresh = Ring(part, self._head.names, self.levels)
        size = self._start(len(self.levels), 0)
        fresh._file = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _MODE)
        try:
            os.posix_fallocate(fresh._file, 0, size)
            os.pwrite(fresh._file, msgspec.json.encode(self._head).ljust(_HEAD), 0)
            for level, each in enumerate(self.levels):
                for at, values in old.get(each.step, ())[-each.rows :]:
                    row = Row(at, tuple(values.get(name, math.nan) for name in self._head.names))
                    fresh.add(level, row)
        finally:
            fresh.close()
        os.replace(part, self._path)


def _head_of(path: Path) -> _Head | None:
    """The head of a file; None if it is not there, or is none of ours."""
    try:
        with path.open("rb") as file:
            head = msgspec.json.decode(file.read(_HEAD), type=_Head)
    except (FileNotFoundError, msgspec.MsgspecError, ValueError, RecursionError):
        return None
    levels = (0 < each.rows <= _MOST_ROWS and 0 < each.step < _LONGEST_STEP for each in head.levels)
    return head if head.format == 1 and len(head.names) <= _MOST_SERIES and all(levels) else None


def _rows_of(path: Path) -> dict[float, list[tuple[float, dict[str, float]]]]:
    """All rows of a file, by step: when, and the numbers by the names of their series."""
    head = _head_of(path)
    if head is None:
        return {}
    ring = Ring(path, head.names, head.levels)
    try:
        ring.load()
        return {
            each.step: [(row.at, dict(zip(head.names, row.values, strict=True))) for row in ring.rows(level)]
            for level, each in enumerate(head.levels)
        }
    finally:
        ring.close()
