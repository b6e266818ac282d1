"""How much memory the process may still take, where it has a limit: of a control group, or of its addresses.

A control group's limit kills without a word. So a node that comes near it takes no more messages of clients,
asks its neighbours to keep theirs, and has few strangers at a time, until memory is free again.

Law: near is an eighth of the limit, and 64 MiB at most. Files that are cached count as free: the kernel gives
them up before it kills.
Wrinkle: the limit of any group above counts too, and in a container only some of them can be seen.
"""

import math
import os
import resource
from pathlib import Path
from typing import Final, NamedTuple

_SHARE: Final = 8
_MOST: Final = 64 * 1024 * 1024
_NO_LIMIT: Final = 2**60  # version 1 writes a number near 2^63 for "none"


class _Files(NamedTuple):
    """Names of a version's files, and of the lines of its `memory.stat` that are cached files."""

    limit: str
    used: str
    cached: tuple[str, str]


_VERSION_2: Final = _Files("memory.max", "memory.current", ("inactive_file", "active_file"))
_VERSION_1: Final = _Files(
    "memory.limit_in_bytes", "memory.usage_in_bytes", ("total_inactive_file", "total_active_file")
)


class Headroom:
    """`groups`: where control groups are mounted. `process`: the folder of this process in `/proc`."""

    def __init__(self, groups: Path = Path("/sys/fs/cgroup"), process: Path = Path("/proc/self")) -> None:
        self._process = process
        self._limited = [
            (folder, files) for folder, files in _folders(groups, process) if (folder / files.limit).is_file()
        ]

    def __repr__(self) -> str:
        return f"<Headroom of {len(self._limited)} groups, {self.left()} bytes left>"

    @property
    def limit(self) -> float:
        """Bytes that the process may have in all; infinite without a limit."""
        limits = [_number(folder / files.limit) or math.inf for folder, files in self._limited]
        addresses = resource.getrlimit(resource.RLIMIT_AS)[0]
        return min(*limits, math.inf if addresses == resource.RLIM_INFINITY else addresses, math.inf)

    def left(self) -> float:
        """Bytes until the node takes no more; infinite without a limit. Limits may change at any time."""
        rooms = [_left_of_group(folder, files) for folder, files in self._limited]
        return min(*rooms, self._left_of_addresses(), math.inf)

    def _left_of_addresses(self) -> float:
        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit == resource.RLIM_INFINITY:
            return math.inf
        pages = _text(self._process / "statm").split()
        used = int(pages[0]) * os.sysconf("SC_PAGE_SIZE") if pages else 0
        return limit - used - _margin(limit)


def _folders(groups: Path, process: Path) -> list[tuple[Path, _Files]]:
    """Of the groups that the process is in, each with those above it."""
    found = []
    for line in _text(process / "cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            top, files = groups, _VERSION_2
        elif "memory" in controllers.split(","):
            top, files = groups / "memory", _VERSION_1
        else:
            continue
        own = top / path.lstrip("/")
        above = [folder for folder in own.parents if folder.is_relative_to(top)]
        found += [(folder, files) for folder in (own, *above)]
    return found


def _left_of_group(folder: Path, files: _Files) -> float:
    limit = _number(folder / files.limit)
    if limit is None or limit >= _NO_LIMIT:
        return math.inf
    left = limit - (_number(folder / files.used) or 0) - _margin(limit)
    return left if left > 0 else left + _cached(folder, files)


def _cached(folder: Path, files: _Files) -> int:
    lines = (line.split() for line in _text(folder / "memory.stat").splitlines())
    return sum(int(line[1]) for line in lines if line[0] in files.cached)


def _margin(limit: int) -> int:
    return min(limit // _SHARE, _MOST)


def _number(file: Path) -> int | None:
    text = _text(file).strip()
    return int(text) if text.isdigit() else None


def _text(file: Path) -> str:
    """Its text; '' where there is no such file, or no more."""
    try:
        return file.read_text(encoding="ascii")
    except OSError:
        return ""
