"""Cuts logs that grow into pieces that do not: what Spark's file source needs, which reads a file once.

`feed` looks through a folder of logs and copies every whole line that is new into a piece, a small file in
the `pieces` folder that appears at once and never changes. How far each log was read stands in
`offsets.json`, written after the pieces.

Law: pieces are named by log and offset, so a feed that is repeated after a crash makes the same names, and
Spark, which remembers names, reads none twice. A finished log that is compressed later is known by its first
line: it is not read again.

Wrinkle: a log is known by its folder and its first line, not by its name, because names rotate.
"""

import gzip
import hashlib
import json
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from audit.listing import JSON_LINES, Listing, list_local

PIECE: Final = 8 * 1024 * 1024
_HEAD: Final = 64 * 1024


class Feeder:
    """Feeds pieces of the logs below `source`. `faults` names logs that could not be read, and why."""

    def __init__(self, source: Path, state: Path) -> None:
        self._source = source
        self.pieces = state / "pieces"
        self._offsets_file = state / "offsets.json"
        self.pieces.mkdir(parents=True, exist_ok=True)
        self.faults: dict[str, str] = {}
        self._offsets: dict[str, int] = {}
        if self._offsets_file.exists():
            self._offsets = json.loads(self._offsets_file.read_text("utf-8"))

    def __repr__(self) -> str:
        return f"<Feeder {self._source} logs={len(self._offsets)}>"

    def feed(self) -> int:
        """Make pieces of all that is new; return how many bytes of lines that was."""
        before = dict(self._offsets)
        total = 0
        for path in self._logs():
            try:
                total += self._feed_log(path)
                self.faults.pop(str(path), None)
            except (OSError, EOFError, zlib.error) as error:
                self.faults[str(path)] = str(error)
        if self._offsets != before:
            part = self._offsets_file.with_suffix(".part")
            part.write_text(json.dumps(self._offsets), "utf-8")
            os.replace(part, self._offsets_file)
        return total

    def _logs(self) -> Iterator[Path]:
        listing: Listing = list_local([str(self._source)])
        for file in listing.files:
            if file.format == JSON_LINES:
                yield Path(file.path.removeprefix("file://"))

    def _feed_log(self, path: Path) -> int:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as log:
            head = log.readline(_HEAD)
            if not head.endswith(b"\n"):
                return 0
            name = hashlib.sha256(os.fsencode(path.parent) + b"\n" + head).hexdigest()[:24]
            log.seek(self._offsets.get(name, 0))
            fed = 0
            while piece := _whole_lines(log.read(PIECE)):
                start = self._offsets.get(name, 0)
                self._write(f"{name}-{start:015}.jsonl", piece)
                self._offsets[name] = start + len(piece)
                log.seek(self._offsets[name])
                fed += len(piece)
            return fed

    def _write(self, name: str, piece: bytes) -> None:
        part = self.pieces / f".{name}.part"
        part.write_bytes(piece)
        os.replace(part, self.pieces / name)


def _whole_lines(data: bytes) -> bytes:
    return data[: data.rfind(b"\n") + 1]
