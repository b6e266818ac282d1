"""The files of an advisory log: appended to, begun anew by size, compressed aside, the oldest removed.

In a directory that several nodes may share: `NODE.advisories.jsonl` is being written,
`NODE.advisories-000001.jsonl` is finished, `….jsonl.gz` is finished and compressed. What begins with a dot
is half made; Spark ignores it, and so does everything here.
"""

import logging
import os
import re
import threading
import zlib
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from broker.threads import Threads

_log = logging.getLogger("sapwood.advisories")
_CHUNK: Final = 256 * 1024
_MODE: Final = 0o640
_AS_GZIP: Final = zlib.MAX_WBITS + 16
_NAME: Final = re.compile(
    r"(?P<node>.+)\.advisories(-(?P<number>[0-9]{6,}))?\.jsonl(?P<gzip>\.gz)?", re.DOTALL
)


class LogFiles:
    """The files of one node's log: appends, begins new ones, compresses and removes old ones."""

    def __init__(self, directory: Path, node: str, max_bytes: int, max_files: int, compress: bool) -> None:
        self.path = current_file(directory, node)
        self.error = ""
        self._directory, self._node = directory, node
        self._max_bytes, self._max_files = max_bytes, max_files
        self._compressor = _Compressor() if compress else None
        self._descriptor = -1
        self._size = 0
        self._number = 0
        try:
            self._begin()
        except OSError as error:
            self.error = f"{self.path}: {error.strerror or error}"

    def _begin(self) -> None:
        """Open the current file, having removed what a crash left half made."""
        self._directory.mkdir(parents=True, exist_ok=True)
        for part in self._directory.glob(f".{self._node}.advisories-*.part"):
            part.unlink(missing_ok=True)
        finished = finished_files(self._directory, self._node)
        self._number = max(finished, default=0)
        _cut_torn_line(self.path)
        self._open()
        for path in finished.values():
            if path.suffix == ".gz":
                path.with_suffix("").unlink(missing_ok=True)
            elif self._compressor is not None:
                self._compressor.add(path)

    def _open(self) -> None:
        self._descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, _MODE)
        self._size = os.fstat(self._descriptor).st_size

    def write(self, lines: bytearray) -> bool:
        """Append whole lines, all or none. False if that failed: `error` says why."""
        try:
            if not self._is_open():
                self._begin()
            self._append(lines)
        except OSError as error:
            self.error = f"{self.path}: {error.strerror or error}"
            return False
        self.error = ""
        if self._size >= self._max_bytes:
            self._try_to_rotate()
        return True

    def _is_open(self) -> bool:
        """Is what is open the file of that name? Somebody may have removed, moved or emptied it."""
        if self._descriptor < 0:
            return False
        try:
            named, opened = self.path.stat(), os.fstat(self._descriptor)
        except (FileNotFoundError, NotADirectoryError):
            named = None
        if named is not None and os.path.samestat(named, opened):
            self._size = opened.st_size
            return True
        _log.warning("! %s was removed or moved: the advisory log begins it anew", self.path)
        self.close_file()
        return False

    def _try_to_rotate(self) -> None:
        try:
            self._rotate()
        except OSError as error:
            self.error = f"{self.path}: {error.strerror or error}"

    def _append(self, lines: bytearray) -> None:
        try:
            written = os.write(self._descriptor, lines)
            while written < len(lines):
                written += os.write(self._descriptor, memoryview(lines)[written:])
        except OSError:
            os.ftruncate(self._descriptor, self._size)
            raise
        self._size += len(lines)

    def _rotate(self) -> None:
        self.close_file()
        self._number += 1
        finished = self.path.with_name(f"{self._node}.advisories-{self._number:06d}.jsonl")
        self.path.rename(finished)
        if self._compressor is not None:
            self._compressor.add(finished)
        self._remove_oldest()
        self._open()

    def _remove_oldest(self) -> None:
        finished = finished_files(self._directory, self._node)
        for number in sorted(finished)[: max(len(finished) + 1 - self._max_files, 0)]:
            for ending in ("", ".gz"):
                path = self._directory / f"{self._node}.advisories-{number:06d}.jsonl{ending}"
                path.unlink(missing_ok=True)

    def last_line(self) -> bytes:
        """The line that was written last; nothing where there is none, or it cannot be read."""
        try:
            finished = finished_files(self._directory, self._node)
            newest = [finished[number] for number in sorted(finished)[-1:]]
            return next(filter(None, map(_last_line, [self.path, *newest])), b"")
        except (OSError, EOFError, zlib.error):
            return b""

    def close_file(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def close(self) -> None:
        self.close_file()
        if self._compressor is not None:
            self._compressor.stop()

    def settle(self) -> None:
        if self._compressor is not None:
            self._compressor.settle()


class _Compressor:
    """Compresses finished files one after another, in a thread of its own."""

    def __init__(self) -> None:
        self._thread = Threads("sapwood-advisory-log")
        self._stopping = threading.Event()

    def add(self, path: Path) -> None:
        """Compress this file soon."""
        if not self._stopping.is_set():
            self._thread.submit(self._compress, path)

    def _compress(self, path: Path) -> None:
        """All or nothing: the compressed file gets its name when it is whole and on disk."""
        if self._stopping.is_set():  # the next start finds it
            return
        part = path.with_name(f".{path.name}.part")
        try:
            if self._copy(path, part):
                whole = part.rename(path.with_name(path.name + ".gz"))
                # Whoever removes the oldest may have looked for it before it had that name.
                if not path.exists():
                    whole.unlink(missing_ok=True)
                path.unlink(missing_ok=True)
        except OSError:
            pass
        finally:
            part.unlink(missing_ok=True)

    def _copy(self, path: Path, part: Path) -> bool:
        with path.open("rb") as source, part.open("wb") as target:
            packer = zlib.compressobj(wbits=_AS_GZIP)
            while chunk := source.read(_CHUNK):
                if self._stopping.is_set():
                    return False
                target.write(packer.compress(chunk))
            target.write(packer.flush())
            target.flush()
            os.fsync(target.fileno())
        return path.exists()

    def settle(self) -> None:
        """Return when all that was added is compressed."""
        self._thread.submit(int).result()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.shutdown()


def current_file(directory: Path, node: str) -> Path:
    return directory / f"{node}.advisories.jsonl"


def finished_files(directory: Path, node: str) -> dict[int, Path]:
    """A node's finished files by number; the compressed one where a crash left both."""
    found: dict[int, Path] = {}
    for name, number, path in log_files(directory):
        if name == node and number and (number not in found or path.suffix == ".gz"):
            found[number] = path
    return found


def log_files(directory: Path) -> Iterator[tuple[str, int, Path]]:
    """(node, number, path) of all files of logs in a directory; number 0 is the one being written."""
    for path in directory.iterdir():
        match = _NAME.fullmatch(path.name)
        if match is not None and not path.name.startswith("."):
            yield match["node"], int(match["number"] or 0), path


def _last_line(path: Path) -> bytes:
    """Of what is packed all is read, which happens only where a node ended just after it began a new file."""
    with path.open("rb") as file:
        if path.suffix == ".gz":
            import gzip  # hardly any node needs it

            with gzip.open(file) as unpacked:
                lines = deque(unpacked, maxlen=1)
        else:
            file.seek(max(file.seek(0, os.SEEK_END) - _CHUNK, 0))
            lines = deque(file, maxlen=1)
    return lines.pop() if lines else b""


def _cut_torn_line(path: Path) -> None:
    """Make the file end with a whole line: cut what a crash left of its last one."""
    try:
        file = path.open("r+b")
    except FileNotFoundError:
        return
    with file:
        end = file.seek(0, os.SEEK_END)
        at = end
        while at > 0:
            begin = max(at - _CHUNK, 0)
            file.seek(begin)
            newline = file.read(at - begin).rfind(b"\n")
            if newline >= 0:
                at = begin + newline + 1
                break
            at = begin
        if at < end:
            file.truncate(at)
