"""The process as the kernel sees it, under the names that every Prometheus client uses.

Linux only; elsewhere there are fewer of them.
"""

import os
import platform
import resource
import sys
from pathlib import Path

from broker import memory
from broker.metrics.exposition import Family, counter, gauge

_FILES = Path("/proc/self/fd")


def families(started_at: float) -> list[Family]:
    """`started_at`: seconds since 1970."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    found = [
        gauge("process_start_time_seconds", "When the process started, in seconds since 1970.").add(
            started_at
        ),
        counter("process_cpu_seconds", "Processor time used, by the process and for it.").add(
            round(usage.ru_utime + usage.ru_stime, 6)
        ),
        gauge("process_max_fds", "Most files and sockets that the process may have open.").add(
            resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        ),
    ]
    for name, text, value in (
        ("process_resident_memory_bytes", "Memory that the process has in use.", memory.resident()),
        ("process_open_fds", "Files and sockets that are open.", _open_files()),
    ):
        if value is not None:
            found.append(gauge(name, text).add(value))
    return found


def build(version: str) -> dict[str, str]:
    """What this program is made of."""
    return {
        "version": version,
        "python": platform.python_version(),
        "implementation": sys.implementation.name,
    }


def _open_files() -> int | None:
    try:
        return len(os.listdir(_FILES))
    except OSError:
        return None
