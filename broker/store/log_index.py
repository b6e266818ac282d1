"""Whether the write-ahead log is as long as it was when a kill left it.

SQLite reads a log up to the first frame that is not whole, and takes the rest for commits that never ended.
So it opens an older state without a word where a log was cut short. Where the log had been copied into the
database, it even lets the older pages hide the newer ones. The index of the log (`node.db-shm`) outlives a
kill as the log does, and says how many frames had been committed.

Law: no false alarm. SQLite syncs a commit before its index says so. An index that belongs to another log (by
its salts), was not written as a whole, or changes while the log is read, says nothing.

Wrinkle: opening the database makes the index anew from what is left, so this is asked before. The formats are
those of https://www.sqlite.org/walformat.html.
"""

import struct
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

_WORD: Final = 0xFFFFFFFF
_INDEX_BYTES: Final = 100
_COPY_BYTES: Final = 48
_HEADER_BYTES: Final = 32
_SUMMED_BYTES: Final = 24
_FRAME_HEADER: Final = struct.Struct(">II8sII")
_MAGIC: Final = 0x377F0682


class ShortLog(NamedTuple):
    """`committed` frames were in the log. `whole` of them are left, `copied` of them are in the database."""

    committed: int
    whole: int
    copied: int

    @property
    def lost(self) -> int:
        """Frames that are nowhere."""
        return self.committed - max(self.whole, self.copied)

    def __str__(self) -> str:
        return f"of {self.committed} pages that were committed to it {self.whole} are left"


class _LogIndex(NamedTuple):
    """As SQLite's writer left it; `salts` name the log that it belongs to."""

    committed: int
    copied: int
    salts: bytes


def cut(path: Path) -> ShortLog | None:
    """How the log of the database at `path` is shorter than it was; None if it is not, or nothing says so.

    Only before anything in this process has the database open.
    """
    index = _index(path)
    if index is None:
        return None
    try:
        with path.with_name(path.name + "-wal").open("rb") as log:
            whole = _whole(log, index)
    except FileNotFoundError:
        return None
    if whole is None or whole >= index.committed or _index(path) != index:
        return None
    return ShortLog(index.committed, whole, min(index.copied, index.committed))


def _index(path: Path) -> _LogIndex | None:
    try:
        with path.with_name(path.name + "-shm").open("rb") as file:
            data = file.read(_INDEX_BYTES)
    except FileNotFoundError:
        return None
    if len(data) < _INDEX_BYTES or data[:_COPY_BYTES] != data[_COPY_BYTES : 2 * _COPY_BYTES]:
        return None
    (committed,) = struct.unpack_from("=I", data, 16)
    (copied,) = struct.unpack_from("=I", data, 2 * _COPY_BYTES)
    return _LogIndex(committed, copied, data[32:40])


def _whole(log: BinaryIO, index: _LogIndex) -> int | None:
    """The frames up to the last whole commit, as SQLite finds them; None if it is another log."""
    header = log.read(_HEADER_BYTES)
    if len(header) < _HEADER_BYTES or header[16:24] != index.salts:
        return None
    magic, _, page_bytes = struct.unpack_from(">III", header)
    words = struct.Struct("<II" if magic == _MAGIC else ">II")
    sums = _summed(words, header[:_SUMMED_BYTES], (0, 0))
    whole = 0
    if sums != struct.unpack_from(">II", header, _SUMMED_BYTES):
        return whole
    for number in range(1, index.committed + 1):
        frame = log.read(_FRAME_HEADER.size + page_bytes)
        if len(frame) < _FRAME_HEADER.size + page_bytes:
            break
        _, pages_after_commit, salts, *said = _FRAME_HEADER.unpack_from(frame)
        sums = _summed(words, frame[_FRAME_HEADER.size :], _summed(words, frame[:8], sums))
        if salts != index.salts or sums != tuple(said):
            break
        if pages_after_commit:
            whole = number
    return whole


def _summed(words: struct.Struct, data: bytes, sums: tuple[int, int]) -> tuple[int, int]:
    first, second = sums
    for one, two in words.iter_unpack(data):
        first = (first + one + second) & _WORD
        second = (second + two + first) & _WORD
    return first, second
