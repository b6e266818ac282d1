"""A machine for a test: Debian made by debootstrap, started with its systemd by systemd-nspawn.

It has no network but its own loopback. Needs root, and debootstrap and systemd-container of Debian. Debian's
packages are fetched once, into `.tox/debian-base`; each machine is a copy of that.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
BASE: Final = ROOT / ".tox" / "debian-base"
RELEASE: Final = "bookworm"
INCLUDED: Final = "python3,systemd,init-system-helpers,adduser"
POWER_OFF: Final = signal.SIGRTMIN + 4
SETTLED: Final = ("running", "degraded")
"""States of systemd after its start; a container's is often degraded: some of Debian's units do not fit."""


def base() -> Path:
    """Debian with Python and systemd, and nothing else."""
    if not BASE.exists():
        making = BASE.with_name(f"{BASE.name}.making")
        shutil.rmtree(making, ignore_errors=True)
        words = ["debootstrap", "--variant=minbase", f"--include={INCLUDED}", RELEASE, str(making)]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        making.rename(BASE)
    return BASE


class Machine:
    """One copy of the base, that runs between `start` and `stop`."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "root"
        subprocess.run(["cp", "-a", "--reflink=auto", str(base()), str(self.root)], check=True)
        self.log = folder / "console.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._leader = 0

    def start(self) -> None:
        words = ["systemd-nspawn", "--quiet", "--boot", "--private-network", "--register=no", "--keep-unit"]
        words += ["--directory", str(self.root), "--machine", f"sapwood-{os.getpid()}"]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._wait(lambda: self._find_leader() and self._systemd() in SETTLED)

    def stop(self) -> None:
        if self._process is not None:
            if self._leader:
                os.kill(self._leader, POWER_OFF)
            try:
                self._process.wait(60)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def run(self, *words: str) -> str:
        """What a command in the machine prints; one that fails fails the test, with all that it said."""
        done = self.tried(*words)
        assert done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def tried(self, *words: str) -> subprocess.CompletedProcess[str]:
        inside = [
            "nsenter",
            "--all",
            "--target",
            str(self._leader),
            "--",
            "/usr/bin/env",
            "-i",
            f"PATH={PATH}",
        ]
        return subprocess.run([*inside, *words], capture_output=True, text=True, timeout=300)

    def brought(self, file: Path) -> str:
        """The place in the machine of a copy of this file."""
        shutil.copy(file, self.root / "var" / "tmp")
        return f"/var/tmp/{file.name}"

    def until(self, *words: str) -> str:
        """As `run`, again and again until it succeeds: for what a node does some time after its start."""
        self._wait(lambda: self.tried(*words).returncode == 0)
        return self.run(*words)

    def _systemd(self) -> str:
        return self.tried("systemctl", "is-system-running").stdout.strip()

    def _find_leader(self) -> bool:
        """The process below nspawn that is number 1 in a namespace of its own."""
        assert self._process is not None
        assert self._process.poll() is None, self.log.read_text(errors="replace")
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        for child in children:
            status = Path(f"/proc/{child}/status").read_text()
            if any(line.startswith("NSpid:") and line.split()[-1] == "1" for line in status.splitlines()):
                self._leader = int(child)
                return True
        return False

    def _wait(self, happened: Callable[[], object]) -> None:
        end = time.monotonic() + 240
        while not happened():
            assert time.monotonic() < end, self.log.read_text(errors="replace")
            time.sleep(0.5)


PATH: Final = "/usr/sbin:/usr/bin:/sbin:/bin"
