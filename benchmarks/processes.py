"""Processes of a benchmark: started, measured through /proc, and ended by their id.

Law: what is started here ends here: `Processes` stops everything when its context ends, whatever happened.
Figures: CPU seconds are user + system of the process and all its threads; memory is the resident set.
"""

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self, TypeVar

ROOT: Final = Path(__file__).resolve().parent.parent
PATIENCE: Final = 180.0
"""Seconds that a benchmark waits for what it starts, on a machine that does other things too."""
_POLL: Final = 0.05
_STOP_TIME: Final = 15.0
Found = TypeVar("Found")


class BenchmarkFailed(Exception):
    """Something was not reached in time, or ended early; the text says what."""


def cpu_seconds(pid: int) -> float:
    """CPU seconds of a process so far, by the clock that Linux keeps for each: clock_getcpuclockid(3).

    Raises OSError where there is no such process.
    """
    return time.clock_gettime((~pid << 3) | 2)


class Process:
    """One child. It talks, where it talks, in lines of JSON on its standard output."""

    def __init__(self, name: str, popen: "subprocess.Popen[str]", log: Path) -> None:
        self.name = name
        self.popen = popen
        self.log = log
        self._last_cpu = 0.0
        self._told_to_stop = False

    def __repr__(self) -> str:
        return f"<Process {self.name} pid={self.popen.pid}>"

    @property
    def pid(self) -> int:
        return self.popen.pid

    @property
    def running(self) -> bool:
        return self.popen.poll() is None

    def cpu(self) -> float:
        """CPU seconds so far; the last known ones after the end."""
        with contextlib.suppress(OSError):
            self._last_cpu = max(self._last_cpu, cpu_seconds(self.pid))
        return self._last_cpu

    def memory(self) -> int:
        """Resident bytes."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise BenchmarkFailed(f"{self.name} has ended: {self.tail()}")

    def tell(self, **command: Any) -> None:
        """Give it one line of JSON."""
        assert self.popen.stdin is not None
        self.popen.stdin.write(json.dumps(command) + "\n")
        self.popen.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """The next line of JSON that it says. Blocks; a watchdog of the caller's bounds it."""
        assert self.popen.stdout is not None
        line = self.popen.stdout.readline()
        if not line:
            raise BenchmarkFailed(f"{self.name} ended without an answer: {self.tail()}")
        return dict(json.loads(line))

    def ask(self, **command: Any) -> dict[str, Any]:
        self.tell(**command)
        return self.answer()

    def tail(self) -> str:
        """The last lines of its log."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return "\n".join(lines[-12:])

    def kill(self) -> None:
        """SIGKILL, and wait."""
        self.popen.kill()
        self.popen.wait()
        self._close()

    def _close(self) -> None:
        for pipe in (self.popen.stdin, self.popen.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def tell_to_stop(self) -> None:
        """SIGTERM, once: a second one would find the handler gone and cut the goodbye short."""
        if self.running and not self._told_to_stop:
            self._told_to_stop = True
            self.popen.send_signal(signal.SIGTERM)

    def stop(self) -> int:
        """Tell it to stop, wait, and return the exit code."""
        self.cpu()
        self.tell_to_stop()
        try:
            return self.popen.wait(_STOP_TIME)
        except subprocess.TimeoutExpired:
            self.kill()
            return -signal.SIGKILL
        finally:
            self._close()


class Processes:
    """All children of one benchmark. `directory`: where their logs go."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._all: list[Process] = []

    def __repr__(self) -> str:
        return f"<Processes {[process.name for process in self._all if process.running]}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        for process in self._all:
            process.tell_to_stop()
        for process in self._all:
            process.stop()

    def start(self, name: str, command: Sequence[str]) -> Process:
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        return self.begun(
            name,
            lambda errors: subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                bufsize=1,
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": path},
            ),
        )

    def begun(self, name: str, begin: Callable[[IO[bytes]], "subprocess.Popen[str]"]) -> Process:
        """A process that `begin` starts, given the file for its errors."""
        log = self._directory / f"{name}.log"
        with log.open("ab") as errors:
            process = Process(name, begin(errors), log)
        self._all.append(process)
        return process

    def python(self, name: str, module: str, *arguments: str) -> Process:
        """A module of ours, as a process."""
        return self.start(name, [sys.executable, "-m", module, *arguments])


def until(what: str, found: Callable[[], Found | None], seconds: float, poll: float = _POLL) -> Found:
    """Wait for something to be found; `BenchmarkFailed` after `seconds`."""
    end = time.monotonic() + seconds
    while True:
        result = found()
        if result:
            return result
        if time.monotonic() > end:
            raise BenchmarkFailed(f"{what}: not within {seconds:g} s")
        time.sleep(poll)


def get_json(url: str, timeout: float = 10.0) -> dict[str, Any] | None:
    """What a local HTTP server answers; None if it does not."""
    try:
        with urllib.request.urlopen(url, timeout=timeout) as response:
            return dict(json.load(response))
    except (OSError, ValueError):
        return None


def free_port() -> int:
    """A port that nobody listens on now."""
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def raise_file_limit() -> int:
    """As many open files as this user may have."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def machine() -> dict[str, Any]:
    """What the figures were measured on, and how busy it was."""
    return {
        "cores": os.cpu_count(),
        "python": sys.version.split()[0],
        "load": [round(load, 2) for load in os.getloadavg()],
        "fsync_ms": round(_fsync() * 1000, 3),
    }


def _fsync(rounds: int = 50) -> float:
    """Median seconds of writing 64 KiB and waiting until it is on the disk of the temporary folder."""
    import tempfile

    data, times = os.urandom(65536), []
    with tempfile.TemporaryFile() as file:
        file.write(bytes(4 << 20))
        os.fsync(file.fileno())
        for turn in range(rounds):
            start = time.perf_counter()
            os.pwrite(file.fileno(), data, turn % 60 * 65536)
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - start)
    return sorted(times)[rounds // 2]


def line_bytes(child: int, port: int) -> int:
    """Bytes that connections of the process `child` to `port` have carried, both directions together.

    Read from the kernel (`ss`, TCP_INFO): what TCP carried and was acknowledged, without IP and TCP headers.
    """
    shown = subprocess.run(
        ["ss", "-tinpHO", "state", "established", "dport", "=", f":{port}"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    ours = [line for line in shown.splitlines() if f"pid={child}," in line]
    words = (word.partition(":") for line in ours for word in line.split())
    return sum(int(value) for name, _, value in words if name in ("bytes_acked", "bytes_received"))
