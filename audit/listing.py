"""Which files there are to read: on this machine, or wherever Spark's file systems reach.

A folder is read with all below it, and below folders that links there lead to. Logs are known by their names:
`.jsonl`, `.ndjson`, `.json`, each also with `.gz`, and `.parquet`; a file that is named itself is read
whatever it is called. One that is packed otherwise (`.jsonl.zst`) is named as left out. Names that begin with
a dot or an underscore are nobody's log, `summary.json` is what a simulation wrote beside its log, and a
folder with a file `RESULTS` is what an audit wrote. What is left aside is told, never forgotten.
`….usage.jsonl` and `….usage-DATE.jsonl` are the use of routes, which nodes write beside their logs.
"""

import errno
import gzip
import os
import re
import stat
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit

from audit.errors import AuditError, UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LINES: Final = (".jsonl", ".ndjson", ".json")
_UNQUOTED: Final = "/:@,;$&+=-_!.~'()*"
_USAGE: Final = re.compile(r".+\.usage(-[0-9]{8})?\.jsonl(\.gz)?")
TWIN: Final = "left out: holds the same as "
"""How the fault begins of a file that is there twice."""
_SUMMARY: Final = "summary.json"
RESULTS: Final = ".sapwood-results"
"""The empty file by which an audit knows its own folders, should they lie among logs."""
_FOUND: Final = "lost+found"
"""The system's own folder on a disk, which nobody else may read."""
PARQUET: Final = "parquet"
JSON_LINES: Final = "lines"
OTHERWISE: Final = "packed"
"""Of a log that is packed in a way that is not read here: it is named, so that nobody takes it for read."""
_OTHERWISE: Final = re.compile(r".+\.(jsonl|ndjson|json)\.(zst|xz|bz2|lz4|lzma|zip|7z|br|Z)")
PACKED: Final = 20
"""About how many times larger than a packed log its lines of JSON are."""
EMPTY: Final = 1024
"""Bytes that a packed log of nothing takes at most: its header with a name."""


@dataclass(frozen=True, slots=True)
class LogFile:
    """One file. `path`: a URL, not quoted. `told_bytes`: of a gzip file, what its end says that it holds,
    modulo 2**32; None where it is none, or too short to say. 0 only of one that was found to hold nothing."""

    path: str
    bytes: int
    format: str
    told_bytes: int | None = None

    @property
    def uri(self) -> str:
        """The path as Spark's metadata spell it, with one slash after `file:`."""
        quoted = "".join(quote(one, safe=_UNQUOTED) if one.isascii() else one for one in self.path)
        return re.sub("^file:/+", "file:/", quoted)

    @property
    def packed(self) -> bool:
        return self.format == PARQUET or self.path.endswith(".gz")

    @property
    def pattern(self) -> str:
        """The path as Spark takes it: no character in it stands for others."""
        return re.sub(r"([\[\]{}*?\\])", r"\\\1", self.path)


@dataclass(frozen=True, slots=True)
class Listing:
    """The files to read, and the names of those left aside. `usage`: files that count the use of routes."""

    files: tuple[LogFile, ...]
    ignored: tuple[str, ...]
    usage: tuple[LogFile, ...] = ()

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    @property
    def unpacked(self) -> int:
        """About how many bytes they are as lines of JSON."""
        return sum(file.bytes * (PACKED if file.packed else 1) for file in self.files)


def still_there(listing: Sequence[LogFile]) -> list[str]:
    """The patterns of the files, but of those of this machine that were rotated away since they were listed:
    Spark refuses all if one is not there. Raises `UsageError` if none is."""
    paths = ((file, file.path.removeprefix("file://")) for file in listing)
    found = [file.pattern for file, path in paths if path == file.path or os.path.exists(path)]
    if not found:
        raise UsageError("all logs were taken away while they were looked through")
    return found


def refuse_changed(listing: Listing, now: Listing) -> None:
    """Raises `AuditError` where Parquet has gone, or was written anew, since `listing`: each pass reads it
    again, and Spark leaves out what has gone without a word. Lines of JSON were read once."""
    there = set(now.files)
    changed = [file.path for file in listing.files if file.format == PARQUET and file not in there]
    if changed:
        raise AuditError(
            f"{changed[0]}: taken away or written anew while it was read, so some tables would lack its rows:"
            " audit again, or a copy of the logs"
        )


def results(folder: Path) -> Path:
    """Make a folder for what an audit writes, which is never taken for logs, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / RESULTS).touch()
    return folder


def is_local(path: str) -> bool:
    return urlsplit(path).scheme in ("", "file") or os.path.exists(path)


def refuse_missing(path: str, expected: str) -> None:
    """Raises `UsageError` where a path of this machine leads to nothing."""
    if "://" not in path and not path.startswith("file:") and not Path(path).exists():
        raise UsageError(f"{path}: there is no such file: expected {expected}")


def list_local(paths: list[str], unreadable: dict[str, str] | None = None) -> Listing:
    """List files and folders of this machine. Raises `UsageError` for one that is not there, or cannot be
    read; with `unreadable` such a one is set aside there, by its path with the reason."""
    files: dict[str, LogFile] = {}
    usage: dict[str, LogFile] = {}
    ignored: list[str] = []

    def refuse(error: OSError, path: Path) -> None:
        text = f"cannot be read: {error.strerror or error}"
        if unreadable is None:
            raise UsageError(f"{path}: {text}") from None
        unreadable[str(path)] = text

    for given in paths:
        top = Path(urlsplit(given).path if given.startswith("file:") else given).absolute()
        if not top.exists():
            raise UsageError(f"{given}: there is no such file or folder: expected advisory logs")
        for path in [top] if top.is_file() else _walk(top, refuse):
            kind = format_of(path.name)
            if is_usage(path.name) or kind or path == top:
                try:
                    found = _local_file(path, kind or JSON_LINES)
                except FileNotFoundError:  # a link to what is not there, or rotated just now
                    ignored.append(str(path))
                    continue
                except OSError as error:
                    refuse(error, path)
                    continue
                (usage if is_usage(path.name) else files)[str(path)] = found
            elif not path.name.endswith(".crc") and path.name != "_SUCCESS":
                ignored.append(str(path))
    logs, used = (tuple(found[name] for name in sorted(found)) for found in (files, usage))
    return Listing(logs, tuple(sorted(ignored)), used)


def list_remote(spark: "SparkSession", paths: list[str]) -> Listing:
    """List files of other file systems (hdfs://, s3a://, …) through Spark."""
    files: list[LogFile] = []
    usage: list[LogFile] = []
    ignored: list[str] = []
    for given in paths:
        for path, size in _remote(spark, given):
            name = path.rsplit("/", 1)[-1]
            kind = format_of(name) or (JSON_LINES if path.rstrip("/") == given.rstrip("/") else "")
            if is_usage(name):
                usage.append(LogFile(path, size, JSON_LINES))
            elif kind:
                files.append(LogFile(path, size, kind))
            elif not name.startswith((".", "_")):
                ignored.append(path)
    return Listing(tuple(sorted(files, key=lambda file: file.path)), tuple(sorted(ignored)), tuple(usage))


def list_all(spark: "SparkSession | None", paths: list[str]) -> Listing:
    """List `paths`, wherever they are. Without a session only those of this machine, for their size."""
    near = list_local([_straight(path) for path in paths if is_local(path)])
    far = [path for path in paths if not is_local(path)]
    if not far or spark is None:
        return near
    there = list_remote(spark, far)
    return Listing(near.files + there.files, near.ignored + there.ignored, near.usage + there.usage)


def _straight(path: str) -> str:
    """A path of this machine without `..`: Spark's metadata have none, and its rows are found by these."""
    local = Path(urlsplit(path).path if path.startswith("file:") else path)
    return str(local.resolve()) if ".." in local.parts else path


def is_usage(name: str) -> bool:
    """Is a file of that name the use of routes, and no log?"""
    return _USAGE.fullmatch(name) is not None


def format_of(name: str) -> str:
    """How a file of that name is read; '' if it is nobody's log."""
    if name.startswith((".", "_")) or name == _SUMMARY or is_usage(name):
        return ""
    if name.endswith(".parquet"):
        return PARQUET
    if _OTHERWISE.fullmatch(name):
        return OTHERWISE
    return JSON_LINES if name.removesuffix(".gz").endswith(LINES) else ""


def partitions(path: str) -> tuple[str, ...]:
    """The folder above all `name=value` folders of a path, and their names; nothing if it has none."""
    folder = path.rsplit("/", 1)[0]
    names: list[str] = []
    while "=" in folder.rsplit("/", 1)[-1]:
        folder, last = folder.rsplit("/", 1)
        names.append(last.split("=", 1)[0])
    return (folder, *reversed(names)) if names else ()


def _walk(top: Path, refuse: Callable[[OSError, Path], None]) -> Iterator[Path]:
    """All files below a folder, and below folders that links there lead to, each once. `refuse`: is told of a
    folder that cannot be read.

    Wrinkle: one that lies below `top` itself is read where it lies, whatever else leads to it.
    """
    home, seen = os.path.realpath(top), set[tuple[int, int]]()

    def wanted(path: str, name: str) -> bool:
        if name.startswith((".", "_")) or name == _FOUND:
            return False
        return not os.path.islink(path) or os.path.commonpath([home, os.path.realpath(path)]) != home

    def failed(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):  # removed just now
            refuse(error, Path(error.filename))

    for folder, folders, names in os.walk(top, onerror=failed, followlinks=True):
        if RESULTS in names:
            folders.clear()
            names = [RESULTS]
        folders[:] = sorted(one for one in folders if wanted(os.path.join(folder, one), one))
        try:
            place = os.stat(folder)
        except OSError as error:
            failed(error)
            folders.clear()
            continue
        if (place.st_dev, place.st_ino) in seen:
            folders.clear()
            continue
        seen.add((place.st_dev, place.st_ino))
        yield from (Path(folder, name) for name in sorted(names))


def _local_file(path: Path, kind: str) -> LogFile:
    """Raises `OSError` for one that cannot be read."""
    told = None
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise OSError("expected a file: a pipe has no size, and may never end")
    if not os.access(path, os.R_OK) and path.exists():
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    size = status.st_size
    if path.suffix == ".gz" and size >= 18:  # the least that header and end of a gzip file take
        with path.open("rb") as file:
            file.seek(-4, os.SEEK_END)
            (told,) = struct.unpack("<I", file.read(4))
    if told == 0 and not (size <= EMPTY and _packs_nothing(path.read_bytes())):
        told = None
    return LogFile(f"file://{path}", size, kind, told)


def _packs_nothing(data: bytes) -> bool:
    """Is it a whole gzip file of an empty log? Wrinkle: one whose end is zeros, as after a power cut, says so
    too."""
    try:
        return gzip.decompress(data) == b""
    except (gzip.BadGzipFile, EOFError, zlib.error):
        return False


def _remote(spark: "SparkSession", given: str) -> Iterator[tuple[str, int]]:
    jvm: Any = spark.sparkContext._jvm  # Spark's Python has no listing of its own
    place = jvm.org.apache.hadoop.fs.Path(given)
    system = place.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
    if not system.exists(place):
        raise UsageError(f"{given}: there is no such file or folder: expected advisory logs")
    found = system.listFiles(place, True)
    while found.hasNext():
        status = found.next()
        yield status.getPath().toString(), status.getLen()
