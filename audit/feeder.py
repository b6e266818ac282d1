"""Cuts logs that grow into pieces that do not: what Spark's file source needs, which reads a file once.

`feed` looks through a folder of logs and copies every whole line that is new into a piece, a small file in
the `pieces` folder that appears at once and never changes. How far each log was read stands in
`offsets.json`, written after the pieces, and these are on disk by then: after a power cut none is missing.

Law: pieces are named by log and offset, so a feed that is repeated after a crash makes the same names, and
Spark, which remembers names, reads none twice. A finished log that is compressed later is known by its first
line: it is not read again.

Law: a piece may go once it is read for good, and `offsets.json` goes past it.

Law: what cannot be followed is told, never passed over, and holds up nothing else: a log that cannot be
opened is tried again each time; a packed log that is cut is read as far as it goes, and further once there is
more; Parquet, which does not grow, and what is packed otherwise than with gzip are named; of a line longer
than a piece the beginning is left out, so that its end is a broken line like others.

Wrinkle: a log is known by its folder and the beginning of its first line, not by its name, because names
rotate. A log that looks as it did is not opened again. How far one was read that has gone is kept for
`REMEMBERED` days: a share may come back.
"""

import hashlib
import json
import os
import time
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from audit.listing import JSON_LINES, OTHERWISE, PARQUET, Listing, list_local, results

PIECE: Final = 8 * 1024 * 1024
REMEMBERED: Final = 30
"""Days that a log may be away and is still known when it comes back; Spark knows a piece for seven."""
_A_DAY: Final = 86_400
_HEAD: Final = 64 * 1024
_PACKED: Final = 1024 * 1024
_NOT_FOLLOWED: Final = {
    PARQUET: "Parquet is not followed, only lines of JSON: audit it by itself",
    OTHERWISE: "it is packed otherwise than with gzip: expected .jsonl or .jsonl.gz",
}


class _LogLook(NamedTuple):
    """How a log looked when it was read, and the name by which it is known; '' while it has no whole line."""

    status: tuple[int, int, int]
    name: str


class Feeder:
    """Feeds pieces of the logs below `source`. `faults` names logs that could not be read, and why."""

    def __init__(self, source: Path, state: Path) -> None:
        self._source = source
        self.pieces = state / "pieces"
        self._offsets_file = state / "offsets.json"
        results(state)
        self.pieces.mkdir(exist_ok=True)
        self.faults: dict[str, str] = {}
        self._offsets: dict[str, int] = {}
        self._seen: dict[str, int] = {}  # the day on which a log was there last
        self._looks: dict[Path, _LogLook] = {}
        self._written: list[Path] = []
        self._load()
        self._saved = dict(self._offsets)

    def __repr__(self) -> str:
        return f"<Feeder {self._source} logs={len(self._offsets)}>"

    def _load(self) -> None:
        """Wrinkle: earlier versions kept no days; their logs count as there today."""
        if self._offsets_file.exists():
            for name, cell in json.loads(self._offsets_file.read_text("utf-8")).items():
                if isinstance(cell, list):
                    self._offsets[name], self._seen[name] = cell
                else:
                    self._offsets[name] = cell

    def feed(self) -> int:
        """Make pieces of all that is new; return how many bytes of lines that was."""
        before, seen = dict(self._offsets), dict(self._seen)
        total = 0
        logs = list(self._logs())
        for path in logs:
            try:
                total += self._feed_log(path)
            except FileNotFoundError:  # rotated just now: it is there by its new name
                continue
            except OSError as error:
                self.faults[str(path)] = str(error)
        self._looks = {path: self._looks[path] for path in logs if path in self._looks}
        self._forget_logs()
        self._publish()
        if self._offsets != before or self._seen != seen:
            self._save()
        return total

    def _forget_logs(self) -> None:
        """Note which logs are there today; forget those that have been away for long.

        Wrinkle: where none is there at all, it is the folder that has gone.
        """
        today = _today()
        there = {look.name for look in self._looks.values()} & self._offsets.keys()
        self._seen.update(dict.fromkeys(there, today))
        gone = [name for name in self._offsets if self._seen.setdefault(name, today) < today - REMEMBERED]
        for name in gone if there else ():
            del self._offsets[name], self._seen[name]

    def _save(self) -> None:
        kept = {name: [read, self._seen[name]] for name, read in self._offsets.items()}
        part = self._offsets_file.with_suffix(".part")
        part.write_text(json.dumps(kept), "utf-8")
        _sync(part)
        os.replace(part, self._offsets_file)
        self._saved = dict(self._offsets)

    def _publish(self) -> None:
        """Let new pieces appear, whole and on disk. All together: the first waits for the disk, the others
        find all done.
        """
        written, self._written = self._written, []
        for piece in written:
            _sync(_part(piece))
        for piece in written:
            os.replace(_part(piece), piece)
        if written:
            _sync(self.pieces)

    def forget(self, names: Iterable[str]) -> None:
        """Delete pieces that nobody needs any more, but of what is not known yet to have been fed: after a
        crash such a piece says how much of its log was."""
        for name in names:
            log, _, place = name.removesuffix(".jsonl").rpartition("-")
            if self._saved.get(log, 0) > int(place):
                (self.pieces / name).unlink(missing_ok=True)

    def _logs(self) -> Iterator[Path]:
        unreadable: dict[str, str] = {}
        listing: Listing = list_local([str(self._source)], unreadable)
        readable = {path for path in self.faults if path not in unreadable and os.path.isdir(path)}
        self.faults = {path: why for path, why in self.faults.items() if path not in readable} | unreadable
        for file in listing.files:
            path = Path(file.path.removeprefix("file://"))
            if file.format == JSON_LINES:
                yield path
            else:
                self.faults[str(path)] = _NOT_FOLLOWED[file.format]

    def _feed_log(self, path: Path) -> int:
        status = path.stat()
        now = (status.st_ino, status.st_size, status.st_mtime_ns)
        if path in self._looks and self._looks[path].status == now:
            return 0
        self.faults.pop(str(path), None)
        fed, name = 0, ""
        try:
            head = _head(path)
            if head:
                name = hashlib.sha256(os.fsencode(path.parent) + b"\n" + head).hexdigest()[:24]
                for data in self._new(path, name):
                    fed += self._cut(path, name, data)
        except (EOFError, zlib.error) as error:
            self.faults[str(path)] = f"cut or damaged: followed as far as it goes ({error})"
        self._looks[path] = _LogLook(now, name)
        return fed

    def _new(self, path: Path, name: str) -> Iterator[bytes]:
        """What is after the offset, each time with all that the offset has not gone past."""
        place = self._offsets.get(name, 0)
        rest = b""
        for chunk in _chunks(path, place):
            rest += chunk
            done = -1
            while done:
                yield rest
                done = self._offsets.get(name, 0) - place
                place, rest = place + done, rest[done:]

    def _cut(self, path: Path, name: str, data: bytes) -> int:
        """Make a piece of the whole lines in `data`. Returns how many bytes are done with.

        Wrinkle: a piece that is there already was made, and read, before a crash. The log may have grown. An
        empty one is what a power cut left of it.
        """
        place = self._offsets.get(name, 0)
        lines = data[: data.rfind(b"\n") + 1]
        piece = self.pieces / f"{name}-{place:015}.jsonl"
        if lines and piece.exists() and (made := piece.stat().st_size):
            lines = lines[:made]
        elif lines:
            _part(piece).write_bytes(lines)
            self._written.append(piece)
        elif len(data) >= PIECE:
            lines = data
            self.faults[str(path)] = f"a line of more than {PIECE:,} bytes: its beginning is left out"
        self._offsets[name] = place + len(lines)
        return len(lines)


def _today() -> int:
    return int(time.time() // _A_DAY)


def _part(piece: Path) -> Path:
    return piece.with_name(f".{piece.name}.part")


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _head(path: Path) -> bytes:
    """The first line, or as much of it as names a log; nothing while it is not whole."""
    head = b""
    for chunk in _chunks(path, 0):
        head += chunk
        if b"\n" in head or len(head) >= _HEAD:
            return head[: head.find(b"\n") + 1 or None][:_HEAD]
    return b""


def _chunks(path: Path, start: int) -> Iterator[bytes]:
    """What a log holds from `start` on, unpacked. Raises `EOFError` where it is cut."""
    with path.open("rb") as log:
        if path.suffix != ".gz":
            log.seek(start)
            while chunk := log.read(PIECE):
                yield chunk
            return
        for chunk in _unpacked(log):
            yield chunk[start:]
            start = max(0, start - len(chunk))


def _unpacked(log: BinaryIO) -> Iterator[bytes]:
    """What a gzip file holds, of one part or several, as far as it goes. Raises `EOFError` if it is cut."""
    unpack = None
    while packed := log.read(_PACKED):
        while packed:
            unpack = unpack or zlib.decompressobj(wbits=31)
            yield unpack.decompress(packed, PIECE)
            packed = unpack.unconsumed_tail
            if unpack.eof:
                packed, unpack = unpack.unused_data, None
    if unpack is not None:
        raise EOFError("its end is missing")
